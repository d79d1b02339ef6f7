//! The part of an event loop that runs commands: from the device server's decision over block
//! requests to the completion. It knows nothing of sockets.
//!
//! # The life of a write
//! `router.rs` admits it and collects its data; [`Core::write`] asks the gates again, shares the range,
//! submits the request (durable if FUA is set or the unit's write cache is off) and answers GOOD only
//! when the device has said so.

use std::collections::VecDeque;
use std::sync::Arc;

use iscsi::target::{Completion, TaskId};
use scsi::range_lock::Hold;
use scsi::{BlockRange, Extent, Input, Response, Status, Step};

use super::message::{AbortOrder, Message, QuietSignal, Whose};
use super::operation::{Answer, Operation, Operations, SessionKey, TaskRun, Token, Waiting, Work};
use super::payload::DataIn;
use super::shared::Shared;
use super::turn::{self, Turn};
use super::unit::{TaskEntry, Unit};
use super::unit_state;
use crate::block::lane::Outcome;
use crate::block::{BlockError, BlockErrorKind, Done, Lane, Pages, Request, Submitted, Ticket};

/// Requests of a step are cut to this length in bytes, so that no step hogs memory or a disk.
const STEP_CHUNK: u64 = 1024 * 1024;

/// The same for the requests that give blocks back, of which there may be very many.
const DISCARD_CHUNK: u64 = 32 << 20;

/// How far an operation got.
#[derive(Debug)]
pub(super) enum Progress {
    /// It has ended.
    Done(Completion<DataIn>),
    /// It waits; it is in the table.
    Pending,
}

/// What runs the commands of one event loop.
#[derive(Debug)]
pub(super) struct Core {
    /// The loop's number.
    pub index: usize,
    /// What all loops share.
    pub shared: Arc<Shared>,
    /// Access to block devices.
    pub lane: Lane,
    /// Commands in progress.
    pub operations: Operations,
    /// Abort orders that this loop must carry out itself, at the end of the current turn.
    pub orders: Vec<Arc<AbortOrder>>,
    /// What devices do at once for tasks in the current turn.
    pub turn: Turn,
}

impl Core {
    /// Reads blocks for the initiator.
    #[inline]
    pub(super) fn read(
        &mut self,
        session: SessionKey,
        task: TaskId,
        mut entry: TaskEntry,
        range: BlockRange,
    ) -> Progress {
        let unit = &entry.mapped.unit;
        let (offset, len) = unit.bytes(range);
        if len == 0 {
            return Progress::Done(good(None));
        }
        let token = self.operations.next_token();
        let request = Request::Read {
            offset,
            len: len as u32,
        };
        match unit
            .device
            .submit(request, Ticket::new(token.0), &mut self.lane)
        {
            Submitted::Ready(Ok(Done::Pages(pages))) => {
                unit.logical
                    .statistics()
                    .add_read(self.index, range.count.0);
                let memory = entry.memory.take().map(Arc::new);
                Progress::Done(good(Some(DataIn::Pages(pages, memory))))
            }
            Submitted::Ready(outcome) => {
                let completion = self.end_of_transfer(&mut entry, outcome);
                self.note_end(session, task, &entry.mapped, &completion);
                Progress::Done(completion)
            }
            Submitted::Pending => {
                self.park(session, task, entry, Work::Read(range), Waiting::Device);
                Progress::Pending
            }
        }
    }

    /// Writes the initiator's blocks.
    #[inline]
    pub(super) fn write(
        &mut self,
        session: SessionKey,
        task: TaskId,
        entry: TaskEntry,
        range: BlockRange,
        fua: bool,
        data: Pages,
    ) -> Progress {
        if range.is_empty() {
            return Progress::Done(good(None));
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
            Work::Write { range, fua, data },
            Waiting::Range(range, Hold::Shared),
        );
        Progress::Pending
    }

    /// The same, holding the range.
    #[inline]
    fn write_locked(
        &mut self,
        session: SessionKey,
        task: TaskId,
        mut entry: TaskEntry,
        range: BlockRange,
        fua: bool,
        data: Pages,
    ) -> Progress {
        let unit = &entry.mapped.unit;
        if let Err(response) = entry.mapped.itl.may_still_run(true) {
            unit.range_lock.unlock(range, Hold::Shared);
            let completion = completion(response);
            self.note_end(session, task, &entry.mapped, &completion);
            return Progress::Done(completion);
        }
        let (offset, _) = unit.bytes(range);
        unit.logical.note_write(range);
        let token = self.operations.next_token();
        let durable = fua || !unit.logical.write_cache_enabled();
        let request = Request::Write {
            offset,
            data,
            durable,
        };
        match unit
            .device
            .submit(request, Ticket::new(token.0), &mut self.lane)
        {
            Submitted::Ready(outcome) => {
                unit.range_lock.unlock(range, Hold::Shared);
                if outcome.is_ok() {
                    unit.logical
                        .statistics()
                        .add_write(self.index, range.count.0);
                }
                let completion = self.end_of_transfer(&mut entry, outcome);
                self.note_end(session, task, &entry.mapped, &completion);
                Progress::Done(completion)
            }
            Submitted::Pending => {
                let held = (unit.clone(), range, Hold::Shared);
                let work = Work::Write {
                    range,
                    fua,
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

    fn end_of_transfer(&self, entry: &mut TaskEntry, outcome: Outcome) -> Completion<DataIn> {
        match outcome {
            Ok(Done::Pages(pages)) => {
                // Until they have been sent.
                let memory = entry.memory.take().map(Arc::new);
                good(Some(DataIn::Pages(pages, memory)))
            }
            Ok(_) => good(None),
            Err(error) => {
                let mapped = &entry.mapped;
                mapped.unit.note_error(&error);
                completion(
                    mapped
                        .unit
                        .logical
                        .sense_for(scsi_error(&mapped.unit, &error)),
                )
            }
        }
    }

    /// Starts a task of the device server with its data-out.
    pub(super) fn run_task(
        &mut self,
        session: SessionKey,
        task: TaskId,
        entry: TaskEntry,
        scsi_task: Box<dyn scsi::Task>,
        data_out: Pages,
    ) -> Progress {
        let exclusive = scsi_task.exclusive().filter(|range| !range.is_empty());
        let unit = entry.mapped.unit.clone();
        let run = TaskRun {
            task: scsi_task,
            data_out,
            on: None,
            requests: VecDeque::new(),
            answer: Answer::Done,
            changes: false,
        };
        let token = self.park(session, task, entry, Work::Task(run), Waiting::Device);
        if let Some(range) = exclusive {
            if !unit.range_lock.lock(range, Hold::Exclusive, token.0) {
                self.set_waiting(token, Waiting::Range(range, Hold::Exclusive));
                return Progress::Pending;
            }
            self.hold(token, unit, range, Hold::Exclusive);
        }
        self.begin_task(token)
    }

    fn begin_task(&mut self, token: Token) -> Progress {
        let Some(mut operation) = self.operations.take(token) else {
            return Progress::Pending;
        };
        let Work::Task(run) = &mut operation.work else {
            self.operations.put_back(token, operation);
            return Progress::Pending;
        };
        let data_out = run.data_out.to_vec();
        let step = run.task.step(Input::Begin {
            data_out: &data_out,
        });
        self.drive(token, operation, step)
    }

    /// Carries out steps until one must be waited for.
    fn drive(&mut self, token: Token, mut operation: Operation, mut step: Step) -> Progress {
        loop {
            if let Step::Done(response) = step {
                let completion = completion(response);
                if let (Some(entry), false) = (&operation.entry, operation.cancelled) {
                    self.note_end(
                        operation.session,
                        operation.task,
                        &entry.mapped,
                        &completion,
                    );
                }
                operation.release();
                self.operations.retire(token);
                return Progress::Done(wanting(operation.data_out_wanted, completion));
            }
            match self.begin_step(token, &mut operation, step) {
                Begun::Requests => {}
                Begun::Waits(waiting) => {
                    operation.waiting = waiting;
                    self.operations.put_back(token, operation);
                    return Progress::Pending;
                }
            }
            match self.carry_out(token, &mut operation) {
                None => {
                    self.operations.put_back(token, operation);
                    return Progress::Pending;
                }
                Some(next) => step = next,
            }
        }
    }

    /// Carries out the requests of the current step; returns the next one. `None` where a request is
    /// pending or waits for the next turn.
    fn carry_out(&mut self, token: Token, operation: &mut Operation) -> Option<Step> {
        if let Some(response) = fenced(operation) {
            return Some(Step::Done(response));
        }
        let outcome = self.submit_requests(token, operation)?;
        Some(self.answer(operation, outcome))
    }

    /// Turns a step into requests, holding the range that it changes.
    fn begin_step(&mut self, token: Token, operation: &mut Operation, step: Step) -> Begun {
        let (Work::Task(run), Some(entry)) = (&mut operation.work, &operation.entry) else {
            return Begun::Requests;
        };
        run.on = None;
        run.answer = Answer::Done;
        run.changes = false;
        run.requests.clear();
        let step = match step {
            Step::On { unit, step } => {
                run.on = self.shared.unit_of(&unit);
                if run.on.is_none() {
                    // The unit was deleted meanwhile: the request below fails as "gone".
                    run.requests.push_back(Request::Read {
                        offset: u64::MAX,
                        len: 0,
                    });
                    return Begun::Requests;
                }
                *step
            }
            Step::Abort(scope) => {
                let order = abort_order(
                    entry,
                    operation.session,
                    operation.task,
                    scope,
                    token,
                    &self.shared,
                );
                self.spread(order);
                return Begun::Waits(Waiting::Quiet);
            }
            Step::Save { image } => {
                let path = entry.mapped.unit.state_file.clone();
                self.lane.run_blocking(Ticket::new(token.0), move || {
                    unit_state::save(&path, &image)
                });
                return Begun::Waits(Waiting::Device);
            }
            step => step,
        };
        let unit = run.on.clone().unwrap_or_else(|| entry.mapped.unit.clone());
        let exclusive = operation
            .held
            .iter()
            .any(|(_, _, hold)| *hold == Hold::Exclusive);
        let changed = prepare(run, &unit, step);
        run.changes = changed.is_some() && run.on.is_none();
        if let Some(range) = changed
            && !(exclusive && run.on.is_none())
        {
            if !unit.range_lock.lock(range, Hold::Shared, token.0) {
                return Begun::Waits(Waiting::Range(range, Hold::Shared));
            }
            operation.held.push((unit, range, Hold::Shared));
        }
        Begun::Requests
    }

    /// Submits the requests of the current step one after the other. `None` where one is pending, or
    /// waits for the next turn; the operation says which.
    fn submit_requests(&mut self, token: Token, operation: &mut Operation) -> Option<Outcome> {
        let (Work::Task(run), Some(entry)) = (&mut operation.work, &operation.entry) else {
            return Some(Ok(Done::Nothing));
        };
        let mut outcome = Ok(Done::Nothing);
        while !run.requests.is_empty() {
            if self.turn.is_over() {
                operation.waiting = Waiting::NextTurn;
                self.turn.wait(token);
                return None;
            }
            let Some(request) = run.requests.pop_front() else {
                break;
            };
            let unit = run.on.as_ref().unwrap_or(&entry.mapped.unit);
            unit.note_request(&request);
            let weight = turn::weight(&request);
            match unit
                .device
                .submit(request, Ticket::new(token.0), &mut self.lane)
            {
                Submitted::Pending => {
                    operation.waiting = Waiting::Device;
                    return None;
                }
                Submitted::Ready(ready) => outcome = ready,
            }
            self.turn.count(weight);
            if outcome.is_err() {
                break;
            }
        }
        Some(outcome)
    }

    /// Gives the outcome of a step to the task.
    fn answer(&mut self, operation: &mut Operation, outcome: Outcome) -> Step {
        // Shared holds last one step; the exclusive one lasts to the end of the task.
        operation.held.retain(|(unit, range, hold)| {
            let keep = *hold == Hold::Exclusive;
            if !keep {
                unit.range_lock.unlock(*range, *hold);
            }
            keep
        });
        let (Work::Task(run), Some(entry)) = (&mut operation.work, &operation.entry) else {
            return Step::Done(Response::good());
        };
        let unit = run.on.as_ref().unwrap_or(&entry.mapped.unit);
        match (outcome, run.answer) {
            (Ok(Done::Pages(pages)), Answer::Blocks) => {
                run.task.step(Input::Blocks(&pages.to_vec()))
            }
            (Ok(Done::Extents(extents)), Answer::Extents(asked)) => run
                .task
                .step(Input::Extents(&to_extents(unit, asked, &extents))),
            (Ok(_), _) => run.task.step(Input::Done),
            (Err(error), _) => {
                unit.note_error(&error);
                run.task.step(Input::Failed(scsi_error(unit, &error)))
            }
        }
    }

    /// A device request of an operation finished.
    pub(super) fn completed(
        &mut self,
        token: Token,
        outcome: Outcome,
    ) -> Option<(SessionKey, TaskId, Completion<DataIn>)> {
        let mut operation = self.operations.take(token)?;
        let (session, task) = (operation.session, operation.task);
        if let (Work::Task(run), false) = (&operation.work, operation.cancelled) {
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
        operation.release();
        self.operations.retire(token);
        let completion = match &mut operation.entry {
            Some(entry) => {
                self.count(entry, &operation.work, &outcome);
                let completion = self.end_of_transfer(entry, outcome);
                if !operation.cancelled {
                    self.note_end(session, task, &entry.mapped, &completion);
                }
                completion
            }
            None => good(None),
        };
        let completion = wanting(operation.data_out_wanted, completion);
        Some((session, task, completion))
    }

    fn count(&self, entry: &TaskEntry, work: &Work, outcome: &Outcome) {
        let unit = &entry.mapped.unit;
        match work {
            Work::Read(range) if outcome.is_ok() => {
                unit.logical
                    .statistics()
                    .add_read(self.index, range.count.0);
            }
            Work::Write { range, .. } if outcome.is_ok() => {
                unit.logical
                    .statistics()
                    .add_write(self.index, range.count.0);
            }
            _ => {}
        }
    }

    /// What an operation waited for has happened (its range, quiet, or the next turn).
    pub(super) fn granted(
        &mut self,
        token: Token,
    ) -> Option<(SessionKey, TaskId, Completion<DataIn>)> {
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
            return Some((session, task, good(None)));
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
                // The range is handed on to `write_locked`, which gives it back itself.
                operation.held.clear();
                self.operations.retire(token);
                let (Work::Write { range, fua, data }, Some(entry)) = (
                    std::mem::replace(&mut operation.work, Work::Read(BlockRange::default())),
                    operation.entry.take(),
                ) else {
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
            _ => Progress::Done(good(None)),
        };
        match progress {
            Progress::Done(completion) => Some((session, task, completion)),
            Progress::Pending => None,
        }
    }

    /// Cancels an operation: nothing further is started for it. `true` where it is over at once; else it
    /// ends when what it waits for has happened.
    pub(super) fn cancel(&mut self, token: Token) -> bool {
        let Some(operation) = self.operations.get_mut(token) else {
            return true;
        };
        if operation.outlives_its_command() {
            // For its session, and for who waits until its tasks are quiet, it is over.
            operation.session = SessionKey::NONE;
            operation.observers.clear();
            return true;
        }
        operation.cancelled = true;
        let over = match (operation.waiting, &operation.work) {
            (Waiting::NextTurn, _) => true,
            (Waiting::Turn, Work::Queued { turn: true, .. }) => true,
            (Waiting::Turn, Work::Queued { mapped, .. }) => mapped.unit.task_set.cancel(token.0),
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

    /// Ends a cancelled operation whose turn in the task set came after all: it enters and leaves at
    /// once.
    pub(super) fn cancel_after_turn(&mut self, token: Token) {
        let Some(mut operation) = self.operations.take(token) else {
            return;
        };
        self.operations.retire(token);
        if let Work::Queued {
            mapped, command, ..
        } = &operation.work
        {
            operation.entry = Some(TaskEntry::new(
                mapped.clone(),
                self.index,
                command.attribute,
            ));
        }
    }

    /// Gives to an operation's continuation under another token, or to the completion where it has
    /// ended already, who waited for it and how much data-out its command takes.
    pub(super) fn hand_on(
        &mut self,
        session: SessionKey,
        task: TaskId,
        progress: Progress,
        observers: Vec<Arc<QuietSignal>>,
        data_out_wanted: Option<u32>,
    ) -> Progress {
        match progress {
            Progress::Done(completion) => Progress::Done(wanting(data_out_wanted, completion)),
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
    pub(super) fn park(
        &mut self,
        session: SessionKey,
        task: TaskId,
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
            data_out_wanted: None,
            observers: Vec::new(),
        })
    }

    fn set_waiting(&mut self, token: Token, waiting: Waiting) {
        if let Some(operation) = self.operations.get_mut(token) {
            operation.waiting = waiting;
        }
    }

    fn hold(&mut self, token: Token, unit: Arc<Unit>, range: BlockRange, hold: Hold) {
        if let Some(operation) = self.operations.get_mut(token) {
            operation.held.push((unit, range, hold));
        }
    }

    /// Gives an abort order to every loop, this one included.
    pub(super) fn spread(&mut self, order: AbortOrder) {
        let order = Arc::new(order);
        self.shared
            .send_to_others(self.index, || Message::Abort(order.clone()));
        self.orders.push(order);
    }
}

enum Begun {
    Requests,
    Waits(Waiting),
}

/// Why the current step may not change blocks any more: the gates are asked again, for data-out and the
/// range took their time, and a reservation granted meanwhile fences it. What a task does on other units
/// it asks for by itself; one that outlives its command answers to nobody's gates.
fn fenced(operation: &Operation) -> Option<Response> {
    let (Work::Task(run), Some(entry)) = (&operation.work, &operation.entry) else {
        return None;
    };
    if !run.changes || run.task.outlives_its_command() {
        return None;
    }
    entry.mapped.itl.may_still_run(true).err()
}

fn abort_order(
    entry: &TaskEntry,
    session: SessionKey,
    task: TaskId,
    scope: scsi::AbortScope,
    token: Token,
    shared: &Arc<Shared>,
) -> AbortOrder {
    AbortOrder {
        unit: entry.mapped.unit.clone(),
        whose: match scope {
            scsi::AbortScope::Registrants(registrants) => Whose::Registrants(registrants),
            scsi::AbortScope::All => Whose::All,
        },
        except: Some((session, task)),
        by: entry.mapped.itl.nexus().id,
        tell: entry.mapped.unit.logical.task_aborted_status(),
        cleared: true,
        signal: QuietSignal::new(token, shared.wake()),
    }
}

/// Fills in the requests of a step and returns the range that it changes.
fn prepare(run: &mut TaskRun, unit: &Unit, step: Step) -> Option<BlockRange> {
    let cached = unit.logical.write_cache_enabled();
    match step {
        Step::Read { range } => {
            let (offset, len) = unit.bytes(range);
            run.answer = Answer::Blocks;
            run.requests.push_back(Request::Read {
                offset,
                len: len as u32,
            });
            None
        }
        Step::Write { range, data, fua } => {
            let data = Pages::from_bytes(&data);
            run.requests.push_back(Request::Write {
                offset: unit.bytes(range).0,
                data,
                durable: fua || !cached,
            });
            Some(range)
        }
        Step::WriteDataOut {
            range,
            offset: from,
            fua,
        } => {
            let (offset, len) = unit.bytes(range);
            let data = run
                .data_out
                .slice(from as usize..from as usize + len as usize);
            run.requests.push_back(Request::Write {
                offset,
                data,
                durable: fua || !cached,
            });
            Some(range)
        }
        Step::WriteZeroes { range, unmap, fua } => {
            let (offset, len) = unit.bytes(range);
            run.requests.push_back(Request::WriteZeroes {
                offset,
                len,
                unmap,
                durable: fua || !cached,
            });
            Some(range)
        }
        Step::WritePattern {
            range,
            pattern,
            fua,
        } => {
            push_pattern(run, unit, range, &pattern, fua || !cached);
            Some(range)
        }
        Step::Unmap { ranges } => {
            let mut whole: Option<BlockRange> = None;
            for range in ranges.into_iter().filter(|range| !range.is_empty()) {
                push_discards(run, unit, range);
                whole = Some(whole.map_or(range, |whole| hull(whole, range)));
            }
            if whole.is_some() && !cached {
                run.requests.push_back(Request::Flush);
            }
            whole
        }
        Step::Flush => {
            run.requests.push_back(Request::Flush);
            None
        }
        Step::Extents { range } => {
            let (offset, len) = unit.bytes(range);
            run.answer = Answer::Extents(range);
            run.requests.push_back(Request::Extents { offset, len });
            None
        }
        // Devices keep no cache of their own that could be warmed; the others were handled before.
        Step::Prefetch { .. }
        | Step::On { .. }
        | Step::Save { .. }
        | Step::Abort(_)
        | Step::Done(_) => None,
    }
}

fn push_pattern(run: &mut TaskRun, unit: &Unit, range: BlockRange, pattern: &[u8], durable: bool) {
    let (mut offset, mut left) = unit.bytes(range);
    let chunk = STEP_CHUNK.min(left) / pattern.len() as u64 * pattern.len() as u64;
    let full = Pages::from_bytes(&pattern.repeat((chunk / pattern.len() as u64) as usize));
    while left > 0 {
        let take = chunk.min(left);
        let data = full.slice(0..take as usize);
        run.requests.push_back(Request::Write {
            offset,
            data,
            durable,
        });
        offset += take;
        left -= take;
    }
}

/// The pieces end where any device can give back whole blocks: at multiples of their length.
fn push_discards(run: &mut TaskRun, unit: &Unit, range: BlockRange) {
    let (mut offset, mut left) = unit.bytes(range);
    while left > 0 {
        let len = left.min(DISCARD_CHUNK - offset % DISCARD_CHUNK);
        run.requests.push_back(Request::Discard { offset, len });
        offset += len;
        left -= len;
    }
}

fn hull(a: BlockRange, b: BlockRange) -> BlockRange {
    let start = a.start.0.min(b.start.0);
    BlockRange::new(start, a.end().max(b.end()) - start).unwrap_or(a)
}

fn to_extents(unit: &Unit, asked: BlockRange, runs: &[(u64, bool)]) -> Vec<Extent> {
    let mut start = asked.start.0;
    let mut extents = Vec::with_capacity(runs.len());
    for (len, mapped) in runs {
        let count = unit.blocks(*len).min(asked.end() - start);
        if let Some(range) = BlockRange::new(start, count).filter(|range| !range.is_empty()) {
            extents.push(Extent {
                range,
                mapped: *mapped,
            });
        }
        start += count;
    }
    extents
}

fn scsi_error(unit: &Unit, error: &BlockError) -> scsi::BlockError {
    let lba = error.offset().map(|offset| unit.blocks(offset));
    match error.kind() {
        BlockErrorKind::Medium | BlockErrorKind::Invalid => scsi::BlockError::Medium { lba },
        BlockErrorKind::Write => scsi::BlockError::Write { lba },
        BlockErrorKind::NoSpace => scsi::BlockError::NoSpace,
        BlockErrorKind::ReadOnly => scsi::BlockError::ReadOnly,
        BlockErrorKind::Gone => scsi::BlockError::Gone,
    }
}

/// GOOD with data.
#[inline]
pub(super) fn good(data_in: Option<DataIn>) -> Completion<DataIn> {
    Completion {
        status: Status::Good as u8,
        sense: Vec::new(),
        data_in,
        data_out_wanted: None,
    }
}

/// The completion with how much data-out the command takes by its CDB, where it is known.
fn wanting(data_out_wanted: Option<u32>, completion: Completion<DataIn>) -> Completion<DataIn> {
    Completion {
        data_out_wanted: data_out_wanted.or(completion.data_out_wanted),
        ..completion
    }
}

/// The device server's response as the protocol wants it.
pub(super) fn completion(response: Response) -> Completion<DataIn> {
    let data_in = (!response.data_in.is_empty()).then(|| DataIn::from(response.data_in));
    Completion {
        status: response.status as u8,
        sense: response.sense,
        data_in,
        data_out_wanted: None,
    }
}
