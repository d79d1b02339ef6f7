//! Deterministic simulation. The product's initiator and simulated ones meet its target over a
//! network and a clock that exist only here. The store runs on disks that lie and lose their power.
//!
//! The cores take bytes and time as arguments, and the event loops of the crate `target` read a
//! clock that can be set. So a whole storage network runs in one thread, and one seed decides
//! everything: how bytes are cut and delayed, when a connection breaks or goes silent, when a disk
//! answers, and which event loop turns next. A failure is repeated by its seed, to the byte.
//!
//! | part | module |
//! |---|---|
//! | the clock and the next events | [`schedule`] |
//! | delays, fragments, cuts, silence | [`network`] |
//! | sockets between the network and the event loops | [`cable`] |
//! | disk that answers late, fails, and tells what lands | [`drive`] |
//! | the product's target, its loops turned one by one | [`served`] |
//! | initiator: logins, commands, retries, pings | [`initiator`] |
//! | hosts with paths, an administrator, and the model that judges | [`world`] |
//! | sessions of several connections, with their own initiator and model | [`mcs`] |
//! | the product's store beneath units | [`vault`] |
//! | the product's initiator and multipath over all of this | [`san`] |
//!
//! The crash laboratory is made of these:
//!
//! | part | module |
//! |---|---|
//! | disks that tear, lie, rot, vanish | [`disk`] |
//! | requests to a store, and the interface of a store | [`operation`], [`subject`] |
//! | possible content of its volumes | [`model`] |
//! | events of its life, made from seeds | [`history`] |
//! | runs histories, and shortens those that fail | [`laboratory`] |
//! | the store's pool under attack | [`pool`] |
//! | two hosts at one pool | [`hosts`] |
//!
//! # What is checked of the target
//! - Every command ends exactly once in its session, or is given back when the session is lost. All
//!   commands end at last.
//! - Reads return the written data.
//! - Reads reach the disk in the order in which they were sent.
//! - A peer that went silent is noticed in time. A peer that is only slow is not given up.
//! - The first command of a session is told that its nexus is new, or was lost.
//! - No write lands after its abort was answered, after its session was reinstated, after PREEMPT
//!   AND ABORT of its host, after its target port group has left service, or over a later write of
//!   its host. A disk whose unit was deleted is left alone.
//! - COMPARE AND WRITE finds what it compared when it lands. RESERVE(6) keeps other nexuses out.
//! - Memory never runs out for a session that takes no more than its part.
//!
//! # What is checked of a store
//! - Power cuts may come at any moment, also within an opening. After one, every slice holds its
//!   last durable content or something later. No volume block is torn. No change survives without
//!   the changes before it.
//! - Reads return the last acknowledged content or one in flight with them. Snapshots never change.
//! - A failed change is not acknowledged. Content that an opening found stays. Nothing hangs or
//!   panics.

// A simulation that finds the protocol broken panics.
#![allow(clippy::unwrap_used)]

pub mod cable;
pub mod disk;
pub mod drive;
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
pub mod san;
pub mod schedule;
pub mod served;
pub mod subject;
pub mod vault;
pub mod world;
