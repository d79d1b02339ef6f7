//! Counts of the devices' reads and writes, and of the time that they took, for `pool iostat`. They
//! are taken where the devices' answers come in.
//!
//! The counts only grow. A caller that is interested in a span of time asks at both its ends.

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
    pub(super) fn count(&mut self, bytes: u64) {
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
