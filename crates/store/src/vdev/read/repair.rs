//! The steps after a read that found its block. Bad copies are counted, and rewritten if they are
//! bad twice. A leaf that is being rebuilt gets its part.

use pages::Pages;
use smallvec::{SmallVec, smallvec};

use super::heal::is_same;
use super::{Asker, ColumnCopy, CopyState, Goal, ReadOperation, Round};
use crate::format::Epoch;
use crate::vdev::Array;
use crate::vdev::device::{DeviceErrorKind, LeafId};
use crate::vdev::job::{Answer, Job, OperationId, Priority, Waiter, Work};
use crate::vdev::layout;
use crate::vdev::output::{ArrayDone, ArrayError, ArrayErrorKind, Output, Scrubbed, VdevEvent};

/// A repair: right bytes that are written over bad ones.
#[derive(Debug)]
pub(in crate::vdev) struct RepairOperation {
    asker: Asker,
    goal: Goal,
    /// Epoch of the block.
    birth: Epoch,
    found: Scrubbed,
    pending: u32,
    error: Option<ArrayError>,
}

/// A write of a repair.
struct Rewrite {
    leaf: LeafId,
    column: usize,
    /// Whether bad bytes were there, so that an administrator is told.
    is_repair: bool,
}

impl Array {
    /// Takes the block's bytes, and gives them to the asker. Copies that are wrong are read once
    /// more before they are overwritten. Reports whether a second read is under way.
    ///
    /// A device may fail a read, or return another place's bytes, though the copy is right.
    /// Overwriting it would put it at risk for nothing: if the power fails meanwhile, its sectors
    /// may be neither new nor old.
    pub(super) fn read_succeeded(
        &mut self,
        id: u64,
        read: &mut ReadOperation,
        payload: Pages,
        now_us: u64,
        out: &mut Output,
    ) -> bool {
        let is_current = self.watches.is_untouched(&read.watch);
        if !is_current && !read.block.verify.is_proof() {
            // These bytes may be another block's.
            self.end_overwritten(read, out);
            return false;
        }
        let top = &mut self.top_levels[usize::from(read.block.address.vdev())];
        top.io.read.count(payload.len() as u64);
        // A scrub of a block that lies twice needs the block's bytes for the other copy.
        let is_of_two = matches!(read.asker, Asker::Double { .. }) && read.known.is_none();
        if read.goal == Goal::Read || is_of_two && is_current {
            self.tell(read.asker, ArrayDone::Read(Ok(payload.clone())), out);
        }
        if read.goal == Goal::Read {
            // Several records may fit where one is looked for: of a group that was given up, and of
            // the group that overwrote it. Only the end of the log shows which one is right. A
            // repair with the wrong one would destroy the right one. When the end is known, records
            // that nothing proves to have been durable are scrubbed, each exactly as it is.
            if !is_current || read.round == Round::Best || read.is_sought() {
                self.watches.forget(&read.watch);
                return false;
            }
        }
        if !is_current {
            self.end_overwritten(read, out);
            return false;
        }
        let columns = read.geometry.encode(&payload);
        let mut suspects = self.suspects(read, &columns, out);
        suspects.retain(|(_, leaf)| self.leaf(*leaf).is_usable());
        if suspects.is_empty() || !self.heals {
            self.repair(read, &columns, now_us, out);
            return false;
        }
        (read.round, read.waiting, read.slow) = (Round::Again, 0, 0);
        read.payload = payload;
        // Nobody waits for the second read.
        read.priority = Priority::Background;
        for (column, leaf) in suspects {
            self.ask(id, read, column, leaf, true, now_us, out);
        }
        true
    }

    /// Goes on after bad copies have been read once more.
    pub(super) fn looked_again(&mut self, read: &ReadOperation, now_us: u64, out: &mut Output) {
        let columns = read.geometry.encode(&read.payload);
        self.repair(read, &columns, now_us, out);
    }

    /// Ends a read whose place was overwritten. Other bytes may be there by now, written for
    /// another block. They are neither judged nor touched.
    fn end_overwritten(&mut self, read: &ReadOperation, out: &mut Output) {
        self.watches.forget(&read.watch);
        self.tell(read.asker, read.goal.overwritten(&read.block), out);
    }

    /// Writes over bad copies, and writes columns that are to be rebuilt.
    fn repair(&mut self, read: &ReadOperation, columns: &[Pages], now_us: u64, out: &mut Output) {
        if !self.watches.is_untouched(&read.watch) {
            match read.goal {
                // The asker has its answer.
                Goal::Read => self.watches.forget(&read.watch),
                Goal::Scrub | Goal::Rebuild(_) => self.end_overwritten(read, out),
            }
            return;
        }
        self.watches.forget(&read.watch);
        let (mut rewrites, bad) = self.find_damage(read, columns, out);
        if let Goal::Rebuild(leaf) = read.goal {
            self.add_rebuilt(read, leaf, &mut rewrites);
        }
        if !self.heals {
            rewrites.clear();
        }
        rewrites.retain(|rewrite| {
            let (offset, len) = byte_range(read, rewrite.column);
            let leaf = self.leaf(rewrite.leaf);
            // A rebuild without a place on the leaf fails. Bad bytes behind the end of the leaf are
            // not repaired.
            let is_there = offset + len <= leaf.reach || read.goal == Goal::Rebuild(rewrite.leaf);
            leaf.is_usable() && is_there
        });
        let error = match read.goal {
            Goal::Rebuild(leaf) if !self.heals || !self.leaf(leaf).is_usable() => {
                let context = format!("rebuild of {}", read.block.address);
                Some(ArrayError::new(ArrayErrorKind::NotRebuilt, context))
            }
            _ => None,
        };
        let repair = RepairOperation {
            asker: read.asker,
            goal: read.goal,
            birth: read.block.birth,
            found: Scrubbed { bad, repaired: 0 },
            pending: rewrites.len() as u32,
            error,
        };
        if rewrites.is_empty() {
            self.finish_repair(repair, out);
            return;
        }
        let id = self.operations.repairs.insert(repair);
        for rewrite in rewrites {
            self.rewrite(
                id,
                read,
                &rewrite,
                columns[rewrite.column].clone(),
                now_us,
                out,
            );
        }
    }

    /// Returns columns and leaves that should have had them, and do not. Leaves that returned wrong
    /// bytes are counted.
    fn suspects(
        &mut self,
        read: &ReadOperation,
        columns: &[Pages],
        out: &mut Output,
    ) -> SmallVec<[(usize, LeafId); 4]> {
        let mut suspects = SmallVec::new();
        for (column, right) in columns.iter().enumerate() {
            for copy in read.latest(column) {
                if !copy.is_trusted || !read.is_bad(copy, right) {
                    continue;
                }
                if matches!(copy.state, CopyState::Read(_)) && !read.was_counted {
                    self.count_bad_copy(read, column, copy.leaf, out);
                }
                suspects.push((column, copy.leaf));
            }
        }
        suspects
    }

    /// Returns the copies to be overwritten, and the number of bad copies. Copies that cannot be
    /// overwritten are reported.
    fn find_damage(
        &self,
        read: &ReadOperation,
        columns: &[Pages],
        out: &mut Output,
    ) -> (SmallVec<[Rewrite; 4]>, u32) {
        let (mut rewrites, mut bad) = (SmallVec::new(), 0);
        for (column, right) in columns.iter().enumerate() {
            for copy in read.latest(column) {
                if read.is_bad(copy, right) {
                    bad += u32::from(copy.is_trusted);
                    // A leaf that could not be asked again was seen to be bad only once.
                    if copy.is_again || !copy.is_trusted {
                        rewrites.push(Rewrite {
                            leaf: copy.leaf,
                            column,
                            is_repair: copy.is_trusted,
                        });
                    }
                } else if let CopyState::Failed(_) = &copy.state
                    && read.goal == Goal::Scrub
                    && copy.is_trusted
                {
                    // The copy was bad before.
                    bad += u32::from(copy.is_again);
                    let (offset, len) = byte_range(read, column);
                    out.events.push(VdevEvent::Unrepaired {
                        leaf: copy.leaf,
                        offset,
                        len,
                        birth: read.block.birth,
                    });
                }
            }
        }
        (rewrites, bad)
    }

    /// Counts every copy that was read of a block of which none is right.
    pub(super) fn count_bad_copies(&mut self, read: &ReadOperation, out: &mut Output) {
        for (column, copies) in read.copies.iter().enumerate() {
            for copy in copies {
                if copy.is_trusted && matches!(copy.state, CopyState::Read(_)) {
                    self.count_bad_copy(read, column, copy.leaf, out);
                }
            }
        }
    }

    fn count_bad_copy(
        &mut self,
        read: &ReadOperation,
        column: usize,
        leaf: LeafId,
        out: &mut Output,
    ) {
        self.leaf_mut(leaf).errors.checksum += 1;
        let (offset, len) = byte_range(read, column);
        out.events
            .push(VdevEvent::ChecksumError { leaf, offset, len });
    }

    /// Adds the columns that a leaf is to get anew.
    fn add_rebuilt(
        &self,
        read: &ReadOperation,
        leaf: LeafId,
        rewrites: &mut SmallVec<[Rewrite; 4]>,
    ) {
        let top = &self.top_levels[usize::from(read.block.address.vdev())];
        for (column, place) in read.geometry.columns.iter().enumerate() {
            let is_planned = rewrites
                .iter()
                .any(|rewrite| rewrite.leaf == leaf && rewrite.column == column);
            if !is_planned && top.holders(place.slot).any(|holder| holder == leaf) {
                rewrites.push(Rewrite {
                    leaf,
                    column,
                    is_repair: false,
                });
            }
        }
    }

    fn rewrite(
        &mut self,
        id: u64,
        read: &ReadOperation,
        rewrite: &Rewrite,
        data: Pages,
        now_us: u64,
        out: &mut Output,
    ) {
        let (offset, len) = byte_range(read, rewrite.column);
        let waiter = Waiter {
            operation: OperationId::Repair(id),
            column: rewrite.column as u16,
            copy: u16::from(rewrite.is_repair),
        };
        // If a rebuilt block is lost before it is flushed, it is missing again, by its own epoch.
        let epoch = match read.goal {
            Goal::Rebuild(_) => read.block.birth.min(self.epoch),
            Goal::Read | Goal::Scrub => self.epoch,
        };
        let work = Work::Write {
            parts: smallvec![data],
            epoch,
            is_durable: false,
        };
        let job = Job::new(Priority::Background, (offset, len), waiter, work, now_us);
        self.submit(rewrite.leaf, job, now_us, out);
    }

    pub(in crate::vdev) fn repair_answered(&mut self, id: u64, answer: Answer, out: &mut Output) {
        let Some(repair) = self.operations.repairs.get_mut(id) else {
            return;
        };
        repair.pending -= 1;
        let is_repair = answer.waiter.copy != 0;
        match answer.outcome {
            Ok(_) if is_repair => {
                repair.found.repaired += 1;
                out.events.push(VdevEvent::Repaired {
                    leaf: answer.leaf,
                    offset: answer.offset,
                    len: answer.len,
                });
            }
            Ok(_) => {}
            Err(error) if repair.goal == Goal::Rebuild(answer.leaf) => {
                let context = format!("rebuild at byte {}", answer.offset);
                let failure = ArrayError::new(ArrayErrorKind::NotRebuilt, context);
                repair.error = Some(failure.because(Some(error)));
            }
            Err(_) if is_repair && repair.goal == Goal::Scrub => {
                out.events.push(VdevEvent::Unrepaired {
                    leaf: answer.leaf,
                    offset: answer.offset,
                    len: answer.len,
                    birth: repair.birth,
                });
            }
            Err(_) => {}
        }
        if repair.pending == 0
            && let Some(repair) = self.operations.repairs.remove(id)
        {
            self.finish_repair(repair, out);
        }
    }

    fn finish_repair(&mut self, repair: RepairOperation, out: &mut Output) {
        let done = match repair.goal {
            Goal::Read => return,
            Goal::Scrub => ArrayDone::Scrubbed(Ok(repair.found)),
            Goal::Rebuild(_) => ArrayDone::Rebuilt(repair.error.map_or(Ok(()), Err)),
        };
        self.tell(repair.asker, done, out);
    }
}

impl ReadOperation {
    /// Returns the last answer of each leaf about a column.
    fn latest(&self, column: usize) -> impl Iterator<Item = &ColumnCopy> {
        let copies = &self.copies[column];
        copies.iter().enumerate().filter_map(|(number, copy)| {
            let mut later = copies[number + 1..].iter();
            later.all(|of| of.leaf != copy.leaf).then_some(copy)
        })
    }

    /// Reports whether a copy is known to be wrong, and can be overwritten.
    fn is_bad(&self, copy: &ColumnCopy, right: &Pages) -> bool {
        match &copy.state {
            // Without a checksum a device is believed. It is not believed if it could not read the
            // copy before and now returns other bytes.
            CopyState::Read(data) => {
                (self.block.verify.is_proof() || copy.is_again) && !is_same(data, right)
            }
            CopyState::Failed(kind) => *kind == DeviceErrorKind::Medium,
            CopyState::Reading | CopyState::Slow => false,
        }
    }
}

/// Returns the place of a column on its leaves, in bytes.
fn byte_range(read: &ReadOperation, column: usize) -> (u64, u64) {
    let place = read.geometry.columns[column];
    let start = layout::sector_offset(place.sector);
    (
        start,
        layout::sector_offset(place.sector + u64::from(place.sectors)) - start,
    )
}
