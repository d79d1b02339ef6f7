//! Room: what is in use, promised and free, on the devices, in the manifest and in the labels.

pub(super) mod admission;
pub(super) mod label_room;
pub(super) mod manifest_room;
pub(super) mod promises;
pub(super) mod usage;
