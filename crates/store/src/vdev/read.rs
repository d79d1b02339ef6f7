//! The read of a block: from the copies that should be good, then from those that may be, until the
//! bytes prove themselves.

pub(super) mod double_block;
mod heal;
pub(super) mod repair;

use pages::{PAGE_SIZE, Pages};
use smallvec::SmallVec;

use super::Array;
use super::block::{Block, Verify};
use super::device::{DeviceError, DeviceErrorKind, LeafId};
use super::geometry::Geometry;
use super::job::{Answer, Job, OperationId, Priority, Waiter, Work};
use super::layout;
use super::output::{ArrayDone, ArrayError, ArrayErrorKind, Output, Scrubbed, sectors_at};
use super::write_watches::Watch;

/// Receiver of an operation's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asker {
    /// The caller, by its tag.
    Caller(u64),
    /// The operation on a block that lies twice. The answer is of one of its copies.
    Double { id: u64, copy: usize },
    /// Nobody: the answer is dropped.
    Nobody,
}

/// Order to read a block, with its goal.
#[derive(Debug)]
struct Order {
    asker: Asker,
    /// Block to read, in one place only.
    block: Block,
    priority: Priority,
    goal: Goal,
    /// Bytes of the block, if they were found in another place.
    known: Option<Pages>,
    /// Whether wrong bytes of the block were counted already.
    was_counted: bool,
}

/// A read of a block.
#[derive(Debug)]
pub(super) struct ReadOperation {
    asker: Asker,
    block: Block,
    goal: Goal,
    priority: Priority,
    geometry: Geometry,
    /// Requests of each column, with the leaves that were asked.
    copies: SmallVec<[SmallVec<[ColumnCopy; 1]>; 1]>,
    round: Round,
    /// Number of requests that are worth waiting for.
    waiting: u32,
    /// Number of requests that take long.
    slow: u32,
    /// Watch that tells whether the block's place was written while it was read.
    watch: Watch,
    /// Last error of a device.
    error: Option<DeviceError>,
    /// Whether there are more choices of columns than may be tried.
    has_untried: bool,
    /// Bytes of the block, in the last round.
    payload: Pages,
    /// Bytes of the block, if they were found in another place: [`Order`].
    known: Option<Pages>,
    was_counted: bool,
}

/// Goal of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Goal {
    /// The caller wants the block's bytes.
    Read,
    /// All copies are to be verified, and repaired if they are bad twice.
    Scrub,
    /// The leaf's part of the block is to be written there.
    Rebuild(LeafId),
}

/// Round of a read: the leaves that were asked so far. Each round asks more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Round {
    Start,
    /// Fewest leaves that suffice when all goes well.
    Best,
    /// All leaves that should have the block.
    Trusted,
    /// All leaves that missed the block too: the checksum tells whether they still have it.
    All,
    /// All leaves were asked.
    Exhausted,
    /// The block was found, and bad copies are read once more. The read does not wait for its other
    /// requests.
    Again,
}

/// A copy of a column on one leaf.
#[derive(Debug)]
struct ColumnCopy {
    leaf: LeafId,
    /// Whether the leaf missed nothing of the block's epoch.
    is_trusted: bool,
    /// Whether the copy was asked for in the last round, since it was bad before.
    is_again: bool,
    state: CopyState,
}

#[derive(Debug)]
enum CopyState {
    Reading,
    /// The leaf is still reading, but takes long.
    Slow,
    Read(Pages),
    Failed(DeviceErrorKind),
}

impl Goal {
    /// Returns the answer for a failed read.
    fn failed(self, error: ArrayError) -> ArrayDone {
        match self {
            Self::Read => ArrayDone::Read(Err(error)),
            Self::Scrub => ArrayDone::Scrubbed(Err(error)),
            Self::Rebuild(_) => ArrayDone::Rebuilt(Err(error)),
        }
    }

    /// Returns the answer for a read whose place was overwritten: nothing of the block is left to
    /// verify or rebuild.
    fn overwritten(self, block: &Block) -> ArrayDone {
        match self {
            Self::Read => {
                let context = sectors_at(block.sectors.into(), block.address);
                let error = ArrayError::new(ArrayErrorKind::Overwritten, context);
                ArrayDone::Read(Err(error))
            }
            Self::Scrub => ArrayDone::Scrubbed(Ok(Scrubbed::default())),
            Self::Rebuild(_) => ArrayDone::Rebuilt(Ok(())),
        }
    }
}

impl Array {
    /// Reads a block. Its bytes come as [`ArrayDone::Read`], and only when they are proven right.
    /// Copies that were found bad on the way are counted, and rewritten if they are bad twice.
    pub fn read(
        &mut self,
        tag: u64,
        block: Block,
        priority: Priority,
        now_us: u64,
        out: &mut Output,
    ) {
        self.start_read(tag, block, priority, Goal::Read, now_us, out);
    }

    /// Reads and verifies *every* copy and column of a block, parity too, and rewrites those that
    /// are bad twice. [`ArrayDone::Scrubbed`] tells how many. Without a proof ([`Block::verify`]),
    /// only errors that a device itself reports are found.
    pub fn scrub_block(&mut self, tag: u64, block: Block, now_us: u64, out: &mut Output) {
        self.start_read(tag, block, Priority::Background, Goal::Scrub, now_us, out);
    }

    /// Reads a block from the other leaves and writes this leaf's part of it.
    /// [`ArrayDone::Rebuilt`] comes when the part is written, or when nothing of the block belongs
    /// there. If the leaf does not take the part, the error is [`ArrayErrorKind::NotRebuilt`].
    /// Every other error is the block's own.
    pub fn rebuild_block(
        &mut self,
        tag: u64,
        block: Block,
        leaf: LeafId,
        now_us: u64,
        out: &mut Output,
    ) {
        let goal = Goal::Rebuild(leaf);
        if block.second.is_none() && self.is_elsewhere(leaf, &block) {
            out.done.push((tag, ArrayDone::Rebuilt(Ok(()))));
            return;
        }
        self.start_read(tag, block, Priority::Background, goal, now_us, out);
    }

    /// Reports whether a block lies in the array, and nothing of it on a leaf.
    fn is_elsewhere(&self, leaf: LeafId, block: &Block) -> bool {
        let located = self.locate(block.address, block.sectors);
        located.is_some() && !self.holds(leaf, block)
    }

    /// Reports whether a leaf has a part of a block that lies there.
    fn holds(&self, leaf: LeafId, block: &Block) -> bool {
        let Some((top, geometry)) = self.locate(block.address, block.sectors) else {
            return false;
        };
        let mut columns = geometry.columns.iter();
        columns.any(|column| top.holders(column.slot).any(|holder| holder == leaf))
    }

    fn start_read(
        &mut self,
        tag: u64,
        block: Block,
        priority: Priority,
        goal: Goal,
        now_us: u64,
        out: &mut Output,
    ) {
        if let Some(second) = block.second {
            let twice = (tag, block, second);
            return self.start_double(twice, priority, goal, now_us, out);
        }
        let order = Order {
            asker: Asker::Caller(tag),
            block,
            priority,
            goal,
            known: None,
            was_counted: false,
        };
        self.begin_read(order, now_us, out);
        self.settle(now_us, out);
    }

    /// Begins to read a block in one place.
    fn begin_read(&mut self, order: Order, now_us: u64, out: &mut Output) {
        let Order {
            asker,
            block,
            priority,
            goal,
            known,
            was_counted,
        } = order;
        let Some((_, geometry)) = self.locate(block.address, block.sectors) else {
            let error = ArrayError::outside(block.address, block.sectors);
            return self.tell(asker, goal.failed(error), out);
        };
        let sectors = self.footprint(block.address.vdev(), block.sectors);
        let watch = self.watches.watch(block.address, sectors);
        let operation = Box::new(ReadOperation {
            asker,
            block,
            goal,
            priority,
            copies: geometry.columns.iter().map(|_| SmallVec::new()).collect(),
            geometry,
            round: Round::Start,
            waiting: 0,
            slow: 0,
            watch,
            error: None,
            has_untried: false,
            payload: Pages::new(),
            known,
            was_counted,
        });
        // The number comes first: requests are sent in its name.
        let id = self.operations.reads.insert(operation);
        self.resume_read(id, now_us, out);
    }

    /// Takes a leaf's answer to a read of one column.
    pub(super) fn read_answered(&mut self, id: u64, answer: Answer, now_us: u64, out: &mut Output) {
        let Some(read) = self.operations.reads.get_mut(id) else {
            return;
        };
        let round = read.round;
        let copy = read.copy_of(answer.waiter);
        if round == Round::Again && !copy.is_again {
            return;
        }
        let was_slow = match copy.state {
            CopyState::Reading => false,
            CopyState::Slow => true,
            CopyState::Read(_) | CopyState::Failed(_) => return,
        };
        match answer.outcome {
            Ok(data) => copy.state = CopyState::Read(data),
            Err(error) => {
                copy.state = CopyState::Failed(error.kind);
                read.error = Some(error);
            }
        }
        match was_slow {
            false => read.waiting -= 1,
            true => read.slow -= 1,
        }
        // A late answer may be the missing one.
        if read.waiting == 0 || read.round >= Round::Trusted {
            self.resume_read(id, now_us, out);
        }
    }

    /// Notes that a column takes long. Other leaves are asked as if it had failed, and it may still
    /// come first.
    pub(super) fn read_is_slow(&mut self, waiter: Waiter, now_us: u64, out: &mut Output) {
        // Nothing else can be asked for in another place.
        let OperationId::Read(id) = waiter.operation else {
            return;
        };
        let Some(read) = self.operations.reads.get_mut(id) else {
            return;
        };
        let round = read.round;
        let copy = read.copy_of(waiter);
        if matches!(copy.state, CopyState::Reading) && (round != Round::Again || copy.is_again) {
            copy.state = CopyState::Slow;
            read.waiting -= 1;
            read.slow += 1;
            if read.waiting == 0 {
                self.resume_read(id, now_us, out);
            }
        }
    }

    /// Goes on with a read: the block is good, or more leaves are asked, or the read has failed.
    fn resume_read(&mut self, id: u64, now_us: u64, out: &mut Output) {
        let Some(mut read) = self.operations.reads.borrow(id) else {
            return;
        };
        if read.round == Round::Again {
            if read.waiting > 0 {
                self.operations.reads.put_back(id, read);
                return;
            }
            self.operations.reads.release(id);
            self.looked_again(&read, now_us, out);
            return;
        }
        loop {
            // The first good copy of a mirror suffices. Columns are judged together. A scrub judges
            // all that it asked for.
            let is_ripe = match read.goal {
                Goal::Read => read.waiting == 0 || read.copies.len() == 1,
                Goal::Rebuild(_) => read.waiting == 0,
                Goal::Scrub => read.waiting + read.slow == 0,
            };
            // If the bytes are known, only a scrub has anything to read.
            let is_begun = read.known.is_some() && read.goal != Goal::Scrub;
            if (is_begun || read.round > Round::Start) && is_ripe {
                let mut budget = self.limits.combinations;
                let known = read.known.clone();
                if let Some(payload) = known.or_else(|| read.assemble(&mut budget)) {
                    match self.read_succeeded(id, &mut read, payload, now_us, out) {
                        true => self.operations.reads.put_back(id, read),
                        false => self.operations.reads.release(id),
                    }
                    return;
                }
                read.has_untried = budget == 0;
            }
            if read.waiting > 0 || (read.round == Round::Exhausted && read.slow > 0) {
                self.operations.reads.put_back(id, read);
                return;
            }
            if read.round == Round::Exhausted && !self.has_unasked(&read) {
                self.operations.reads.release(id);
                self.read_failed(&read, out);
                return;
            }
            if read.round == Round::Exhausted {
                read.round = Round::Best;
            }
            self.ask_more(id, &mut read, now_us, out);
        }
    }

    /// Starts the next round of requests.
    fn ask_more(&mut self, id: u64, read: &mut ReadOperation, now_us: u64, out: &mut Output) {
        let is_proven = read.block.verify.is_proof();
        let is_record = read.is_sought();
        read.round = match (read.round, read.goal) {
            // If the leaves that should have the record say that there is none, others can only
            // have one of another past.
            (Round::Trusted, _) if is_record && self.is_told(read) => Round::Exhausted,
            (Round::Start, Goal::Read | Goal::Rebuild(_)) => Round::Best,
            (Round::Start, Goal::Scrub) | (Round::Trusted, _) if is_proven => Round::All,
            (Round::Start | Round::Best, _) => Round::Trusted,
            (Round::Trusted | Round::All | Round::Exhausted | Round::Again, _) => Round::Exhausted,
        };
        match read.round {
            Round::Best => self.ask_best(id, read, now_us, out),
            Round::Trusted => self.ask_all(id, read, false, now_us, out),
            Round::All => self.ask_all(id, read, true, now_us, out),
            Round::Start | Round::Exhausted | Round::Again => {}
        }
    }

    /// Asks for one good copy of each data column, and for a parity column in place of each data
    /// column that has none.
    fn ask_best(&mut self, id: u64, read: &mut ReadOperation, now_us: u64, out: &mut Output) {
        let parity = read.geometry.parity;
        let mut lacking = 0;
        for column in (parity..read.copies.len()).chain(0..parity) {
            let is_data = column >= parity;
            if !is_data && lacking == 0 {
                break;
            }
            match self.best_holder(read, column) {
                Some(leaf) => {
                    lacking -= usize::from(!is_data);
                    self.ask(id, read, column, leaf, true, now_us, out);
                }
                None => lacking += usize::from(is_data),
            }
        }
    }

    /// Returns the least busy leaf that should have a column.
    fn best_holder(&self, read: &ReadOperation, column: usize) -> Option<LeafId> {
        /// Number of sectors after which the next of equally good leaves is asked. Sequences stay
        /// sequential so.
        const STRIDE_SECTORS: u64 = 256;
        let place = read.geometry.columns[column];
        let top = &self.top_levels[usize::from(read.block.address.vdev())];
        let count = top.holders(place.slot).count() as u64;
        let offset = layout::sector_offset(place.sector);
        top.holders(place.slot)
            .filter(|leaf| self.is_trusted(read, *leaf))
            .min_by_key(|id| {
                let leaf = self.leaf(*id);
                let turn = (u64::from(id.0) + place.sector / STRIDE_SECTORS) % count;
                (leaf.queue.busy(), leaf.read_until != offset, turn)
            })
    }

    /// Reports whether a leaf should have its part of the block.
    fn is_trusted(&self, read: &ReadOperation, leaf: LeafId) -> bool {
        let state = self.leaf(leaf);
        let birth = read.block.birth;
        let may_lack = match read.block.verify {
            Verify::Record(_) => state.misses_since(birth),
            Verify::None | Verify::Checksum { .. } => state.misses(birth),
        };
        state.is_usable() && !may_lack && read.goal != Goal::Rebuild(leaf)
    }

    /// Reports whether a leaf should have a part of the block and was not asked for it. When the
    /// others were asked, the leaf did not have its part yet, or was away. Since then, those others
    /// may have been dismissed, because the leaf has all that they had.
    fn has_unasked(&self, read: &ReadOperation) -> bool {
        let top = &self.top_levels[usize::from(read.block.address.vdev())];
        let columns = read.geometry.columns.iter().zip(&read.copies);
        columns.into_iter().any(|(place, copies)| {
            // Requests to a leaf before it had its part do not count.
            let asked = |leaf: LeafId| {
                copies
                    .iter()
                    .any(|copy| copy.leaf == leaf && copy.is_trusted)
            };
            let mut holders = top.holders(place.slot);
            holders.any(|leaf| self.is_trusted(read, leaf) && !asked(leaf))
        })
    }

    /// Asks for all copies that were not asked for yet.
    fn ask_all(
        &mut self,
        id: u64,
        read: &mut ReadOperation,
        also_untrusted: bool,
        now_us: u64,
        out: &mut Output,
    ) {
        for column in 0..read.copies.len() {
            let slot = read.geometry.columns[column].slot;
            let top = &self.top_levels[usize::from(read.block.address.vdev())];
            let holders: SmallVec<[LeafId; 4]> = top
                .holders(slot)
                .filter(|leaf| self.leaf(*leaf).is_usable())
                .filter(|leaf| {
                    let may_have_more = self.is_trusted(read, *leaf);
                    let mut copies = read.copies[column].iter();
                    copies.all(|copy| copy.leaf != *leaf || !copy.is_trusted && may_have_more)
                })
                .collect();
            for leaf in holders {
                let is_trusted = self.is_trusted(read, leaf);
                if is_trusted || also_untrusted {
                    self.ask(id, read, column, leaf, is_trusted, now_us, out);
                }
            }
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn ask(
        &mut self,
        id: u64,
        read: &mut ReadOperation,
        column: usize,
        leaf: LeafId,
        is_trusted: bool,
        now_us: u64,
        out: &mut Output,
    ) {
        let copies = &mut read.copies[column];
        let waiter = Waiter {
            operation: OperationId::Read(id),
            column: column as u16,
            copy: copies.len() as u16,
        };
        copies.push(ColumnCopy {
            leaf,
            is_trusted,
            is_again: read.round == Round::Again,
            state: CopyState::Reading,
        });
        read.waiting += 1;
        let place = read.geometry.columns[column];
        let range = (
            layout::sector_offset(place.sector),
            u64::from(place.sectors) * PAGE_SIZE as u64,
        );
        let job = Job::new(read.priority, range, waiter, Work::Read, now_us);
        self.leaf_mut(leaf).read_until = job.offset + job.len;
        self.submit(leaf, job, now_us, out);
    }

    /// Reports whether devices cannot read more columns than parity replaces. Then the block is
    /// lost: no leaf that comes back will have them.
    fn is_unreadable(&self, read: &ReadOperation) -> bool {
        let top = &self.top_levels[usize::from(read.block.address.vdev())];
        let says_so = |copy: &ColumnCopy| match copy.state {
            CopyState::Failed(kind) => kind == DeviceErrorKind::Medium,
            _ => false,
        };
        let columns = read.geometry.columns.iter().zip(&read.copies);
        let unreadable = columns.filter(|(column, copies)| {
            copies.len() >= top.holders(column.slot).count() && copies.iter().all(says_so)
        });
        unreadable.count() > read.geometry.parity
    }

    /// Reports whether enough leaves were read to say that the block does not exist.
    ///
    /// An acknowledged block lies on every leaf of its vdev except those that missed it, which the
    /// labels know. A leaf that fails is noted in the labels before anything that it lacks is
    /// acknowledged. Up to `parity` columns may be lost or unreadable now, and all copies of a
    /// mirror but one. The rest had the block if it ever existed. The answer of a leaf that missed
    /// the block's epoch does not count: the leaf that has the block may be the one that cannot be
    /// read. Once every leaf was read, no other can have it: the only leaf of a vdev misses the
    /// epochs of writes that failed because it was away, and nobody was promised those.
    fn is_told(&self, read: &ReadOperation) -> bool {
        let was_read = |copy: &ColumnCopy| matches!(copy.state, CopyState::Read(_));
        let tells = |copy: &ColumnCopy| copy.is_trusted && was_read(copy);
        let untold = read.copies.iter().filter(|it| !it.iter().any(tells));
        if untold.count() <= read.geometry.parity {
            return true;
        }
        let top = &self.top_levels[usize::from(read.block.address.vdev())];
        let mut columns = read.geometry.columns.iter().zip(&read.copies);
        columns.all(|(place, copies)| {
            let has_read = |leaf| {
                copies
                    .iter()
                    .any(|copy| copy.leaf == leaf && was_read(copy))
            };
            top.holders(place.slot).all(has_read)
        })
    }

    fn read_failed(&mut self, read: &ReadOperation, out: &mut Output) {
        let is_current = self.watches.is_untouched(&read.watch);
        self.watches.forget(&read.watch);
        // A record that is sought may never have been there.
        if !is_current && !read.is_sought() {
            let done = read.goal.overwritten(&read.block);
            return self.tell(read.asker, done, out);
        }
        let states = || read.copies.iter().flatten().map(|copy| &copy.state);
        let was_read = states().any(|state| matches!(state, CopyState::Read(_)));
        let is_told = self.is_told(read);
        let kind = if is_told && read.has_untried {
            ArrayErrorKind::Undecided
        } else if is_told {
            ArrayErrorKind::Checksum
        } else if self.is_unreadable(read) {
            ArrayErrorKind::Medium
        } else if read.error.is_some() {
            ArrayErrorKind::Device
        } else {
            ArrayErrorKind::Unavailable
        };
        if let Asker::Caller(_) = read.asker {
            self.top_levels[usize::from(read.block.address.vdev())].unreadable += 1;
        }
        // A single leaf is known to have been wrong. Among columns, the wrong one is not known.
        if was_read && read.geometry.parity == 0 {
            self.count_bad_copies(read, out);
        }
        let context = sectors_at(read.block.sectors.into(), read.block.address);
        let error = ArrayError::new(kind, context).because(read.error.clone());
        self.tell(read.asker, read.goal.failed(error), out);
    }
}

impl ReadOperation {
    fn copy_of(&mut self, waiter: Waiter) -> &mut ColumnCopy {
        &mut self.copies[usize::from(waiter.column)][usize::from(waiter.copy)]
    }

    /// Reports whether a request is for a copy that was bad before, and is read once more.
    pub(super) fn looks_again(&mut self, waiter: Waiter) -> bool {
        self.copy_of(waiter).is_again
    }

    /// Reports whether the block is a record of the log that may lie there, of whichever past.
    fn is_sought(&self) -> bool {
        matches!(self.block.verify, Verify::Record(_))
    }
}
