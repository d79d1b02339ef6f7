//! Data integrity under kills, cuts and power failures.
//!
//! Several sessions write, read, unmap, repeat and compare-and-write blocks that they share. A
//! model says for each block which content may be found.
//!
//! A failure prints its seed; `SANDSTONE_SEED=<seed>` runs that one alone.

// A test that cannot go on has failed.
#![allow(clippy::unwrap_used)]

mod alua_state;
mod attacks;
mod changes;
mod closed_at_once;
mod command_window;
mod copies_and_aborts;
mod data_that_never_comes;
mod ipv6;
mod long_commands;
mod losses;
mod memory;
mod prefetch;
mod queued_data;
mod rig;
mod session_end;
mod slow_answers;
mod spread_sessions;
mod stages;
mod task_functions;
mod task_set_type;
mod tries_at_once;
mod two_protocols;
mod working_memory;
