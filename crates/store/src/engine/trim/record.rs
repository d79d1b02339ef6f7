//! The progress of trims that a user asked for, as checkpoints keep it. So a trim continues when
//! the pool is opened again.

use serde::{Deserialize, Serialize};

/// State of a trim of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrimState {
    /// The trim is at work.
    Running,
    /// The trim rests until the user starts it again.
    Suspended,
    /// All free space was trimmed or looked at.
    Finished,
    /// The user ended the trim before it was complete.
    Canceled,
}

/// Status of the trim of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrimStatus {
    /// Guid of the leaf.
    pub leaf: u64,
    /// State of the trim.
    pub state: TrimState,
    /// Sectors of the top-level vdev that were looked at.
    pub position: u64,
    /// All sectors of the top-level vdev.
    pub total: u64,
    /// Bytes of the leaf that the device was told are free.
    pub bytes: u64,
    /// Steps that failed on the device.
    pub failed: u64,
    /// Most bytes to trim in a second; `None` if unlimited.
    pub rate: Option<u64>,
    /// Time at which the trim began, in seconds since 1970.
    pub started_s: u64,
    /// Time at which the trim ended or was paused, in seconds since 1970; 0 if neither happened.
    pub ended_s: u64,
}

/// Length of the longest record, in bytes, with the comma after it.
pub(in crate::engine) const RECORD: usize = 240;

/// Trim of a leaf, as a checkpoint keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::engine) struct TrimRecord {
    pub(super) leaf: u64,
    pub(super) state: TrimState,
    pub(super) position: u64,
    pub(super) bytes: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) failed: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) rate: Option<u64>,
    pub(super) started_s: u64,
    pub(super) ended_s: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl TrimRecord {
    /// Makes the record of a trim that begins.
    pub(super) fn new(leaf: u64, started_s: u64) -> Self {
        Self {
            leaf,
            state: TrimState::Running,
            position: 0,
            bytes: 0,
            failed: 0,
            rate: None,
            started_s,
            ended_s: 0,
        }
    }

    /// Returns the status of the trim, in a top-level vdev of `total` sectors.
    pub(super) fn status(&self, total: u64) -> TrimStatus {
        TrimStatus {
            leaf: self.leaf,
            state: self.state,
            position: self.position.min(total),
            total,
            bytes: self.bytes,
            failed: self.failed,
            rate: self.rate,
            started_s: self.started_s,
            ended_s: match self.state {
                TrimState::Running => 0,
                _ => self.ended_s,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::manifest::json_len;

    #[test]
    fn no_record_is_longer_than_its_bound() {
        let longest = TrimRecord {
            leaf: u64::MAX,
            state: TrimState::Suspended,
            position: u64::MAX,
            bytes: u64::MAX,
            failed: u64::MAX,
            rate: Some(u64::MAX),
            started_s: u64::MAX,
            ended_s: u64::MAX,
        };
        assert!(json_len(&longest) < RECORD, "{}", json_len(&longest));
    }
}
