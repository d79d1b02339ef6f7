//! One second of one worker, and the second of all workers that it becomes part of.

use serde::{Deserialize, Serialize};

use super::latency::Latencies;

/// Accesses of one direction in one second of one worker.
#[derive(Clone, Debug, Default)]
pub struct Direction {
    /// Latencies of those that succeeded.
    pub latencies: Latencies,
    /// Bytes of those that succeeded.
    pub bytes: u64,
    /// Accesses that failed; they are in no other figure.
    pub errors: u64,
}

impl Direction {
    /// Adds another.
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
    /// Which second of the measured time, from 0 on.
    pub second: u32,
    /// Reads that ended in it.
    pub read: Direction,
    /// Writes that ended in it.
    pub write: Direction,
}

impl Window {
    /// Starts over as this second.
    pub fn restart(&mut self, second: u32) {
        self.second = second;
        self.read.reset();
        self.write.reset();
    }
}

/// One second of all workers, as it is shown live and saved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// Which, from 0 on.
    pub second: u32,
    /// Reads that ended.
    pub reads: u64,
    /// Writes that ended.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Accesses that failed.
    pub errors: u64,
    /// Mean latency of reads and writes together; 0 where none ended, as all that follow.
    pub mean_ns: f64,
    /// Half of all took at most this.
    pub p50_ns: u64,
    /// 99 of 100 took at most this.
    pub p99_ns: u64,
    /// Greatest latency.
    pub max_ns: u64,
}
