//! Hit rates of the cache beside those of an LRU with equal memory: on skewed access, with scans,
//! and on a loop. `--nocapture` prints the figures.

use std::collections::{BTreeMap, HashMap};

use super::*;

const CAP: usize = 4 << 20;
/// Blocks that LRU is given: as many as the cache can have, with no overhead counted against LRU.
const LRU_BLOCKS: usize = CAP / 4096;
const UNIVERSE: u64 = 20_000;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        super::super::mix(self.0)
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Random ranks with a probability of 1 / rank^skew.
struct Zipf(Vec<f64>);

impl Zipf {
    fn new(skew: f64) -> Self {
        let mut sum = 0.0;
        Self(
            (1..=UNIVERSE)
                .map(|rank| {
                    sum += (rank as f64).powf(-skew);
                    sum
                })
                .collect(),
        )
    }

    fn draw(&self, random: &mut Random) -> u64 {
        let point = random.unit() * self.0[self.0.len() - 1];
        self.0.partition_point(|sum| *sum < point) as u64
    }
}

#[derive(Default)]
struct Lru {
    times: HashMap<u64, u64>,
    order: BTreeMap<u64, u64>,
    now: u64,
}

impl Lru {
    fn access(&mut self, number: u64) -> bool {
        self.now += 1;
        let before = self.times.insert(number, self.now);
        if let Some(before) = before {
            self.order.remove(&before);
        }
        self.order.insert(self.now, number);
        if self.order.len() > LRU_BLOCKS {
            let (_, oldest) = self.order.pop_first().expect("not empty");
            self.times.remove(&oldest);
        }
        before.is_some()
    }
}

/// Returns the shares of hits of the cache and of LRU. Only accesses that the trace marks are
/// counted.
fn compare(name: &str, trace: impl Iterator<Item = (u64, bool)>) -> (f64, f64) {
    let cache = Cache::new(CAP, 3);
    let mut lru = Lru::default();
    let data = block(4096, 1);
    let (mut ours, mut theirs, mut count) = (0, 0, 0);
    for (number, counts) in trace {
        let is_hit = cache.get(key(1, number)).is_some();
        if !is_hit {
            let ticket = cache.ticket(key(1, number));
            cache.fill(key(1, number), ticket, data.clone(), nobody);
        }
        let is_lru_hit = lru.access(number);
        if counts {
            count += 1;
            ours += u32::from(is_hit);
            theirs += u32::from(is_lru_hit);
        }
    }
    let (ours, theirs) = (
        f64::from(ours) / f64::from(count),
        f64::from(theirs) / f64::from(count),
    );
    println!(
        "{name}: {:.1} % of reads hit, LRU {:.1} %",
        ours * 100.0,
        theirs * 100.0
    );
    (ours, theirs)
}

#[test]
fn skewed_access_hits_more_often_than_with_lru() {
    for (skew, gain) in [(0.7, 1.2), (0.9, 1.1), (1.1, 1.02)] {
        let zipf = Zipf::new(skew);
        let mut random = Random(1);
        let trace = (0..400_000).map(|_| (zipf.draw(&mut random), true));
        let (ours, theirs) = compare(&format!("zipf {skew}"), trace);
        assert!(ours > theirs * gain, "{skew}: {ours:.3} and {theirs:.3}");
    }
}

/// Half of the reads are a scan that never returns. The hits of the other half are counted.
#[test]
fn a_scan_does_not_push_out_what_is_used() {
    let zipf = Zipf::new(0.9);
    let mut random = Random(2);
    let trace = (0..600_000_u64).map(|at| match at % 2 {
        0 => (zipf.draw(&mut random), true),
        _ => (1_000_000 + at, false),
    });
    let (ours, theirs) = compare("zipf 0.9 beside a scan", trace);
    assert!(ours > theirs * 1.25, "{ours:.3} and {theirs:.3}");
    let zipf = Zipf::new(0.9);
    let mut random = Random(2);
    let alone = (0..300_000).map(|_| (zipf.draw(&mut random), true));
    let (alone, _) = compare("the same without it", alone);
    assert!(
        ours > alone * 0.9,
        "{ours:.3} beside a scan, {alone:.3} alone"
    );
}

/// The scan reads each block in 16 requests, as a client with small requests does on large blocks.
#[test]
fn a_scan_that_reads_each_block_in_parts_does_not_either() {
    let zipf = Zipf::new(0.9);
    let mut random = Random(2);
    let trace = (0..1_700_000_u64).map(|at| match at % 17 {
        0 => (zipf.draw(&mut random), true),
        _ => (1_000_000 + at / 17, false),
    });
    let (ours, theirs) = compare("zipf 0.9 beside a scan in small requests", trace);
    assert!(ours > theirs * 1.25, "{ours:.3} and {theirs:.3}");
}

/// The loop is a fifth longer than the cache. LRU has always just thrown out the next block.
#[test]
fn a_loop_that_is_too_long_still_hits() {
    let length = LRU_BLOCKS as u64 * 6 / 5;
    let trace = (0..100_000).map(|at| (at % length, at > 10_000));
    let (ours, theirs) = compare("loop of 1.2 caches", trace);
    assert!(theirs < 0.01 && ours > 0.2, "{ours:.3} and {theirs:.3}");
}

/// The set in use moves elsewhere, and the cache must learn the new one.
#[test]
fn a_new_set_in_use_displaces_the_old_one() {
    let set = LRU_BLOCKS as u64 * 8 / 10;
    let mut random = Random(4);
    let trace = (0..200_000_u64).map(|at| {
        let base = if at < 100_000 { 0 } else { 1_000_000 };
        (base + random.next() % set, (105_000..).contains(&at))
    });
    let (ours, _) = compare("a set of 0.8 caches that moved", trace);
    assert!(ours > 0.93, "{ours:.3}");
}
