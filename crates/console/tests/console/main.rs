//! The console as browsers meet it: who gets in, what every answer carries, what forms change, and
//! the streams of live figures.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on is a test that failed"
)]

mod benchmarks;
mod chap;
mod entry;
mod every_route;
mod forms;
mod health;
mod live;
mod pages;
mod past;
mod rig;
mod walker;
mod wizards;
mod wizards_with_disks;
