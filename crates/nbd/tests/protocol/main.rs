//! The protocol of the server, and what hostile clients send.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on failed")]

mod handshake;
mod harness;
mod hostile_client;
mod transmission;
