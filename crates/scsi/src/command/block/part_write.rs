//! WRITE with data that ends within a block: the rest of that block stays unchanged (FCP-4 9.4.2
//! a). Debian's iscsi-test-cu sends 512 bytes for a block of 4 KiB, and expects GOOD.

use std::sync::Arc;

use crate::logical_unit::LogicalUnit;
use crate::{BlockRange, Input, Response, Step, Task};

/// Reads the last block, puts the data over its first part, and writes. No other command touches
/// the range meanwhile.
#[derive(Debug)]
pub(crate) struct PartWrite {
    unit: Arc<LogicalUnit>,
    /// The blocks that the data reaches.
    range: BlockRange,
    /// Bytes of data-out by the CDB, more than the initiator sends.
    wanted: u32,
    fua: bool,
    data: Vec<u8>,
}

impl PartWrite {
    /// Makes a write of the first `offered` bytes of `range`: less than all, and no whole number of
    /// blocks.
    pub(crate) fn new(
        unit: &Arc<LogicalUnit>,
        range: BlockRange,
        offered: u32,
        wanted: u32,
        fua: bool,
    ) -> Self {
        let touched = offered.div_ceil(unit.block_len());
        Self {
            unit: Arc::clone(unit),
            range: range.split_at_most(touched.into()).0,
            wanted,
            fua,
            data: Vec::new(),
        }
    }
}

impl Task for PartWrite {
    fn data_out_len(&self) -> u32 {
        self.wanted
    }

    /// Returns the bytes of the blocks, and of the old content of the last block.
    fn working_len(&self) -> u64 {
        (self.range.count.0 + 1) * u64::from(self.unit.block_len())
    }

    fn exclusive(&self) -> Option<BlockRange> {
        Some(self.range)
    }

    fn step(&mut self, input: Input<'_>) -> Step {
        match input {
            Input::Begin { data_out } => {
                self.data = data_out.to_vec();
                let range = self.range.split_at_most(self.range.count.0 - 1).1;
                Step::Read { range }
            }
            Input::Blocks(found) => {
                let came = self.data.len() % self.unit.block_len() as usize;
                self.data.extend_from_slice(&found[came..]);
                Step::Write {
                    range: self.range,
                    data: std::mem::take(&mut self.data),
                    fua: self.fua,
                }
            }
            Input::Failed(error) => Step::Done(self.unit.sense_for(error)),
            _ => Step::Done(Response::good()),
        }
    }
}
