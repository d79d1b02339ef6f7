//! Reject: the target refuses a PDU and sends its header back (RFC 7143 §11.17).

use super::bhs::{
    Opcode, PduError, RawBhs, be32, codes, data_segment_length, expect, put_data_segment_length,
    put32, start,
};

codes! {
    /// Reason of a reject (RFC 7143 §11.17.1).
    RejectReason {
        /// Data (payload) digest error. The PDU may be sent again.
        DataDigestError = 0x02,
        /// SNACK reject. The PDU may be sent again.
        SnackReject = 0x03,
        /// Protocol error.
        ProtocolError = 0x04,
        /// Command not supported.
        CommandNotSupported = 0x05,
        /// Immediate command reject: too many immediate commands.
        ImmediateCommandReject = 0x06,
        /// Task in progress.
        TaskInProgress = 0x07,
        /// Invalid data acknowledgement.
        InvalidDataAck = 0x08,
        /// Invalid PDU field.
        InvalidPduField = 0x09,
        /// Long operation reject: out of target transfer tags.
        LongOperationReject = 0x0a,
        /// Deprecated: negotiation reset.
        NegotiationReset = 0x0b,
        /// Waiting for logout.
        WaitingForLogout = 0x0c,
    }
}

/// Reject of a PDU. Its data segment is the refused PDU's header, digest excluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reject {
    /// Reason of the reject.
    pub reason: RejectReason,
    /// Length of the data segment in bytes: at least 48.
    pub data_segment_length: u32,
    /// Number of this status.
    pub stat_sn: u32,
    /// Next CmdSN expected.
    pub exp_cmd_sn: u32,
    /// Last CmdSN accepted.
    pub max_cmd_sn: u32,
    /// Next DataSN or R2TSN, if the reason concerns one.
    pub data_sn: u32,
}

impl Reject {
    /// Reads a header.
    ///
    /// # Errors
    /// The header has another opcode.
    pub fn parse(raw: &RawBhs) -> Result<Self, PduError> {
        expect(raw, Opcode::Reject)?;
        Ok(Self {
            reason: RejectReason::from_code(raw[2]),
            data_segment_length: data_segment_length(raw),
            stat_sn: be32(raw, 24),
            exp_cmd_sn: be32(raw, 28),
            max_cmd_sn: be32(raw, 32),
            data_sn: be32(raw, 36),
        })
    }

    /// Writes the header.
    pub fn encode(&self, raw: &mut RawBhs) {
        start(raw, Opcode::Reject, false, 0x80);
        raw[2] = self.reason.code();
        put_data_segment_length(raw, self.data_segment_length);
        put32(raw, 16, super::RESERVED_TAG);
        put32(raw, 24, self.stat_sn);
        put32(raw, 28, self.exp_cmd_sn);
        put32(raw, 32, self.max_cmd_sn);
        put32(raw, 36, self.data_sn);
    }
}
