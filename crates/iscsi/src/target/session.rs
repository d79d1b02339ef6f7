//! Session in the full-feature phase: bytes in, commands to the device server, responses out (RFC
//! 7143 §4.2, §6).
//!
//! The runtime owns the sockets. It feeds received bytes to [`Session::receive`], writes the bytes
//! that [`Session::gather`] offers, and gives the ends of commands to [`Session::complete`]. A
//! command that the device server finishes at once is answered inside `receive`, without a table
//! entry or an allocation. That is the common case for cached reads and writes.
//!
//! # Invariants
//! - Commands reach the [`TaskRouter`] in CmdSN order, whichever connection they came on. Immediate
//!   ones reach it at once.
//! - A command's data and response leave on the connection on which it came (connection
//!   allegiance).
//! - There is at most one response per command, and none after it was aborted (unless TASK ABORTED
//!   is owed).
//! - MaxCmdSN never goes back.
//! - A task management function reaches every command that was sent before it, whichever connection
//!   either came on.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use super::answers::Answers;
use super::command_window::CommandWindow;
use super::connection::{Connection, ConnectionSettings, SessionSettings, Sink};
use super::early::Early;
use super::functions::WaitingFunction;
use super::receive::{Piece, ReceiveError};
use super::task_table::{Task, TaskId, TaskTable};
use crate::payload::{DataOutBuffer, Payload};
use crate::pdu::{Bhs, LogoutRequest, RawBhs, TaskAttribute, TaskManagementRequest, TextRequest};

/// Command that is handed to the device server.
#[derive(Clone, Copy, Debug)]
pub struct IncomingCommand<'a> {
    /// LUN as on the wire (SAM-5 4.6).
    pub lun: u64,
    /// Whole CDB: 16 bytes, or more with an extended CDB segment.
    pub cdb: &'a [u8],
    /// Order of the command among others.
    pub attribute: TaskAttribute,
    /// Bytes of data-in that the initiator takes. There are none without the R bit, and none with
    /// both R and W, since no command here moves data both ways.
    pub data_in_length: u32,
    /// Bytes of data-out that the initiator offers, or `None` without the W bit.
    pub data_out_length: Option<u32>,
}

/// Decision of the device server about a command, or about its data-out.
#[derive(Debug)]
pub enum Admission<P: Payload, B> {
    /// The command has ended.
    Done(Completion<P>),
    /// The command runs, and [`Session::complete`] will be called.
    Running,
    /// The command first wants `wanted` bytes of data-out in `buffer`. If the initiator offers
    /// fewer, fewer are collected and the response reports the overflow.
    Collect {
        /// Buffer for the bytes.
        buffer: B,
        /// Number of bytes that the command takes.
        wanted: u32,
    },
}

/// End of a command.
#[derive(Debug)]
pub struct Completion<P: Payload> {
    /// SCSI status.
    pub status: u8,
    /// Sense data without its length.
    pub sense: Vec<u8>,
    /// Data-in of the command.
    pub data_in: Option<P>,
    /// Bytes of data-out that the command takes by its CDB, for the residual, unless
    /// [`Admission::Collect`] already said so.
    pub data_out_wanted: Option<u32>,
    /// Record that comes back by [`Session::take_receipt`] once the answer has left. An answer
    /// that is never sent gives none back.
    pub receipt: Option<P::Receipt>,
}

/// Device server behind a session (SAM-5's task router and the logical units behind it).
pub trait TaskRouter {
    /// Data on its way out.
    type Payload: Payload + From<Vec<u8>>;
    /// Space for data on its way in, with all that the device server must remember of the command.
    type Buffer: DataOutBuffer;

    /// Takes a command that arrived and whose turn it is. `task` names it until it ends.
    fn command(
        &mut self,
        task: TaskId,
        command: &IncomingCommand<'_>,
    ) -> Admission<Self::Payload, Self::Buffer>;

    /// Takes a command of which all data-out arrived. It must not answer [`Admission::Collect`].
    fn data_out(
        &mut self,
        task: TaskId,
        buffer: Self::Buffer,
        length: u32,
    ) -> Admission<Self::Payload, Self::Buffer>;

    /// Takes back the buffer of a command of which some data-out was lost on its way. The command
    /// has been answered with a CRC error. An implementation overrides this if the buffer needs
    /// more than a drop.
    fn data_out_lost(&mut self, task: TaskId, buffer: Self::Buffer) {
        let _ = (task, buffer);
    }
}

/// Request on which the runtime must act before more is received.
#[derive(Debug)]
pub enum Event {
    /// Task management function, to be answered with [`Session::task_management_response`].
    ///
    /// `referenced` is the task that ABORT TASK names, if it exists. Every command that was sent
    /// before a function for all tasks of a unit has begun.
    TaskManagement {
        /// Request of the initiator.
        request: TaskManagementRequest,
        /// Task to which the request refers.
        referenced: Option<TaskId>,
        /// Connection on which to answer.
        connection: usize,
    },
    /// Text request, to be answered with [`Session::text_response`].
    Text {
        /// Request of the initiator.
        request: TextRequest,
        /// Data segment of the request.
        data: Vec<u8>,
        /// Connection on which to answer.
        connection: usize,
    },
    /// The logout was answered. Close the connections that [`Session::is_logged_out`] names once
    /// their queues are empty.
    Logout(LogoutRequest),
}

/// Reasons why a connection must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionError {
    /// The stream cannot be followed.
    Receive(ReceiveError),
    /// The initiator violated the protocol. A Reject was queued.
    Protocol(&'static str),
    /// The initiator violated the layout of PDUs, so all connections of the session end (RFC 7143
    /// §7.7).
    Format(&'static str),
    /// A ping stayed unanswered.
    Silent,
    /// Data of a command that was asked for, or announced, does not come.
    DataOutOverdue,
    /// Requests wait for one with a lower CmdSN that does not come, so the session cannot go on.
    CommandMissing,
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Receive(error) => error.fmt(f),
            Self::Protocol(what) => write!(f, "protocol error: {what}"),
            Self::Format(what) => write!(f, "format error: {what}"),
            Self::Silent => f.write_str("the initiator did not answer NOP-In"),
            Self::DataOutOverdue => f.write_str("the data of a command did not arrive"),
            Self::CommandMissing => {
                f.write_str("a command that later commands wait for did not arrive")
            }
        }
    }
}

impl std::error::Error for ConnectionError {}

impl From<ReceiveError> for ConnectionError {
    fn from(error: ReceiveError) -> Self {
        Self::Receive(error)
    }
}

/// Counters of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionCounters {
    /// SCSI commands.
    pub commands: u64,
    /// Bytes of data-in sent.
    pub data_in_bytes: u64,
    /// Bytes of data-out received.
    pub data_out_bytes: u64,
    /// Data digest errors.
    pub digest_errors: u64,
}

/// Session of an initiator with this target.
#[derive(Debug)]
pub struct Session<P: Payload, B> {
    pub(super) settings: SessionSettings,
    pub(super) window: CommandWindow,
    pub(super) depth: u32,
    pub(super) tasks: TaskTable<B>,
    pub(super) connections: Vec<Option<Connection<P>>>,
    pub(super) early: BTreeMap<u32, Early>,
    /// CmdSNs of commands that were aborted before their turn. They are passed over, and dropped if
    /// they come.
    pub(super) considered_received: BTreeSet<u32>,
    /// Functions that wait for commands sent before them.
    pub(super) functions: Vec<WaitingFunction>,
    /// Missing CmdSN for which others wait, and the time at which the gap was seen first.
    pub(super) gap: Option<(u32, Duration)>,
    /// Answers that wait for events that must come before them.
    pub(super) answers: Answers,
    /// Whether the session was logged out as a whole.
    pub(super) logged_out: bool,
    /// Rule of layout that a PDU broke.
    pub(super) format_error: Option<&'static str>,
    pub(super) counters: SessionCounters,
}

impl<P: Payload + From<Vec<u8>>, B: DataOutBuffer> Session<P, B> {
    /// Makes a session without connections.
    pub fn new(settings: SessionSettings) -> Self {
        Self {
            window: CommandWindow::new(settings.exp_cmd_sn, settings.queue_depth),
            depth: settings.queue_depth,
            settings,
            tasks: TaskTable::new(),
            connections: Vec::new(),
            early: BTreeMap::new(),
            considered_received: BTreeSet::new(),
            functions: Vec::new(),
            gap: None,
            answers: Answers::default(),
            logged_out: false,
            format_error: None,
            counters: SessionCounters::default(),
        }
    }

    /// Adds a connection that has logged in, and returns its index.
    ///
    /// A connection that was on its way while the session was logged out is logged out with it.
    /// Otherwise the session would go on without the knowledge of its initiator.
    pub fn add_connection(&mut self, settings: &ConnectionSettings, now: Duration) -> usize {
        let mut connection = Connection::new(settings, now);
        connection.logged_out = self.logged_out;
        let connection = Some(connection);
        if let Some(free) = self.connections.iter().position(Option::is_none) {
            self.connections[free] = connection;
            return free;
        }
        self.connections.push(connection);
        self.connections.len() - 1
    }

    /// Removes a connection with its tasks (ERL 0: they die with it), and returns those that the
    /// device server still runs. Their ends are to be reported with [`Session::complete`] as usual.
    pub fn remove_connection(&mut self, index: usize) -> Vec<TaskId> {
        self.connections[index] = None;
        self.forget_answers(index);
        self.forget_logouts(index);
        self.discard(index)
    }

    /// Discards all that waits on a connection, and its tasks.
    pub(super) fn discard(&mut self, index: usize) -> Vec<TaskId> {
        self.early.retain(|_, early| early.connection != index);
        self.functions
            .retain(|function| function.connection != index);
        self.lose_tasks(index)
    }

    /// Lets the tasks of a connection die with it, unanswered. Their tags may be used again at
    /// once. Returns the tasks that the device server still runs.
    fn lose_tasks(&mut self, index: usize) -> Vec<TaskId> {
        let tasks = self.tasks.iter();
        let tasks = tasks.filter(|(_, task)| task.connection == index);
        let ids: Vec<TaskId> = tasks.map(|(id, _)| id).collect();
        ids.into_iter()
            .filter(|id| {
                let running = self.abort(*id, false);
                self.tasks.forget_tag(*id);
                if let Some(task) = self.tasks.get_mut(*id) {
                    // This cancels any promise of an earlier abort.
                    task.aborted = Some(false);
                }
                running
            })
            .collect()
    }

    /// Reports whether no connection is left.
    pub fn is_empty(&self) -> bool {
        self.connections.iter().all(Option::is_none)
    }

    /// Returns the index of the connection with this id.
    pub fn find_connection(&self, cid: u16) -> Option<usize> {
        self.connections.iter().position(|slot| {
            slot.as_ref()
                .is_some_and(|connection| connection.cid == cid)
        })
    }

    /// Returns the indices and ids of the connections.
    pub fn connections(&self) -> impl Iterator<Item = (usize, u16)> {
        self.connections
            .iter()
            .enumerate()
            .filter_map(|(index, slot)| Some((index, slot.as_ref()?.cid)))
    }

    /// Reports whether this connection was logged out and is to be closed once nothing is queued on
    /// it.
    pub fn is_logged_out(&self, index: usize) -> bool {
        self.connections[index]
            .as_ref()
            .is_none_or(|connection| connection.logged_out)
            && !self.answers.owes_logout(index)
    }

    /// Reports whether the initiator has logged out every connection of the session.
    pub fn is_over(&self) -> bool {
        let mut connections = self.connections.iter().flatten();
        connections.all(|connection| connection.logged_out)
    }

    /// Returns the counters of the session so far.
    pub fn counters(&self) -> SessionCounters {
        self.counters
    }

    /// Returns ExpCmdSN and MaxCmdSN as they are now, for the login response of a further
    /// connection.
    #[inline]
    pub fn command_window(&self) -> (u32, u32) {
        (self.window.exp_cmd_sn(), self.window.max_cmd_sn())
    }

    /// Returns the number of commands that have not ended.
    pub fn in_flight(&self) -> usize {
        self.tasks.len() + self.early.len()
    }

    /// Returns the number of commands whose data-out is still to come.
    pub fn collecting(&self) -> usize {
        let tasks = self.tasks.iter();
        tasks.filter(|(_, task)| task.transfer.is_some()).count()
    }

    /// Returns the number of commands for which the initiator waited when it sent its last PDU on
    /// this connection. Its ExpStatSN tells the number (RFC 7143 §4.2.2.2). The commands are in
    /// flight, or the initiator did not have their status yet. The number is a hint, because the
    /// initiator may send any ExpStatSN.
    pub fn outstanding(&self, index: usize) -> u32 {
        let unheard = self.connections[index].as_ref().map_or(0, |connection| {
            connection.stat_sn.wrapping_sub(connection.exp_stat_sn)
        });
        unheard.saturating_add(self.in_flight() as u32)
    }

    /// Returns the headers of the PDUs that [`Session::receive`] will find in `input`, so that the
    /// caller can prepare for them. They are not checked, and may be used only to save time.
    pub fn upcoming<'i>(
        &self,
        index: usize,
        input: &'i [u8],
    ) -> impl Iterator<Item = &'i RawBhs> + use<'i, P, B> {
        let connection = self.connections.get(index).and_then(Option::as_ref);
        let upcoming = connection.map(|connection| connection.receiver.upcoming(input));
        upcoming.into_iter().flatten()
    }

    /// Takes bytes from a connection. It stops early if the runtime must act on an [`Event`]; the
    /// caller then calls it again with the rest.
    ///
    /// # Errors
    /// The connection must be closed, if possible after the queued bytes (a Reject) were sent.
    pub fn receive<R>(
        &mut self,
        index: usize,
        input: &mut &[u8],
        now: Duration,
        router: &mut R,
    ) -> Result<Option<Event>, ConnectionError>
    where
        R: TaskRouter<Payload = P, Buffer = B>,
    {
        if let Some(what) = self.format_error {
            return Err(ConnectionError::Format(what));
        }
        if let Some(event) = self.run_early(router)? {
            return Ok(Some(event));
        }
        loop {
            let Some(connection) = self.connections[index].as_mut() else {
                return Ok(None);
            };
            if connection.logged_out {
                *input = &[];
                return Ok(None);
            }
            connection.last_heard = now;
            let event = match connection.receiver.next(input)? {
                // The gap for which requests of other connections waited may have closed.
                None => return self.run_early(router),
                Some(Piece::Header(bhs)) => {
                    connection.exp_stat_sn = Bhs::new(&bhs).exp_stat_sn();
                    self.heard(index);
                    self.begin(index, &bhs, router)?;
                    None
                }
                Some(Piece::Data(bytes)) => {
                    self.data(index, bytes);
                    None
                }
                Some(Piece::End(digest_ok)) => match self.end(index, digest_ok, router)? {
                    None if !self.functions.is_empty() => self.run_early(router)?,
                    event => event,
                },
            };
            if event.is_some() {
                return Ok(event);
            }
        }
    }

    /// Gives space for the rest of the data segment that is arriving, if at least `at_least` bytes
    /// of it are still to come.
    ///
    /// The runtime may read from the socket straight into it and then call [`Session::placed`]. The
    /// function calls `with` with the pieces, and returns its result.
    pub fn direct<T>(
        &mut self,
        index: usize,
        at_least: usize,
        with: impl FnOnce(&mut dyn Iterator<Item = &mut [u8]>) -> T,
    ) -> Option<T> {
        let connection = self.connections[index].as_mut()?;
        let left = connection.receiver.data_left();
        if left < at_least {
            return None;
        }
        let (Sink::Immediate { task, offset } | Sink::DataOut { task, offset, .. }) =
            connection.sink
        else {
            return None;
        };
        let transfer = self.tasks.get_mut(task)?.transfer.as_mut()?;
        if !transfer.wants_all(offset, left) {
            return None;
        }
        Some(with(&mut transfer.room(offset, left)))
    }

    /// Notes that `count` bytes of the data segment were read straight into the space of
    /// [`Session::direct`].
    pub fn placed(&mut self, index: usize, count: usize) {
        let Some(connection) = self.connections[index].as_mut() else {
            return;
        };
        let (Sink::Immediate { task, offset } | Sink::DataOut { task, offset, .. }) =
            &mut connection.sink
        else {
            return;
        };
        self.counters.data_out_bytes += count as u64;
        let Some(transfer) = self
            .tasks
            .get_mut(*task)
            .and_then(|task| task.transfer.as_mut())
        else {
            return;
        };
        let mut left = count;
        for piece in transfer.room(*offset, count) {
            let take = left.min(piece.len());
            connection.receiver.placed(&piece[..take]);
            left -= take;
        }
        transfer.mark_filled(*offset, count);
        *offset += count as u32;
    }

    /// Offers the bytes that wait to be sent on a connection, piece by piece, until `take` returns
    /// `false`.
    pub fn gather<'a>(&'a self, index: usize, take: impl FnMut(&'a [u8]) -> bool) {
        if let Some(connection) = &self.connections[index] {
            connection.transmit.gather(take);
        }
    }

    /// Returns the number of bytes that wait to be sent on a connection.
    pub fn queued_bytes(&self, index: usize) -> usize {
        self.connections[index]
            .as_ref()
            .map_or(0, |connection| connection.transmit.queued_bytes())
    }

    /// Returns the bytes that the session keeps for this connection beside commands' data. They are
    /// answers that wait to be sent, and requests that came before their turn. A runtime stops
    /// reading while these are many.
    #[inline]
    pub fn held_bytes(&self, index: usize) -> usize {
        let answers = self.connections[index]
            .as_ref()
            .map_or(0, |connection| connection.transmit.own_bytes());
        if self.early.is_empty() {
            return answers;
        }
        let early = self.early.values();
        let early = early.filter(|early| early.connection == index);
        answers
            + early
                .map(|early| size_of::<Early>() + early.data.len())
                .sum::<usize>()
    }

    /// Notes that the socket took `count` bytes.
    pub fn sent(&mut self, index: usize, count: usize) {
        if let Some(connection) = &mut self.connections[index] {
            connection.transmit.consume(count);
        }
    }

    /// Takes the next receipt of an answer of this connection that has left.
    #[inline]
    pub fn take_receipt(&mut self, index: usize) -> Option<P::Receipt> {
        self.connections[index].as_mut()?.transmit.take_receipt()
    }

    /// Changes the number of commands that may be in flight. A smaller depth takes effect as
    /// commands end. An initiator that waits for a closed window is told that it opened.
    pub fn set_depth(&mut self, depth: u32) {
        self.depth = depth;
        self.open_window();
    }

    pub(super) fn open_window(&mut self) {
        self.window.allow(self.depth, self.in_flight() as u32);
        if self.window.opened_silently()
            && let Some(index) = self.first_live_connection()
        {
            self.nop_in_silent(index);
        }
    }

    fn first_live_connection(&self) -> Option<usize> {
        let mut connections = self.connections.iter();
        connections.position(|slot| slot.as_ref().is_some_and(|it| !it.logged_out))
    }

    /// Aborts a task. Returns `true` if the device server still runs it. Its end must then still be
    /// reported with [`Session::complete`], which sends TASK ABORTED if `tell`, and nothing
    /// otherwise.
    pub fn abort(&mut self, id: TaskId, tell: bool) -> bool {
        let Some(task) = self.tasks.get_mut(id) else {
            return false;
        };
        if task.transfer.is_none() {
            // The first abort decides: a second one must not promise another answer.
            task.aborted.get_or_insert(tell);
            return true;
        }
        let Some(task) = self.tasks.remove(id) else {
            return false;
        };
        if let Some(connection) = self.connections[task.connection].as_mut() {
            connection.aborted_r2ts |= task.r2t_sn > 0;
        }
        if tell {
            self.respond_aborted(&task);
        }
        self.open_window();
        false
    }

    /// Returns the tasks for which `select(lun)` holds.
    pub fn tasks(&self, mut select: impl FnMut(u64) -> bool) -> Vec<TaskId> {
        self.tasks
            .iter()
            .filter(|(_, task)| select(task.lun))
            .map(|(id, _)| id)
            .collect()
    }

    /// Reports whether the task exists and was not aborted.
    pub fn is_alive(&self, id: TaskId) -> bool {
        self.tasks
            .get(id)
            .is_some_and(|task| task.aborted.is_none())
    }

    /// Ends a task that the device server ran.
    pub fn complete(&mut self, id: TaskId, completion: Completion<P>) {
        let Some(task) = self.tasks.remove(id) else {
            return;
        };
        match task.aborted {
            None => self.respond(&task, completion),
            Some(true) => self.respond_aborted(&task),
            Some(false) => self.answer_logouts(),
        }
        self.open_window();
    }

    fn respond_aborted(&mut self, task: &Task<B>) {
        const TASK_ABORTED: u8 = 0x40;
        self.respond(
            task,
            Completion {
                status: TASK_ABORTED,
                sense: Vec::new(),
                data_in: None,
                data_out_wanted: None,
                receipt: None,
            },
        );
    }
}
