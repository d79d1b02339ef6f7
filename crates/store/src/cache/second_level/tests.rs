//! Tests of the second level against a model of a device that tears, rots and fails.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::format::{Address, Epoch};

const LEAF: u64 = 5 << 20;

fn limits() -> Limits {
    Limits {
        leaf_bytes: LEAF,
        index_bytes: 1 << 20,
        write_bytes_per_s: 1 << 40,
    }
}

fn key(block: u64) -> Key {
    Key { volume: 7, block }
}

/// Returns the pointer of the `version`th write of a block.
fn pointer(block: u64, version: u64) -> Pointer {
    Pointer {
        address: Address::new(1, version * 1000 + block),
        birth: Epoch(version),
        sectors: 1,
        ..Pointer::HOLE
    }
}

fn bytes(block: u64, version: u64, len: usize) -> Vec<u8> {
    let word = (block << 32 | version).to_le_bytes();
    word.repeat(len / 8)
}

fn evicted(block: u64, version: u64, len: usize) -> Evicted {
    Evicted {
        key: key(block),
        data: Pages::from_bytes(&bytes(block, version, len)),
        was_used_again: true,
    }
}

/// A device, and the batches that are being written to it.
struct Device {
    level: SecondLevel,
    leaf: Vec<u8>,
    in_flight: Vec<Batch>,
    now_us: u64,
}

impl Device {
    fn new(limits: Limits) -> Self {
        Self {
            leaf: vec![0; limits.leaf_bytes as usize],
            level: SecondLevel::new(limits, 11),
            in_flight: Vec::new(),
            now_us: 0,
        }
    }

    fn offer(&mut self, block: u64, version: u64, len: usize) {
        self.now_us += 1000;
        let batch = self.level.offer(
            evicted(block, version, len),
            &pointer(block, version),
            self.now_us,
        );
        self.take(batch);
    }

    fn take(&mut self, batch: Option<Batch>) {
        if let Some(batch) = batch {
            assert!(batch.data.len() <= BATCH_BYTES);
            assert!(batch.offset + batch.data.len() as u64 <= self.leaf.len() as u64);
            self.in_flight.push(batch);
            assert!(self.in_flight.len() <= BATCHES_IN_FLIGHT);
        }
    }

    fn complete(&mut self, which: usize, is_ok: bool) {
        if self.in_flight.is_empty() {
            return;
        }
        let batch = self.in_flight.remove(which % self.in_flight.len());
        let start = batch.offset as usize;
        // A write that failed may have been written in part.
        let len = if is_ok {
            batch.data.len()
        } else {
            batch.data.len() / 2
        };
        batch
            .data
            .slice(0..len)
            .copy_to(&mut self.leaf[start..start + len]);
        self.level.written(batch.id, is_ok);
    }

    fn settle(&mut self) {
        while !self.in_flight.is_empty() {
            self.complete(0, true);
        }
        let batch = self.level.flush();
        self.take(batch);
        self.complete(0, true);
    }

    /// Returns the bytes that a read of the engine gets from the second level.
    fn read(&mut self, block: u64, version: u64) -> Option<Vec<u8>> {
        let (key, pointer) = (key(block), pointer(block, version));
        match self.level.where_is(key, &pointer)? {
            CachedBlock::Memory(data) => Some(data.to_vec()),
            CachedBlock::Device(place) => {
                let start = place.offset as usize;
                let data = Pages::from_bytes(&self.leaf[start..start + place.len]);
                let data = self.level.accept(key, &pointer, place, Some(data))?;
                Some(data.to_vec())
            }
        }
    }
}

#[test]
fn blocks_are_found_in_memory_and_then_on_the_device() {
    let mut device = Device::new(limits());
    device.offer(1, 1, 16_384);
    assert!(matches!(
        device.level.where_is(key(1), &pointer(1, 1)),
        Some(CachedBlock::Memory(_))
    ));
    let batch = device.level.flush().expect("one block is open");
    assert_eq!((batch.offset, batch.data.len()), (0, 16_384));
    assert!(device.level.flush().is_none());
    device.take(Some(batch));
    assert_eq!(device.read(1, 1), Some(bytes(1, 1, 16_384)));
    device.complete(0, true);
    assert!(matches!(
        device.level.where_is(key(1), &pointer(1, 1)),
        Some(CachedBlock::Device(_))
    ));
    assert_eq!(device.read(1, 1), Some(bytes(1, 1, 16_384)));
}

#[test]
fn only_what_was_used_again_is_written_and_only_once() {
    let mut device = Device::new(limits());
    let unused = Evicted {
        was_used_again: false,
        ..evicted(1, 1, 4096)
    };
    device.level.offer(unused, &pointer(1, 1), 0);
    assert_eq!(device.read(1, 1), None);
    device.offer(2, 1, 4096);
    device.settle();
    device.offer(2, 1, 4096);
    device.settle();
    assert_eq!(device.level.statistics().written_bytes, 4096);
}

#[test]
fn what_was_overwritten_is_not_found() {
    let mut device = Device::new(limits());
    device.offer(1, 1, 4096);
    assert_eq!(device.read(1, 2), None, "another pointer");
    device.offer(1, 2, 4096);
    device.settle();
    assert_eq!(device.read(1, 1), None);
    assert_eq!(device.read(1, 2), Some(bytes(1, 2, 4096)));
    assert_eq!(device.level.statistics().blocks, 1);
    device.level.invalidate(key(1));
    assert_eq!(device.read(1, 2), None);
    assert_eq!(device.level.statistics().blocks, 0);
}

#[test]
fn a_rotten_block_is_rejected_and_forgotten() {
    let mut device = Device::new(limits());
    device.offer(1, 1, 8192);
    device.settle();
    device.leaf[5000] ^= 1;
    assert_eq!(device.read(1, 1), None);
    assert_eq!(device.level.statistics().rejected, 1);
    assert!(device.level.where_is(key(1), &pointer(1, 1)).is_none());
}

#[test]
fn another_block_in_its_place_is_rejected() {
    let mut device = Device::new(limits());
    device.offer(1, 1, 4096);
    device.offer(2, 1, 4096);
    device.settle();
    device.leaf.copy_within(4096..8192, 0);
    assert_eq!(device.read(1, 1), None, "a misdirected write");
    assert_eq!(device.read(2, 1), Some(bytes(2, 1, 4096)));
}

#[test]
fn a_failed_read_is_a_miss() {
    let mut device = Device::new(limits());
    device.offer(1, 1, 4096);
    device.settle();
    let Some(CachedBlock::Device(place)) = device.level.where_is(key(1), &pointer(1, 1)) else {
        panic!("on the device");
    };
    assert!(
        device
            .level
            .accept(key(1), &pointer(1, 1), place, None)
            .is_none()
    );
    assert!(device.level.where_is(key(1), &pointer(1, 1)).is_none());
}

#[test]
fn a_failed_write_is_forgotten_with_all_its_blocks_and_no_others() {
    let mut device = Device::new(limits());
    (0..64).for_each(|block| device.offer(block, 1, 16_384));
    device.offer(64, 1, 16_384);
    assert_eq!(device.in_flight.len(), 1);
    device.complete(0, false);
    (0..64).for_each(|block| assert_eq!(device.read(block, 1), None));
    assert_eq!(device.read(64, 1), Some(bytes(64, 1, 16_384)));
}

#[test]
fn the_ring_comes_around_and_overwrites_the_oldest() {
    let mut device = Device::new(limits());
    let fits = LEAF / 16_384;
    for block in 0..3 * fits {
        device.offer(block, 1, 16_384);
        device.complete(0, true);
    }
    device.settle();
    let found = (0..3 * fits)
        .filter(|block| device.read(*block, 1).is_some())
        .count() as u64;
    assert!(found >= fits - 2 * 64 && found <= fits, "{found} of {fits}");
    assert!(device.read(3 * fits - 1, 1).is_some());
    assert_eq!(device.level.statistics().rejected, 0);
}

#[test]
fn a_full_index_displaces_the_oldest() {
    let mut device = Device::new(Limits {
        index_bytes: 100 * 56,
        ..limits()
    });
    for block in 0..300 {
        device.offer(block, 1, 4096);
        device.complete(0, true);
    }
    assert!(device.level.index.memory() <= 100 * 56);
    let blocks = device.level.statistics().blocks;
    assert!((90..=120).contains(&blocks), "{blocks}");
    (300 - blocks..300).for_each(|block| assert!(device.read(block, 1).is_some()));
    assert!(device.read(299 - blocks, 1).is_none());
}

#[test]
fn no_more_is_written_than_allowed() {
    let mut device = Device::new(Limits {
        write_bytes_per_s: 2 << 20,
        ..limits()
    });
    // The writes take 10 s, in which 40 MiB are offered.
    for block in 0..10_000 {
        device.offer(block, 1, 4096);
        device.complete(0, true);
    }
    device.settle();
    let statistics = device.level.statistics();
    let written = statistics.written_bytes >> 20;
    assert!((16..=23).contains(&written), "{written} MiB in 10 s");
    assert!(statistics.not_taken > 0);
}

#[test]
fn batches_that_are_not_written_hold_a_bounded_memory() {
    let mut device = Device::new(limits());
    for block in 0..5000 {
        device.offer(block, 1, 4096);
    }
    assert_eq!(device.in_flight.len(), BATCHES_IN_FLIGHT);
    assert!(device.level.flush().is_none());
    let held = device.level.statistics().blocks * 4096;
    assert!(held <= ((BATCHES_IN_FLIGHT + 1) * BATCH_BYTES) as u64);
    assert!(device.level.statistics().not_taken > 3000);
}

#[test]
fn a_leaf_too_small_or_no_index_takes_nothing() {
    for limits in [
        Limits {
            leaf_bytes: 1 << 20,
            ..limits()
        },
        Limits {
            leaf_bytes: 0,
            ..limits()
        },
        Limits {
            index_bytes: 0,
            ..limits()
        },
    ] {
        let mut device = Device::new(limits);
        (0..10).for_each(|block| device.offer(block, 1, 4096));
        assert!((0..10).all(|block| device.read(block, 1).is_none()));
        device.settle();
        assert_eq!(device.level.statistics().written_bytes, 0);
    }
}

#[test]
fn blocks_that_start_inside_a_page_are_written_whole() {
    let mut device = Device::new(limits());
    let plain = bytes(1, 1, 8192);
    let skewed = Pages::from_bytes(&[vec![0; 100], plain.clone()].concat()).slice(100..8292);
    let block = Evicted {
        data: skewed,
        ..evicted(1, 1, 8192)
    };
    device.level.offer(block, &pointer(1, 1), 1);
    device.settle();
    assert_eq!(device.read(1, 1), Some(plain));
}

#[derive(Clone, Debug)]
enum Step {
    Write(u64),
    Evict(u64, usize),
    Read(u64),
    ReadOld(u64),
    Complete(usize, bool),
    Flush,
    Invalidate(u64),
    Rot(prop::sample::Index),
}

fn steps() -> impl Strategy<Value = Step> {
    let block = || 0_u64..400;
    prop_oneof![
        4 => block().prop_map(Step::Write),
        12 => (block(), prop_oneof![Just(4096_usize), Just(16_384), Just(131_072)])
            .prop_map(|(block, len)| Step::Evict(block, len)),
        8 => block().prop_map(Step::Read),
        2 => block().prop_map(Step::ReadOld),
        3 => (any::<usize>(), prop::bool::weighted(0.9)).prop_map(|(which, is_ok)| Step::Complete(which, is_ok)),
        1 => Just(Step::Flush),
        1 => block().prop_map(Step::Invalidate),
        1 => any::<prop::sample::Index>().prop_map(Step::Rot),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn what_is_read_is_the_newest_or_nothing(
        steps in prop::collection::vec(steps(), 1..600),
        leaf_sectors in 512_u64..2000,
        index_bytes in prop_oneof![Just(1_usize << 20), 0_usize..20_000],
    ) {
        let mut device = Device::new(Limits {
            leaf_bytes: leaf_sectors * 4096 + 100,
            index_bytes,
            ..limits()
        });
        let mut versions: BTreeMap<u64, u64> = BTreeMap::new();
        let mut lens: BTreeMap<(u64, u64), usize> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Write(block) => *versions.entry(block).or_insert(1) += 1,
                Step::Evict(block, len) => {
                    let version = *versions.entry(block).or_insert(1);
                    let len = *lens.entry((block, version)).or_insert(len);
                    device.offer(block, version, len);
                }
                Step::Read(block) => {
                    let version = *versions.entry(block).or_insert(1);
                    if let Some(data) = device.read(block, version) {
                        prop_assert!(data == bytes(block, version, lens[&(block, version)]));
                    }
                }
                Step::ReadOld(block) => {
                    // A snapshot's pointer must yield its own contents or nothing.
                    let version = versions.get(&block).map_or(0, |version| version - 1);
                    if let Some(data) = device.read(block, version) {
                        prop_assert!(data == bytes(block, version, lens[&(block, version)]));
                    }
                }
                Step::Complete(which, is_ok) => device.complete(which, is_ok),
                Step::Flush => {
                    let batch = device.level.flush();
                    device.take(batch);
                }
                Step::Invalidate(block) => {
                    device.level.invalidate(key(block));
                    let version = versions.get(&block).copied().unwrap_or(1);
                    prop_assert!(device.read(block, version).is_none());
                }
                Step::Rot(at) => {
                    let at = at.index(device.leaf.len());
                    device.leaf[at] ^= 0x10;
                }
            }
            prop_assert!(device.level.memory() <= index_bytes + (6 << 20));
        }
    }
}
