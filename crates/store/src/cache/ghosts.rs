//! Ghosts: blocks that were thrown out before they were used twice. They are remembered for a
//! while, so that a block that comes back soon is known to be worth keeping.
//!
//! The table is fixed, with 8-byte marks in rows of one cache line. A row is a short queue: a new
//! mark pushes its oldest one out. A mark also grows too old by itself, after as many bytes were
//! thrown out as the cache keeps. Otherwise marks of large blocks would live so long that the
//! second run of an endless scan looked like use.

const MARKS_PER_ROW: usize = 8;
/// Bytes of the cache for each mark: the smallest block.
const BYTES_PER_MARK: usize = 4096;

/// Marks of the blocks. A mark of 0 is none. Any other mark holds the hash's middle bits and the
/// time at which the block went.
#[derive(Debug)]
pub(super) struct Ghosts {
    rows: Box<[[u64; MARKS_PER_ROW]]>,
    /// Amount that was thrown out, in [`BYTES_PER_MARK`]. The clock wraps.
    clock: u32,
    /// Age up to which a mark counts, in the clock's unit.
    reach: u32,
}

impl Ghosts {
    /// Makes the table for a cache that keeps `bytes` of blocks.
    pub(super) fn new(bytes: usize) -> Self {
        let marks = bytes / BYTES_PER_MARK;
        Self {
            rows: vec![[0; MARKS_PER_ROW]; marks.div_ceil(MARKS_PER_ROW)].into_boxed_slice(),
            clock: 0,
            reach: u32::try_from(marks).unwrap_or(u32::MAX / 2),
        }
    }

    /// Returns the bytes of memory of the table, for a cache that keeps `bytes` of blocks.
    pub(super) const fn memory(bytes: usize) -> usize {
        (bytes / BYTES_PER_MARK).div_ceil(MARKS_PER_ROW) * MARKS_PER_ROW * size_of::<u64>()
    }

    /// Remembers a block of `bytes` that was thrown out.
    pub(super) fn add(&mut self, hash: u64, bytes: usize) {
        self.clock = self.clock.wrapping_add((bytes / BYTES_PER_MARK) as u32);
        let mark = fingerprint(hash) | u64::from(self.clock);
        if let Some(row) = self.row(hash) {
            row.copy_within(0..MARKS_PER_ROW - 1, 1);
            row[0] = mark;
        }
    }

    /// Reports whether the block was thrown out lately, and uses its mark up.
    pub(super) fn take(&mut self, hash: u64) -> bool {
        let (clock, reach) = (self.clock, self.reach);
        let Some(row) = self.row(hash) else {
            return false;
        };
        let wanted = fingerprint(hash);
        let found = row
            .iter_mut()
            .find(|mark| **mark & FINGERPRINT == wanted)
            .map(std::mem::take);
        found.is_some_and(|mark| clock.wrapping_sub(mark as u32) <= reach)
    }

    fn row(&mut self, hash: u64) -> Option<&mut [u64; MARKS_PER_ROW]> {
        // These bits choose neither the part nor, mostly, the place in the table.
        let row = ((hash >> 16 & 0xffff_ffff) * self.rows.len() as u64) >> 32;
        self.rows.get_mut(row as usize)
    }
}

const FINGERPRINT: u64 = 0xffff_ffff_0000_0000;

/// Returns the part of the hash that a mark holds, never 0.
fn fingerprint(hash: u64) -> u64 {
    (hash << 32 | 1 << 32) & FINGERPRINT
}
