//! Reproducible random numbers: a seed gives one sequence on every machine and in every version.
//!
//! The generator is a published one (xoshiro256++), written out here. A crate may change its own
//! between versions, and then no run could be repeated.

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// Creates the stream of this seed.
    pub fn new(seed: u64) -> Self {
        let mut mix = seed;
        // The authors of xoshiro seed it by SplitMix64, so that similar seeds give unlike streams.
        let mut next = || {
            mix = mix.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut z = mix;
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            z ^ (z >> 31)
        };
        Self {
            state: [next(), next(), next(), next()],
        }
    }

    /// Creates one of several unrelated streams of a seed: one for each worker or purpose.
    pub fn stream(seed: u64, number: u64) -> Self {
        let mut base = Self::new(seed ^ number.wrapping_mul(0xD6E8_FEB8_6659_FD93));
        Self::new(base.next_u64())
    }

    /// Returns 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Returns a number below `bound`; 0 for a bound of 0. The chances of all numbers differ by at
    /// most 2⁻⁶⁴.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Puts a slice into random order.
    pub fn shuffle<T>(&mut self, slice: &mut [T]) {
        for last in (1..slice.len()).rev() {
            slice.swap(last, self.below(last as u64 + 1) as usize);
        }
    }

    /// Fills a slice with random bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let random = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&random[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_of_a_seed_never_changes() {
        let mut random = Random {
            state: [1, 2, 3, 4],
        };
        // The authors' reference gives these first outputs for this state.
        let expected = [41943041, 58720359, 3588806011781223, 3591011842654386];
        assert_eq!(expected.map(|_| random.next_u64()), expected);
    }

    #[test]
    fn streams_differ() {
        let mut firsts: Vec<u64> = (0..1000).map(|n| Random::stream(7, n).next_u64()).collect();
        firsts.sort_unstable();
        firsts.dedup();
        assert_eq!(firsts.len(), 1000);
        assert_eq!(
            Random::stream(7, 3).next_u64(),
            Random::stream(7, 3).next_u64()
        );
    }

    #[test]
    fn numbers_below_a_bound_are_spread_evenly() {
        let mut random = Random::new(1);
        let mut counts = [0u32; 10];
        for _ in 0..100_000 {
            counts[random.below(10) as usize] += 1;
        }
        // The tolerance is five standard deviations of a binomial count.
        assert!(
            counts.iter().all(|&count| count.abs_diff(10_000) < 475),
            "{counts:?}"
        );
        assert_eq!((random.below(0), random.below(1)), (0, 0));
    }

    #[test]
    fn shuffling_keeps_what_is_there() {
        let mut deck: Vec<u8> = (0..100).collect();
        Random::new(3).shuffle(&mut deck);
        assert_ne!(deck, (0..100).collect::<Vec<_>>());
        deck.sort_unstable();
        assert_eq!(deck, (0..100).collect::<Vec<_>>());
    }
}
