//! Text Request and Text Response: key=value pairs in the full-feature phase (RFC 7143 §11.10,
//! §11.11).

use super::bhs::{
    Opcode, PduError, RawBhs, be32, be64, bit, data_segment_length, expect,
    put_data_segment_length, put32, put64, start,
};

/// Text Request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextRequest {
    /// I: outside the command window.
    pub immediate: bool,
    /// F: the initiator has no more questions.
    pub is_final: bool,
    /// C: the text continues in the next request.
    pub continues: bool,
    /// Length of the text in bytes.
    pub data_segment_length: u32,
    /// LUN, copied from the response that is continued, 0 in the first request.
    pub lun: u64,
    /// Initiator Task Tag.
    pub itt: u32,
    /// Target Transfer Tag, copied from the response that is continued.
    /// [`RESERVED_TAG`](super::RESERVED_TAG) starts anew.
    pub ttt: u32,
    /// Position in the session's order of commands.
    pub cmd_sn: u32,
    /// Acknowledges every status before it.
    pub exp_stat_sn: u32,
}

impl TextRequest {
    /// Reads a header.
    ///
    /// # Errors
    /// The header has another opcode.
    pub fn parse(raw: &RawBhs) -> Result<Self, PduError> {
        expect(raw, Opcode::TextRequest)?;
        Ok(Self {
            immediate: raw[0] & 0x40 != 0,
            is_final: raw[1] & 0x80 != 0,
            continues: raw[1] & 0x40 != 0,
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
        let flags = bit(self.is_final, 0x80) | bit(self.continues, 0x40);
        start(raw, Opcode::TextRequest, self.immediate, flags);
        put_data_segment_length(raw, self.data_segment_length);
        put64(raw, 8, self.lun);
        put32(raw, 16, self.itt);
        put32(raw, 20, self.ttt);
        put32(raw, 24, self.cmd_sn);
        put32(raw, 28, self.exp_stat_sn);
    }
}

/// Text Response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextResponse {
    /// F: the target has no more text.
    pub is_final: bool,
    /// C: the text continues in the next response.
    pub continues: bool,
    /// Length of the text in bytes.
    pub data_segment_length: u32,
    /// LUN that the continuing request must copy together with `ttt`.
    pub lun: u64,
    /// Initiator Task Tag.
    pub itt: u32,
    /// Tag of the unfinished exchange, or [`RESERVED_TAG`](super::RESERVED_TAG) if it is finished.
    pub ttt: u32,
    /// Number of this status.
    pub stat_sn: u32,
    /// Next CmdSN expected.
    pub exp_cmd_sn: u32,
    /// Last CmdSN accepted.
    pub max_cmd_sn: u32,
}

impl TextResponse {
    /// Reads a header.
    ///
    /// # Errors
    /// The header has another opcode.
    pub fn parse(raw: &RawBhs) -> Result<Self, PduError> {
        expect(raw, Opcode::TextResponse)?;
        Ok(Self {
            is_final: raw[1] & 0x80 != 0,
            continues: raw[1] & 0x40 != 0,
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
        let flags = bit(self.is_final, 0x80) | bit(self.continues, 0x40);
        start(raw, Opcode::TextResponse, false, flags);
        put_data_segment_length(raw, self.data_segment_length);
        put64(raw, 8, self.lun);
        put32(raw, 16, self.itt);
        put32(raw, 20, self.ttt);
        put32(raw, 24, self.stat_sn);
        put32(raw, 28, self.exp_cmd_sn);
        put32(raw, 32, self.max_cmd_sn);
    }
}
