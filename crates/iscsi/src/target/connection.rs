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

/// Negotiated settings of one connection.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionSettings {
    /// Connection id.
    pub cid: u16,
    /// Whether headers have a CRC32C.
    pub header_digest: bool,
    /// Whether data has a CRC32C.
    pub data_digest: bool,
    /// Longest data segment that this target declared, in bytes.
    pub max_recv_data_segment_length: u32,
    /// Longest data segment that the initiator takes, in bytes.
    pub initiator_max_recv_data_segment_length: u32,
    /// StatSN of the first response in the full-feature phase.
    pub stat_sn: u32,
}

/// Place for the data segment of the PDU that is arriving.
#[derive(Debug)]
pub(super) enum Sink {
    /// No place: data of an aborted or refused command.
    Discard,
    /// PDU that is interpreted once it is complete. No more than `longest` bytes of its data are
    /// kept.
    Whole {
        bhs: RawBhs,
        data: Vec<u8>,
        longest: usize,
    },
    /// Request whose CmdSN is not due yet (several connections).
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

/// Ping that waits for its answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ping {
    pub(super) ttt: u32,
    pub(super) sent: Duration,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Connection<P: Payload> {
    pub(super) cid: u16,
    pub(super) receiver: Receiver,
    pub(super) transmit: TransmitQueue<P>,
    pub(super) sink: Sink,
    /// Answer to the command whose PDU is still arriving.
    pub(super) answer_at_end: Option<Box<(Answered, Completion<P>)>>,
    pub(super) stat_sn: u32,
    /// StatSN that the initiator expects next. It has all statuses before.
    pub(super) exp_stat_sn: u32,
    pub(super) next_ttt: u32,
    pub(super) initiator_max_data_segment: u32,
    pub(super) last_heard: Duration,
    pub(super) ping: Option<Ping>,
    /// Whether R2Ts of aborted tasks may be on their way.
    pub(super) aborted_r2ts: bool,
    /// Whether the connection was logged out. Nothing more is received, and nothing is sent behind
    /// the answer.
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

    /// Returns the StatSN of a response that leaves now.
    #[inline]
    pub(super) fn take_stat_sn(&mut self) -> u32 {
        let stat_sn = self.stat_sn;
        self.stat_sn = stat_sn.wrapping_add(1);
        stat_sn
    }

    /// Returns a Target Transfer Tag that is not in use, never the reserved one.
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

/// Negotiated settings of the whole session, and limits of this target.
#[derive(Clone, Copy, Debug)]
pub struct SessionSettings {
    /// Whether this is a discovery session, which refuses SCSI commands and task management (RFC
    /// 7143 §4.3).
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
    /// CmdSN of the first command.
    pub exp_cmd_sn: u32,
    /// Number of commands that may be in flight.
    pub queue_depth: u32,
    /// Silence after which the initiator is pinged, or `None` to never ping.
    pub ping_after: Option<Duration>,
    /// Time for which a ping may stay unanswered.
    pub ping_timeout: Duration,
    /// Time for which a command's data-out may stand still before its connection is closed. After
    /// this time the session is closed if requests wait for one with a lower CmdSN.
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
