//! The other side of the device server: commands that an application client sends, and readers of
//! the answers.
//!
//! This module does no I/O, as the rest of the crate. It gives out command descriptor blocks, and
//! takes in parameter data and sense data.

pub mod cdb;
pub mod identification;
pub mod probe;
pub mod report_luns;
pub mod reserving;
pub mod sense;
pub mod shape;
pub mod target_port_groups;
