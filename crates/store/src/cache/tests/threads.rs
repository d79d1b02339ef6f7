//! Tests with threads: one writes, others read, and nobody sees a block older than the acknowledged
//! one.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::*;

const BLOCKS: u64 = 300;

/// State that the threads share. Contents of a block only grow. Before the writer puts one in, it
/// has `started` it. When `insert` has returned, the content is `acknowledged`.
struct Shared {
    cache: Cache,
    started: Vec<AtomicU64>,
    acknowledged: Vec<AtomicU64>,
    is_over: AtomicBool,
    found: AtomicU64,
}

impl Shared {
    fn new(cap: usize) -> Self {
        let counts = || (0..BLOCKS).map(|_| AtomicU64::new(0)).collect();
        Self {
            cache: Cache::new(cap, 9),
            started: counts(),
            acknowledged: counts(),
            is_over: AtomicBool::new(false),
            found: AtomicU64::new(0),
        }
    }

    fn read_until_over(&self, mut random: u64) {
        while !self.is_over.load(Ordering::Acquire) {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let number = (random >> 33) % BLOCKS;
            let at_least = self.acknowledged[number as usize].load(Ordering::Acquire);
            let Some(data) = self.cache.get(key(1, number)) else {
                continue;
            };
            let seen = content(&data);
            let at_most = self.started[number as usize].load(Ordering::Acquire);
            assert!(
                (at_least..=at_most).contains(&seen),
                "block {number}: {seen} is not in {at_least}..={at_most}"
            );
            assert!(
                data.chunks().all(|chunk| chunk[..8] == seen.to_le_bytes()),
                "torn"
            );
            self.found.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Writes, invalidates, and reads slowly from a disk that always holds the newest content.
    fn write(&self, rounds: u64) {
        let mut read = None;
        for round in 1..=rounds {
            let number = round.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
            let number = number % BLOCKS;
            let len = if number.is_multiple_of(2) {
                4096
            } else {
                16_384
            };
            let acknowledged = &self.acknowledged[number as usize];
            if round % 3 == 0 {
                let stored = acknowledged.load(Ordering::Relaxed);
                let ticket = self.cache.ticket(key(1, number));
                if let Some((number, ticket, data)) =
                    read.replace((number, ticket, block(len, stored)))
                {
                    self.cache.fill(key(1, number), ticket, data, nobody);
                }
                continue;
            }
            self.started[number as usize].store(round, Ordering::Release);
            // Without an insert, the old content may still be here and is still the newest.
            let is_write = match round % 50 {
                0 => {
                    self.cache.invalidate_range(1, number..number + 1);
                    false
                }
                1 => {
                    self.cache.invalidate(key(1, number));
                    false
                }
                _ => {
                    self.cache.insert(key(1, number), block(len, round), nobody);
                    true
                }
            };
            if round.is_multiple_of(1000) {
                self.cache.resize((2 << 20) + round as usize);
            }
            if is_write {
                acknowledged.store(round, Ordering::Release);
            }
        }
    }
}

#[test]
fn no_thread_sees_a_block_older_than_what_was_acknowledged() {
    let shared = Shared::new(2 << 20);
    std::thread::scope(|scope| {
        for reader in 1..=3 {
            let shared = &shared;
            scope.spawn(move || shared.read_until_over(reader));
        }
        shared.write(30_000);
        shared.is_over.store(true, Ordering::Release);
    });
    assert!(shared.found.load(Ordering::Relaxed) > 1000);
    assert!(shared.cache.statistics().bytes <= shared.cache.cap() as u64);
}
