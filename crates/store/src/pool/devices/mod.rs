//! Devices beside the vdevs of blocks, and the labels of all: logs, caches, spares, failures.

pub(super) mod cache_vdevs;
pub(super) mod failures;
pub(super) mod inner_labels;
pub(crate) mod label_writes;
pub(super) mod log_vdevs;
pub(super) mod spares;
