//! Logical block addresses, counts and ranges, as types that cannot be confused with bytes.

/// A logical block address (SBC-4 3.1.64), in logical blocks of the unit it belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lba(pub u64);

/// A number of logical blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockCount(pub u64);

/// A run of logical blocks `[start, start + count)`. Constructors guarantee that the end fits in a
/// `u64`, so arithmetic on a range that exists never wraps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct BlockRange {
    /// The first block.
    pub start: Lba,
    /// How many blocks; may be zero.
    pub count: BlockCount,
}

impl BlockRange {
    /// The range `[start, start + count)`, or `None` where its end does not fit in 64 bits.
    pub fn new(start: u64, count: u64) -> Option<Self> {
        start.checked_add(count)?;
        Some(Self {
            start: Lba(start),
            count: BlockCount(count),
        })
    }

    /// The first block after the range.
    pub fn end(self) -> u64 {
        self.start.0 + self.count.0
    }

    /// Whether the two ranges share a block.
    pub fn overlaps(self, other: Self) -> bool {
        self.start.0 < other.end() && other.start.0 < self.end()
    }

    /// Whether the range holds no block.
    pub fn is_empty(self) -> bool {
        self.count.0 == 0
    }

    /// At most `count` blocks from the front, and what is left after them.
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

    /// The blocks from the front that `bytes` bytes of data fill; a part of a block does not count.
    #[inline]
    pub fn filled_by(self, bytes: u64, block_len: u32) -> Self {
        self.split_at_most(bytes / u64::from(block_len)).0
    }
}
