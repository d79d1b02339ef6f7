//! Table of every command that the device server knows: operation code, CDB usage, gates and
//! handler. Dispatch and REPORT SUPPORTED OPERATION CODES both read this one table, so that they
//! cannot disagree. Dispatch hands it to the handlers, which stand below it.

use crate::cdb::Cdb;
use crate::command::block::{
    compare_and_write, get_lba_status, orwrite, prefetch, read_capacity, read_defect_data,
    read_write, synchronize_cache, unmap, verify, write_atomic, write_same,
};
use crate::command::{
    extended_copy, inquiry, log_sense, mode, persistent_reserve, receive_copy_results, report_luns,
    report_supported, request_sense, reserve, sanitize, send_diagnostic, start_stop_unit,
    target_port_groups, test_unit_ready, token,
};
use crate::command_descriptor::{Gates, Handler, Needs};
use crate::logical_unit::LogicalUnit;
use crate::sense::{Asc, Sense};

pub use crate::command_descriptor::CommandDescriptor;

/// Returns the commands that this unit offers, in the order of their operation codes.
pub fn offered(unit: &LogicalUnit) -> impl Iterator<Item = &'static CommandDescriptor> {
    TABLE.iter().filter(move |command| command.is_offered(unit))
}

/// Returns the command for which a CDB asks, or `None` if it is not offered.
pub(crate) fn find(cdb: Cdb<'_>, unit: &LogicalUnit) -> Option<&'static CommandDescriptor> {
    let opcode = cdb.u8(0);
    TABLE
        .iter()
        .filter(|command| command.opcode == opcode)
        .find(|command| match command.service_action {
            None => true,
            Some(action) => action == service_action(cdb),
        })
        .filter(|command| command.is_offered(unit))
}

/// Returns the sense of a refused command: its operation code is unknown, or its service action is.
pub(crate) fn refusal(cdb: Cdb<'_>, unit: &LogicalUnit) -> Sense {
    let opcode = cdb.u8(0);
    let has_actions =
        offered(unit).any(|command| command.opcode == opcode && command.service_action.is_some());
    if has_actions {
        Sense::invalid_bit_in_cdb(1, 4)
    } else {
        Sense::illegal(Asc::INVALID_COMMAND_OPERATION_CODE)
    }
}

/// Returns the SERVICE ACTION field.
fn service_action(cdb: Cdb<'_>) -> u16 {
    if cdb.u8(0) == 0x7f {
        cdb.u16(8)
    } else {
        u16::from(cdb.u8(1) & 0x1f)
    }
}

const fn command(
    name: &'static str,
    usage: &'static [u8],
    gates: Gates,
    handler: Handler,
) -> CommandDescriptor {
    CommandDescriptor {
        opcode: usage[0],
        service_action: None,
        name,
        usage,
        gates,
        needs: Needs::Nothing,
        handler,
    }
}

/// Describes a command whose service action is in byte 1.
const fn action(
    name: &'static str,
    usage: &'static [u8],
    gates: Gates,
    handler: Handler,
) -> CommandDescriptor {
    let service_action = Some(usage[1] as u16 & 0x1f);
    CommandDescriptor {
        service_action,
        ..command(name, usage, gates, handler)
    }
}

/// All commands, by operation code and service action.
#[rustfmt::skip]
pub static TABLE: &[CommandDescriptor] = &[
    command("TEST UNIT READY", &[0x00, 0, 0, 0, 0, 0x04], Gates::READY, test_unit_ready::start),
    command("REQUEST SENSE", &[0x03, 0x01, 0, 0, 0xff, 0x04], Gates::EXEMPT, request_sense::start),
    command("READ(6)", &[0x08, 0x1f, 0xff, 0xff, 0xff, 0x04], Gates::READ, read_write::start),
    command("WRITE(6)", &[0x0a, 0x1f, 0xff, 0xff, 0xff, 0x04], Gates::WRITE, read_write::start),
    command("INQUIRY", &[0x12, 0x01, 0xff, 0xff, 0xff, 0x04], Gates::EXEMPT, inquiry::start),
    command("MODE SELECT(6)", &[0x15, 0x11, 0, 0, 0xff, 0x04], Gates::WRITE_STATE, mode::select_6),
    command("RESERVE(6)", &[0x16, 0, 0, 0, 0, 0x04], Gates::CONTROL, reserve::reserve),
    command("RELEASE(6)", &[0x17, 0, 0, 0, 0, 0x04], Gates::CONTROL_UNDER_RESERVE6, reserve::release),
    command("MODE SENSE(6)", &[0x1a, 0x08, 0xff, 0xff, 0xff, 0x04], Gates::READ_STATE, mode::sense_6),
    command("START STOP UNIT", &[0x1b, 0, 0, 0, 0xf7, 0x04], Gates::START_STOP, start_stop_unit::start),
    command("SEND DIAGNOSTIC", &[0x1d, 0x04, 0, 0, 0, 0x04], Gates::WRITE_STATE, send_diagnostic::start),
    command("READ CAPACITY(10)", &[0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0x04], Gates::READY_UNDER_RESERVE6, read_capacity::start_10),
    command("READ(10)", &[0x28, 0xf8, 0xff, 0xff, 0xff, 0xff, 0, 0xff, 0xff, 0x04], Gates::READ, read_write::start),
    command("WRITE(10)", &[0x2a, 0xf8, 0xff, 0xff, 0xff, 0xff, 0, 0xff, 0xff, 0x04], Gates::WRITE, read_write::start),
    command("WRITE AND VERIFY(10)", &[0x2e, 0xf6, 0xff, 0xff, 0xff, 0xff, 0, 0xff, 0xff, 0x04], Gates::WRITE, verify::start_after_write),
    command("VERIFY(10)", &[0x2f, 0xf6, 0xff, 0xff, 0xff, 0xff, 0, 0xff, 0xff, 0x04], Gates::READ, verify::start),
    command("PRE-FETCH(10)", &[0x34, 0x02, 0xff, 0xff, 0xff, 0xff, 0, 0xff, 0xff, 0x04], Gates::READ, prefetch::start),
    command("SYNCHRONIZE CACHE(10)", &[0x35, 0, 0xff, 0xff, 0xff, 0xff, 0, 0xff, 0xff, 0x04], Gates::FLUSH, synchronize_cache::start),
    command("READ DEFECT DATA(10)", &[0x37, 0, 0x1f, 0, 0, 0, 0, 0xff, 0xff, 0x04], Gates::READ, read_defect_data::start_10),
    command("WRITE SAME(10)", &[0x41, 0xe8, 0xff, 0xff, 0xff, 0xff, 0, 0xff, 0xff, 0x04], Gates::WRITE, write_same::start),
    command("UNMAP", &[0x42, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0x04], Gates::WRITE, unmap::start).needs(Needs::Thin),
    action("SANITIZE OVERWRITE", &[0x48, 0x21, 0, 0, 0, 0, 0, 0xff, 0xff, 0x04], Gates::SANITIZE, sanitize::start_overwrite).needs(Needs::Sanitize),
    action("SANITIZE EXIT FAILURE MODE", &[0x48, 0x1f, 0, 0, 0, 0, 0, 0, 0, 0x04], Gates::SANITIZE, sanitize::start_exit_failure_mode).needs(Needs::Sanitize),
    command("LOG SELECT", &[0x4c, 0x03, 0xff, 0xff, 0, 0, 0, 0xff, 0xff, 0x04], Gates::WRITE_STATE, log_sense::select),
    command("LOG SENSE", &[0x4d, 0x01, 0xff, 0xff, 0, 0xff, 0xff, 0xff, 0xff, 0x04], Gates::CONTROL_UNDER_RESERVE6, log_sense::sense),
    command("MODE SELECT(10)", &[0x55, 0x11, 0, 0, 0, 0, 0, 0xff, 0xff, 0x04], Gates::WRITE_STATE, mode::select_10),
    command("RESERVE(10)", &[0x56, 0x11, 0, 0, 0, 0, 0, 0, 0, 0x04], Gates::CONTROL, reserve::reserve),
    command("RELEASE(10)", &[0x57, 0x11, 0, 0, 0, 0, 0, 0, 0, 0x04], Gates::CONTROL_UNDER_RESERVE6, reserve::release),
    command("MODE SENSE(10)", &[0x5a, 0x18, 0xff, 0xff, 0, 0, 0, 0xff, 0xff, 0x04], Gates::READ_STATE, mode::sense_10),
    action("PERSISTENT RESERVE IN (READ KEYS)", &[0x5e, 0x00, 0, 0, 0, 0, 0, 0xff, 0xff, 0x04], Gates::CONTROL, persistent_reserve::reserve_in),
    action("PERSISTENT RESERVE IN (READ RESERVATION)", &[0x5e, 0x01, 0, 0, 0, 0, 0, 0xff, 0xff, 0x04], Gates::CONTROL, persistent_reserve::reserve_in),
    action("PERSISTENT RESERVE IN (REPORT CAPABILITIES)", &[0x5e, 0x02, 0, 0, 0, 0, 0, 0xff, 0xff, 0x04], Gates::CONTROL, persistent_reserve::reserve_in),
    action("PERSISTENT RESERVE IN (READ FULL STATUS)", &[0x5e, 0x03, 0, 0, 0, 0, 0, 0xff, 0xff, 0x04], Gates::CONTROL, persistent_reserve::reserve_in),
    action("PERSISTENT RESERVE OUT (REGISTER)", &[0x5f, 0x00, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x04], Gates::CONTROL, persistent_reserve::reserve_out),
    action("PERSISTENT RESERVE OUT (RESERVE)", &[0x5f, 0x01, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x04], Gates::CONTROL, persistent_reserve::reserve_out),
    action("PERSISTENT RESERVE OUT (RELEASE)", &[0x5f, 0x02, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x04], Gates::CONTROL, persistent_reserve::reserve_out),
    action("PERSISTENT RESERVE OUT (CLEAR)", &[0x5f, 0x03, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x04], Gates::CONTROL, persistent_reserve::reserve_out),
    action("PERSISTENT RESERVE OUT (PREEMPT)", &[0x5f, 0x04, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x04], Gates::CONTROL, persistent_reserve::reserve_out),
    action("PERSISTENT RESERVE OUT (PREEMPT AND ABORT)", &[0x5f, 0x05, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x04], Gates::CONTROL, persistent_reserve::reserve_out),
    action("PERSISTENT RESERVE OUT (REGISTER AND IGNORE EXISTING KEY)", &[0x5f, 0x06, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x04], Gates::CONTROL, persistent_reserve::reserve_out),
    action("PERSISTENT RESERVE OUT (REGISTER AND MOVE)", &[0x5f, 0x07, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x04], Gates::CONTROL, persistent_reserve::reserve_out),
    action("EXTENDED COPY(LID1)", &[0x83, 0x00, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0x04], Gates::WRITE_STATE, extended_copy::lid1),
    action("EXTENDED COPY(LID4)", &[0x83, 0x01, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0x04], Gates::WRITE_STATE, extended_copy::lid4),
    action("POPULATE TOKEN", &[0x83, 0x10, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0x04], Gates::READ, token::populate).needs(Needs::Tokens),
    action("WRITE USING TOKEN", &[0x83, 0x11, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0x04], Gates::WRITE, token::write_using).needs(Needs::Tokens),
    action("COPY OPERATION ABORT", &[0x83, 0x1c, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x04], Gates::WRITE_STATE, extended_copy::abort),
    action("RECEIVE COPY RESULTS (COPY STATUS)", &[0x84, 0x00, 0xff, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0x04], Gates::CONTROL, receive_copy_results::copy_status_lid1),
    action("RECEIVE COPY RESULTS (RECEIVE DATA)", &[0x84, 0x01, 0xff, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0x04], Gates::CONTROL, receive_copy_results::receive_data_lid1),
    action("RECEIVE COPY RESULTS (OPERATING PARAMETERS)", &[0x84, 0x03, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0x04], Gates::CONTROL, receive_copy_results::operating_parameters),
    action("RECEIVE COPY FAILURE DETAILS(LID1)", &[0x84, 0x04, 0xff, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0x04], Gates::CONTROL, receive_copy_results::failure_details_lid1),
    action("RECEIVE COPY STATUS(LID4)", &[0x84, 0x05, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0x04], Gates::CONTROL, receive_copy_results::copy_status_lid4),
    action("RECEIVE COPY DATA(LID4)", &[0x84, 0x06, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0x04], Gates::CONTROL, receive_copy_results::receive_data_lid4),
    action("RECEIVE ROD TOKEN INFORMATION", &[0x84, 0x07, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0x04], Gates::CONTROL, receive_copy_results::rod_token_information).needs(Needs::Tokens),
    command("READ(16)", &[0x88, 0xf8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0x04], Gates::READ, read_write::start),
    command("COMPARE AND WRITE", &[0x89, 0xf8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0xff, 0, 0x04], Gates::WRITE, compare_and_write::start),
    command("WRITE(16)", &[0x8a, 0xf8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0x04], Gates::WRITE, read_write::start),
    command("ORWRITE(16)", &[0x8b, 0xf8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0x04], Gates::WRITE, orwrite::start),
    command("WRITE AND VERIFY(16)", &[0x8e, 0xf6, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0x04], Gates::WRITE, verify::start_after_write),
    command("VERIFY(16)", &[0x8f, 0xf6, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0x04], Gates::READ, verify::start),
    command("PRE-FETCH(16)", &[0x90, 0x02, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0x04], Gates::READ, prefetch::start),
    command("SYNCHRONIZE CACHE(16)", &[0x91, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0x04], Gates::FLUSH, synchronize_cache::start),
    command("WRITE SAME(16)", &[0x93, 0xe9, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0x04], Gates::WRITE, write_same::start),
    command("WRITE ATOMIC(16)", &[0x9c, 0xf8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0x04], Gates::WRITE, write_atomic::start).needs(Needs::AtomicWrite),
    action("READ CAPACITY(16)", &[0x9e, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0x04], Gates::READY_UNDER_RESERVE6, read_capacity::start_16),
    action("GET LBA STATUS(16)", &[0x9e, 0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x04], Gates::READ, get_lba_status::start),
    command("REPORT LUNS", &[0xa0, 0, 0xff, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0x04], Gates::EXEMPT, report_luns::start),
    action("REPORT TARGET PORT GROUPS", &[0xa3, 0xea, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0x04], Gates::CONTROL_UNDER_RESERVE6, target_port_groups::report).needs(Needs::Alua),
    action("REPORT SUPPORTED OPERATION CODES", &[0xa3, 0x0c, 0x87, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0x04], Gates::READ_STATE, report_supported::operation_codes),
    action("REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS", &[0xa3, 0x0d, 0x80, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0x04], Gates::READ_STATE, report_supported::task_management_functions),
    action("SET TARGET PORT GROUPS", &[0xa4, 0x0a, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0x04], Gates::WRITE_STATE, target_port_groups::set).needs(Needs::ExplicitAlua),
    command("READ(12)", &[0xa8, 0xf8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0x04], Gates::READ, read_write::start),
    command("WRITE(12)", &[0xaa, 0xf8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0x04], Gates::WRITE, read_write::start),
    command("WRITE AND VERIFY(12)", &[0xae, 0xf6, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0x04], Gates::WRITE, verify::start_after_write),
    command("VERIFY(12)", &[0xaf, 0xf6, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0x04], Gates::READ, verify::start),
    command("READ DEFECT DATA(12)", &[0xb7, 0x1f, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0x04], Gates::READ, read_defect_data::start_12),
];
