//! Devices beside the vdevs of blocks, and the labels of all: logs, caches, spares, failures.

pub(crate) mod label_writes;
pub(super) mod cache_vdevs;
pub(super) mod failures;
pub(super) mod inner_labels;
pub(super) mod log_vdevs;
pub(super) mod spares;
