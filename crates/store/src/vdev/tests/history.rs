//! Tests with random histories: writes, reads, flushes, epochs, and leaves that fail in every way
//! and come back. While no more leaves misbehave than the redundancy allows, every operation
//! succeeds and every read is right. With more of them, no read is ever wrong.

use std::collections::{BTreeMap, BTreeSet};

use pages::Pages;

use super::rig::{Random, Rig, block, content, tree};
use crate::format::{Address, Epoch};
use crate::vdev::*;

const KINDS: [(TopLevelKind, u64); 7] = [
    (TopLevelKind::Leaf, 1),
    (TopLevelKind::Mirror, 2),
    (TopLevelKind::Mirror, 3),
    (TopLevelKind::Raidz { parity: 1 }, 3),
    (TopLevelKind::Raidz { parity: 1 }, 4),
    (TopLevelKind::Raidz { parity: 2 }, 5),
    (TopLevelKind::Raidz { parity: 3 }, 7),
];
const SECOND: u64 = 1_000_000;

/// Returns the seeds of a test, or the one that is to be repeated.
fn seeds(all: std::ops::Range<u64>) -> std::ops::Range<u64> {
    match std::env::var("SANDSTONE_SEED").map(|seed| seed.parse()) {
        Ok(Ok(seed)) => seed..seed + 1,
        _ => all,
    }
}

/// A block that was written, or is being written.
struct Written {
    block: Block,
    data: Pages,
    /// Whether a flush that began after the write was done was successful.
    is_durable: bool,
}

struct History {
    rig: Rig,
    random: Random,
    victims: Vec<usize>,
    /// Whether there are no more victims than the redundancy allows.
    is_covered: bool,
    blocks: Vec<Written>,
    writing: BTreeMap<u64, Written>,
    reading: BTreeMap<u64, usize>,
    /// Number of blocks that were done when each flush began.
    flushing: BTreeMap<u64, usize>,
    /// Whether a flush failed.
    is_lost: bool,
    next_sector: u64,
    epoch: u64,
}

impl History {
    fn new(seed: u64, is_covered: bool) -> Self {
        println!("SANDSTONE_SEED={seed}");
        let mut random = Random(seed);
        let (kind, count) = KINDS[random.below(KINDS.len())];
        let redundancy = match kind {
            TopLevelKind::Mirror => count as usize - 1,
            TopLevelKind::Raidz { parity } => usize::from(parity),
            TopLevelKind::Leaf | TopLevelKind::Hole => 0,
        };
        let limits = Limits {
            async_writes: 1 + random.below(8),
            ..Limits::default()
        };
        let victims = if is_covered {
            redundancy
        } else {
            count as usize
        };
        let mut all: Vec<usize> = (0..count as usize).collect();
        let victims = (0..victims)
            .map(|_| all.swap_remove(random.below(all.len())))
            .collect();
        Self {
            rig: Rig::of(&tree(kind, count), seed, limits),
            random,
            victims,
            is_covered,
            blocks: Vec::new(),
            writing: BTreeMap::new(),
            reading: BTreeMap::new(),
            flushing: BTreeMap::new(),
            is_lost: false,
            next_sector: 0,
            epoch: 1,
        }
    }

    fn go(&mut self, steps: usize) {
        for _ in 0..steps {
            match self.random.below(100) {
                0..20 => self.write(),
                20..40 => self.read(),
                40..45 => self.flush(),
                45..48 => {
                    self.epoch += 1;
                    self.rig
                        .array
                        .set_epochs(Epoch(self.epoch), Epoch(self.epoch));
                }
                48..56 => self.misbehave(),
                56..58 => self.come_back(),
                58..60 => self.pass(2 * SECOND),
                60 => self.pass(31 * SECOND),
                _ => {
                    self.rig.step();
                }
            }
            self.check_done();
        }
        self.finish_all();
    }

    /// Lets time pass for disks that do not answer.
    fn pass(&mut self, us: u64) {
        self.rig.run();
        self.rig.pass(us);
    }

    fn finish_all(&mut self) {
        self.rig.run();
        self.rig.pass(31 * SECOND);
        self.rig.run();
        self.rig.pass(31 * SECOND);
        self.check_done();
        assert!(self.writing.is_empty() && self.reading.is_empty() && self.flushing.is_empty());
    }

    fn write(&mut self) {
        let mut blocks = Vec::new();
        let mut written = Vec::new();
        for _ in 0..1 + self.random.below(3) {
            let sectors = 1 + self.random.below(9);
            let data = content(self.random.next(), sectors);
            let address = Address::new(0, self.next_sector);
            written.push((block(self.next_sector, &data, self.epoch), data.clone()));
            blocks.push((address, data));
            self.next_sector += u64::from(self.rig.array.footprint(0, sectors as u16));
        }
        let priority = [Priority::SyncWrite, Priority::AsyncWrite][self.random.below(2)];
        for ((address, data), (block, _)) in blocks.into_iter().zip(written) {
            // Each block has its own tag, so that each has its own fate.
            let kept = Written {
                block,
                data: data.clone(),
                is_durable: false,
            };
            let tag = self.rig.ask(|array, tag, now_us, out| {
                array.write(tag, vec![(address, data)], priority, now_us, out);
            });
            self.writing.insert(tag, kept);
        }
    }

    fn read(&mut self) {
        if self.blocks.is_empty() {
            return;
        }
        let at = self.random.below(self.blocks.len());
        let block = self.blocks[at].block.clone();
        let tag = match self.random.below(3) {
            0 => self
                .rig
                .ask(|array, tag, now_us, out| array.scrub_block(tag, block, now_us, out)),
            _ => self.rig.start_read(&block),
        };
        self.reading.insert(tag, at);
    }

    fn flush(&mut self) {
        let tag = self.rig.start_flush();
        self.flushing.insert(tag, self.blocks.len());
    }

    /// Makes one of the victims misbehave.
    fn misbehave(&mut self) {
        if self.victims.is_empty() {
            return;
        }
        let victim = self.victims[self.random.below(self.victims.len())];
        let random = &mut self.random;
        let disk = &mut self.rig.disks[victim];
        match random.below(9) {
            0 => disk.broken = Some(DeviceErrorKind::Gone),
            1 => disk.broken = Some(DeviceErrorKind::Failed),
            2 => disk.fail_writes = true,
            3 => disk.fail_flushes = true,
            4 => disk.mute = !disk.mute,
            5 => disk.misdirected = random.below(3) as u64,
            6 => {
                disk.unreadable
                    .insert(256 + random.next() % (self.next_sector + 1));
            }
            _ => {
                disk.rot(|| random.below(20) == 0);
            }
        }
    }

    /// Makes disks work again, and rebuilds the blocks that they missed.
    fn come_back(&mut self) {
        for disk in &mut self.rig.disks {
            disk.broken = None;
            (disk.fail_writes, disk.fail_flushes, disk.mute) = (false, false, false);
            disk.misdirected = 0;
        }
        self.finish_all();
        let leaves: Vec<LeafId> = self.rig.array.leaves().map(|leaf| leaf.leaf).collect();
        for leaf in &leaves {
            self.rig
                .with(|array, out| array.online(*leaf, out))
                .expect("all was answered");
        }
        if self.is_covered {
            for leaf in leaves {
                self.resilver(leaf);
            }
        }
    }

    fn resilver(&mut self, leaf: LeafId) {
        let resilver = self.rig.array.start_resilver(leaf).expect("online");
        for at in 0..self.blocks.len() {
            if resilver.missing.contains(self.blocks[at].block.birth) {
                let block = self.blocks[at].block.clone();
                self.rig.rebuild(&block, leaf).expect("rebuilt");
            }
        }
        self.rig.flush().expect("flushed");
        let is_complete = self
            .rig
            .with(|array, out| array.finish_resilver(&resilver, out));
        assert!(is_complete.expect("online"));
        assert!(!self.rig.status(leaf.0).is_incomplete);
    }

    fn check_done(&mut self) {
        for (tag, done) in std::mem::take(&mut self.rig.done) {
            match done {
                ArrayDone::Written(result) => {
                    let written = self.writing.remove(&tag).expect("asked for");
                    match result {
                        Ok(()) => self.blocks.push(written),
                        Err(error) => assert!(!self.is_covered, "{error}"),
                    }
                }
                ArrayDone::Read(result) => {
                    let written = &self.blocks[self.reading.remove(&tag).expect("asked for")];
                    match result {
                        Ok(data) => assert_eq!(data.to_vec(), written.data.to_vec()),
                        Err(error) => assert!(!self.is_covered, "{error}"),
                    }
                }
                ArrayDone::Scrubbed(result) => {
                    self.reading.remove(&tag).expect("asked for");
                    match result {
                        Ok(found) => assert!(found.repaired <= found.bad),
                        Err(error) => assert!(!self.is_covered, "{error}"),
                    }
                }
                ArrayDone::Flushed(result) => {
                    let covered = self.flushing.remove(&tag).expect("asked for");
                    match result {
                        Ok(()) => {
                            assert!(!self.is_lost, "a loss was forgotten");
                            self.blocks[..covered]
                                .iter_mut()
                                .for_each(|block| block.is_durable = true);
                        }
                        Err(error) => {
                            assert!(!self.is_covered, "{error}");
                            self.is_lost |= error.kind == ArrayErrorKind::Lost;
                        }
                    }
                }
                other => panic!("{other:?}"),
            }
        }
    }

    /// Cuts the power, and opens the array again as its labels would say.
    fn cut_power(&mut self) {
        let tree = self.rig.array.tree();
        self.rig.disks.iter_mut().for_each(|disk| disk.lose_cache());
        self.rig.array =
            Array::new(&tree, Epoch(self.epoch + 1), Limits::default()).expect("a tree");
        self.rig.pending.clear();
    }
}

#[test]
fn what_redundancy_covers_always_succeeds_and_heals() {
    let mut seen = [0; 4];
    for seed in seeds(0..24) {
        let mut history = History::new(seed, true);
        history.go(300);
        history.come_back();
        // All is rebuilt, and a scrub repairs rotten blocks.
        let rig = &mut history.rig;
        for event in &rig.events {
            seen[match event {
                VdevEvent::LeafState { .. } => 0,
                VdevEvent::ChecksumError { .. } => 1,
                VdevEvent::Repaired { .. } => 2,
                _ => 3,
            }] += 1;
        }
        for written in &history.blocks {
            let found = rig.scrub(&written.block).expect("readable");
            assert_eq!(found.repaired, found.bad, "seed {seed}");
        }
        rig.flush().expect("flushed");
        for written in &history.blocks {
            let found = rig.scrub(&written.block).expect("readable");
            assert_eq!(found.bad, 0, "seed {seed}");
        }
        assert_eq!(rig.top().state, VdevState::Online, "seed {seed}");
        // So any other leaves may go now.
        let mut leaves: Vec<usize> = (0..rig.disks.len()).collect();
        for _ in 0..history.victims.len() {
            let leaf = leaves.swap_remove(history.random.below(leaves.len()));
            rig.disks[leaf].broken = Some(DeviceErrorKind::Failed);
        }
        for written in &history.blocks {
            let read = rig.read(&written.block).expect("readable");
            assert_eq!(read.to_vec(), written.data.to_vec(), "seed {seed}");
        }
    }
    assert!(
        seen.iter().all(|count| *count > 20),
        "much happened: {seen:?}"
    );
}

#[test]
fn what_was_flushed_outlives_a_power_cut() {
    for seed in seeds(1000..1024) {
        let mut history = History::new(seed, true);
        history.go(300);
        history.cut_power();
        let mut durable = 0;
        for disk in &mut history.rig.disks {
            disk.mute = false;
        }
        for written in history.blocks.iter().filter(|written| written.is_durable) {
            let read = history
                .rig
                .read(&written.block)
                .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            assert_eq!(read.to_vec(), written.data.to_vec(), "seed {seed}");
            durable += 1;
        }
        assert!(durable > 0 || history.flushing.is_empty());
    }
}

#[test]
fn beyond_the_redundancy_nothing_wrong_is_read_and_no_loss_is_forgotten() {
    let mut failed = 0;
    for seed in seeds(2000..2024) {
        let mut history = History::new(seed, false);
        history.go(300);
        failed += usize::from(history.is_lost);
    }
    assert!(failed > 2, "losses are among the histories: {failed}");
}

#[test]
fn a_history_is_its_seed() {
    for seed in seeds(7..10) {
        let run = || {
            let mut history = History::new(seed, true);
            history.go(300);
            history.rig.history
        };
        let (first, second) = (run(), run());
        let distinct: BTreeSet<&String> = first.iter().collect();
        assert!(distinct.len() > 100);
        assert!(first == second, "seed {seed}");
    }
}
