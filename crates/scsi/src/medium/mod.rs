//! Properties of a unit's medium: ranges of blocks, failures, readiness, thin provisioning and
//! counts.

pub(super) mod block_error;
pub mod range;
pub(super) mod readiness;
pub mod statistics;
pub mod thin_provisioning;
