//! Changes of the configuration under running commands.

pub(super) mod changed_maps;
pub(super) mod deleted_unit;
pub(super) mod pointed_elsewhere;
pub(super) mod refused_attribute;
pub(super) mod refused_change;
pub(super) mod sanitize_and_changes;
