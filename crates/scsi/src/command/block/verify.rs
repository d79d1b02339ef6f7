//! VERIFY and WRITE AND VERIFY of 10, 12 and 16 bytes (SBC-4 clause 5).

use std::sync::Arc;

use crate::command_descriptor::Request;
use crate::logical_unit::LogicalUnit;
use crate::logical_unit::limits;
use crate::sense::Sense;
use crate::{BlockRange, Input, Response, Start, Step, Task};

use super::read_write::Fields;

/// Data with which the blocks are compared (BYTCHK).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compare {
    /// 00b: nothing. The blocks must be readable.
    Nothing,
    /// 01b: the data-out, block by block.
    DataOut,
    /// 11b: one block of data-out, repeated.
    OneBlock,
}

/// Starts VERIFY.
pub(crate) fn start(request: &Request<'_>) -> Result<Start, Sense> {
    let cdb = request.cdb;
    let unit = request.unit;
    cdb.refuse_protection(1)?;
    let compare = match cdb.u8(1) >> 1 & 3 {
        0 => Compare::Nothing,
        1 => Compare::DataOut,
        3 => Compare::OneBlock,
        _ => return Err(Sense::invalid_bit_in_cdb(1, 2)),
    };
    let fields = Fields::of(cdb);
    let range = if compare == Compare::DataOut {
        fields.check(unit)?
    } else {
        fields.check_capacity(unit)?
    };
    if range.is_empty() {
        return Ok(Start::good());
    }
    Ok(Start::Task(Box::new(Verify::new(
        unit, range, compare, false,
    ))))
}

/// Starts WRITE AND VERIFY.
pub(crate) fn start_after_write(request: &Request<'_>) -> Result<Start, Sense> {
    let cdb = request.cdb;
    cdb.refuse_protection(1)?;
    let compare = match cdb.u8(1) >> 1 & 3 {
        0 => Compare::Nothing,
        1 => Compare::DataOut,
        _ => return Err(Sense::invalid_bit_in_cdb(1, 2)),
    };
    let range = Fields::of(cdb).check(request.unit)?;
    if range.is_empty() {
        return Ok(Start::good());
    }
    Ok(Start::Task(Box::new(Verify::new(
        request.unit,
        range,
        compare,
        true,
    ))))
}

/// Reads the range one piece at a time, and compares it.
#[derive(Debug)]
struct Verify {
    unit: Arc<LogicalUnit>,
    range: BlockRange,
    compare: Compare,
    /// Whether the command is WRITE AND VERIFY.
    write_first: bool,
    /// Bytes of data-out by the CDB.
    wanted: u32,
    expected: Vec<u8>,
    reading: BlockRange,
    rest: BlockRange,
}

impl Verify {
    fn new(
        unit: &Arc<LogicalUnit>,
        range: BlockRange,
        compare: Compare,
        write_first: bool,
    ) -> Self {
        let block_len = unit.block_len();
        let wanted = match compare {
            Compare::OneBlock => block_len,
            // The count is bounded by the largest transfer.
            _ if write_first || compare == Compare::DataOut => range.count.0 as u32 * block_len,
            _ => 0,
        };
        Self {
            unit: Arc::clone(unit),
            range,
            compare,
            write_first,
            wanted,
            expected: Vec::new(),
            reading: BlockRange::default(),
            rest: range,
        }
    }

    fn begin(&mut self, data_out: &[u8]) -> Step {
        if self.write_first {
            let block_len = self.unit.block_len();
            self.range = self.range.filled_by(data_out.len() as u64, block_len);
            self.rest = self.range;
            if self.range.is_empty() {
                return Step::Done(Response::good());
            }
        }
        if self.compare != Compare::Nothing {
            self.expected = data_out.to_vec();
        }
        if self.write_first {
            // The write is durable first, so that the read returns the content of the medium.
            return Step::WriteDataOut {
                range: self.range,
                offset: 0,
                fua: true,
            };
        }
        self.read_next()
    }

    fn read_next(&mut self) -> Step {
        if self.rest.is_empty() {
            return Step::Done(Response::good());
        }
        let (reading, rest) = self.rest.split_at_most(limits::blocks_per_step(&self.unit));
        self.reading = reading;
        self.rest = rest;
        Step::Read { range: reading }
    }

    fn matches(&self, found: &[u8]) -> bool {
        match self.compare {
            Compare::Nothing => true,
            Compare::OneBlock => found
                .chunks(self.unit.block_len() as usize)
                .all(|block| block == self.expected),
            Compare::DataOut => {
                let blocks_before = self.reading.start.0 - self.range.start.0;
                let at = blocks_before as usize * self.unit.block_len() as usize;
                self.expected.get(at..at + found.len()) == Some(found)
            }
        }
    }
}

impl Task for Verify {
    fn data_out_len(&self) -> u32 {
        self.wanted
    }

    fn takes_fewer_blocks(&self) -> bool {
        self.write_first
    }

    fn working_len(&self) -> u64 {
        let kept = match self.compare {
            Compare::Nothing => 0,
            Compare::DataOut | Compare::OneBlock => u64::from(self.wanted),
        };
        limits::bytes_per_step(&self.unit, self.range) + kept
    }

    fn step(&mut self, input: Input<'_>) -> Step {
        match input {
            Input::Begin { data_out } => self.begin(data_out),
            Input::Blocks(found) if !self.matches(found) => {
                Step::Done(self.unit.check_condition(&Sense::miscompare()))
            }
            Input::Failed(error) => Step::Done(self.unit.sense_for(error)),
            _ => self.read_next(),
        }
    }
}
