//! Counts of the devices' reads and writes, and of the time that they took, for `pool iostat`. They
//! are taken where the devices' answers come in.
//!
//! The counts only grow. A caller that is interested in a span of time asks at both its ends.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Requests of one direction that a device answered well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transfers {
    /// Number of requests. Writes that were joined are one request.
    pub requests: u64,
    /// Bytes of the requests.
    pub bytes: u64,
    /// Sum of the times from handing each request to the device until its answer, in microseconds.
    pub disk_us: u64,
    /// Sum of the times from asking for each request until its answer, in microseconds. So the wait
    /// in the leaf's queue is included. Of writes that were joined, the first counts.
    pub total_us: u64,
}

impl Transfers {
    /// Counts a request that was asked for and handed to the device at these times.
    pub(crate) fn count(&mut self, bytes: u64, asked_us: u64, issued_us: u64, now_us: u64) {
        self.requests += 1;
        self.bytes += bytes;
        self.disk_us += now_us.saturating_sub(issued_us);
        self.total_us += now_us.saturating_sub(asked_us);
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            requests: self.requests + other.requests,
            bytes: self.bytes + other.bytes,
            disk_us: self.disk_us + other.disk_us,
            total_us: self.total_us + other.total_us,
        }
    }
}

/// Work of a device since its leaf joined the array. Labels and repairs count as well. Flushes,
/// trims and failed requests do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeafIo {
    /// Reads.
    pub read: Transfers,
    /// Writes.
    pub write: Transfers,
}

/// Number of parts of the counts of [`DirectReads`]. Lanes share one if there are more.
const SHARES: usize = 8;

/// Reads of a leaf's device that other threads make beside the array. Each lane counts in a part
/// that others seldom touch: a cache line that all cores change is slow to reach for all of them.
#[derive(Debug, Default)]
pub struct DirectReads {
    shares: [Share; SHARES],
    /// Parts that lanes have counted in, a bit for each. Few lanes read most pools, and a look at a
    /// part may take its cache line from another core.
    used: AtomicU32,
}

/// Counts of some lanes, on cache lines of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Share {
    under_way: AtomicU32,
    requests: AtomicU64,
    bytes: AtomicU64,
    disk_us: AtomicU64,
    blocks: AtomicU64,
    block_bytes: AtomicU64,
}

impl DirectReads {
    /// Notes that a lane begins a request.
    pub fn begin(&self, lane: usize) {
        let bit = 1 << (lane % SHARES);
        // A store that changes nothing would take the cache line from other readers.
        if self.used.load(Ordering::Relaxed) & bit == 0 {
            self.used.fetch_or(bit, Ordering::Relaxed);
        }
        self.share(lane).under_way.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that a request of a lane ended, of `bytes` bytes. It counts if it brought blocks;
    /// there may be gaps between them.
    pub fn end(&self, lane: usize, blocks: Blocks, bytes: u64, disk_us: u64) {
        let share = self.share(lane);
        share.under_way.fetch_sub(1, Ordering::Relaxed);
        if blocks.operations > 0 {
            share.requests.fetch_add(1, Ordering::Relaxed);
            share.bytes.fetch_add(bytes, Ordering::Relaxed);
            share.disk_us.fetch_add(disk_us, Ordering::Relaxed);
            let Blocks { operations, bytes } = blocks;
            share.blocks.fetch_add(operations, Ordering::Relaxed);
            share.block_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    fn share(&self, lane: usize) -> &Share {
        &self.shares[lane % SHARES]
    }

    /// Returns the number of requests under way.
    pub fn under_way(&self) -> u32 {
        let used = self.used.load(Ordering::Relaxed);
        let shares = self.shares.iter().enumerate();
        let in_use = shares.filter(|(number, _)| used & 1 << number != 0);
        let under_way = in_use.map(|(_, of)| of.under_way.load(Ordering::Relaxed));
        under_way.sum()
    }

    /// Returns the number of requests that brought blocks.
    pub fn requests(&self) -> u64 {
        self.sum(|of| &of.requests)
    }

    /// Returns the requests as they count for the leaf.
    pub(super) fn transfers(&self) -> Transfers {
        let disk_us = self.sum(|of| &of.disk_us);
        Transfers {
            requests: self.requests(),
            bytes: self.sum(|of| &of.bytes),
            disk_us,
            total_us: disk_us,
        }
    }

    /// Returns the blocks as they count for the top-level vdev.
    pub(super) fn blocks(&self) -> Blocks {
        Blocks {
            operations: self.sum(|of| &of.blocks),
            bytes: self.sum(|of| &of.block_bytes),
        }
    }

    fn sum(&self, count: impl Fn(&Share) -> &AtomicU64) -> u64 {
        let shares = self.shares.iter();
        shares.map(|of| count(of).load(Ordering::Relaxed)).sum()
    }
}

/// Blocks of one direction, whatever requests they took of a top-level vdev's leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Blocks {
    /// Number of blocks.
    pub operations: u64,
    /// Bytes of the blocks, without copies and parity.
    pub bytes: u64,
}

impl Blocks {
    /// Counts a block.
    pub fn count(&mut self, bytes: u64) {
        self.operations += 1;
        self.bytes += bytes;
    }
}

/// Work of a top-level vdev since it was added or the array was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockIo {
    /// Blocks that were read, for scrubs and resilvers too.
    pub read: Blocks,
    /// Blocks that were written.
    pub write: Blocks,
}
