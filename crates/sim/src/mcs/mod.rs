//! Sessions of several connections (MC/S, RFC 7143 §4.2.2), simulated: commands that arrive out of order,
//! connections that are cut, fall silent, are logged out and come again, and task management between all that.
//!
//! The initiator spreads what it sends over one to four connections and recovers from a lost one as error
//! recovery level 0 lets it. What must hold whatever happens:
//!
//! - Commands begin in CmdSN order without gaps, but for those that a task management function was asked to abort.
//! - Each is answered once, on its connection, after it was performed; or aborted, or lost with its connection.
//!   None begins or is performed twice, or after the initiator was told that it is over.
//! - A function aborts what was sent before it, and nothing else.
//! - ExpCmdSN and MaxCmdSN never go back, StatSN has no gaps.
//! - What was acknowledged stays; reads return what was written.
//! - All ends: a session where commands wait for one that nobody sends any more is not left to wait for ever.

pub mod initiator;
pub mod ledger;
pub mod target;
pub mod unit;
pub mod wire;
pub mod world;

pub use world::{Climate, Report, run};
