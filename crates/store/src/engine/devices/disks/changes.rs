//! Changes of the array: leaves that come and go, and what they are known to lack.

use std::ops::RangeInclusive;

use super::Disks;
use crate::format::Epoch;
use crate::vdev::{Dtl, LeafId, LeafSpec, Resilver, ShapeError, SlotKind, TopLevelSpec};

/// Use of leaves.
impl Disks {
    pub(in crate::engine) fn offline(&mut self, leaf: LeafId) -> Result<(), ShapeError> {
        self.array.offline(leaf, self.now_us, &mut self.out)
    }

    pub(in crate::engine) fn online(&mut self, leaf: LeafId) -> Result<(), ShapeError> {
        self.array.online(leaf, &mut self.out)
    }

    /// Notes that the device of a leaf is gone.
    pub(in crate::engine) fn remove(&mut self, leaf: LeafId) -> Result<(), ShapeError> {
        self.array.remove(leaf, self.now_us, &mut self.out)
    }

    /// Stops using a leaf that was found to be failing.
    pub(in crate::engine) fn fault(&mut self, leaf: LeafId, why: &str) -> Result<(), ShapeError> {
        self.array.fault(leaf, why, self.now_us, &mut self.out)
    }

    /// Stops using a leaf that may not be ours any more. Reports whether it stopped.
    pub(in crate::engine) fn give_up_leaf(
        &mut self,
        leaf: LeafId,
        is_forced: bool,
        why: &str,
    ) -> bool {
        let (now, out) = (self.now_us, &mut self.out);
        self.array.give_up_leaf(leaf, is_forced, why, now, out)
    }

    /// Stops using a log vdev that failed.
    pub(in crate::engine) fn give_up_log(&mut self, vdev: u16, why: &str) {
        self.array
            .give_up_log(vdev, why, self.now_us, &mut self.out);
    }

    /// Resets the error counts of a leaf.
    pub(in crate::engine) fn clear(&mut self, leaf: LeafId) -> Result<(), ShapeError> {
        self.array.clear(leaf)
    }

    /// Sets whether bad copies are rewritten that reads find.
    pub(in crate::engine) fn set_healing(&mut self, heals: bool) {
        self.array.set_healing(heals);
    }
}

/// Shape of the array.
impl Disks {
    pub(in crate::engine) fn attach(
        &mut self,
        beside: LeafId,
        new: &LeafSpec,
    ) -> Result<LeafId, ShapeError> {
        self.array.attach(beside, new)
    }

    pub(in crate::engine) fn replace(
        &mut self,
        old: LeafId,
        new: &LeafSpec,
        kind: SlotKind,
    ) -> Result<LeafId, ShapeError> {
        self.array.replace(old, new, kind)
    }

    pub(in crate::engine) fn detach(&mut self, leaf: LeafId) -> Result<(), ShapeError> {
        self.array.detach(leaf, self.now_us, &mut self.out)
    }

    pub(in crate::engine) fn add_top_level(
        &mut self,
        top: &TopLevelSpec,
        joined: Epoch,
    ) -> Result<u16, ShapeError> {
        self.array.add_top_level(top, joined)
    }

    pub(in crate::engine) fn remove_log(&mut self, vdev: u16) -> Result<(), ShapeError> {
        self.array.remove_log(vdev, self.now_us, &mut self.out)
    }

    /// Notes the new size of a leaf's device, and grows its vdev if all its leaves allow it.
    pub(in crate::engine) fn resize_leaf(
        &mut self,
        leaf: LeafId,
        vdev: u16,
        size: u64,
    ) -> Result<(), ShapeError> {
        self.array.resize_leaf(leaf, size)?;
        self.array.grow(vdev)?;
        Ok(())
    }

    /// Sets the end beyond which a leaf's device gets no requests.
    pub(in crate::engine) fn set_reach(&mut self, leaf: LeafId, bytes: u64) {
        self.array.set_reach(leaf, bytes);
    }
}

/// Data that leaves lack.
impl Disks {
    /// Sets the epochs in which blocks may be born that are written now.
    pub(in crate::engine) fn set_epochs(&mut self, oldest: Epoch, newest: Epoch) {
        self.array.set_epochs(oldest, newest);
    }

    /// Adds to the data that a leaf is known to lack. Returns whether that is news.
    pub(in crate::engine) fn note_lacking(&mut self, leaf: LeafId, lacks: &Dtl) -> bool {
        let known = self.array.missing(leaf).unwrap_or_default();
        self.array.note_lacking(leaf, lacks);
        let missing = self.array.missing(leaf);
        missing.is_some_and(|missing| missing != known)
    }

    /// Notes that a leaf lacks blocks of these epochs, if it is in use.
    pub(in crate::engine) fn note_lack(&mut self, leaf: LeafId, born: RangeInclusive<Epoch>) {
        self.array.note_lack(leaf, born, &mut self.out);
    }

    pub(in crate::engine) fn end_missing(&mut self) {
        self.array.end_missing();
    }

    /// Notes that a leaf has all that it lacked when the resilver began. Returns whether it lacks
    /// nothing more.
    pub(in crate::engine) fn finish_resilver(
        &mut self,
        resilver: &Resilver,
    ) -> Result<bool, ShapeError> {
        self.array.finish_resilver(resilver, &mut self.out)
    }

    /// Takes writes since this epoch for unflushed.
    pub(in crate::engine) fn assume_unflushed(&mut self, oldest: Epoch) {
        self.array.assume_unflushed(oldest);
    }
}
