//! The console and the API of a real daemon under attack: every form as every author, hostile names
//! everywhere, secrets in everything that is written or answered, and connections that never end.
//!
//! The daemon is a process, so this program links little of Sandstone.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on is a test that failed"
)]

mod benchmarks;
/// Target that follows a script. The tests of the initiator use more of it.
#[allow(dead_code, reason = "part of it is for the tests of the initiator")]
#[path = "../daemon/initiator/fake_target.rs"]
mod fake_target;
mod foreign_array;
mod forms;
mod hostile_names;
mod html;
mod http2_stalls;
mod logins;
mod remote;
mod secrets;
mod site;
mod slow_clients;
