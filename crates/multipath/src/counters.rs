//! Running sums of a device in esxtop's terms: GAVG = KAVG + DAVG, with QAVG as a part of KAVG.
//!
//! The counters are sums, not averages: to get a rate, take the difference of two readings.

use super::io::{Direction, Io, Outcome};

/// Sums since the device was created. Times are in microseconds and cover only the I/Os that
/// succeeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// I/Os that ended, successfully or not (CMDS).
    pub commands: u64,
    /// Reads that succeeded.
    pub reads: u64,
    /// Writes that succeeded.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// I/Os that failed.
    pub failed: u64,
    /// Attempts after the first one of each I/O.
    pub repeats: u64,
    /// Time from submission to the end (GAVG).
    pub guest_us: u64,
    /// Time from the last sending to its answer (DAVG). GAVG - DAVG = KAVG: waiting, and failed
    /// attempts.
    pub device_us: u64,
    /// Time from submission to the first sending (QAVG).
    pub queue_us: u64,
}

impl Counters {
    /// Counts an I/O that ended.
    #[inline]
    pub(super) fn count(&mut self, io: &Io, outcome: Outcome, now_us: u64) {
        self.commands += 1;
        self.repeats += u64::from(io.tries);
        if outcome != Outcome::Good {
            self.failed += 1;
            return;
        }
        let first_sent_us = io.first_sent_us.unwrap_or(io.submitted_us);
        self.guest_us += now_us.saturating_sub(io.submitted_us);
        self.device_us += now_us.saturating_sub(io.sent_us);
        self.queue_us += first_sent_us.saturating_sub(io.submitted_us);
        match io.shape.direction {
            Direction::Read => {
                self.reads += 1;
                self.read_bytes += u64::from(io.shape.bytes);
            }
            Direction::Write => {
                self.writes += 1;
                self.written_bytes += u64::from(io.shape.bytes);
            }
            Direction::Unmap | Direction::Other => {}
        }
    }
}
