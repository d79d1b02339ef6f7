//! Tests of the pool, on disks in memory that answer all requests.

mod activity;
mod basics;
mod checks;
mod datasets;
mod disks;
mod durable;
mod features;
mod foreign_bugs;
mod live_figures;
mod openings;
mod padding;
mod paused_scrubs;
mod prepared;
mod read_ahead;
mod readers;
mod room;
mod scans;
mod second_copies;
mod slow_reads;
mod slow_writes;
mod streams;
mod world;
