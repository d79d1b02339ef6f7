//! Requests that come before their turn. An earlier CmdSN is still under way on another connection
//! of the session (RFC 7143 §4.2.2.1), or their data digest has not come. They are kept, with the
//! data that comes, until they are due.

use std::collections::BTreeMap;
use std::time::Duration;

use super::command::{cmd_sn, offered};
use super::command_window::Arrival;
use super::connection::Sink;
use super::data_out::check_unsolicited;
use super::session::{ConnectionError, Event, Session, TaskRouter};
use crate::payload::{DataOutBuffer, Payload};
use crate::pdu::{Bhs, DataOut, Opcode, RESERVED_TAG, RawBhs, RejectReason, ScsiCommand};

/// Request that waits for earlier CmdSNs.
#[derive(Debug)]
pub(super) struct Early {
    pub(super) connection: usize,
    pub(super) bhs: RawBhs,
    pub(super) ahs: Vec<u8>,
    pub(super) data: Vec<u8>,
    /// Number of Data-Out PDUs whose data is in `data`, beside the data that came with the command.
    pub(super) data_pdus: u32,
    pub(super) data_final: bool,
    /// Whether some of the data was lost on its way.
    pub(super) spoiled: bool,
}

impl<P: Payload + From<Vec<u8>>, B: DataOutBuffer> Session<P, B> {
    #[cold]
    pub(super) fn not_next(&mut self, index: usize, bhs: &RawBhs, arrival: Arrival) {
        let cmd_sn = cmd_sn(bhs);
        let early = arrival == Arrival::Early
            && !self.early.contains_key(&cmd_sn)
            && !self.considered_received.contains(&cmd_sn);
        if early {
            self.keep(index, bhs);
        } else {
            self.set_sink(index, Sink::Discard);
        }
    }

    /// Keeps a request until its PDU is complete.
    pub(super) fn keep(&mut self, index: usize, bhs: &RawBhs) {
        if let Some(connection) = self.connections[index].as_mut() {
            connection.sink = Sink::Early {
                bhs: *bhs,
                ahs: connection.receiver.ahs().to_vec(),
                // The length is no more than was declared: the receiver has checked it.
                data: Vec::with_capacity(Bhs::new(bhs).data_segment_length()),
            };
        }
    }

    /// Checks the announcements of an early command on the connection on which it came. Once the
    /// command is due, the input under inspection may be that of another connection.
    #[cold]
    pub(super) fn check_early(
        &mut self,
        index: usize,
        bhs: &RawBhs,
    ) -> Result<(), ConnectionError> {
        let Ok(command) = ScsiCommand::parse(bhs) else {
            return Ok(());
        };
        let (immediate, limits) = (command.data_segment_length, self.settings.bursts());
        let offered = offered(&command);
        check_unsolicited(offered, immediate, command.is_final, &limits).map_err(|what| {
            self.reject(index, bhs, RejectReason::ProtocolError);
            ConnectionError::Protocol(what)
        })
    }

    /// Handles data of a command that is not due yet, or that was aborted or refused.
    #[cold]
    pub(super) fn early_data_header(
        &mut self,
        index: usize,
        bhs: &RawBhs,
        pdu: &DataOut,
    ) -> Result<(), ConnectionError> {
        let first_burst = self.settings.first_burst_length;
        let Some(early) = early_of(&mut self.early, index, pdu.itt) else {
            self.set_sink(index, Sink::Discard);
            return Ok(());
        };
        let have = early.data.len() as u32;
        let room = ScsiCommand::parse(&early.bhs).map_or(0, |command| offered(&command));
        let room = room.min(first_burst).saturating_sub(have);
        let fits = pdu.ttt == RESERVED_TAG
            && pdu.buffer_offset == have
            && pdu.data_sn == early.data_pdus
            && pdu.data_segment_length <= room;
        if early.data_final || !fits {
            self.reject(index, bhs, RejectReason::ProtocolError);
            return Err(ConnectionError::Protocol("unexpected unsolicited data"));
        }
        early.data_pdus += 1;
        let (itt, is_final) = (pdu.itt, pdu.is_final);
        self.set_sink(index, Sink::EarlyData { itt, is_final });
        Ok(())
    }

    /// Runs early requests whose turn has come, and functions that waited for earlier commands.
    ///
    /// A command is begun even if some of its unsolicited data is still on its way. The remaining
    /// data may be more than is kept ahead of its turn.
    pub(super) fn run_early<R>(&mut self, router: &mut R) -> Result<Option<Event>, ConnectionError>
    where
        R: TaskRouter<Payload = P, Buffer = B>,
    {
        while !(self.early.is_empty()
            && self.functions.is_empty()
            && self.considered_received.is_empty())
        {
            self.skip_considered_received();
            if let Some(event) = self.due_function() {
                return Ok(Some(event));
            }
            let next = self.window.exp_cmd_sn();
            let Some(early) = self.early.remove(&next) else {
                return Ok(None);
            };
            self.window.arrive(next);
            let event = self.run_one_early(early, router)?;
            if event.is_some() {
                return Ok(event);
            }
        }
        Ok(None)
    }

    /// Reports whether requests have waited too long for one with a lower CmdSN.
    ///
    /// The loss of a connection leaves a gap in the CmdSNs. The initiator may fill it (RFC 7143
    /// §7.2.1). If it does not, nothing else moves the session on. While data of earlier commands
    /// comes, the missing request may be on its way behind that data, which has a time limit of its
    /// own.
    pub(super) fn command_overdue(&mut self, now: Duration) -> bool {
        let mut tasks = self.tasks.iter();
        let data_comes = tasks.any(|(_, task)| !task.immediate && task.transfer.is_some());
        if self.early.is_empty() && self.functions.is_empty() || data_comes {
            self.gap = None;
            return false;
        }
        let missing = self.window.exp_cmd_sn();
        match self.gap {
            Some((same, since)) if same == missing => {
                now.saturating_sub(since) >= self.settings.data_out_timeout
            }
            _ => {
                self.gap = Some((missing, now));
                false
            }
        }
    }

    pub(super) fn run_one_early<R>(
        &mut self,
        early: Early,
        router: &mut R,
    ) -> Result<Option<Event>, ConnectionError>
    where
        R: TaskRouter<Payload = P, Buffer = B>,
    {
        let Early {
            connection: index,
            mut bhs,
            ahs,
            data,
            data_pdus,
            data_final,
            spoiled,
        } = early;
        if Bhs::new(&bhs).opcode() != Ok(Opcode::ScsiCommand) {
            return self.request(index, &bhs, data);
        }
        // All the data that arrived so far is treated as immediate data of one PDU.
        let [_, a, b, c] = (data.len() as u32).to_be_bytes();
        bhs[5..8].copy_from_slice(&[a, b, c]);
        bhs[1] = bhs[1] & 0x7f | if data_final { 0x80 } else { 0 };
        let Some(connection) = self.connections[index].as_mut() else {
            return Ok(None);
        };
        let mut own_sink = std::mem::replace(&mut connection.sink, Sink::Discard);
        let own_ahs = connection.receiver.swap_ahs(ahs);
        let immediate_data = std::mem::replace(&mut self.settings.immediate_data, true);
        let begun = self.command(index, &bhs, router);
        self.settings.immediate_data = immediate_data;
        self.data(index, &data);
        let Some(connection) = self.connections[index].as_mut() else {
            return Ok(None);
        };
        connection.receiver.swap_ahs(own_ahs);
        let sink = std::mem::replace(&mut connection.sink, Sink::Discard);
        if let Sink::Immediate { task, offset } = sink {
            let mut left = 0;
            if let Sink::EarlyData { itt, is_final } = own_sink
                && itt == Bhs::new(&bhs).itt()
            {
                // The PDU is in the midst of its data: the rest goes to the place that the transfer
                // names.
                left = connection.receiver.data_left() as u32;
                own_sink = Sink::DataOut {
                    task,
                    offset,
                    ttt: RESERVED_TAG,
                    is_final,
                };
            }
            let task = self.tasks.get_mut(task);
            if let Some(transfer) = task.and_then(|task| task.transfer.as_mut()) {
                transfer.resume(data_pdus, left);
                if spoiled {
                    transfer.spoil();
                }
            }
        }
        self.set_sink(index, own_sink);
        begun?;
        if let Sink::Immediate { task, .. } = sink {
            self.advance(task, router);
        }
        Ok(None)
    }
}

/// Returns the early request of a connection that has this Initiator Task Tag.
pub(super) fn early_of(
    early: &mut BTreeMap<u32, Early>,
    index: usize,
    itt: u32,
) -> Option<&mut Early> {
    let mut early = early.values_mut();
    early.find(|early| early.connection == index && Bhs::new(&early.bhs).itt() == itt)
}
