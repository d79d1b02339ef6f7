//! The run of the device server's tasks: every command that is more than a plain read or write. A
//! task names the work it wants done, step by step. Its steps are carried out here until one must
//! be waited for.

use std::collections::VecDeque;
use std::sync::Arc;

use scsi::range_lock::Hold;
use scsi::{BlockRange, Input, Response, Status, Step};

use super::abort::{AbortOrder, Whose};
use super::core::{Core, Progress};
use super::ended::Ended;
use super::operation::{Answer, Operation, SessionKey, TaskKey, TaskRun, Token, Waiting, Work};
use super::peers::Peers;
use super::step_requests::{prepare, scsi_error, to_extents};
use super::turn;
use crate::nexus::TaskEntry;
use crate::quiet_signal::QuietSignal;
use crate::state_file;
use crate::unit::Unit;
use block::lane::Outcome;
use block::{BlockError, BlockErrorKind, Done, Pages, Submitted, Ticket};
use model::figures::{CommandKind, CommandStage};

impl<S: Peers> Core<S> {
    /// Starts a task of the device server, a command of this kind, with its data-out.
    pub fn run_task(
        &mut self,
        session: SessionKey,
        task: TaskKey,
        entry: TaskEntry,
        (kind, scsi_task): (CommandKind, Box<dyn scsi::Task>),
        data_out: Pages,
    ) -> Progress {
        let exclusive = scsi_task.exclusive().filter(|range| !range.is_empty());
        let unit = entry.mapped.unit.clone();
        let run = TaskRun {
            kind,
            freed: 0,
            task: scsi_task,
            data_out,
            on: None,
            requests: VecDeque::new(),
            answer: Answer::Done,
            changes: false,
            cached: false,
            step_observers: Vec::new(),
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

    /// Gives its data-out to a task, which holds the range that it must have to itself.
    pub fn begin_task(&mut self, token: Token) -> Progress {
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
    pub fn drive(&mut self, token: Token, mut operation: Operation, mut step: Step) -> Progress {
        loop {
            if let Step::Done(response) = step {
                let mut completion = Ended::from(response);
                if let (Some(entry), false) = (&operation.entry, operation.cancelled) {
                    let (kind, freed) = match &operation.work {
                        Work::Task(run) => (run.kind, run.freed),
                        _ => (CommandKind::Other, 0),
                    };
                    let counted = match completion.status {
                        Status::Good => (kind, freed),
                        _ => (CommandKind::Other, 0),
                    };
                    let now = self.clock.now();
                    completion.receipt = Some(entry.receipt(counted.0, counted.1, now));
                    self.note_end(
                        operation.session,
                        operation.task,
                        &entry.mapped,
                        &completion,
                        kind,
                        0,
                    );
                }
                operation.release();
                self.operations.retire(token);
                return Progress::Done(completion.wanting(operation.data_out_wanted));
            }
            match self.begin_step(token, &mut operation, step) {
                Begun::Requests => {}
                Begun::Gone => {
                    let gone = BlockError::new(BlockErrorKind::Gone, "the unit was deleted");
                    step = self.answer(&mut operation, Err(gone));
                    continue;
                }
                Begun::Waits(waiting) => {
                    operation.waiting = waiting;
                    let stage = match waiting {
                        Waiting::Device => CommandStage::Device,
                        Waiting::Turn | Waiting::Range(..) | Waiting::Quiet | Waiting::NextTurn => {
                            CommandStage::Queue
                        }
                    };
                    if let Some(entry) = &mut operation.entry {
                        entry.stopwatch.turn_to(stage, self.clock.now());
                    }
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

    /// Carries out the requests of the current step, and returns the next one. Returns `None` if a
    /// request is pending or waits for the next turn.
    pub fn carry_out(&mut self, token: Token, operation: &mut Operation) -> Option<Step> {
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
        run.step_observers.clear();
        run.answer = Answer::Done;
        (run.changes, run.cached) = (false, false);
        run.requests.clear();
        let step = match step {
            Step::On { unit, step } => {
                run.on = self.shared.unit_of(&unit);
                if run.on.is_none() {
                    return Begun::Gone;
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
                    &*self.shared,
                );
                self.spread(order);
                return Begun::Waits(Waiting::Quiet);
            }
            Step::Save { image } => {
                run.answer = Answer::Saved;
                let path = entry.mapped.unit.state_file.clone();
                self.lane.run_blocking(Ticket::new(token.0), move || {
                    state_file::save(&path, &image)
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

    /// Submits the requests of the current step one after the other. `None` where one is pending,
    /// or waits for the next turn; the operation says which.
    pub fn submit_requests(&mut self, token: Token, operation: &mut Operation) -> Option<Outcome> {
        let (Work::Task(run), Some(entry)) = (&mut operation.work, &mut operation.entry) else {
            return Some(Ok(Done::Nothing));
        };
        let now = self.clock.now();
        let mut outcome = Ok(Done::Nothing);
        loop {
            run.flush_if_late(&entry.mapped.unit);
            if run.requests.is_empty() {
                break;
            }
            if self.turn.is_over() {
                operation.waiting = Waiting::NextTurn;
                entry.stopwatch.turn_to(CommandStage::Queue, now);
                self.turn.wait(token);
                return None;
            }
            let Some(request) = run.requests.pop_front() else {
                break;
            };
            let unit = run.on.as_ref().unwrap_or(&entry.mapped.unit);
            unit.note_request(&request);
            entry.stopwatch.turn_to(CommandStage::Device, now);
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
    pub fn answer(&mut self, operation: &mut Operation, outcome: Outcome) -> Step {
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
        unit.note_reopening();
        match (outcome, run.answer) {
            (Ok(Done::Pages(pages)), Answer::Blocks) => {
                run.task.step(Input::Blocks(&pages.to_vec()))
            }
            (Ok(Done::Extents(extents)), Answer::Extents(asked)) => run
                .task
                .step(Input::Extents(&to_extents(unit, asked, &extents))),
            (Ok(_), _) => run.task.step(Input::Done),
            (Err(error), _) => {
                let initiator = &entry.mapped.itl.nexus().initiator.name;
                unit.note_error(&error, Some(initiator));
                run.task.step(Input::Failed(scsi_error(unit, &error)))
            }
        }
    }
}

enum Begun {
    Requests,
    /// The unit of the step was deleted meanwhile.
    Gone,
    Waits(Waiting),
}

/// Returns the refusal if the current step may not change blocks any more.
///
/// The gates are asked again: data-out and the range took their time, and a reservation granted
/// meanwhile fences the step. The task itself asks for what it does on other units. A task that
/// outlives its command is asked nothing. Reading is not asked about again: a reservation need not
/// apply to commands that came before it was granted (SPC-4 5.13), and data that an initiator read
/// before it was fenced harms no one.
fn fenced(operation: &mut Operation) -> Option<Response> {
    let (Work::Task(run), Some(entry)) = (&mut operation.work, &operation.entry) else {
        return None;
    };
    if let Some(response) = run.task.refused() {
        return Some(response);
    }
    if !run.changes || run.task.outlives_its_command() {
        return None;
    }
    entry.mapped.itl.may_still_run(true).err()
}

fn abort_order<S: Peers>(
    entry: &TaskEntry,
    session: SessionKey,
    task: TaskKey,
    scope: scsi::AbortScope,
    token: Token,
    shared: &S,
) -> AbortOrder<S::Function> {
    AbortOrder {
        unit: entry.mapped.unit.clone(),
        whose: match scope {
            scsi::AbortScope::Registrants(registrants) => Whose::Registrants(registrants),
            scsi::AbortScope::All => Whose::All,
        },
        except: Some((session, task)),
        by: entry.mapped.itl.nexus().id,
        function: None,
        tell: entry.mapped.unit.logical.task_aborted_status(),
        cleared: true,
        signal: QuietSignal::new(token, shared.loops().wake()),
    }
}
