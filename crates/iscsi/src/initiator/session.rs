//! Session of one connection in the full-feature phase (RFC 7143 §4.2). It turns SCSI commands into
//! bytes, and received bytes into data and ends of commands. The receiving half is in `receive.rs`.
//!
//! All bytes to send are appended to a buffer that the caller writes to the socket, so many
//! commands leave in one write. Commands beyond the target's window wait inside, in order.
//!
//! # Invariants
//! - A command's CmdSN is given when it leaves, and CmdSNs leave without gaps.
//! - Each command ends exactly once: through [`SessionUser::ended`], or by [`Session::abandon`].
//! - No bytes of a target make the session write or read outside a command's data, allocate more
//!   than our MaxRecvDataSegmentLength, or panic.

use std::collections::VecDeque;
use std::fmt;

use super::command::{Command, CommandEnd, Direction};
use super::connection::{Framer, PduWriter, StreamError};
use super::login::LoggedIn;
use super::receive::Incoming;
use super::task_table::{Task, TaskTable};
use crate::negotiation::SessionParameters;
use crate::pdu::{
    AsyncMessage, BHS_LENGTH, DataOut, LogoutReason, LogoutRequest, LogoutResult, NopOut, PduError,
    RESERVED_TAG, RejectReason, ScsiCommand, TaskManagementFunction, TaskManagementRequest,
    TaskManagementResult, TextRequest,
};
use crate::serial_number::{at_or_before, before};

/// Event beside the ends of commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionEvent {
    /// A ping was answered.
    Pong,
    /// A task management function ended.
    TaskManagement {
        /// Number that the caller gave to the function.
        cookie: u64,
        /// Result of the function.
        result: TaskManagementResult,
    },
    /// A text exchange ended.
    Text(Vec<u8>),
    /// The logout was answered.
    LoggedOut(LogoutResult),
    /// The target sent a message without being asked.
    Async {
        /// Message of the target.
        message: AsyncMessage,
        /// Data segment of the message.
        data: Vec<u8>,
    },
    /// The target rejected a PDU that belongs to no command.
    Rejected(RejectReason),
}

/// Owner of the commands, to which data goes and from which it comes. `cookie` is the number that
/// it gave to the command.
pub trait SessionUser {
    /// Appends bytes `offset..offset + length` of a write's data to `out`, straight into the send
    /// buffer.
    fn data_out(&mut self, cookie: u64, offset: u32, length: u32, out: &mut Vec<u8>);

    /// Stores bytes of a read's data at `offset`. With data digests these bytes are verified only
    /// once the command ends: do not use them before.
    fn data_in(&mut self, cookie: u64, offset: u32, bytes: &[u8]);

    /// Notes that a command is sent only now, because it waited for the target's window.
    fn sent_late(&mut self, cookie: u64) {
        let _ = cookie;
    }

    /// Notes that a command has ended.
    fn ended(&mut self, cookie: u64, end: CommandEnd<'_>);

    /// Notes any other event.
    fn event(&mut self, event: SessionEvent);
}

/// Reasons why a session is over. At error recovery level 0 every error of this kind is fatal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionError {
    /// The byte stream is broken.
    Stream(StreamError),
    /// A header is malformed.
    Pdu(PduError),
    /// The target broke the protocol.
    Protocol(&'static str),
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stream(error) => error.fmt(f),
            Self::Pdu(error) => error.fmt(f),
            Self::Protocol(what) => write!(f, "the target broke the protocol: {what}"),
        }
    }
}

impl std::error::Error for SessionError {}

impl From<StreamError> for SessionError {
    fn from(error: StreamError) -> Self {
        Self::Stream(error)
    }
}

impl From<PduError> for SessionError {
    fn from(error: PduError) -> Self {
        Self::Pdu(error)
    }
}

/// ITTs of requests that are no SCSI commands. The task table's tags are below.
pub(super) const NOP_TAG: u32 = 0xffff_0000;
pub(super) const TEXT_TAG: u32 = 0xffff_0001;
pub(super) const LOGOUT_TAG: u32 = 0xffff_0002;

/// A session of one connection.
#[derive(Debug)]
pub struct Session {
    pub(super) parameters: SessionParameters,
    pub(super) peer_max_data: u32,
    pub(super) cid: u16,
    pub(super) writer: PduWriter,
    pub(super) framer: Framer,
    pub(super) incoming: Incoming,
    pub(super) tasks: TaskTable,
    waiting: VecDeque<(u64, Command)>,
    pub(super) cmd_sn: u32,
    pub(super) max_cmd_sn: u32,
    pub(super) exp_stat_sn: u32,
    pub(super) text: Vec<u8>,
    pub(super) asked: Asked,
    /// Number of answers to the target's pings since [`Session::output_taken`].
    pub(super) answers: u32,
}

/// Requests of the fixed tags that wait for an answer. A target must answer no question that was
/// not asked.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Asked {
    pub(super) pings: u32,
    pub(super) text: bool,
    pub(super) logout: bool,
}

impl Session {
    /// Starts a session from a login.
    pub fn new(login: &LoggedIn) -> Self {
        let connection = &login.connection;
        let (header_digest, data_digest) = (connection.header_digest, connection.data_digest);
        Self {
            parameters: login.session.clone(),
            peer_max_data: connection.peer_max_recv_data_segment_length,
            cid: login.cid,
            writer: PduWriter {
                header_digest,
                data_digest,
            },
            framer: Framer::new(
                header_digest,
                data_digest,
                connection.our_max_recv_data_segment_length,
            ),
            incoming: Incoming::default(),
            tasks: TaskTable::default(),
            waiting: VecDeque::new(),
            cmd_sn: login.cmd_sn,
            max_cmd_sn: login.max_cmd_sn,
            exp_stat_sn: login.exp_stat_sn,
            text: Vec::new(),
            asked: Asked::default(),
            answers: 0,
        }
    }

    /// Returns the number of commands sent and not ended.
    pub fn outstanding(&self) -> usize {
        self.tasks.commands()
    }

    /// Notes that the output, or much of it, has left. So the session can recognise a target that
    /// pings without reading the answers.
    #[inline]
    pub fn output_taken(&mut self) {
        self.answers = 0;
    }

    /// Returns the number of commands that wait for the target's window.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Sends a command, or lets it wait if the target's window is closed.
    pub fn command(
        &mut self,
        cookie: u64,
        command: &Command,
        user: &mut impl SessionUser,
        out: &mut Vec<u8>,
    ) {
        if self.waiting.is_empty() && self.window_is_open() {
            self.send(cookie, command, user, out);
        } else {
            self.waiting.push_back((cookie, *command));
        }
    }

    /// Sends the commands that the window now allows.
    pub(super) fn send_waiting(&mut self, user: &mut impl SessionUser, out: &mut Vec<u8>) {
        while self.window_is_open()
            && let Some((cookie, command)) = self.waiting.pop_front()
        {
            user.sent_late(cookie);
            self.send(cookie, &command, user, out);
        }
    }

    fn window_is_open(&self) -> bool {
        // After a logout nothing is sent any more.
        !self.asked.logout && at_or_before(self.cmd_sn, self.max_cmd_sn) && self.tasks.has_room()
    }

    fn send(
        &mut self,
        cookie: u64,
        command: &Command,
        user: &mut impl SessionUser,
        out: &mut Vec<u8>,
    ) {
        let write = command.direction == Direction::Write;
        let length = if command.direction == Direction::None {
            0
        } else {
            command.length
        };
        let (immediate, unsolicited) = if write {
            self.unsolicited(length)
        } else {
            (0, 0)
        };
        let Some(itt) = self
            .tasks
            .insert(Task::command(cookie, command, length, self.cmd_sn))
        else {
            // `window_is_open` has already checked that the table has a free slot.
            return;
        };
        let header = ScsiCommand {
            immediate: false,
            is_final: unsolicited == 0,
            read: command.direction == Direction::Read,
            write,
            attribute: command.attribute,
            total_ahs_length: 0,
            data_segment_length: immediate,
            lun: command.lun,
            itt,
            expected_data_transfer_length: length,
            cmd_sn: self.cmd_sn,
            exp_stat_sn: self.exp_stat_sn,
            cdb: command.cdb,
        };
        self.cmd_sn = self.cmd_sn.wrapping_add(1);
        let mut bhs = [0; BHS_LENGTH];
        header.encode(&mut bhs);
        self.writer.push(&bhs, immediate as usize, out, |out| {
            user.data_out(cookie, 0, immediate, out)
        });
        if unsolicited > 0 {
            let burst = Burst {
                itt,
                ttt: RESERVED_TAG,
                lun: command.lun,
                offset: immediate,
                length: unsolicited,
            };
            self.send_burst(cookie, &burst, user, out);
        }
    }

    /// Returns the bytes of a write that leave with the command, and those right after it (RFC 7143
    /// §13.10, §13.11).
    fn unsolicited(&self, length: u32) -> (u32, u32) {
        let parameters = &self.parameters;
        let burst = parameters.first_burst_length.min(length);
        let immediate = if parameters.immediate_data {
            burst.min(self.peer_max_data)
        } else {
            0
        };
        let unsolicited = if parameters.initial_r2t {
            0
        } else {
            burst - immediate
        };
        (immediate, unsolicited)
    }

    /// Sends one sequence of Data-Out PDUs.
    pub(super) fn send_burst(
        &self,
        cookie: u64,
        burst: &Burst,
        user: &mut impl SessionUser,
        out: &mut Vec<u8>,
    ) {
        let (mut done, mut data_sn) = (0, 0);
        while done < burst.length {
            let length = (burst.length - done).min(self.peer_max_data);
            let offset = burst.offset + done;
            let header = DataOut {
                is_final: done + length == burst.length,
                data_segment_length: length,
                lun: if burst.ttt == RESERVED_TAG {
                    0
                } else {
                    burst.lun
                },
                itt: burst.itt,
                ttt: burst.ttt,
                exp_stat_sn: self.exp_stat_sn,
                data_sn,
                buffer_offset: offset,
            };
            let mut bhs = [0; BHS_LENGTH];
            header.encode(&mut bhs);
            self.writer.push(&bhs, length as usize, out, |out| {
                user.data_out(cookie, offset, length, out)
            });
            done += length;
            data_sn += 1;
        }
    }

    /// Pings the target. The answer is a [`SessionEvent::Pong`].
    pub fn ping(&mut self, out: &mut Vec<u8>) {
        self.asked.pings += 1;
        self.nop_out(NOP_TAG, RESERVED_TAG, 0, out);
    }

    pub(super) fn nop_out(&self, itt: u32, ttt: u32, lun: u64, out: &mut Vec<u8>) {
        let header = NopOut {
            immediate: true,
            data_segment_length: 0,
            lun,
            itt,
            ttt,
            cmd_sn: self.cmd_sn,
            exp_stat_sn: self.exp_stat_sn,
        };
        let mut bhs = [0; BHS_LENGTH];
        header.encode(&mut bhs);
        self.writer.push(&bhs, 0, out, |_| {});
    }

    /// Asks for a task management function on a logical unit, or on the target.
    ///
    /// `task` is the cookie of the command for ABORT TASK. Returns `false`, and sends nothing, if
    /// that command is not outstanding or too many functions are.
    pub fn task_management(
        &mut self,
        cookie: u64,
        function: TaskManagementFunction,
        lun: u64,
        task: Option<u64>,
        out: &mut Vec<u8>,
    ) -> bool {
        let (referenced, ref_cmd_sn) = match task {
            None => (RESERVED_TAG, 0),
            Some(task) => match self.tasks.find_command(task) {
                Some((itt, task)) => (itt, task.cmd_sn),
                None => return false,
            },
        };
        let Some(itt) = self.tasks.insert(Task::management(cookie)) else {
            return false;
        };
        let header = TaskManagementRequest {
            immediate: true,
            function,
            total_ahs_length: 0,
            data_segment_length: 0,
            lun,
            itt,
            referenced_task_tag: referenced,
            cmd_sn: self.cmd_sn,
            exp_stat_sn: self.exp_stat_sn,
            ref_cmd_sn,
            exp_data_sn: 0,
        };
        let mut bhs = [0; BHS_LENGTH];
        header.encode(&mut bhs);
        self.writer.push(&bhs, 0, out, |_| {});
        true
    }

    /// Takes a command back after its abort was confirmed, so that it will not end any more.
    /// Returns whether it was there.
    pub fn forget(&mut self, cookie: u64) -> bool {
        let waiting = self.waiting.len();
        self.waiting.retain(|(other, _)| *other != cookie);
        let sent = self.tasks.find_command(cookie).map(|(itt, _)| itt);
        if let Some(itt) = sent {
            self.tasks.remove(itt);
        }
        sent.is_some() || self.waiting.len() < waiting
    }

    /// Asks for the targets: `All` in a discovery session, or nothing for the target of this
    /// session.
    pub fn send_targets(&mut self, which: &str, out: &mut Vec<u8>) {
        self.text.clear();
        self.asked.text = true;
        let text = format!("SendTargets={which}\0");
        self.text_request(RESERVED_TAG, 0, text.as_bytes(), out);
    }

    pub(super) fn text_request(&self, ttt: u32, lun: u64, text: &[u8], out: &mut Vec<u8>) {
        let header = TextRequest {
            immediate: true,
            is_final: true,
            continues: false,
            data_segment_length: text.len() as u32,
            lun,
            itt: TEXT_TAG,
            ttt,
            cmd_sn: self.cmd_sn,
            exp_stat_sn: self.exp_stat_sn,
        };
        let mut bhs = [0; BHS_LENGTH];
        header.encode(&mut bhs);
        self.writer
            .push(&bhs, text.len(), out, |out| out.extend_from_slice(text));
    }

    /// Closes the session. The answer is a [`SessionEvent::LoggedOut`].
    pub fn logout(&mut self, out: &mut Vec<u8>) {
        self.asked.logout = true;
        let header = LogoutRequest {
            immediate: true,
            reason: LogoutReason::CloseSession,
            itt: LOGOUT_TAG,
            cid: self.cid,
            cmd_sn: self.cmd_sn,
            exp_stat_sn: self.exp_stat_sn,
        };
        let mut bhs = [0; BHS_LENGTH];
        header.encode(&mut bhs);
        self.writer.push(&bhs, 0, out, |_| {});
    }

    /// Ends the session without any message. Returns the commands that have not ended, oldest
    /// first, for another session to repeat.
    pub fn abandon(&mut self) -> Vec<u64> {
        let mut cookies = self.tasks.drain_commands();
        cookies.extend(self.waiting.drain(..).map(|(cookie, _)| cookie));
        cookies
    }

    /// Takes over ExpCmdSN and MaxCmdSN of a PDU (RFC 7143 §11.4.10). Older values are ignored.
    pub(super) fn update_window(&mut self, exp_cmd_sn: u32, max_cmd_sn: u32) {
        if !before(max_cmd_sn, exp_cmd_sn.wrapping_sub(1)) && before(self.max_cmd_sn, max_cmd_sn) {
            self.max_cmd_sn = max_cmd_sn;
        }
    }
}

/// Sequence of Data-Out to be sent.
#[derive(Debug)]
pub(super) struct Burst {
    pub(super) itt: u32,
    pub(super) ttt: u32,
    pub(super) lun: u64,
    pub(super) offset: u32,
    pub(super) length: u32,
}
