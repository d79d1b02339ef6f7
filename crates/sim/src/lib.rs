//! Deterministic simulation: our initiators against our target over a network and a clock that exist only
//! here, and the store on disks that lie and lose their power.
//!
//! The leaf crates take bytes and time as arguments, so a whole storage network runs in one thread and
//! one seed decides everything: how bytes are cut and delayed, when a connection breaks or goes silent,
//! when a disk answers. A failure is repeated by its seed, to the byte.
//!
//! | what | where |
//! |---|---|
//! | the clock and what happens next | [`schedule`] |
//! | delays, fragments, cuts, silence | [`network`] |
//! | logical unit over memory that answers late | [`device`] |
//! | target: logins, sessions, pings | [`target`] |
//! | initiator: logins, commands, retries, pings | [`initiator`] |
//! | all of it, and the model that judges | [`world`] |
//! | disks that tear, lie, rot, vanish | [`disk`] |
//!
//! # What is checked
//! - Every command ends exactly once in its session, or is given back when the session is lost, and all
//!   end in the end.
//! - What is read is what was written.
//! - Commands reach the device server in the order in which they were sent, without gaps, and never
//!   more than the command window allows.
//! - A peer that went silent is noticed in time, one that is only slow is not given up.

// A simulation that finds the protocol broken says so by a panic.
#![allow(clippy::unwrap_used)]

pub mod device;
pub mod disk;
pub mod initiator;
pub mod network;
pub mod random;
pub mod schedule;
pub mod target;
pub mod world;
