//! Openings: old copies, twins, rewinds, signposts.

pub(super) mod old_copies;
pub(super) mod opening;
pub(super) mod rebuild;
pub(super) mod reguid;
pub(super) mod rewind;
pub(super) mod signposts;
pub(super) mod twins;
