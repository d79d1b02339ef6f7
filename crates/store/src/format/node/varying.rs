//! Numbers of 128 bits that are much alike. Only the bits in which they differ are kept.
//!
//! Address and shape of a node's pointers are numbers of this kind. Neighbours lie on one vdev, in
//! one part of it, and were born at about one time.

/// Mask of the bits that differ among some numbers, and the values of the other bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Varying {
    /// Bits that all numbers have in common; zero where the numbers differ.
    pub(super) common: u128,
    /// Bits in which the numbers differ.
    pub(super) mask: u128,
    /// Runs of bits in the mask, the lowest first: the bit at which a run begins, and its bits
    /// moved down.
    runs: Vec<(u32, u128)>,
}

impl Varying {
    /// Finds the differing bits of these numbers.
    pub(super) fn of(numbers: impl IntoIterator<Item = u128>) -> Self {
        let mut numbers = numbers.into_iter();
        let first = numbers.next().unwrap_or(0);
        let mask = numbers.fold(0, |mask, number| mask | (number ^ first));
        Self::with(first & !mask, mask)
    }

    /// Restores a mask as it was noted. Returns `None` if no numbers can have it.
    pub(super) fn open(common: u128, mask: u128) -> Option<Self> {
        (common & mask == 0).then(|| Self::with(common, mask))
    }

    fn with(common: u128, mask: u128) -> Self {
        let mut runs = Vec::new();
        let mut rest = mask;
        while rest != 0 {
            let start = rest.trailing_zeros();
            let len = (rest >> start).trailing_ones();
            let bits = u128::MAX >> (128 - len);
            runs.push((start, bits));
            rest &= !(bits << start);
        }
        Self { common, mask, runs }
    }

    /// Returns the number of bytes that the differing bits of a number take.
    pub(super) fn width(&self) -> usize {
        self.mask.count_ones().div_ceil(8) as usize
    }

    /// Returns the differing bits of `number`, moved together.
    #[inline]
    pub(super) fn pack(&self, number: u128) -> u128 {
        let mut at = 0;
        self.runs.iter().fold(0, |packed, &(start, bits)| {
            let moved = ((number >> start) & bits) << at;
            at += bits.count_ones();
            packed | moved
        })
    }

    /// Returns the number whose differing bits are `packed`. Bits beyond the differing ones are
    /// passed over.
    #[inline]
    pub(super) fn unpack(&self, packed: u128) -> u128 {
        let mut at = 0;
        self.runs
            .iter()
            .fold(self.common, |number, &(start, bits)| {
                let moved = ((packed >> at) & bits) << start;
                at += bits.count_ones();
                number | moved
            })
    }
}
