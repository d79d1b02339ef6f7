//! Schedule of checkpoints: how many were made, what asks for the next one, and who waits for it.

use crate::engine::io::rest::Rest;
use crate::engine::limits::Limits;
use crate::engine::request::RequestId;

/// Checkpoints that were made, and the reasons for the next one.
#[derive(Debug, Default)]
pub(in crate::engine) struct Schedule {
    /// Checkpoints that became durable since the pool was opened.
    made: u64,
    last_us: u64,
    is_wanted: bool,
    /// Changes of maps since the last checkpoint began.
    updates: u64,
    /// Sectors that data took since the last checkpoint began.
    taken: u64,
    rest: Rest,
    /// Requests that wait for a checkpoint, each with the number of checkpoints at which it is
    /// answered.
    syncs: Vec<(u64, RequestId)>,
    /// Questions that wait for a checkpoint to put a snapshot's changes into its tree.
    unsettled: Vec<u64>,
}

impl Schedule {
    /// Notes that the pool was opened.
    pub(in crate::engine) fn open(&mut self, now_us: u64) {
        self.last_us = now_us;
        self.rest.note_change(now_us);
    }

    /// Asks for a checkpoint as soon as possible.
    pub(in crate::engine) fn want(&mut self) {
        self.is_wanted = true;
    }

    /// Reports whether a checkpoint was asked for that did not begin yet.
    pub(in crate::engine) fn is_wanted(&self) -> bool {
        self.is_wanted
    }

    /// Takes the wish for a checkpoint back.
    #[cfg(test)]
    pub(in crate::engine) fn unwant(&mut self) {
        self.is_wanted = false;
    }

    /// Returns the number of checkpoints that became durable since the pool was opened.
    pub(in crate::engine) fn made(&self) -> u64 {
        self.made
    }

    /// Notes that it is time for a checkpoint.
    pub(super) fn note_due(&mut self, now_us: u64, limits: &Limits) {
        self.rest.begin_checkpoint(now_us, limits);
    }

    /// Begins a checkpoint, which answers the wish for one.
    pub(super) fn begin(&mut self) {
        self.is_wanted = false;
        self.updates = 0;
        self.taken = 0;
    }

    /// Counts a checkpoint that is durable.
    pub(super) fn count_made(&mut self) {
        self.made += 1;
    }

    /// Notes the end of a checkpoint. `is_freeing` says that the next one has more to free.
    pub(super) fn end(&mut self, is_freeing: bool, now_us: u64) {
        self.rest.commit_checkpoint(is_freeing);
        self.last_us = now_us;
    }

    /// Notes that maps get `changes` changes.
    pub(in crate::engine) fn note_updates(&mut self, changes: u64) {
        self.updates += changes;
    }

    /// Reports whether so many changes came that a checkpoint is due.
    pub(in crate::engine) fn is_long(&self, limits: &Limits) -> bool {
        self.updates >= limits.updates
    }

    /// Reports whether so many changes came that further ones wait for the next checkpoint.
    pub(in crate::engine) fn is_too_long(&self, limits: &Limits) -> bool {
        self.updates > 2 * limits.updates
    }

    /// Notes that data took `sectors` sectors.
    pub(in crate::engine) fn note_taken(&mut self, sectors: u64) {
        self.taken += sectors;
    }

    /// Returns the sectors that data took since the last checkpoint began.
    pub(in crate::engine) fn taken(&self) -> u64 {
        self.taken
    }

    /// Returns the rest of the pool, which asks for checkpoints after the last change.
    pub(in crate::engine) fn rest(&self) -> &Rest {
        &self.rest
    }

    pub(in crate::engine) fn rest_mut(&mut self) -> &mut Rest {
        &mut self.rest
    }

    /// Returns the time at which changes are old enough for a checkpoint.
    pub(in crate::engine) fn old_us(&self, limits: &Limits) -> u64 {
        self.last_us.saturating_add(limits.checkpoint_us)
    }

    /// Lets a request wait until `number` checkpoints were made.
    pub(in crate::engine) fn wait_for(&mut self, number: u64, id: RequestId) {
        self.syncs.push((number, id));
    }

    /// Takes the requests whose checkpoint is durable.
    pub(in crate::engine) fn take_over(&mut self) -> Vec<RequestId> {
        let done = self.made;
        let over = self.syncs.extract_if(.., |(wanted, _)| *wanted <= done);
        over.map(|(_, id)| id).collect()
    }

    /// Takes all requests that wait for a checkpoint.
    pub(in crate::engine) fn give_up_waiting(&mut self) -> Vec<RequestId> {
        let all = std::mem::take(&mut self.syncs).into_iter();
        all.map(|(_, id)| id).collect()
    }

    /// Lets a question wait for the next checkpoint, by the number of its pending request.
    pub(in crate::engine) fn ask_after(&mut self, pending: u64) {
        self.unsettled.push(pending);
    }

    /// Takes the questions that wait for a checkpoint.
    pub(in crate::engine) fn take_questions(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.unsettled)
    }
}
