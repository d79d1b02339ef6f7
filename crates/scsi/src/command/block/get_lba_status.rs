//! GET LBA STATUS(16) (SBC-4 clause 5): reports the blocks that have storage.

use std::sync::Arc;

use crate::Response;
use crate::command_descriptor::Request;
use crate::logical_unit::LogicalUnit;
use crate::sense::Sense;
use crate::{BlockRange, Extent, Input, Start, Step, Task};

/// Most descriptors of an answer, whatever the allocation length.
const MAX_DESCRIPTORS: usize = 1024;
/// Most questions to the backend for one command. A device server may report less than the
/// allocation length allows.
const MAX_STEPS: u32 = 256;

/// REPORT TYPE of all logical blocks, whatever their status. No other type is offered.
const ALL_LOGICAL_BLOCKS: u8 = 0x00;

/// Starts GET LBA STATUS(16).
pub(crate) fn start(request: &Request<'_>) -> Result<Start, Sense> {
    // An initiator that asks for some kinds of blocks would misread an answer about all blocks.
    if request.cdb.u8(14) != ALL_LOGICAL_BLOCKS {
        return Err(Sense::invalid_field_in_cdb(14));
    }
    let lba = request.cdb.u64(2);
    let blocks = request.unit.blocks();
    if lba >= blocks {
        return Err(Sense::lba_out_of_range());
    }
    let allocation_length = request.cdb.u32(10) as usize;
    let rest = BlockRange::new(lba, blocks - lba).ok_or(Sense::lba_out_of_range())?;
    Ok(Start::Task(Box::new(GetLbaStatus {
        unit: Arc::clone(request.unit),
        allocation_length,
        room: (allocation_length.saturating_sub(8) / 16).clamp(1, MAX_DESCRIPTORS),
        rest,
        steps: 0,
        extents: Vec::new(),
    })))
}

/// Collects extents until no space or no block is left.
#[derive(Debug)]
struct GetLbaStatus {
    unit: Arc<LogicalUnit>,
    allocation_length: usize,
    /// Number of descriptors that fit.
    room: usize,
    rest: BlockRange,
    steps: u32,
    extents: Vec<Extent>,
}

impl Task for GetLbaStatus {
    fn data_out_len(&self) -> u32 {
        0
    }

    fn step(&mut self, input: Input<'_>) -> Step {
        match input {
            Input::Extents(extents) => {
                let before = self.rest;
                for &extent in extents {
                    self.add(extent);
                }
                if self.rest == before {
                    return self.finish();
                }
            }
            Input::Failed(error) => return Step::Done(self.unit.sense_for(error)),
            _ => {}
        }
        // One descriptor more than fits shows that the last one is complete.
        let full = self.extents.len() > self.room;
        if full || self.rest.is_empty() || self.steps == MAX_STEPS {
            return self.finish();
        }
        if !self.unit.fixed_config().thin {
            // Without provisioning management every block has storage.
            self.add(Extent {
                range: self.rest,
                mapped: true,
            });
            return self.finish();
        }
        self.steps += 1;
        Step::Extents { range: self.rest }
    }
}

impl GetLbaStatus {
    /// Adds an extent. It is merged with the previous one if both are alike.
    fn add(&mut self, extent: Extent) {
        let starts_here = extent.range.start == self.rest.start;
        if !starts_here || extent.range.end() > self.rest.end() {
            return;
        }
        (_, self.rest) = self.rest.split_at_most(extent.range.count.0);
        if let Some(last) = self.extents.last_mut()
            && last.mapped == extent.mapped
        {
            last.range.count.0 += extent.range.count.0;
            return;
        }
        self.extents.push(extent);
    }

    /// Builds the answer. A descriptor counts at most 2^32 - 1 blocks, so longer runs take several.
    fn finish(&self) -> Step {
        let mut out = vec![0; 8];
        let mut descriptors = 0;
        for extent in &self.extents {
            let mut rest = extent.range;
            while !rest.is_empty() && descriptors < self.room {
                let (piece, after) = rest.split_at_most(u64::from(u32::MAX));
                out.extend_from_slice(&piece.start.0.to_be_bytes());
                out.extend_from_slice(&(piece.count.0 as u32).to_be_bytes());
                out.extend_from_slice(&[u8::from(!extent.mapped), 0, 0, 0]);
                rest = after;
                descriptors += 1;
            }
        }
        let data_length = (out.len() - 4) as u32;
        out[..4].copy_from_slice(&data_length.to_be_bytes());
        out.truncate(self.allocation_length);
        Step::Done(Response::data(out))
    }
}
