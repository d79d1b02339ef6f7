//! The machine that labs run on: its packages, processes, network, disks and scratch folders.

pub(super) mod loop_disk;
pub(super) mod network;
pub(super) mod packages;
pub(super) mod process;
pub(super) mod python;
pub(super) mod scratch;
