//! NOP-Out and NOP-In: pings both ways (RFC 7143 §11.18, §11.19).

use super::bhs::{
    Opcode, PduError, RawBhs, be32, be64, data_segment_length, expect, put_data_segment_length,
    put32, put64, start,
};

/// NOP-Out: the initiator pings (`itt` valid) or answers a ping (`ttt` valid).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NopOut {
    /// I: outside the command window.
    pub immediate: bool,
    /// Length of the ping data in bytes.
    pub data_segment_length: u32,
    /// LUN, copied from the NOP-In answered.
    pub lun: u64,
    /// Initiator Task Tag, or [`RESERVED_TAG`](super::RESERVED_TAG) to want no answer.
    pub itt: u32,
    /// Target Transfer Tag, copied from the NOP-In answered, else
    /// [`RESERVED_TAG`](super::RESERVED_TAG).
    pub ttt: u32,
    /// Position in the session's order of commands.
    pub cmd_sn: u32,
    /// Acknowledges every status before it.
    pub exp_stat_sn: u32,
}

impl NopOut {
    /// Reads a header.
    ///
    /// # Errors
    /// The header has another opcode.
    pub fn parse(raw: &RawBhs) -> Result<Self, PduError> {
        expect(raw, Opcode::NopOut)?;
        Ok(Self {
            immediate: raw[0] & 0x40 != 0,
            data_segment_length: data_segment_length(raw),
            lun: be64(raw, 8),
            itt: be32(raw, 16),
            ttt: be32(raw, 20),
            cmd_sn: be32(raw, 24),
            exp_stat_sn: be32(raw, 28),
        })
    }

    /// Writes the header.
    pub fn encode(&self, raw: &mut RawBhs) {
        start(raw, Opcode::NopOut, self.immediate, 0x80);
        put_data_segment_length(raw, self.data_segment_length);
        put64(raw, 8, self.lun);
        put32(raw, 16, self.itt);
        put32(raw, 20, self.ttt);
        put32(raw, 24, self.cmd_sn);
        put32(raw, 28, self.exp_stat_sn);
    }
}

/// NOP-In: the target answers a ping (`itt` valid), pings (`ttt` valid), or merely reports its
/// window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NopIn {
    /// Length of the returned ping data in bytes.
    pub data_segment_length: u32,
    /// LUN that the answer must copy, valid if `ttt` is a tag.
    pub lun: u64,
    /// Initiator Task Tag of the ping answered, else [`RESERVED_TAG`](super::RESERVED_TAG).
    pub itt: u32,
    /// Target Transfer Tag that the answer must copy, or [`RESERVED_TAG`](super::RESERVED_TAG) to
    /// want no answer.
    pub ttt: u32,
    /// Number of this status, used up only if `itt` is a tag.
    pub stat_sn: u32,
    /// Next CmdSN expected.
    pub exp_cmd_sn: u32,
    /// Last CmdSN accepted.
    pub max_cmd_sn: u32,
}

impl NopIn {
    /// Reads a header.
    ///
    /// # Errors
    /// The header has another opcode.
    pub fn parse(raw: &RawBhs) -> Result<Self, PduError> {
        expect(raw, Opcode::NopIn)?;
        Ok(Self {
            data_segment_length: data_segment_length(raw),
            lun: be64(raw, 8),
            itt: be32(raw, 16),
            ttt: be32(raw, 20),
            stat_sn: be32(raw, 24),
            exp_cmd_sn: be32(raw, 28),
            max_cmd_sn: be32(raw, 32),
        })
    }

    /// Writes the header.
    pub fn encode(&self, raw: &mut RawBhs) {
        start(raw, Opcode::NopIn, false, 0x80);
        put_data_segment_length(raw, self.data_segment_length);
        put64(raw, 8, self.lun);
        put32(raw, 16, self.itt);
        put32(raw, 20, self.ttt);
        put32(raw, 24, self.stat_sn);
        put32(raw, 28, self.exp_cmd_sn);
        put32(raw, 32, self.max_cmd_sn);
    }
}
