//! SCSI Response: the end of a command, if no Data-In carried its status (RFC 7143 §11.4).

use super::bhs::{
    Opcode, PduError, RawBhs, be32, bit, codes, data_segment_length, expect,
    put_data_segment_length, put32, start,
};

codes! {
    /// iSCSI service response (RFC 7143 §11.4.3). Values from 0x80 are vendor specific.
    ServiceResponse {
        /// Command completed at target, so the status is valid.
        Completed = 0x00,
        /// Target failure.
        TargetFailure = 0x01,
    }
}

/// SCSI Response. The data segment, if any, is SenseLength (two bytes), sense data, response data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScsiResponse {
    /// o: the bidirectional read's residual is an overflow.
    pub bidirectional_read_overflow: bool,
    /// u: the bidirectional read's residual is an underflow.
    pub bidirectional_read_underflow: bool,
    /// O: `residual_count` bytes were not moved because EDTL was too small.
    pub overflow: bool,
    /// U: `residual_count` bytes of EDTL were not moved.
    pub underflow: bool,
    /// Whether the command ended at the SCSI level.
    pub response: ServiceResponse,
    /// SCSI status (SAM-5 5.3.1), if `response` is [`ServiceResponse::Completed`].
    pub status: u8,
    /// Length of the data segment in bytes.
    pub data_segment_length: u32,
    /// Initiator Task Tag.
    pub itt: u32,
    /// SNACK tag, or zero.
    pub snack_tag: u32,
    /// Number of this status.
    pub stat_sn: u32,
    /// Next CmdSN expected.
    pub exp_cmd_sn: u32,
    /// Last CmdSN accepted.
    pub max_cmd_sn: u32,
    /// Number of Data-In (read) or R2T (write) PDUs sent for the command.
    pub exp_data_sn: u32,
    /// Residual of the bidirectional read in bytes.
    pub bidirectional_read_residual_count: u32,
    /// Residual in bytes.
    pub residual_count: u32,
}

impl ScsiResponse {
    /// Reads a header.
    ///
    /// # Errors
    /// The header has another opcode.
    #[inline]
    pub fn parse(raw: &RawBhs) -> Result<Self, PduError> {
        expect(raw, Opcode::ScsiResponse)?;
        Ok(Self {
            bidirectional_read_overflow: raw[1] & 0x10 != 0,
            bidirectional_read_underflow: raw[1] & 0x08 != 0,
            overflow: raw[1] & 0x04 != 0,
            underflow: raw[1] & 0x02 != 0,
            response: ServiceResponse::from_code(raw[2]),
            status: raw[3],
            data_segment_length: data_segment_length(raw),
            itt: be32(raw, 16),
            snack_tag: be32(raw, 20),
            stat_sn: be32(raw, 24),
            exp_cmd_sn: be32(raw, 28),
            max_cmd_sn: be32(raw, 32),
            exp_data_sn: be32(raw, 36),
            bidirectional_read_residual_count: be32(raw, 40),
            residual_count: be32(raw, 44),
        })
    }

    /// Writes the header.
    #[inline]
    pub fn encode(&self, raw: &mut RawBhs) {
        let flags = 0x80
            | bit(self.bidirectional_read_overflow, 0x10)
            | bit(self.bidirectional_read_underflow, 0x08)
            | bit(self.overflow, 0x04)
            | bit(self.underflow, 0x02);
        start(raw, Opcode::ScsiResponse, false, flags);
        raw[2] = self.response.code();
        raw[3] = self.status;
        put_data_segment_length(raw, self.data_segment_length);
        put32(raw, 16, self.itt);
        put32(raw, 20, self.snack_tag);
        put32(raw, 24, self.stat_sn);
        put32(raw, 28, self.exp_cmd_sn);
        put32(raw, 32, self.max_cmd_sn);
        put32(raw, 36, self.exp_data_sn);
        put32(raw, 40, self.bidirectional_read_residual_count);
        put32(raw, 44, self.residual_count);
    }
}

/// Returns the sense data in a SCSI Response's data segment: the bytes that SenseLength covers (RFC
/// 7143 §11.4.7). A wrong length yields the bytes that are there.
pub fn sense_data(data_segment: &[u8]) -> &[u8] {
    match data_segment {
        [high, low, rest @ ..] => {
            let length = usize::from(u16::from_be_bytes([*high, *low]));
            rest.get(..length).unwrap_or(rest)
        }
        _ => &[],
    }
}
