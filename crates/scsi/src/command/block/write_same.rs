//! WRITE SAME(10) and (16) (SBC-4 clause 5): one block, or zeros, over a range.

use std::sync::Arc;

use crate::command_descriptor::Request;
use crate::logical_unit::LogicalUnit;
use crate::logical_unit::limits;
use crate::sense::Sense;
use crate::{BlockRange, Input, Response, Start, Step, Task};

use super::read_write::Fields;

/// Starts WRITE SAME. A length of zero is refused (WSNZ = 1), and so are ANCHOR and the obsolete
/// LBDATA and PBDATA. The data-out must be exactly one block, or none with NDOB.
pub(crate) fn start(request: &Request<'_>) -> Result<Start, Sense> {
    let cdb = request.cdb;
    let unit = request.unit;
    cdb.refuse_protection(1)?;
    for bit in [4, 2, 1] {
        cdb.refuse_bit(1, bit)?;
    }
    let unmap = cdb.bit(1, 3);
    let no_data_out = cdb.bit(1, 0);
    if unmap && !unit.fixed_config().thin {
        return Err(Sense::invalid_bit_in_cdb(1, 3));
    }
    if no_data_out && cdb.u8(0) == 0x41 {
        return Err(Sense::invalid_bit_in_cdb(1, 0));
    }
    let fields = Fields::of(cdb);
    let range = fields.check_capacity(unit)?;
    if fields.count == 0 || fields.count > limits::MAX_WRITE_SAME_BLOCKS {
        return Err(Sense::invalid_field_in_cdb(fields.count_at));
    }
    let wanted = if no_data_out { 0 } else { unit.block_len() };
    if request.command.data_out_len > Some(wanted) {
        return Err(Sense::transfer_mismatch());
    }
    Ok(Start::Task(Box::new(WriteSame {
        unit: Arc::clone(unit),
        wanted,
        rest: range,
        unmap,
        pattern: None,
    })))
}

/// WRITE SAME, one piece at a time.
#[derive(Debug)]
struct WriteSame {
    unit: Arc<LogicalUnit>,
    wanted: u32,
    rest: BlockRange,
    unmap: bool,
    /// Block to repeat, unless it is all zeros.
    pattern: Option<Vec<u8>>,
}

impl Task for WriteSame {
    fn data_out_len(&self) -> u32 {
        self.wanted
    }

    /// Returns the bytes of a piece filled with the pattern. Zeros take none.
    fn working_len(&self) -> u64 {
        if self.wanted == 0 {
            return 0;
        }
        limits::bytes_per_step(&self.unit, self.rest)
    }

    fn step(&mut self, input: Input<'_>) -> Step {
        match input {
            Input::Begin { data_out } if data_out.iter().any(|&byte| byte != 0) => {
                self.pattern = Some(data_out.to_vec());
            }
            Input::Failed(error) => return Step::Done(self.unit.sense_for(error)),
            _ => {}
        }
        self.next_piece()
    }
}

impl WriteSame {
    /// Returns the next step. Data other than zeros is written also with UNMAP = 1, because blocks
    /// without storage would not read back as that data (SBC-4 4.7.3.4.4).
    fn next_piece(&mut self) -> Step {
        if self.rest.is_empty() {
            return Step::Done(Response::good());
        }
        let count = match self.pattern {
            Some(_) => limits::blocks_per_step(&self.unit),
            None => limits::zeroes_per_step(&self.unit),
        };
        let (range, rest) = self.rest.split_at_most(count);
        self.rest = rest;
        match &self.pattern {
            Some(pattern) => Step::WritePattern {
                range,
                pattern: pattern.clone(),
                fua: false,
            },
            None => Step::WriteZeroes {
                range,
                unmap: self.unmap,
                fua: false,
            },
        }
    }
}
