//! Data integrity under kills, cuts and power failures: several sessions write, read, unmap, repeat and
//! compare-and-write the same blocks, and a model says for each block what may be found there.
//!
//! A failure prints its seed; `SANDSTONE_SEED=<seed>` runs that one alone.

// A test that cannot go on is a test that failed.
#![allow(clippy::unwrap_used)]

mod alua_state;
mod attack_10_exhaustion;
mod attack_3_stalled_logins;
mod attack_7_copy_outside_the_view;
mod attack_9_lun_used_again;
mod changed_maps;
mod closed_at_once;
mod command_window;
mod content;
mod copies_and_aborts;
mod data_that_never_comes;
mod deleted_unit;
mod fencing;
mod ipv6;
mod kill;
mod late_abort;
mod late_write;
mod long_commands;
mod lost_preemption;
mod lost_writes;
mod memory;
mod model;
mod pointed_elsewhere;
mod power_cut;
mod prefetch;
mod process;
mod queued_data;
mod random;
mod refused_attribute;
mod refused_change;
mod restart;
mod sanitize_and_changes;
mod served;
mod session;
mod session_end;
mod shrunk_device;
mod slow_answers;
mod spread_sessions;
mod task_functions;
mod task_set_type;
mod tries_at_once;
mod two_protocols;
mod volatile_disk;
mod working_memory;
mod workload;
mod write_cache;
