//! Commands as initiators send them: CDB and parameter lists in; status, sense and data out.

mod harness;
mod persistent_reserve;
mod reports;
mod target_port_groups;
