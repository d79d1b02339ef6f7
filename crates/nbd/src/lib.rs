//! Server's side of the NBD protocol without sockets: bytes in, requests and bytes out.
//!
//! The standard is `doc/proto.md` of the NBD project: its baseline, all that it asks of a server
//! for "maximum interoperability", and its extension `EXTENDED_HEADERS`. A connection has two
//! phases:
//! 1. [`handshake::Handshake`] agrees on TLS, the export, the style of replies and metadata
//!    contexts.
//! 2. [`transmission::Transmission`] cuts the client's bytes into requests that were checked
//!    against the export, and [`reply::Replies`] writes the answers in the agreed style.
//!
//! # Invariants
//! - Nothing here owns data: the payload of a write passes through as slices of the input, or is
//!   read by the caller straight into its place.
//! - Memory that a client can make grow is bounded before it grows: option data, names, contexts,
//!   options.
//! - A [`request::Request`] that comes out lies inside the export and on its granularity, is
//!   allowed on it, and carries only flags that mean something there.
//! - The meaning of the bytes does not depend on the places at which they are cut.

pub mod export;
pub mod handshake;
mod option;
pub mod reply;
pub mod request;
pub mod transmission;
pub mod wire;

pub use export::Export;
