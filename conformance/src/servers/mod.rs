//! Servers under test, and what stands before them.

pub(super) mod path_proxy;
pub(super) mod sandstone_daemon;
pub(super) mod server;
pub(super) mod tgt;
