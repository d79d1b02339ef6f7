//! REPORT LUNS (SPC-4 6.33): exactly the units in the initiator's view.

use crate::cdb::Cdb;
use crate::command_descriptor::Request;
use crate::sense::Sense;
use crate::view::TargetView;
use crate::{Start, UnitAttention};

/// Reports the view. That alone answers REPORTED LUNS DATA HAS CHANGED, on all units that the nexus
/// sees (SPC-4 6.33).
pub(crate) fn start(request: &Request<'_>) -> Result<Start, Sense> {
    let start = report(request.cdb, request.view)?;
    // The unit may have left the view.
    request
        .nexus
        .clear_unit_attention(UnitAttention::REPORTED_LUNS_DATA_HAS_CHANGED);
    Ok(start)
}

/// Builds the report for a command to any LUN. SELECT REPORT 00h and 02h give equal lists and 01h
/// an empty one, because there are no well known logical units.
pub(crate) fn report(cdb: Cdb<'_>, view: &dyn TargetView) -> Result<Start, Sense> {
    let allocation_length = cdb.u32(6);
    if allocation_length < 16 {
        return Err(Sense::invalid_field_in_cdb(6));
    }
    let luns = match cdb.u8(2) {
        0x00 | 0x02 => view.luns(),
        0x01 => Vec::new(),
        _ => return Err(Sense::invalid_field_in_cdb(2)),
    };
    for nexus in view.itl_nexuses() {
        nexus.clear_unit_attention(UnitAttention::REPORTED_LUNS_DATA_HAS_CHANGED);
    }
    let mut out = ((luns.len() * 8) as u32).to_be_bytes().to_vec();
    out.extend_from_slice(&[0; 4]);
    for lun in luns {
        out.extend_from_slice(&lun.to_be_bytes());
    }
    Ok(Start::data(out, allocation_length as usize))
}
