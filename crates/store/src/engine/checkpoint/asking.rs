//! Reasons for the next checkpoint, and the requests that wait for it.

use crate::engine::request::{Answer, RequestId};
use crate::engine::state::Pool;

/// Checkpoints, as seen by those who need one.
impl Pool {
    /// Asks for a checkpoint as soon as possible.
    pub(in crate::engine) fn want_checkpoint(&mut self) {
        self.schedule.want();
    }

    /// Reports whether a checkpoint was asked for that did not begin yet.
    pub(in crate::engine) fn is_checkpoint_wanted(&self) -> bool {
        self.schedule.is_wanted()
    }

    /// Reports whether a checkpoint is due for another reason than the age of the last one.
    pub(in crate::engine) fn is_checkpoint_due(&self) -> bool {
        let is_long = self.schedule.is_long(&self.limits());
        // Writes that were under way when closing began come after the checkpoint that closing
        // asked for.
        let is_last = self.is_closing() && self.has_changed();
        self.schedule.is_wanted() || is_last || is_long || self.is_space_running_short()
    }

    /// Reports whether a checkpoint would find anything new.
    pub(in crate::engine) fn has_changed(&self) -> bool {
        self.sealed_seq() > self.checkpoint_seq() || self.has_open_group()
    }

    /// Returns the number of checkpoints that became durable since the pool was opened.
    pub(in crate::engine) fn checkpoints_made(&self) -> u64 {
        self.schedule.made()
    }

    /// Returns the count of checkpoints at which the first one that begins after this call is
    /// durable.
    pub(in crate::engine) fn next_checkpoint(&self) -> u64 {
        self.schedule.made() + 1 + u64::from(self.is_making_checkpoint())
    }

    /// Answers the request when a checkpoint is durable that begins after this call.
    pub(in crate::engine) fn await_checkpoint(&mut self, id: RequestId) {
        self.schedule.wait_for(self.next_checkpoint(), id);
    }

    /// Answers the requests whose checkpoint is durable.
    pub(super) fn answer_syncs(&mut self) {
        for id in self.schedule.take_over() {
            self.answer(id, Ok(Answer::Done));
        }
    }

    /// Takes all requests that wait for a checkpoint.
    pub(in crate::engine) fn give_up_syncs(&mut self) -> Vec<RequestId> {
        self.schedule.give_up_waiting()
    }

    /// Lets a question wait for the next checkpoint, by the number of its pending request.
    pub(in crate::engine) fn ask_after_checkpoint(&mut self, pending: u64) {
        self.schedule.ask_after(pending);
        self.schedule.want();
    }

    /// Takes the questions that wait for a checkpoint.
    pub(in crate::engine) fn take_questions(&mut self) -> Vec<u64> {
        self.schedule.take_questions()
    }
}

/// Changes that a checkpoint will have.
impl Pool {
    /// Begins to count for a pool that is being opened.
    pub(in crate::engine) fn open_schedule(&mut self) {
        self.schedule.open(self.now_us());
    }

    /// Notes that the pool changes now, so that it is not at rest.
    pub(in crate::engine) fn note_unrest(&mut self) {
        let now_us = self.now_us();
        self.schedule.rest_mut().note_change(now_us);
    }

    /// Notes that maps get `changes` changes.
    pub(in crate::engine) fn note_updates(&mut self, changes: usize) {
        self.schedule.note_updates(changes as u64);
    }

    /// Notes that data took `sectors` sectors.
    pub(in crate::engine) fn note_data(&mut self, sectors: u32) {
        self.schedule.note_taken(sectors.into());
    }

    /// Returns the sectors that data took since the last checkpoint began.
    pub(in crate::engine) fn data_taken(&self) -> u64 {
        self.schedule.taken()
    }

    /// Reports whether so many changes came that further ones wait for the next checkpoint.
    pub(in crate::engine) fn has_too_many_updates(&self) -> bool {
        self.schedule.is_too_long(&self.limits())
    }
}
