//! Standard INQUIRY data (SPC-4 6.6.2): the identity of the unit and the standards it follows.

use crate::Start;
use crate::cdb::Cdb;
use crate::logical_unit::LogicalUnit;
use crate::sense::{Asc, Sense};
use crate::view::Identity;

/// Length of the standard data, up to and including the version descriptors.
const STANDARD_LEN: usize = 96;

/// Version descriptors (SPC-4 table 176). None of them names a revision.
const VERSION_DESCRIPTORS: [u16; 5] = [
    0x00a0, // SAM-5
    0x0960, // iSCSI
    0x0460, // SPC-4
    0x04c0, // SBC-3, which older initiators look for
    0x0600, // SBC-4
];

/// Builds the standard data of a unit.
pub(crate) fn standard(unit: &LogicalUnit) -> Vec<u8> {
    let config = unit.fixed_config();
    let mut out = vec![0; STANDARD_LEN];
    // SPC-4, HISUP, response data format 2.
    out[2] = 0x06;
    out[3] = 0x12;
    out[4] = (STANDARD_LEN - 5) as u8;
    // TPGS and 3PC.
    out[5] = (unit.access().groups().mode() as u8) << 4 | 0x08;
    // MULTIP.
    out[6] = 0x10;
    // CMDQUE.
    out[7] = 0x02;
    names(&mut out, &config.vendor, &config.product, &config.revision);
    for (slot, version) in out[58..68].chunks_exact_mut(2).zip(VERSION_DESCRIPTORS) {
        slot.copy_from_slice(&version.to_be_bytes());
    }
    out
}

/// Answers INQUIRY for a LUN that is not mapped: qualifier 011b, type 1Fh (SPC-4 table 172).
///
/// The answer names vendor and product as a unit does. Linux before 4.4 takes blanks at LUN 0 for a
/// device of its exception list, and looks for no further LUN.
pub(crate) fn without_unit(cdb: Cdb<'_>, identity: Identity) -> Result<Start, Sense> {
    if cdb.bit(1, 0) || cdb.u8(2) != 0 {
        return Err(Sense::illegal(Asc::LOGICAL_UNIT_NOT_SUPPORTED));
    }
    let mut out = vec![0; 36];
    out[0] = 0x7f;
    out[2] = 0x06;
    out[3] = 0x12;
    out[4] = 31;
    let Identity {
        vendor,
        product,
        revision,
    } = identity;
    names(&mut out, vendor, product, revision);
    Ok(Start::data(out, usize::from(cdb.u16(3))))
}

fn names(out: &mut [u8], vendor: &str, product: &str, revision: &str) {
    ascii(&mut out[8..16], vendor);
    ascii(&mut out[16..32], product);
    ascii(&mut out[32..36], revision);
}

/// Writes left-aligned ASCII, padded with spaces. Characters that are not printable become spaces
/// (SPC-4 4.3.1).
pub(crate) fn ascii(field: &mut [u8], text: &str) {
    field.fill(b' ');
    for (slot, byte) in field.iter_mut().zip(text.bytes()) {
        *slot = if (0x20..0x7f).contains(&byte) {
            byte
        } else {
            b' '
        };
    }
}
