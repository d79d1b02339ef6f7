//! Health of the daemon: alerts that are open, the ways out of them, and events.

pub(crate) mod alert;
pub(crate) mod events;
