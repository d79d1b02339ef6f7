//! Simulated sessions of several connections (MC/S, RFC 7143 §4.2.2).
//!
//! Commands arrive out of order. Connections are cut, fall silent, are logged out and come again,
//! and task management happens meanwhile.
//!
//! The initiator spreads its commands over one to four connections and recovers from a lost
//! connection within error recovery level 0. These rules hold whatever happens:
//!
//! - Commands begin in CmdSN order without gaps, except for commands that a task management
//!   function was asked to abort.
//! - Each command is answered once, on its connection, after it was performed; or it is aborted, or
//!   lost with its connection. No command begins or is performed twice, or after the initiator was
//!   told that it is over.
//! - A function aborts the commands that were sent before it, and nothing else.
//! - ExpCmdSN and MaxCmdSN never go back, and StatSN has no gaps.
//! - Acknowledged writes stay; reads return the bytes that were written.
//! - Everything ends. If commands wait for a command that nobody sends any more, the target does
//!   not let the session wait for ever.

pub mod initiator;
pub mod ledger;
pub mod target;
pub mod unit;
pub mod wire;
pub mod world;

pub use world::{Climate, Report, run};
