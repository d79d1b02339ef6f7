//! Clocks of a pool's thread: engine time, time since the machine was booted, and the date.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Engine clock, in microseconds since the pool was opened. The clock keeps running while the
/// machine sleeps. So a host that wakes up finds out that another host may own its pool by now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(u64);

impl Clock {
    pub(crate) fn start() -> Self {
        Self(since_boot_us())
    }

    pub(crate) fn now_us(self) -> u64 {
        since_boot_us().saturating_sub(self.0)
    }

    pub(crate) fn at(self, us: u64) -> Option<Instant> {
        let left_us = us.saturating_sub(self.now_us());
        Instant::now().checked_add(Duration::from_micros(left_us))
    }

    /// Converts an engine time to microseconds since the machine was booted.
    pub(crate) fn since_boot_us(self, us: u64) -> u64 {
        self.0.saturating_add(us)
    }
}

/// Returns the microseconds since the machine was booted, including the time that it slept.
pub(crate) fn since_boot_us() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1_000
}

/// Returns the seconds since 1970.
pub(crate) fn wall_clock_s() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
