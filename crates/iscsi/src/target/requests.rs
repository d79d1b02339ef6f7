//! Requests that are not SCSI commands, and PDUs that the target sends on its own. They are NOP,
//! text, task management, logout, asynchronous messages, and Reject (RFC 7143 §11.5, §11.9–§11.19).

use std::time::Duration;

use super::connection::Ping;
use super::session::{ConnectionError, Event, Session};
use super::transmit::DataSegment;
use crate::payload::{DataOutBuffer, Payload};
use crate::pdu::{
    AsyncMessage, BHS_LENGTH, Bhs, LogoutReason, LogoutRequest, LogoutResult, NopIn, NopOut,
    Opcode, RESERVED_TAG, RawBhs, Reject, RejectReason, TextRequest, TextResponse,
};

impl<P: Payload + From<Vec<u8>>, B: DataOutBuffer> Session<P, B> {
    /// Handles a request that arrived completely and whose turn it is.
    pub(super) fn request(
        &mut self,
        index: usize,
        bhs: &RawBhs,
        data: Vec<u8>,
    ) -> Result<Option<Event>, ConnectionError> {
        // The request used up a CmdSN and takes no place among the commands, so the window moves
        // on.
        self.window.allow(self.depth, self.in_flight() as u32);
        match Bhs::new(bhs).opcode() {
            Ok(Opcode::NopOut) => {
                self.nop_out(index, bhs, data);
                Ok(None)
            }
            Ok(Opcode::TaskManagementRequest) => Ok(self.task_management(index, bhs)),
            Ok(Opcode::TextRequest) => {
                Ok(TextRequest::parse(bhs).ok().map(|request| Event::Text {
                    request,
                    data,
                    connection: index,
                }))
            }
            Ok(Opcode::LogoutRequest) => Ok(self.logout(index, bhs)),
            _ => {
                self.reject(index, bhs, RejectReason::CommandNotSupported);
                Ok(None)
            }
        }
    }

    fn nop_out(&mut self, index: usize, bhs: &RawBhs, mut data: Vec<u8>) {
        let Ok(request) = NopOut::parse(bhs) else {
            return;
        };
        let (exp_cmd_sn, max_cmd_sn) = (self.window.exp_cmd_sn(), self.window.tell_max_cmd_sn());
        let Some(connection) = self.connections[index].as_mut() else {
            return;
        };
        if request.ttt != RESERVED_TAG
            && let Some(ping) = connection.ping
            && ping.ttt == request.ttt
        {
            connection.ping = None;
        }
        if request.itt == RESERVED_TAG {
            return self.echoed(index, request.ttt);
        }
        data.truncate(connection.initiator_max_data_segment as usize);
        let reply = NopIn {
            data_segment_length: data.len() as u32,
            lun: 0,
            itt: request.itt,
            ttt: RESERVED_TAG,
            stat_sn: connection.take_stat_sn(),
            exp_cmd_sn,
            max_cmd_sn,
        };
        let mut raw = [0; BHS_LENGTH];
        reply.encode(&mut raw);
        connection.transmit.push(&raw, bytes(data));
    }

    /// Sends ExpCmdSN and MaxCmdSN to the initiator without asking for an answer.
    pub(super) fn nop_in_silent(&mut self, index: usize) {
        self.nop_in(index, RESERVED_TAG);
    }

    pub(super) fn nop_in(&mut self, index: usize, ttt: u32) {
        let (exp_cmd_sn, max_cmd_sn) = (self.window.exp_cmd_sn(), self.window.tell_max_cmd_sn());
        let Some(connection) = self.connections[index].as_mut() else {
            return;
        };
        let pdu = NopIn {
            data_segment_length: 0,
            lun: 0,
            itt: RESERVED_TAG,
            ttt,
            stat_sn: connection.stat_sn,
            exp_cmd_sn,
            max_cmd_sn,
        };
        let mut raw = [0; BHS_LENGTH];
        pdu.encode(&mut raw);
        connection.transmit.push(&raw, DataSegment::Empty);
    }

    /// Pings silent connections, and returns the connections that must be closed, each once, with
    /// the reason. The caller calls it about once a second.
    ///
    /// It finds dead connections, and live initiators that owe data for too long. An initiator that
    /// never sends its data would keep all others from their ORDERED commands. If a command that
    /// others wait for stays missing for that time, all connections are returned.
    pub fn tick(&mut self, now: Duration) -> Vec<(usize, ConnectionError)> {
        let overdue = || ConnectionError::CommandMissing;
        let broken = self.format_error.map(ConnectionError::Format);
        if let Some(error) = broken.or_else(|| self.command_overdue(now).then(overdue)) {
            let connections = self.connections().map(|(index, _)| index);
            return connections.map(|index| (index, error)).collect();
        }
        let mut dead = self.data_out_overdue(now);
        let Some(ping_after) = self.settings.ping_after else {
            return dead;
        };
        for index in 0..self.connections.len() {
            let Some(connection) = self.connections[index].as_mut() else {
                continue;
            };
            let silence = now.saturating_sub(connection.last_heard);
            if connection.logged_out {
                // The connection waits for its peer to take the last answers.
                if silence >= ping_after + self.settings.ping_timeout {
                    dead.push((index, ConnectionError::Silent));
                }
                continue;
            }
            match connection.ping {
                Some(_) if silence < ping_after => connection.ping = None,
                Some(ping)
                    if now.saturating_sub(ping.sent) >= self.settings.ping_timeout
                        && dead.iter().all(|(overdue, _)| *overdue != index) =>
                {
                    dead.push((index, ConnectionError::Silent));
                }
                Some(_) => {}
                None if silence >= ping_after => {
                    let ttt = connection.take_ttt();
                    connection.ping = Some(Ping { ttt, sent: now });
                    self.nop_in(index, ttt);
                }
                None => {}
            }
        }
        dead
    }

    fn data_out_overdue(&mut self, now: Duration) -> Vec<(usize, ConnectionError)> {
        let limit = self.settings.data_out_timeout;
        let mut overdue: Vec<usize> = self
            .tasks
            .iter_mut()
            .filter_map(|task| {
                let transfer = task.transfer.as_mut()?;
                (transfer.still_for(now) >= limit).then_some(task.connection)
            })
            .collect();
        overdue.sort_unstable();
        overdue.dedup();
        let overdue = overdue.into_iter();
        overdue
            .map(|index| (index, ConnectionError::DataOutOverdue))
            .collect()
    }

    /// Sends a text response: a header prepared with flags, tags and LUN, and its data. The
    /// function fills in StatSN and the command window.
    pub fn text_response(&mut self, index: usize, mut pdu: TextResponse, data: Vec<u8>) {
        pdu.data_segment_length = data.len() as u32;
        self.push_numbered(index, bytes(data), |numbers, raw| {
            pdu.stat_sn = numbers.stat_sn;
            pdu.exp_cmd_sn = numbers.exp_cmd_sn;
            pdu.max_cmd_sn = numbers.max_cmd_sn;
            pdu.encode(raw);
        });
    }

    /// Refuses a text request.
    pub fn text_reject(&mut self, index: usize, request: &TextRequest, reason: RejectReason) {
        let mut raw = [0; BHS_LENGTH];
        request.encode(&mut raw);
        self.reject(index, &raw, reason);
    }

    /// Returns the length of the longest data segment that the initiator takes, in bytes.
    pub fn initiator_max_recv_data_segment_length(&self, index: usize) -> u32 {
        self.connections[index]
            .as_ref()
            .map_or(0, |connection| connection.initiator_max_data_segment)
    }

    /// Sets the length of the longest data segment that the initiator takes, in bytes, as it
    /// declared.
    pub fn set_initiator_max_recv_data_segment_length(&mut self, index: usize, length: u32) {
        if let Some(connection) = self.connections[index].as_mut() {
            connection.initiator_max_data_segment = length;
        }
    }

    /// Logs out the session, or one of its connections, also one that is gone already (RFC 7143
    /// §11.14).
    fn logout(&mut self, index: usize, bhs: &RawBhs) -> Option<Event> {
        let request = LogoutRequest::parse(bhs).ok()?;
        let result = match request.reason {
            LogoutReason::CloseSession => {
                self.logged_out = true;
                let connections = self.connections.iter_mut().flatten();
                connections.for_each(|connection| connection.logged_out = true);
                (0..self.connections.len()).for_each(|index| self.forget_answers(index));
                // Its units are gone for requests whose turn would come now.
                self.early.clear();
                self.functions.clear();
                LogoutResult::Closed
            }
            LogoutReason::CloseConnection => match self.find_connection(request.cid) {
                Some(other) => {
                    if let Some(connection) = self.connections[other].as_mut() {
                        connection.logged_out = true;
                    }
                    self.forget_answers(other);
                    // Requests that came before their turn are discarded, and the other tasks die
                    // (RFC 7143 §11.14).
                    self.discard(other);
                    LogoutResult::Closed
                }
                None => LogoutResult::CidNotFound,
            },
            _ => LogoutResult::RecoveryNotSupported,
        };
        self.answer_logout(index, request, result);
        (result == LogoutResult::Closed).then_some(Event::Logout(request))
    }

    /// Sends an asynchronous message on a connection (RFC 7143 §11.9). The function fills in the
    /// sequence numbers, of which the message uses up only StatSN.
    pub fn async_message(&mut self, index: usize, mut pdu: AsyncMessage, data: Vec<u8>) {
        pdu.data_segment_length = data.len() as u32;
        self.push_numbered(index, bytes(data), |numbers, raw| {
            pdu.stat_sn = numbers.stat_sn;
            pdu.exp_cmd_sn = numbers.exp_cmd_sn;
            pdu.max_cmd_sn = numbers.max_cmd_sn;
            pdu.encode(raw);
        });
    }

    /// Sends a Reject that carries the header it refuses.
    #[cold]
    pub(super) fn reject(&mut self, index: usize, bhs: &RawBhs, reason: RejectReason) {
        self.push_numbered(index, DataSegment::Bytes(bhs.to_vec()), |numbers, raw| {
            let pdu = Reject {
                reason,
                data_segment_length: BHS_LENGTH as u32,
                stat_sn: numbers.stat_sn,
                exp_cmd_sn: numbers.exp_cmd_sn,
                max_cmd_sn: numbers.max_cmd_sn,
                data_sn: 0,
            };
            pdu.encode(raw);
        });
    }

    /// Sends a PDU that takes a StatSN and carries the command window. It does nothing if the
    /// connection is gone.
    fn push_numbered(
        &mut self,
        index: usize,
        data: DataSegment<P>,
        encode: impl FnOnce(Numbers, &mut RawBhs),
    ) {
        let (exp_cmd_sn, max_cmd_sn) = (self.window.exp_cmd_sn(), self.window.tell_max_cmd_sn());
        let Some(connection) = self.connections[index].as_mut() else {
            return;
        };
        let numbers = Numbers {
            stat_sn: connection.take_stat_sn(),
            exp_cmd_sn,
            max_cmd_sn,
        };
        let mut raw = [0; BHS_LENGTH];
        encode(numbers, &mut raw);
        connection.transmit.push(&raw, data);
    }
}

/// Sequence numbers that a PDU with a StatSN carries.
struct Numbers {
    stat_sn: u32,
    exp_cmd_sn: u32,
    max_cmd_sn: u32,
}

fn bytes<P>(data: Vec<u8>) -> DataSegment<P> {
    if data.is_empty() {
        DataSegment::Empty
    } else {
        DataSegment::Bytes(data)
    }
}
