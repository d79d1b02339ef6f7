//! Numbers of 128 bits that are much alike. Only the bits in which they differ are kept.
//!
//! Address and shape of a node's pointers are numbers of this kind. Neighbours lie on one vdev, in
//! one part of it, and were born at about one time.

use smallvec::SmallVec;

/// Mask of the bits that differ among some numbers, and the values of the other bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Varying {
    /// Bits that all numbers have in common; zero where the numbers differ.
    pub(super) common: u128,
    /// Bits in which the numbers differ.
    pub(super) mask: u128,
    /// Differing bits of the lower half of a number, and of its upper half.
    halves: [Half; 2],
}

/// Differing bits of one half. Numbers of 64 bits are moved in a third of the steps of longer ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Half {
    /// Runs of bits in the mask, the lowest first.
    runs: SmallVec<[Run; 4]>,
    /// Number of differing bits.
    bits: u32,
}

/// Run of differing bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Run {
    /// Bit at which the run begins.
    start: u32,
    /// Bit to which its lowest bit is moved.
    at: u32,
    /// Bits of the run, moved down.
    bits: u64,
}

impl Half {
    fn of(mask: u64) -> Self {
        let mut half = Self::default();
        let mut rest = mask;
        while rest != 0 {
            let start = rest.trailing_zeros();
            let len = (rest >> start).trailing_ones();
            let bits = u64::MAX >> (u64::BITS - len);
            let at = half.bits;
            half.runs.push(Run { start, at, bits });
            half.bits += len;
            rest &= !(bits << start);
        }
        half
    }

    #[inline]
    fn pack(&self, number: u64) -> u64 {
        let moved = |run: &Run| (number >> run.start & run.bits) << run.at;
        self.runs.iter().fold(0, |packed, run| packed | moved(run))
    }

    #[inline]
    fn unpack(&self, packed: u64) -> u64 {
        let moved = |run: &Run| (packed >> run.at & run.bits) << run.start;
        self.runs.iter().fold(0, |number, run| number | moved(run))
    }
}

impl Varying {
    /// Restores a mask as it was noted. Returns `None` if no numbers can have it.
    pub(super) fn open(common: u128, mask: u128) -> Option<Self> {
        (common & mask == 0).then(|| Self::with(common, mask))
    }

    /// Finds the bits that differ if these numbers differ from the first in `mask` at most.
    pub(super) fn from(first: u128, mask: u128) -> Self {
        Self::with(first & !mask, mask)
    }

    fn with(common: u128, mask: u128) -> Self {
        let halves = [mask as u64, (mask >> u64::BITS) as u64].map(Half::of);
        Self {
            common,
            mask,
            halves,
        }
    }

    /// Returns the number of bytes that the differing bits of a number take.
    pub(super) fn width(&self) -> usize {
        self.mask.count_ones().div_ceil(8) as usize
    }

    /// Returns the differing bits of `number`, moved together.
    #[inline]
    pub(super) fn pack(&self, number: u128) -> u128 {
        let [low, high] = &self.halves;
        let upper = high.pack((number >> u64::BITS) as u64);
        u128::from(low.pack(number as u64)) | u128::from(upper) << low.bits
    }

    /// Returns the number whose differing bits are `packed`. Bits beyond the differing ones are
    /// passed over.
    #[inline]
    pub(super) fn unpack(&self, packed: u128) -> u128 {
        let [low, high] = &self.halves;
        let upper = high.unpack((packed >> low.bits) as u64);
        self.common | u128::from(low.unpack(packed as u64)) | u128::from(upper) << u64::BITS
    }
}
