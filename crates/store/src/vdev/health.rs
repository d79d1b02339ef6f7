//! Loss and return of leaves. A leaf that failed a write is not trusted. It is faulted, or removed
//! if it is gone or does not answer, and the epochs that it missed are noted. The last leaf that
//! holds a block is never given up for an error; its errors are the caller's.

use super::Array;
use super::device::{DeviceError, DeviceErrorKind, LeafId};
use super::dtl::Dtl;
use super::output::{Output, VdevEvent};
use super::shape::{ShapeError, ShapeErrorKind};
use super::tree::{Class, LeafState};
use crate::format::Epoch;

/// Work of a resilver, as it was when the resilver began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resilver {
    /// Leaf that is rebuilt.
    pub leaf: LeafId,
    /// Epochs whose blocks are to be rebuilt on the leaf.
    pub missing: Dtl,
    misses: u64,
}

impl Array {
    /// Takes a leaf offline. Requests that are in flight to it count as failed.
    ///
    /// # Errors
    /// The other leaves do not hold all that the leaf holds.
    pub fn offline(
        &mut self,
        leaf: LeafId,
        now_us: u64,
        out: &mut Output,
    ) -> Result<(), ShapeError> {
        self.known(leaf)?;
        self.require_spare(leaf)?;
        let error = DeviceError::new(DeviceErrorKind::Gone, "taken offline");
        self.lose(leaf, LeafState::Offline, None, &error, out);
        self.settle(now_us, out);
        Ok(())
    }

    /// Stops using a leaf that was found to be failing.
    ///
    /// # Errors
    /// The other leaves do not hold all that the leaf holds.
    pub fn fault(
        &mut self,
        leaf: LeafId,
        reason: &str,
        now_us: u64,
        out: &mut Output,
    ) -> Result<(), ShapeError> {
        self.known(leaf)?;
        self.require_spare(leaf)?;
        let error = DeviceError::new(DeviceErrorKind::Failed, reason);
        self.lose(leaf, LeafState::Faulted, None, &error, out);
        self.settle(now_us, out);
        Ok(())
    }

    /// Stops using a leaf that is not known to be ours, if other leaves hold all that it holds, or
    /// if `is_forced`. The leaf may come back. Reports whether it stopped.
    pub fn give_up_leaf(
        &mut self,
        leaf: LeafId,
        is_forced: bool,
        reason: &str,
        now_us: u64,
        out: &mut Output,
    ) -> bool {
        let may = self.known(leaf).is_ok() && (is_forced || self.can_lose(leaf));
        if may {
            let error = DeviceError::new(DeviceErrorKind::TimedOut, reason);
            self.lose(leaf, LeafState::Removed, None, &error, out);
            self.settle(now_us, out);
        }
        may
    }

    /// Notes that the device of a leaf is gone, whether or not the leaf can be spared.
    ///
    /// # Errors
    /// There is no such leaf.
    pub fn remove(
        &mut self,
        leaf: LeafId,
        now_us: u64,
        out: &mut Output,
    ) -> Result<(), ShapeError> {
        self.known(leaf)?;
        let error = DeviceError::new(DeviceErrorKind::Gone, "the device was removed");
        self.lose(leaf, LeafState::Removed, None, &error, out);
        self.settle(now_us, out);
        Ok(())
    }

    /// Uses a leaf again. Blocks that it missed meanwhile are read from other leaves until they are
    /// rebuilt. [`Array::missing`] tells the epochs.
    ///
    /// # Errors
    /// `Busy` while the device has not answered all earlier requests: it could still write over
    /// blocks that are written from now on. Then the caller closes the device, and answers for it.
    pub fn online(&mut self, leaf: LeafId, out: &mut Output) -> Result<(), ShapeError> {
        self.known(leaf)?;
        let epoch = self.newest;
        let state = self.leaf_mut(leaf);
        if state.abandoned > 0 {
            let context = format!(
                "its device has not yet answered {} earlier requests",
                state.abandoned
            );
            return Err(ShapeError::new(ShapeErrorKind::Busy, leaf, context));
        }
        if state.state == LeafState::Online {
            return Ok(());
        }
        if let Some(since) = state.missing_since.take() {
            state.miss(since, epoch.max(since));
        }
        state.state = LeafState::Online;
        state.unflushed.forget();
        let vdev = usize::from(state.vdev);
        if self.top_levels[vdev].class == Class::Log {
            // The leaf lacks the roots of the time between. Nothing is promised there before it has
            // the newest.
            self.leaf_mut(leaf).joined = epoch;
        }
        self.tell_state(leaf, "brought online", out);
        Ok(())
    }

    /// Forgets the error counts of a leaf. If a log vdev had lost unflushed writes, flushes succeed
    /// again: the caller has made durable elsewhere all writes since the last good flush. For all
    /// other vdevs, flushes fail as long as the array lives. Their lost writes were answered as
    /// written, and only an opening finds out what is left of them.
    ///
    /// # Errors
    /// There is no such leaf.
    pub fn clear(&mut self, leaf: LeafId) -> Result<(), ShapeError> {
        self.known(leaf)?;
        let state = self.leaf_mut(leaf);
        state.errors = Default::default();
        let vdev = usize::from(state.vdev);
        let top = &mut self.top_levels[vdev];
        top.is_unflushable &= top.class != Class::Log;
        top.unreadable = 0;
        Ok(())
    }

    /// Returns the epochs that a leaf misses, to be written into the labels; `None` if there is no
    /// such leaf. For a leaf that is away, the last range ends with the present epoch, and grows.
    pub fn missing(&self, leaf: LeafId) -> Option<Dtl> {
        let state = self.leaves.get(leaf.0 as usize)?;
        let mut missing = state.missing.clone();
        if let Some(since) = state.missing_since {
            missing.add(since, self.newest.max(since));
        }
        Some(missing)
    }

    /// Notes that a leaf lacks more than was known, since it was away: up to blocks that are born
    /// now.
    pub fn note_lacking(&mut self, leaf: LeafId, lacks: &Dtl) {
        let newest = self.newest;
        let Some(state) = self.leaves.get_mut(leaf.0 as usize) else {
            return;
        };
        let mut missing = state.missing.clone();
        missing.add_all(lacks);
        missing.end_at(newest);
        if missing != state.missing {
            state.missing = missing;
            state.misses += 1;
        }
    }

    /// Notes that the log was followed to its end: no leaf can have missed more than the blocks
    /// that were born until now.
    pub fn end_missing(&mut self) {
        let newest = self.newest;
        for leaf in &mut self.leaves {
            leaf.missing.end_at(newest);
        }
    }

    /// Returns the work of a resilver of a leaf. The resilver must find all blocks of those epochs,
    /// including blocks that only the log knows.
    ///
    /// # Errors
    /// The leaf is not online.
    pub fn start_resilver(&self, leaf: LeafId) -> Result<Resilver, ShapeError> {
        self.known(leaf)?;
        let state = self.leaf(leaf);
        if state.state != LeafState::Online {
            return Err(ShapeError::new(
                ShapeErrorKind::Away,
                leaf,
                "it cannot be resilvered",
            ));
        }
        Ok(Resilver {
            leaf,
            missing: state.missing.clone(),
            misses: state.misses,
        })
    }

    /// Ends a resilver: all blocks of its epochs were rebuilt, and flushed. Reports whether the
    /// leaf is complete now. If it missed more meanwhile, it is not, and another resilver must
    /// follow.
    ///
    /// # Errors
    /// The leaf is not online any more.
    pub fn finish_resilver(
        &mut self,
        resilver: &Resilver,
        out: &mut Output,
    ) -> Result<bool, ShapeError> {
        let leaf = resilver.leaf;
        if self.start_resilver(leaf)?.misses != resilver.misses {
            return Ok(false);
        }
        if let Some((_, last)) = resilver.missing.ranges().last() {
            self.leaf_mut(leaf).missing.remove_until(*last);
            self.tell_state(leaf, "resilvered", out);
        }
        Ok(true)
    }

    /// Reports whether all blocks can be read without this leaf, with the blocks that the others
    /// surely have.
    pub(super) fn can_lose(&self, leaf: LeafId) -> bool {
        let top = &self.top_levels[usize::from(self.leaf(leaf).vdev)];
        let is_incomplete = |slot: &&super::tree::Slot| {
            !slot
                .leaves
                .iter()
                .any(|other| *other != leaf && self.leaf(*other).is_complete())
        };
        !top.is_unflushable && top.slots.iter().filter(is_incomplete).count() <= top.redundancy()
    }

    /// Fails if the other leaves do not hold all that a leaf holds.
    pub(crate) fn require_spare(&self, leaf: LeafId) -> Result<(), ShapeError> {
        if self.can_lose(leaf) {
            return Ok(());
        }
        let context = "no valid replicas: the other devices do not hold all of its data";
        Err(ShapeError::new(ShapeErrorKind::NotRedundant, leaf, context))
    }

    /// Notes that a device failed a read or a trim.
    pub(super) fn device_failed(
        &mut self,
        leaf: LeafId,
        is_read: bool,
        offset: u64,
        error: &DeviceError,
        out: &mut Output,
    ) {
        self.count_error(leaf, is_read, offset, error, out);
        match error.kind {
            DeviceErrorKind::Gone => self.lose(leaf, LeafState::Removed, None, error, out),
            DeviceErrorKind::Failed | DeviceErrorKind::TimedOut if self.can_lose(leaf) => {
                self.lose(leaf, state_after(error.kind), None, error, out);
            }
            _ => {}
        }
    }

    /// Notes that a device failed a write.
    pub(super) fn change_failed(
        &mut self,
        leaf: LeafId,
        epoch: Epoch,
        offset: u64,
        error: &DeviceError,
        out: &mut Output,
    ) {
        self.count_error(leaf, false, offset, error, out);
        if error.kind == DeviceErrorKind::Gone {
            self.lose(leaf, LeafState::Removed, Some(epoch), error, out);
        } else if self.can_lose(leaf) {
            self.lose(leaf, state_after(error.kind), Some(epoch), error, out);
        }
    }

    pub(super) fn count_error(
        &mut self,
        leaf: LeafId,
        is_read: bool,
        offset: u64,
        error: &DeviceError,
        out: &mut Output,
    ) {
        if error.kind != DeviceErrorKind::Unsupported {
            self.leaf_mut(leaf).count(is_read);
            out.events.push(VdevEvent::DeviceError {
                leaf,
                offset,
                kind: error.kind,
            });
        }
    }

    /// Stops using a leaf. It misses its unflushed writes, the failed ones, and all later writes.
    pub(super) fn lose(
        &mut self,
        leaf: LeafId,
        state: LeafState,
        failed_write: Option<Epoch>,
        error: &DeviceError,
        out: &mut Output,
    ) {
        let was_online = self.leaf(leaf).state == LeafState::Online;
        let is_spare = self.can_lose(leaf);
        let abandoned = self.abandon_all(leaf, error);
        if was_online {
            let unflushed = self.leaf(leaf).unflushed.oldest();
            let vdev = self.leaf(leaf).vdev;
            let is_alone = self.top_levels[usize::from(vdev)].leaves().count() == 1;
            if !is_spare && unflushed.is_some() {
                self.give_up_flushing(vdev, out);
            }
            let failed = [Some(self.epoch), unflushed, failed_write, abandoned];
            let since = failed.into_iter().flatten().min();
            // Nobody else can have the blocks that a lone leaf misses, until another leaf joins it.
            self.leaf_mut(leaf).missing_since = if is_alone { None } else { since };
        }
        // Labels of leaves that are put aside are flushed, too.
        self.fail_flushes(leaf, error);
        if self.leaf(leaf).state != LeafState::Detached {
            self.leaf_mut(leaf).state = state;
            self.tell_state(leaf, &error.to_string(), out);
        }
    }

    /// Notes that writes are lost that were answered as done.
    pub(super) fn give_up_flushing(&mut self, vdev: u16, out: &mut Output) {
        let top = &mut self.top_levels[usize::from(vdev)];
        if !top.is_unflushable {
            top.is_unflushable = true;
            out.events.push(VdevEvent::Lost { vdev });
        }
    }

    pub(super) fn tell_state(&self, leaf: LeafId, reason: &str, out: &mut Output) {
        let state = self.leaf_status(leaf).state;
        out.events.push(VdevEvent::LeafState {
            leaf,
            state,
            reason: reason.to_owned(),
        });
    }

    /// Fails for a leaf that is not in the array.
    pub(super) fn known(&self, leaf: LeafId) -> Result<(), ShapeError> {
        match self.leaves.get(leaf.0 as usize) {
            Some(state) if state.state != LeafState::Detached => Ok(()),
            _ => Err(ShapeError::new(ShapeErrorKind::NoSuchLeaf, leaf, "")),
        }
    }
}

/// Returns the state of a leaf that is not used any more. A leaf that does not answer has done
/// nothing wrong: it is away, and may be used again when it answers.
pub(super) fn state_after(error: DeviceErrorKind) -> LeafState {
    match error {
        DeviceErrorKind::Gone | DeviceErrorKind::TimedOut => LeafState::Removed,
        _ => LeafState::Faulted,
    }
}
