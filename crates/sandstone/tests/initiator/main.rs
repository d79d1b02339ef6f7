//! The initiator against the real daemon: every request of a block device, many paths, and paths that
//! are cut, silent, restored; and against targets that break the rules.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod driver;
mod failover;
mod fake_target;
mod hostile;
mod proxy;
mod requests;
#[path = "../served/mod.rs"]
mod served;
mod unanswered;
mod units;
