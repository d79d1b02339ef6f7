//! Reports on copy operations, asked for by list identifier. RECEIVE COPY RESULTS, STATUS and DATA
//! (SPC-4 6.24 to 6.29), and RECEIVE ROD TOKEN INFORMATION (SPC-4 6.28; SBC-4 clause 5).

use super::extended_copy::lid1_of;
use crate::Start;
use crate::command_descriptor::Request;
use crate::logical_unit::LogicalUnit;
use crate::sense::Sense;
use crate::third_party_copy::{
    CopyOperation, CopyStatus, DESCRIPTOR_TYPE_CODES, MAX_CONCURRENT_COPIES, MAX_CSCD_DESCRIPTORS,
    MAX_DESCRIPTOR_LIST_LEN, MAX_SEGMENT_DESCRIPTORS, MAX_SEGMENT_LEN,
};

/// TRANSFER COUNT UNITS: KiB.
const UNITS_KIB: u8 = 0x01;
/// TRANSFER COUNT UNITS: logical blocks.
const UNITS_BLOCKS: u8 = 0xF1;

/// Answers COPY STATUS of an EXTENDED COPY(LID1).
pub(crate) fn copy_status_lid1(request: &Request<'_>) -> Result<Start, Sense> {
    let operation = operation(request, lid1_of(request.cdb))?;
    let code = match operation.status {
        CopyStatus::InProgress => 0x00,
        CopyStatus::Completed | CopyStatus::CompletedWithResidual => 0x01,
        CopyStatus::Failed(_) | CopyStatus::Aborted => 0x02,
    };
    let [high, low] = operation.segments.to_be_bytes();
    let kib = u32::try_from(operation.transferred >> 10).unwrap_or(u32::MAX);
    let mut data = vec![0, 0, 0, 8, code, high, low, UNITS_KIB];
    data.extend_from_slice(&kib.to_be_bytes());
    Ok(respond(request, data))
}

/// Answers RECEIVE DATA of an EXTENDED COPY(LID1). No segment descriptor that holds data is
/// implemented, so there is no data. The list identifier is free afterwards.
pub(crate) fn receive_data_lid1(request: &Request<'_>) -> Result<Start, Sense> {
    let list_id = lid1_of(request.cdb);
    let operation = operation(request, list_id)?;
    if operation.status == CopyStatus::InProgress {
        return Err(Sense::invalid_field_in_cdb(2));
    }
    let id = request.nexus.nexus().id;
    request.unit.copy_operations().forget(id, list_id);
    Ok(respond(request, vec![0; 4]))
}

/// Answers OPERATING PARAMETERS.
pub(crate) fn operating_parameters(request: &Request<'_>) -> Result<Start, Sense> {
    let mut data = vec![0; 44];
    // SNLID: LIST ID USAGE 11b is understood.
    data[4] = 0x01;
    data[8..10].copy_from_slice(&MAX_CSCD_DESCRIPTORS.to_be_bytes());
    data[10..12].copy_from_slice(&MAX_SEGMENT_DESCRIPTORS.to_be_bytes());
    data[12..16].copy_from_slice(&MAX_DESCRIPTOR_LIST_LEN.to_be_bytes());
    data[16..20].copy_from_slice(&MAX_SEGMENT_LEN.to_be_bytes());
    data[34..36].copy_from_slice(&MAX_CONCURRENT_COPIES.to_be_bytes());
    data[36] = MAX_CONCURRENT_COPIES.min(255) as u8;
    data[37] = request.unit.block_len().ilog2() as u8;
    data[43] = DESCRIPTOR_TYPE_CODES.len() as u8;
    data.extend_from_slice(&DESCRIPTOR_TYPE_CODES);
    let len = (data.len() - 4) as u32;
    data[..4].copy_from_slice(&len.to_be_bytes());
    Ok(respond(request, data))
}

/// Answers RECEIVE COPY FAILURE DETAILS(LID1): the sense data of a copy that failed.
pub(crate) fn failure_details_lid1(request: &Request<'_>) -> Result<Start, Sense> {
    let operation = operation(request, lid1_of(request.cdb))?;
    let CopyStatus::Failed(sense) = operation.status else {
        return Ok(respond(request, vec![0; 4]));
    };
    let sense = sense.encode(request.unit.sense_format());
    let mut data = vec![0; 60];
    data[56] = crate::Status::CheckCondition as u8;
    data[58..60].copy_from_slice(&(sense.len() as u16).to_be_bytes());
    data.extend_from_slice(&sense);
    let len = (data.len() - 4) as u32;
    data[..4].copy_from_slice(&len.to_be_bytes());
    Ok(respond(request, data))
}

/// Answers RECEIVE COPY STATUS(LID4).
pub(crate) fn copy_status_lid4(request: &Request<'_>) -> Result<Start, Sense> {
    let operation = operation(request, request.cdb.u32(2))?;
    let data = status_lid4(request.unit, &operation);
    Ok(respond(request, with_length(data)))
}

/// Answers RECEIVE COPY DATA(LID4): as with LID1 there is no data to receive.
pub(crate) fn receive_data_lid4(request: &Request<'_>) -> Result<Start, Sense> {
    let operation = operation(request, request.cdb.u32(2))?;
    let mut data = status_lid4(request.unit, &operation);
    // HELD DATA LENGTH.
    data.extend_from_slice(&[0; 4]);
    Ok(respond(request, with_length(data)))
}

/// Answers RECEIVE ROD TOKEN INFORMATION.
pub(crate) fn rod_token_information(request: &Request<'_>) -> Result<Start, Sense> {
    let operation = operation(request, request.cdb.u32(2))?;
    let mut data = status_lid4(request.unit, &operation);
    match &operation.token {
        Some(token) => {
            // ROD TOKEN DESCRIPTORS LENGTH, then one descriptor: two reserved bytes and the token.
            data.extend_from_slice(&(2 + token.len() as u32).to_be_bytes());
            data.extend_from_slice(&[0; 2]);
            data.extend_from_slice(token.as_slice());
        }
        None => data.extend_from_slice(&[0; 4]),
    }
    Ok(respond(request, with_length(data)))
}

/// Returns the operation of this nexus, or INVALID FIELD IN CDB if there is none.
fn operation(request: &Request<'_>, list_id: u32) -> Result<CopyOperation, Sense> {
    let id = request.nexus.nexus().id;
    request
        .unit
        .copy_operations()
        .find(id, list_id)
        .ok_or(Sense::invalid_field_in_cdb(2))
}

/// Builds the first part of the LID4 answers (SPC-4 table 246), with AVAILABLE DATA yet to be
/// filled in.
fn status_lid4(unit: &LogicalUnit, operation: &CopyOperation) -> Vec<u8> {
    let of_tokens = operation.service_action >= super::token::SERVICE_ACTION_POPULATE;
    let (code, completion, sense) = match operation.status {
        CopyStatus::InProgress => (0x11, 0, Vec::new()),
        CopyStatus::Completed => (0x01, 0, Vec::new()),
        CopyStatus::CompletedWithResidual => (0x03, 0, Vec::new()),
        CopyStatus::Failed(sense) => (
            0x02,
            crate::Status::CheckCondition as u8,
            sense.encode(unit.sense_format()),
        ),
        CopyStatus::Aborted => (0x60, 0, Vec::new()),
    };
    let mut data = vec![0; 32];
    data[4] = operation.service_action;
    data[5] = code;
    // OPERATION COUNTER and ESTIMATED STATUS UPDATE DELAY are not reported.
    data[8..12].copy_from_slice(&[0xFF; 4]);
    data[12] = completion;
    // Sense data has at most 40 bytes.
    data[13] = sense.len() as u8;
    data[14] = sense.len() as u8;
    let (units, count) = if of_tokens {
        (UNITS_BLOCKS, operation.transferred)
    } else {
        (UNITS_KIB, operation.transferred >> 10)
    };
    data[15] = units;
    data[16..24].copy_from_slice(&count.to_be_bytes());
    data[24..26].copy_from_slice(&operation.segments.to_be_bytes());
    data.extend_from_slice(&sense);
    data
}

fn with_length(mut data: Vec<u8>) -> Vec<u8> {
    let len = (data.len() - 4) as u32;
    data[..4].copy_from_slice(&len.to_be_bytes());
    data
}

fn respond(request: &Request<'_>, data: Vec<u8>) -> Start {
    Start::data(data, request.cdb.u32(10) as usize)
}
