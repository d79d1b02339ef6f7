//! Counts of reads and writes of a vdev. `pool iostat` computes rates from two answers.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::vdev::VdevView;

/// Reads and writes of a vdev.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct IoView {
    /// Counts of the reads.
    pub read: IoCounts,
    /// Counts of the writes.
    pub write: IoCounts,
}

/// Counts of one direction. They only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct IoCounts {
    /// Number of operations. For a device, these are its requests. For a mirror or raidz, these are
    /// the blocks that were requested of it.
    pub operations: u64,
    /// Bytes of the operations. For a mirror or raidz, copies and parity are not counted.
    pub bytes: u64,
    /// Number of requests of the vdev's devices. The times below belong to these requests.
    pub requests: u64,
    /// Total microseconds from handing requests to devices until the devices answered.
    pub disk_wait_us: u64,
    /// Total microseconds of the requests, including the time in queues before the devices.
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
