//! READ DEFECT DATA(10) and (12) (SBC-4 clause 5): there are no defects to report.

use crate::Start;
use crate::command_descriptor::Request;
use crate::sense::Sense;

/// Starts READ DEFECT DATA(10): empty lists in the requested format.
pub(crate) fn start_10(request: &Request<'_>) -> Result<Start, Sense> {
    let lists_and_format = request.cdb.u8(2) & 0x1f;
    let out = vec![0, lists_and_format, 0, 0];
    Ok(Start::data(out, usize::from(request.cdb.u16(7))))
}

/// Starts READ DEFECT DATA(12).
pub(crate) fn start_12(request: &Request<'_>) -> Result<Start, Sense> {
    let lists_and_format = request.cdb.u8(1) & 0x1f;
    let out = vec![0, lists_and_format, 0, 0, 0, 0, 0, 0];
    Ok(Start::data(out, request.cdb.u32(6) as usize))
}
