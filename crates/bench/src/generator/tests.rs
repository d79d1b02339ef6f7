//! Exact shares, alignment, range, reproducibility, sequences that wrap.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use ::iometer::access::Assignment;

const PART: Part = Part {
    start: 1 << 20,
    len: 64 << 20,
};

fn single(line: AccessLine) -> AccessSpecification {
    AccessSpecification::single("test", line)
}

fn generator(specification: &AccessSpecification, part: Part, seed: u64) -> Generator {
    Generator::new(specification, part, 512, 1, Random::new(seed))
}

fn operations(specification: &AccessSpecification, count: usize, seed: u64) -> Vec<Operation> {
    let mut generator = generator(specification, PART, seed);
    (0..count).map(|_| generator.next_operation()).collect()
}

/// Returns specifications whose shares add up to 100, with bursts of one so that shares count
/// accesses.
fn specifications() -> impl Strategy<Value = AccessSpecification> {
    let line = (1u32..=256, 0u8..=100, 0u8..=100, 0u32..=8);
    prop::collection::vec((line, 1u8..=100), 1..12).prop_map(|lines| {
        let mut left = 100;
        let count = lines.len();
        let lines = lines.into_iter().enumerate().map(|(index, (line, share))| {
            let (blocks, reads, random, align) = line;
            let share = if index + 1 == count {
                left
            } else {
                share.min(left)
            };
            left -= share;
            AccessLine {
                align: align * 512,
                ..AccessLine::all(blocks * 512, reads, random)
            }
            .share(share)
        });
        AccessSpecification {
            name: "any".into(),
            assignment: Assignment::None,
            lines: lines.collect(),
        }
    })
}

proptest! {
    #[test]
    fn every_operation_lies_in_its_part_and_on_its_alignment(
        specification in specifications(),
        seed: u64,
        start in 0u64..10_000,
        extra in 0u64..1000,
    ) {
        let part = Part { start: start * 512, len: Generator::least_part(&specification).next_multiple_of(512) + extra * 512 };
        let mut generator = generator(&specification, part, seed);
        for _ in 0..500 {
            let operation = generator.next_operation();
            prop_assert!(operation.offset >= part.start);
            prop_assert!(operation.offset + u64::from(operation.len) <= part.end());
            let fits = |line: &AccessLine| line.size == operation.len
                && operation.offset.is_multiple_of(u64::from(line.align.max(512)));
            prop_assert!(specification.lines.iter().any(fits));
        }
    }

    #[test]
    fn shares_are_exact_over_every_ten_thousand_operations(specification in specifications(), seed: u64) {
        // Nothing distinguishes lines of equal size, so their shares are added.
        let mut expected: HashMap<u32, (u64, u64)> = HashMap::new();
        for line in &specification.lines {
            let entry = expected.entry(line.size).or_default();
            entry.0 += 100 * u64::from(line.of_size_percent);
            entry.1 += u64::from(line.of_size_percent) * u64::from(line.reads_percent);
        }
        expected.retain(|_, (count, _)| *count > 0);
        let mut counted: HashMap<u32, (u64, u64)> = HashMap::new();
        for operation in operations(&specification, 10_000, seed) {
            let entry = counted.entry(operation.len).or_default();
            entry.0 += 1;
            entry.1 += u64::from(operation.read);
        }
        prop_assert_eq!(counted, expected);
    }

    #[test]
    fn the_same_seed_gives_the_same_operations(specification in specifications(), seed: u64) {
        prop_assert_eq!(operations(&specification, 300, seed), operations(&specification, 300, seed));
    }

    #[test]
    fn parts_are_disjoint_and_lie_on_their_unit(start in 0u64..1000, len in 0u64..1_000_000, count in 1u64..40) {
        let whole = Part { start: start * 4096, len };
        let parts: Vec<Part> = whole.divide(count, 4096).collect();
        prop_assert_eq!(parts.len() as u64, count);
        for pair in parts.windows(2) {
            prop_assert_eq!(pair[0].end(), pair[1].start);
        }
        prop_assert!(parts.iter().all(|part| part.end() <= whole.end() && part.start % 4096 == 0));
    }
}

#[test]
fn random_places_are_all_equally_likely() {
    let part = Part {
        start: 4096,
        len: 40_960,
    };
    let line = AccessLine::all(4096, 100, 100).aligned_to_size();
    let mut generator = generator(&single(line), part, 1);
    let mut counts = [0u32; 10];
    for _ in 0..100_000 {
        counts[(generator.next_operation().offset / 4096) as usize - 1] += 1;
    }
    assert!(
        counts.iter().all(|&count| count.abs_diff(10_000) < 475),
        "{counts:?}"
    );
}

#[test]
fn sequential_accesses_touch_every_byte_in_order_and_start_over() {
    let part = Part {
        start: 8192,
        len: 10 * 8192 + 4096,
    };
    let mut generator = generator(&single(AccessLine::all(8192, 0, 0)), part, 1);
    let offsets: Vec<u64> = (0..12).map(|_| generator.next_operation().offset).collect();
    let expected: Vec<u64> = (1..=10).chain(1..=2).map(|block| block * 8192).collect();
    assert_eq!(offsets, expected, "the last half block is too short");
}

#[test]
fn a_sequence_goes_on_where_a_random_access_ended() {
    let specification = single(AccessLine::all(4096, 100, 50));
    let operations = operations(&specification, 10_000, 3);
    let follows = |pair: &[Operation]| pair[1].offset == pair[0].offset + 4096;
    let sequential = operations.windows(2).filter(|pair| follows(pair)).count();
    // The very first access follows none, chance makes a few random ones follow, and the part may
    // end.
    assert!((4990..=5010).contains(&sequential), "{sequential}");
}

#[test]
fn several_sequences_take_turns_each_in_its_own_share() {
    let specification = single(AccessLine::all(65_536, 0, 0));
    let part = Part {
        start: 0,
        len: 8 << 20,
    };
    let mut generator = Generator::new(&specification, part, 512, 8, Random::new(1));
    for round in 0..32u64 {
        for file in 0..8u64 {
            let expected = (file << 20) + (round % 16) * 65_536;
            assert_eq!(generator.next_operation().offset, expected);
        }
    }
}

#[test]
fn bursts_pause_at_their_end() {
    let line = AccessLine {
        burst: 3,
        delay_ms: 7,
        ..AccessLine::all(512, 100, 0)
    };
    let pauses: Vec<u32> = operations(&single(line), 9, 1)
        .iter()
        .map(|o| o.pause_ms)
        .collect();
    assert_eq!(pauses, [0, 0, 7, 0, 0, 7, 0, 0, 7]);
}
