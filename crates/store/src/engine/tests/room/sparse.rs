//! Sparse volumes in small pools: their blocks are scattered, and their maps take as much room as
//! their data. The pool may refuse any operation for lack of space, but never suspends itself.

use std::collections::BTreeMap;

use pages::Pages;

use super::full::noise;
use crate::engine::tests::world::World;
use crate::engine::{Limits, PoolErrorKind, Request};
use crate::format::DatasetId;
use crate::vdev::TopLevelKind;

const BLOCK: u64 = 4096;
const SIZE: u64 = 1 << 40;
const DISK: u64 = 32 << 20;

/// Numbers that follow from a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }
}

/// Returns blocks of a volume that are a leaf apart, different ones for each number.
fn scattered(number: u64) -> u64 {
    (number * 7919 % (SIZE / BLOCK / 512)) * 512 * BLOCK
}

#[test]
fn a_pool_that_scattered_writes_filled_says_so_and_can_be_emptied() {
    let kinds = [
        (TopLevelKind::Leaf, 1),
        (TopLevelKind::Mirror, 2),
        (TopLevelKind::Raidz { parity: 1 }, 3),
    ];
    for (kind, disks) in kinds {
        let mut world = World::of_size(kind, disks, DISK, Limits::default());
        let volume = world.create_volume("a", SIZE, BLOCK as u32);
        let mut written = 0;
        loop {
            let bytes = noise(BLOCK, written + 1);
            match world.try_write(volume, scattered(written), &bytes) {
                Ok(()) => written += 1,
                Err(kind) => {
                    let why = world.pool.condition.suspended();
                    break assert_eq!(kind, PoolErrorKind::NoSpace, "{why:?}");
                }
            }
            if written % 500 == 0 {
                let _ = world.snapshot_of(&format!("a@{written}"));
            }
        }
        assert_eq!(world.pool.condition.suspended(), None);
        assert!(written > 1000, "{kind:?}: {written}");
        world.reopen().expect("a full pool opens");
        for number in 0..written {
            let bytes = world.read(volume, scattered(number), BLOCK as u32);
            assert!(bytes == noise(BLOCK, number + 1), "write {number}");
        }
        world.destroy("a");
        (0..4).for_each(|_| world.checkpoint());
        let counts = world.pool.space.counts();
        assert!(counts.allocated < 60, "{counts:?}");
    }
}

/// Pool of sparse volumes, and their expected contents.
struct Sparse {
    world: World,
    dice: Dice,
    /// Volumes by name, with the value that each block was last written with.
    volumes: BTreeMap<String, (DatasetId, BTreeMap<u64, u64>)>,
    /// Snapshots of each volume, by name.
    snapshots: BTreeMap<String, Vec<String>>,
    /// Whether every write is durable when it is answered, since the power may fail at any time.
    is_durable: bool,
    next: u64,
    refused: u64,
}

impl Sparse {
    fn new(kind: TopLevelKind, disks: usize, seed: u64) -> Self {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let limits = Limits {
            freed_blocks: [100, 1 << 18][dice.below(2) as usize],
            ..Limits::default()
        };
        let mut world = World::of_size(kind, disks, DISK, limits);
        world.is_lazy = dice.below(3) > 0;
        let is_durable = dice.below(2) == 0;
        Self {
            world,
            dice,
            volumes: BTreeMap::new(),
            snapshots: BTreeMap::new(),
            is_durable,
            next: 0,
            refused: 0,
        }
    }

    fn any_volume(&mut self) -> Option<String> {
        let at = self.dice.below(self.volumes.len().max(1) as u64) as usize;
        self.volumes.keys().nth(at).cloned()
    }

    fn create(&mut self) {
        self.next += 1;
        let name = format!("v{}", self.next);
        let id = self.world.create_volume(&name, SIZE, BLOCK as u32);
        self.volumes.insert(name, (id, BTreeMap::new()));
    }

    /// Writes some blocks, scattered or side by side.
    fn write(&mut self) {
        let Some(name) = self.any_volume() else {
            return self.create();
        };
        let (count, apart) = match self.dice.below(4) {
            0 => (300, 512),
            1 => (300, 1 + self.dice.below(700)),
            2 => (40, 512 * 512),
            _ => (16, 1),
        };
        let first = self.dice.below(1 << 20);
        for number in 0..count {
            let block = (first + number * apart) % (SIZE / BLOCK);
            self.next += 1;
            let bytes = noise(BLOCK, self.next);
            let (id, blocks) = self.volumes.get_mut(&name).expect("there is one");
            let request = Request::Write {
                dataset: *id,
                offset: block * BLOCK,
                data: Pages::from_bytes(&bytes),
                durable: self.is_durable,
            };
            match self.world.ask(request) {
                Ok(_) => drop(blocks.insert(block, self.next)),
                Err(error) => {
                    self.refused += 1;
                    return self.note(error.kind);
                }
            }
        }
    }

    fn note(&mut self, kind: PoolErrorKind) {
        let why = self.world.pool.condition.suspended();
        assert_eq!(kind, PoolErrorKind::NoSpace, "{why:?}");
    }

    /// Unmaps a range.
    fn clear(&mut self) {
        let Some(name) = self.any_volume() else {
            return;
        };
        let first = self.dice.below(1 << 20);
        let count = match self.dice.below(3) {
            0 => 1 + self.dice.below(1000),
            1 => 512 * 512,
            _ => SIZE / BLOCK,
        };
        let blocks = first..(first + count).min(SIZE / BLOCK);
        let (id, held) = self.volumes.get_mut(&name).expect("there is one");
        let request = Request::Clear {
            dataset: *id,
            offset: blocks.start * BLOCK,
            len: (blocks.end - blocks.start) * BLOCK,
            durable: true,
        };
        match self.world.ask(request) {
            Ok(_) => held.retain(|block, _| !blocks.contains(block)),
            Err(error) => self.note(error.kind),
        }
    }

    fn snapshot(&mut self) {
        let Some(volume) = self.any_volume() else {
            return;
        };
        self.next += 1;
        let name = format!("{volume}@{}", self.next);
        match self.world.snapshot_of(&name) {
            Ok(()) => self.snapshots.entry(volume).or_default().push(name),
            Err(kind) => self.note(kind),
        }
    }

    fn destroy(&mut self) {
        let Some(volume) = self.any_volume() else {
            return;
        };
        let taken = self.snapshots.entry(volume.clone()).or_default();
        if taken.is_empty() || self.dice.below(6) == 0 {
            self.snapshots.remove(&volume);
            self.volumes.remove(&volume);
            return self.world.destroy(&volume);
        }
        let at = self.dice.below(taken.len() as u64) as usize;
        let name = taken.remove(at);
        self.world.destroy(&name);
    }

    fn step(&mut self) {
        match self.dice.below(20) {
            0 if self.volumes.len() < 4 => self.create(),
            0..=14 => self.write(),
            15 => self.clear(),
            16 | 17 => self.snapshot(),
            18 => self.destroy(),
            _ if self.is_durable => self.crash(),
            _ => self.world.reopen().expect("opens"),
        }
        assert_eq!(self.world.pool.condition.suspended(), None);
    }

    /// Makes the power fail, perhaps in the middle of a checkpoint.
    fn crash(&mut self) {
        if self.dice.below(2) == 0 {
            let steps = self.dice.below(300) as usize;
            self.world.begin_checkpoint(steps);
        }
        self.world.crash().expect("opens");
        self.world.check();
    }

    fn end(mut self) {
        self.world.reopen().expect("opens");
        for (name, (id, blocks)) in &self.volumes {
            for (block, seed) in blocks {
                let bytes = self.world.read(*id, block * BLOCK, BLOCK as u32);
                assert!(bytes == noise(BLOCK, *seed), "{name}, block {block}");
            }
        }
        for volume in self.volumes.keys() {
            self.world.destroy(volume);
        }
        (0..200).for_each(|_| self.world.settle().clear());
        (0..5).for_each(|_| self.world.checkpoint());
        let counts = self.world.pool.space.counts();
        assert!(counts.allocated < 100, "{counts:?}");
    }
}

#[test]
fn whatever_is_done_in_little_space_the_pool_goes_on() {
    let kinds = [
        (TopLevelKind::Leaf, 1),
        (TopLevelKind::Mirror, 2),
        (TopLevelKind::Raidz { parity: 1 }, 3),
        (TopLevelKind::Raidz { parity: 2 }, 5),
    ];
    let mut refused = 0;
    for seed in 0..8 {
        let (kind, disks) = kinds[seed as usize % kinds.len()];
        let mut sparse = Sparse::new(kind, disks, seed + 1);
        (0..150).for_each(|_| sparse.step());
        refused += sparse.refused;
        sparse.end();
    }
    assert!(refused > 20, "{refused}: the pools were not full");
}

/// The cost of scattered writes in the maps does not come from space that other volumes reserved.
#[test]
fn a_thick_volume_has_its_space_beside_a_sparse_one() {
    for is_lazy in [false, true] {
        let mut world = World::of_size(TopLevelKind::Leaf, 1, DISK, Limits::default());
        let thick = world.create_of_blocks("thick", 8 << 20, BLOCK as u32, true);
        let thin = world.create_volume("thin", SIZE, BLOCK as u32);
        world.is_lazy = is_lazy;
        let mut written = 0;
        while let Ok(()) = world.try_write(thin, scattered(written), &noise(BLOCK, written + 1)) {
            written += 1;
        }
        for round in 0..3 {
            for at in (0..8 << 20).step_by(16 * BLOCK as usize) {
                let done = world.try_write(thick, at, &noise(16 * BLOCK, at + round));
                assert_eq!(done, Ok(()), "round {round}, byte {at}, {written} before");
            }
        }
        world.is_lazy = false;
        world.checkpoint();
    }
}
