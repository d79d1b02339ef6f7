//! Third-party copy VPD page (8Fh, SPC-4 7.8.17): the copy commands and tokens that are offered,
//! and their limits. Windows reads it before it offloads a copy.

use crate::command_descriptor::Request;
use crate::logical_unit::LogicalUnit;
use crate::third_party_copy::{
    DESCRIPTOR_TYPE_CODES, MAX_CONCURRENT_COPIES, MAX_CSCD_DESCRIPTORS, MAX_DESCRIPTOR_LIST_LEN,
    MAX_INACTIVITY_TIMEOUT_S, MAX_SEGMENT_DESCRIPTORS, MAX_SEGMENT_LEN,
};
use crate::token::{MAX_RANGES, MAX_TOKEN_BYTES, TYPE_CHANGE_VULNERABLE, TYPE_ZERO};

/// Returns the descriptors of the page, without its header.
pub(super) fn page(request: &Request<'_>) -> Vec<u8> {
    let unit = request.unit;
    let mut page = Vec::new();
    let offers_tokens = unit.tokens().are_enabled();
    if offers_tokens {
        descriptor(&mut page, 0x0000, &token_limits(unit));
    }
    descriptor(&mut page, 0x0001, &supported_commands(request));
    descriptor(&mut page, 0x0004, &parameter_data());
    let mut codes = vec![DESCRIPTOR_TYPE_CODES.len() as u8];
    codes.extend_from_slice(&DESCRIPTOR_TYPE_CODES);
    descriptor(&mut page, 0x0008, &codes);
    // Supported CSCD descriptor IDs: only the indices of the parameter list.
    descriptor(&mut page, 0x000C, &[0, 0]);
    if offers_tokens {
        descriptor(&mut page, 0x0106, &rod_token_features());
        descriptor(&mut page, 0x0108, &supported_rods());
    }
    descriptor(&mut page, 0x8001, &general_copy_operations(unit));
    page
}

/// Appends one descriptor, padded to a multiple of four.
fn descriptor(page: &mut Vec<u8>, kind: u16, body: &[u8]) {
    let len = body.len().next_multiple_of(4);
    page.extend_from_slice(&kind.to_be_bytes());
    // The longest body has some 130 bytes.
    page.extend_from_slice(&(len as u16).to_be_bytes());
    page.extend_from_slice(body);
    page.resize(page.len() + len - body.len(), 0);
}

/// Appends the block device ROD token limits (SBC-4 6.6.7.2).
fn token_limits(unit: &LogicalUnit) -> Vec<u8> {
    let most = MAX_TOKEN_BYTES / u64::from(unit.block_len());
    // The first six bytes are vendor specific.
    let mut body = vec![0; 6];
    body.extend_from_slice(&MAX_RANGES.to_be_bytes());
    body.extend_from_slice(&MAX_INACTIVITY_TIMEOUT_S.to_be_bytes());
    // DEFAULT INACTIVITY TIMEOUT.
    body.extend_from_slice(&MAX_INACTIVITY_TIMEOUT_S.to_be_bytes());
    body.extend_from_slice(&most.to_be_bytes());
    // OPTIMAL TRANSFER COUNT.
    body.extend_from_slice(&most.to_be_bytes());
    body
}

/// Returns operation codes 83h and 84h with the service actions that the unit offers, from the
/// table that dispatch uses.
fn supported_commands(request: &Request<'_>) -> Vec<u8> {
    let mut list = Vec::new();
    for opcode in [0x83, 0x84] {
        let actions: Vec<u8> = request
            .offered()
            .filter(|command| command.opcode == opcode)
            .filter_map(|command| command.service_action)
            // The field is five bits wide in these commands.
            .map(|action| action as u8)
            .collect();
        list.extend_from_slice(&[opcode, actions.len() as u8]);
        list.extend_from_slice(&actions);
    }
    let mut body = vec![list.len() as u8];
    body.extend_from_slice(&list);
    body
}

fn parameter_data() -> Vec<u8> {
    let mut body = vec![0; 28];
    body[4..6].copy_from_slice(&MAX_CSCD_DESCRIPTORS.to_be_bytes());
    body[6..8].copy_from_slice(&MAX_SEGMENT_DESCRIPTORS.to_be_bytes());
    body[8..12].copy_from_slice(&MAX_DESCRIPTOR_LIST_LEN.to_be_bytes());
    body
}

/// Returns the features of tokens. Tokens are not for other copy managers, and their lifetime is
/// not promised.
fn rod_token_features() -> Vec<u8> {
    let mut body = vec![0; 44];
    // MAXIMUM TOKEN INACTIVITY TIMEOUT.
    body[20..24].copy_from_slice(&MAX_INACTIVITY_TIMEOUT_S.to_be_bytes());
    body
}

/// Returns the ROD types that are accepted and given out as tokens.
fn supported_rods() -> Vec<u8> {
    const TOKEN_IN: u8 = 0x02;
    const TOKEN_OUT: u8 = 0x01;
    let mut body = vec![0; 4];
    let types = [
        (TYPE_CHANGE_VULNERABLE, TOKEN_IN | TOKEN_OUT),
        (TYPE_ZERO, TOKEN_IN),
    ];
    body[2..4].copy_from_slice(&(types.len() as u16 * 64).to_be_bytes());
    for (rod_type, flags) in types {
        let mut entry = [0; 64];
        entry[..4].copy_from_slice(&rod_type.to_be_bytes());
        entry[4] = flags;
        body.extend_from_slice(&entry);
    }
    body
}

fn general_copy_operations(unit: &LogicalUnit) -> Vec<u8> {
    let mut body = vec![0; 32];
    body[..4].copy_from_slice(&u32::from(MAX_CONCURRENT_COPIES).to_be_bytes());
    body[4..8].copy_from_slice(&u32::from(MAX_CONCURRENT_COPIES).to_be_bytes());
    body[8..12].copy_from_slice(&MAX_SEGMENT_LEN.to_be_bytes());
    // DATA SEGMENT GRANULARITY, log2 of bytes.
    body[12] = unit.block_len().ilog2() as u8;
    body
}
