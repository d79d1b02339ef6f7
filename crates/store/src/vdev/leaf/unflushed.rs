//! The unflushed writes of a leaf, and the operations that wait for its flushes.
//!
//! One flush of a leaf is under way at a time. It covers the writes that were done before it began,
//! so an operation that needs later writes waits for the next one.

use crate::format::Epoch;

/// Unflushed writes of a leaf, and the operations that wait for its flushes.
#[derive(Debug, Default)]
pub(in crate::vdev) struct Unflushed {
    /// Oldest epoch of writes done since the last flush was asked for.
    dirty: Option<Epoch>,
    /// Oldest epoch of writes that the flush under way covers.
    flushing: Option<Epoch>,
    is_under_way: bool,
    /// Operations that wait for the flush under way.
    joined: Vec<u64>,
    /// Operations that wait for the flush after it.
    waiting: Vec<u64>,
}

impl Unflushed {
    /// Notes that a write was done, or may have been.
    pub(in crate::vdev) fn wrote(&mut self, epoch: Epoch) {
        self.dirty = Some(self.dirty.map_or(epoch, |dirty| dirty.min(epoch)));
    }

    /// Returns the oldest epoch that is not durable.
    pub(in crate::vdev) fn oldest(&self) -> Option<Epoch> {
        self.flushing.into_iter().chain(self.dirty).min()
    }

    /// Reports whether there is nothing to wait for: all writes are durable, and no flush is under
    /// way.
    pub(in crate::vdev) fn is_settled(&self) -> bool {
        self.oldest().is_none() && !self.is_under_way
    }

    /// Forgets the unflushed writes: the device is another one now, or the loss is accounted for.
    pub(in crate::vdev) fn forget(&mut self) {
        (self.dirty, self.flushing) = (None, None);
    }

    /// Lets an operation wait for the flush that covers all writes done before. Reports whether
    /// that flush has yet to start.
    pub(in crate::vdev) fn wait(&mut self, operation: u64) -> bool {
        let is_to_start = self.dirty.is_some();
        match is_to_start {
            true => self.waiting.push(operation),
            false => self.joined.push(operation),
        }
        is_to_start
    }

    /// Starts a flush if operations wait for one and none is under way. Reports whether it did.
    pub(in crate::vdev) fn start(&mut self) -> bool {
        if self.is_under_way || self.waiting.is_empty() {
            return false;
        }
        self.is_under_way = true;
        self.joined = std::mem::take(&mut self.waiting);
        self.flushing = self.dirty.take();
        true
    }

    /// Notes that the flush under way is over. Returns the operations that waited for it.
    pub(in crate::vdev) fn finish(&mut self) -> Vec<u64> {
        self.is_under_way = false;
        self.flushing = None;
        std::mem::take(&mut self.joined)
    }

    /// Notes that the leaf is not used any more. Returns all operations that waited for a flush.
    pub(in crate::vdev) fn give_up(&mut self) -> Vec<u64> {
        self.is_under_way = false;
        self.forget();
        let mut waiting = std::mem::take(&mut self.joined);
        waiting.append(&mut self.waiting);
        waiting
    }
}
