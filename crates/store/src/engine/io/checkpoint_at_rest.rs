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

use crate::engine::state::Pool;
use crate::format::Pointer;
use crate::space::Counts;

impl Pool {
    /// Returns the time at which a checkpoint is to be made even if none was asked for; `None` if
    /// none is due, or one is being made.
    pub(in crate::engine) fn timed_checkpoint_us(&self) -> Option<u64> {
        if self.is_making_checkpoint() {
            return None;
        }
        let (has_changed, limits) = (self.has_changed(), &self.limits());
        let is_waited_for = || self.schedule.rest().may_ask() && self.counts().deferred > 0;
        let old = has_changed.then(|| self.schedule.old_us(limits));
        let rested = (has_changed || is_waited_for()).then(|| self.schedule.rest().due_us(limits));
        old.into_iter().chain(rested).min()
    }

    /// Returns the counts of the pool's sectors. Tables that checkpoints replaced count as in use.
    pub(in crate::engine) fn counts(&self) -> Counts {
        let counts = self.space_counts();
        let tables = self.schedule.rest().tables();
        let tables = tables.min(counts.deferred);
        Counts {
            deferred: counts.deferred - tables,
            allocated: counts.allocated + tables,
            ..counts
        }
    }

    /// Drops a table of the previous checkpoint that the one being made replaces.
    pub(in crate::engine) fn drop_table(&mut self, table: &Pointer) {
        for extent in self.extents_of(table) {
            self.schedule.rest_mut().replaces(extent.sectors.into());
        }
        self.drop_block(table);
    }
}
