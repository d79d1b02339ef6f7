//! Random choices from a seed, and the seeds of a run.

use std::ops::Range;

/// SplitMix64 generator: small, and equal on every machine.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns one of these numbers.
    pub(crate) fn within(&mut self, range: Range<u64>) -> u64 {
        range.start + self.next() % (range.end - range.start)
    }

    /// Returns true with a probability of `percent` in a hundred.
    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.within(0..100) < percent
    }
}

/// Returns the seed of `SANDSTONE_SEED`, or `usual` if it is not set.
pub(crate) fn seeds(usual: Range<u64>) -> Vec<u64> {
    match std::env::var("SANDSTONE_SEED") {
        Ok(seed) => vec![seed.parse().expect("SANDSTONE_SEED is a number")],
        Err(_) => usual.collect(),
    }
}

/// Runs `test` with a seed and names the seed if it fails.
pub(crate) fn with_seed(seed: u64, test: impl FnOnce(u64)) {
    let named = NamedOnPanic(seed);
    test(seed);
    drop(named);
}

struct NamedOnPanic(u64);

impl Drop for NamedOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("failed with SANDSTONE_SEED={}", self.0);
        }
    }
}
