//! Typed access to the fields of a command descriptor block (SPC-4 4.2).
//!
//! Dispatch checks that a CDB is as long as its opcode demands before any handler sees it; a field
//! beyond the end nevertheless reads as zero, so no byte string whatever can cause a panic.

use crate::sense::Sense;

/// A command descriptor block.
#[derive(Clone, Copy, Debug)]
pub struct Cdb<'a>(pub &'a [u8]);

impl Cdb<'_> {
    /// Byte `at`.
    pub fn u8(self, at: usize) -> u8 {
        self.0.get(at).copied().unwrap_or(0)
    }

    /// The two bytes at `at`.
    pub fn u16(self, at: usize) -> u16 {
        u16::from_be_bytes([self.u8(at), self.u8(at + 1)])
    }

    /// The three bytes at `at`.
    pub fn u24(self, at: usize) -> u32 {
        u32::from_be_bytes([0, self.u8(at), self.u8(at + 1), self.u8(at + 2)])
    }

    /// The four bytes at `at`.
    pub fn u32(self, at: usize) -> u32 {
        u32::from(self.u16(at)) << 16 | u32::from(self.u16(at + 2))
    }

    /// The eight bytes at `at`.
    pub fn u64(self, at: usize) -> u64 {
        u64::from(self.u32(at)) << 32 | u64::from(self.u32(at + 4))
    }

    /// Bit `bit` (7 = most significant) of byte `at`.
    pub fn bit(self, at: usize, bit: u8) -> bool {
        self.u8(at) >> bit & 1 != 0
    }

    /// INVALID FIELD IN CDB unless the bit is zero: for features that are not offered.
    pub(crate) fn refuse_bit(self, at: usize, bit: u8) -> Result<(), Sense> {
        if self.bit(at, bit) {
            return Err(Sense::invalid_bit_in_cdb(at as u16, bit));
        }
        Ok(())
    }

    /// INVALID FIELD IN CDB unless RDPROTECT, WRPROTECT, VRPROTECT or ORPROTECT (the upper three
    /// bits of byte `at`) is zero: the unit has no protection information (SBC-4 4.21).
    pub(crate) fn refuse_protection(self, at: usize) -> Result<(), Sense> {
        if self.u8(at) & 0xe0 != 0 {
            return Err(Sense::invalid_bit_in_cdb(at as u16, 7));
        }
        Ok(())
    }

    /// How long a CDB with this opcode is (SPC-4 4.2.5.1), `None` for vendor specific opcodes. A
    /// variable-length CDB tells its own length.
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
