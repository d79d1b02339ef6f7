//! View of one initiator port through one target port: the mapped logical units.

use std::sync::Arc;

use crate::itl_nexus::ItlNexus;

/// Set of logical units in one initiator's view.
///
/// The transport's session implements it. The device server uses it for REPORT LUNS and to resolve
/// third-party copy designators. So a command can never reach a unit that is not mapped to its
/// initiator.
pub trait TargetView {
    /// Returns all mapped LUNs, ascending, as 64-bit SAM LUNs (SAM-5 4.6).
    fn luns(&self) -> Vec<u64>;

    /// Returns the identity that answers at a LUN without a unit.
    fn identity(&self) -> Identity;

    /// Returns the nexuses to all mapped units, in any order. A third-party copy takes them along
    /// when it starts, because it learns the units to copy only when its parameter list has come.
    fn itl_nexuses(&self) -> Vec<Arc<ItlNexus>>;

    /// Returns the mapped unit whose designator (NAA, VPD 83h type 3) equals `naa`.
    fn by_naa(&self, naa: &[u8]) -> Option<Arc<ItlNexus>> {
        self.itl_nexuses()
            .into_iter()
            .find(|itl| itl.unit().has_naa(naa))
    }
}

/// Names in INQUIRY data.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    /// T10 VENDOR IDENTIFICATION, at most eight ASCII characters.
    pub vendor: &'static str,
    /// PRODUCT IDENTIFICATION, at most 16.
    pub product: &'static str,
    /// PRODUCT REVISION LEVEL, at most four.
    pub revision: &'static str,
}
