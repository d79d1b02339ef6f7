//! Commands as initiators send them: CDB and parameter lists in; status, sense and data out.

mod extended_copy;
mod harness;
mod persistent_reserve;
mod reports;
mod target_port_groups;
mod token;
