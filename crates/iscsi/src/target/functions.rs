//! Task management functions, and the commands that they overtake. If a session has several
//! connections, a function may arrive before commands that were sent ahead of it (RFC 7143
//! §4.2.3.3, §11.6.1).
//!
//! - ABORT TASK may name a command that has not come, or not come to its turn. Its CmdSN is then
//!   considered received, and the command is dropped when it comes.
//! - A function for all tasks of a unit waits until every command that was sent before it has come.
//!   Those commands have begun then, and are found among all tasks. If only one connection is left,
//!   missing commands can come no more. Commands that wait for them are then aborted before they
//!   begin.
//! - Commands that were sent after a function and overtook it are not affected by it.
//! - A function for the whole target does not wait: every CmdSN before its own is considered
//!   received.

use super::command::cmd_sn;
use super::early::Early;
use super::session::{Event, Session};
use super::task_table::{Task, TaskId};
use crate::lun;
use crate::payload::{DataOutBuffer, Payload};
use crate::pdu::{
    RawBhs, ScsiCommand, TaskManagementFunction, TaskManagementRequest, TaskManagementResult,
};
use crate::serial_number::{at_or_before, before, in_window};

/// Most functions of a session that may wait for commands sent before them. No initiator has reason
/// to ask for more.
const MAX_WAITING: usize = 8;

/// Function that waits for commands sent before it.
#[derive(Debug)]
pub(super) struct WaitingFunction {
    pub(super) connection: usize,
    request: TaskManagementRequest,
}

impl WaitingFunction {
    fn into_event(self) -> Event {
        Event::TaskManagement {
            request: self.request,
            referenced: None,
            connection: self.connection,
        }
    }
}

impl<P: Payload + From<Vec<u8>>, B: DataOutBuffer> Session<P, B> {
    /// Handles a task management request whose turn it is, or that is immediate.
    pub(super) fn task_management(&mut self, index: usize, bhs: &RawBhs) -> Option<Event> {
        let request = TaskManagementRequest::parse(bhs).ok()?;
        let function = WaitingFunction {
            connection: index,
            request,
        };
        match request.function {
            TaskManagementFunction::AbortTask => {
                let referenced = self.task_to_abort(index, &request);
                if referenced.is_none() && self.abort_unheard(index, &request) {
                    let complete = TaskManagementResult::Complete;
                    self.task_management_response(index, request.itt, complete);
                    return None;
                }
                Some(Event::TaskManagement {
                    request,
                    referenced,
                    connection: index,
                })
            }
            TaskManagementFunction::AbortTaskSet
            | TaskManagementFunction::ClearTaskSet
            | TaskManagementFunction::LogicalUnitReset
                if self.overtakes(&request) =>
            {
                if self.functions.len() == MAX_WAITING {
                    let rejected = TaskManagementResult::Rejected;
                    self.task_management_response(index, request.itt, rejected);
                } else {
                    self.functions.push(function);
                }
                None
            }
            TaskManagementFunction::AbortTaskSet
            | TaskManagementFunction::ClearTaskSet
            | TaskManagementFunction::LogicalUnitReset => {
                self.abort_early(&request);
                self.note_function_for_many(index, request.itt);
                Some(function.into_event())
            }
            TaskManagementFunction::TargetWarmReset | TaskManagementFunction::TargetColdReset => {
                self.consider_all_received(&request);
                self.note_function_for_many(index, request.itt);
                Some(function.into_event())
            }
            _ => Some(function.into_event()),
        }
    }

    /// Returns the task that ABORT TASK names by LUN and tag. A task of another unit is not meant
    /// (RFC 7143 §11.5.4).
    ///
    /// A task whose own PDU is still arriving counts. A task that was sent after the function, with
    /// the tag of a finished task, does not.
    fn task_to_abort(&self, index: usize, request: &TaskManagementRequest) -> Option<TaskId> {
        let mut tasks = self.tasks.iter();
        let named = tasks.find(|(_, task)| task.itt == request.referenced_task_tag)?;
        let meant = lun::is_same(named.1.lun, request.lun) && named.1.is_before(request, index);
        meant.then_some(named.0)
    }

    /// Aborts a command that has not begun, for ABORT TASK. Returns whether there is, or may be, a
    /// command with that tag.
    fn abort_unheard(&mut self, index: usize, request: &TaskManagementRequest) -> bool {
        let (first, last) = self.command_window();
        let mut early = self.early.iter();
        let early = early
            .find(|(cmd_sn, early)| {
                let in_order = early.connection == index || before(**cmd_sn, request.cmd_sn);
                in_order && early.is_task(request)
            })
            .map(|it| *it.0);
        let cmd_sn = match early {
            Some(cmd_sn) => cmd_sn,
            None if in_window(request.ref_cmd_sn, first, last)
                && before(request.ref_cmd_sn, request.cmd_sn)
                && !self.early.contains_key(&request.ref_cmd_sn) =>
            {
                request.ref_cmd_sn
            }
            None => return false,
        };
        self.early.remove(&cmd_sn);
        self.considered_received.insert(cmd_sn);
        self.skip_considered_received();
        self.open_window();
        true
    }

    /// Reports whether commands that were sent before this function can still come. On one
    /// connection nothing is overtaken: missing commands were refused, or belonged to a connection
    /// that is gone.
    fn overtakes(&self, request: &TaskManagementRequest) -> bool {
        let (next, last) = self.command_window();
        before(next, request.cmd_sn)
            && at_or_before(request.cmd_sn, last.wrapping_add(1))
            && self.live_connections() > 1
    }

    /// Considers every command before this function received. Requests of other kinds keep their
    /// turn.
    fn consider_all_received(&mut self, request: &TaskManagementRequest) {
        let (next, last) = self.command_window();
        let mut cmd_sn = next;
        while before(cmd_sn, request.cmd_sn) && in_window(cmd_sn, next, last) {
            if self.early.get(&cmd_sn).is_none_or(Early::is_command) {
                self.early.remove(&cmd_sn);
                self.considered_received.insert(cmd_sn);
            }
            cmd_sn = cmd_sn.wrapping_add(1);
        }
        self.skip_considered_received();
        self.open_window();
    }

    /// Moves ExpCmdSN over the CmdSNs that are considered received.
    pub(super) fn skip_considered_received(&mut self) {
        while !self.considered_received.is_empty() {
            let next = self.window.exp_cmd_sn();
            if !self.considered_received.remove(&next) {
                return;
            }
            self.window.arrive(next);
            self.open_window();
        }
    }

    /// Reports whether the request that is due was considered received, and is to be dropped.
    #[inline]
    pub(super) fn was_considered_received(&mut self, bhs: &RawBhs) -> bool {
        if self.considered_received.is_empty() || !self.considered_received.remove(&cmd_sn(bhs)) {
            return false;
        }
        self.open_window();
        true
    }

    /// Returns the tasks that a function for many tasks reaches, if `select(lun)` holds for them.
    /// They were sent before the function on this session (RFC 7143 §4.2.3.2). `connection` is the
    /// one on which the function came.
    pub fn tasks_before(
        &self,
        request: &TaskManagementRequest,
        connection: usize,
        mut select: impl FnMut(u64) -> bool,
    ) -> Vec<TaskId> {
        self.tasks
            .iter()
            .filter(|(_, task)| select(task.lun) && task.is_before(request, connection))
            .map(|(id, _)| id)
            .collect()
    }

    /// Aborts commands that were sent before a function for a unit and wait for their turn.
    fn abort_early(&mut self, request: &TaskManagementRequest) {
        let early = self.early.iter();
        let early = early.filter(|(cmd_sn, early)| {
            before(**cmd_sn, request.cmd_sn) && early.is_for(request.lun)
        });
        let aborted: Vec<u32> = early.map(|(cmd_sn, _)| *cmd_sn).collect();
        for cmd_sn in aborted {
            self.early.remove(&cmd_sn);
            self.considered_received.insert(cmd_sn);
        }
        self.skip_considered_received();
        self.open_window();
    }

    /// Returns the first function before which no command is missing any more. After
    /// [`Session::remove_connection`] it must be called until it returns `None`, because the
    /// missing command may have been on that connection.
    pub fn due_function(&mut self) -> Option<Event> {
        let mut functions = self.functions.iter();
        let due = functions.position(|function| !self.overtakes(&function.request))?;
        let function = self.functions.remove(due);
        self.abort_early(&function.request);
        self.note_function_for_many(function.connection, function.request.itt);
        Some(function.into_event())
    }
}

impl<B> Task<B> {
    /// Reports whether the task was sent before a function that came on this connection.
    ///
    /// Only a task of another connection can have overtaken the function, or an immediate one that
    /// came while the function waited. CmdSNs are not compared if the order of arrival already
    /// decides, because some initiators number their functions as they like.
    fn is_before(&self, request: &TaskManagementRequest, connection: usize) -> bool {
        if self.connection == connection && !self.immediate {
            return true;
        }
        // An immediate command shares the CmdSN of the command that follows it. The one that came
        // first counts as the earlier one.
        before(self.cmd_sn, request.cmd_sn) || self.immediate && self.cmd_sn == request.cmd_sn
    }
}

impl Early {
    fn is_command(&self) -> bool {
        ScsiCommand::parse(&self.bhs).is_ok()
    }

    fn is_for(&self, lun: u64) -> bool {
        ScsiCommand::parse(&self.bhs).is_ok_and(|command| lun::is_same(command.lun, lun))
    }

    fn is_task(&self, request: &TaskManagementRequest) -> bool {
        ScsiCommand::parse(&self.bhs).is_ok_and(|command| {
            command.itt == request.referenced_task_tag && lun::is_same(command.lun, request.lun)
        })
    }
}
