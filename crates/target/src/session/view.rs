//! The view of one session: its logical units by LUN.

use std::collections::BTreeMap;
use std::sync::Arc;

use iscsi::lun;
use scsi::itl_nexus::ItlNexus;
use scsi::view::{Identity, TargetView};

use unit::nexus::MappedUnit;
use unit::shape::IDENTITY;

/// LUN below which units are found by an array index.
const DIRECT: u16 = 256;

/// Logical units of one session.
#[derive(Debug, Default)]
pub(crate) struct View {
    direct: Vec<Option<Arc<MappedUnit>>>,
    others: BTreeMap<u16, Arc<MappedUnit>>,
}

impl View {
    /// Returns the unit that the wire's eight bytes of LUN name (SAM-5 4.6), if it is mapped.
    #[inline]
    pub(crate) fn find(&self, wire_lun: u64) -> Option<&Arc<MappedUnit>> {
        let lun = lun::from_wire(wire_lun)?;
        if lun < DIRECT {
            self.direct.get(usize::from(lun))?.as_ref()
        } else {
            self.others.get(&lun)
        }
    }

    /// Maps a unit.
    pub(crate) fn insert(&mut self, mapped: Arc<MappedUnit>) {
        let lun = mapped.lun;
        if lun >= DIRECT {
            self.others.insert(lun, mapped);
            return;
        }
        let at = usize::from(lun);
        if self.direct.len() <= at {
            self.direct.resize(at + 1, None);
        }
        self.direct[at] = Some(mapped);
    }

    /// Returns all mapped units, ascending by LUN.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<MappedUnit>> {
        self.direct.iter().flatten().chain(self.others.values())
    }
}

impl TargetView for View {
    fn luns(&self) -> Vec<u64> {
        self.iter().map(|mapped| lun::to_wire(mapped.lun)).collect()
    }

    fn identity(&self) -> Identity {
        IDENTITY
    }

    fn itl_nexuses(&self) -> Vec<Arc<ItlNexus>> {
        self.iter().map(|mapped| mapped.itl.clone()).collect()
    }

    fn by_naa(&self, naa: &[u8]) -> Option<Arc<ItlNexus>> {
        self.iter()
            .find(|mapped| mapped.itl.unit().config().naa == naa)
            .map(|mapped| mapped.itl.clone())
    }
}
