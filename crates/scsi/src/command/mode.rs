//! MODE SENSE and MODE SELECT, 6 and 10 bytes (SPC-4 6.9 to 6.12).

use std::sync::Arc;

use crate::cdb::Cdb;
use crate::command_descriptor::Request;
use crate::itl_nexus::ItlNexus;
use crate::logical_unit::LogicalUnit;
use crate::logical_unit::write_through::WriteThrough;
use crate::mode_page::{ModePages, PageControl};
use crate::sense::Sense;
use crate::{Input, Response, Start, Step, Task, UnitAttention};

/// Starts MODE SENSE(6).
pub(crate) fn sense_6(request: &Request<'_>) -> Result<Start, Sense> {
    let cdb = request.cdb;
    let body = sense(request, false)?;
    let mut out = vec![
        0,
        0,
        device_specific(request),
        body.block_descriptor.len() as u8,
    ];
    out.extend_from_slice(&body.block_descriptor);
    out.extend_from_slice(&body.pages);
    // All pages and a short block descriptor are far below 256 bytes.
    out[0] = (out.len() - 1) as u8;
    Ok(Start::data(out, usize::from(cdb.u8(4))))
}

/// Starts MODE SENSE(10).
pub(crate) fn sense_10(request: &Request<'_>) -> Result<Start, Sense> {
    let cdb = request.cdb;
    let long_lba = cdb.bit(1, 4);
    let body = sense(request, long_lba)?;
    let len = body.block_descriptor.len() as u8;
    let is_long = u8::from(len == 16);
    let mut out = vec![0, 0, 0, device_specific(request), is_long, 0, 0, len];
    out.extend_from_slice(&body.block_descriptor);
    out.extend_from_slice(&body.pages);
    let data_length = (out.len() - 2) as u16;
    out[..2].copy_from_slice(&data_length.to_be_bytes());
    Ok(Start::data(out, usize::from(cdb.u16(7))))
}

struct ModeData {
    block_descriptor: Vec<u8>,
    pages: Vec<u8>,
}

fn sense(request: &Request<'_>, long_lba: bool) -> Result<ModeData, Sense> {
    let cdb = request.cdb;
    let control = PageControl::from_bits(cdb.u8(2) >> 6);
    let pages = request
        .unit
        .state()
        .mode
        .sense(control, cdb.u8(2) & 0x3f, cdb.u8(3))?;
    let disable_block_descriptors = cdb.bit(1, 3);
    let block_descriptor = match (disable_block_descriptors, long_lba) {
        (true, _) => Vec::new(),
        (false, false) => short_block_descriptor(request.unit),
        (false, true) => long_block_descriptor(request.unit),
    };
    Ok(ModeData {
        block_descriptor,
        pages,
    })
}

/// Returns WP and DPOFUA (SBC-4 table 157).
fn device_specific(request: &Request<'_>) -> u8 {
    let protected = request.unit.is_write_protected() || request.nexus.is_read_only();
    u8::from(protected) << 7 | 0x10
}

/// Builds the descriptor of SBC-4 6.5.2.2. FFFF_FFFFh stands for more blocks than fit.
fn short_block_descriptor(unit: &LogicalUnit) -> Vec<u8> {
    let blocks = u32::try_from(unit.blocks()).unwrap_or(u32::MAX);
    let mut out = blocks.to_be_bytes().to_vec();
    out.extend_from_slice(&unit.block_len().to_be_bytes());
    out
}

/// Builds the descriptor of SBC-4 6.5.2.3.
fn long_block_descriptor(unit: &LogicalUnit) -> Vec<u8> {
    let mut out = unit.blocks().to_be_bytes().to_vec();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&unit.block_len().to_be_bytes());
    out
}

/// Starts MODE SELECT(6).
pub(crate) fn select_6(request: &Request<'_>) -> Result<Start, Sense> {
    select(request, 4, u32::from(request.cdb.u8(4)))
}

/// Starts MODE SELECT(10).
pub(crate) fn select_10(request: &Request<'_>) -> Result<Start, Sense> {
    select(request, 8, u32::from(request.cdb.u16(7)))
}

fn select(request: &Request<'_>, header_len: usize, list_len: u32) -> Result<Start, Sense> {
    let cdb: Cdb<'_> = request.cdb;
    if !cdb.bit(1, 4) {
        // PF = 0 asks for a vendor specific format.
        return Err(Sense::invalid_bit_in_cdb(1, 4));
    }
    // RTD asks to revert to defaults, which is not offered.
    cdb.refuse_bit(1, 1)?;
    if list_len == 0 {
        return Ok(Start::good());
    }
    Ok(Start::Task(Box::new(Select {
        unit: Arc::clone(request.unit),
        nexus: Arc::clone(request.nexus),
        header_len,
        list_len,
        save: cdb.bit(1, 0),
        stage: ModeSelectStage::Begin,
    })))
}

/// MODE SELECT after its parameter list has come. If the list switches the write cache off, the
/// cache is emptied first. Then the list is applied and saved.
#[derive(Debug)]
struct Select {
    unit: Arc<LogicalUnit>,
    nexus: Arc<ItlNexus>,
    header_len: usize,
    list_len: u32,
    save: bool,
    stage: ModeSelectStage,
}

/// Progress of a MODE SELECT.
#[derive(Debug)]
enum ModeSelectStage {
    Begin,
    /// The content of the write cache is being made durable. Nothing has changed yet.
    Emptying {
        list: Vec<u8>,
        hold: WriteThrough,
    },
    /// The change holds, and is being stored.
    Saving {
        before: ModePages,
    },
    /// The change could not be stored. Before a write cache is switched off again, the data that it
    /// took meanwhile is being made durable.
    Reverting {
        before: ModePages,
        hold: WriteThrough,
        failure: Response,
    },
    Over,
}

impl Task for Select {
    fn data_out_len(&self) -> u32 {
        self.list_len
    }

    /// A change that was reported to other initiators is carried out to the end.
    fn outlives_its_command(&self) -> bool {
        match self.stage {
            ModeSelectStage::Begin | ModeSelectStage::Emptying { .. } => false,
            ModeSelectStage::Saving { .. }
            | ModeSelectStage::Reverting { .. }
            | ModeSelectStage::Over => true,
        }
    }

    fn step(&mut self, input: Input<'_>) -> Step {
        let stage = std::mem::replace(&mut self.stage, ModeSelectStage::Over);
        let next = match (stage, input) {
            (ModeSelectStage::Begin, Input::Begin { data_out }) => self.begin(data_out),
            (ModeSelectStage::Emptying { .. }, Input::Failed(error)) => {
                return Step::Done(self.unit.sense_for(error));
            }
            (ModeSelectStage::Emptying { list, hold }, _) => {
                let next = self.apply(&list);
                drop(hold);
                next
            }
            (ModeSelectStage::Saving { before }, Input::Failed(error)) => {
                let failure = self.unit.sense_for(error);
                return self.revert(before, failure);
            }
            // The change then holds, although it is not stored.
            (ModeSelectStage::Reverting { .. }, Input::Failed(error)) => {
                return Step::Done(self.unit.sense_for(error));
            }
            (
                ModeSelectStage::Reverting {
                    before,
                    hold,
                    failure,
                },
                _,
            ) => {
                self.take_back(&before);
                drop(hold);
                return Step::Done(failure);
            }
            (
                ModeSelectStage::Begin | ModeSelectStage::Saving { .. } | ModeSelectStage::Over,
                _,
            ) => Ok(Step::Done(Response::good())),
        };
        next.unwrap_or_else(|refused| {
            self.stage = ModeSelectStage::Begin;
            Step::Done(refused)
        })
    }
}

impl Select {
    /// Checks the list, and empties the write cache if it is to be switched off.
    fn begin(&mut self, list: &[u8]) -> Result<Step, Response> {
        let mut asked = self.unit.state().mode.clone();
        let had_cache = asked.write_cache();
        self.select(&mut asked, list)?;
        if !had_cache || asked.write_cache() {
            return self.apply(list);
        }
        self.stage = ModeSelectStage::Emptying {
            list: list.to_vec(),
            hold: self.unit.write_through(),
        };
        Ok(Step::Flush)
    }

    /// Applies the list.
    fn apply(&mut self, list: &[u8]) -> Result<Step, Response> {
        let mut state = match self.save {
            true => self.unit.state_to_save()?,
            false => self.unit.state(),
        };
        let before = state.mode.clone();
        self.select(&mut state.mode, list)?;
        if state.mode != before {
            if state.mode.software_write_protect() && !before.software_write_protect() {
                let by = Arc::clone(&self.nexus.nexus().initiator);
                state.software_protected_by = Some(by);
            }
            self.unit.publish(&state);
            let ua = UnitAttention::MODE_PARAMETERS_CHANGED;
            self.unit
                .raise_locked(&state, ua, Some(self.nexus.nexus().id));
        }
        if !self.save {
            drop(state);
            return Ok(Step::Done(Response::good()));
        }
        state.mode.save_current();
        self.stage = ModeSelectStage::Saving { before };
        let image = self.unit.image(&mut state);
        Ok(Step::Save { image })
    }

    /// Changes mode pages as the list asks.
    fn select(&self, pages: &mut ModePages, list: &[u8]) -> Result<(), Response> {
        let refused = |sense| self.unit.check_condition(&sense);
        let pages_at = self.pages_at(list).map_err(refused)?;
        pages.select(&list[pages_at..], pages_at).map_err(refused)
    }

    /// Takes back a change that could not be stored. A write cache that the change switched on is
    /// emptied first.
    fn revert(&mut self, before: ModePages, failure: Response) -> Step {
        if before.write_cache() || !self.unit.tells_write_cache() {
            self.take_back(&before);
            return Step::Done(failure);
        }
        self.stage = ModeSelectStage::Reverting {
            before,
            hold: self.unit.write_through(),
            failure,
        };
        Step::Flush
    }

    fn take_back(&self, before: &ModePages) {
        let mut state = self.unit.state();
        state.mode.revert_to(before);
        self.unit.publish(&state);
        let ua = UnitAttention::MODE_PARAMETERS_CHANGED;
        self.unit
            .raise_locked(&state, ua, Some(self.nexus.nexus().id));
    }

    /// Returns the offset of the pages in a list that is complete.
    fn pages_at(&self, list: &[u8]) -> Result<usize, Sense> {
        if (list.len() as u32) < self.list_len || list.len() < self.header_len {
            return Err(Sense::parameter_list_length_error());
        }
        self.check_header(list)
    }

    /// Checks header and block descriptor, and returns the offset of the pages. The MODE DATA
    /// LENGTH and the device-specific parameter (WP, DPOFUA) are reserved or ignored in MODE
    /// SELECT.
    fn check_header(&self, list: &[u8]) -> Result<usize, Sense> {
        let (medium_type_at, len_at) = if self.header_len == 4 { (1, 3) } else { (2, 6) };
        if list[medium_type_at] != 0 {
            return Err(Sense::invalid_field_in_parameter_list(
                medium_type_at as u16,
            ));
        }
        let long_lba = self.header_len == 8 && list[4] & 1 != 0;
        let start = self.header_len;
        // The length has one byte or two, at the end of the header.
        let len = list[len_at..start]
            .iter()
            .fold(0, |len, byte| len << 8 | usize::from(*byte));
        let expected = match (len, long_lba) {
            (0, _) => return Ok(start),
            (8, false) => short_block_descriptor(&self.unit),
            (16, true) => long_block_descriptor(&self.unit),
            _ => return Err(Sense::invalid_field_in_parameter_list(len_at as u16)),
        };
        let descriptor = list
            .get(start..start + expected.len())
            .ok_or(Sense::parameter_list_length_error())?;
        let blocks_len = if long_lba { 8 } else { 4 };
        let (blocks, rest) = descriptor.split_at(blocks_len);
        // Zero blocks: "all of them" (SBC-4 6.5.2.2).
        let keeps_blocks =
            blocks.iter().all(|&byte| byte == 0) || blocks == &expected[..blocks_len];
        if !keeps_blocks {
            return Err(Sense::invalid_field_in_parameter_list(start as u16));
        }
        // In the short descriptor, LOGICAL BLOCK LENGTH has three bytes, with a reserved byte
        // before them.
        let length_len = if long_lba { 4 } else { 3 };
        if rest[rest.len() - length_len..] != expected[expected.len() - length_len..] {
            let at = start + descriptor.len() - length_len;
            return Err(Sense::invalid_field_in_parameter_list(at as u16));
        }
        Ok(start + descriptor.len())
    }
}
