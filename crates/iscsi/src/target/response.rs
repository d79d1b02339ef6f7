//! Answers to commands: Data-In with status in the last PDU if possible, else SCSI Response (RFC
//! 7143 §11.4, §11.7).

use super::connection::Connection;
use super::session::{Completion, Session};
use super::task_table::Task;
use super::transmit::DataSegment;
use crate::payload::{DataOutBuffer, Payload};
use crate::pdu::{BHS_LENGTH, DataIn, RESERVED_TAG, ScsiResponse, ServiceResponse};

/// Residual of a command: the data that was or would be moved, against the length that the
/// initiator expects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Residual {
    overflow: bool,
    underflow: bool,
    count: u32,
}

impl Residual {
    fn new(expected: u32, moved: u64) -> Self {
        let expected = u64::from(expected);
        Self {
            overflow: moved > expected,
            underflow: moved < expected,
            count: u32::try_from(moved.abs_diff(expected)).unwrap_or(u32::MAX),
        }
    }
}

const GOOD: u8 = 0x00;

/// Part of a task that the answer to its command needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answered {
    itt: u32,
    connection: usize,
    edtl: u32,
    read: bool,
    write: bool,
    wanted: u32,
    r2t_sn: u32,
    bidirectional_read: u32,
}

impl<B> From<&Task<B>> for Answered {
    #[inline]
    fn from(task: &Task<B>) -> Self {
        Self {
            itt: task.itt,
            connection: task.connection,
            edtl: task.edtl,
            read: task.read,
            write: task.write,
            wanted: task.wanted,
            r2t_sn: task.r2t_sn,
            bidirectional_read: task.bidirectional_read,
        }
    }
}

impl<P: Payload + From<Vec<u8>>, B: DataOutBuffer> Session<P, B> {
    /// Queues the data and the status of a task on its connection, once the whole PDU of the
    /// command is in. Before that, an initiator may not find the task of the answer among the
    /// commands that it has sent.
    #[inline]
    pub(super) fn respond(&mut self, task: &Task<B>, completion: Completion<P>) {
        let task = Answered::from(task);
        let Some(connection) = self.connections[task.connection].as_mut() else {
            return;
        };
        if connection.receiver.is_within_command(task.itt) {
            connection.answer_at_end = Some(Box::new((task, completion)));
            return;
        }
        self.send_answer(&task, completion);
    }

    #[inline]
    pub(super) fn send_answer(&mut self, task: &Answered, completion: Completion<P>) {
        let exp_cmd_sn = self.window.exp_cmd_sn();
        let max_cmd_sn = self.window.tell_max_cmd_sn();
        let Some(connection) = self.connections[task.connection].as_mut() else {
            return;
        };
        let receipt = completion.receipt;
        let data = completion.data_in.filter(|data| !data.is_empty());
        let residual = Residual::new(
            task.edtl,
            moved(task, completion.data_out_wanted, data.as_ref()),
        );
        let mut data_sn = task.r2t_sn;
        if let Some(data) = data
            && task.read
            && !task.write
        {
            let length = data.len().min(task.edtl as usize);
            let collapse = completion.status == GOOD && length > 0;
            let burst = self.settings.max_burst_length as usize;
            let mut run = DataInRun {
                task_itt: task.itt,
                data_sn,
                exp_cmd_sn,
                max_cmd_sn,
                collapse,
                residual,
            };
            run.send(connection, data, length, burst);
            data_sn = run.data_sn;
            self.counters.data_in_bytes += length as u64;
            if collapse {
                connection.transmit.push_receipt(receipt);
                return;
            }
        }
        send_response(
            connection,
            task,
            &completion.status,
            completion.sense,
            residual,
            data_sn,
            exp_cmd_sn,
            max_cmd_sn,
        );
        connection.transmit.push_receipt(receipt);
    }
}

/// Returns the bytes that a task moves by its command, whether or not they were expected. RFC 7143
/// §11.4.5.2 calls them the SCSI-Presented Data Transfer Length.
///
/// Data in a direction that was not announced counts as none. But if no byte was expected at all,
/// everything is overflow, whatever the direction.
#[inline]
fn moved<P: Payload>(task: &Answered, by_cdb: Option<u32>, data_in: Option<&P>) -> u64 {
    let data_out = u64::from(by_cdb.unwrap_or(task.wanted));
    let data_in = data_in.map_or(0, |data| data.len() as u64);
    match (task.edtl, task.write, task.read) {
        (0, _, _) => data_out.max(data_in),
        (_, true, _) => data_out,
        (_, false, true) => data_in,
        (_, false, false) => 0,
    }
}

/// Data-In PDUs of one command.
struct DataInRun {
    task_itt: u32,
    data_sn: u32,
    exp_cmd_sn: u32,
    max_cmd_sn: u32,
    /// Whether the last PDU carries the status.
    collapse: bool,
    residual: Residual,
}

impl DataInRun {
    #[inline]
    fn send<P: Payload>(
        &mut self,
        connection: &mut Connection<P>,
        data: P,
        length: usize,
        burst: usize,
    ) {
        let segment = connection.initiator_max_data_segment as usize;
        let mut offset = 0;
        while length - offset > segment.min(burst) {
            // A sequence ends at each MaxBurstLength boundary (RFC 7143 §11.7.2).
            let burst_left = burst - offset % burst;
            let take = segment.min(burst_left).min(length - offset);
            self.push(
                connection,
                data.shared(),
                offset,
                take,
                take == burst_left,
                false,
            );
            offset += take;
        }
        // One PDU is left, or more if the burst boundary falls into the rest.
        let burst_left = burst - offset % burst;
        if length - offset > burst_left {
            self.push(connection, data.shared(), offset, burst_left, true, false);
            offset += burst_left;
        }
        if length > offset {
            self.push(
                connection,
                data,
                offset,
                length - offset,
                true,
                self.collapse,
            );
        }
    }

    #[inline]
    fn push<P: Payload>(
        &mut self,
        connection: &mut Connection<P>,
        data: P,
        offset: usize,
        length: usize,
        is_final: bool,
        status: bool,
    ) {
        let residual = if status {
            self.residual
        } else {
            Residual::default()
        };
        let pdu = DataIn {
            is_final,
            acknowledge: false,
            overflow: residual.overflow,
            underflow: residual.underflow,
            status_present: status,
            status: GOOD,
            data_segment_length: length as u32,
            lun: 0,
            itt: self.task_itt,
            ttt: RESERVED_TAG,
            stat_sn: if status { connection.take_stat_sn() } else { 0 },
            exp_cmd_sn: self.exp_cmd_sn,
            max_cmd_sn: self.max_cmd_sn,
            data_sn: self.data_sn,
            buffer_offset: offset as u32,
            residual_count: residual.count,
        };
        self.data_sn += 1;
        let mut raw = [0; BHS_LENGTH];
        pdu.encode(&mut raw);
        connection
            .transmit
            .push(&raw, DataSegment::Payload(data, offset..offset + length));
    }
}

#[allow(clippy::too_many_arguments, reason = "the fields of one PDU")]
fn send_response<P: Payload>(
    connection: &mut Connection<P>,
    task: &Answered,
    status: &u8,
    sense: Vec<u8>,
    residual: Residual,
    exp_data_sn: u32,
    exp_cmd_sn: u32,
    max_cmd_sn: u32,
) {
    let data = if sense.is_empty() {
        DataSegment::Empty
    } else {
        let mut segment = Vec::with_capacity(2 + sense.len());
        segment.extend_from_slice(&(sense.len() as u16).to_be_bytes());
        segment.extend_from_slice(&sense);
        DataSegment::Bytes(segment)
    };
    let pdu = ScsiResponse {
        // No command here moves data both ways, so the expected read data has not come.
        bidirectional_read_overflow: false,
        bidirectional_read_underflow: task.bidirectional_read > 0,
        overflow: residual.overflow,
        underflow: residual.underflow,
        response: ServiceResponse::Completed,
        status: *status,
        data_segment_length: if sense.is_empty() {
            0
        } else {
            sense.len() as u32 + 2
        },
        itt: task.itt,
        snack_tag: 0,
        stat_sn: connection.take_stat_sn(),
        exp_cmd_sn,
        max_cmd_sn,
        exp_data_sn,
        bidirectional_read_residual_count: task.bidirectional_read,
        residual_count: residual.count,
    };
    let mut raw = [0; BHS_LENGTH];
    pdu.encode(&mut raw);
    connection.transmit.push(&raw, data);
}
