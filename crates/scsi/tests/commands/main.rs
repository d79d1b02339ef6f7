//! Tests of commands as initiators send them: CDB and parameter lists in; status, sense and data
//! out.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on should say where"
)]

mod arbitrary;
mod extended_copy;
mod harness;
mod hindrances;
mod lost_commands;
mod persistent_reserve;
mod reports;
mod reservation_conflicts;
mod retired_unit;
mod target_port_groups;
mod token;
