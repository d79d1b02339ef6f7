//! One second of one worker, and the second of all workers of which it becomes a part.

use serde::{Deserialize, Serialize};

use super::latency::Latencies;

/// Accesses of one direction in one second of one worker.
#[derive(Clone, Debug, Default)]
pub struct Direction {
    /// Latencies of the accesses that succeeded.
    pub latencies: Latencies,
    /// Bytes of the accesses that succeeded.
    pub bytes: u64,
    /// Number of accesses that failed. They are in no other figure.
    pub errors: u64,
}

impl Direction {
    /// Adds the counts of another direction record.
    pub fn add(&mut self, other: &Self) {
        self.latencies.add(&other.latencies);
        self.bytes += other.bytes;
        self.errors += other.errors;
    }

    /// Forgets everything, keeping the memory.
    pub fn reset(&mut self) {
        self.latencies.reset();
        (self.bytes, self.errors) = (0, 0);
    }
}

/// One second of one worker.
#[derive(Clone, Debug, Default)]
pub struct Window {
    /// Number of the second in the measured time, counted from 0.
    pub second: u32,
    /// Reads that ended in this second.
    pub read: Direction,
    /// Writes that ended in this second.
    pub write: Direction,
}

impl Window {
    /// Starts over with this second.
    pub fn restart(&mut self, second: u32) {
        self.second = second;
        self.read.reset();
        self.write.reset();
    }
}

/// One second of all workers, as it is shown live and saved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// Number of the second, counted from 0.
    pub second: u32,
    /// Reads that ended.
    pub reads: u64,
    /// Writes that ended.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Number of accesses that failed.
    pub errors: u64,
    /// Mean latency of reads and writes together. If no access ended, this and the following
    /// figures are 0.
    pub mean_ns: f64,
    /// Latency that half of all accesses did not exceed.
    pub p50_ns: u64,
    /// Latency that 99 of 100 accesses did not exceed.
    pub p99_ns: u64,
    /// Greatest latency.
    pub max_ns: u64,
}
