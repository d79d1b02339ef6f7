//! A logical unit offered over NBD: `initiator attach` runs it around an open device.
//!
//! The protocol itself is the sans-IO crate [`nbd`]. Here are its sockets and its way to the unit:
//! - [`listener`]: unix and TCP sockets; stale socket files are recognised, live ones respected;
//! - [`stream`] and [`tls`]: a socket, with TLS once the client asked for it;
//! - [`connection`]: one client: handshake, requests as they arrive, answers as they leave;
//! - [`operation`]: a request on its way to the unit and its outcome on the way back;
//! - [`output`]: answers in order, data by reference to its pages;
//! - [`fence`]: who is here waits for what is left of those who are gone;
//! - [`event_loop`]: a thread with its connections and its [`Lane`];
//! - [`server`]: the threads together, from start to orderly end.
//!
//! # The unit
//! Each connection is a nexus of the unit. Reservations, write protection, readiness, range locks
//! and statistics are the unit's own ([`unit::execution`]), so they hold beside any other protocol.
//! A reservation of another initiator and write protection are answered with EPERM; a unit that is
//! offline, stopped or being sanitized with EIO. NBD has no word for unit attentions: none is told.
//! A reset of the unit, and its end, wait for the requests that are under way ([`unit::drain`]).
//!
//! # Invariants
//! - An answer leaves after the device's own: FUA and FLUSH mean durable, on all connections at
//!   once.
//! - Data in flight is taken from a budget before it is received or read; a connection that gets
//!   none is not read until some is free.
//! - What a connection that is gone has sent is performed or dropped, whether it is at the device,
//!   held here or unread in the socket, before requests of a newer connection and changes of any
//!   other begin: what a client sends again cannot be overwritten by what it sent before.
//! - What comes whole before a DISC is performed, also where nobody takes its answers any more.

mod connection;
mod event_loop;
mod fence;
mod listener;
mod operation;
mod output;
mod server;
mod stream;
mod tls;

pub use listener::{Endpoint, ListenError};
pub use server::{Loops, Server, ServerOptions, StartError};
pub use tls::{TlsError, TlsOptions};

use nbd::Export;

use block::Geometry;

/// Describes a device for the protocol.
fn export(geometry: &Geometry, name: &str, description: &str, read_only: bool) -> Export {
    let minimum = geometry.granularity;
    let preferred = geometry.physical.max(4096).next_power_of_two();
    Export {
        name: name.to_owned(),
        description: description.to_owned(),
        read_only,
        preferred_block: preferred.max(minimum),
        can_trim: geometry.thin && geometry.discard > 0,
        can_zero_fast: geometry.thin && geometry.discard > 0,
        ..Export::new(geometry.len, minimum)
    }
}
