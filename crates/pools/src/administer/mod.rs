//! Administration of open pools: creation, vdevs, properties, scans, checks, salvage.

pub mod check;
pub(super) mod create;
pub(super) mod history;
pub(super) mod new_devices;
pub(super) mod properties;
pub mod rebuild_labels;
pub(super) mod rebuilding;
pub mod salvage;
pub(super) mod scan;
pub(super) mod trim;
pub(super) mod upgrade;
pub(super) mod vdev_request;
pub(super) mod vdevs;
