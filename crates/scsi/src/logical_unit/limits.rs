//! Limits of one command, reported in VPD page B0h and enforced by the commands from one place.
//!
//! They bound the duration and the memory of one command, not the abilities of a client.

use super::{LogicalUnit, UnitConfig};
use crate::BlockRange;

/// Most blocks that COMPARE AND WRITE takes (ESXi uses one).
const MAX_COMPARE_AND_WRITE_BLOCKS: u32 = 128;

/// Returns the most blocks that COMPARE AND WRITE takes on this unit.
pub(crate) fn max_compare_and_write(config: &UnitConfig) -> u32 {
    MAX_COMPARE_AND_WRITE_BLOCKS.min(config.max_transfer)
}

/// Length of the longest parameter list of any command, in bytes.
const LONGEST_PARAMETER_LIST: u32 = 128 << 10;

/// Most block descriptors that UNMAP takes.
pub(crate) const MAX_UNMAP_DESCRIPTORS: u32 = 256;

/// Most blocks that one UNMAP names, all descriptors together.
pub(crate) const MAX_UNMAP_BLOCKS: u32 = 1 << 20;

/// Most blocks that one WRITE SAME names. It is below 65 536, because clients take a larger limit
/// as a promise that a plain WRITE of 65 536 blocks works too.
pub(crate) const MAX_WRITE_SAME_BLOCKS: u32 = 1 << 15;

/// Returns the number of blocks that a long operation (VERIFY, patterns) moves in one step: 1 MiB
/// worth.
pub(crate) fn blocks_per_step(unit: &LogicalUnit) -> u64 {
    (1 << 20) / u64::from(unit.block_len())
}

/// Returns the most bytes of a range that a long operation moves in one step.
pub(crate) fn bytes_per_step(unit: &LogicalUnit, range: BlockRange) -> u64 {
    range.count.0.min(blocks_per_step(unit)) * u64::from(unit.block_len())
}

/// Returns the number of blocks that a long operation zeroes in one step: 32 MiB worth.
pub(crate) fn zeroes_per_step(unit: &LogicalUnit) -> u64 {
    (32 << 20) / u64::from(unit.block_len())
}

impl LogicalUnit {
    /// Returns the most blocks that one command may transfer.
    #[inline]
    pub(crate) fn max_transfer(&self) -> u32 {
        self.fixed_config().max_transfer
    }

    /// Returns the most bytes of data-out that any command of this unit takes. A caller that
    /// collects data before it has looked at the command needs no more space, whatever the
    /// initiator offers.
    pub fn max_data_out(&self) -> u32 {
        let config = self.fixed_config();
        // COMPARE AND WRITE sends its blocks twice.
        let blocks = config.max_transfer.max(2 * max_compare_and_write(config));
        let bytes = blocks.saturating_mul(config.block_len);
        bytes.max(LONGEST_PARAMETER_LIST)
    }
}
