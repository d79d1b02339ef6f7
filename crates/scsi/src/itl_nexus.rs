//! The I_T_L nexus: one initiator port's relation to one logical unit (SAM-5 4.7).

/// One initiator port's relation to one logical unit.
#[derive(Debug)]
pub struct ItlNexus {}
