//! The console as browsers meet it: who gets in, what every answer carries, what forms change, and
//! the streams of live figures.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on is a test that failed"
)]

mod entry;
mod every_route;
mod forms;
mod live;
mod pages;
mod rig;
mod walker;
mod wizards;
mod wizards_with_disks;
