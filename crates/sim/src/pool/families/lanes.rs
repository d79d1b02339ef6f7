//! Families in which lanes read beside the engine, and prepare writes.

use store::vdev::TopLevelKind::{Leaf, Mirror};

use super::{Shape, disk_sectors};
use crate::history::{Climate, History, Step};
use crate::operation::{Admin, Operation};
use crate::pool::PoolSetup;
use crate::random::Random;

/// Shapes whose blocks lie whole on leaves. Others are read by the engine alone.
pub(super) const WHOLE: &[&Shape] = &[
    &[(Leaf, 1)],
    &[(Leaf, 1)],
    &[(Leaf, 1), (Leaf, 1)],
    &[(Mirror, 2)],
    &[(Mirror, 2), (Leaf, 1)],
];

/// Shapes of these that cover a lost disk.
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
    // A place that was freed soon has other bytes.
    setup.autotrim = !seed.is_multiple_of(3);
    climate.behaviour.trim_garbles = setup.autotrim;
    climate.steps = 30..110;
    climate.admin_per_mille = 60;
    climate.crashes_per_mille = 25;
    climate.reads_per_mille = 200;
}

/// Adds bursts of reads and changes. Before each, a checkpoint takes all blocks to their places,
/// and a read lets the engine publish them.
pub(super) fn add_bursts(history: &mut History) {
    let mut random = Random::new(history.seed ^ 0x6275_7273).fork();
    let is_on_volume = |operation: &Operation| {
        matches!(operation, Operation::Read { .. } | Operation::Change { .. })
    };
    let submitted = history.steps.iter().filter_map(|step| match step {
        Step::Submit(operation) if is_on_volume(operation) => Some(operation.clone()),
        _ => None,
    });
    let known: Vec<Operation> = submitted.collect();
    if known.is_empty() {
        return;
    }
    let steps = std::mem::take(&mut history.steps);
    for step in steps {
        history.steps.push(step);
        if random.per_mille(90) {
            add_burst(&mut history.steps, &known, &mut random);
        }
    }
}

fn add_burst(steps: &mut Vec<Step>, known: &[Operation], random: &mut Random) {
    let checkpoint = Step::Submit(Operation::Admin(Admin::Checkpoint));
    steps.extend([checkpoint, Step::Drain]);
    let choose = |random: &mut Random| &known[random.within(0..known.len() as u64) as usize];
    let read = |of: &Operation| match of {
        Operation::Change { volume, slices, .. } => Operation::Read {
            volume: *volume,
            slices: slices.clone(),
        },
        of => of.clone(),
    };
    for _ in 0..2 {
        steps.push(Step::Submit(read(choose(random))));
    }
    steps.push(Step::Drain);
    for _ in 0..random.within(4..16) {
        steps.push(match random.within(0..100) {
            0..55 => Step::Submit(read(choose(random))),
            55..75 => Step::Submit(choose(random).clone()),
            75..80 => Step::Submit(Operation::Admin(Admin::Checkpoint)),
            _ => Step::Advance(random.one_of(&[1, 2, 5, 20])),
        });
    }
}
