//! The other side of the device server: what an application client says and how it reads the answers.
//!
//! As sans-IO as the rest of the crate: command descriptor blocks out, parameter data and sense in.

pub mod cdb;
pub mod identification;
pub mod probe;
pub mod report_luns;
pub mod reserving;
pub mod sense;
pub mod shape;
pub mod target_port_groups;
