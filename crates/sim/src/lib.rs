//! Deterministic simulation of a storage network and of a store on faulty disks.
//!
//! Our initiators run against our target over a network and a clock that exist only in the
//! simulation. The store runs on disks that lie and lose their power.
//!
//! The leaf crates take bytes and time as arguments. A whole storage network therefore runs in one
//! thread, and one seed decides everything: how bytes are cut and delayed, when a connection breaks
//! or goes silent, when a disk answers. The seed repeats a failure to the byte.
//!
//! | part | module |
//! |---|---|
//! | the clock and the queue of events | [`schedule`] |
//! | delays, fragments, cuts, silence | [`network`] |
//! | logical unit over memory that answers late | [`device`] |
//! | target: logins, sessions, pings | [`target`] |
//! | initiator: logins, commands, retries, pings | [`initiator`] |
//! | the whole network, and the model that judges | [`world`] |
//! | sessions of several connections, with their own initiator and model | [`mcs`] |
//!
//! The crash laboratory consists of these modules:
//!
//! | part | module |
//! |---|---|
//! | disks that tear, lie, rot, vanish | [`disk`] |
//! | operations of a store, and the interface of a store | [`operation`], [`subject`] |
//! | allowed contents of the volumes | [`model`] |
//! | events of a run, made from seeds | [`history`] |
//! | runs histories, and shortens those that fail | [`laboratory`] |
//! | the store's pool as the subject | [`pool`] |
//! | two hosts at one pool | [`hosts`] |
//!
//! # Checks of the protocol
//! - Every command ends exactly once in its session, or is given back when the session is lost.
//!   Every command ends at some time.
//! - A read returns the bytes that were written.
//! - Commands reach the device server in the order in which they were sent, without gaps, and never
//!   more than the command window allows.
//! - A peer that went silent is noticed in time. A peer that is only slow is not given up.
//!
//! # Checks of a store
//! - After a power cut, every slice holds the content that was last durable, or a later one. This
//!   holds at any moment and also within an opening. No volume block is torn. No change survives
//!   without the changes that came before it.
//! - Reads return the last acknowledged content, or one in flight with them. Snapshots never
//!   change.
//! - A change that failed is not acknowledged. A change that an opening found stays. Nothing hangs
//!   or panics.

// A simulation that finds the protocol broken reports that with a panic.
#![allow(clippy::unwrap_used)]

pub mod device;
pub mod disk;
pub mod history;
pub mod hosts;
pub mod initiator;
pub mod laboratory;
pub mod mcs;
pub mod model;
pub mod network;
pub mod operation;
pub mod pool;
pub mod random;
pub mod schedule;
pub mod subject;
pub mod target;
pub mod world;
