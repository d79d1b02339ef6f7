//! Devices and vdevs: added, replaced, spared, trimmed, worn.

pub(super) mod cache_choice;
pub(super) mod cache_vdevs;
pub(super) mod growth;
pub(super) mod log_vdevs;
pub(super) mod spares;
pub(super) mod trims;
pub(super) mod vdevs;
pub(super) mod worn;
