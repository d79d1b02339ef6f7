//! Properties of a unit's medium: ranges of blocks, failures, limits, readiness, thin provisioning
//! and counts.

pub(super) mod block_error;
pub(super) mod limits;
pub mod range;
pub(super) mod readiness;
pub mod statistics;
pub mod thin_provisioning;
pub(super) mod write_through;
