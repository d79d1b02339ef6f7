//! One connection of a session in the full-feature phase: its stream, its queue, its StatSN.

use std::time::Duration;

use super::data_out::BurstLimits;
use super::receive::Receiver;
use super::response::Answered;
use super::session::Completion;
use super::task_table::TaskId;
use super::transmit::TransmitQueue;
use crate::payload::Payload;
use crate::pdu::RawBhs;

/// What was negotiated for one connection.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionSettings {
    /// Connection id.
    pub cid: u16,
    /// CRC32C over headers.
    pub header_digest: bool,
    /// CRC32C over data.
    pub data_digest: bool,
    /// The longest data segment this target declared it takes, in bytes.
    pub max_recv_data_segment_length: u32,
    /// The longest data segment the initiator takes, in bytes.
    pub initiator_max_recv_data_segment_length: u32,
    /// The StatSN of the first response in the full-feature phase.
    pub stat_sn: u32,
}

/// Where the data segment of the PDU that is arriving goes.
#[derive(Debug)]
pub(super) enum Sink {
    /// Nowhere: an aborted or refused command's data.
    Discard,
    /// A PDU that is interpreted once it is whole; no more than `longest` bytes of its data are kept.
    Whole {
        bhs: RawBhs,
        data: Vec<u8>,
        longest: usize,
    },
    /// A request whose CmdSN is not due yet (several connections).
    Early {
        bhs: RawBhs,
        ahs: Vec<u8>,
        data: Vec<u8>,
    },
    /// Unsolicited Data-Out of a command that is not due yet.
    EarlyData { itt: u32, is_final: bool },
    /// Immediate data of a command.
    Immediate { task: TaskId, offset: u32 },
    /// Data-Out of a command.
    DataOut {
        task: TaskId,
        offset: u32,
        ttt: u32,
        is_final: bool,
    },
}

/// A ping that waits for its answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ping {
    pub(super) ttt: u32,
    pub(super) sent: Duration,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Connection<P> {
    pub(super) cid: u16,
    pub(super) receiver: Receiver,
    pub(super) transmit: TransmitQueue<P>,
    pub(super) sink: Sink,
    /// The answer to the command whose PDU is still arriving.
    pub(super) answer_at_end: Option<Box<(Answered, Completion<P>)>>,
    pub(super) stat_sn: u32,
    /// The status that the initiator said it expects next: it has all before.
    pub(super) exp_stat_sn: u32,
    pub(super) next_ttt: u32,
    pub(super) initiator_max_data_segment: u32,
    pub(super) last_heard: Duration,
    pub(super) ping: Option<Ping>,
    /// R2Ts of tasks that were aborted may be on their way.
    pub(super) aborted_r2ts: bool,
    /// It was logged out: nothing more is received, and nothing sent behind the answer.
    pub(super) logged_out: bool,
}

impl<P: Payload> Connection<P> {
    pub(super) fn new(settings: &ConnectionSettings, now: Duration) -> Self {
        let (header_digest, data_digest) = (settings.header_digest, settings.data_digest);
        let limit = settings.max_recv_data_segment_length as usize;
        Self {
            cid: settings.cid,
            receiver: Receiver::new(header_digest, data_digest, limit),
            transmit: TransmitQueue::new(header_digest, data_digest),
            sink: Sink::Discard,
            answer_at_end: None,
            stat_sn: settings.stat_sn,
            exp_stat_sn: settings.stat_sn,
            next_ttt: 0,
            initiator_max_data_segment: settings.initiator_max_recv_data_segment_length,
            last_heard: now,
            ping: None,
            aborted_r2ts: false,
            logged_out: false,
        }
    }

    /// The StatSN of a response that leaves now.
    #[inline]
    pub(super) fn take_stat_sn(&mut self) -> u32 {
        let stat_sn = self.stat_sn;
        self.stat_sn = stat_sn.wrapping_add(1);
        stat_sn
    }

    /// A Target Transfer Tag that is not in use; never the reserved one.
    pub(super) fn take_ttt(&mut self) -> u32 {
        let ttt = self.next_ttt;
        self.next_ttt = if ttt == crate::pdu::RESERVED_TAG - 1 {
            0
        } else {
            ttt + 1
        };
        ttt
    }
}

/// What was negotiated for the whole session, and what this target allows it.
#[derive(Clone, Copy, Debug)]
pub struct SessionSettings {
    /// A discovery session: SCSI commands and task management are refused (RFC 7143 §4.3).
    pub discovery: bool,
    /// MaxBurstLength in bytes.
    pub max_burst_length: u32,
    /// FirstBurstLength in bytes.
    pub first_burst_length: u32,
    /// MaxOutstandingR2T.
    pub max_outstanding_r2t: u16,
    /// InitialR2T.
    pub initial_r2t: bool,
    /// ImmediateData.
    pub immediate_data: bool,
    /// The CmdSN of the first command.
    pub exp_cmd_sn: u32,
    /// How many commands may be in flight.
    pub queue_depth: u32,
    /// Silence after which the initiator is pinged; `None` never pings.
    pub ping_after: Option<Duration>,
    /// How long a ping may stay unanswered.
    pub ping_timeout: Duration,
    /// How long a command's data-out may stand still before its connection is closed, and how long requests
    /// may wait for one with a lower CmdSN before the session is.
    pub data_out_timeout: Duration,
}

impl SessionSettings {
    pub(super) fn bursts(&self) -> BurstLimits {
        BurstLimits {
            first_burst: self.first_burst_length,
            max_burst: self.max_burst_length,
            max_outstanding_r2t: self.max_outstanding_r2t,
            initial_r2t: self.initial_r2t,
            immediate_data: self.immediate_data,
        }
    }
}
