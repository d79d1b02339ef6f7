//! SNACK Request: asks for PDUs again, or acknowledges data (RFC 7143 §11.16). At error recovery
//! level 0 a target refuses it.

use super::bhs::{Opcode, PduError, RawBhs, be32, be64, codes, expect, put32, put64, start};

codes! {
    /// Request of a SNACK (RFC 7143 §11.16.1), four bits on the wire.
    SnackType {
        /// Data or R2T PDUs are requested again.
        DataOrR2t = 0,
        /// Status PDUs are requested again.
        Status = 1,
        /// Data is acknowledged.
        DataAck = 2,
        /// Data is requested again, cut anew.
        RData = 3,
    }
}

/// SNACK Request. It carries no data segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnackRequest {
    /// Request of the SNACK.
    pub snack_type: SnackType,
    /// Logical unit, for a DataACK.
    pub lun: u64,
    /// Initiator Task Tag of the command, or the reserved tag.
    pub itt: u32,
    /// Target Transfer Tag, or SNACK Tag of an R-Data SNACK.
    pub ttt_or_snack_tag: u32,
    /// Acknowledges every status before it.
    pub exp_stat_sn: u32,
    /// First number that is asked for.
    pub beg_run: u32,
    /// Count of numbers that are asked for, or 0 for all.
    pub run_length: u32,
}

impl SnackRequest {
    /// Reads a header.
    ///
    /// # Errors
    /// The header has another opcode.
    pub fn parse(raw: &RawBhs) -> Result<Self, PduError> {
        expect(raw, Opcode::SnackRequest)?;
        Ok(Self {
            snack_type: SnackType::from_code(raw[1] & 0x0f),
            lun: be64(raw, 8),
            itt: be32(raw, 16),
            ttt_or_snack_tag: be32(raw, 20),
            exp_stat_sn: be32(raw, 28),
            beg_run: be32(raw, 40),
            run_length: be32(raw, 44),
        })
    }

    /// Writes the header.
    pub fn encode(&self, raw: &mut RawBhs) {
        start(
            raw,
            Opcode::SnackRequest,
            false,
            0x80 | (self.snack_type.code() & 0x0f),
        );
        put64(raw, 8, self.lun);
        put32(raw, 16, self.itt);
        put32(raw, 20, self.ttt_or_snack_tag);
        put32(raw, 28, self.exp_stat_sn);
        put32(raw, 40, self.beg_run);
        put32(raw, 44, self.run_length);
    }
}
