//! REPORT SUPPORTED OPERATION CODES (SPC-4 6.34) and REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS
//! (SPC-4 6.35).
//!
//! Linux sends the first command before it dares to use WRITE SAME(16). The answer comes from the
//! table that dispatch uses, so it shows what the unit really does.

use crate::Start;
use crate::command_descriptor::{CommandDescriptor, Request};
use crate::sense::Sense;

/// SUPPORT: the command is not supported.
const NOT_SUPPORTED: u8 = 0b001;
/// SUPPORT: the command is supported according to a standard.
const SUPPORTED: u8 = 0b011;

/// Command timeouts descriptor without nominal or recommended time (SPC-4 6.34.4): twelve bytes,
/// ten of them counted.
const TIMEOUTS: [u8; 12] = [0, 0x0A, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// Starts REPORT SUPPORTED OPERATION CODES.
pub(crate) fn operation_codes(request: &Request<'_>) -> Result<Start, Sense> {
    let cdb = request.cdb;
    let timeouts = cdb.bit(2, 7);
    let opcode = cdb.u8(3);
    let service_action = cdb.u16(4);
    let of_opcode: Vec<&CommandDescriptor> = request
        .offered()
        .filter(|command| command.opcode == opcode)
        .collect();
    let has_actions = of_opcode
        .iter()
        .any(|command| command.service_action.is_some());
    let with_action = || {
        of_opcode
            .iter()
            .copied()
            .find(|command| command.service_action == Some(service_action))
    };
    let data = match cdb.u8(2) & 0x07 {
        0b000 => all_commands(request.offered(), timeouts),
        0b001 if has_actions => return Err(Sense::invalid_bit_in_cdb(2, 2)),
        0b001 => one_command(of_opcode.first().copied(), timeouts),
        0b010 if !has_actions && !of_opcode.is_empty() => {
            return Err(Sense::invalid_bit_in_cdb(2, 2));
        }
        0b010 => one_command(with_action(), timeouts),
        0b011 if has_actions => one_command(with_action(), timeouts),
        0b011 => {
            let command = of_opcode.first().copied();
            one_command(command.filter(|_| service_action == 0), timeouts)
        }
        _ => return Err(Sense::invalid_bit_in_cdb(2, 2)),
    };
    Ok(Start::data(data, cdb.u32(6) as usize))
}

/// Builds the all_commands parameter data format (SPC-4 6.34.2).
fn all_commands<'a>(
    commands: impl Iterator<Item = &'a CommandDescriptor>,
    timeouts: bool,
) -> Vec<u8> {
    let mut data = vec![0; 4];
    for command in commands {
        let [high, low] = command.service_action.unwrap_or(0).to_be_bytes();
        let flags = u8::from(timeouts) << 1 | u8::from(command.service_action.is_some());
        data.extend_from_slice(&[command.opcode, 0, high, low, 0, flags]);
        // A CDB has at most 260 bytes.
        data.extend_from_slice(&(command.usage.len() as u16).to_be_bytes());
        if timeouts {
            data.extend_from_slice(&TIMEOUTS);
        }
    }
    let len = (data.len() - 4) as u32;
    data[..4].copy_from_slice(&len.to_be_bytes());
    data
}

/// Builds the one_command parameter data format (SPC-4 6.34.3).
fn one_command(command: Option<&CommandDescriptor>, timeouts: bool) -> Vec<u8> {
    let Some(command) = command else {
        return vec![0, NOT_SUPPORTED, 0, 0];
    };
    let mut data = vec![0, u8::from(timeouts) << 7 | SUPPORTED];
    data.extend_from_slice(&(command.usage.len() as u16).to_be_bytes());
    data.extend_from_slice(command.usage);
    if timeouts {
        data.extend_from_slice(&TIMEOUTS);
    }
    data
}

/// Starts REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS.
pub(crate) fn task_management_functions(request: &Request<'_>) -> Result<Start, Sense> {
    /// ATS, ATSS, CTSS, LURS and TRS: all functions that iSCSI carries but CLEAR ACA, since there
    /// is no ACA.
    const FUNCTIONS: u8 = 0x80 | 0x40 | 0x10 | 0x08 | 0x02;
    let cdb = request.cdb;
    let allocation_length = cdb.u32(6);
    if allocation_length < 4 {
        return Err(Sense::invalid_field_in_cdb(6));
    }
    let extended = cdb.bit(2, 7);
    let mut data = vec![FUNCTIONS, 0, 0, 0];
    if extended {
        // Twelve more bytes follow: no timeouts are reported.
        data[3] = 12;
        data.resize(16, 0);
    }
    Ok(Start::data(data, allocation_length as usize))
}
