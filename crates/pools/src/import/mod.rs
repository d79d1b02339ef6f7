//! Opening of pools: found on devices, imported, rewound, reopened, and refused.

pub(super) mod damaged;
pub(super) mod drive;
pub(super) mod found;
pub(super) mod multihost;
pub(crate) mod opened_devices;
pub(super) mod opening;
pub(super) mod overlay;
pub(super) mod reguid;
pub(super) mod remembered;
pub(super) mod reopening;
pub(super) mod request;
pub(super) mod returning;
pub(super) mod rewind;
pub(super) mod twins;
pub(super) mod unasked;
