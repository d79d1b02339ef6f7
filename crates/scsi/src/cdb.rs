//! Typed access to the fields of a command descriptor block (SPC-4 4.2).
//!
//! Dispatch checks that a CDB is as long as its opcode demands before any handler sees it. Even so,
//! a field beyond the end reads as zero, so that no byte string can cause a panic.

use crate::sense::Sense;

/// Command descriptor block.
#[derive(Clone, Copy, Debug)]
pub struct Cdb<'a>(pub &'a [u8]);

impl Cdb<'_> {
    /// Returns byte `at`.
    pub fn u8(self, at: usize) -> u8 {
        self.0.get(at).copied().unwrap_or(0)
    }

    /// Reads the two bytes at `at`.
    pub fn u16(self, at: usize) -> u16 {
        u16::from_be_bytes([self.u8(at), self.u8(at + 1)])
    }

    /// Reads the three bytes at `at`.
    pub fn u24(self, at: usize) -> u32 {
        u32::from_be_bytes([0, self.u8(at), self.u8(at + 1), self.u8(at + 2)])
    }

    /// Reads the four bytes at `at`.
    pub fn u32(self, at: usize) -> u32 {
        u32::from(self.u16(at)) << 16 | u32::from(self.u16(at + 2))
    }

    /// Reads the eight bytes at `at`.
    pub fn u64(self, at: usize) -> u64 {
        u64::from(self.u32(at)) << 32 | u64::from(self.u32(at + 4))
    }

    /// Returns bit `bit` (7 = most significant) of byte `at`.
    pub fn bit(self, at: usize, bit: u8) -> bool {
        self.u8(at) >> bit & 1 != 0
    }

    /// Refuses a bit that is not zero with INVALID FIELD IN CDB, for features that are not offered.
    pub(crate) fn refuse_bit(self, at: usize, bit: u8) -> Result<(), Sense> {
        if self.bit(at, bit) {
            return Err(Sense::invalid_bit_in_cdb(at as u16, bit));
        }
        Ok(())
    }

    /// Refuses RDPROTECT, WRPROTECT, VRPROTECT or ORPROTECT (the upper three bits of byte `at`)
    /// with INVALID FIELD IN CDB unless zero. The unit has no protection information (SBC-4 4.21).
    pub(crate) fn refuse_protection(self, at: usize) -> Result<(), Sense> {
        if self.u8(at) & 0xe0 != 0 {
            return Err(Sense::invalid_bit_in_cdb(at as u16, 7));
        }
        Ok(())
    }

    /// Returns the length of a CDB with this opcode (SPC-4 4.2.5.1), or `None` for vendor specific
    /// opcodes. A variable-length CDB contains its own length.
    pub fn expected_len(self) -> Option<usize> {
        match self.u8(0) {
            0x00..=0x1f => Some(6),
            0x20..=0x5f => Some(10),
            0x7e => None,
            0x7f => Some(8 + usize::from(self.u8(7))),
            0x80..=0x9f => Some(16),
            0xa0..=0xbf => Some(12),
            _ => None,
        }
    }
}
