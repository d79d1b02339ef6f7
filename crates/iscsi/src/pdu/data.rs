//! SCSI Data-Out and Data-In (RFC 7143 §11.7).

use super::bhs::{
    Opcode, PduError, RawBhs, be32, be64, bit, data_segment_length, expect,
    put_data_segment_length, put32, put64, start,
};

/// SCSI Data-Out: a piece of a write's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataOut {
    /// F: last PDU of the sequence (of the unsolicited data, or of the R2T's answer).
    pub is_final: bool,
    /// Length of the data in bytes.
    pub data_segment_length: u32,
    /// Logical unit, meaningful only if `ttt` is a tag.
    pub lun: u64,
    /// Initiator Task Tag of the command.
    pub itt: u32,
    /// Target Transfer Tag of the answered R2T, or [`RESERVED_TAG`](super::RESERVED_TAG) if the
    /// data is unsolicited.
    pub ttt: u32,
    /// Acknowledges every status before it.
    pub exp_stat_sn: u32,
    /// Number of the PDU within its sequence, from 0.
    pub data_sn: u32,
    /// Place of the data, in bytes from the start of the command's data.
    pub buffer_offset: u32,
}

impl DataOut {
    /// Reads a header.
    ///
    /// # Errors
    /// The header has another opcode.
    #[inline]
    pub fn parse(raw: &RawBhs) -> Result<Self, PduError> {
        expect(raw, Opcode::DataOut)?;
        Ok(Self {
            is_final: raw[1] & 0x80 != 0,
            data_segment_length: data_segment_length(raw),
            lun: be64(raw, 8),
            itt: be32(raw, 16),
            ttt: be32(raw, 20),
            exp_stat_sn: be32(raw, 28),
            data_sn: be32(raw, 36),
            buffer_offset: be32(raw, 40),
        })
    }

    /// Writes the header.
    #[inline]
    pub fn encode(&self, raw: &mut RawBhs) {
        start(raw, Opcode::DataOut, false, bit(self.is_final, 0x80));
        put_data_segment_length(raw, self.data_segment_length);
        put64(raw, 8, self.lun);
        put32(raw, 16, self.itt);
        put32(raw, 20, self.ttt);
        put32(raw, 28, self.exp_stat_sn);
        put32(raw, 36, self.data_sn);
        put32(raw, 40, self.buffer_offset);
    }
}

/// SCSI Data-In: a piece of a read's data, the last one possibly with the status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataIn {
    /// F: last PDU of the sequence.
    pub is_final: bool,
    /// A: the target asks for a DataACK (error recovery level above 0 only).
    pub acknowledge: bool,
    /// O: `residual_count` bytes were not moved because EDTL was too small; with S only.
    pub overflow: bool,
    /// U: `residual_count` bytes of EDTL were not moved; with S only.
    pub underflow: bool,
    /// S: status, StatSN and residual are valid, and no SCSI Response follows.
    pub status_present: bool,
    /// SCSI status, with S only.
    pub status: u8,
    /// Length of the data in bytes.
    pub data_segment_length: u32,
    /// Logical unit, meaningful only with A.
    pub lun: u64,
    /// Initiator Task Tag of the command.
    pub itt: u32,
    /// Target Transfer Tag, or [`RESERVED_TAG`](super::RESERVED_TAG) unless A is set.
    pub ttt: u32,
    /// Number of the status, with S only.
    pub stat_sn: u32,
    /// Next CmdSN expected.
    pub exp_cmd_sn: u32,
    /// Last CmdSN accepted.
    pub max_cmd_sn: u32,
    /// Number of the PDU within the command, from 0.
    pub data_sn: u32,
    /// Place of the data, in bytes from the start of the command's data.
    pub buffer_offset: u32,
    /// Residual in bytes, with S only.
    pub residual_count: u32,
}

impl DataIn {
    /// Reads a header.
    ///
    /// # Errors
    /// The header has another opcode.
    #[inline]
    pub fn parse(raw: &RawBhs) -> Result<Self, PduError> {
        expect(raw, Opcode::DataIn)?;
        Ok(Self {
            is_final: raw[1] & 0x80 != 0,
            acknowledge: raw[1] & 0x40 != 0,
            overflow: raw[1] & 0x04 != 0,
            underflow: raw[1] & 0x02 != 0,
            status_present: raw[1] & 0x01 != 0,
            status: raw[3],
            data_segment_length: data_segment_length(raw),
            lun: be64(raw, 8),
            itt: be32(raw, 16),
            ttt: be32(raw, 20),
            stat_sn: be32(raw, 24),
            exp_cmd_sn: be32(raw, 28),
            max_cmd_sn: be32(raw, 32),
            data_sn: be32(raw, 36),
            buffer_offset: be32(raw, 40),
            residual_count: be32(raw, 44),
        })
    }

    /// Writes the header.
    #[inline]
    pub fn encode(&self, raw: &mut RawBhs) {
        let flags = bit(self.is_final, 0x80)
            | bit(self.acknowledge, 0x40)
            | bit(self.overflow, 0x04)
            | bit(self.underflow, 0x02)
            | bit(self.status_present, 0x01);
        start(raw, Opcode::DataIn, false, flags);
        raw[3] = self.status;
        put_data_segment_length(raw, self.data_segment_length);
        put64(raw, 8, self.lun);
        put32(raw, 16, self.itt);
        put32(raw, 20, self.ttt);
        put32(raw, 24, self.stat_sn);
        put32(raw, 28, self.exp_cmd_sn);
        put32(raw, 32, self.max_cmd_sn);
        put32(raw, 36, self.data_sn);
        put32(raw, 40, self.buffer_offset);
        put32(raw, 44, self.residual_count);
    }
}
