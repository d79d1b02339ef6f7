//! Makes checkpoints for a pool at rest: soon after the last change, until no freed space waits for
//! one.
//!
//! Freed space becomes free when two more checkpoints are durable. While a pool is in use,
//! checkpoints come by themselves. After the last change none would come for a long time, and
//! figures would show space that is still to be freed.
//!
//! Some guests write a block now and then, so each write is the last for a while. If a change ends
//! a rest, the next rest therefore comes only after the usual time between checkpoints. Otherwise
//! each of these writes would cost several checkpoints.
//!
//! Each checkpoint replaces its own tables: pages of the space map, lists, the manifest. The old
//! tables wait for two checkpoints as well, so some space waits at all times. This space counts as
//! in use, and asks for no checkpoint.

use crate::format::Pointer;
use crate::pool::limits::Limits;
use crate::pool::state::Pool;
use crate::space::Counts;

/// Most checkpoints in a row at rest: one for the changes, and two until the space that they freed
/// is free. Only a fault could ask for more, and a fault is no reason to write for ever.
const MOST: u8 = 4;

/// State of a pool's rest.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::pool) struct Rest {
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
    pub(in crate::pool) fn note_change(&mut self, now_us: u64) {
        self.changed_us = now_us;
        self.checkpoints = 0;
    }

    /// Notes that a checkpoint begins.
    pub(in crate::pool) fn begin_checkpoint(&mut self, now_us: u64, limits: &Limits) {
        if self.due_us(limits) <= now_us {
            self.rested_us = Some(now_us);
        }
    }

    /// Returns the time at which the pool is at rest, if nothing changes until then.
    fn due_us(&self, limits: &Limits) -> u64 {
        let rested_us = self.changed_us.saturating_add(limits.rest_us);
        match self.rested_us {
            Some(last_us) if last_us < self.changed_us => {
                rested_us.max(last_us.saturating_add(limits.checkpoint_us))
            }
            _ => rested_us,
        }
    }

    /// Notes that a checkpoint is durable. `is_freeing` says that the next one has more to free.
    pub(in crate::pool) fn commit_checkpoint(&mut self, is_freeing: bool) {
        self.checkpoints = match is_freeing {
            true => 0,
            false => self.checkpoints.saturating_add(1),
        };
        self.replaced = std::mem::take(&mut self.replacing);
    }
}

impl Pool {
    /// Returns the time at which a checkpoint is to be made even if none was asked for; `None` if
    /// none is due, or one is being made.
    pub(in crate::pool) fn timed_checkpoint_us(&self) -> Option<u64> {
        if self.checkpoint.is_some() {
            return None;
        }
        let (has_changed, limits) = (self.has_changed(), &self.limits);
        let is_waited_for = || self.rest.checkpoints < MOST && self.counts().deferred > 0;
        let old = has_changed.then(|| self.last_checkpoint_us.saturating_add(limits.checkpoint_us));
        let rested = (has_changed || is_waited_for()).then(|| self.rest.due_us(limits));
        old.into_iter().chain(rested).min()
    }

    /// Returns the counts of the pool's sectors. Tables that checkpoints replaced count as in use.
    pub(in crate::pool) fn counts(&self) -> Counts {
        let counts = self.space.counts();
        let tables = self.rest.replacing + self.rest.replaced;
        let tables = tables.min(counts.deferred);
        Counts {
            deferred: counts.deferred - tables,
            allocated: counts.allocated + tables,
            ..counts
        }
    }

    /// Drops a table of the previous checkpoint that the one being made replaces.
    pub(in crate::pool) fn drop_table(&mut self, table: &Pointer) {
        for extent in self.extents_of(table) {
            self.rest.replacing += u64::from(extent.sectors);
        }
        self.drop_block(table);
    }
}
