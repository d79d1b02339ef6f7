//! Connections of HTTP, bounded in number, time and memory: what every listener of the daemon that
//! others reach must hold, whatever is served behind it.
//!
//! | question | file |
//! |---|---|
//! | How are connections taken, and when do they end? | `accept.rs` |
//! | Who has how many of them, and who makes room? | `places.rs` |
//! | How is one connection served? | `connection.rs` |
//! | How is a body read whole? | `body.rs` |
//!
//! # Invariants
//! - A new connection gets a place as long as one is idle: the one that rests longest makes room.
//! - One origin never has all places.
//! - Each wait for a peer has an end, except where a handler says that its answer [`MayRest`].

mod accept;
mod body;
mod connection;
mod places;

use std::time::Duration;

pub use accept::{Incoming, accept};
pub use body::{BodyFault, read_whole};
pub use connection::{MayRest, Wire, serve};
pub use places::{Origin, Place};

/// Longest time for a handshake, and for the head of a request beyond the time that a connection
/// may rest. A half head counts as rest, so its connection makes room for others.
pub const HEAD: Duration = Duration::from_secs(10);
/// Longest time for a body that is read whole.
pub const BODY: Duration = Duration::from_secs(60);

/// Bounds of a listener.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Most connections at once.
    pub most: usize,
    /// Most connections of one origin at once.
    pub most_of_origin: usize,
    /// Time without a request after which a connection ends.
    pub idle: Duration,
    /// Longest time for which a peer may take nothing of an answer. It is longer than the silence
    /// of any stream of events.
    pub stall: Duration,
    /// Longest time that answers may take when the listener ends.
    pub last_answers: Duration,
}
