//! Tests of REPORT SUPPORTED OPERATION CODES, REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS, LOG SENSE
//! and LOG SELECT.

use crate::harness::*;
use scsi::UnitAttention;
use scsi::medium::thin_provisioning::Space;

fn opcodes(who: &Initiator, options: u8, opcode: u8, action: u16) -> scsi::Response {
    let [high, low] = action.to_be_bytes();
    who.run(
        &[0xA3, 0x0C, options, opcode, high, low, 0, 1, 0, 0, 0, 0],
        &[],
    )
}

#[test]
fn every_command_listed_is_described_and_asked_for_correctly() {
    let device = Device::new(&[config(1)]);
    let a = device.login(1, 1);
    let all = good(opcodes(&a, 0, 0, 0));
    assert_eq!(
        u32::from_be_bytes(all[..4].try_into().unwrap()) as usize,
        all.len() - 4
    );
    for entry in all[4..].chunks(8) {
        let action = u16::from_be_bytes([entry[2], entry[3]]);
        let has_action = entry[5] & 1 != 0;
        assert_eq!(entry[5] & 2, 0, "no timeouts were asked for");
        let (right, wrong) = if has_action { (2, 1) } else { (1, 2) };
        fails(opcodes(&a, wrong, entry[0], action), INVALID_IN_CDB);
        let one = good(opcodes(&a, right, entry[0], action));
        assert_eq!(one[1], 3);
        assert_eq!(one[2..4], entry[6..8]);
        assert_eq!(one[4], entry[0]);
        assert_eq!(one.len(), 4 + usize::from(one[3]));
        assert_eq!(good(opcodes(&a, 3, entry[0], action)), one);
        let timed = good(opcodes(&a, 0x80 | right, entry[0], action));
        assert_eq!(timed[1], 0x83);
        assert_eq!(timed[one.len()..], [0, 0x0A, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    }
    let timed = good(opcodes(&a, 0x80, 0, 0));
    assert_eq!((timed.len() - 4) / 20, (all.len() - 4) / 8);
    assert!(
        timed[4..]
            .chunks(20)
            .all(|entry| entry[5] & 2 != 0 && entry[9] == 0x0A)
    );
}

#[test]
fn what_is_not_supported_is_said_to_be_so() {
    let device = Device::new(&[config(1)]);
    let a = device.login(1, 1);
    for (options, opcode, action) in [
        (1, 0x3B, 0),
        (1, 0x3C, 0),
        (1, 0xC0, 0),
        (2, 0xC0, 1),
        (3, 0xC0, 0),
        (2, 0x5E, 0x1F),
        (3, 0x28, 1),
        (3, 0x5E, 9),
    ] {
        assert_eq!(good(opcodes(&a, options, opcode, action)), [0, 1, 0, 0]);
    }
    for options in 4..8 {
        fails(opcodes(&a, options, 0x28, 0), INVALID_IN_CDB);
    }
}

/// Tests SPC-4 6.34.3: a field is mapped as a whole, and fields that the device server ignores are
/// not mapped.
#[test]
fn usage_maps_show_whole_fields_and_nothing_that_is_ignored() {
    let device = Device::new(&[config(1)]);
    let a = device.login(1, 1);
    let usage = |opcode, action: Option<u16>| {
        let options = if action.is_some() { 2 } else { 1 };
        good(opcodes(&a, options, opcode, action.unwrap_or(0)))[4..].to_vec()
    };
    // BYTCHK has two bits.
    for opcode in [0x2E, 0x8E, 0xAE] {
        assert_eq!(usage(opcode, None)[1], 0xF6, "{opcode:02x}");
    }
    // Only 3RDPTY and EXTENT are evaluated.
    assert_eq!(usage(0x56, None)[1], 0x11);
    assert_eq!(usage(0x57, None)[1], 0x11);
    // POWER CONDITION MODIFIER belongs to power conditions, of which there are none.
    assert_eq!(usage(0x1B, None)[3], 0);
    // IMMED of START STOP UNIT changes nothing.
    assert_eq!(usage(0x1B, None)[1], 0);
    // REPORT TYPE of GET LBA STATUS(16): types that are not offered are refused.
    assert_eq!(usage(0x9E, Some(0x12))[14], 0xFF);
    // REGISTER, CLEAR, REGISTER AND IGNORE EXISTING KEY and REGISTER AND MOVE ignore SCOPE and
    // TYPE.
    for action in 0..=7 {
        let ignores = [0, 3, 6, 7].contains(&action);
        let map = if ignores { 0 } else { 0xFF };
        assert_eq!(usage(0x5F, Some(action))[2], map, "{action}");
    }
}

/// Tests SPC-4 6.33: REPORT LUNS reports all that the condition would, whichever LUN it was sent
/// to.
#[test]
fn luns_that_were_reported_are_no_news_any_more() {
    let device = Device::new(&[config(1), config(2)]);
    let a = device.login(1, 1);
    let report = [0xA0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0];
    let command = scsi::Command {
        cdb: &report,
        attribute: scsi::TaskAttribute::Simple,
        data_out_len: Some(0),
        data_in_len: 256,
    };
    let raise = || {
        let ua = UnitAttention::REPORTED_LUNS_DATA_HAS_CHANGED;
        a.itls.iter().for_each(|itl| itl.raise(ua));
    };
    let is_news = || a.itls.iter().any(|itl| itl.ua_pending());
    raise();
    assert!(matches!(
        scsi::start_without_unit(&command, &a),
        scsi::Start::Respond(_)
    ));
    assert!(!is_news(), "by way of a LUN without a unit");
    raise();
    good(a.run(&report, &[]));
    assert!(!is_news(), "by way of a unit");
    raise();
    let wrong = scsi::Command {
        cdb: &[0xA0, 0, 7, 0, 0, 0, 0, 0, 1, 0, 0, 0],
        ..command
    };
    let _ = scsi::start_without_unit(&wrong, &a);
    assert!(is_news(), "nothing was reported");
}

#[test]
fn task_management_functions_are_reported() {
    let device = Device::new(&[config(1)]);
    let a = device.login(1, 1);
    let functions = |flags, len| a.run(&[0xA3, 0x0D, flags, 0, 0, 0, 0, 0, 0, len, 0, 0], &[]);
    assert_eq!(good(functions(0, 4)), [0xDA, 0, 0, 0]);
    let extended = good(functions(0x80, 64));
    assert_eq!((extended.len(), extended[3]), (16, 12));
    fails(functions(0, 3), INVALID_IN_CDB);
}

fn log_sense(who: &Initiator, page: u8, subpage: u8, pointer: u8) -> scsi::Response {
    who.run(
        &[0x4D, 0, 0x40 | page, subpage, 0, 0, pointer, 1, 0, 0],
        &[],
    )
}

#[test]
fn log_pages_tell_what_is_known() {
    let device = Device::new(&[config(1)]);
    let a = device.login(1, 1);
    assert_eq!(
        good(log_sense(&a, 0, 0, 0)),
        [0, 0, 0, 3, 0, 0x19, 0x2F],
        "nobody has said yet what space there is"
    );
    fails(log_sense(&a, 0x0C, 0, 0), INVALID_IN_CDB);
    device.units[0].note_space(Space {
        available: 5 * 2048 - 1,
        used: 2049,
        capacity: 100 * 2048,
    });
    assert_eq!(
        good(log_sense(&a, 0, 0, 0)),
        [0, 0, 0, 4, 0, 0x0C, 0x19, 0x2F]
    );
    assert_eq!(
        good(log_sense(&a, 0, 0xFF, 0)),
        [0x40, 0xFF, 0, 10, 0, 0, 0, 0xFF, 0x0C, 0, 0x19, 0, 0x2F, 0]
    );
    assert_eq!(
        good(log_sense(&a, 0x2F, 0, 0)),
        [0x2F, 0, 0, 8, 0, 0, 3, 4, 0, 0, 0xFF, 0]
    );

    assert_eq!(
        good(log_sense(&a, 0x0C, 0, 0)),
        [
            0x0C, 0, 0, 24, //
            0, 1, 3, 8, 0, 0, 0, 4, 2, 0, 0, 0, //
            0, 2, 3, 8, 0, 0, 0, 2, 1, 0, 0, 0
        ]
    );
    assert_eq!(good(log_sense(&a, 0x0C, 0, 2)).len(), 16);

    device.units[0].statistics().add_read(3, 8);
    device.units[0].statistics().add_write(64, 16);
    let page = good(log_sense(&a, 0x19, 0, 0));
    assert_eq!(page[..8], [0x19, 0, 0, 92, 0, 1, 3, 64]);
    // Idle time, and an interval of no length: no time is counted.
    let times = [[0, 2, 3, 8], [0, 3, 3, 8]].map(|head| [head, [0; 4], [0; 4]].concat());
    assert_eq!(page[72..], times.concat());
    let counter = |at: usize| u64::from_be_bytes(page[8 + at * 8..16 + at * 8].try_into().unwrap());
    assert_eq!(
        [counter(0), counter(1), counter(2), counter(3)],
        [1, 1, 16, 8]
    );
}

#[test]
fn wrong_log_requests_are_refused() {
    let device = Device::new(&[config(1)]);
    let a = device.login(1, 1);
    for response in [
        log_sense(&a, 0x0D, 0, 0),
        log_sense(&a, 0x19, 1, 0),
        log_sense(&a, 0x19, 0, 9),
        a.run(&[0x4D, 1, 0x59, 0, 0, 0, 0, 1, 0, 0], &[]),
        a.run(&[0x4D, 0, 0x19, 0, 0, 0, 0, 1, 0, 0], &[]),
        a.run(&[0x4C, 1, 0x59, 0, 0, 0, 0, 0, 0, 0], &[]),
        a.run(&[0x4C, 2, 0x4D, 0, 0, 0, 0, 0, 0, 0], &[]),
        a.run(&[0x4C, 2, 0x59, 1, 0, 0, 0, 0, 0, 0], &[]),
    ] {
        fails(response, INVALID_IN_CDB);
    }
    fails(
        a.run(&[0x4C, 0, 0x59, 0, 0, 0, 0, 0, 8, 0], &[0; 8]),
        LIST_LENGTH,
    );
}

#[test]
fn log_select_resets_the_counters_and_tells_the_others() {
    let device = Device::new(&[config(1)]);
    let (a, b) = (device.login(1, 1), device.login(2, 1));
    device.units[0].statistics().add_read(0, 8);
    good(a.run(&[0x4C, 2, 0x59, 0, 0, 0, 0, 0, 0, 0], &[]));
    assert_eq!(a.attention(), None);
    assert_eq!(b.attention(), Some(UnitAttention::LOG_PARAMETERS_CHANGED));
    assert!(
        good(log_sense(&a, 0x19, 0, 0))[8..72]
            .iter()
            .all(|&byte| byte == 0)
    );
    assert_eq!(device.units[0].statistics().totals().read_commands, 1);
}

/// Tests SPC-4 6.33: one REPORT LUNS answers REPORTED LUNS DATA HAS CHANGED for all units that its
/// initiator sees there, and for no other initiator.
#[test]
fn report_luns_answers_the_changed_inventory_for_all_units() {
    let device = Device::new(&[config(1), config(2), config(3)]);
    let (a, b) = (device.login(1, 1), device.login(2, 1));
    for unit in &device.units {
        unit.raise(UnitAttention::REPORTED_LUNS_DATA_HAS_CHANGED, None);
        unit.raise(UnitAttention::MODE_PARAMETERS_CHANGED, None);
    }
    good(a.to(1, &[0xA0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0], &[]));
    for lun in 0..3 {
        fails(a.to(lun, &[0; 6], &[]), (6, 0x2A, 0x01));
        good(a.to(lun, &[0; 6], &[]));
        fails(b.to(lun, &[0; 6], &[]), (6, 0x3F, 0x0E));
    }
}
