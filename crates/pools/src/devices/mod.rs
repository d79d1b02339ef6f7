//! Devices of pools: how they are found, known again, opened, labelled and lent.

pub mod disks;
pub(super) mod foreign;
pub(super) mod identity;
pub mod inventory;
pub(super) mod known;
pub(super) mod label;
pub(super) mod lent;
pub(super) mod name_watch;
pub(super) mod own_devices;
pub(super) mod system;

/// Smallest size of a device of a pool in bytes, as in zpool.
pub(super) const MIN_DEVICE: u64 = 64 << 20;
