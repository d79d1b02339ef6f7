//! READ CAPACITY(10) and (16) (SBC-4 clause 5).

use crate::Start;
use crate::command_descriptor::Request;
use crate::sense::Sense;

/// Starts READ CAPACITY(10). A capacity of FFFF_FFFFh sends the initiator to READ CAPACITY(16).
pub(crate) fn start_10(request: &Request<'_>) -> Result<Start, Sense> {
    let unit = request.unit;
    let last = u32::try_from(last_lba(request)).unwrap_or(u32::MAX);
    let mut out = last.to_be_bytes().to_vec();
    out.extend_from_slice(&unit.block_len().to_be_bytes());
    Ok(Start::data(out, 8))
}

/// Starts READ CAPACITY(16), which also reports the physical blocks and the place of the first one.
/// LBPRZ is set because blocks without storage read as zeros. There is no protection.
pub(crate) fn start_16(request: &Request<'_>) -> Result<Start, Sense> {
    let config = request.unit.fixed_config();
    let mut out = vec![0; 32];
    out[..8].copy_from_slice(&last_lba(request).to_be_bytes());
    out[8..12].copy_from_slice(&request.unit.block_len().to_be_bytes());
    out[13] = config.physical_exponent & 0x0f;
    let provisioning = if config.thin { 0xc000 } else { 0 };
    let aligned = provisioning | config.lowest_aligned;
    out[14..16].copy_from_slice(&aligned.to_be_bytes());
    Ok(Start::data(out, request.cdb.u32(10) as usize))
}

/// Returns the last block's address. A unit without blocks cannot be configured, yet must not wrap
/// here.
fn last_lba(request: &Request<'_>) -> u64 {
    request.unit.blocks().saturating_sub(1)
}
