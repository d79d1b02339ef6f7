//! The initiator: the other end of the wire, in user space.

pub mod connection;
pub mod self_test;
