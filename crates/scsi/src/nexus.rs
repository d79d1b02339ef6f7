//! The I_T nexus: which initiator port talks through which target port (SAM-5 4.7).

use std::sync::Arc;

/// A process-wide number of an I_T nexus, never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NexusId(pub u64);

/// An initiator port: for iSCSI the name and the ISID (RFC 7143 4.4.1). Persistent reservations
/// belong to it, so equality is what SPC-4 calls "the same initiator port".
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InitiatorPort {
    /// The iSCSI name.
    pub name: String,
    /// The initiator session id.
    pub isid: [u8; 6],
}

/// A target port: for iSCSI the target name and the portal group tag.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TargetPort {
    /// The iSCSI name of the target.
    pub name: String,
    /// The target portal group tag.
    pub portal_group_tag: u16,
    /// The relative target port identifier (SPC-4 7.8.6.5), unique in the device, stable.
    pub relative_port_id: u16,
    /// The target port group (ALUA) this port belongs to.
    pub target_port_group: u16,
}

/// One I_T nexus. Lives as long as the session.
#[derive(Clone, Debug)]
pub struct Nexus {
    /// Its number.
    pub id: NexusId,
    /// Who asks.
    pub initiator: Arc<InitiatorPort>,
    /// Through which port.
    pub target_port: Arc<TargetPort>,
}
