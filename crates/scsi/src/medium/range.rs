//! Logical block addresses, counts and ranges, as types that cannot be confused with bytes.

/// Logical block address (SBC-4 3.1.64), in logical blocks of the unit to which it belongs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lba(pub u64);

/// Number of logical blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockCount(pub u64);

/// Run of logical blocks `[start, start + count)`. Constructors guarantee that the end fits in a
/// `u64`, so arithmetic on an existing range never wraps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct BlockRange {
    /// The first block.
    pub start: Lba,
    /// Number of blocks, which may be zero.
    pub count: BlockCount,
}

impl BlockRange {
    /// Makes the range `[start, start + count)`, or returns `None` if its end does not fit in 64
    /// bits.
    pub fn new(start: u64, count: u64) -> Option<Self> {
        start.checked_add(count)?;
        Some(Self {
            start: Lba(start),
            count: BlockCount(count),
        })
    }

    /// Returns the first block after the range.
    pub fn end(self) -> u64 {
        self.start.0 + self.count.0
    }

    /// Reports whether the two ranges share a block.
    pub fn overlaps(self, other: Self) -> bool {
        self.start.0 < other.end() && other.start.0 < self.end()
    }

    /// Reports whether the range holds no block.
    pub fn is_empty(self) -> bool {
        self.count.0 == 0
    }

    /// Splits off at most `count` blocks from the front, and returns them and the rest.
    pub fn split_at_most(self, count: u64) -> (Self, Self) {
        let first = self.count.0.min(count);
        let front = Self {
            start: self.start,
            count: BlockCount(first),
        };
        let rest = Self {
            start: Lba(self.start.0 + first),
            count: BlockCount(self.count.0 - first),
        };
        (front, rest)
    }

    /// Returns the blocks from the front that `bytes` bytes of data fill. A part of a block does
    /// not count.
    #[inline]
    pub fn filled_by(self, bytes: u64, block_len: u32) -> Self {
        self.split_at_most(bytes / u64::from(block_len)).0
    }
}
