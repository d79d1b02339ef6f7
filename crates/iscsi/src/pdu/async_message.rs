//! Asynchronous Message: a message that the target sends without being asked (RFC 7143 §11.9).

use super::bhs::{
    Opcode, PduError, RawBhs, be16, be32, be64, codes, data_segment_length, expect,
    put_data_segment_length, put16, put32, put64, start,
};

codes! {
    /// Event of the message (RFC 7143 §11.9.1).
    AsyncEvent {
        /// A SCSI asynchronous event occurred. Sense data follows.
        Scsi = 0,
        /// The target wants a logout within Parameter3 seconds.
        RequestLogout = 1,
        /// The target drops the connection with CID Parameter1.
        DropConnection = 2,
        /// The target drops every connection of the session.
        DropAllConnections = 3,
        /// The target wants to negotiate parameters anew within Parameter3 seconds.
        RequestNegotiation = 4,
        /// All tasks of the logical unit are being terminated (TaskReporting=FastAbort).
        TerminateTasks = 5,
        /// Vendor specific.
        Vendor = 255,
    }
}

/// Asynchronous Message of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsyncMessage {
    /// Length of the data segment (sense data, event data) in bytes.
    pub data_segment_length: u32,
    /// Logical unit, for [`AsyncEvent::Scsi`] and [`AsyncEvent::TerminateTasks`].
    pub lun: u64,
    /// Number of this status.
    pub stat_sn: u32,
    /// Next CmdSN expected.
    pub exp_cmd_sn: u32,
    /// Last CmdSN accepted.
    pub max_cmd_sn: u32,
    /// Event that occurred.
    pub async_event: AsyncEvent,
    /// Vendor code, for [`AsyncEvent::Vendor`].
    pub async_vcode: u8,
    /// CID for [`AsyncEvent::DropConnection`].
    pub parameter1: u16,
    /// Time2Wait in seconds for the events that drop connections.
    pub parameter2: u16,
    /// Time2Retain or a deadline in seconds.
    pub parameter3: u16,
}

impl AsyncMessage {
    /// Reads a header.
    ///
    /// # Errors
    /// The header has another opcode.
    pub fn parse(raw: &RawBhs) -> Result<Self, PduError> {
        expect(raw, Opcode::AsyncMessage)?;
        Ok(Self {
            data_segment_length: data_segment_length(raw),
            lun: be64(raw, 8),
            stat_sn: be32(raw, 24),
            exp_cmd_sn: be32(raw, 28),
            max_cmd_sn: be32(raw, 32),
            async_event: AsyncEvent::from_code(raw[36]),
            async_vcode: raw[37],
            parameter1: be16(raw, 38),
            parameter2: be16(raw, 40),
            parameter3: be16(raw, 42),
        })
    }

    /// Writes the header.
    pub fn encode(&self, raw: &mut RawBhs) {
        start(raw, Opcode::AsyncMessage, false, 0x80);
        put_data_segment_length(raw, self.data_segment_length);
        put64(raw, 8, self.lun);
        put32(raw, 16, super::RESERVED_TAG);
        put32(raw, 24, self.stat_sn);
        put32(raw, 28, self.exp_cmd_sn);
        put32(raw, 32, self.max_cmd_sn);
        raw[36] = self.async_event.code();
        raw[37] = self.async_vcode;
        put16(raw, 38, self.parameter1);
        put16(raw, 40, self.parameter2);
        put16(raw, 42, self.parameter3);
    }
}
