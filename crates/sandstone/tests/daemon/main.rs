//! Whole daemons, reached as their users reach them: over iSCSI, by the command line, by iSNS.
//!
//! One program holds all of these tests, since each would link all of Sandstone.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on is a test that failed"
)]

mod advice;
mod alert_ways;
mod alerts;
mod backup;
mod completion;
mod demo;
mod duplicate_backing;
mod events;
mod figures;
mod full_disk;
mod guide;
mod health;
mod hindrances;
mod hosts;
mod initiator;
mod isns;
mod live_sessions;
mod pools;
mod process;
mod raw_wire;
mod reinstatement;
mod served;
mod service;
mod small_folder;
mod state_folder;
mod taken_portal;
mod units;
mod volumes;
mod watchdog;
