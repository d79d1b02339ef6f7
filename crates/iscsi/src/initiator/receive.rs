//! Receiving half of an initiator's session: the meaning of each PDU of a target, and the checks on
//! it.

use super::command::{CommandEnd, Direction, Residual};
use super::connection::Piece;
use super::session::{
    Burst, LOGOUT_TAG, NOP_TAG, Session, SessionError, SessionEvent, SessionUser, TEXT_TAG,
};
use super::task_table::{Task, TaskKind};
use crate::pdu::scsi_response::sense_data;
use crate::pdu::{
    AsyncMessage, BHS_LENGTH, Bhs, DataIn, LogoutResponse, NopIn, Opcode, PduError, RESERVED_TAG,
    RawBhs, ReadyToTransfer, Reject, ScsiResponse, ServiceResponse, TaskManagementResponse,
    TaskManagementResult, TextResponse,
};

/// Most text in bytes that is accepted in one exchange: enough for tens of thousands of targets.
const MAX_TEXT: usize = 16 << 20;
/// Most answers to a target's pings that may wait to be sent.
const MAX_ANSWERS: u32 = 4096;

/// PDU that is arriving.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    kind: SegmentKind,
    /// Data of a PDU that is interpreted once it is complete.
    body: Vec<u8>,
}

#[derive(Debug, Default)]
enum SegmentKind {
    #[default]
    Nothing,
    /// Data goes straight to the user.
    DataIn { header: DataIn, cookie: u64 },
    /// Everything else.
    Whole(RawBhs),
}

impl Session {
    /// Takes bytes, cut anywhere, and appends the answers to send to `out`.
    ///
    /// # Errors
    /// The session is over: close the connection, then call [`Session::abandon`].
    pub fn receive(
        &mut self,
        mut input: &[u8],
        user: &mut impl SessionUser,
        out: &mut Vec<u8>,
    ) -> Result<(), SessionError> {
        while let Some(piece) = self.framer.next(&mut input)? {
            match piece {
                Piece::Header(bhs) => self.header(&bhs)?,
                Piece::Data { at, bytes } => match &self.incoming.kind {
                    SegmentKind::DataIn { header, cookie } => {
                        user.data_in(*cookie, header.buffer_offset + at, bytes)
                    }
                    SegmentKind::Nothing | SegmentKind::Whole(_) => {
                        self.incoming.body.extend_from_slice(bytes)
                    }
                },
                Piece::End => match std::mem::take(&mut self.incoming.kind) {
                    SegmentKind::Nothing => {}
                    SegmentKind::DataIn { header, cookie } => {
                        self.data_in_arrived(&header, cookie, user)?
                    }
                    SegmentKind::Whole(bhs) => {
                        let body = std::mem::take(&mut self.incoming.body);
                        self.whole(&bhs, &body, user, out)?;
                        self.incoming.body = body;
                        self.incoming.body.clear();
                    }
                },
            }
        }
        self.send_waiting(user, out);
        Ok(())
    }

    /// Handles a header whose data is still to come.
    fn header(&mut self, bhs: &RawBhs) -> Result<(), SessionError> {
        self.incoming.kind = if Bhs::new(bhs).opcode()? == Opcode::DataIn {
            let header = DataIn::parse(bhs)?;
            let cookie = self.check_data_in(&header)?;
            SegmentKind::DataIn { header, cookie }
        } else {
            SegmentKind::Whole(*bhs)
        };
        Ok(())
    }

    /// Checks that a Data-In is for a command that reads, is in order, and lies within the
    /// command's data.
    fn check_data_in(&mut self, header: &DataIn) -> Result<u64, SessionError> {
        let Some(task) = self.tasks.get(header.itt) else {
            return Err(SessionError::Protocol("Data-In for no command"));
        };
        if task.kind != TaskKind::Command(Direction::Read) {
            return Err(SessionError::Protocol(
                "Data-In for a command that does not read",
            ));
        }
        let end = header.buffer_offset.checked_add(header.data_segment_length);
        if end.is_none_or(|end| end > task.length) {
            return Err(SessionError::Protocol("Data-In beyond the command's data"));
        }
        // DataPDUInOrder and DataSequenceInOrder are Yes, whatever the target prefers: neither gaps
        // nor bytes that come twice are allowed.
        if header.data_sn != task.data_sn || header.buffer_offset != task.moved {
            return Err(SessionError::Protocol("Data-In out of order"));
        }
        task.data_sn = task.data_sn.wrapping_add(1);
        task.moved += header.data_segment_length;
        Ok(task.cookie)
    }

    fn data_in_arrived(
        &mut self,
        header: &DataIn,
        cookie: u64,
        user: &mut impl SessionUser,
    ) -> Result<(), SessionError> {
        self.update_window(header.exp_cmd_sn, header.max_cmd_sn);
        if !header.status_present {
            return Ok(());
        }
        self.take_stat_sn(header.stat_sn)?;
        let Some(task) = self.tasks.get(header.itt) else {
            return Err(SessionError::Protocol("status of no command"));
        };
        let told = (header.overflow, header.underflow, header.residual_count);
        let residual = residual(told, header.status, task)?;
        self.tasks.remove(header.itt);
        let end = CommandEnd::Status {
            status: header.status,
            sense: &[],
            residual,
        };
        user.ended(cookie, end);
        Ok(())
    }

    /// Handles any other PDU, once it is complete.
    fn whole(
        &mut self,
        bhs: &RawBhs,
        body: &[u8],
        user: &mut impl SessionUser,
        out: &mut Vec<u8>,
    ) -> Result<(), SessionError> {
        match Bhs::new(bhs).opcode()? {
            Opcode::ScsiResponse => self.scsi_response(&ScsiResponse::parse(bhs)?, body, user),
            Opcode::ReadyToTransfer => {
                self.ready_to_transfer(&ReadyToTransfer::parse(bhs)?, user, out)
            }
            Opcode::NopIn => self.nop_in(&NopIn::parse(bhs)?, user, out),
            Opcode::TaskManagementResponse => self.task_management_response(bhs, user),
            Opcode::TextResponse => self.text_response(&TextResponse::parse(bhs)?, body, user, out),
            Opcode::LogoutResponse => self.logout_response(&LogoutResponse::parse(bhs)?, user),
            Opcode::AsyncMessage => self.async_message(&AsyncMessage::parse(bhs)?, body, user),
            Opcode::Reject => self.rejected(&Reject::parse(bhs)?, body, user),
            opcode => Err(PduError::UnknownOpcode(opcode as u8).into()),
        }
    }

    /// Checks that statuses come in order, each once. At error recovery level 0 a gap cannot be
    /// repaired.
    fn take_stat_sn(&mut self, stat_sn: u32) -> Result<(), SessionError> {
        if stat_sn != self.exp_stat_sn {
            return Err(SessionError::Protocol("StatSN out of order"));
        }
        self.exp_stat_sn = stat_sn.wrapping_add(1);
        Ok(())
    }

    fn scsi_response(
        &mut self,
        response: &ScsiResponse,
        body: &[u8],
        user: &mut impl SessionUser,
    ) -> Result<(), SessionError> {
        self.take_stat_sn(response.stat_sn)?;
        self.update_window(response.exp_cmd_sn, response.max_cmd_sn);
        let Some(task) = self
            .tasks
            .get(response.itt)
            .filter(|task| task.kind != TaskKind::Management)
        else {
            return Err(SessionError::Protocol("response to no command"));
        };
        let cookie = task.cookie;
        let told = (
            response.overflow,
            response.underflow,
            response.residual_count,
        );
        let end = match response.response {
            ServiceResponse::Completed => CommandEnd::Status {
                status: response.status,
                sense: sense_data(body),
                residual: residual(told, response.status, task)?,
            },
            failure => CommandEnd::TargetFailure(failure),
        };
        self.tasks.remove(response.itt);
        user.ended(cookie, end);
        Ok(())
    }

    /// Handles a target's request for a piece of a write's data.
    fn ready_to_transfer(
        &mut self,
        r2t: &ReadyToTransfer,
        user: &mut impl SessionUser,
        out: &mut Vec<u8>,
    ) -> Result<(), SessionError> {
        self.update_window(r2t.exp_cmd_sn, r2t.max_cmd_sn);
        let max_burst = self.parameters.max_burst_length;
        let Some(task) = self.tasks.get(r2t.itt) else {
            return Err(SessionError::Protocol("R2T for no command"));
        };
        if task.kind != TaskKind::Command(Direction::Write) {
            return Err(SessionError::Protocol(
                "R2T for a command that does not write",
            ));
        }
        let end = r2t
            .buffer_offset
            .checked_add(r2t.desired_data_transfer_length);
        if end.is_none_or(|end| end > task.length) {
            return Err(SessionError::Protocol("R2T beyond the command's data"));
        }
        if r2t.desired_data_transfer_length == 0 || r2t.desired_data_transfer_length > max_burst {
            return Err(SessionError::Protocol(
                "R2T of nothing or beyond MaxBurstLength",
            ));
        }
        if r2t.r2t_sn != task.data_sn || r2t.ttt == RESERVED_TAG {
            return Err(SessionError::Protocol("R2T out of order or without a tag"));
        }
        // Data to send waits in memory. A target that asks for a piece again and again must not
        // make that memory grow.
        task.moved = task.moved.saturating_add(r2t.desired_data_transfer_length);
        if task.moved > task.length {
            return Err(SessionError::Protocol(
                "R2Ts for more than the command's data",
            ));
        }
        task.data_sn = task.data_sn.wrapping_add(1);
        let (cookie, lun) = (task.cookie, task.lun);
        let length = r2t.desired_data_transfer_length;
        let burst = Burst {
            itt: r2t.itt,
            ttt: r2t.ttt,
            lun,
            offset: r2t.buffer_offset,
            length,
        };
        self.send_burst(cookie, &burst, user, out);
        Ok(())
    }

    fn nop_in(
        &mut self,
        nop: &NopIn,
        user: &mut impl SessionUser,
        out: &mut Vec<u8>,
    ) -> Result<(), SessionError> {
        self.update_window(nop.exp_cmd_sn, nop.max_cmd_sn);
        if nop.itt != RESERVED_TAG {
            self.take_stat_sn(nop.stat_sn)?;
            if nop.itt != NOP_TAG || self.asked.pings == 0 {
                return Err(SessionError::Protocol("NOP-In answers no ping"));
            }
            self.asked.pings -= 1;
            user.event(SessionEvent::Pong);
        } else if nop.ttt != RESERVED_TAG {
            self.answers += 1;
            if self.answers > MAX_ANSWERS {
                return Err(SessionError::Protocol(
                    "pings come faster than their answers are taken",
                ));
            }
            self.nop_out(RESERVED_TAG, nop.ttt, nop.lun, out);
        }
        Ok(())
    }

    fn task_management_response(
        &mut self,
        bhs: &RawBhs,
        user: &mut impl SessionUser,
    ) -> Result<(), SessionError> {
        let response = TaskManagementResponse::parse(bhs)?;
        self.take_stat_sn(response.stat_sn)?;
        self.update_window(response.exp_cmd_sn, response.max_cmd_sn);
        match self.tasks.get(response.itt) {
            Some(task) if task.kind == TaskKind::Management => {
                let cookie = task.cookie;
                self.tasks.remove(response.itt);
                user.event(SessionEvent::TaskManagement {
                    cookie,
                    result: response.response,
                });
                Ok(())
            }
            _ => Err(SessionError::Protocol(
                "response to no task management function",
            )),
        }
    }

    fn text_response(
        &mut self,
        response: &TextResponse,
        body: &[u8],
        user: &mut impl SessionUser,
        out: &mut Vec<u8>,
    ) -> Result<(), SessionError> {
        self.take_stat_sn(response.stat_sn)?;
        self.update_window(response.exp_cmd_sn, response.max_cmd_sn);
        if response.itt != TEXT_TAG || !self.asked.text {
            return Err(SessionError::Protocol("response to no text request"));
        }
        if self.text.len() + body.len() > MAX_TEXT {
            return Err(SessionError::Protocol("too much text"));
        }
        self.text.extend_from_slice(body);
        if response.is_final {
            self.asked.text = false;
            user.event(SessionEvent::Text(std::mem::take(&mut self.text)));
        } else if response.ttt == RESERVED_TAG || body.is_empty() {
            // Without progress a hostile target could keep us asking for ever.
            return Err(SessionError::Protocol("text response that leads nowhere"));
        } else {
            self.text_request(response.ttt, response.lun, &[], out);
        }
        Ok(())
    }

    fn logout_response(
        &mut self,
        response: &LogoutResponse,
        user: &mut impl SessionUser,
    ) -> Result<(), SessionError> {
        self.take_stat_sn(response.stat_sn)?;
        if response.itt != LOGOUT_TAG || !std::mem::take(&mut self.asked.logout) {
            return Err(SessionError::Protocol("response to no logout"));
        }
        user.event(SessionEvent::LoggedOut(response.response));
        Ok(())
    }

    fn async_message(
        &mut self,
        message: &AsyncMessage,
        body: &[u8],
        user: &mut impl SessionUser,
    ) -> Result<(), SessionError> {
        self.take_stat_sn(message.stat_sn)?;
        self.update_window(message.exp_cmd_sn, message.max_cmd_sn);
        user.event(SessionEvent::Async {
            message: *message,
            data: body.to_vec(),
        });
        Ok(())
    }

    /// Handles a reject. The header that the target sends back may hold anything. It is trusted
    /// only as far as it names a command of ours (attack 11).
    fn rejected(
        &mut self,
        reject: &Reject,
        body: &[u8],
        user: &mut impl SessionUser,
    ) -> Result<(), SessionError> {
        self.take_stat_sn(reject.stat_sn)?;
        self.update_window(reject.exp_cmd_sn, reject.max_cmd_sn);
        let ours = body.first_chunk::<BHS_LENGTH>().filter(|bhs| {
            matches!(
                Bhs::new(bhs).opcode(),
                Ok(Opcode::ScsiCommand | Opcode::TaskManagementRequest)
            )
        });
        match ours.and_then(|bhs| self.tasks.remove(Bhs::new(bhs).itt())) {
            Some(task) if task.kind == TaskKind::Management => {
                let result = TaskManagementResult::Rejected;
                user.event(SessionEvent::TaskManagement {
                    cookie: task.cookie,
                    result,
                });
            }
            Some(task) => user.ended(task.cookie, CommandEnd::Rejected(reject.reason)),
            None => user.event(SessionEvent::Rejected(reject.reason)),
        }
        Ok(())
    }
}

/// Returns the amount of data that did not move, from the bits O and U and the target's count. For
/// a read that ended with GOOD, it is at least the data that did not come.
fn residual(told: (bool, bool, u32), status: u8, task: &Task) -> Result<Residual, SessionError> {
    let missing = match task.kind {
        TaskKind::Command(Direction::Read) if status == 0 => task.length - task.moved,
        _ => 0,
    };
    match told {
        (false, false, _) if missing > 0 => Ok(Residual::Underflow(missing)),
        (false, false, _) => Ok(Residual::None),
        (true, false, count) => Ok(Residual::Overflow(count)),
        (false, true, count) if count <= task.length => Ok(Residual::Underflow(count.max(missing))),
        _ => Err(SessionError::Protocol("impossible residual")),
    }
}
