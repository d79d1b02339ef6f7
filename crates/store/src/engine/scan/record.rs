//! Outcome of a scan, as checkpoints keep it.
//!
//! It is reported until the next scan has ended, even if another program or another machine opens
//! the pool.

use serde::{Deserialize, Serialize};

use super::{ScanKind, ScanState, ScanStatus};

/// Scan that has ended.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::engine) struct ScanRecord {
    kind: StoredKind,
    end: StoredEnd,
    started_s: u64,
    ended_s: u64,
    /// Sectors, parity included.
    total: u64,
    examined: u64,
    repaired_bytes: u64,
    bad: u64,
    repaired: u64,
    unrecoverable: u64,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredKind {
    Scrub,
    Resilver,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredEnd {
    Finished,
    Canceled,
}

/// Scrub that is to be done. It begins again when the pool is opened.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::engine) enum ScrubRecord {
    Running,
    Paused,
}

impl ScrubRecord {
    /// Makes the record of a scrub in this state; `None` if it has ended.
    pub(in crate::engine) fn of(state: ScanState) -> Option<Self> {
        match state {
            ScanState::Running => Some(Self::Running),
            ScanState::Paused => Some(Self::Paused),
            ScanState::Finished | ScanState::Canceled => None,
        }
    }

    /// Returns the state in which the scrub begins again.
    pub(in crate::engine) fn state(self) -> ScanState {
        match self {
            Self::Running => ScanState::Running,
            Self::Paused => ScanState::Paused,
        }
    }
}

impl ScanRecord {
    /// Makes the record of a scan; `None` if it has not ended.
    pub(in crate::engine) fn of(status: &ScanStatus) -> Option<Self> {
        let end = match status.state {
            ScanState::Running | ScanState::Paused => return None,
            ScanState::Finished => StoredEnd::Finished,
            ScanState::Canceled => StoredEnd::Canceled,
        };
        Some(Self {
            kind: match status.kind {
                ScanKind::Scrub => StoredKind::Scrub,
                ScanKind::Resilver => StoredKind::Resilver,
            },
            end,
            started_s: status.started_s,
            ended_s: status.ended_s,
            total: status.total_sectors,
            examined: status.examined_sectors,
            repaired_bytes: status.repaired_bytes,
            bad: status.bad,
            repaired: status.repaired,
            unrecoverable: status.unrecoverable,
        })
    }

    /// Returns the status of the scan.
    pub(in crate::engine) fn status(&self) -> ScanStatus {
        ScanStatus {
            kind: match self.kind {
                StoredKind::Scrub => ScanKind::Scrub,
                StoredKind::Resilver => ScanKind::Resilver,
            },
            state: match self.end {
                StoredEnd::Finished => ScanState::Finished,
                StoredEnd::Canceled => ScanState::Canceled,
            },
            started_s: self.started_s,
            ended_s: self.ended_s,
            scanned_sectors: self.examined,
            examined_sectors: self.examined,
            total_sectors: self.total,
            repaired_bytes: self.repaired_bytes,
            began_us: 0,
            bad: self.bad,
            repaired: self.repaired,
            unrecoverable: self.unrecoverable,
        }
    }
}
