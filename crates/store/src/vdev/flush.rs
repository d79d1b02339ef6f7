//! Flushes, which make writes durable. A leaf that fails a flush has lost its unflushed writes, so
//! it is faulted. If no other leaf holds those blocks, every later flush fails too. A flush that
//! succeeds after a failed one says nothing about the writes that the failed one lost.

use pages::Pages;
use smallvec::SmallVec;

use super::Array;
use super::device::{DeviceError, DeviceErrorKind, DeviceOutcome, LeafId};
use super::health::state_after;
use super::job::{Answer, Job, OperationId, Priority, Waiter, Work};
use super::output::{ArrayDone, ArrayError, ArrayErrorKind, Output};
use super::tree::{Class, LeafState, TopLevel};
use crate::format::Epoch;

/// Leaves that a flush covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    /// All vdevs that hold blocks.
    Blocks,
    /// A log vdev.
    Log(u16),
    /// One leaf: its own answer counts, whatever redundancy there is.
    Leaf(LeafId),
}

/// A flush.
#[derive(Debug)]
pub(super) struct FlushOperation {
    tag: u64,
    scope: Scope,
    pending: u32,
    error: Option<DeviceError>,
}

impl Scope {
    /// Reports whether losses of a vdev are errors of the flush.
    fn covers(self, number: u16, top: &TopLevel) -> bool {
        match self {
            Self::Blocks => top.class == Class::Normal,
            Self::Log(vdev) => number == vdev,
            Self::Leaf(_) => false,
        }
    }
}

impl Array {
    /// Makes durable all writes of blocks that were done before. It flushes every leaf that was
    /// written to since its last good flush, but no log vdevs. From the first loss that redundancy
    /// does not cover, [`ArrayDone::Flushed`] is an error until [`Array::clear`].
    pub fn flush(&mut self, tag: u64, now_us: u64, out: &mut Output) {
        self.flush_scope(tag, Scope::Blocks, now_us, out);
    }

    /// Makes durable the writes to a log vdev, and nothing else.
    pub fn flush_log(&mut self, tag: u64, vdev: u16, now_us: u64, out: &mut Output) {
        self.flush_scope(tag, Scope::Log(vdev), now_us, out);
    }

    fn flush_scope(&mut self, tag: u64, scope: Scope, now_us: u64, out: &mut Output) {
        let tops = (0..).zip(&self.top_levels);
        let covered = tops.filter(|(vdev, top)| scope.covers(*vdev, top));
        let leaves = covered.flat_map(|(_, top)| top.leaves()).collect();
        let flush = FlushOperation {
            tag,
            scope,
            pending: 0,
            error: None,
        };
        self.start_flush(flush, leaves, now_us, out);
    }

    /// Reports whether no earlier loss would make a flush fail.
    pub fn is_flushable(&self) -> bool {
        self.top_levels.iter().all(|top| !top.is_unflushable)
    }

    /// Assumes that the content of the leaves may not outlive a power cut, whoever wrote it, from
    /// blocks of epoch `oldest` on. The next flush asks all leaves.
    pub fn assume_unflushed(&mut self, oldest: Epoch) {
        for leaf in &mut self.leaves {
            if leaf.is_usable() {
                leaf.unflushed.wrote(oldest);
            }
        }
    }

    /// Makes durable the writes to one leaf. Its failure is an error even if other leaves hold the
    /// same blocks.
    pub fn flush_leaf(&mut self, tag: u64, leaf: LeafId, now_us: u64, out: &mut Output) {
        let leaves: SmallVec<[LeafId; 4]> = self
            .leaves
            .get(leaf.0 as usize)
            .map(|_| leaf)
            .into_iter()
            .collect();
        let mut flush = FlushOperation {
            tag,
            scope: Scope::Leaf(leaf),
            pending: 0,
            error: None,
        };
        if leaves.is_empty() || !self.leaf(leaf).is_open() {
            flush.error = Some(DeviceError::new(
                DeviceErrorKind::Gone,
                "the leaf is not open",
            ));
        }
        self.start_flush(flush, leaves, now_us, out);
    }

    fn start_flush(
        &mut self,
        mut flush: FlushOperation,
        leaves: SmallVec<[LeafId; 4]>,
        now_us: u64,
        out: &mut Output,
    ) {
        let mut joining: SmallVec<[LeafId; 4]> = SmallVec::new();
        for id in leaves {
            let leaf = self.leaf(id);
            if leaf.unflushed.is_settled() {
                continue;
            }
            let is_asked = match flush.scope {
                Scope::Leaf(_) => leaf.is_open(),
                Scope::Blocks | Scope::Log(_) => leaf.is_usable(),
            };
            if is_asked {
                joining.push(id);
            } else if leaf.state == LeafState::Online {
                flush.error = Some(DeviceError::new(
                    DeviceErrorKind::TimedOut,
                    "the device has not answered earlier requests",
                ));
            }
        }
        flush.pending = joining.len() as u32;
        if joining.is_empty() {
            self.finish_flush(flush, out);
            return;
        }
        let id = self.operations.flushes.insert(flush);
        for leaf in joining {
            if self.leaf_mut(leaf).unflushed.wait(id) {
                self.has_waiting_flushes = true;
            }
        }
        self.settle(now_us, out);
    }

    /// Starts the flushes that waited for one under way, or for nothing. Reports whether there were
    /// any.
    pub(super) fn start_waiting_flushes(&mut self, now_us: u64, out: &mut Output) -> bool {
        if !std::mem::take(&mut self.has_waiting_flushes) {
            return false;
        }
        let mut is_any = false;
        for id in 0..self.leaves.len() as u32 {
            if !self.leaves[id as usize].unflushed.start() {
                continue;
            }
            is_any = true;
            let job = Job {
                priority: Priority::SyncWrite,
                offset: 0,
                len: 0,
                spans: SmallVec::new(),
                asked_us: now_us,
                work: Work::Flush,
            };
            self.submit(LeafId(id), job, now_us, out);
        }
        is_any
    }

    /// Notes that a leaf has lost its unflushed writes.
    pub(super) fn flush_failed(&mut self, leaf: LeafId, error: &DeviceError, out: &mut Output) {
        self.count_error(leaf, false, 0, error, out);
        if error.kind == DeviceErrorKind::Gone || self.can_lose(leaf) {
            self.lose(leaf, state_after(error.kind), None, error, out);
        } else if self.leaf(leaf).state == LeafState::Online {
            let vdev = self.leaf(leaf).vdev;
            self.leaf_mut(leaf).unflushed.forget();
            self.give_up_flushing(vdev, out);
        }
    }

    /// Notes that the flush of a leaf is over.
    pub(super) fn flush_finished(&mut self, leaf: LeafId, outcome: &DeviceOutcome) {
        let joined = self.leaf_mut(leaf).unflushed.finish();
        self.has_waiting_flushes = true;
        self.answer_flushes(leaf, joined, outcome);
    }

    /// Answers all operations that wait for the flushes of a leaf that is not used any more.
    pub(super) fn fail_flushes(&mut self, leaf: LeafId, error: &DeviceError) {
        let waiting = self.leaf_mut(leaf).unflushed.give_up();
        self.answer_flushes(leaf, waiting, &Err(error.clone()));
    }

    fn answer_flushes(&mut self, leaf: LeafId, operations: Vec<u64>, outcome: &DeviceOutcome) {
        self.answers
            .extend(operations.into_iter().map(|operation| Answer {
                waiter: Waiter::new(OperationId::Flush(operation)),
                leaf,
                offset: 0,
                len: 0,
                outcome: outcome.as_ref().map(|_| Pages::new()).map_err(Clone::clone),
            }));
    }

    pub(super) fn flush_answered(&mut self, id: u64, answer: Answer, out: &mut Output) {
        let Some(flush) = self.operations.flushes.get_mut(id) else {
            return;
        };
        flush.pending -= 1;
        if let (Err(error), Scope::Leaf(_)) = (answer.outcome, flush.scope) {
            // For a flush of all leaves, only losses that redundancy does not cover count.
            flush.error = Some(error);
        }
        if flush.pending == 0
            && let Some(flush) = self.operations.flushes.remove(id)
        {
            self.finish_flush(flush, out);
        }
    }

    fn finish_flush(&mut self, flush: FlushOperation, out: &mut Output) {
        let mut tops = (0..).zip(&self.top_levels);
        let lost = tops.find(|(vdev, top)| top.is_unflushable && flush.scope.covers(*vdev, top));
        let result = match (lost, flush.error) {
            (Some((vdev, _)), error) => {
                let context = format!("flush of vdev {vdev}");
                Err(ArrayError::new(ArrayErrorKind::Lost, context).because(error))
            }
            (None, Some(error)) => {
                Err(ArrayError::new(ArrayErrorKind::Device, "flush").because(Some(error)))
            }
            (None, None) => Ok(()),
        };
        out.done.push((flush.tag, ArrayDone::Flushed(result)));
    }
}
