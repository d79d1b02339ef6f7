//! The store: disks make a pool, in which volumes are thin, checksummed, compressed and snapshotted.
//!
//! Sans-IO: the engine takes requests, completions of the devices and the time, and returns requests
//! for the devices and answers. It owns no file, thread, clock or random source, so that every power
//! cut and every misbehaving disk can be simulated from a seed.
//!
//! Who stands on whom, from the bottom: [`format`] (every byte on a disk) and [`vdev`] (disks that
//! hold blocks together); `map` (which block of a volume lies where) and `space` (what is free);
//! [`catalog`] (which datasets there are); `log` (what makes a write durable); `snapshot` (which blocks
//! only old states need), `volume` and `stream`; [`cache`], `compress` and `checksum` beside them; the
//! [`pool`] on top, whose `pool/checkpoint.rs` makes the log short. Only `vdev` speaks to devices; only
//! the pool's commits and checkpoints order durability.

pub mod cache;
pub mod catalog;
pub mod checksum;
pub mod compress;
pub mod format;
pub mod log;
pub mod map;
pub mod pool;
pub mod snapshot;
pub mod space;
pub mod stream;
pub mod vdev;
pub mod volume;

pub use pages;
