//! Devices beside the vdevs of blocks, and the labels of all: logs, caches, spares, failures.

pub(super) mod cache_vdevs;
pub(super) mod caches;
pub(super) mod disk_access;
pub(super) mod disks;
pub(super) mod failures;
pub(super) mod inner_labels;
pub(super) mod label_rounds;
pub(crate) mod label_writes;
pub(super) mod log_vdevs;
pub(super) mod logs;
pub(super) mod spares;
pub(super) mod tending;
