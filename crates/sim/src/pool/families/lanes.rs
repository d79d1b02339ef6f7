//! Families in which lanes read beside the engine, and prepare writes.

use store::vdev::TopLevelKind::{Leaf, Mirror};

use super::{Shape, disk_sectors};
use crate::history::Climate;
use crate::pool::PoolSetup;

/// Shapes whose blocks lie whole on leaves. Others are read by the engine alone.
pub(super) const WHOLE: &[&Shape] = &[
    &[(Leaf, 1)],
    &[(Leaf, 1)],
    &[(Leaf, 1), (Leaf, 1)],
    &[(Mirror, 2)],
    &[(Mirror, 2), (Leaf, 1)],
];

/// Those of them that cover a lost disk.
pub(super) const MIRRORS: &[&Shape] =
    &[&[(Mirror, 2)], &[(Mirror, 3)], &[(Mirror, 2), (Mirror, 2)]];

/// Sets up many reads and changes of few blocks, in pools whose places are soon used again.
pub(super) fn read(setup: &mut PoolSetup, climate: &mut Climate, seed: u64) {
    setup.must_open = true;
    setup.never_suspends = true;
    setup.with_lanes = true;
    // Leaves are published as long as their nodes are in memory.
    setup.limits.node_bytes = setup.limits.node_bytes.max(256 << 10);
    // Every block of a small cache makes room soon, so that reads come to disks.
    setup.cache_bytes = [8 << 10, 64 << 10, 1 << 20][(seed % 3) as usize];
    setup.limits.checkpoint_us = setup.limits.checkpoint_us.min(50_000);
    if seed % 4 < 2 {
        climate.disk_sectors = disk_sectors(1);
        climate.blocks = 16;
        climate.units = vec![1, 2];
    }
    setup.autotrim = seed.is_multiple_of(5);
    climate.behaviour.trim_garbles = setup.autotrim;
    climate.steps = 30..110;
    climate.admin_per_mille = 60;
    climate.crashes_per_mille = 25;
    climate.reads_per_mille = 350;
}
