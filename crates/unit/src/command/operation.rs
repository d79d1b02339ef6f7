//! Commands between their start and their end on one event loop, and their tokens. Block devices,
//! task sets, range locks and other loops name commands by these tokens.

use std::collections::VecDeque;
use std::sync::Arc;

use scsi::range_lock::Hold;
use scsi::{BlockRange, Task, TaskAttribute, WriteThrough};

pub use crate::loops::Token;
use crate::nexus::{MappedUnit, TaskEntry};
use crate::quiet_signal::QuietSignal;
use crate::timing::Stopwatch;
use crate::unit::Unit;
use block::budget::Reservation;
use block::{Pages, Request};
use model::figures::CommandKind;

/// Key of a session of this loop; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SessionKey(pub u64);

impl SessionKey {
    /// Key of no session, for an operation that outlived its command.
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
    /// Waits for its turn in the task set. The CDB is looked at only then.
    Queued {
        /// Unit, whose task set is not entered yet.
        mapped: Arc<MappedUnit>,
        /// The command.
        command: OwnedCommand,
        /// Data-out of the command, once it is in, or empty if there is none.
        data: Option<Pages>,
        /// Memory that its data-out takes.
        memory: Option<Reservation>,
        /// Whether its turn has come. Its place in the task set is then in `entry`.
        turn: bool,
    },
    /// Reads blocks for the initiator.
    Read(BlockRange),
    /// Flushes the write cache, then reads (force unit access).
    FlushedRead(BlockRange),
    /// Writes the initiator's blocks.
    Write {
        /// Blocks to write.
        range: BlockRange,
        /// Whether the write must be durable before its answer: force unit access. Once the device
        /// has the write, whether the device was told so.
        durable: bool,
        /// Bytes to write.
        data: Pages,
    },
    /// Runs a task of the device server.
    Task(TaskRun),
    /// Keeps later requests from these blocks until the writes of a lost session are over.
    Fence(Arc<Unit>, BlockRange),
    /// Makes durable what is in the write cache of a unit, which a reset switched off.
    Emptying(Arc<Unit>, WriteThrough),
    /// Waits until aborted tasks are quiet; the number tells the protocol what to answer then.
    Answer(u64),
}

/// Command kept until its turn.
#[derive(Debug)]
pub struct OwnedCommand {
    /// The CDB.
    pub cdb: Vec<u8>,
    /// Attribute of the task.
    pub attribute: TaskAttribute,
    /// Bytes of data-out offered.
    pub data_out_len: Option<u32>,
    /// Bytes of data-in accepted.
    pub data_in_len: u32,
    /// Time that the command has spent so far.
    pub stopwatch: Stopwatch,
}

impl OwnedCommand {
    /// Returns the command, as the device server takes it.
    pub fn as_command(&self) -> scsi::Command<'_> {
        scsi::Command {
            cdb: &self.cdb,
            attribute: self.attribute,
            data_out_len: self.data_out_len,
            data_in_len: self.data_in_len,
        }
    }
}

/// Task of the device server, with the requests of its current step.
#[derive(Debug)]
pub struct TaskRun {
    /// Kind of the command.
    pub kind: CommandKind,
    /// Bytes of the unit that its steps have freed, or were to free.
    pub freed: u64,
    /// Task that takes the data.
    pub task: Box<dyn Task>,
    /// Data-out of the task.
    pub data_out: Pages,
    /// Unit that the current step runs on, if it is not the command's own.
    pub on: Option<Arc<Unit>>,
    /// Requests of the current step that have not been submitted.
    pub requests: VecDeque<Request>,
    /// Answer that the current step gives.
    pub answer: Answer,
    /// Whether the current step changes blocks of the command's own unit.
    pub changes: bool,
    /// Whether the current step changes blocks that may lie in a volatile cache when it ends.
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
    /// Success alone.
    Done,
    /// Success of a save of the unit's state.
    Saved,
    /// Bytes that were read.
    Blocks,
    /// Extents of this range.
    Extents(BlockRange),
}

/// Event that an operation waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// Turn of the command in the task set.
    Turn,
    /// Range that the operation wants to hold.
    Range(BlockRange, Hold),
    /// Block device that works on it.
    Device,
    /// Quiet of other tasks.
    Quiet,
    /// Next turn of the loop, because this turn has had its share.
    NextTurn,
}

/// Command, or a task management request, in progress.
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
    /// Ranges that the operation holds.
    pub held: Vec<(Arc<Unit>, BlockRange, Hold)>,
    /// Whether the operation is aborted, so that nothing further is started for it.
    pub cancelled: bool,
    /// Whether a fence lies behind the writes that it has under way.
    pub fenced_off: bool,
    /// Bytes of data-out that the command takes by its CDB, for the residual. Set if the protocol
    /// did not know it when it collected the data.
    pub data_out_wanted: Option<u32>,
    /// Signals that fire when it is over.
    pub observers: Vec<Arc<QuietSignal>>,
}

impl Operation {
    /// Reports whether an abort only takes the operation from its session.
    pub fn outlives_its_command(&self) -> bool {
        match &self.work {
            Work::Task(run) => !self.cancelled && run.task.outlives_its_command(),
            _ => false,
        }
    }

    /// Gives back every range that the operation holds.
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
