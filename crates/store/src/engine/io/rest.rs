//! Rest of a pool: when it began, and the checkpoints made since.

use crate::engine::limits::Limits;

/// Most checkpoints in a row at rest: one for the changes, and two until the space that they freed
/// is free. Only a fault could ask for more, and a fault is no reason to write for ever.
const MOST: u8 = 4;

/// State of a pool's rest.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::engine) struct Rest {
    /// Time of the last change.
    changed_us: u64,
    /// Time at which the last checkpoint at rest began.
    rested_us: Option<u64>,
    /// Checkpoints that became durable since the last change, and since the last blocks of deleted
    /// datasets were freed.
    checkpoints: u8,
    /// Sectors of tables that the checkpoint being made replaces.
    replacing: u64,
    /// Sectors of tables that the last durable checkpoint replaced.
    replaced: u64,
}

impl Rest {
    /// Notes that a group of changes came.
    pub(in crate::engine) fn note_change(&mut self, now_us: u64) {
        self.changed_us = now_us;
        self.checkpoints = 0;
    }

    /// Notes that a checkpoint begins.
    pub(in crate::engine) fn begin_checkpoint(&mut self, now_us: u64, limits: &Limits) {
        if self.due_us(limits) <= now_us {
            self.rested_us = Some(now_us);
        }
    }

    /// Returns the time at which the pool is at rest, if nothing changes until then.
    pub(super) fn due_us(&self, limits: &Limits) -> u64 {
        let rested_us = self.changed_us.saturating_add(limits.rest_us);
        match self.rested_us {
            Some(last_us) if last_us < self.changed_us => {
                rested_us.max(last_us.saturating_add(limits.checkpoint_us))
            }
            _ => rested_us,
        }
    }

    /// Notes that a checkpoint is durable. `is_freeing` says that the next one has more to free.
    pub(in crate::engine) fn commit_checkpoint(&mut self, is_freeing: bool) {
        self.checkpoints = match is_freeing {
            true => 0,
            false => self.checkpoints.saturating_add(1),
        };
        self.replaced = std::mem::take(&mut self.replacing);
    }

    /// Reports whether freed space may ask for one more checkpoint.
    pub(super) fn may_ask(&self) -> bool {
        self.checkpoints < MOST
    }

    /// Notes that the checkpoint being made replaces `sectors` sectors of tables.
    pub(super) fn replaces(&mut self, sectors: u64) {
        self.replacing += sectors;
    }

    /// Returns the sectors of replaced tables that wait for checkpoints.
    pub(super) fn tables(&self) -> u64 {
        self.replacing + self.replaced
    }
}
