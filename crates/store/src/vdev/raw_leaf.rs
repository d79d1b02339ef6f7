//! Reads and writes of one leaf as it is, for its labels. There is no redundancy and no healing,
//! and offline or faulted leaves can be used too.

use pages::{PAGE_SIZE, Pages};
use smallvec::smallvec;

use super::Array;
use super::device::{DeviceError, DeviceErrorKind, LeafId};
use super::job::{Answer, Job, OperationId, Priority, Waiter, Work};
use super::output::{ArrayDone, ArrayError, ArrayErrorKind, Output};

#[derive(Debug)]
pub(super) struct LabelOperation {
    tag: u64,
    is_read: bool,
}

impl Array {
    /// Reads bytes of a leaf's device, a whole number of sectors. The answer is
    /// [`ArrayDone::Read`].
    pub fn read_leaf(
        &mut self,
        tag: u64,
        leaf: LeafId,
        offset: u64,
        len: u32,
        now_us: u64,
        out: &mut Output,
    ) {
        self.start_label(tag, leaf, offset, u64::from(len), Work::Read, now_us, out);
    }

    /// Writes bytes of a leaf's device, a whole number of sectors. The answer is
    /// [`ArrayDone::Written`]. A failure is counted, and a leaf that can be spared is faulted.
    pub fn write_leaf(
        &mut self,
        tag: u64,
        leaf: LeafId,
        offset: u64,
        data: Pages,
        now_us: u64,
        out: &mut Output,
    ) {
        let len = data.len() as u64;
        let work = Work::Write {
            parts: smallvec![data],
            epoch: self.epoch,
            is_durable: false,
        };
        self.start_label(tag, leaf, offset, len, work, now_us, out);
    }

    #[allow(clippy::too_many_arguments)]
    fn start_label(
        &mut self,
        tag: u64,
        leaf: LeafId,
        offset: u64,
        len: u64,
        work: Work,
        now_us: u64,
        out: &mut Output,
    ) {
        let is_read = matches!(work, Work::Read);
        let label = LabelOperation { tag, is_read };
        let state = self.leaves.get(leaf.0 as usize);
        let is_inside = offset.is_multiple_of(PAGE_SIZE as u64)
            && len.is_multiple_of(PAGE_SIZE as u64)
            && len > 0
            && state
                .is_some_and(|leaf| offset.checked_add(len).is_some_and(|end| end <= leaf.size));
        if !is_inside {
            let context = format!("{len} bytes at {offset} of leaf {}", leaf.0);
            label.finish(
                Err(ArrayError::new(ArrayErrorKind::OutOfRange, context)),
                out,
            );
            return;
        }
        if !state.is_some_and(super::leaf::Leaf::is_open) {
            let context = format!("leaf {}", leaf.0);
            let cause = DeviceError::new(DeviceErrorKind::Gone, "the leaf is not open");
            let error = ArrayError::new(ArrayErrorKind::Unavailable, context);
            label.finish(Err(error.because(Some(cause))), out);
            return;
        }
        let id = self.operations.labels.insert(label);
        let priority = if is_read {
            Priority::SyncRead
        } else {
            Priority::SyncWrite
        };
        let job = Job::new(
            priority,
            (offset, len),
            Waiter::new(OperationId::Label(id)),
            work,
            now_us,
        );
        self.submit(leaf, job, now_us, out);
        self.settle(now_us, out);
    }

    pub(super) fn label_answered(&mut self, id: u64, answer: Answer, out: &mut Output) {
        let Some(label) = self.operations.labels.remove(id) else {
            return;
        };
        let result = answer.outcome.map_err(|error| {
            let context = format!("byte {} of leaf {}", answer.offset, answer.leaf.0);
            ArrayError::new(ArrayErrorKind::Device, context).because(Some(error))
        });
        label.finish(result, out);
    }
}

impl LabelOperation {
    fn finish(self, result: Result<Pages, ArrayError>, out: &mut Output) {
        let done = if self.is_read {
            ArrayDone::Read(result)
        } else {
            ArrayDone::Written(result.map(|_| ()))
        };
        out.done.push((self.tag, done));
    }
}
