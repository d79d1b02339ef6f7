//! Core of an event loop that runs SCSI commands: from the device server's decision over block
//! requests to the end. It knows no socket and no protocol. A command that is more than a read or a
//! write is a task, and `task_run.rs` runs it.
//!
//! # The life of a write
//! The protocol's router admits it and collects its data. [`Core::write`] asks the gates again,
//! shares the range, and submits the request: durable if FUA is set or the unit's write cache is
//! off. GOOD is the answer only when the device has said so. If the cache was switched off
//! meanwhile, a flush comes first ([`crate::unit::Unit::is_late`]).

use std::sync::Arc;

use scsi::BlockRange;
use scsi::range_lock::Hold;

use super::abort::{self, AbortOrder};
use super::ended::{Data, Ended};
use super::operation::{Operation, SessionKey, TaskKey, TaskRun, Token, Waiting, Work};
use super::operations::Operations;
use super::peers::Peers;
use super::step_requests::scsi_error;
use super::turn::Turn;
use crate::drain::{DrainOrder, Whose};
use crate::nexus::TaskEntry;
use crate::quiet_signal::QuietSignal;
use crate::timing::{LoopClock, Receipt};
use block::lane::Outcome;
use block::{Done, Lane, Pages, Request, Submitted, Ticket};
use model::figures::{CommandKind, CommandStage};

/// Progress of an operation.
#[derive(Debug)]
pub enum Progress {
    /// The operation has ended.
    Done(Ended),
    /// The operation waits, in the table.
    Pending,
}

/// Runs the commands of one event loop.
#[derive(Debug)]
pub struct Core<S: Peers> {
    /// Number of the loop.
    pub index: usize,
    /// Loops of the protocol together.
    pub shared: Arc<S>,
    /// Access to block devices.
    pub lane: Lane,
    /// Commands in progress.
    pub operations: Operations,
    /// Abort orders that this loop must carry out itself, at the end of the current turn.
    pub orders: Vec<Arc<AbortOrder<S::Function>>>,
    /// Work that devices do at once for tasks in the current turn.
    pub turn: Turn,
    /// Clock of the loop.
    pub clock: LoopClock,
}

impl<S: Peers> Core<S> {
    /// Reads blocks for the initiator. With `fua`, blocks in a volatile cache are made durable
    /// first (SBC-4, READ): no initiator may see data that could still be lost.
    #[inline]
    pub fn read(
        &mut self,
        session: SessionKey,
        task: TaskKey,
        mut entry: TaskEntry,
        range: BlockRange,
        fua: bool,
    ) -> Progress {
        let unit = &entry.mapped.unit;
        let (offset, len) = unit.bytes(range);
        if len == 0 {
            return Progress::Done(Ended::good(None));
        }
        if fua && unit.logical.may_hold_volatile() {
            return self.flushed_read(session, task, entry, range);
        }
        let token = self.operations.next_token();
        let request = Request::Read {
            offset,
            len: len as u32,
        };
        let now = self.clock.now();
        entry.stopwatch.turn_to(CommandStage::Device, now);
        match unit
            .device
            .submit(request, Ticket::new(token.0), &mut self.lane)
        {
            Submitted::Ready(Ok(Done::Pages(pages))) => {
                unit.logical
                    .statistics()
                    .add_read(self.index, range.count.0);
                let receipt = entry.receipt(CommandKind::Read, len, now);
                let data = Data::Pages(pages, entry.memory.take());
                Progress::Done(Ended::good(Some(data)).with_receipt(receipt))
            }
            Submitted::Ready(outcome) => {
                let completion = self.end_of_transfer(&mut entry, outcome);
                self.note_end(
                    session,
                    task,
                    &entry.mapped,
                    &completion,
                    CommandKind::Read,
                    len,
                );
                Progress::Done(completion)
            }
            Submitted::Pending => {
                self.park(session, task, entry, Work::Read(range), Waiting::Device);
                Progress::Pending
            }
        }
    }

    #[cold]
    fn flushed_read(
        &mut self,
        session: SessionKey,
        task: TaskKey,
        mut entry: TaskEntry,
        range: BlockRange,
    ) -> Progress {
        entry
            .stopwatch
            .turn_to(CommandStage::Device, self.clock.now());
        let unit = &entry.mapped.unit;
        let token = self.operations.next_token();
        match (unit.device).submit(Request::Flush, Ticket::new(token.0), &mut self.lane) {
            Submitted::Ready(Ok(_)) => self.read(session, task, entry, range, false),
            Submitted::Ready(outcome) => {
                let completion = self.end_of_transfer(&mut entry, outcome);
                let (_, len) = entry.mapped.unit.bytes(range);
                self.note_end(
                    session,
                    task,
                    &entry.mapped,
                    &completion,
                    CommandKind::Read,
                    len,
                );
                Progress::Done(completion)
            }
            Submitted::Pending => {
                let work = Work::FlushedRead(range);
                self.park(session, task, entry, work, Waiting::Device);
                Progress::Pending
            }
        }
    }

    /// Writes the initiator's blocks.
    #[inline]
    pub fn write(
        &mut self,
        session: SessionKey,
        task: TaskKey,
        entry: TaskEntry,
        range: BlockRange,
        fua: bool,
        data: Pages,
    ) -> Progress {
        if range.is_empty() {
            return Progress::Done(Ended::good(None));
        }
        let unit = &entry.mapped.unit;
        let token = self.operations.next_token();
        if unit.range_lock.lock(range, Hold::Shared, token.0) {
            return self.write_locked(session, task, entry, range, fua, data);
        }
        self.park(
            session,
            task,
            entry,
            Work::Write {
                range,
                durable: fua,
                data,
            },
            Waiting::Range(range, Hold::Shared),
        );
        Progress::Pending
    }

    /// Writes the initiator's blocks, holding the range.
    #[inline]
    fn write_locked(
        &mut self,
        session: SessionKey,
        task: TaskKey,
        mut entry: TaskEntry,
        range: BlockRange,
        fua: bool,
        data: Pages,
    ) -> Progress {
        let unit = &entry.mapped.unit;
        if let Err(response) = entry.mapped.itl.may_still_run(true) {
            unit.range_lock.unlock(range, Hold::Shared);
            let completion = Ended::from(response);
            let (_, len) = unit.bytes(range);
            self.note_end(
                session,
                task,
                &entry.mapped,
                &completion,
                CommandKind::Write,
                len,
            );
            return Progress::Done(completion);
        }
        let (offset, len) = unit.bytes(range);
        let now = self.clock.now();
        entry.stopwatch.turn_to(CommandStage::Device, now);
        unit.logical.note_write(range);
        let token = self.operations.next_token();
        let durable = fua || !unit.logical.write_cache_enabled();
        let request = Request::Write {
            offset,
            data,
            durable,
        };
        let mut submitted = unit
            .device
            .submit(request, Ticket::new(token.0), &mut self.lane);
        let is_late = matches!(submitted, Submitted::Ready(Ok(_))) && unit.is_late(durable);
        if is_late {
            submitted = unit
                .device
                .submit(Request::Flush, Ticket::new(token.0), &mut self.lane);
        }
        match submitted {
            Submitted::Ready(outcome) => {
                unit.range_lock.unlock(range, Hold::Shared);
                let receipt = outcome.is_ok().then(|| {
                    unit.logical
                        .statistics()
                        .add_write(self.index, range.count.0);
                    entry.receipt(CommandKind::Write, len, now)
                });
                let mut completion = self.end_of_transfer(&mut entry, outcome);
                completion.receipt = receipt;
                self.note_end(
                    session,
                    task,
                    &entry.mapped,
                    &completion,
                    CommandKind::Write,
                    len,
                );
                Progress::Done(completion)
            }
            Submitted::Pending => {
                let held = (unit.clone(), range, Hold::Shared);
                let work = Work::Write {
                    range,
                    durable: durable || is_late,
                    data: Pages::new(),
                };
                let token = self.park(session, task, entry, work, Waiting::Device);
                if let Some(operation) = self.operations.get_mut(token) {
                    operation.held.push(held);
                }
                Progress::Pending
            }
        }
    }

    fn end_of_transfer(&self, entry: &mut TaskEntry, outcome: Outcome) -> Ended {
        match outcome {
            Ok(Done::Pages(pages)) => {
                // Until they have been sent.
                Ended::good(Some(Data::Pages(pages, entry.memory.take())))
            }
            Ok(_) => Ended::good(None),
            Err(error) => {
                let mapped = &entry.mapped;
                let initiator = &mapped.itl.nexus().initiator.name;
                mapped.unit.note_error(&error, Some(initiator));
                Ended::from(
                    mapped
                        .unit
                        .logical
                        .sense_for(scsi_error(&mapped.unit, &error)),
                )
            }
        }
    }

    /// Handles the end of an operation's device request.
    pub fn completed(
        &mut self,
        token: Token,
        outcome: Outcome,
    ) -> Option<(SessionKey, TaskKey, Ended)> {
        let mut operation = self.operations.take(token)?;
        let (session, task) = (operation.session, operation.task);
        if let (Work::Task(run), Some(entry), false) =
            (&mut operation.work, &operation.entry, operation.cancelled)
        {
            if outcome.is_ok() {
                run.flush_if_late(&entry.mapped.unit);
            }
            let more = outcome.is_ok() && !run.requests.is_empty();
            let outcome = if more {
                self.submit_requests(token, &mut operation)
            } else {
                Some(outcome)
            };
            let Some(outcome) = outcome else {
                self.operations.put_back(token, operation);
                return None;
            };
            let step = self.answer(&mut operation, outcome);
            return match self.drive(token, operation, step) {
                Progress::Done(completion) => Some((session, task, completion)),
                Progress::Pending => None,
            };
        }
        if let (Work::FlushedRead(range), false, true) =
            (&operation.work, operation.cancelled, outcome.is_ok())
            && let Some(entry) = operation.entry.take()
        {
            let range = *range;
            self.operations.retire(token);
            let observers = std::mem::take(&mut operation.observers);
            let progress = self.read(session, task, entry, range, false);
            let wanted = operation.data_out_wanted;
            return match self.hand_on(session, task, progress, observers, wanted) {
                Progress::Done(completion) => Some((session, task, completion)),
                Progress::Pending => None,
            };
        }
        let Some(outcome) = self.flush_if_late(token, &mut operation, outcome) else {
            self.operations.put_back(token, operation);
            return None;
        };
        operation.release();
        self.operations.retire(token);
        let completion = match &mut operation.entry {
            Some(entry) => {
                let receipt = self.count(entry, &operation.work, &outcome);
                let mut completion = self.end_of_transfer(entry, outcome);
                completion.receipt = receipt;
                if !operation.cancelled {
                    let (kind, bytes) = moved(entry, &operation.work);
                    self.note_end(session, task, &entry.mapped, &completion, kind, bytes);
                }
                completion
            }
            None => {
                if let (Work::Emptying(unit, _), Err(error)) = (&operation.work, &outcome) {
                    unit.note_error(error, None);
                    unit.logical.keep_write_cache();
                }
                Ended::good(None)
            }
        };
        let completion = completion.wanting(operation.data_out_wanted);
        Some((session, task, completion))
    }

    /// Flushes for a write that went into a cache which was switched off meanwhile. Returns `None`
    /// while the flush is under way.
    fn flush_if_late(
        &mut self,
        token: Token,
        operation: &mut Operation,
        outcome: Outcome,
    ) -> Option<Outcome> {
        let (Work::Write { durable, .. }, Some(entry), false) =
            (&mut operation.work, &operation.entry, operation.cancelled)
        else {
            return Some(outcome);
        };
        let unit = &entry.mapped.unit;
        if outcome.is_err() || !unit.is_late(*durable) {
            return Some(outcome);
        }
        *durable = true;
        let flush = (unit.device).submit(Request::Flush, Ticket::new(token.0), &mut self.lane);
        match flush {
            Submitted::Ready(outcome) => Some(outcome),
            Submitted::Pending => None,
        }
    }

    /// Counts a READ or WRITE whose blocks have moved, and returns its receipt.
    fn count(&self, entry: &TaskEntry, work: &Work, outcome: &Outcome) -> Option<Receipt> {
        outcome.as_ref().ok()?;
        let unit = &entry.mapped.unit;
        let statistics = unit.logical.statistics();
        let (kind, range) = match work {
            Work::Read(range) => {
                statistics.add_read(self.index, range.count.0);
                (CommandKind::Read, *range)
            }
            Work::Write { range, .. } => {
                statistics.add_write(self.index, range.count.0);
                (CommandKind::Write, *range)
            }
            _ => return None,
        };
        let (_, bytes) = unit.bytes(range);
        Some(entry.receipt(kind, bytes, self.clock.now()))
    }

    /// Goes on with an operation that waited for its range, for quiet, or for the next turn.
    pub fn granted(&mut self, token: Token) -> Option<(SessionKey, TaskKey, Ended)> {
        let mut operation = self.operations.take(token)?;
        let (session, task) = (operation.session, operation.task);
        let waited = operation.waiting;
        if let (Waiting::Range(range, hold), Some(entry)) = (waited, &operation.entry) {
            let unit = match &operation.work {
                Work::Task(TaskRun { on: Some(unit), .. }) => unit.clone(),
                _ => entry.mapped.unit.clone(),
            };
            operation.held.push((unit, range, hold));
        }
        operation.waiting = Waiting::Device;
        if operation.cancelled {
            operation.release();
            self.operations.retire(token);
            return Some((session, task, Ended::good(None)));
        }
        let progress = match (&mut operation.work, waited) {
            (Work::Task(_), Waiting::Quiet) => {
                let step = self.answer(&mut operation, Ok(Done::Nothing));
                self.drive(token, operation, step)
            }
            (Work::Task(_), Waiting::Range(_, Hold::Exclusive)) => {
                self.operations.put_back(token, operation);
                self.begin_task(token)
            }
            (Work::Task(_), _) => match self.carry_out(token, &mut operation) {
                None => {
                    self.operations.put_back(token, operation);
                    Progress::Pending
                }
                Some(step) => self.drive(token, operation, step),
            },
            (Work::Write { .. }, _) => {
                // The range goes to `write_locked`, which gives it back itself.
                operation.held.clear();
                self.operations.retire(token);
                let (
                    Work::Write {
                        range,
                        durable: fua,
                        data,
                    },
                    Some(entry),
                ) = (
                    std::mem::replace(&mut operation.work, Work::Read(BlockRange::default())),
                    operation.entry.take(),
                )
                else {
                    return None;
                };
                let observers = std::mem::take(&mut operation.observers);
                let progress = self.write_locked(session, task, entry, range, fua, data);
                self.hand_on(
                    session,
                    task,
                    progress,
                    observers,
                    operation.data_out_wanted,
                )
            }
            _ => Progress::Done(Ended::good(None)),
        };
        match progress {
            Progress::Done(completion) => Some((session, task, completion)),
            Progress::Pending => None,
        }
    }

    /// Cancels an operation: nothing further is started for it. Returns `true` if it is over at
    /// once; else it ends when its wait ends.
    pub fn cancel(&mut self, token: Token) -> bool {
        let Some(operation) = self.operations.get_mut(token) else {
            return true;
        };
        if operation.outlives_its_command() {
            // The operation is over for its session, and for those who wait until its commands are
            // quiet.
            operation
                .observers
                .retain(|signal| signal.waits_for_the_task());
            self.operations.disown(token);
            return true;
        }
        operation.cancelled = true;
        let over = match (operation.waiting, &operation.work) {
            (Waiting::NextTurn, _) => true,
            (Waiting::Turn, Work::Queued { turn: true, .. }) => true,
            (Waiting::Turn, Work::Queued { mapped, .. }) => mapped.tasks.cancel(token.0),
            (Waiting::Range(..), work) => {
                let unit = match work {
                    Work::Task(TaskRun { on: Some(unit), .. }) => Some(unit),
                    _ => operation.entry.as_ref().map(|entry| &entry.mapped.unit),
                };
                unit.is_none_or(|unit| unit.range_lock.cancel(token.0))
            }
            _ => false,
        };
        if over && let Some(mut operation) = self.operations.take(token) {
            operation.release();
            self.operations.retire(token);
        }
        over
    }

    /// Ends a cancelled operation whose turn in the task set came after all. It enters and leaves
    /// at once.
    pub fn cancel_after_turn(&mut self, token: Token) {
        let Some(mut operation) = self.operations.take(token) else {
            return;
        };
        self.operations.retire(token);
        if let Work::Queued {
            mapped, command, ..
        } = &operation.work
        {
            let stopwatch = command.stopwatch;
            operation.entry = Some(TaskEntry::new(mapped.clone(), command.attribute, stopwatch));
        }
    }

    /// Hands on the observers of an operation, and the data-out that its command takes. They go to
    /// its continuation under another token, or to its end if that has come.
    pub fn hand_on(
        &mut self,
        session: SessionKey,
        task: TaskKey,
        progress: Progress,
        observers: Vec<Arc<QuietSignal>>,
        data_out_wanted: Option<u32>,
    ) -> Progress {
        match progress {
            Progress::Done(completion) => Progress::Done(completion.wanting(data_out_wanted)),
            Progress::Pending => {
                if let Some(token) = self.operations.find(session, task)
                    && let Some(operation) = self.operations.get_mut(token)
                {
                    operation.observers = observers;
                    operation.data_out_wanted = data_out_wanted;
                }
                Progress::Pending
            }
        }
    }

    /// Adds an operation that waits.
    pub fn park(
        &mut self,
        session: SessionKey,
        task: TaskKey,
        entry: TaskEntry,
        work: Work,
        waiting: Waiting,
    ) -> Token {
        self.operations.insert(Operation {
            session,
            task,
            entry: Some(entry),
            work,
            waiting,
            held: Vec::new(),
            cancelled: false,
            fenced_off: false,
            data_out_wanted: None,
            observers: Vec::new(),
        })
    }

    /// Gives an abort order to every loop, this one included. If it reaches all nexuses, it also
    /// waits for what protocols without commands do on the unit: that work cannot be aborted.
    pub fn spread(&mut self, order: AbortOrder<S::Function>) {
        if let abort::Whose::All = order.whose {
            let whose = Whose::NotCommands(Arc::clone(&order.unit));
            let drain = DrainOrder::new(whose, Arc::clone(&order.signal));
            self.shared.loops().drain(&drain);
        }
        let order = Arc::new(order);
        self.shared.abort(self.index, &order);
        self.orders.push(order);
    }
}

/// Returns the kind of a command, and the bytes that a READ or WRITE is to move.
fn moved(entry: &TaskEntry, work: &Work) -> (CommandKind, u64) {
    let (kind, range) = match work {
        Work::Read(range) | Work::FlushedRead(range) => (CommandKind::Read, *range),
        Work::Write { range, .. } => (CommandKind::Write, *range),
        Work::Task(run) => return (run.kind, 0),
        _ => return (CommandKind::Other, 0),
    };
    (kind, entry.mapped.unit.bytes(range).1)
}
