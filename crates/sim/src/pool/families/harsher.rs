//! Families with another loss at a power cut ([`Attempt`]): they find errors that a second safety
//! would hide.

use super::{LOGS, disk_sectors, fill, now_and_then};
use crate::history::{Attempt, Climate, History, Step, Trouble};
use crate::operation::{Admin, ChangeKind, Operation, Reshape, SLICES_PER_BLOCK};
use crate::pool::PoolSetup;
use crate::random::Random;

/// Number of sectors of a log vdev whose places are soon used again.
const TINY_LOG: u64 = 24;

/// Sets up disks that go, and come back while another disk is away.
pub(super) fn part(setup: &mut PoolSetup, climate: &mut Climate) {
    setup.without_checksums = true;
    climate.tolerates_errors = true;
    climate.crashes_per_mille = 10;
    climate.admin_per_mille = 20;
    climate.steps = 20..60;
}

/// Sets up log vdevs of few sectors that lose their power (even seeds), or are pulled.
pub(super) fn pull_logs(setup: &mut PoolSetup, climate: &mut Climate, seed: u64) {
    setup.never_suspends = true;
    setup.must_open = is_calm(seed);
    climate.tolerates_errors = !is_calm(seed);
    climate.admin_per_mille = 20;
    climate.steps = 20..60;
    climate.units = vec![1, 2, 4];
    if !seed.is_multiple_of(3) {
        // Changes that log vdevs have promised wait long before the other vdevs have them.
        setup.vdev_limits.async_writes = 1;
        setup.vdev_limits.max_write = 4 << 10;
    }
}

pub(super) fn add_logs(setup: &mut PoolSetup, seed: u64) {
    setup.logs = LOGS[(seed / 2 % 2) as usize].to_vec();
    setup.log_sectors = (seed % 4 < 3).then_some(TINY_LOG);
}

/// Reports whether no log vdev is pulled.
fn is_calm(seed: u64) -> bool {
    seed.is_multiple_of(2)
}

/// Sets up small pools in which freed space is soon written over.
pub(super) fn lose_roots(setup: &mut PoolSetup, climate: &mut Climate, seed: u64) {
    fill(setup, climate, 1 + seed / 4 % 2);
    if !seed.is_multiple_of(4) {
        // The pool has room, and has soon used all of it once.
        climate.fills = false;
        climate.disk_sectors = disk_sectors(1);
        climate.blocks = 12;
        climate.thick_per_mille = 0;
    }
    climate.steps = 20..60;
    climate.admin_per_mille = 150;
    setup.autotrim = seed.is_multiple_of(3);
    climate.behaviour.trim_garbles = true;
    // One checkpoint follows the other.
    setup.limits.groups = setup.limits.groups.min(8);
}

pub(super) fn repeat(setup: &mut PoolSetup, climate: &mut Climate) {
    setup.never_suspends = true;
    climate.steps = 10..30;
    climate.crashes_per_mille = 30;
}

/// Adds the attempts to the history.
pub(super) fn try_partings(setup: &PoolSetup, history: &mut History) {
    let mut random = Random::new(history.seed ^ 0x6177_6179).fork();
    let disks = setup.disks();
    history.attempt = Some((
        Attempt::Parting {
            first: 0,
            end: disks,
        },
        1000,
    ));
    let lost = random.within(0..disks as u64) as usize;
    for _ in 0..3 {
        let episode = match random.within(0..4) {
            0..2 => vanish(lost, history, &mut random),
            2 => flicker(lost, history, &mut random),
            _ => blink(lost, history, &mut random),
        };
        insert(episode, history, &mut random);
    }
}

pub(super) fn try_pulls(setup: &PoolSetup, history: &mut History) {
    let mut random = Random::new(history.seed ^ 0x7075_6c6c).fork();
    if random.per_mille(700) {
        for step in &mut history.steps {
            if let Step::Submit(Operation::Change { durable, .. }) = step {
                *durable = true;
            }
        }
    }
    if is_calm(history.seed) {
        history.attempt = Some((Attempt::Cut, 300));
        return;
    }
    let logs = setup.log_disks();
    let (first, end) = (logs.start, logs.end);
    history.attempt = Some((Attempt::Parting { first, end }, 1000));
    for _ in 0..2 {
        let lost = first + random.within(0..logs.len() as u64) as usize;
        let episode = vanish(lost, history, &mut random);
        insert(episode, history, &mut random);
    }
}

pub(super) fn try_lost_roots(history: &mut History) {
    history.attempt = Some((Attempt::LostRoot, 150));
}

pub(super) fn try_repeats(history: &mut History) {
    let attempt = match history.seed.is_multiple_of(2) {
        true => Attempt::Repeat,
        false => Attempt::LostMark,
    };
    now_and_then(history, &Step::Try(attempt));
}

fn insert(steps: Vec<Step>, history: &mut History, random: &mut Random) {
    let at = random.within(0..history.steps.len() as u64 + 1) as usize;
    history.steps.splice(at..at, steps);
}

/// Returns durable writes that others run beside.
fn writes(history: &History, random: &mut Random) -> Vec<Step> {
    let mut steps = Vec::new();
    let volume = history.geometry.volumes[0];
    for _ in 0..random.within(1..5) {
        let first = random.within(0..volume.blocks / volume.unit) * volume.unit;
        let slices = first * SLICES_PER_BLOCK..(first + volume.unit) * SLICES_PER_BLOCK;
        steps.push(Step::Submit(Operation::Change {
            volume: volume.id,
            slices,
            kind: ChangeKind::Write,
            durable: true,
        }));
        if random.per_mille(400) {
            steps.push(Step::Advance(random.within(1..8) as u32));
        }
    }
    steps
}

/// Returns steps in which a disk is lost while something is written, and is back behind a power
/// cut.
fn vanish(disk: usize, history: &History, random: &mut Random) -> Vec<Step> {
    let trouble = |trouble| Step::Trouble { disk, trouble };
    let mut steps = writes(history, random);
    steps.push(trouble(Trouble::Vanish));
    for _ in 0..3 {
        steps.extend(writes(history, random));
    }
    steps.push(Step::Drain);
    steps.push(trouble(Trouble::Return));
    steps.push(Step::PowerCut {
        again_after: Vec::new(),
    });
    steps
}

/// Returns steps in which a disk is put aside and used again at once, while a checkpoint is made.
fn flicker(disk: usize, history: &History, random: &mut Random) -> Vec<Step> {
    let admin = |admin| Step::Submit(Operation::Admin(admin));
    let pause = |random: &mut Random| Step::Advance(random.one_of(&[1, 3, 8, 20, 40]));
    let mut steps = Vec::new();
    for _ in 0..3 {
        steps.extend(writes(history, random));
        let mut middle = vec![
            admin(Admin::Checkpoint),
            admin(Admin::Reshape(Reshape::Offline(disk as u32))),
        ];
        random.shuffle(&mut middle);
        steps.push(middle.remove(0));
        steps.push(pause(random));
        steps.extend(middle);
        steps.extend(writes(history, random));
        steps.push(pause(random));
        steps.push(admin(Admin::Reshape(Reshape::Online)));
        steps.push(pause(random));
        steps.push(Step::Drain);
    }
    steps
}

/// Returns steps in which a disk misses a write that a checkpoint has, and is used again before
/// labels say so.
fn blink(disk: usize, history: &History, random: &mut Random) -> Vec<Step> {
    let admin = |admin| Step::Submit(Operation::Admin(admin));
    let mut steps = Vec::new();
    for _ in 0..2 {
        // Nothing is under way when it begins.
        steps.extend([Step::Drain, admin(Admin::Checkpoint), Step::Drain]);
        steps.push(Step::Advance(40));
        steps.push(admin(Admin::Reshape(Reshape::Offline(disk as u32))));
        let written = writes(history, random).into_iter();
        steps.extend(written.filter(|step| matches!(step, Step::Submit(_))));
        steps.push(admin(Admin::Checkpoint));
        if random.per_mille(400) {
            steps.push(Step::Advance(random.within(1..4) as u32));
        }
        steps.push(admin(Admin::Reshape(Reshape::Online)));
    }
    steps.push(Step::Drain);
    steps
}
