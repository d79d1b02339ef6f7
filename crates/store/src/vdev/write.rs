//! Writes of blocks: to every leaf that takes writes, with neighbours as one request. A block is
//! written if no more of its columns are missing than can be rebuilt. Otherwise the write has
//! failed.

use std::ops::{Range, RangeInclusive};

use pages::{PAGE_SIZE, Page, Pages};
use smallvec::{SmallVec, smallvec};

use super::Array;
use super::device::{DeviceError, LeafId};
use super::job::{Answer, Job, OperationId, Priority, Waiter, Work};
use super::layout;
use super::output::{ArrayDone, ArrayError, ArrayErrorKind, Output, sectors_at};
use super::page_runs;
use super::tree::LeafState;
use crate::format::{Address, Epoch};

/// A write of blocks.
#[derive(Debug)]
pub(super) struct WriteOperation {
    tag: u64,
    blocks: Vec<(Address, Pages)>,
    /// Epoch in which it began.
    epoch: Epoch,
    /// Number of leaves when it began. Leaves from this number on joined later.
    leaves: u32,
    pending: u32,
    /// Failed parts of the write: leaf and bytes on it.
    failed: Vec<(LeafId, Range<u64>)>,
    error: Option<DeviceError>,
}

/// Neighbouring parts of blocks on one leaf.
struct Run {
    leaf: LeafId,
    offset: u64,
    len: u64,
    parts: SmallVec<[Pages; 1]>,
    /// Number of the last parts that are padding. Padding is written only to join its neighbours.
    padding: usize,
}

impl Run {
    fn end(&self) -> u64 {
        self.offset + self.len
    }

    fn push(&mut self, data: Pages) {
        self.len += data.len() as u64;
        self.parts.push(data);
    }

    /// Removes the padding at the end.
    fn trim(&mut self) {
        self.parts.truncate(self.parts.len() - self.padding);
        self.len -= (self.padding * PAGE_SIZE) as u64;
        self.padding = 0;
    }
}

/// Runs of one write.
struct Runs {
    max: u64,
    runs: Vec<Run>,
    /// Index of the last run of each leaf.
    last: Vec<Option<usize>>,
}

impl Runs {
    /// Returns the most requests that a leaf gets.
    fn most_of_a_leaf(&self) -> usize {
        let of = |leaf| self.runs.iter().filter(|run| run.leaf == leaf).count();
        let leaves = (0..self.last.len() as u32).map(LeafId);
        leaves.map(of).max().unwrap_or(0)
    }

    fn add(&mut self, leaf: LeafId, offset: u64, data: &Pages) {
        if data.len() as u64 <= self.max {
            return self.add_part(leaf, offset, data.clone());
        }
        let mut at = 0;
        while at < data.len() {
            let end = data.len().min(at + self.max as usize);
            self.add_part(leaf, offset + at as u64, data.slice(at..end));
            at = end;
        }
    }

    fn add_part(&mut self, leaf: LeafId, offset: u64, data: Pages) {
        let last = &mut self.last[leaf.0 as usize];
        if let Some(run) = last.map(|at| &mut self.runs[at])
            && run.end() == offset
            && run.len + data.len() as u64 <= self.max
        {
            run.padding = 0;
            run.push(data);
            return;
        }
        *last = Some(self.runs.len());
        let len = data.len() as u64;
        self.runs.push(Run {
            leaf,
            offset,
            len,
            parts: smallvec![data],
            padding: 0,
        });
    }

    fn add_padding(&mut self, leaf: LeafId, offset: u64) {
        if let Some(run) = self.last[leaf.0 as usize].map(|at| &mut self.runs[at])
            && run.end() == offset
            && run.len < self.max
        {
            run.push(Pages::from_page(Page::zero(), 0, PAGE_SIZE as u32));
            run.padding += 1;
        }
    }
}

impl Array {
    /// Writes blocks. One answer, [`ArrayDone::Written`], covers all of them together. Blocks that
    /// follow one another become one request for each leaf. The bytes of each block are whole
    /// sectors.
    ///
    /// An error means that at least one of the blocks is not safe. Then none of them may be used.
    pub fn write(
        &mut self,
        tag: u64,
        blocks: Vec<(Address, Pages)>,
        priority: Priority,
        now_us: u64,
        out: &mut Output,
    ) {
        self.start_write(tag, blocks, priority, false, now_us, out);
    }

    /// Writes blocks like [`Array::write`]. If that takes one request for each leaf, the answer
    /// means that the write outlives a power cut. Returns true in this case. Otherwise a flush must
    /// follow: several durable requests would each have their own flush. (Measured with up to two
    /// and up to eight requests: no quicker with one write outstanding, a little slower with 16.)
    pub fn write_durably(
        &mut self,
        tag: u64,
        blocks: Vec<(Address, Pages)>,
        now_us: u64,
        out: &mut Output,
    ) -> bool {
        let priority = Priority::SyncWrite;
        self.start_write(tag, blocks, priority, true, now_us, out)
    }

    /// Starts a write. Returns whether all of it will be durable when it is written.
    fn start_write(
        &mut self,
        tag: u64,
        blocks: Vec<(Address, Pages)>,
        priority: Priority,
        is_durable_wanted: bool,
        now_us: u64,
        out: &mut Output,
    ) -> bool {
        let mut runs = Runs {
            max: self.limits.max_write,
            runs: Vec::new(),
            last: vec![None; self.leaves.len()],
        };
        let mut skipped: SmallVec<[LeafId; 4]> = SmallVec::new();
        for (address, data) in &blocks {
            let is_whole = data.len().is_multiple_of(PAGE_SIZE);
            let sectors = u16::try_from(data.len() / PAGE_SIZE).unwrap_or(u16::MAX);
            if !is_whole || !self.place(*address, sectors, data, &mut runs, &mut skipped) {
                let error = ArrayError::outside(*address, sectors);
                out.done.push((tag, ArrayDone::Written(Err(error))));
                return false;
            }
        }
        let is_durable = is_durable_wanted && runs.most_of_a_leaf() <= 1;
        for (address, data) in &blocks {
            let sectors = self.footprint(address.vdev(), (data.len() / PAGE_SIZE) as u16);
            self.watches.note(*address, sectors);
        }
        let operation = WriteOperation {
            tag,
            blocks,
            epoch: self.epoch,
            leaves: self.leaves.len() as u32,
            pending: runs.runs.len() as u32,
            failed: skipped
                .into_iter()
                .map(|leaf| (leaf, 0..u64::MAX))
                .collect(),
            error: None,
        };
        if operation.pending == 0 {
            self.finish_write(operation, out);
            return is_durable;
        }
        let id = self.operations.writes.insert(operation);
        for mut run in runs.runs {
            run.trim();
            let work = Work::Write {
                parts: run.parts,
                epoch: self.epoch,
                is_durable,
            };
            let range = (run.offset, run.len);
            let job = Job::new(
                priority,
                range,
                Waiter::new(OperationId::Write(id)),
                work,
                now_us,
            );
            self.submit(run.leaf, job, now_us, out);
        }
        self.settle(now_us, out);
        is_durable
    }

    /// Puts a block's columns where they belong. Returns false if the block lies outside.
    fn place(
        &self,
        address: Address,
        sectors: u16,
        data: &Pages,
        runs: &mut Runs,
        skipped: &mut SmallVec<[LeafId; 4]>,
    ) -> bool {
        let vdev = self.top_levels.get(usize::from(address.vdev()));
        let Some(top) = vdev.filter(|top| top.holds(address.sector(), sectors)) else {
            return false;
        };
        let is_aligned = data.whole_page(0).is_some();
        if top.is_whole_on_each_leaf() && is_aligned {
            let offset = layout::sector_offset(address.sector());
            for leaf in top.leaves() {
                if self.leaf(leaf).is_usable() {
                    runs.add(leaf, offset, data);
                } else if !skipped.contains(&leaf) {
                    skipped.push(leaf);
                }
            }
            return true;
        }
        let Some(geometry) = top.geometry(address.sector(), sectors) else {
            return false;
        };
        let data = page_runs::aligned(data.clone());
        for (column, part) in geometry.columns.iter().zip(geometry.encode(&data)) {
            let offset = layout::sector_offset(column.sector);
            for leaf in top.holders(column.slot) {
                if self.leaf(leaf).is_usable() {
                    runs.add(leaf, offset, &part);
                } else if !skipped.contains(&leaf) {
                    skipped.push(leaf);
                }
            }
        }
        for gap in &geometry.padding {
            for leaf in top.holders(gap.slot) {
                runs.add_padding(leaf, layout::sector_offset(gap.sector));
            }
        }
        true
    }

    pub(super) fn write_answered(&mut self, id: u64, answer: Answer, out: &mut Output) {
        let Some(write) = self.operations.writes.get_mut(id) else {
            return;
        };
        write.pending -= 1;
        if let Err(error) = answer.outcome {
            write
                .failed
                .push((answer.leaf, answer.offset..answer.offset + answer.len));
            write.error = Some(error);
        }
        if write.pending == 0
            && let Some(write) = self.operations.writes.remove(id)
        {
            self.finish_write(write, out);
        }
    }

    fn finish_write(&mut self, write: WriteOperation, out: &mut Output) {
        let result = match write.failed.is_empty() {
            true => Ok(()),
            false => match write
                .blocks
                .iter()
                .find(|block| !self.is_held(&write, block))
            {
                None => {
                    self.note_missed(&write, out);
                    Ok(())
                }
                Some((address, data)) => {
                    let kind = match write.error {
                        Some(_) => ArrayErrorKind::Device,
                        None => ArrayErrorKind::Unavailable,
                    };
                    let context = sectors_at(data.len() / PAGE_SIZE, *address);
                    Err(ArrayError::new(kind, context).because(write.error))
                }
            },
        };
        if result.is_ok() {
            for (address, data) in &write.blocks {
                let top = &mut self.top_levels[usize::from(address.vdev())];
                top.io.write.count(data.len() as u64);
            }
        }
        out.done.push((write.tag, ArrayDone::Written(result)));
    }

    /// Reports whether enough leaves hold a block that was written.
    fn is_held(&self, write: &WriteOperation, (address, data): &(Address, Pages)) -> bool {
        let sectors = (data.len() / PAGE_SIZE) as u16;
        let Some((top, geometry)) = self.locate(*address, sectors) else {
            return false;
        };
        let is_lost = |column: &&super::geometry::Column| {
            let offset = layout::sector_offset(column.sector);
            let end = layout::sector_offset(column.sector + u64::from(column.sectors));
            let has_failed = |leaf: LeafId| {
                let overlaps = |range: &Range<u64>| range.start < end && offset < range.end;
                write
                    .failed
                    .iter()
                    .any(|(failed, range)| *failed == leaf && overlaps(range))
            };
            !top.holders(column.slot)
                .any(|leaf| leaf.0 < write.leaves && !has_failed(leaf))
        };
        geometry.columns.iter().filter(is_lost).count() <= geometry.parity
    }

    /// Notes the blocks that leaves lack which failed a write and could not be spared.
    fn note_missed(&mut self, write: &WriteOperation, out: &mut Output) {
        for (leaf, _) in &write.failed {
            self.note_lack(*leaf, write.epoch..=self.newest, out);
        }
    }

    /// Notes that a leaf that stays in use lacks blocks that were born in these epochs.
    pub fn note_lack(&mut self, leaf: LeafId, born: RangeInclusive<Epoch>, out: &mut Output) {
        let state = self.leaf_mut(leaf);
        if state.state == LeafState::Online {
            let before = state.missing.clone();
            state.miss(*born.start(), *born.end());
            if state.missing != before {
                self.tell_state(leaf, "it missed a write", out);
            }
        }
    }
}
