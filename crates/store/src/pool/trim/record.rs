//! How far trims came that somebody asked for, as checkpoints keep it: they go on where the pool is opened again.

use serde::{Deserialize, Serialize};

/// The state of a trim of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrimState {
    /// It is at work.
    Running,
    /// It rests until it is started again.
    Suspended,
    /// All free space was seen.
    Finished,
    /// It was ended before.
    Canceled,
}

/// A trim of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrimStatus {
    /// The guid of the leaf.
    pub leaf: u64,
    /// Its state.
    pub state: TrimState,
    /// Sectors of the top-level vdev that were looked at.
    pub position: u64,
    /// All of its sectors.
    pub total: u64,
    /// Bytes of the leaf that its device was told of.
    pub bytes: u64,
    /// Steps that the device failed.
    pub failed: u64,
    /// At most so many bytes a second.
    pub rate: Option<u64>,
    /// When it began, in seconds since 1970.
    pub started_s: u64,
    /// When it ended or was paused; 0 while it has not.
    pub ended_s: u64,
}

/// The longest record, in bytes, with the comma behind it.
pub(in crate::pool) const RECORD: usize = 240;

/// A trim of a leaf, as a checkpoint keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::pool) struct TrimRecord {
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
    /// Of one that begins.
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

    /// Its status, in a top-level vdev of so many sectors.
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
    use crate::pool::manifest::json_len;

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
