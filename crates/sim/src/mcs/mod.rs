//! Sessions of several connections (MC/S, RFC 7143 §4.2.2), simulated. Commands arrive out of
//! order; connections are cut, fall silent, are logged out and come again; and task management
//! happens in between.
//!
//! The initiator spreads its requests over one to four connections. It recovers from a lost one as
//! error recovery level 0 allows. These rules must hold whatever happens:
//!
//! - Commands begin in CmdSN order. Reads show it at the disk.
//! - Each command is answered once, on its connection, after it was performed. Or it is aborted, or
//!   lost with its connection. None begins or is performed twice, or after the initiator was told
//!   that it is over.
//! - A function aborts the commands that were sent before it, and nothing else.
//! - ExpCmdSN and MaxCmdSN never go back, and StatSN has no gaps.
//! - Acknowledged writes stay, and reads return the written data.
//! - All ends: if commands wait for one that nobody sends any more, their session is not left to
//!   wait for ever.

pub mod cells;
pub mod initiator;
pub mod ledger;
pub mod wire;
pub mod world;

pub use world::{Climate, Report, run};
