//! INQUIRY (SPC-4 6.6): standard data or a vital product data page.

use crate::command_descriptor::Request;
use crate::sense::Sense;
use crate::{Start, inquiry, vpd};

/// Starts INQUIRY.
pub(crate) fn start(request: &Request<'_>) -> Result<Start, Sense> {
    let cdb = request.cdb;
    // CMDDT is obsolete since SPC-3.
    cdb.refuse_bit(1, 1)?;
    let allocation_length = usize::from(cdb.u16(3));
    if cdb.bit(1, 0) {
        let page = vpd::page(request, cdb.u8(2))?;
        return Ok(Start::data(page, allocation_length));
    }
    if cdb.u8(2) != 0 {
        return Err(Sense::invalid_field_in_cdb(2));
    }
    Ok(Start::data(
        inquiry::standard(request.unit),
        allocation_length,
    ))
}
