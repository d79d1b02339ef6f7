//! A pool at rest: soon after the last change its checkpoints are made, until nothing that was freed waits for one.
//!
//! Freed space is free when two more checkpoints are durable. While a pool is in use they come by themselves. After
//! the last change nobody would make them for long, and figures would tell of space that is on its way.
//!
//! Some guests write a block now and then, so that each write is the last for a while. A rest that a change ends is therefore
//! the only one for as long as a checkpoint may take to come by itself: otherwise each such write would cost several.
//!
//! Each checkpoint replaces tables of its own: pages of the space map, lists, the manifest. Their former places wait for
//! two checkpoints as well, so some space waits at all times. It counts as in use, and asks for no checkpoint.

use super::state::{Limits, Pool};
use crate::format::Pointer;
use crate::space::Counts;

/// Checkpoints in a row at rest, at most: one for the changes, and two until what they freed is free. Whatever would ask
/// for more is a fault, and no reason to write for ever.
const MOST: u8 = 4;

/// The state of a pool's rest.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rest {
    /// When the last change came.
    changed_us: u64,
    /// When the last checkpoint at rest began.
    rested_us: Option<u64>,
    /// Checkpoints that became durable since, and since blocks of deleted datasets were freed.
    checkpoints: u8,
    /// Sectors of tables that the checkpoint being made replaces.
    replacing: u64,
    /// Sectors of tables that the last durable one replaced.
    replaced: u64,
}

impl Rest {
    /// A group of changes came.
    pub(super) fn note_change(&mut self, now_us: u64) {
        self.changed_us = now_us;
        self.checkpoints = 0;
    }

    /// A checkpoint begins.
    pub(super) fn begin_checkpoint(&mut self, now_us: u64, limits: &Limits) {
        if self.due_us(limits) <= now_us {
            self.rested_us = Some(now_us);
        }
    }

    /// When the pool is at rest, if nothing changes until then.
    fn due_us(&self, limits: &Limits) -> u64 {
        let rested_us = self.changed_us.saturating_add(limits.rest_us);
        match self.rested_us {
            Some(last_us) if last_us < self.changed_us => {
                rested_us.max(last_us.saturating_add(limits.checkpoint_us))
            }
            _ => rested_us,
        }
    }

    /// A checkpoint is durable; perhaps more is to be freed with the next one.
    pub(super) fn commit_checkpoint(&mut self, is_freeing: bool) {
        self.checkpoints = match is_freeing {
            true => 0,
            false => self.checkpoints.saturating_add(1),
        };
        self.replaced = std::mem::take(&mut self.replacing);
    }
}

impl Pool {
    /// When a checkpoint is to be made though nobody asks for it; `None` where none is, or one is being made.
    pub(super) fn timed_checkpoint_us(&self) -> Option<u64> {
        if self.checkpoint.is_some() {
            return None;
        }
        let (has_changed, limits) = (self.has_changed(), &self.limits);
        let is_waited_for = || self.rest.checkpoints < MOST && self.counts().deferred > 0;
        let old = has_changed.then(|| self.last_checkpoint_us.saturating_add(limits.checkpoint_us));
        let rested = (has_changed || is_waited_for()).then(|| self.rest.due_us(limits));
        old.into_iter().chain(rested).min()
    }

    /// Sectors of the pool. Tables that checkpoints replaced count as in use.
    pub(super) fn counts(&self) -> Counts {
        let counts = self.space.counts();
        let tables = self.rest.replacing + self.rest.replaced;
        let tables = tables.min(counts.deferred);
        Counts {
            deferred: counts.deferred - tables,
            allocated: counts.allocated + tables,
            ..counts
        }
    }

    /// A checkpoint replaces a table of the one before.
    pub(super) fn drop_table(&mut self, table: &Pointer) {
        for extent in self.extents_of(table) {
            self.rest.replacing += u64::from(extent.sectors);
        }
        self.drop_block(table);
    }
}
