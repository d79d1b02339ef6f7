//! Random numbers from a seed: every choice of a simulation comes from here.

use std::ops::Range;

use iscsi::chap::Entropy;

/// SplitMix64.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Makes the sequence of this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Draws a number of this range.
    pub fn within(&mut self, range: Range<u64>) -> u64 {
        range.start + self.next() % (range.end - range.start)
    }

    /// Draws true with a chance of `share` in a thousand.
    pub fn per_mille(&mut self, share: u64) -> bool {
        self.within(0..1000) < share
    }

    /// Shuffles the items into any order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (1..items.len()).rev() {
            items.swap(end, self.within(0..end as u64 + 1) as usize);
        }
    }

    /// Makes a sequence of its own. Numbers drawn from it change nothing here.
    pub fn fork(&mut self) -> Self {
        Self(self.next())
    }

    /// Draws one of these.
    pub fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.within(0..choices.len() as u64) as usize]
    }
}

impl Entropy for Random {
    fn fill(&mut self, bytes: &mut [u8]) {
        bytes.iter_mut().for_each(|byte| *byte = self.next() as u8);
    }
}
