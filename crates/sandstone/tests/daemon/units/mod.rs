//! Logical units as initiators see them: limits, caches, SANITIZE.

pub(super) mod data_out_length;
pub(super) mod known_sectors;
pub(super) mod no_unit;
pub(super) mod queue_error;
pub(super) mod sanitize;
pub(super) mod saved_write_cache;
pub(super) mod transfer_lengths;
pub(super) mod unit_changes;
