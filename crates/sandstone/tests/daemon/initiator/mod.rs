//! The initiator against the real daemon: every request of a block device, many paths, and paths that
//! are cut, silent, restored; and against targets that break the rules.

mod alua;
mod bench;
mod driver;
mod failover;
pub(crate) mod fake_target;
mod hostile;
mod lost_writes;
pub(crate) mod proxy;
mod requests;
mod unanswered;
mod units;
