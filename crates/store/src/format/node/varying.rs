//! Numbers of 128 bits that are much alike, kept as the bits in which they differ.
//!
//! Address and shape of the pointers in a node are such numbers: neighbours lie on the same vdev, in
//! the same part of it, and were born at about the same time.

/// Which bits differ among some numbers, and what the others are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Varying {
    /// The bits that all have in common; zero where they differ.
    pub(super) common: u128,
    /// The bits in which they differ.
    pub(super) mask: u128,
    /// The mask as runs of bits, the lowest first: where a run begins, and its bits moved down.
    runs: Vec<(u32, u128)>,
}

impl Varying {
    /// Of these numbers.
    pub(super) fn of(numbers: impl IntoIterator<Item = u128>) -> Self {
        let mut numbers = numbers.into_iter();
        let first = numbers.next().unwrap_or(0);
        let mask = numbers.fold(0, |mask, number| mask | (number ^ first));
        Self::with(first & !mask, mask)
    }

    /// As it was noted; `None` where no numbers have this.
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

    /// How many bytes the differing bits of a number take.
    pub(super) fn width(&self) -> usize {
        self.mask.count_ones().div_ceil(8) as usize
    }

    /// The differing bits of `number`, moved together.
    #[inline]
    pub(super) fn pack(&self, number: u128) -> u128 {
        let mut at = 0;
        self.runs.iter().fold(0, |packed, &(start, bits)| {
            let moved = ((number >> start) & bits) << at;
            at += bits.count_ones();
            packed | moved
        })
    }

    /// The number of which these are the differing bits. Bits beyond them are passed over.
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
