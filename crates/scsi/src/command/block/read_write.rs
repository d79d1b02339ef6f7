//! READ and WRITE of 6, 10, 12 and 16 bytes (SBC-4 clause 5).
//!
//! READ(32) and WRITE(32) are for type 2 protection only. A unit without protection information
//! refuses them with INVALID COMMAND OPERATION CODE, as SBC-4 demands.

use crate::cdb::Cdb;
use crate::command_descriptor::Request;
use crate::logical_unit::LogicalUnit;
use crate::sense::Sense;
use crate::{BlockRange, Start};

impl LogicalUnit {
    /// Returns the READ or WRITE in a CDB if nothing about it is unusual. Other CDBs go the slow
    /// way, which answers with the exact error.
    ///
    /// Nothing is started, so a caller can also prepare for a command that has to wait.
    #[inline]
    pub fn foresee(&self, cdb: &[u8]) -> Option<Start> {
        let (flags, lba, count) = match *cdb {
            [0x28 | 0x2a, flags, a, b, c, d, _, high, low, 0, ..] => {
                let lba = u64::from(u32::from_be_bytes([a, b, c, d]));
                (flags, lba, u32::from(u16::from_be_bytes([high, low])))
            }
            [
                0x88 | 0x8a,
                flags,
                a,
                b,
                c,
                d,
                e,
                f,
                g,
                h,
                i,
                j,
                k,
                l,
                _,
                0,
                ..,
            ] => {
                let lba = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
                (flags, lba, u32::from_be_bytes([i, j, k, l]))
            }
            _ => return None,
        };
        let range = BlockRange::new(lba, u64::from(count))?;
        if flags & 0xe0 != 0 || count > self.max_transfer() || range.end() > self.blocks() {
            return None;
        }
        Some(start_for(self, cdb[0], range, flags & 0x08 != 0))
    }
}

/// Starts READ or WRITE, with every error.
pub(crate) fn start(request: &Request<'_>) -> Result<Start, Sense> {
    let cdb = request.cdb;
    let range = Fields::of(cdb).check(request.unit)?;
    let has_flags = cdb.u8(0) >= 0x20;
    if has_flags {
        cdb.refuse_protection(1)?;
    }
    Ok(start_for(
        request.unit,
        cdb.u8(0),
        range,
        has_flags && cdb.bit(1, 3),
    ))
}

/// Starts the transfer. Of the opcodes served here, the writing ones have bit 1 set.
#[inline]
fn start_for(unit: &LogicalUnit, opcode: u8, range: BlockRange, fua: bool) -> Start {
    if opcode & 0x02 != 0 {
        // `Fields::check` bounds the range by the largest transfer.
        let wanted = range.count.0 as u32 * unit.block_len();
        Start::Write { range, fua, wanted }
    } else {
        Start::Read { range, fua }
    }
}

/// LOGICAL BLOCK ADDRESS and length in blocks, at the places that the command groups 6, 10, 12 and
/// 16 have for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fields {
    /// The first block.
    pub(crate) lba: u64,
    /// Number of blocks.
    pub(crate) count: u32,
    /// CDB byte that holds `count`.
    pub(crate) count_at: u16,
}

impl Fields {
    /// Reads the fields of a CDB, by its command group.
    pub(crate) fn of(cdb: Cdb<'_>) -> Self {
        match cdb.u8(0) {
            0x00..=0x1f => {
                let count = match cdb.u8(4) {
                    0 => 256,
                    count => u32::from(count),
                };
                Self {
                    lba: u64::from(cdb.u24(1) & 0x1f_ffff),
                    count,
                    count_at: 4,
                }
            }
            0x20..=0x5f => Self {
                lba: u64::from(cdb.u32(2)),
                count: u32::from(cdb.u16(7)),
                count_at: 7,
            },
            0xa0..=0xbf => Self {
                lba: u64::from(cdb.u32(2)),
                count: cdb.u32(6),
                count_at: 6,
            },
            _ => Self {
                lba: cdb.u64(2),
                count: cdb.u32(10),
                count_at: 10,
            },
        }
    }

    /// Returns the range, inside the capacity and not longer than the largest transfer.
    pub(crate) fn check(self, unit: &LogicalUnit) -> Result<BlockRange, Sense> {
        let range = self.check_capacity(unit)?;
        if self.count > unit.max_transfer() {
            return Err(Sense::invalid_field_in_cdb(self.count_at));
        }
        Ok(range)
    }

    /// Returns the range, inside the capacity.
    pub(crate) fn check_capacity(self, unit: &LogicalUnit) -> Result<BlockRange, Sense> {
        range_in_capacity(unit, self.lba, u64::from(self.count))
    }
}

/// Returns the range, or LOGICAL BLOCK ADDRESS OUT OF RANGE.
pub(crate) fn range_in_capacity(
    unit: &LogicalUnit,
    lba: u64,
    count: u64,
) -> Result<BlockRange, Sense> {
    BlockRange::new(lba, count)
        .filter(|range| range.end() <= unit.blocks())
        .ok_or(Sense::lba_out_of_range())
}
