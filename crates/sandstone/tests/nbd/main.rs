//! NBD server over real sockets: in this process with slow or broken devices, and as `initiator
//! attach`.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on failed")]

mod attach;
mod client;
mod fence;
mod server;
