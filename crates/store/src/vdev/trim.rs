//! Trims tell devices which space is free. A trim is advice. If a device does not do it or fails
//! it, this is no error of the leaf; the caller is told. But a write into the range waits until the
//! device is through with the trim.

use pages::PAGE_SIZE;
use smallvec::SmallVec;

use super::Array;
use super::device::{DeviceError, LeafId};
use super::job::{Answer, Job, OperationId, Priority, Waiter, Work};
use super::layout;
use super::output::{ArrayDone, ArrayError, Output};
use super::tree::TopLevelKind;
use crate::format::Address;

#[derive(Debug)]
pub(super) struct TrimOperation {
    tag: u64,
    pending: u32,
    failed: Vec<(LeafId, DeviceError)>,
}

impl Array {
    /// Tells devices that `sectors` of a vdev's space are free: the device of one leaf, or those of
    /// all used leaves.
    pub fn trim(
        &mut self,
        tag: u64,
        (address, sectors): (Address, u64),
        only: Option<LeafId>,
        now_us: u64,
        out: &mut Output,
    ) {
        let Some(mut ranges) = self.leaf_ranges(address, sectors) else {
            let error = ArrayError::outside(address, u16::try_from(sectors).unwrap_or(u16::MAX));
            out.done.push((tag, ArrayDone::Trimmed(Err(error))));
            return;
        };
        ranges.retain(|(leaf, ..)| only.is_none_or(|only| only == *leaf));
        self.watches
            .note(address, u32::try_from(sectors).unwrap_or(u32::MAX));
        let pending = ranges.len() as u32;
        if pending == 0 {
            out.done.push((tag, ArrayDone::Trimmed(Ok(Vec::new()))));
            return;
        }
        let id = self.operations.trims.insert(TrimOperation {
            tag,
            pending,
            failed: Vec::new(),
        });
        for (leaf, sector, count) in ranges {
            let range = (layout::sector_offset(sector), count * PAGE_SIZE as u64);
            let waiter = Waiter::new(OperationId::Trim(id));
            let job = Job::new(Priority::Background, range, waiter, Work::Trim, now_us);
            self.submit(leaf, job, now_us, out);
        }
        self.settle(now_us, out);
    }

    /// Reports whether a leaf is used.
    pub fn is_usable(&self, leaf: LeafId) -> bool {
        self.known(leaf).is_ok() && self.leaf(leaf).is_usable()
    }

    /// Returns the usable leaves' parts of a range of a vdev's space; `None` if the range lies
    /// outside.
    fn leaf_ranges(
        &self,
        address: Address,
        sectors: u64,
    ) -> Option<SmallVec<[(LeafId, u64, u64); 8]>> {
        let top = self.top_levels.get(usize::from(address.vdev()))?;
        let start = address.sector();
        let end = start
            .checked_add(sectors)
            .filter(|end| *end <= top.sectors())?;
        let columns = match top.kind {
            TopLevelKind::Raidz { .. } => top.slots.len() as u64,
            TopLevelKind::Leaf | TopLevelKind::Mirror | TopLevelKind::Hole => 1,
        };
        let mut ranges = SmallVec::new();
        for column in 0..columns {
            // Rows whose sector of this column is inside.
            let first = start.saturating_sub(column).div_ceil(columns);
            let after = end.saturating_sub(column).div_ceil(columns);
            let slot = (columns > 1).then_some(column as u16);
            let holders = top
                .holders(slot)
                .filter(|leaf| self.leaf(*leaf).is_usable());
            if first < after {
                ranges.extend(holders.map(|leaf| (leaf, first, after - first)));
            }
        }
        Some(ranges)
    }

    pub(super) fn trim_answered(&mut self, id: u64, answer: Answer, out: &mut Output) {
        let Some(trim) = self.operations.trims.get_mut(id) else {
            return;
        };
        trim.pending -= 1;
        if let Err(error) = answer.outcome {
            trim.failed.push((answer.leaf, error));
        }
        if trim.pending == 0 {
            let failed = std::mem::take(&mut trim.failed);
            out.done.push((trim.tag, ArrayDone::Trimmed(Ok(failed))));
            self.operations.trims.remove(id);
        }
    }
}
