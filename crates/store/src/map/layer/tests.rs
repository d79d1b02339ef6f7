//! Tests of a layer against an ordered map.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::format::{Address, Epoch};

/// Makes a distinct pointer for each number; 0 gives the hole.
fn pointer(number: u64) -> Pointer {
    if number == 0 {
        return Pointer::HOLE;
    }
    let address = Address::new(1, number);
    Pointer {
        address,
        birth: Epoch(3),
        sectors: 1,
        checksum: u128::from(number),
        ..Pointer::HOLE
    }
}

#[derive(Clone, Debug)]
enum Change {
    Insert(u64, bool),
    /// Blocks in a row are written: the first, and how many.
    Run(u64, u64),
    Clear(u64, u64),
}

fn changes(blocks: u64) -> impl Strategy<Value = Vec<Change>> {
    let change = prop_oneof![
        8 => (0..blocks, any::<bool>()).prop_map(|(at, is_zero)| Change::Insert(at, is_zero)),
        2 => (0..blocks, 1..700_u64).prop_map(|(at, len)| Change::Run(at, len)),
        1 => (0..blocks, 0..40_u64).prop_map(|(at, len)| Change::Clear(at, len)),
        1 => (0..blocks, 0..blocks).prop_map(|(at, len)| Change::Clear(at, len)),
    ];
    prop::collection::vec(change, 0..120)
}

/// The model: the last state of each block.
#[derive(Default)]
struct Model {
    hits: BTreeMap<u64, Hit>,
    made: u64,
}

impl Model {
    fn insert(&mut self, layer: &mut Layer, index: u64, is_zero: bool) {
        self.made += 1;
        let new = pointer(if is_zero { 0 } else { self.made });
        let before = layer.insert(index, new);
        let hit = if is_zero { Hit::Zero } else { Hit::Block(new) };
        let expected = self.hits.insert(index, hit).unwrap_or(Hit::Absent);
        assert_eq!(before, expected, "block {index}");
    }

    fn clear(&mut self, layer: &mut Layer, range: Range<u64>) {
        let mut dropped = Vec::new();
        layer.clear(range.clone(), |pointer| dropped.push(pointer));
        let mut expected = Vec::new();
        for index in range {
            if let Some(Hit::Block(old)) = self.hits.insert(index, Hit::Zero) {
                expected.push(old);
            }
        }
        dropped.sort_unstable_by_key(|pointer| pointer.address);
        expected.sort_unstable_by_key(|pointer| pointer.address);
        assert_eq!(dropped, expected);
    }

    fn get(&self, index: u64) -> Hit {
        self.hits.get(&index).copied().unwrap_or(Hit::Absent)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn a_layer_says_what_was_last_said_of_each_block(changes in changes(3000), spread in 1..5_u64) {
        let mut layer = Layer::new();
        let mut model = Model::default();
        for change in changes {
            match change {
                Change::Insert(at, is_zero) => model.insert(&mut layer, at * spread, is_zero),
                Change::Run(at, len) => (at..at + len).for_each(|at| model.insert(&mut layer, at, false)),
                Change::Clear(at, len) => model.clear(&mut layer, at..at + len),
            }
        }
        let end = 3000 * 5;
        let mut run = vec![Hit::Absent; end as usize];
        layer.get_run(0, &mut run);
        for index in 0..end {
            prop_assert_eq!(layer.get(index), model.get(index));
            prop_assert_eq!(run[index as usize], model.get(index));
        }
        prop_assert_eq!(layer.is_empty(), model.hits.is_empty());
        for from in (0..end).step_by(97) {
            let expected = model.hits.range(from..).next().map(|(&index, _)| index);
            prop_assert_eq!(layer.next(from), expected);
            let range = from..from + 150;
            if layer.is_cleared(&range) {
                prop_assert!(range.clone().all(|index| model.get(index) == Hit::Zero));
            }
            let written: Vec<_> = layer.written(range.clone()).collect();
            prop_assert!(written.is_sorted_by(|a, b| a.0 < b.0));
            for (index, pointer) in written {
                let hit = if pointer.is_hole() { Hit::Zero } else { Hit::Block(pointer) };
                prop_assert_eq!(model.get(index), hit);
                prop_assert!(range.contains(&index));
            }
        }
        let written = layer.written(0..u64::MAX);
        prop_assert_eq!(layer.last_written(), written.last().map(|(index, _)| index));
        prop_assert_eq!(layer.len(), layer.written(0..u64::MAX).count());
        let places: usize = layer.chunks.iter().map(|chunk| chunk.places.len()).sum();
        prop_assert_eq!(layer.places, places, "memory is counted right");
        let leaves: u64 = layer.chunks.iter().map(Chunk::leaves).sum();
        prop_assert_eq!(layer.leaves, leaves);
        let touched: std::collections::BTreeSet<u64> =
            layer.written(0..u64::MAX).map(|(index, _)| index / 512).collect();
        prop_assert!(layer.touched_nodes(1) >= touched.len() as u64);
    }
}

#[test]
fn a_terabyte_unmapped_is_one_range_and_takes_what_was_written_out() {
    let mut layer = Layer::new();
    let blocks = (1 << 40) / 4096;
    for number in 0..10_000_u64 {
        layer.insert(number * 26_843, pointer(number + 1));
    }
    let mut dropped = 0;
    layer.clear(0..blocks, |_| dropped += 1);
    assert_eq!((dropped, layer.len()), (10_000, 0));
    assert!(layer.is_cleared(&(0..blocks)));
    assert!(layer.bytes() < 100, "{}", layer.bytes());
}

#[test]
fn who_writes_in_order_fills_every_chunk() {
    let mut layer = Layer::new();
    for index in 0..100_000 {
        layer.insert(index, pointer(index + 1));
    }
    assert!(layer.bytes() < 100_000 * 48, "{}", layer.bytes());
}

#[test]
fn who_writes_anywhere_takes_what_limits_of_memory_count_on() {
    for count in [10_000, 100_000, 200_000_u64] {
        let mut layer = Layer::new();
        for index in 0..count {
            // The blocks are scattered over a terabyte.
            layer.insert(
                index.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 36,
                pointer(index + 1),
            );
        }
        let each = layer.bytes() / layer.len();
        assert!(each < Layer::CHANGE_BYTES * 5 / 4, "{each} of {count}");
    }
}
