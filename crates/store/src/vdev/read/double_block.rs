//! Blocks that lie twice. The first copy that proves itself is the block, and a bad copy is
//! rewritten from it.
//!
//! Each copy is read by an operation of its own, as a block that lies there alone. So a copy may be
//! on any kind of vdev, and finds the right bytes among columns and leaves itself. The other copy
//! counts only if all of that fails. Both places are watched from beginning to end. A place that
//! was freed and used again meanwhile is never overwritten with bytes of the former block.

use std::collections::VecDeque;

use pages::Pages;

use super::{Asker, Goal, Order};
use crate::format::Address;
use crate::vdev::Array;
use crate::vdev::block::Block;
use crate::vdev::job::Priority;
use crate::vdev::output::{ArrayDone, ArrayError, ArrayErrorKind, Output, Scrubbed};
use crate::vdev::write_watches::Watch;

/// A read of a block that lies twice.
#[derive(Debug)]
pub(in crate::vdev) struct DoubleOperation {
    tag: u64,
    block: Block,
    goal: Goal,
    priority: Priority,
    copies: [Place; 2],
    /// Number of operations on copies that have not ended.
    pending: u32,
    found: Scrubbed,
    /// Reason why the block was not found in a copy, or not rebuilt.
    error: Option<ArrayError>,
}

/// Place of a copy.
#[derive(Debug)]
struct Place {
    address: Address,
    watch: Watch,
    state: CopiesState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CopiesState {
    Untried,
    /// The operation was asked for the copy's bytes.
    Asked,
    /// The copy is not the block.
    Failed,
}

/// Results of operations on copies: number of the operation, number of its copy, and the result.
pub(in crate::vdev) type News = VecDeque<(u64, usize, ArrayDone)>;

impl Array {
    /// Tells the asker how an operation on a block ended.
    pub(super) fn tell(&mut self, asker: Asker, done: ArrayDone, out: &mut Output) {
        match asker {
            Asker::Caller(tag) => out.done.push((tag, done)),
            Asker::Double { id, copy } => self.double_news.push_back((id, copy, done)),
            Asker::Nobody => {}
        }
    }

    /// Starts an operation on a block that lies twice, the second time at `second`.
    pub(super) fn start_double(
        &mut self,
        (tag, block, second): (u64, Block, Address),
        priority: Priority,
        goal: Goal,
        now_us: u64,
        out: &mut Output,
    ) {
        let mut place = |address: Address| {
            let sectors = self.footprint(address.vdev(), block.sectors);
            Place {
                address,
                watch: self.watches.watch(address, sectors),
                state: CopiesState::Untried,
            }
        };
        let copies = [place(block.address), place(second)];
        let operation = Box::new(DoubleOperation {
            tag,
            block,
            goal,
            priority,
            copies,
            pending: 0,
            found: Scrubbed::default(),
            error: None,
        });
        let id = self.operations.doubles.insert(operation);
        self.try_next_copy(id, now_us, out);
        self.settle(now_us, out);
    }

    /// Takes the news that an operation on a copy has ended, or found the block.
    pub(in crate::vdev) fn double_told(
        &mut self,
        (id, copy, done): (u64, usize, ArrayDone),
        now_us: u64,
        out: &mut Output,
    ) {
        let Some(double) = self.operations.doubles.get_mut(id) else {
            return;
        };
        let goal = double.goal;
        let error = match done {
            ArrayDone::Read(Ok(payload)) => {
                if goal != Goal::Scrub {
                    double.pending -= 1;
                }
                return self.found_copy(id, copy, &payload, now_us, out);
            }
            ArrayDone::Scrubbed(Ok(found)) => {
                // The block was found, or is not there any more.
                double.error = None;
                double.found.bad += found.bad;
                double.found.repaired += found.repaired;
                double.pending -= 1;
                return self.end_double(id, out);
            }
            ArrayDone::Rebuilt(result) => {
                double.error = result.err().or(double.error.take());
                double.pending -= 1;
                return self.end_double(id, out);
            }
            ArrayDone::Read(Err(error)) | ArrayDone::Scrubbed(Err(error)) => error,
            ArrayDone::Written(_) | ArrayDone::Flushed(_) | ArrayDone::Trimmed(_) => return,
        };
        double.pending -= 1;
        double.copies[copy].state = CopiesState::Failed;
        let is_over = error.kind == ArrayErrorKind::Overwritten;
        double.error = Some(match double.error.take() {
            Some(before) if !is_over => graver(before, error),
            _ => error,
        });
        let has_more = double
            .copies
            .iter()
            .any(|of| of.state == CopiesState::Untried);
        match has_more && !is_over {
            true => self.try_next_copy(id, now_us, out),
            false => self.end_double(id, out),
        }
    }

    /// Asks the next copy for the block's bytes.
    fn try_next_copy(&mut self, id: u64, now_us: u64, out: &mut Output) {
        let Some(double) = self.operations.doubles.get_mut(id) else {
            return;
        };
        let untried = double
            .copies
            .iter()
            .position(|of| of.state == CopiesState::Untried);
        let Some(copy) = untried else {
            return;
        };
        double.copies[copy].state = CopiesState::Asked;
        double.pending += 1;
        let goal = match double.goal {
            Goal::Scrub => Goal::Scrub,
            Goal::Read | Goal::Rebuild(_) => Goal::Read,
        };
        let order = Order {
            asker: Asker::Double { id, copy },
            block: double.block.copy_at(double.copies[copy].address),
            priority: double.priority,
            goal,
            known: None,
            was_counted: false,
        };
        if self.watches.is_untouched(&double.copies[copy].watch) {
            self.begin_read(order, now_us, out);
        } else {
            let done = goal.overwritten(&order.block);
            self.tell(order.asker, done, out);
        }
    }

    /// Takes the block from a right copy, and makes the other copies right, too.
    fn found_copy(&mut self, id: u64, copy: usize, payload: &Pages, now_us: u64, out: &mut Output) {
        let Some(double) = self.operations.doubles.get_mut(id) else {
            return;
        };
        double.error = None;
        let (tag, goal) = (double.tag, double.goal);
        let wanted = double
            .copies
            .iter()
            .enumerate()
            .filter(|(number, of)| match goal {
                Goal::Read => of.state == CopiesState::Failed,
                Goal::Scrub => *number != copy,
                Goal::Rebuild(_) => true,
            });
        let wanted: Vec<(usize, Block, bool)> = wanted
            .map(|(number, of)| {
                let block = double.block.copy_at(of.address);
                (number, block, of.state == CopiesState::Failed)
            })
            .collect();
        for (number, block, has_failed) in wanted {
            let is_kept = match goal {
                Goal::Read => self.heals,
                Goal::Scrub => true,
                Goal::Rebuild(leaf) => self.holds(leaf, &block),
            };
            let Some(double) = self.operations.doubles.get_mut(id) else {
                return;
            };
            if !is_kept || !self.watches.is_untouched(&double.copies[number].watch) {
                continue;
            }
            let asker = match goal {
                Goal::Read => Asker::Nobody,
                Goal::Scrub | Goal::Rebuild(_) => {
                    double.pending += 1;
                    Asker::Double { id, copy: number }
                }
            };
            let order = Order {
                asker,
                was_counted: has_failed && !self.has_parity(&block),
                block,
                priority: Priority::Background,
                goal: match goal {
                    Goal::Read => Goal::Scrub,
                    Goal::Scrub | Goal::Rebuild(_) => goal,
                },
                known: Some(payload.clone()),
            };
            self.begin_read(order, now_us, out);
        }
        if goal == Goal::Read {
            out.done.push((tag, ArrayDone::Read(Ok(payload.clone()))));
        }
        self.end_double(id, out);
    }

    /// Ends the operation if nothing is under way for it any more.
    fn end_double(&mut self, id: u64, out: &mut Output) {
        let double = self.operations.doubles.get_mut(id);
        if double.is_none_or(|double| double.pending > 0) {
            return;
        }
        let Some(double) = self.operations.doubles.remove(id) else {
            return;
        };
        for copy in &double.copies {
            self.watches.forget(&copy.watch);
        }
        let done = match (double.error, double.goal) {
            (Some(error), goal) if error.kind == ArrayErrorKind::Overwritten => {
                goal.overwritten(&double.block)
            }
            (Some(error), goal) => {
                let vdev = usize::from(double.block.address.vdev());
                if error.kind != ArrayErrorKind::NotRebuilt
                    && let Some(top) = self.top_levels.get_mut(vdev)
                {
                    top.unreadable += 1;
                }
                goal.failed(error)
            }
            // The asker has its answer.
            (None, Goal::Read) => return,
            (None, Goal::Scrub) => ArrayDone::Scrubbed(Ok(double.found)),
            (None, Goal::Rebuild(_)) => ArrayDone::Rebuilt(Ok(())),
        };
        out.done.push((double.tag, done));
    }

    /// Reports whether a block there is cut into columns with parity. Only the block itself shows
    /// which column is wrong.
    fn has_parity(&self, block: &Block) -> bool {
        let located = self.locate(block.address, block.sectors);
        located.is_some_and(|(_, geometry)| geometry.parity > 0)
    }
}

/// Returns the more important of two reasons why a block was not found: the one that may pass. If a
/// device may come back with the block, the error must not say that the block does not exist.
fn graver(first: ArrayError, second: ArrayError) -> ArrayError {
    let rank = |error: &ArrayError| match error.kind {
        ArrayErrorKind::OutOfRange => 0,
        ArrayErrorKind::Checksum => 1,
        ArrayErrorKind::Medium => 2,
        ArrayErrorKind::Undecided => 3,
        ArrayErrorKind::Lost | ArrayErrorKind::NotRebuilt => 4,
        ArrayErrorKind::Device => 5,
        ArrayErrorKind::Unavailable => 6,
        ArrayErrorKind::Overwritten => 7,
    };
    match rank(&second) > rank(&first) {
        true => second,
        false => first,
    }
}
