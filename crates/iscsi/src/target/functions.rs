//! Task management functions, and the commands that they overtake: where a session has several connections, a
//! function may be heard before commands that were sent ahead of it (RFC 7143 §4.2.3.3, §11.6.1).
//!
//! - ABORT TASK of a command that has not come, or not come to its turn: its CmdSN is considered received, and
//!   the command is dropped when it comes.
//! - A function for all tasks of a unit waits until every command that was sent before it has come. Those have
//!   begun then, and are found where all tasks are. Where the missing ones can come no more, on the one connection
//!   that is left, what waits for them is aborted before it begins.
//! - Commands that were sent after a function and overtook it are not its.
//! - A function for the whole target does not wait: every CmdSN before its own is considered received.

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

/// Functions of a session that may wait for commands sent before them; nobody has reason to ask for more.
const MAX_WAITING: usize = 8;

/// A function that waits for commands sent before it.
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
    /// A task management request whose turn it is, or that is immediate.
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

    /// The task that ABORT TASK names by LUN and tag; another unit's task is not meant (RFC 7143 §11.5.4).
    /// One whose own PDU is still arriving is among them; one that was sent after the function, with the tag of
    /// a task that is over, is not.
    fn task_to_abort(&self, index: usize, request: &TaskManagementRequest) -> Option<TaskId> {
        let mut tasks = self.tasks.iter();
        let named = tasks.find(|(_, task)| task.itt == request.referenced_task_tag)?;
        let meant = lun::is_same(named.1.lun, request.lun) && named.1.is_before(request, index);
        meant.then_some(named.0)
    }

    /// ABORT TASK of a command that has not begun. Whether there is, or may be, such a command.
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

    /// Whether commands that were sent before this function can still come. On one connection nothing is
    /// overtaken: what is missing there was refused, or belonged to a connection that is gone.
    fn overtakes(&self, request: &TaskManagementRequest) -> bool {
        let (next, last) = self.command_window();
        before(next, request.cmd_sn)
            && at_or_before(request.cmd_sn, last.wrapping_add(1))
            && self.live_connections() > 1
    }

    /// Considers every command before this function received. Requests of other kinds have their turn.
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

    /// Moves ExpCmdSN over what is considered received.
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

    /// Whether the request that is due was considered received, and is to be dropped.
    #[inline]
    pub(super) fn was_considered_received(&mut self, bhs: &RawBhs) -> bool {
        if self.considered_received.is_empty() || !self.considered_received.remove(&cmd_sn(bhs)) {
            return false;
        }
        self.open_window();
        true
    }

    /// The tasks that a function for many reaches, of those for which `select(lun)` holds: what was sent before
    /// it on this session (RFC 7143 §4.2.3.2). `connection` is where it came.
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

    /// What was sent before a function for a unit and waits for its turn is aborted with what runs.
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

    /// The first function before which nothing is missing any more. To be asked for until there is none after
    /// [`Session::remove_connection`], too: what was missing may have been on that one.
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
    /// Whether it was sent before a function that came on this connection. Only what came on another can have
    /// overtaken it, or is immediate and came while it waited. CmdSNs are not asked where order tells: some
    /// initiators number their functions as they like.
    fn is_before(&self, request: &TaskManagementRequest, connection: usize) -> bool {
        if self.connection == connection && !self.immediate {
            return true;
        }
        // Immediate ones share the CmdSN of what follows them: what came first is taken for the first.
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
