//! Task management functions (RFC 7143 §11.5, SAM-5 7): the tasks that they reach, on every loop,
//! and the time at which they may be answered.
//!
//! A function is answered only when every task that it aborts is quiet. A write that a device has
//! taken cannot be called back, so the answer waits for its end.

use std::sync::Arc;

use iscsi::lun;
use iscsi::pdu::{
    TaskManagementFunction as Function, TaskManagementRequest, TaskManagementResult as Answer,
    TextRequest,
};
use iscsi::target::TaskId;
use iscsi::target::discovery::TextContext;
use scsi::UnitAttention;
use scsi::logical_unit::Reset;
use scsi::task_set::TaskSetType;

use super::event_loop::EventLoop;
use super::message::{AbortOrder, Message};
use super::payload;
use crate::session::served_session::Visible;
use unit::command::abort::Whose;
use unit::command::ended::Ended;
use unit::command::operation::{Operation, SessionKey, TaskKey, Waiting, Work};
use unit::nexus::MappedUnit;
use unit::quiet_signal::QuietSignal;
use unit::timing::rare::Cause;

/// Most task management functions that may wait beside one for each task of a session.
const FUNCTIONS_BESIDE_TASKS: u32 = 8;

impl EventLoop {
    pub(super) fn task_management(
        &mut self,
        key: SessionKey,
        connection: usize,
        request: &TaskManagementRequest,
        referenced: Option<TaskId>,
    ) {
        let Some(session) = self.sessions.get(&key) else {
            return;
        };
        let mapped = session.view.find(request.lun).cloned();
        let itt = request.itt;
        let answer = |event_loop: &mut Self, result| {
            event_loop.answer_task_management(key, connection, itt, result)
        };
        // Each waiting function is remembered; nobody has reason to ask for more than they have
        // tasks.
        if session.functions_waiting >= session.queue_depth + FUNCTIONS_BESIDE_TASKS {
            return answer(self, Answer::Rejected);
        }
        match request.function {
            Function::AbortTask => match referenced {
                Some(task) => self.abort_task(key, connection, request, task),
                None => answer(self, Answer::TaskDoesNotExist),
            },
            Function::AbortTaskSet | Function::ClearTaskSet | Function::LogicalUnitReset => {
                match mapped {
                    Some(mapped) => self.abort_task_set(key, connection, request, &mapped),
                    None => answer(self, Answer::LunDoesNotExist),
                }
            }
            Function::TargetWarmReset | Function::TargetColdReset => {
                self.reset_target(key, connection, request)
            }
            Function::TaskReassign => answer(self, Answer::ReassignmentNotSupported),
            // There is no ACA. The functions of RFC 7144 need an iSCSIProtocolLevel of 2, which is
            // not negotiated. REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS reports accordingly.
            _ => answer(self, Answer::NotSupported),
        }
    }

    pub(super) fn answer_task_management(
        &mut self,
        key: SessionKey,
        connection: usize,
        itt: u32,
        result: Answer,
    ) {
        let Some(session) = self.sessions.get_mut(&key) else {
            return;
        };
        session
            .protocol
            .task_management_response(connection, itt, result);
        if let Some(slot) = session.connections.get(&connection).copied() {
            self.mark_dirty(slot);
        }
    }

    /// Adds an operation that answers once its signal fires.
    fn answer_when_quiet(
        &mut self,
        key: SessionKey,
        connection: usize,
        itt: u32,
    ) -> Arc<QuietSignal> {
        if let Some(session) = self.sessions.get_mut(&key) {
            session.functions_waiting += 1;
        }
        let token = self.core.operations.insert(Operation {
            session: key,
            task: TaskKey::NONE,
            entry: None,
            work: Work::Answer((connection as u64) << 32 | u64::from(itt)),
            waiting: Waiting::Quiet,
            held: Vec::new(),
            cancelled: false,
            fenced_off: false,
            data_out_wanted: None,
            observers: Vec::new(),
        });
        QuietSignal::new(token, self.core.shared.serving.wake())
    }

    /// Answers the function that [`Self::answer_when_quiet`] was asked about.
    pub(super) fn answer_when_asked(&mut self, key: SessionKey, number: u64) {
        let (connection, itt) = ((number >> 32) as usize, number as u32);
        self.answer_task_management(key, connection, itt, Answer::Complete);
    }

    fn abort_task(
        &mut self,
        key: SessionKey,
        connection: usize,
        request: &TaskManagementRequest,
        task: TaskId,
    ) {
        let itt = request.itt;
        if let Some(session) = self.sessions.get(&key)
            && let Some(mapped) = session.view.find(request.lun)
        {
            mapped.tally.add_aborted(1, Cause::Abort);
        }
        let signal = self.answer_when_quiet(key, connection, itt);
        self.abort_one(key, task, false, &signal);
    }

    /// Aborts one task of a session of this loop. `signal` is kept until the task is quiet.
    fn abort_one(&mut self, key: SessionKey, task: TaskId, tell: bool, signal: &Arc<QuietSignal>) {
        let Some(session) = self.sessions.get_mut(&key) else {
            return;
        };
        let running = session.protocol.abort(task, tell);
        let token = self.core.operations.find(key, payload::key(task));
        match token {
            Some(token) => {
                if let Some(operation) = self.core.operations.get_mut(token) {
                    operation.observers.push(signal.clone());
                }
                if self.core.cancel(token) && running {
                    self.complete(key, payload::key(task), Ended::good(None));
                }
            }
            None if running => self.complete(key, payload::key(task), Ended::good(None)),
            None => {}
        }
        if let Some(session) = self.sessions.get(&key) {
            let slots: Vec<usize> = session.connections.values().copied().collect();
            slots.into_iter().for_each(|slot| self.mark_dirty(slot));
        }
    }

    fn abort_task_set(
        &mut self,
        key: SessionKey,
        connection: usize,
        request: &TaskManagementRequest,
        mapped: &Arc<MappedUnit>,
    ) {
        let by = mapped.itl.nexus().id;
        let logical = &mapped.unit.logical;
        // CLEAR TASK SET clears the task set of its nexus. If each nexus has a task set, this is
        // what ABORT TASK SET does, and no other nexus is affected (SAM-5 7.5).
        let only_own = match request.function {
            Function::AbortTaskSet => true,
            Function::ClearTaskSet => logical.task_set_type() == TaskSetType::PerNexus,
            _ => false,
        };
        let order = AbortOrder {
            unit: mapped.unit.clone(),
            whose: if only_own {
                Whose::Nexus(by)
            } else {
                Whose::All
            },
            except: None,
            by,
            function: Some((*request, connection)),
            tell: logical.task_aborted_status() && !only_own,
            cleared: request.function == Function::ClearTaskSet,
            signal: self.answer_when_quiet(key, connection, request.itt),
        };
        if request.function == Function::LogicalUnitReset {
            let signal = order.signal.clone();
            self.core.reset(&mapped.unit, Reset::LogicalUnit, signal);
        }
        self.core.spread(order);
    }

    /// Resets every unit that the initiator sees at the target. Units that it does not see are not
    /// its to reset.
    fn reset_target(
        &mut self,
        key: SessionKey,
        connection: usize,
        request: &TaskManagementRequest,
    ) {
        let Some(session) = self.sessions.get(&key) else {
            return;
        };
        let target = session.name.target.clone();
        let units: Vec<Arc<MappedUnit>> = session.view.iter().cloned().collect();
        let cold = request.function == Function::TargetColdReset;
        let signal = self.answer_when_quiet(key, connection, request.itt);
        for mapped in units {
            let by = mapped.itl.nexus().id;
            let cause = match cold {
                true => Reset::TargetCold,
                false => Reset::TargetWarm,
            };
            self.core.reset(&mapped.unit, cause, signal.clone());
            let tell = mapped.unit.logical.task_aborted_status();
            let unit = mapped.unit.clone();
            self.core.spread(AbortOrder {
                unit,
                whose: Whose::All,
                except: None,
                by,
                function: Some((*request, connection)),
                tell,
                cleared: false,
                signal: signal.clone(),
            });
        }
        drop(signal);
        if cold {
            // A cold reset ends every session of the target (RFC 7143 §11.5.1).
            self.core
                .shared
                .send_to_all(|| Message::DismissTarget(target.clone(), "target cold reset"));
        }
    }

    /// Carries out the abort orders of this loop and of others.
    pub(super) fn carry_out_orders(&mut self) {
        for order in std::mem::take(&mut self.core.orders) {
            self.core.wait_for_what_is_left(&order);
            let mut victims = Vec::new();
            for (key, session) in &self.sessions {
                let Some(nexus) = &session.nexus else {
                    continue;
                };
                if !order.whose.includes(nexus) {
                    continue;
                }
                let Some(mapped) = session
                    .view
                    .iter()
                    .find(|mapped| Arc::ptr_eq(&mapped.unit, &order.unit))
                else {
                    continue;
                };
                let tell = order.tell && nexus.id != order.by;
                let of_unit = |lun| lun::from_wire(lun) == Some(mapped.lun);
                let tasks = match &order.function {
                    Some((request, connection)) if nexus.id == order.by => {
                        let protocol = &session.protocol;
                        protocol.tasks_before(request, *connection, of_unit)
                    }
                    _ => session.protocol.tasks(of_unit),
                };
                if order.cleared && !tell && nexus.id != order.by && !tasks.is_empty() {
                    mapped
                        .itl
                        .raise(UnitAttention::COMMANDS_CLEARED_BY_ANOTHER_INITIATOR);
                }
                let others = |task: &&TaskId| order.except != Some((*key, payload::key(**task)));
                let aborted = tasks.iter().filter(others).count();
                let cause = match &order.function {
                    Some((request, _)) => cause(request.function),
                    None => Cause::Abort,
                };
                mapped.tally.add_aborted(aborted as u64, cause);
                victims.extend(tasks.into_iter().map(|task| (*key, task, tell)));
            }
            for (key, task, tell) in victims {
                if order.except != Some((key, payload::key(task))) {
                    self.abort_one(key, task, tell, &order.signal);
                }
            }
        }
    }

    /// Aborts the tasks of a LUN that left a session's view.
    pub(super) fn abort_lun(&mut self, key: SessionKey, lun: u16) {
        let Some(session) = self.sessions.get_mut(&key) else {
            return;
        };
        for task in session
            .protocol
            .tasks(|wire| lun::from_wire(wire) == Some(lun))
        {
            session.protocol.abort(task, true);
        }
        self.cancel_orphans(key);
    }

    /// Answers SendTargets and other text requests.
    pub(super) fn text_request(
        &mut self,
        key: SessionKey,
        index: usize,
        request: &TextRequest,
        data: &[u8],
    ) {
        let directory = self.core.shared.directory();
        let Some(session) = self.sessions.get_mut(&key) else {
            return;
        };
        let Some(slot) = session.connections.get(&index).copied() else {
            return;
        };
        let Some(connection) = self.connections.get_mut(slot) else {
            return;
        };
        let context = TextContext {
            session_kind: session.login.identity.session_kind,
            target_name: session.login.identity.target_name.as_deref(),
            peer_max_recv_data_segment_length: session
                .protocol
                .initiator_max_recv_data_segment_length(index),
        };
        let visible = Visible {
            config: &directory.config,
            initiator: &session.name.initiator,
            local: connection.local,
        };
        match connection.text.receive(request, data, &context, &visible) {
            Ok(reply) => {
                session
                    .protocol
                    .text_response(index, reply.header, reply.data);
                if let Some(length) = reply.peer_max_recv_data_segment_length {
                    session
                        .protocol
                        .set_initiator_max_recv_data_segment_length(index, length);
                }
            }
            Err(refusal) => {
                tracing::warn!(peer = %connection.peer, "text request refused: {refusal}");
                session.protocol.text_reject(index, request, refusal.reason);
            }
        }
        self.mark_dirty(slot);
    }
}

/// Returns the cause for which tasks end that a task management function reaches.
fn cause(function: Function) -> Cause {
    match function {
        Function::LogicalUnitReset | Function::TargetWarmReset | Function::TargetColdReset => {
            Cause::Reset
        }
        _ => Cause::Abort,
    }
}
