//! The limits of one command, told in VPD page B0h and enforced by the commands from one place.
//!
//! They bound how long one command runs and how much memory it takes, not what a client can do.

use crate::BlockRange;
use crate::logical_unit::{LogicalUnit, UnitConfig};

/// The most blocks COMPARE AND WRITE takes (ESXi uses one).
const MAX_COMPARE_AND_WRITE_BLOCKS: u32 = 128;

/// The most blocks COMPARE AND WRITE takes on this unit.
pub(crate) fn max_compare_and_write(config: &UnitConfig) -> u32 {
    MAX_COMPARE_AND_WRITE_BLOCKS.min(config.max_transfer)
}

/// No command takes a longer parameter list than this, in bytes.
const LONGEST_PARAMETER_LIST: u32 = 128 << 10;

/// The most block descriptors UNMAP takes.
pub(crate) const MAX_UNMAP_DESCRIPTORS: u32 = 256;

/// The most blocks that one UNMAP names, all descriptors together.
pub(crate) const MAX_UNMAP_BLOCKS: u32 = 1 << 20;

/// The most blocks that one WRITE SAME names. Below 65 536, because clients take a larger limit as a
/// promise that a plain WRITE of 65 536 blocks works too.
pub(crate) const MAX_WRITE_SAME_BLOCKS: u32 = 1 << 15;

/// How many blocks a long operation moves in one step (VERIFY, patterns): 1 MiB worth.
pub(crate) fn blocks_per_step(unit: &LogicalUnit) -> u64 {
    (1 << 20) / u64::from(unit.block_len())
}

/// How many bytes of a range a long operation moves in one step at most.
pub(crate) fn bytes_per_step(unit: &LogicalUnit, range: BlockRange) -> u64 {
    range.count.0.min(blocks_per_step(unit)) * u64::from(unit.block_len())
}

/// How many blocks a long operation zeroes in one step: 32 MiB worth.
pub(crate) fn zeroes_per_step(unit: &LogicalUnit) -> u64 {
    (32 << 20) / u64::from(unit.block_len())
}

impl LogicalUnit {
    /// The most blocks one command may transfer.
    #[inline]
    pub(crate) fn max_transfer(&self) -> u32 {
        self.fixed_config().max_transfer
    }

    /// The most bytes of data-out that any command of this unit takes. Who collects the data of a
    /// command that is not looked at yet needs no room for more, whatever the initiator offers.
    pub fn max_data_out(&self) -> u32 {
        let config = self.fixed_config();
        // COMPARE AND WRITE sends its blocks twice.
        let blocks = config.max_transfer.max(2 * max_compare_and_write(config));
        let bytes = blocks.saturating_mul(config.block_len);
        bytes.max(LONGEST_PARAMETER_LIST)
    }
}
