//! What devices read and wrote and how long it took, counted where their answers come in: `pool iostat`.
//!
//! Only counts that grow: whoever wants to know of a span of time asks at both its ends.

/// Requests of one direction that a device answered well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transfers {
    /// How many; writes that were joined are one.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Microseconds from handing each to the device until its answer, all together.
    pub disk_us: u64,
    /// The same from when each was asked for, so with the wait in the leaf's queue; of writes that were
    /// joined the first counts.
    pub total_us: u64,
}

impl Transfers {
    /// Counts one that was asked for and handed to the device at these times.
    pub(crate) fn count(&mut self, bytes: u64, asked_us: u64, issued_us: u64, now_us: u64) {
        self.requests += 1;
        self.bytes += bytes;
        self.disk_us += now_us.saturating_sub(issued_us);
        self.total_us += now_us.saturating_sub(asked_us);
    }
}

/// What a device did since its leaf joined the array. Labels and repairs count as well; flushes, trims and
/// what failed do not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeafIo {
    /// Reads.
    pub read: Transfers,
    /// Writes.
    pub write: Transfers,
}

/// Blocks of one direction, whatever it took of a top-level vdev's leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Blocks {
    /// How many.
    pub operations: u64,
    /// Their bytes, without copies and parity.
    pub bytes: u64,
}

impl Blocks {
    /// Counts one.
    pub(super) fn count(&mut self, bytes: u64) {
        self.operations += 1;
        self.bytes += bytes;
    }
}

/// What a top-level vdev did since it was added or the array was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockIo {
    /// Blocks that were read, for scrubs and resilvers too.
    pub read: Blocks,
    /// Blocks that were written.
    pub write: Blocks,
}
