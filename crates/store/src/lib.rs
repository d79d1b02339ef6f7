//! The store: disks make a pool, in which volumes are thin, checksummed, compressed and
//! snapshotted.
//!
//! The engine is sans-IO. It takes requests, completions of the devices and the time. It returns
//! requests for the devices and answers. It owns no file, thread, clock or random source, so every
//! power cut and every misbehaving disk can be simulated from a seed.
//!
//! The modules, from the bottom up:
//!
//! - [`format`] defines every byte on a disk, and [`vdev`] joins disks that hold blocks together.
//! - `map` tells where each block of a volume lies, and `space` tells what is free.
//! - [`catalog`] lists the datasets.
//! - `log` is the format of what a commit writes; `engine/io/commit.rs` makes it durable.
//! - `snapshot` tells which blocks only old states need. `volume` and `stream` build on it.
//! - [`cache`], `compress` and `checksum` stand beside these. [`published`] and [`beside`] serve
//!   readers on other threads.
//! - The [`engine`] is on top. Its `engine/checkpoint.rs` makes the log short.
//!
//! [`engine`] and [`vdev`] begin with tables that say which file answers which question: where a
//! write becomes durable, where a label is written, when destroyed datasets are freed.
//!
//! Only `vdev` speaks to devices. Only the pool's commits and checkpoints order durability.

pub mod beside;
pub mod cache;
pub mod catalog;
pub mod checksum;
pub mod compress;
#[cfg(feature = "counted")]
pub mod counted;
pub mod engine;
pub mod format;
pub mod log;
pub mod map;

pub mod published;
pub mod snapshot;
pub mod space;
pub mod stream;
pub mod vdev;
pub mod volume;

pub use pages;
