//! Whole daemons, reached as their users reach them: over iSCSI, by the command line, by iSNS.
//!
//! One program holds all of these tests, since each would link all of Sandstone.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on is a test that failed"
)]

mod advice;
mod backup;
mod completion;
mod data_out_length;
mod dataset_names;
mod dataset_order;
mod dataset_sources;
mod datasets;
mod demo;
mod duplicate_backing;
mod full_disk;
mod health;
mod hindrances;
mod hosts;
mod initiator;
mod isns;
mod known_sectors;
mod live_figures;
mod live_sessions;
mod no_unit;
mod pool;
mod pool_administration;
mod pool_check;
mod pool_devices;
mod pool_failing_nodes;
mod pool_fence;
mod pool_growth;
mod pool_iostat;
mod pool_local_disks;
mod pool_logs_and_caches;
mod pool_multihost;
mod pool_over_iscsi;
mod pool_rebuild_labels;
mod pool_returning;
mod pool_rewind;
mod pool_scrub;
mod pool_scrub_pause;
mod pool_trim;
mod pool_twins;
mod pool_under_load;
mod pool_units;
mod process;
mod queue_error;
mod raw_wire;
mod reinstatement;
mod renamed_volumes;
mod sanitize;
mod saved_write_cache;
mod served;
mod service;
mod small_folder;
mod state_folder;
mod stream;
mod stream_clones;
mod stream_names;
mod stream_rest;
mod taken_portal;
mod transfer_lengths;
mod unit_changes;
