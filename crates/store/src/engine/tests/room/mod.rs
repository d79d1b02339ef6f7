//! Space: what is in use, reserved, free, and enough.

pub(super) mod full;
pub(super) mod manifest_room;
pub(super) mod reservations;
pub(super) mod sizes;
pub(super) mod sparse;
pub(super) mod usage;
