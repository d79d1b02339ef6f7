//! Counts of reads and writes of a vdev. `pool iostat` makes rates of two such answers.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::vdev::VdevView;

/// What a vdev read and wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct IoView {
    /// Reads.
    pub read: IoCounts,
    /// Writes.
    pub write: IoCounts,
}

/// Counts of one direction; they only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct IoCounts {
    /// Of a device its requests; of a mirror or raidz the blocks that were asked of it.
    pub operations: u64,
    /// Bytes of these: of a mirror or raidz without copies and parity.
    pub bytes: u64,
    /// Requests of its devices, which the times below are of.
    pub requests: u64,
    /// Microseconds from handing requests to devices until their answers, all together.
    pub disk_wait_us: u64,
    /// The same with their time in queues before.
    pub total_wait_us: u64,
}

impl IoView {
    /// Returns the sum of the counts of several vdevs.
    pub fn of_all(children: &[VdevView]) -> Self {
        let all = children.iter().filter_map(|child| child.io);
        all.fold(Self::default(), Self::plus)
    }

    /// Returns the sum of two counts.
    pub fn plus(self, other: Self) -> Self {
        Self {
            read: self.read.each(other.read, u64::saturating_add),
            write: self.write.each(other.write, u64::saturating_add),
        }
    }

    /// Returns the difference from the earlier counts `before`.
    pub fn since(self, before: Self) -> Self {
        Self {
            read: self.read.each(before.read, u64::saturating_sub),
            write: self.write.each(before.write, u64::saturating_sub),
        }
    }
}

impl IoCounts {
    fn each(self, other: Self, of: fn(u64, u64) -> u64) -> Self {
        Self {
            operations: of(self.operations, other.operations),
            bytes: of(self.bytes, other.bytes),
            requests: of(self.requests, other.requests),
            disk_wait_us: of(self.disk_wait_us, other.disk_wait_us),
            total_wait_us: of(self.total_wait_us, other.total_wait_us),
        }
    }
}
