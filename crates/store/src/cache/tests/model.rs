//! Tests of the cache against a model: a look-up returns the last data or nothing, and memory never
//! exceeds the cap.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::Ticket;
use super::*;

#[derive(Clone, Debug)]
enum Step {
    Get(Key),
    Pass(Key, u64),
    Insert(Key, usize),
    BeginRead(Key),
    EndRead(usize),
    Invalidate(Key),
    InvalidateRange(u64, u64, u64),
    InvalidateVolume(u64),
    Resize(usize),
}

fn keys() -> impl Strategy<Value = Key> {
    (0_u64..3, 0_u64..150).prop_map(|(volume, block)| key(volume, block))
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => keys().prop_map(Step::Get),
        10 => (keys(), 0_u64..8_000_000).prop_map(|(key, run)| Step::Pass(key, run)),
        20 => (keys(), prop_oneof![Just(4096_usize), Just(16_384), Just(65_536), 1_usize..70_000])
            .prop_map(|(key, len)| Step::Insert(key, len.max(8))),
        5 => keys().prop_map(Step::BeginRead),
        5 => any::<usize>().prop_map(Step::EndRead),
        4 => keys().prop_map(Step::Invalidate),
        2 => (0_u64..3, 0_u64..150, prop_oneof![0_u64..20, Just(u64::MAX - 200)])
            .prop_map(|(volume, block, count)| Step::InvalidateRange(volume, block, count)),
        1 => (0_u64..3).prop_map(Step::InvalidateVolume),
        1 => (0_usize..3_000_000).prop_map(Step::Resize),
    ]
}

/// Contents of the blocks, and reads that are under way: the data that they saw, and how long the
/// block is.
#[derive(Default)]
struct Model {
    blocks: BTreeMap<Key, (u64, usize)>,
    reads: Vec<(Key, Ticket, (u64, usize))>,
    next_content: u64,
}

impl Model {
    fn apply(&mut self, cache: &Cache, step: Step) {
        match step {
            Step::Get(key) => self.check(cache, key),
            Step::Pass(key, run) => {
                cache.pass(key, run);
                self.check(cache, key);
            }
            Step::Insert(key, len) => {
                self.next_content += 1;
                self.blocks.insert(key, (self.next_content, len));
                cache.insert(key, block(len, self.next_content), nobody);
                self.check(cache, key);
            }
            Step::BeginRead(key) => {
                let stored = *self.blocks.entry(key).or_insert((0, 4096));
                self.reads.push((key, cache.ticket(key), stored));
            }
            Step::EndRead(which) if !self.reads.is_empty() => {
                let (key, ticket, (content, len)) = self.reads.remove(which % self.reads.len());
                cache.fill(key, ticket, block(len, content), nobody);
                self.check(cache, key);
            }
            Step::EndRead(_) => {}
            // An invalidated block reads as something else on the disk from now on.
            Step::Invalidate(key) => {
                self.change(|other| other == key);
                cache.invalidate(key);
                assert!(cache.get(key).is_none());
            }
            Step::InvalidateRange(volume, start, count) => {
                let range = start..start.saturating_add(count);
                self.change(|key| key.volume == volume && range.contains(&key.block));
                cache.invalidate_range(volume, range.clone());
                (range.start..range.end.min(150))
                    .for_each(|block| assert!(cache.get(key(volume, block)).is_none()));
            }
            Step::InvalidateVolume(volume) => {
                self.change(|key| key.volume == volume);
                cache.invalidate_volume(volume);
                assert_eq!(cache.volume_statistics(volume), Default::default());
                (0..150).for_each(|block| assert!(cache.get(key(volume, block)).is_none()));
            }
            Step::Resize(cap) => {
                cache.resize(cap);
                assert_eq!(cache.cap(), cap);
            }
        }
        self.check_counts(cache);
    }

    fn change(&mut self, is_changed: impl Fn(Key) -> bool) {
        for (key, stored) in &mut self.blocks {
            if is_changed(*key) {
                self.next_content += 1;
                stored.0 = self.next_content;
            }
        }
    }

    fn check(&self, cache: &Cache, key: Key) {
        if let Some(data) = cache.get(key) {
            let (content, len) = self.blocks[&key];
            assert!(data == block(len, content).to_vec(), "{key:?}");
            let part = cache.range_or_ticket(key, 8..len).ok();
            assert!(part.is_none_or(|part| part == block(len, content).to_vec()[8..]));
            assert!(cache.range_or_ticket(key, 8..len + 1).is_err());
        }
    }

    fn check_counts(&self, cache: &Cache) {
        let all = cache.statistics();
        // Up to four parts, so small that nothing fits in them.
        assert!(all.bytes <= cache.cap().max(8192) as u64, "{all:?}");
        assert!(all.bytes >= all.block_bytes + all.blocks * 64);
        let volumes: Vec<_> = (0..3)
            .map(|volume| cache.volume_statistics(volume))
            .collect();
        let sum = |count: fn(&super::super::VolumeStatistics) -> u64| {
            volumes.iter().map(count).sum::<u64>()
        };
        assert_eq!(all.blocks, sum(|volume| volume.blocks));
        assert_eq!(all.block_bytes, sum(|volume| volume.block_bytes));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn what_comes_out_is_what_went_in_last(
        cap in prop_oneof![0_usize..10_000, 10_000_usize..3_000_000, Just(20_000_000)],
        seed in any::<u64>(),
        steps in prop::collection::vec(steps(), 1..400),
    ) {
        let cache = Cache::new(cap, seed);
        let mut model = Model::default();
        for step in steps {
            model.apply(&cache, step);
        }
    }
}

#[test]
fn the_cap_is_used_but_never_passed() {
    for len in [4096, 16_384, 131_072] {
        let cap = 64 << 20;
        let cache = Cache::new(cap, 1);
        for number in 0..3 * cap as u64 / len as u64 {
            cache.insert(key(number % 5, number), block(len, number), nobody);
            if number % 64 == 0 {
                assert!(cache.statistics().bytes <= cap as u64);
            }
        }
        let all = cache.statistics();
        assert!(all.bytes <= cap as u64);
        assert!(all.bytes > cap as u64 * 95 / 100, "{len}: {all:?}");
        assert!(all.block_bytes > cap as u64 * 93 / 100, "{len}: {all:?}");
        let came = 3 * cap as u64 / len as u64;
        assert_eq!(all.evictions, came - all.blocks, "{len}");
    }
}

#[test]
fn misses_of_volumes_that_were_never_here_take_no_memory_beyond_the_cap() {
    let cache = Cache::new(9944, 0);
    cache.insert(key(0, 1), block(4096, 1), nobody);
    for volume in 1..100 {
        assert!(cache.get(key(volume, 11)).is_none());
        assert!(cache.statistics().bytes <= 9944, "{volume}");
    }
    assert_eq!(cache.statistics().misses, 99);
}

#[test]
fn a_cut_of_a_long_run_does_not_keep_the_run() {
    let cache = Cache::new(1 << 20, 1);
    let run = block(64 << 10, 7);
    cache.insert(key(1, 1), run.slice(4096..12_288), nobody);
    assert!(cache.statistics().block_bytes < 3 * 4096);
    assert!(cache.get(key(1, 1)).expect("just put in") == run.slice(4096..12_288).to_vec());
}

#[test]
fn what_had_to_go_is_handed_over_with_its_history() {
    let cache = Cache::new(4 << 20, 1);
    let mut gone = Vec::new();
    for number in 0..3000 {
        cache.insert(key(1, number), block(4096, number), |evicted| {
            gone.push(evicted)
        });
        cache.get(key(1, number / 2));
    }
    assert!(
        gone.iter()
            .all(|evicted| content(&evicted.data) == evicted.key.block)
    );
    assert!(gone.iter().any(|evicted| evicted.was_used_again));
    assert!(gone.iter().any(|evicted| !evicted.was_used_again));
    assert_eq!(gone.len() as u64, cache.statistics().evictions);
    let all = cache.statistics();
    assert_eq!(all.blocks + all.evictions, 3000);
    assert_eq!(all.hits + all.misses, 3000);
    assert_eq!(cache.volume_statistics(1).hits, all.hits);
}

#[test]
fn a_block_that_is_too_large_goes_and_takes_the_old_one_along() {
    let cache = Cache::new(200_000, 1);
    cache.insert(key(1, 1), block(4096, 1), nobody);
    assert!(cache.get(key(1, 1)).is_some());
    cache.insert(key(1, 1), block(131_072, 2), nobody);
    assert!(cache.get(key(1, 1)).is_none());
}

#[test]
fn a_read_that_a_write_overtook_is_refused() {
    let cache = Cache::new(1 << 20, 1);
    let ticket = cache.ticket(key(1, 1));
    assert!(cache.fill(key(1, 1), ticket, block(4096, 1), nobody));
    assert!(
        cache.fill(key(1, 1), ticket, block(4096, 1), nobody),
        "nothing changed"
    );
    cache.insert(key(1, 1), block(4096, 2), nobody);
    assert!(!cache.fill(key(1, 1), ticket, block(4096, 1), nobody));
    let ticket = cache.ticket(key(1, 1));
    cache.invalidate(key(1, 1));
    assert!(!cache.fill(key(1, 1), ticket, block(4096, 2), nobody));
    let ticket = cache.ticket(key(1, 1));
    cache.invalidate_volume(1);
    assert!(!cache.fill(key(1, 1), ticket, block(4096, 2), nobody));
    let ticket = cache.ticket(key(1, 1));
    cache.invalidate_range(1, 0..1 << 40);
    assert!(!cache.fill(key(1, 1), ticket, block(4096, 2), nobody));
}

#[test]
fn resizing_keeps_what_fits() {
    let cache = Cache::new(32 << 20, 1);
    for number in 0..4000 {
        cache.insert(key(1, number), block(4096, number), nobody);
    }
    assert_eq!(cache.statistics().blocks, 4000);
    cache.resize(64 << 20);
    let found = (0..4000).filter(|number| cache.get(key(1, *number)).is_some());
    assert_eq!(found.count(), 4000);
    cache.resize(8 << 20);
    let all = cache.statistics();
    assert!(all.bytes <= 8 << 20 && all.blocks > 1800, "{all:?}");
    cache.resize(0);
    assert_eq!(cache.statistics().blocks, 0);
}

#[test]
fn the_same_calls_give_the_same_results() {
    let run = || {
        let cache = Cache::new(5 << 20, 42);
        let mut gone = Vec::new();
        for number in 0..5000_u64 {
            let block_number = number * number % 3001;
            cache.get(key(1, block_number));
            cache.insert(key(1, block_number), block(4096, number), |e| {
                gone.push(e.key)
            });
        }
        (gone, cache.statistics())
    };
    assert_eq!(run(), run());
}
