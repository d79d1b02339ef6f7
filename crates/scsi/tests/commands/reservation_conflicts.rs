//! Tests of the commands that meet RESERVATION CONFLICT. They cover every command of the unit under
//! every type of persistent reservation (SPC-4 table 65, SBC-4 table 13). Each command comes from
//! the holder, from another registrant and from a stranger.

use scsi::Status;
use scsi::command_table::{self, CommandDescriptor};

use crate::harness::*;

/// Rule for a command in the tables of the standards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// "Allowed" in every column.
    Allowed,
    /// "Allowed" beside write exclusive reservations, "Conflict" beside exclusive access.
    Reads,
    /// "Conflict" in every column but that of the registrants who have the holder's access.
    Writes,
    /// The command itself decides, by the registrations. PERSISTENT RESERVE OUT, RESERVE and
    /// RELEASE have tests of their own.
    Itself,
}

/// Returns the rule of each command, by its name in the command table.
fn rule(name: &str) -> Rule {
    match name {
        "TEST UNIT READY"
        | "REQUEST SENSE"
        | "INQUIRY"
        | "READ CAPACITY(10)"
        | "READ CAPACITY(16)"
        | "LOG SENSE"
        | "PERSISTENT RESERVE IN (READ KEYS)"
        | "PERSISTENT RESERVE IN (READ RESERVATION)"
        | "PERSISTENT RESERVE IN (REPORT CAPABILITIES)"
        | "PERSISTENT RESERVE IN (READ FULL STATUS)"
        | "RECEIVE COPY RESULTS (COPY STATUS)"
        | "RECEIVE COPY RESULTS (RECEIVE DATA)"
        | "RECEIVE COPY RESULTS (OPERATING PARAMETERS)"
        | "RECEIVE COPY FAILURE DETAILS(LID1)"
        | "RECEIVE COPY STATUS(LID4)"
        | "RECEIVE COPY DATA(LID4)"
        | "RECEIVE ROD TOKEN INFORMATION"
        | "REPORT LUNS"
        | "REPORT TARGET PORT GROUPS" => Rule::Allowed,
        "READ(6)"
        | "READ(10)"
        | "READ(12)"
        | "READ(16)"
        | "VERIFY(10)"
        | "VERIFY(12)"
        | "VERIFY(16)"
        | "PRE-FETCH(10)"
        | "PRE-FETCH(16)"
        | "READ DEFECT DATA(10)"
        | "READ DEFECT DATA(12)"
        | "GET LBA STATUS(16)"
        | "MODE SENSE(6)"
        | "MODE SENSE(10)"
        | "POPULATE TOKEN"
        | "REPORT SUPPORTED OPERATION CODES"
        | "REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS" => Rule::Reads,
        "WRITE(6)"
        | "WRITE(10)"
        | "WRITE(12)"
        | "WRITE(16)"
        | "WRITE AND VERIFY(10)"
        | "WRITE AND VERIFY(12)"
        | "WRITE AND VERIFY(16)"
        | "WRITE SAME(10)"
        | "WRITE SAME(16)"
        | "WRITE ATOMIC(16)"
        | "COMPARE AND WRITE"
        | "ORWRITE(16)"
        | "UNMAP"
        | "SANITIZE OVERWRITE"
        | "SANITIZE EXIT FAILURE MODE"
        | "SYNCHRONIZE CACHE(10)"
        | "SYNCHRONIZE CACHE(16)"
        | "MODE SELECT(6)"
        | "MODE SELECT(10)"
        | "LOG SELECT"
        // This is the case START = 0. The other case is tested beside the table.
        | "START STOP UNIT"
        | "SEND DIAGNOSTIC"
        | "EXTENDED COPY(LID1)"
        | "EXTENDED COPY(LID4)"
        | "WRITE USING TOKEN"
        | "COPY OPERATION ABORT"
        | "SET TARGET PORT GROUPS" => Rule::Writes,
        "RESERVE(6)" | "RESERVE(10)" | "RELEASE(6)" | "RELEASE(10)" => Rule::Itself,
        name if name.starts_with("PERSISTENT RESERVE OUT") => Rule::Itself,
        other => panic!("no rule is known for {other}: add it, with what the standard says"),
    }
}

/// Builds a CDB that is zero except for the operation code and the service action. No command does
/// harm in this form, and the gates are asked before the fields.
fn cdb(command: &CommandDescriptor) -> Vec<u8> {
    let mut cdb = vec![0; command.usage.len()];
    cdb[0] = command.opcode;
    if let Some(action) = command.service_action {
        cdb[1] = action as u8;
    }
    cdb
}

fn reserve_out(who: &Initiator, action: u8, kind: u8, key: u64, new_key: u64) {
    let mut list = [0; 24];
    list[..8].copy_from_slice(&key.to_be_bytes());
    list[8..16].copy_from_slice(&new_key.to_be_bytes());
    good(who.run(&[0x5F, action, kind, 0, 0, 0, 0, 0, 24, 0], &list));
}

const WRITE_EXCLUSIVE: [u8; 3] = [1, 5, 7];
const ADMIT_REGISTRANTS: [u8; 4] = [5, 6, 7, 8];

#[test]
fn every_command_under_every_persistent_reservation() {
    for kind in [1, 3, 5, 6, 7, 8] {
        let mut with_everything = config(1);
        with_everything.max_atomic_write = 8;
        let device = Device::new(&[with_everything]);
        device.units[0].enable_tokens([7; 16]);
        let [holder, registrant, stranger] = [1, 2, 3].map(|number| device.login(number, 1));
        reserve_out(&holder, 6, 0, 0, 0xA);
        reserve_out(&registrant, 6, 0, 0, 0xB);
        reserve_out(&holder, 1, kind, 0xA, 0);
        // All commands of the table are offered here, so none is left out.
        let offered = command_table::offered(&device.units[0]).count();
        assert_eq!(offered, command_table::TABLE.len());
        for command in command_table::TABLE {
            let rule = rule(command.name);
            for (who, name, has_access) in [
                (&holder, "the holder", true),
                (
                    &registrant,
                    "a registrant",
                    ADMIT_REGISTRANTS.contains(&kind),
                ),
                (&stranger, "a stranger", false),
            ] {
                let expected = match rule {
                    Rule::Itself => continue,
                    Rule::Allowed => false,
                    Rule::Reads => !has_access && !WRITE_EXCLUSIVE.contains(&kind),
                    Rule::Writes => !has_access,
                };
                let response = who.run(&cdb(command), &[]);
                assert_eq!(
                    response.status == Status::ReservationConflict,
                    expected,
                    "{} from {name} under type {kind}: {response:?}",
                    command.name
                );
            }
        }
        // START = 1 comes without a power condition, after the holder stopped the unit.
        good(holder.run(&[0x1B, 0, 0, 0, 0, 0], &[]));
        good(stranger.run(&[0x1B, 0, 0, 0, 1, 0], &[]));
        good(stranger.run(&[0; 6], &[]));
        conflicts(stranger.run(&[0x1B, 0, 0, 0, 0x11, 0], &[]));
        conflicts(stranger.run(&[0x1B, 0, 0, 0, 0x10, 0], &[]));
    }
}
