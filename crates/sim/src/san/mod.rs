//! A storage network of real initiators: the product's own host adapter with its multipath devices,
//! over the product's own target, on one thread and one clock. A seed decides what networks, disks
//! and hosts do.
//!
//! | part | file |
//! |---|---|
//! | what a seed chooses, and families of worlds | `climate.rs`, `family.rs` |
//! | connections: the hosts' sockets, delays, silence, late remains | `wires.rs` |
//! | a host: adapter, lane, multipath device | `host.rs` |
//! | the target | [`crate::served`] |
//! | the model that judges every answer | `ledger.rs` |
//! | events, faults, and the end | `world.rs` |
//!
//! # What is checked
//! - An old write never lands after a newer one that was acknowledged, on the disk or in what hosts
//!   read.
//! - A read returns the last acknowledged content, or one that was in flight with it.
//! - Every request ends, once, and well: an outage only makes it wait.
//!
//! # What a connection's end means here
//! A host closes a connection so that its kernel sends no more of it. What is already under way may
//! arrive all the same, all of it or a part, much later, and the target need never hear of the end.
//! Only an answer of the target itself says that the old session is over.

mod climate;
mod family;
mod host;
mod ledger;
mod wires;
mod world;

pub use climate::Climate;
pub use family::Family;
pub use world::{Report, run, trace};
