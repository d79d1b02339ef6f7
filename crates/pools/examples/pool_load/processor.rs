//! Processor time of this process, and of the threads of its pools.

use std::fs;

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

/// Processor time at one moment, or between two, in seconds.
#[derive(Clone, Copy, Serialize)]
pub(crate) struct ProcessorTime {
    /// Time of all threads, those that ended included.
    processor_s: f64,
    /// Time of the threads of pools.
    pools_s: f64,
}

impl ProcessorTime {
    /// Returns the time until now.
    pub(crate) fn now() -> Result<Self, String> {
        let spent = clock_gettime(ClockId::ProcessCPUTime);
        Ok(Self {
            processor_s: spent.tv_sec as f64 + spent.tv_nsec as f64 / 1e9,
            pools_s: of_pools()?,
        })
    }

    /// Returns the time since an earlier moment.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            processor_s: self.processor_s - earlier.processor_s,
            pools_s: self.pools_s - earlier.pools_s,
        }
    }
}

/// Returns the time of the threads whose name is that of a pool's thread.
fn of_pools() -> Result<f64, String> {
    let failed = |error: std::io::Error| format!("the threads cannot be listed: {error}");
    let mut sum_ns = 0.0;
    for task in fs::read_dir("/proc/self/task").map_err(failed)? {
        let task = task.map_err(failed)?.path();
        let name = fs::read_to_string(task.join("comm")).unwrap_or_default();
        if !name.starts_with("pool-") {
            continue;
        }
        // A thread that ended meanwhile belongs to a pool that is not measured.
        let told = fs::read_to_string(task.join("schedstat")).unwrap_or_default();
        let ns = told.split(' ').next().and_then(|ns| ns.parse::<f64>().ok());
        sum_ns += ns.unwrap_or(0.0);
    }
    Ok(sum_ns / 1e9)
}
