//! I_T nexus: a pair of an initiator port and a target port (SAM-5 4.7).

pub(super) mod lost_nexuses;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Process-wide number of an I_T nexus, never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NexusId(pub u64);

impl NexusId {
    /// Returns a number that this process has not used before.
    pub fn unused() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(LAST.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

/// Initiator port: for iSCSI the name and the ISID (RFC 7143 4.4.1). Persistent reservations belong
/// to it, so equal values are one initiator port in the sense of SPC-4.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InitiatorPort {
    /// The iSCSI name.
    pub name: String,
    /// Initiator session id.
    pub isid: [u8; 6],
}

/// Target port: for iSCSI the target name and the portal group tag.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TargetPort {
    /// The iSCSI name of the target.
    pub name: String,
    /// Target portal group tag.
    pub portal_group_tag: u16,
    /// Relative target port identifier (SPC-4 7.8.6.5), unique in the device, stable.
    pub relative_port_id: u16,
    /// Target port group (ALUA) to which this port belongs.
    pub target_port_group: u16,
}

/// One I_T nexus, which lives as long as the session.
#[derive(Clone, Debug)]
pub struct Nexus {
    /// Number of the nexus.
    pub id: NexusId,
    /// Initiator port of the nexus.
    pub initiator: Arc<InitiatorPort>,
    /// Target port of the nexus.
    pub target_port: Arc<TargetPort>,
}
