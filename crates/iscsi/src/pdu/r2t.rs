//! Ready To Transfer: the target asks for a piece of a write's data (RFC 7143 §11.8).

use super::bhs::{Opcode, PduError, RawBhs, be32, be64, expect, put32, put64, start};

/// Ready To Transfer. It carries no data segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadyToTransfer {
    /// Logical unit.
    pub lun: u64,
    /// Initiator Task Tag of the command.
    pub itt: u32,
    /// Target Transfer Tag that the answer must carry.
    pub ttt: u32,
    /// Next StatSN of the connection, which an R2T does not use up.
    pub stat_sn: u32,
    /// Next CmdSN expected.
    pub exp_cmd_sn: u32,
    /// Last CmdSN accepted.
    pub max_cmd_sn: u32,
    /// Number of the R2T within the command, from 0.
    pub r2t_sn: u32,
    /// Place of the wanted data, in bytes from the start of the command's data.
    pub buffer_offset: u32,
    /// Number of bytes wanted: never 0, at most MaxBurstLength.
    pub desired_data_transfer_length: u32,
}

impl ReadyToTransfer {
    /// Reads a header.
    ///
    /// # Errors
    /// The header has another opcode.
    #[inline]
    pub fn parse(raw: &RawBhs) -> Result<Self, PduError> {
        expect(raw, Opcode::ReadyToTransfer)?;
        Ok(Self {
            lun: be64(raw, 8),
            itt: be32(raw, 16),
            ttt: be32(raw, 20),
            stat_sn: be32(raw, 24),
            exp_cmd_sn: be32(raw, 28),
            max_cmd_sn: be32(raw, 32),
            r2t_sn: be32(raw, 36),
            buffer_offset: be32(raw, 40),
            desired_data_transfer_length: be32(raw, 44),
        })
    }

    /// Writes the header.
    #[inline]
    pub fn encode(&self, raw: &mut RawBhs) {
        start(raw, Opcode::ReadyToTransfer, false, 0x80);
        put64(raw, 8, self.lun);
        put32(raw, 16, self.itt);
        put32(raw, 20, self.ttt);
        put32(raw, 24, self.stat_sn);
        put32(raw, 28, self.exp_cmd_sn);
        put32(raw, 32, self.max_cmd_sn);
        put32(raw, 36, self.r2t_sn);
        put32(raw, 40, self.buffer_offset);
        put32(raw, 44, self.desired_data_transfer_length);
    }
}
