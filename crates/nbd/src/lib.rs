//! The NBD protocol without sockets, the server's side: bytes in; requests, and bytes out.
//!
//! The standard is `doc/proto.md` of the NBD project, its baseline and all that it asks of a server for
//! "maximum interoperability", with its extension `EXTENDED_HEADERS`. A connection lives twice:
//! 1. [`handshake::Handshake`] agrees on TLS, the export, the style of replies and metadata contexts;
//! 2. [`transmission::Transmission`] cuts what the client sends into requests that were checked against
//!    the export, and [`reply::Replies`] writes the answers in the style that was agreed.
//!
//! # Invariants
//! - Nothing here owns data: the payload of a write passes through as slices of the input, or is read
//!   by the caller straight into its place.
//! - What a client makes grow is bounded before it grows: option data, names, contexts, options.
//! - A [`request::Request`] that comes out lies inside the export and on its granularity, is allowed
//!   on it, and carries only flags that mean something there.
//! - The same bytes mean the same however they are cut.

pub mod export;
pub mod handshake;
mod option;
pub mod reply;
pub mod request;
pub mod transmission;
pub mod wire;

pub use export::Export;
