//! SCSI commands and their data-out, from the header of the command until the device server has
//! everything (RFC 7143 §4.2.5, §11.3, §11.7).

use super::command_window::Arrival;
use super::connection::Sink;
use super::data_out::{DataOutTransfer, check_unsolicited};
use super::early::{Early, early_of};
use super::session::{
    Admission, Completion, ConnectionError, Event, IncomingCommand, Session, TaskRouter,
};
use super::task_table::{Task, TaskId};
use crate::payload::{DataOutBuffer, Payload};
use crate::pdu::{
    Ahs, AhsIter, Bhs, DataOut, Opcode, RESERVED_TAG, RawBhs, ReadyToTransfer, RejectReason,
    ScsiCommand,
};
use crate::serial_number::in_window;

/// ABORTED COMMAND, PROTOCOL SERVICE CRC ERROR (RFC 7143 §11.4.7.2), fixed format.
const CRC_ERROR_SENSE: [u8; 18] = [
    0x70, 0, 0x0b, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x47, 0x05, 0, 0, 0, 0,
];

const CHECK_CONDITION: u8 = 0x02;

/// Number of immediate commands that are accepted while the window is full.
const IMMEDIATE_BESIDE_WINDOW: usize = 8;

/// Longest data segment of a request that is not a SCSI command or Data-Out, in bytes. A ping may
/// be longer: the part of it that the initiator takes goes back.
const MAX_WHOLE: usize = 64 * 1024;

impl<P: Payload + From<Vec<u8>>, B: DataOutBuffer> Session<P, B> {
    /// Begins a PDU whose header is complete: decides what happens to it, and where its data goes.
    #[inline]
    pub(super) fn begin<R>(
        &mut self,
        index: usize,
        bhs: &RawBhs,
        router: &mut R,
    ) -> Result<(), ConnectionError>
    where
        R: TaskRouter<Payload = P, Buffer = B>,
    {
        if bhs[4] != 0 {
            self.check_ahs(index, bhs)?;
        }
        match Bhs::new(bhs).opcode() {
            Ok(Opcode::ScsiCommand | Opcode::DataOut | Opcode::TaskManagementRequest)
                if self.settings.discovery =>
            {
                self.reject(index, bhs, RejectReason::ProtocolError);
                Err(ConnectionError::Protocol(
                    "a SCSI request in a discovery session",
                ))
            }
            Ok(Opcode::ScsiCommand) if bhs[0] & 0x40 == 0 => match self.arrive(index, bhs) {
                Arrival::Next if self.was_considered_received(bhs) => {
                    self.set_sink(index, Sink::Discard);
                    Ok(())
                }
                Arrival::Next => self.command(index, bhs, router),
                Arrival::Early => {
                    self.not_next(index, bhs, Arrival::Early);
                    self.check_early(index, bhs)
                }
                Arrival::Outside => {
                    self.set_sink(index, Sink::Discard);
                    Ok(())
                }
            },
            Ok(Opcode::ScsiCommand) if self.has_room_for_immediate() => {
                if self.is_held(index, bhs) {
                    self.keep(index, bhs);
                    return self.check_early(index, bhs);
                }
                self.command(index, bhs, router)
            }
            Ok(Opcode::ScsiCommand) => {
                self.reject(index, bhs, RejectReason::ImmediateCommandReject);
                self.set_sink(index, Sink::Discard);
                Ok(())
            }
            Ok(Opcode::DataOut) => self.data_out_header(index, bhs),
            Ok(Opcode::SnackRequest) => {
                self.reject(index, bhs, RejectReason::SnackReject);
                self.set_sink(index, Sink::Discard);
                Ok(())
            }
            Ok(opcode) if opcode.from_initiator() && opcode != Opcode::LoginRequest => {
                self.request_header(index, bhs);
                Ok(())
            }
            _ => {
                self.reject(index, bhs, RejectReason::CommandNotSupported);
                Err(ConnectionError::Protocol(
                    "a PDU that an initiator must not send in the full-feature phase",
                ))
            }
        }
    }

    /// Takes a request into the window if its turn has come.
    ///
    /// A held request has no turn before its data digest was found right. It waits like requests
    /// that come early, and uses up no CmdSN meanwhile.
    #[inline]
    fn arrive(&mut self, index: usize, bhs: &RawBhs) -> Arrival {
        if !self.is_held(index, bhs) {
            return self.window.arrive(cmd_sn(bhs));
        }
        match self.window.place_of(cmd_sn(bhs)) {
            Arrival::Next | Arrival::Early => Arrival::Early,
            Arrival::Outside => Arrival::Outside,
        }
    }

    /// Reports whether a request may still be discarded for its data digest (RFC 7143 §7.8). A
    /// command is not begun before the digest is known.
    #[inline]
    fn is_held(&self, index: usize, bhs: &RawBhs) -> bool {
        let connection = self.connections[index].as_ref();
        Bhs::new(bhs).data_segment_length() > 0
            && connection.is_some_and(|connection| connection.receiver.has_data_digest())
    }

    /// Checks the additional header segments. Only SCSI commands have them, of two types and their
    /// lengths (RFC 7143 §11.2.2). Anything else is a format error, and ends the session (§7.7).
    #[cold]
    fn check_ahs(&mut self, index: usize, bhs: &RawBhs) -> Result<(), ConnectionError> {
        let ahs = self.connections[index]
            .as_ref()
            .map_or(&[][..], |connection| connection.receiver.ahs());
        let (mut extended, mut bidirectional) = (0, 0);
        let mut format = (Bhs::new(bhs).opcode() != Ok(Opcode::ScsiCommand))
            .then_some("additional header segments of a PDU that has none");
        for segment in AhsIter::new(ahs) {
            match segment {
                Ok(Ahs::ExtendedCdb(_)) => extended += 1,
                Ok(Ahs::BidirectionalReadLength(_)) => bidirectional += 1,
                Ok(Ahs::Unknown { .. }) => {
                    format = Some("an additional header segment of unknown type")
                }
                Err(_) => format = Some("an additional header segment of wrong length"),
            }
        }
        if extended > 1 || bidirectional > 1 {
            format = Some("two additional header segments of one type");
        }
        match format {
            None => Ok(()),
            Some(what) => {
                self.format_error = Some(what);
                Err(ConnectionError::Format(what))
            }
        }
    }

    /// Reports whether another immediate command may be under way. Immediate commands need no place
    /// in the window, but their number is limited to that of the window and a few more. RFC 7143
    /// §4.2.2.1 lets a target reject the others.
    fn has_room_for_immediate(&self) -> bool {
        self.in_flight() < self.settings.queue_depth as usize + IMMEDIATE_BESIDE_WINDOW
    }

    fn request_header(&mut self, index: usize, bhs: &RawBhs) {
        if bhs[0] & 0x40 == 0 {
            match self.arrive(index, bhs) {
                Arrival::Next if self.was_considered_received(bhs) => {
                    return self.set_sink(index, Sink::Discard);
                }
                Arrival::Next => {}
                arrival => return self.not_next(index, bhs, arrival),
            }
        }
        let is_ping = Bhs::new(bhs).opcode() == Ok(Opcode::NopOut);
        let taken = self.initiator_max_recv_data_segment_length(index) as usize;
        let longest = if is_ping { taken } else { MAX_WHOLE };
        let length = Bhs::new(bhs).data_segment_length().min(longest);
        self.set_sink(
            index,
            Sink::Whole {
                bhs: *bhs,
                data: Vec::with_capacity(length.min(MAX_WHOLE)),
                longest,
            },
        );
    }

    pub(super) fn set_sink(&mut self, index: usize, sink: Sink) {
        if let Some(connection) = self.connections[index].as_mut() {
            connection.sink = sink;
        }
    }

    /// Handles a SCSI command whose turn it is.
    #[inline]
    pub(super) fn command<R>(
        &mut self,
        index: usize,
        bhs: &RawBhs,
        router: &mut R,
    ) -> Result<(), ConnectionError>
    where
        R: TaskRouter<Payload = P, Buffer = B>,
    {
        let Ok(command) = ScsiCommand::parse(bhs) else {
            self.reject(index, bhs, RejectReason::InvalidPduField);
            self.set_sink(index, Sink::Discard);
            return Ok(());
        };
        if self.tasks.find(command.itt).is_some() || command.itt == RESERVED_TAG {
            self.reject(index, bhs, RejectReason::TaskInProgress);
            self.set_sink(index, Sink::Discard);
            return Ok(());
        }
        let edtl = command.expected_data_transfer_length;
        let offered = offered(&command);
        let limits = self.settings.bursts();
        if let Err(what) = check_unsolicited(
            offered,
            command.data_segment_length,
            command.is_final,
            &limits,
        ) {
            self.reject(index, bhs, RejectReason::ProtocolError);
            return Err(ConnectionError::Protocol(what));
        }
        let id = self.tasks.next_id();
        let (admission, bidirectional_read) = self.hand_over(index, id, &command, router);
        self.counters.commands += 1;
        let mut task = Task {
            itt: command.itt,
            lun: command.lun,
            cmd_sn: command.cmd_sn,
            immediate: command.immediate,
            connection: index,
            edtl,
            read: command.read,
            write: command.write,
            wanted: 0,
            r2t_sn: 0,
            transfer: None,
            dropped_until: 0,
            bidirectional_read,
            listed: false,
            aborted: None,
        };
        let mut sink = Sink::Discard;
        match admission {
            Admission::Done(completion) => {
                self.tasks.use_up(id);
                self.window.allow(self.depth, self.in_flight() as u32);
                self.respond(&task, completion);
            }
            Admission::Running => {
                if !command.is_final {
                    task.dropped_until = offered.min(limits.first_burst);
                }
                self.tasks.insert(task);
                self.tasks.list(id);
            }
            Admission::Collect { buffer, wanted } => {
                task.wanted = wanted;
                let immediate = command.data_segment_length;
                let transfer = DataOutTransfer::begin(
                    buffer,
                    wanted,
                    offered,
                    immediate,
                    command.is_final,
                    &limits,
                );
                task.transfer = Some(transfer.map_err(ConnectionError::Protocol)?);
                self.tasks.insert(task);
                sink = Sink::Immediate {
                    task: id,
                    offset: 0,
                };
            }
        }
        self.set_sink(index, sink);
        Ok(())
    }

    /// Gives a command to the device server. Returns the result, and the expected read length of a
    /// command with both R and W.
    #[inline]
    fn hand_over<R>(
        &mut self,
        index: usize,
        id: TaskId,
        command: &ScsiCommand,
        router: &mut R,
    ) -> (Admission<P, B>, u32)
    where
        R: TaskRouter<Payload = P, Buffer = B>,
    {
        let edtl = command.expected_data_transfer_length;
        let mut incoming = IncomingCommand {
            lun: command.lun,
            cdb: &command.cdb,
            attribute: command.attribute,
            data_in_length: if command.read && !command.write {
                edtl
            } else {
                0
            },
            data_out_length: command.write.then_some(edtl),
        };
        if command.total_ahs_length == 0 {
            return (router.command(id, &incoming), 0);
        }
        let mut whole = command.cdb.to_vec();
        let mut bidirectional_read = 0;
        let ahs = self.connections[index]
            .as_ref()
            .map_or(&[][..], |connection| connection.receiver.ahs());
        for segment in AhsIter::new(ahs) {
            match segment {
                Ok(Ahs::ExtendedCdb(rest)) => whole.extend_from_slice(rest),
                Ok(Ahs::BidirectionalReadLength(length)) if command.read && command.write => {
                    bidirectional_read = length;
                }
                Ok(Ahs::BidirectionalReadLength(_)) => {}
                // These segments were checked when they came.
                Ok(Ahs::Unknown { .. }) | Err(_) => {}
            }
        }
        incoming.cdb = &whole;
        (router.command(id, &incoming), bidirectional_read)
    }

    fn data_out_header(&mut self, index: usize, bhs: &RawBhs) -> Result<(), ConnectionError> {
        let Ok(pdu) = DataOut::parse(bhs) else {
            return Ok(());
        };
        let Some(id) = self.tasks.find(pdu.itt) else {
            return self.early_data_header(index, bhs, &pdu);
        };
        let Some(task) = self.tasks.get_mut(id) else {
            return Ok(());
        };
        if task.connection != index {
            // The tag is in use again on another connection. This Data-Out belongs to an aborted
            // task, whose data was under way then.
            return self.early_data_header(index, bhs, &pdu);
        }
        let end = pdu.buffer_offset.saturating_add(pdu.data_segment_length);
        let checked = match &mut task.transfer {
            Some(transfer) => transfer.header(&pdu),
            None if pdu.ttt == RESERVED_TAG && end <= task.dropped_until => {
                if pdu.is_final {
                    task.dropped_until = 0;
                }
                self.set_sink(index, Sink::Discard);
                return Ok(());
            }
            None => Err("Data-Out for a command that has all its data"),
        };
        match checked {
            Ok(offset) => {
                self.set_sink(
                    index,
                    Sink::DataOut {
                        task: id,
                        offset,
                        ttt: pdu.ttt,
                        is_final: pdu.is_final,
                    },
                );
                Ok(())
            }
            Err(what) => {
                self.reject(index, bhs, RejectReason::ProtocolError);
                Err(ConnectionError::Protocol(what))
            }
        }
    }

    /// Takes bytes of the current PDU's data segment.
    #[inline]
    pub(super) fn data(&mut self, index: usize, bytes: &[u8]) {
        let Some(connection) = self.connections[index].as_mut() else {
            return;
        };
        match &mut connection.sink {
            Sink::Discard => {}
            Sink::Immediate { task, offset } | Sink::DataOut { task, offset, .. } => {
                self.counters.data_out_bytes += bytes.len() as u64;
                if let Some(transfer) = self
                    .tasks
                    .get_mut(*task)
                    .and_then(|task| task.transfer.as_mut())
                {
                    transfer.put(*offset, bytes);
                }
                *offset += bytes.len() as u32;
            }
            Sink::Whole { data, longest, .. } => {
                let room = longest.saturating_sub(data.len());
                data.extend_from_slice(&bytes[..bytes.len().min(room)])
            }
            Sink::Early { data, .. } => data.extend_from_slice(bytes),
            Sink::EarlyData { itt, .. } => {
                if let Some(early) = early_of(&mut self.early, index, *itt) {
                    early.data.extend_from_slice(bytes);
                }
            }
        }
    }

    /// Handles the end of the current PDU.
    #[inline]
    pub(super) fn end<R>(
        &mut self,
        index: usize,
        digest_ok: bool,
        router: &mut R,
    ) -> Result<Option<Event>, ConnectionError>
    where
        R: TaskRouter<Payload = P, Buffer = B>,
    {
        let Some(connection) = self.connections[index].as_mut() else {
            return Ok(None);
        };
        if !digest_ok {
            return self.digest_error(index, router);
        }
        if let Some(answer) = connection.answer_at_end.take() {
            let (task, completion) = *answer;
            self.send_answer(&task, completion);
            self.set_sink(index, Sink::Discard);
            return Ok(None);
        }
        match std::mem::replace(&mut connection.sink, Sink::Discard) {
            Sink::Discard => Ok(None),
            Sink::Immediate { task, .. } => {
                self.advance(task, router);
                Ok(None)
            }
            Sink::DataOut {
                task,
                ttt,
                is_final,
                ..
            } => {
                if let Some(transfer) = self
                    .tasks
                    .get_mut(task)
                    .and_then(|task| task.transfer.as_mut())
                {
                    transfer
                        .end(ttt, is_final)
                        .map_err(ConnectionError::Protocol)?;
                    self.advance(task, router);
                }
                Ok(None)
            }
            Sink::Whole { bhs, data, .. } => self.request(index, &bhs, data),
            Sink::Early { bhs, ahs, data } => {
                let early = Early {
                    connection: index,
                    data_final: bhs[1] & 0x80 != 0,
                    bhs,
                    ahs,
                    data,
                    data_pdus: 0,
                    spoiled: false,
                };
                if bhs[0] & 0x40 != 0 {
                    return self.run_one_early(early, router);
                }
                // The request may have been aborted meanwhile, too.
                let cmd_sn = cmd_sn(&bhs);
                let (next, last) = self.command_window();
                if in_window(cmd_sn, next, last) && !self.considered_received.contains(&cmd_sn) {
                    self.early.insert(cmd_sn, early);
                }
                // The gap may have closed while this PDU was arriving.
                self.run_early(router)
            }
            Sink::EarlyData { itt, is_final } => {
                if let Some(early) = early_of(&mut self.early, index, itt) {
                    early.data_final |= is_final;
                }
                self.run_early(router)
            }
        }
    }

    /// Moves a collecting task on: to the device server if its data is in, else to the next R2Ts.
    #[inline]
    pub(super) fn advance<R>(&mut self, id: TaskId, router: &mut R)
    where
        R: TaskRouter<Payload = P, Buffer = B>,
    {
        let Some(task) = self.tasks.get_mut(id) else {
            return;
        };
        let Some(transfer) = &task.transfer else {
            return;
        };
        if !transfer.is_complete() {
            self.tasks.list(id);
            self.solicit(id);
            return;
        }
        if transfer.is_spoiled() {
            return self.data_lost(id, router);
        }
        let Some(transfer) = task.transfer.take() else {
            return;
        };
        let length = task.wanted.min(task.edtl);
        match router.data_out(id, transfer.into_buffer(), length) {
            Admission::Done(completion) => self.complete(id, completion),
            Admission::Running | Admission::Collect { .. } => self.tasks.list(id),
        }
    }

    fn solicit(&mut self, id: TaskId) {
        let limits = self.settings.bursts();
        let Some(task) = self.tasks.get_mut(id) else {
            return;
        };
        let Some(connection) = self.connections[task.connection].as_mut() else {
            return;
        };
        let Some(transfer) = &mut task.transfer else {
            return;
        };
        while let Some(solicit) = transfer.solicit(connection.next_ttt, &limits) {
            connection.take_ttt();
            task.r2t_sn += 1;
            let pdu = ReadyToTransfer {
                lun: task.lun,
                itt: task.itt,
                ttt: solicit.ttt,
                stat_sn: connection.stat_sn,
                exp_cmd_sn: self.window.exp_cmd_sn(),
                max_cmd_sn: self.window.tell_max_cmd_sn(),
                r2t_sn: solicit.r2t_sn,
                buffer_offset: solicit.offset,
                desired_data_transfer_length: solicit.length,
            };
            let mut raw = [0; 48];
            pdu.encode(&mut raw);
            connection
                .transmit
                .push(&raw, super::transmit::DataSegment::Empty);
        }
    }

    /// Handles a wrong data digest (RFC 7143 §7.8): the PDU is rejected and discarded.
    ///
    /// A request counts as if it had never come, its CmdSN included. A command to which the data of
    /// a Data-Out belongs ends with a CRC error once the rest of its data is in.
    #[cold]
    fn digest_error<R>(
        &mut self,
        index: usize,
        router: &mut R,
    ) -> Result<Option<Event>, ConnectionError>
    where
        R: TaskRouter<Payload = P, Buffer = B>,
    {
        self.counters.digest_errors += 1;
        let Some(connection) = self.connections[index].as_mut() else {
            return Ok(None);
        };
        let bhs = *connection.receiver.bhs();
        let sink = std::mem::replace(&mut connection.sink, Sink::Discard);
        self.reject(index, &bhs, RejectReason::DataDigestError);
        let (id, ttt, is_final) = match sink {
            Sink::DataOut {
                task,
                ttt,
                is_final,
                ..
            } => (task, ttt, is_final),
            Sink::EarlyData { itt, is_final } => {
                if let Some(early) = early_of(&mut self.early, index, itt) {
                    early.spoiled = true;
                    early.data_final |= is_final;
                }
                return self.run_early(router);
            }
            // Commands with data are not begun before their digest is right.
            Sink::Immediate { .. } | Sink::Whole { .. } | Sink::Early { .. } | Sink::Discard => {
                return Ok(None);
            }
        };
        let transfer = self
            .tasks
            .get_mut(id)
            .and_then(|task| task.transfer.as_mut());
        if let Some(transfer) = transfer {
            transfer.spoil();
            transfer
                .end(ttt, is_final)
                .map_err(ConnectionError::Protocol)?;
            self.advance(id, router);
        }
        Ok(None)
    }

    /// Handles a command of which all due data has arrived, but with losses.
    #[cold]
    fn data_lost<R>(&mut self, id: TaskId, router: &mut R)
    where
        R: TaskRouter<Payload = P, Buffer = B>,
    {
        let Some(mut task) = self.tasks.remove(id) else {
            return;
        };
        if let Some(transfer) = task.transfer.take() {
            router.data_out_lost(id, transfer.into_buffer());
        }
        let completion = Completion {
            status: CHECK_CONDITION,
            sense: CRC_ERROR_SENSE.to_vec(),
            data_in: None,
            data_out_wanted: None,
            receipt: None,
        };
        self.respond(&task, completion);
        self.open_window();
    }
}

/// Returns the bytes of data-out that a command offers.
#[inline]
pub(super) fn offered(command: &ScsiCommand) -> u32 {
    if command.write {
        command.expected_data_transfer_length
    } else {
        0
    }
}

/// Returns CmdSN, which is at one place in every request.
#[inline]
pub(super) fn cmd_sn(bhs: &RawBhs) -> u32 {
    u32::from_be_bytes([bhs[24], bhs[25], bhs[26], bhs[27]])
}
