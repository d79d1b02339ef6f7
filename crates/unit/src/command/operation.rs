//! Commands between their start and their end on one event loop, and the tokens that name them to
//! others: to block devices, task sets, range locks and other loops.

use std::collections::VecDeque;
use std::sync::Arc;

use scsi::range_lock::Hold;
use scsi::{BlockRange, Task, TaskAttribute, WriteThrough};

use super::abort::QuietSignal;
pub use crate::loops::Token;
use crate::nexus::{MappedUnit, TaskEntry};
use crate::unit::Unit;
use block::budget::Reservation;
use block::{Pages, Request};

/// A session of this loop; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SessionKey(pub u64);

impl SessionKey {
    /// No session: an operation that outlived its command.
    pub const NONE: Self = Self(u64::MAX);
}

/// Number of a task in its session, as the protocol gave it; never reused while the session lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TaskKey(pub u64);

impl TaskKey {
    /// Number of an operation that is no task.
    pub const NONE: Self = Self(u64::MAX);
}

/// Work of an operation.
#[derive(Debug)]
pub enum Work {
    /// Waits for its turn in the task set; the CDB is looked at only then.
    Queued {
        /// The unit, not entered yet.
        mapped: Arc<MappedUnit>,
        /// The command.
        command: OwnedCommand,
        /// Data-out of the command, once it is in, or empty if there is none.
        data: Option<Pages>,
        /// The memory that its data-out takes.
        memory: Option<Reservation>,
        /// Whether its turn has come: then its place in the task set is in `entry`.
        turn: bool,
    },
    /// Reads blocks for the initiator.
    Read(BlockRange),
    /// Makes durable what is in the write cache, then reads (force unit access).
    FlushedRead(BlockRange),
    /// Writes the initiator's blocks.
    Write {
        /// Blocks to write.
        range: BlockRange,
        /// Whether the write must be durable before its answer: force unit access. Once the device
        /// has the write, whether the device was told so.
        durable: bool,
        /// The bytes.
        data: Pages,
    },
    /// Runs a task of the device server.
    Task(TaskRun),
    /// Keeps what comes later from these blocks until the writes of a lost session are over.
    Fence(Arc<Unit>, BlockRange),
    /// Makes durable what is in the write cache of a unit, which a reset switched off.
    Emptying(Arc<Unit>, WriteThrough),
    /// Waits until aborted tasks are quiet; the number tells the protocol what to answer then.
    Answer(u64),
}

/// A command kept until its turn.
#[derive(Debug)]
pub struct OwnedCommand {
    /// The CDB.
    pub cdb: Vec<u8>,
    /// Attribute of the task.
    pub attribute: TaskAttribute,
    /// Data-out offered.
    pub data_out_len: Option<u32>,
    /// Data-in accepted.
    pub data_in_len: u32,
}

impl OwnedCommand {
    /// The command, as the device server takes it.
    pub fn as_command(&self) -> scsi::Command<'_> {
        scsi::Command {
            cdb: &self.cdb,
            attribute: self.attribute,
            data_out_len: self.data_out_len,
            data_in_len: self.data_in_len,
        }
    }
}

/// A task of the device server with the requests of its current step.
#[derive(Debug)]
pub struct TaskRun {
    /// The task.
    pub task: Box<dyn Task>,
    /// Data-out of the task.
    pub data_out: Pages,
    /// The unit that the current step runs on, where it is not the command's own.
    pub on: Option<Arc<Unit>>,
    /// Requests of the current step that have not been submitted.
    pub requests: VecDeque<Request>,
    /// Answer that the current step gives.
    pub answer: Answer,
    /// The current step changes blocks of the command's own unit.
    pub changes: bool,
    /// The current step changes blocks, and they may lie in a volatile cache when it ends.
    pub cached: bool,
    /// Signals that fire when the current step is over.
    pub step_observers: Vec<Arc<QuietSignal>>,
}

impl TaskRun {
    /// Adds a flush at the end of a step whose blocks went into a cache that was switched off
    /// meanwhile.
    pub fn flush_if_late(&mut self, own: &Arc<Unit>) {
        let unit = self.on.as_ref().unwrap_or(own);
        if self.requests.is_empty() && self.cached && unit.is_late(false) {
            self.cached = false;
            self.requests.push_back(Request::Flush);
        }
    }
}

/// Input that the outcome of a step's last request becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing but success.
    Done,
    /// Nothing but success, of a save of the unit's state.
    Saved,
    /// The bytes read.
    Blocks,
    /// Extents of this range.
    Extents(BlockRange),
}

/// Event that an operation waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// Turn of the command in the task set.
    Turn,
    /// The range it wants to hold.
    Range(BlockRange, Hold),
    /// A block device.
    Device,
    /// Quiet of other tasks.
    Quiet,
    /// The loop's next turn: this one has had its share.
    NextTurn,
}

/// A command, or a task management request, in progress.
#[derive(Debug)]
pub struct Operation {
    /// Session that asked.
    pub session: SessionKey,
    /// Number of the task in the session.
    pub task: TaskKey,
    /// Place in the task set; `None` while the operation waits for one.
    pub entry: Option<TaskEntry>,
    /// Work of the operation.
    pub work: Work,
    /// Event that the operation waits for.
    pub waiting: Waiting,
    /// Ranges it holds.
    pub held: Vec<(Arc<Unit>, BlockRange, Hold)>,
    /// Aborted: nothing further is started for it.
    pub cancelled: bool,
    /// Whether a fence lies behind the writes that it has under way.
    pub fenced_off: bool,
    /// Bytes of data-out that its command takes by the CDB, where the protocol was not told when it
    /// collected them: for the residual.
    pub data_out_wanted: Option<u32>,
    /// Signals that fire when it is over.
    pub observers: Vec<Arc<QuietSignal>>,
}

impl Operation {
    /// Whether an abort only takes it from its session.
    pub fn outlives_its_command(&self) -> bool {
        match &self.work {
            Work::Task(run) => !self.cancelled && run.task.outlives_its_command(),
            _ => false,
        }
    }

    /// Gives back every range it holds.
    pub fn release(&mut self) {
        for (unit, range, hold) in self.held.drain(..) {
            unit.range_lock.unlock(range, hold);
        }
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        self.release();
    }
}
