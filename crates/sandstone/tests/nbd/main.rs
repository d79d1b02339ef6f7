//! The NBD server over real sockets: in this process with devices that are slow or broken, and as
//! `initiator attach` the way users run it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on failed")]

mod attach;
mod client;
mod fence;
mod server;
