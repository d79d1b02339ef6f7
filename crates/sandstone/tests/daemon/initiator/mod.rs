//! Initiator against the real daemon, and against targets that break the rules.
//!
//! The tests cover every request of a block device, many paths, and paths that are cut, silent,
//! restored.

mod alua;
mod bench;
mod cleared_commands;
mod driver;
mod failover;
pub(crate) mod fake_target;
mod hostile;
mod lost_writes;
pub(crate) mod proxy;
mod requests;
mod unanswered;
mod units;
