//! Tests of EXTENDED COPY, and of the questions about it afterwards.

use std::sync::{Arc, Mutex};

use scsi::{
    BlockError, BlockRange, Command, Extent, Input, Response, Start, Status, Step, Task,
    TaskAttribute,
};

use crate::harness::*;

const NOT_REACHABLE: (u8, u8, u8) = (0xA, 0x0D, 0x02);
const DEVICE_FAILURE: (u8, u8, u8) = (0xA, 0x0D, 0x01);

fn naa(number: u8) -> Vec<u8> {
    config(number).naa
}

pub(crate) fn cscd(naa: &[u8], block_len: u32) -> Vec<u8> {
    let mut bytes = vec![0xE4, 0, 0, 0, 1, 3, 0, naa.len() as u8];
    bytes.extend_from_slice(naa);
    bytes.resize(28, 0);
    bytes.extend_from_slice(&block_len.to_be_bytes());
    bytes
}

pub(crate) fn segment(from: (u16, u64), to: (u16, u64), blocks: u16) -> Vec<u8> {
    let mut bytes = vec![0x02, 0, 0, 0x18];
    bytes.extend_from_slice(&from.0.to_be_bytes());
    bytes.extend_from_slice(&to.0.to_be_bytes());
    bytes.extend_from_slice(&[0, 0]);
    bytes.extend_from_slice(&blocks.to_be_bytes());
    bytes.extend_from_slice(&from.1.to_be_bytes());
    bytes.extend_from_slice(&to.1.to_be_bytes());
    bytes
}

pub(crate) fn lid1(list_id: u8, usage: u8, cscds: &[Vec<u8>], segments: &[Vec<u8>]) -> Vec<u8> {
    let (cscds, segments) = (cscds.concat(), segments.concat());
    let mut list = vec![list_id, usage << 3];
    list.extend_from_slice(&(cscds.len() as u16).to_be_bytes());
    list.extend_from_slice(&[0; 4]);
    list.extend_from_slice(&(segments.len() as u32).to_be_bytes());
    list.extend_from_slice(&[0; 4]);
    [list, cscds, segments].concat()
}

pub(crate) fn lid4(list_id: u32, cscds: &[Vec<u8>], segments: &[Vec<u8>]) -> Vec<u8> {
    let (cscds, segments) = (cscds.concat(), segments.concat());
    let mut list = vec![0; 48];
    list[0] = 1;
    list[3] = 0x20;
    list[16] = 0xFF;
    list[20..24].copy_from_slice(&list_id.to_be_bytes());
    list[42..44].copy_from_slice(&(cscds.len() as u16).to_be_bytes());
    list[44..46].copy_from_slice(&(segments.len() as u16).to_be_bytes());
    [list, cscds, segments].concat()
}

pub(crate) fn copy_cdb(action: u8, len: usize) -> [u8; 16] {
    let mut cdb = [0; 16];
    cdb[..2].copy_from_slice(&[0x83, action]);
    cdb[10..14].copy_from_slice(&(len as u32).to_be_bytes());
    cdb
}

fn copy(who: &Initiator, list: &[u8]) -> Response {
    who.run(&copy_cdb(0, list.len()), list)
}

fn receive(who: &Initiator, action: u8, list_id: u8) -> Response {
    let mut cdb = [0; 16];
    cdb[..3].copy_from_slice(&[0x84, action, list_id]);
    cdb[12] = 4;
    who.run(&cdb, &[])
}

fn receive_lid4(who: &Initiator, action: u8, list_id: u32) -> Response {
    let mut cdb = [0; 16];
    cdb[..2].copy_from_slice(&[0x84, action]);
    cdb[2..6].copy_from_slice(&list_id.to_be_bytes());
    cdb[12] = 4;
    who.run(&cdb, &[])
}

fn range(start: u64, count: u64) -> BlockRange {
    BlockRange::new(start, count).unwrap()
}

fn pattern(blocks: u64) -> Vec<u8> {
    (0..blocks * 512)
        .map(|at| (at / 512 + at % 251 + 1) as u8)
        .collect()
}

/// Makes two units, with `pattern` on the first 3000 blocks of the first.
fn two_units() -> (Arc<Device>, Initiator) {
    let device = Device::new(&[config(1), config(2)]);
    device.write(&device.units[0], range(0, 3000), &pattern(3000));
    let a = device.login(1, 1);
    (device, a)
}

#[test]
fn a_clone_between_two_units_in_several_chunks() {
    let (device, a) = two_units();
    let units = [cscd(&naa(1), 512), cscd(&naa(2), 512)];
    let segments = [
        segment((0, 0), (1, 5), 2500),
        segment((0, 2500), (1, 2505), 500),
    ];
    good(copy(&a, &lid1(9, 0, &units, &segments)));
    assert_eq!(device.read(&device.units[1], range(5, 3000)), pattern(3000));
    assert_eq!(device.read(&device.units[1], range(0, 5)), [0; 5 * 512]);
    // COPY STATUS reports: completed, two segments, 1500 KiB.
    assert_eq!(
        good(receive(&a, 0, 9)),
        [0, 0, 0, 8, 1, 0, 2, 1, 0, 0, 0x05, 0xDC]
    );
    fails(receive(&a, 0, 8), INVALID_IN_CDB);
    // Receiving the (absent) held data frees the list identifier.
    assert_eq!(good(receive(&a, 1, 9)), [0; 4]);
    fails(receive(&a, 0, 9), INVALID_IN_CDB);
}

#[test]
fn overlapping_ranges_of_one_unit_are_copied_as_if_through_a_buffer() {
    let (device, a) = two_units();
    let unit = [cscd(&naa(1), 512)];
    good(copy(
        &a,
        &lid1(0, 3, &unit, &[segment((0, 0), (0, 7), 3000)]),
    ));
    assert_eq!(device.read(&device.units[0], range(7, 3000)), pattern(3000));
    good(copy(
        &a,
        &lid1(0, 3, &unit, &[segment((0, 7), (0, 0), 3000)]),
    ));
    assert_eq!(device.read(&device.units[0], range(0, 3000)), pattern(3000));
}

#[test]
fn holes_stay_holes() {
    let (device, a) = two_units();
    device.write(&device.units[1], range(0, 4096), &vec![0xEE; 4096 * 512]);
    let zeroed = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&zeroed);
    *device.before_step.lock().unwrap() = Some(Box::new(move |_, step| {
        if let Step::On { step, .. } = step
            && let Step::WriteZeroes {
                range, unmap: true, ..
            } = **step
        {
            log.lock().unwrap().push(range);
        }
    }));
    let units = [cscd(&naa(1), 512), cscd(&naa(2), 512)];
    good(copy(
        &a,
        &lid1(1, 0, &units, &[segment((0, 0), (1, 0), 4096)]),
    ));
    assert_eq!(
        device.read(&device.units[1], range(0, 4096)),
        device.read(&device.units[0], range(0, 4096))
    );
    assert_eq!(*zeroed.lock().unwrap(), [range(3000, 1096)]);
}

#[test]
fn different_block_lengths_need_whole_blocks_of_both() {
    let large = scsi::logical_unit::UnitConfig {
        block_len: 4096,
        ..config(2)
    };
    let device = Device::new(&[config(1), large]);
    let a = device.login(1, 1);
    device.write(&device.units[0], range(0, 3000), &pattern(3000));
    let units = [cscd(&naa(1), 512), cscd(&naa(2), 4096)];
    good(copy(
        &a,
        &lid1(1, 0, &units, &[segment((0, 3), (1, 1), 2400)]),
    ));
    assert_eq!(
        device.read(&device.units[1], range(1, 300)),
        device.read(&device.units[0], range(3, 2400))
    );
    let inexact = lid1(1, 0, &units, &[segment((0, 0), (1, 1), 9)]);
    fails(copy(&a, &inexact), (0xA, 0x26, 0x0A));
    // With DC the count is in blocks of the destination.
    let mut of_destination = segment((0, 0), (1, 0), 2);
    of_destination[1] = 0x02;
    good(copy(&a, &lid1(1, 0, &units, &[of_destination])));
    assert_eq!(
        device.read(&device.units[1], range(0, 2)),
        device.read(&device.units[0], range(0, 16))
    );
}

#[test]
fn segments_with_offset_copy_whole_blocks() {
    let (device, a) = two_units();
    let units = [cscd(&naa(1), 512), cscd(&naa(2), 512)];
    let with_offset = |bytes: u32, source_offset: u16| {
        let mut it = vec![0x0A, 0, 0, 0x1C, 0, 0, 0, 1];
        it.extend_from_slice(&bytes.to_be_bytes());
        it.extend_from_slice(&4_u64.to_be_bytes());
        it.extend_from_slice(&8_u64.to_be_bytes());
        it.extend_from_slice(&source_offset.to_be_bytes());
        it.extend_from_slice(&[0, 0]);
        lid1(1, 0, &units, &[it])
    };
    good(copy(&a, &with_offset(1024, 0)));
    assert_eq!(
        device.read(&device.units[1], range(8, 2)),
        device.read(&device.units[0], range(4, 2))
    );
    fails(copy(&a, &with_offset(1024, 1)), INVALID_IN_LIST);
    fails(copy(&a, &with_offset(1000, 0)), (0xA, 0x26, 0x0A));
    fails(
        copy(&a, &with_offset((256 << 20) + 512, 0)),
        INVALID_IN_LIST,
    );
}

#[test]
fn only_units_in_the_view_are_reached() {
    let (device, mut a) = two_units();
    a.hidden.push(1);
    let units = [cscd(&naa(1), 512), cscd(&naa(2), 512)];
    for segment in [segment((0, 0), (1, 0), 8), segment((1, 0), (0, 0), 8)] {
        fails(copy(&a, &lid1(1, 0, &units, &[segment])), NOT_REACHABLE);
    }
    let unknown = [cscd(&naa(1), 512), cscd(&naa(7), 512)];
    fails(
        copy(&a, &lid1(1, 0, &unknown, &[segment((0, 0), (1, 0), 8)])),
        NOT_REACHABLE,
    );
    assert_eq!(
        device.read(&device.units[1], range(0, 4096)),
        vec![0; 4096 * 512]
    );
    // The failure is remembered with its sense data.
    assert_eq!(good(receive(&a, 0, 1))[4], 2);
    let details = good(receive(&a, 4, 1));
    assert_eq!(details[56], 2);
    assert_eq!(details[60 + 2] & 0xF, 0xA);
}

/// Starts a command of LUN 0 without giving it its parameter list.
fn start(who: &Initiator, cdb: &[u8], list: &[u8]) -> Box<dyn Task> {
    let command = Command {
        cdb,
        attribute: TaskAttribute::Simple,
        data_out_len: Some(list.len() as u32),
        data_in_len: 0,
    };
    match who.itls[0].start(&command, who) {
        Start::Task(task) => task,
        other => panic!("not a task: {other:?}"),
    }
}

#[test]
fn a_unit_that_left_the_view_before_the_parameter_list_came_is_not_reached() {
    let units = [cscd(&naa(1), 512), cscd(&naa(2), 512)];
    for segment in [segment((0, 0), (1, 0), 8), segment((1, 0), (0, 0), 8)] {
        let (device, a) = two_units();
        let list = lid1(1, 0, &units, &[segment]);
        let mut task = start(&a, &copy_cdb(0, list.len()), &list);
        device.units[1].detach(a.itls[1].nexus().id);
        match task.step(Input::Begin { data_out: &list }) {
            Step::Done(response) => fails(response, NOT_REACHABLE),
            other => panic!("it goes on: {other:?}"),
        }
    }
}

#[test]
fn a_unit_that_leaves_the_view_in_the_midst_of_a_copy_ends_it() {
    let units = [cscd(&naa(1), 512), cscd(&naa(2), 512)];
    for (segment, what) in [
        (segment((0, 0), (1, 0), 3000), "what is written"),
        (segment((1, 0), (0, 0), 3000), "what is read"),
    ] {
        let (device, a) = two_units();
        device.write(&device.units[1], range(3000, 1000), &[9; 1000 * 512]);
        let list = lid1(1, 0, &units, &[segment]);
        let left = a.itls[1].nexus().id;
        let mut seen = 0;
        *device.before_step.lock().unwrap() = Some(Box::new(move |device, step| {
            if matches!(step, Step::On { .. }) {
                seen += 1;
                assert_eq!(seen, 1, "another step on it");
                device.units[1].detach(left);
            }
        }));
        let response = copy(&a, &list);
        assert_eq!(sense(&response), Some(NOT_REACHABLE), "{what}");
        *device.before_step.lock().unwrap() = None;
        assert_eq!(good(receive(&a, 0, 1))[4], 2, "{what}");
        // Only the step that the device already had took place.
        assert_eq!(
            device.read(&device.units[1], range(2048, 952)),
            vec![0; 952 * 512]
        );
        assert_eq!(device.read(&device.units[0], range(0, 3000)), pattern(3000));
    }
}

#[test]
fn a_step_that_waited_on_another_unit_is_asked_about_again() {
    let units = [cscd(&naa(1), 512), cscd(&naa(2), 512)];
    let (device, a) = two_units();
    let list = lid1(1, 0, &units, &[segment((0, 0), (1, 0), 8)]);
    let mut task = start(&a, &copy_cdb(0, list.len()), &list);
    let Step::Extents { range: asked } = task.step(Input::Begin { data_out: &list }) else {
        panic!("a thin source is asked what is allocated");
    };
    let mapped = Extent {
        range: asked,
        mapped: true,
    };
    let read = task.step(Input::Extents(&[mapped]));
    assert!(matches!(read, Step::Read { .. }), "{read:?}");
    assert_eq!(task.refused(), None);
    let write = task.step(Input::Blocks(&pattern(8)));
    assert!(matches!(write, Step::On { .. }), "{write:?}");
    assert_eq!(task.refused(), None);
    // While the copy waits for the range, another host reserves the unit.
    let b = device.login(2, 1);
    good(b.to(1, &[0x16, 0, 0, 0, 0, 0], &[]));
    fails(task.refused().expect("fenced"), DEVICE_FAILURE);
    good(b.to(1, &[0x17, 0, 0, 0, 0, 0], &[]));
    assert_eq!(task.refused(), None);
    device.units[1].detach(a.itls[1].nexus().id);
    fails(task.refused().expect("gone"), NOT_REACHABLE);
    assert_eq!(good(receive(&a, 0, 1))[4], 2, "it failed");
}

#[test]
fn what_a_write_may_not_do_a_copy_may_not_either() {
    let (device, a) = two_units();
    let b = device.login(2, 1);
    let units = [cscd(&naa(1), 512), cscd(&naa(2), 512)];
    let list = lid1(1, 0, &units, &[segment((0, 0), (1, 0), 3000)]);
    // The destination has a write exclusive reservation.
    let register = [0x5F, 6, 0, 0, 0, 0, 0, 0, 24, 0];
    let mut key = [0; 24];
    key[15] = 1;
    good(b.to(1, &register, &key));
    let mut reserve = [0; 24];
    reserve[7] = 1;
    good(b.to(1, &[0x5F, 1, 1, 0, 0, 0, 0, 0, 24, 0], &reserve));
    fails(copy(&a, &list), DEVICE_FAILURE);
    good(b.to(1, &[0x5F, 2, 1, 0, 0, 0, 0, 0, 24, 0], &reserve));
    // The unit is write protected, from the start or between two chunks.
    a.itls[1].set_read_only(true);
    fails(copy(&a, &list), DEVICE_FAILURE);
    a.itls[1].set_read_only(false);
    let itl = Arc::clone(&a.itls[1]);
    *device.before_step.lock().unwrap() = Some(Box::new(move |_, step| {
        if matches!(step, Step::On { step, .. } if matches!(**step, Step::Write { .. })) {
            itl.set_read_only(true);
        }
    }));
    fails(copy(&a, &list), DEVICE_FAILURE);
    assert_eq!(
        device.read(&device.units[1], range(2048, 952)),
        vec![0; 952 * 512]
    );
}

#[test]
fn a_full_pool_is_called_by_its_name() {
    let (device, a) = two_units();
    let units = [cscd(&naa(1), 512), cscd(&naa(2), 512)];
    let list = lid1(1, 0, &units, &[segment((0, 0), (1, 0), 3000)]);
    *device.fail_writes.lock().unwrap() = Some((naa(2), BlockError::NoSpace));
    fails(copy(&a, &list), (7, 0x27, 7));
    *device.fail_writes.lock().unwrap() = Some((naa(2), BlockError::Write { lba: None }));
    fails(copy(&a, &list), DEVICE_FAILURE);
}

#[test]
fn wrong_parameter_lists_are_refused() {
    let (_device, a) = two_units();
    let unit = cscd(&naa(1), 512);
    let one = segment((0, 0), (0, 3500), 8);
    let list = lid1(
        1,
        0,
        std::slice::from_ref(&unit),
        std::slice::from_ref(&one),
    );
    good(a.run(&copy_cdb(0, 0), &[]));
    for len in [1, 15, 16 + 31, 16 + 32 + 27] {
        fails(copy(&a, &list[..len]), LIST_LENGTH);
    }
    fails(
        a.run(&copy_cdb(0, list.len()), &list[..list.len() - 1]),
        MISMATCH,
    );
    let refused = |cscds: &[Vec<u8>], segments: &[Vec<u8>], sense| {
        fails(copy(&a, &lid1(1, 0, cscds, segments)), sense);
    };
    refused(
        &vec![unit.clone(); 17],
        std::slice::from_ref(&one),
        (5, 0x26, 6),
    );
    refused(
        std::slice::from_ref(&unit),
        &vec![one.clone(); 257],
        (5, 0x26, 8),
    );
    refused(
        &vec![unit.clone(); 17],
        &vec![one.clone(); 300],
        LIST_LENGTH,
    );
    let changed = |bytes: &Vec<u8>, at: usize, value: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = value;
        [bytes]
    };
    refused(
        &changed(&unit, 0, 0xE0),
        std::slice::from_ref(&one),
        (5, 0x26, 7),
    );
    refused(
        &changed(&unit, 7, 21),
        std::slice::from_ref(&one),
        INVALID_IN_LIST,
    );
    refused(
        &changed(&unit, 30, 8),
        std::slice::from_ref(&one),
        INVALID_IN_LIST,
    );
    refused(
        &changed(&unit, 1, 1),
        std::slice::from_ref(&one),
        (0xA, 0x0D, 3),
    );
    refused(
        &changed(&unit, 5, 1),
        std::slice::from_ref(&one),
        NOT_REACHABLE,
    );
    let unit = std::slice::from_ref(&unit);
    refused(unit, &changed(&one, 0, 3), (5, 0x26, 9));
    refused(unit, &changed(&one, 3, 0x17), INVALID_IN_LIST);
    refused(unit, &changed(&one, 7, 1), (0xA, 0x08, 4));
    refused(unit, &[segment((0, 0), (0, BLOCKS - 1), 8)], (0xA, 0, 0));
    refused(unit, &[segment((0, u64::MAX), (0, 0), 8)], (0xA, 0, 0));
    let mut inline = list.clone();
    inline[15] = 4;
    inline.extend_from_slice(&[0; 4]);
    fails(copy(&a, &inline), (5, 0x26, 0x0B));
    fails(
        copy(&a, &lid1(1, 1, unit, std::slice::from_ref(&one))),
        INVALID_IN_LIST,
    );
    fails(
        copy(&a, &lid1(1, 3, unit, std::slice::from_ref(&one))),
        INVALID_IN_LIST,
    );
    // LU ID TYPE is ignored, as SPC-4 says.
    good(copy(&a, &lid1(1, 0, &changed(&unit[0], 1, 0xC0), &[one])));
}

/// Tests the CSCD DESCRIPTOR LIST LENGTH, which lies at a different place in each form (SPC-4
/// 6.4.2, 6.5.2).
#[test]
fn a_wrong_length_of_cscd_descriptors_is_pointed_to_in_either_form() {
    let (_, a) = two_units();
    let odd = [vec![0xE4; 33]];
    for (action, list, at) in [(0, lid1(1, 0, &odd, &[]), 2), (1, lid4(1, &odd, &[]), 42)] {
        let refused = a.run(&copy_cdb(action, list.len()), &list);
        assert_eq!(refused.sense[15..18], [0x80, 0, at]);
        fails(refused, INVALID_IN_LIST);
    }
}

#[test]
fn the_long_form_has_long_list_identifiers() {
    let (device, a) = two_units();
    let units = [cscd(&naa(1), 512), cscd(&naa(2), 512)];
    let list = lid4(0x1234_5678, &units, &[segment((0, 0), (1, 0), 2048)]);
    good(a.run(&copy_cdb(1, list.len()), &list));
    assert_eq!(device.read(&device.units[1], range(0, 2048)), pattern(2048));
    let status = good(receive_lid4(&a, 5, 0x1234_5678));
    assert_eq!(status.len(), 32);
    assert_eq!(status[..8], [0, 0, 0, 28, 1, 1, 0, 0]);
    assert_eq!(status[15..26], [1, 0, 0, 0, 0, 0, 0, 4, 0, 0, 1]);
    assert_eq!(good(receive_lid4(&a, 6, 0x1234_5678)).len(), 36);
    fails(receive_lid4(&a, 5, 0x1234_5679), INVALID_IN_CDB);
    // IMMED (byte 15) is among them: a copy that goes on after its status is not offered.
    for (at, value) in [(0, 0), (3, 0x21), (15, 0x01), (16, 0xE4)] {
        let mut wrong = list.clone();
        wrong[at] = value;
        fails(a.run(&copy_cdb(1, wrong.len()), &wrong), INVALID_IN_LIST);
    }
    fails(a.run(&copy_cdb(1, 47), &list[..47]), LIST_LENGTH);
}

#[test]
fn a_copy_is_aborted_and_its_list_identifier_is_its_nexus_s_own() {
    let (device, a) = two_units();
    let b = Arc::new(device.login(2, 1));
    let abort = |list_id: u32| {
        let mut cdb = copy_cdb(0x1C, 0);
        cdb[2..6].copy_from_slice(&list_id.to_be_bytes());
        cdb
    };
    fails(a.run(&abort(5), &[]), INVALID_IN_CDB);
    let units = [cscd(&naa(1), 512), cscd(&naa(2), 512)];
    let list = lid1(5, 0, &units, &[segment((0, 0), (1, 0), 3000)]);
    let same_nexus = Arc::new(Initiator {
        device: Arc::clone(&device),
        itls: a.itls.clone(),
        hidden: Vec::new(),
    });
    let (stranger, again) = (Arc::clone(&b), list.clone());
    *device.before_step.lock().unwrap() = Some(Box::new(move |_, step| {
        if matches!(step, Step::On { step, .. } if matches!(**step, Step::Write { .. })) {
            assert_eq!(good(receive(&same_nexus, 0, 5))[4], 0, "in progress");
            fails(copy(&same_nexus, &again), (5, 0x00, 0x16));
            fails(receive(&stranger, 0, 5), INVALID_IN_CDB);
            fails(stranger.run(&abort(5), &[]), INVALID_IN_CDB);
            good(same_nexus.run(&abort(5), &[]));
        }
    }));
    let response = copy(&a, &list);
    assert_eq!(response.status, Status::CheckCondition);
    assert_eq!(sense(&response), Some((0xA, 0, 0)));
    assert_eq!(good(receive_lid4(&a, 5, 5))[5], 0x60);
    let nexus = a.itls[0].nexus().clone();
    device.units[0].detach(nexus.id);
    let a = Initiator {
        itls: vec![device.units[0].attach(nexus)],
        device,
        hidden: Vec::new(),
    };
    assert!(a.attention().is_some());
    fails(receive(&a, 0, 5), INVALID_IN_CDB);
}

#[test]
fn operating_parameters_and_the_vpd_page_agree() {
    let (_device, a) = two_units();
    let parameters = good(receive(&a, 3, 0));
    assert_eq!(
        parameters[..20],
        [
            0, 0, 0, 43, 1, 0, 0, 0, 0, 16, 1, 0, 0, 0, 0x22, 0, 0x10, 0, 0, 0
        ]
    );
    assert_eq!(
        parameters[34..],
        [0, 64, 64, 9, 0, 0, 0, 0, 0, 3, 0x02, 0x0A, 0xE4]
    );
    let page = good(a.run(&[0x12, 1, 0x8F, 4, 0, 0], &[]));
    let mut rest = &page[4..];
    let mut kinds = Vec::new();
    while !rest.is_empty() {
        let kind = u16::from_be_bytes([rest[0], rest[1]]);
        let len = usize::from(u16::from_be_bytes([rest[2], rest[3]]));
        assert!(len.is_multiple_of(4));
        if kind == 1 {
            assert_eq!(
                rest[4..18],
                [13, 0x83, 3, 0, 1, 0x1C, 0x84, 6, 0, 1, 3, 4, 5, 6],
                "no token commands without tokens"
            );
        }
        kinds.push(kind);
        rest = &rest[4 + len..];
    }
    assert_eq!(kinds, [1, 4, 8, 0xC, 0x8001]);
}
