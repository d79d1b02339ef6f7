//! Running sums of a device in esxtop's terms: GAVG = KAVG + DAVG, with QAVG as a part of KAVG.
//!
//! The counters are sums, not averages: to get a rate, take the difference of two readings.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::io::{Direction, Ended, Io, Outcome};

/// Sums of I/Os of one direction that succeeded. Times are in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct IoSums {
    /// I/Os that succeeded.
    pub commands: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// Time from submission to the end (GAVG).
    pub guest_us: u64,
    /// Time from the last sending to its answer (DAVG).
    pub device_us: u64,
    /// Time from submission to the first sending (QAVG).
    pub queue_us: u64,
}

impl IoSums {
    /// Counts an I/O that succeeded.
    #[inline]
    pub(super) fn count(&mut self, io: &Io, now_us: u64) {
        let first_sent_us = io.first_sent_us.unwrap_or(io.submitted_us);
        self.commands += 1;
        self.bytes += u64::from(io.shape.bytes);
        self.guest_us += now_us.saturating_sub(io.submitted_us);
        self.device_us += now_us.saturating_sub(io.sent_us);
        self.queue_us += first_sent_us.saturating_sub(io.submitted_us);
    }

    /// Returns the sums of the I/Os that came after an earlier moment.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            commands: self.commands.saturating_sub(earlier.commands),
            bytes: self.bytes.saturating_sub(earlier.bytes),
            guest_us: self.guest_us.saturating_sub(earlier.guest_us),
            device_us: self.device_us.saturating_sub(earlier.device_us),
            queue_us: self.queue_us.saturating_sub(earlier.queue_us),
        }
    }
}

/// Sums since the device was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Counters {
    /// I/Os that ended, successfully or not (CMDS).
    pub commands: u64,
    /// Reads that succeeded.
    pub reads: IoSums,
    /// Writes that succeeded.
    pub writes: IoSums,
    /// I/Os that succeeded and neither read nor wrote. Their bytes are those that UNMAP freed.
    pub others: IoSums,
    /// I/Os that failed.
    pub failed: u64,
    /// Reads that failed.
    pub failed_reads: u64,
    /// Writes that failed.
    pub failed_writes: u64,
    /// Bytes that these reads were to move.
    pub failed_read_bytes: u64,
    /// Bytes that these writes were to move.
    pub failed_written_bytes: u64,
    /// Attempts that met another host's reservation.
    pub conflicts: u64,
    /// Attempts that were aborted.
    pub aborts: u64,
    /// Attempts after the first one of each I/O.
    pub repeats: u64,
}

impl Counters {
    /// Counts an I/O that ended.
    #[inline]
    pub(super) fn count(&mut self, io: &Io, outcome: Outcome, now_us: u64) {
        self.commands += 1;
        self.repeats += u64::from(io.tries);
        match outcome {
            Outcome::Good => self.of(io).count(io, now_us),
            _ => self.count_failure(io),
        }
    }

    #[cold]
    fn count_failure(&mut self, io: &Io) {
        self.failed += 1;
        let (number, bytes) = match io.shape.direction {
            Direction::Read => (&mut self.failed_reads, &mut self.failed_read_bytes),
            Direction::Write => (&mut self.failed_writes, &mut self.failed_written_bytes),
            Direction::Unmap | Direction::Other => return,
        };
        *number += 1;
        *bytes += u64::from(io.shape.bytes);
    }

    /// Counts an attempt that did not end well.
    pub(super) fn count_attempt(&mut self, how: Ended) {
        match how {
            Ended::ReservationConflict => self.conflicts += 1,
            Ended::TaskAborted => self.aborts += 1,
            _ => {}
        }
    }

    fn of(&mut self, io: &Io) -> &mut IoSums {
        match io.shape.direction {
            Direction::Read => &mut self.reads,
            Direction::Write => &mut self.writes,
            Direction::Unmap | Direction::Other => &mut self.others,
        }
    }

    fn sum(&self, of: fn(&IoSums) -> u64) -> u64 {
        of(&self.reads) + of(&self.writes) + of(&self.others)
    }

    /// Returns the time from submission to the end of all I/Os that succeeded (GAVG).
    pub fn guest_us(&self) -> u64 {
        self.sum(|it| it.guest_us)
    }

    /// Returns the time from the last sending to its answer (DAVG). GAVG - DAVG = KAVG: waiting,
    /// and failed attempts.
    pub fn device_us(&self) -> u64 {
        self.sum(|it| it.device_us)
    }

    /// Returns the time from submission to the first sending (QAVG).
    pub fn queue_us(&self) -> u64 {
        self.sum(|it| it.queue_us)
    }
}
