//! The pool on disks in memory that do what they are asked.

mod basics;
mod cache_vdevs;
mod checks;
mod datasets;
mod durable;
mod foreign_bugs;
mod full;
mod log_vdevs;
mod manifest_room;
mod opening;
mod padding;
mod prepared;
mod read_ahead;
mod reservations;
mod rewind;
mod scans;
mod signposts;
mod slow_reads;
mod slow_writes;
mod spares;
mod sparse;
mod streams;
mod usage;
mod vdevs;
mod world;
mod worn;
