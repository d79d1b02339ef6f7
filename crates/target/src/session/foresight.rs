//! A look ahead at the reads and writes of a batch of input, so that memory is on its way when
//! their turn comes.
//!
//! Commands are carried out one by one. A command that is answered from main memory, in a device or
//! a pool's cache, waits for several cache lines in a row: where the page is, its reference count,
//! its bytes. For a whole batch, these waits can overlap.

use iscsi::pdu::{Bhs, Opcode, RawBhs};
use scsi::Start;
use smallvec::SmallVec;

use super::view::View;
use block::Foreseen;
use unit::unit::Unit;

/// Most commands that are looked at together: their lines must stay near until their turn.
const BATCH: usize = 64;
/// Offset of the CDB in a SCSI Command PDU (RFC 7143 11.3).
const CDB: usize = 32;

/// Announces the accesses of these headers to devices that make use of that.
pub(crate) fn foresee<'i>(view: &View, headers: impl Iterator<Item = &'i RawBhs>) {
    let mut accesses: SmallVec<[Foreseen; BATCH]> = SmallVec::new();
    let mut unit: Option<&Unit> = None;
    for header in headers.take(BATCH) {
        let bhs = Bhs::new(header);
        if bhs.opcode() != Ok(Opcode::ScsiCommand) {
            continue;
        }
        let Some(mapped) = view.find(bhs.lun()) else {
            continue;
        };
        if !mapped.unit.foresees {
            continue;
        }
        let (range, is_read) = match mapped.unit.logical.foresee(&header[CDB..]) {
            Some(Start::Read { range, .. }) => (range, true),
            Some(Start::Write { range, .. }) => (range, false),
            _ => continue,
        };
        if let Some(other) = unit.replace(&mapped.unit)
            && !std::ptr::eq(other, &*mapped.unit)
        {
            other.device.foresee(&accesses);
            accesses.clear();
        }
        let offset = mapped.unit.bytes(range).0;
        accesses.push(Foreseen { offset, is_read });
    }
    // A single access gains nothing from a look ahead.
    if let Some(unit) = unit.filter(|_| accesses.len() > 1) {
        unit.device.foresee(&accesses);
    }
}
