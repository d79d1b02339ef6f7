//! The initiator against the real daemon: every request of a block device, many paths, and paths that
//! are cut, silent, restored.

mod driver;
mod failover;
mod proxy;
mod requests;
#[path = "../served/mod.rs"]
mod served;
