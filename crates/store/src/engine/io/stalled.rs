//! Changes that wait for old contents or for room, and the locks on the blocks that they touch.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use pages::Pages;

use super::change::Write;
use crate::engine::request::RequestId;
use crate::format::{DatasetId, Epoch};

/// Change with the old contents of the blocks that it covers in part: at most the first and the
/// last one.
#[derive(Debug)]
pub(in crate::engine) struct Ready {
    pub(in crate::engine) id: RequestId,
    pub(in crate::engine) write: Write,
    pub(super) olds: Vec<(u64, Pages)>,
    /// Last durable checkpoint at the time when no place was found for the change, though enough
    /// sectors were free.
    pub(super) scattered: Option<Epoch>,
    /// Bytes of compressed blocks that the change keeps beside its own data while it waits for
    /// room.
    kept_packed: usize,
}

/// Lock on blocks that a waiting change touches.
#[derive(Debug)]
pub(super) struct Lock {
    /// Block after the last locked one.
    end: u64,
    /// Changes that wait since they touch some of the blocks too.
    waiting: VecDeque<(RequestId, Write)>,
}

impl Lock {
    /// Lets a change wait until the blocks are unlocked.
    pub(super) fn make_wait(&mut self, id: RequestId, write: Write) {
        self.waiting.push_back((id, write.unprepared()));
    }
}

impl Ready {
    /// Makes a change that has no old contents yet.
    pub(super) fn new(id: RequestId, write: Write) -> Self {
        Self {
            id,
            write,
            olds: Vec::new(),
            scattered: None,
            kept_packed: 0,
        }
    }
}

/// Changes that wait, and the locks on their blocks.
#[derive(Debug, Default)]
pub(in crate::engine) struct Stalled {
    /// Blocks that waiting changes touch, by the first of each. Other changes of these blocks wait.
    locks: BTreeMap<(DatasetId, u64), Lock>,
    /// Changes that wait for room in memory or on the devices, in their order.
    changes: VecDeque<Ready>,
    /// Bytes of compressed blocks that the stalled changes keep beside their own data. They are
    /// bounded as dirty bytes are. Data beyond the bound is compressed again, on the one thread
    /// that has all other work to do.
    kept_packed: usize,
    /// Checkpoints since changes began to wait for space.
    vain_checkpoints: u32,
}

impl Stalled {
    /// Reports whether no change waits for room.
    pub(in crate::engine) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Lets a change wait behind all others. At most `bound` bytes of compressed blocks are kept.
    pub(super) fn stall(&mut self, mut ready: Ready, bound: usize) {
        let packed = ready.write.packed_bytes();
        if self.kept_packed + packed > bound {
            ready.write = ready.write.unprepared();
        } else {
            ready.kept_packed = packed;
            self.kept_packed += packed;
        }
        self.changes.push_back(ready);
    }

    /// Takes the change whose turn it is.
    pub(super) fn next(&mut self) -> Option<Ready> {
        self.changes.pop_front()
    }

    /// Gives a change back whose turn it still is.
    pub(super) fn put_back(&mut self, ready: Ready) {
        self.changes.push_front(ready);
    }

    /// Takes all changes that wait for room.
    pub(super) fn give_up(&mut self) -> VecDeque<Ready> {
        std::mem::take(&mut self.changes)
    }

    /// Notes that a change does not wait any more.
    pub(super) fn forget_packed(&mut self, ready: &Ready) {
        self.kept_packed -= ready.kept_packed;
    }

    /// Returns the bytes of compressed blocks that changes keep while they wait.
    pub(in crate::engine) fn kept_packed(&self) -> usize {
        self.kept_packed
    }

    /// Returns the changes that wait for room, in their order.
    #[cfg(test)]
    pub(in crate::engine) fn iter(&self) -> impl Iterator<Item = &Ready> {
        self.changes.iter()
    }

    /// Locks blocks until a waiting change has been done. No block is locked twice: a change that
    /// finds one locked waits.
    pub(super) fn lock(&mut self, dataset: DatasetId, blocks: Range<u64>) {
        let lock = Lock {
            end: blocks.end,
            waiting: VecDeque::new(),
        };
        self.locks.insert((dataset, blocks.start), lock);
    }

    /// Returns the last lock on any of these blocks.
    pub(super) fn lock_on(&mut self, dataset: DatasetId, blocks: &Range<u64>) -> Option<&mut Lock> {
        let before = (dataset, blocks.end);
        let ((of, _), lock) = self.locks.range_mut(..before).next_back()?;
        (*of == dataset && lock.end > blocks.start).then_some(lock)
    }

    /// Unlocks the blocks from `first` on. Returns the changes that waited for them.
    pub(super) fn unlock(&mut self, dataset: DatasetId, first: u64) -> Vec<(RequestId, Write)> {
        let lock = self.locks.remove(&(dataset, first));
        lock.into_iter().flat_map(|lock| lock.waiting).collect()
    }

    /// Unlocks all blocks of a dataset. Returns the changes that waited for them.
    pub(super) fn unlock_all(&mut self, dataset: DatasetId) -> Vec<(RequestId, Write)> {
        let all = (dataset, 0)..=(dataset, u64::MAX);
        let locked: Vec<_> = self.locks.range(all).map(|(of, _)| *of).collect();
        let mut waiting = Vec::new();
        for (_, first) in locked {
            waiting.extend(self.unlock(dataset, first));
        }
        waiting
    }

    /// Reports whether a block of a dataset is locked.
    pub(in crate::engine) fn is_locked(&self, dataset: DatasetId) -> bool {
        let blocks = (dataset, 0)..=(dataset, u64::MAX);
        self.locks.range(blocks).next().is_some()
    }

    /// Reports whether any block is locked.
    pub(in crate::engine) fn has_locks(&self) -> bool {
        !self.locks.is_empty()
    }

    /// Counts a checkpoint, though changes still wait. `is_freeing` says that the next one frees
    /// more.
    pub(in crate::engine) fn count_vain_checkpoint(&mut self, is_freeing: bool) {
        if is_freeing {
            self.vain_checkpoints = 0;
        } else if !self.changes.is_empty() {
            self.vain_checkpoints += 1;
        }
    }

    /// Notes that checkpoints may make room again.
    pub(in crate::engine) fn hope(&mut self) {
        self.vain_checkpoints = 0;
    }

    /// Returns the checkpoints since changes began to wait for space.
    pub(in crate::engine) fn vain_checkpoints(&self) -> u32 {
        self.vain_checkpoints
    }
}
