//! Tests of POPULATE TOKEN, WRITE USING TOKEN, and RECEIVE ROD TOKEN INFORMATION.

use std::sync::Arc;

use scsi::{BlockRange, Response, Step};

use crate::harness::*;

const REVOKED: (u8, u8, u8) = (5, 0x23, 0x06);
const UNKNOWN: (u8, u8, u8) = (5, 0x23, 0x04);
const CORRUPT: (u8, u8, u8) = (5, 0x23, 0x05);

pub(crate) fn cdb(action: u8, list_id: u32, len: usize) -> [u8; 16] {
    let mut cdb = [0; 16];
    cdb[..2].copy_from_slice(&[0x83, action]);
    cdb[6..10].copy_from_slice(&list_id.to_be_bytes());
    cdb[10..14].copy_from_slice(&(len as u32).to_be_bytes());
    cdb
}

fn ranges(ranges: &[(u64, u32)]) -> Vec<u8> {
    let mut bytes = ((ranges.len() * 16) as u16).to_be_bytes().to_vec();
    for (lba, blocks) in ranges {
        bytes.extend_from_slice(&lba.to_be_bytes());
        bytes.extend_from_slice(&blocks.to_be_bytes());
        bytes.extend_from_slice(&[0; 4]);
    }
    bytes
}

fn with_data_length(mut list: Vec<u8>) -> Vec<u8> {
    let len = (list.len() - 2) as u16;
    list[..2].copy_from_slice(&len.to_be_bytes());
    list
}

pub(crate) fn populate_list(from: &[(u64, u32)]) -> Vec<u8> {
    with_data_length([vec![0; 14], ranges(from)].concat())
}

pub(crate) fn write_list(token: &[u8], offset: u64, to: &[(u64, u32)]) -> Vec<u8> {
    let header = [&[0; 8][..], &offset.to_be_bytes(), token, &[0; 6]].concat();
    with_data_length([header, ranges(to)].concat())
}

fn populate(who: &Initiator, list_id: u32, list: &[u8]) -> Response {
    who.run(&cdb(0x10, list_id, list.len()), list)
}

fn write_using(who: &Initiator, lun: usize, list_id: u32, list: &[u8]) -> Response {
    who.to(lun, &cdb(0x11, list_id, list.len()), list)
}

fn information(who: &Initiator, lun: usize, list_id: u32) -> Response {
    let mut cdb = [0; 16];
    cdb[..2].copy_from_slice(&[0x84, 0x07]);
    cdb[2..6].copy_from_slice(&list_id.to_be_bytes());
    cdb[12] = 4;
    who.to(lun, &cdb, &[])
}

pub(crate) fn token_of(who: &Initiator, list_id: u32, from: &[(u64, u32)]) -> Vec<u8> {
    good(populate(who, list_id, &populate_list(from)));
    let data = good(information(who, 0, list_id));
    assert_eq!(data.len(), 32 + 4 + 514);
    assert_eq!(data[4..6], [0x10, 0x01]);
    assert_eq!(data[32..36], [0, 0, 2, 2]);
    data[38..].to_vec()
}

fn range(start: u64, count: u64) -> BlockRange {
    BlockRange::new(start, count).unwrap()
}

fn pattern(blocks: u64) -> Vec<u8> {
    (0..blocks * 512)
        .map(|at| (at / 512 + at % 251 + 1) as u8)
        .collect()
}

fn two_units() -> (Arc<Device>, Initiator) {
    let device = Device::new(&[config(1), config(2)]);
    for unit in &device.units {
        unit.enable_tokens([7; 16]);
    }
    device.write(&device.units[0], range(0, 3000), &pattern(3000));
    let a = device.login(1, 1);
    (device, a)
}

#[test]
fn blocks_travel_by_token_from_one_host_to_another() {
    let (device, a) = two_units();
    let b = device.login(2, 2);
    let token = token_of(&a, 1, &[(100, 8), (0, 4), (500, 2000)]);
    assert_eq!(token[..8], [0, 0x80, 0, 1, 0, 0, 1, 0xF8]);
    good(write_using(
        &b,
        1,
        2,
        &write_list(&token, 6, &[(10, 1), (3000, 1000)]),
    ));
    let expected = [
        device.read(&device.units[0], range(106, 2)),
        device.read(&device.units[0], range(0, 4)),
        device.read(&device.units[0], range(500, 995)),
    ]
    .concat();
    assert_eq!(device.read(&device.units[1], range(10, 1)), expected[..512]);
    assert_eq!(
        device.read(&device.units[1], range(3000, 1000)),
        expected[512..]
    );
    let data = good(information(&b, 1, 2));
    assert_eq!(data[4..6], [0x11, 0x01]);
    assert_eq!(data[15..24], [0xF1, 0, 0, 0, 0, 0, 0, 0x03, 0xE9]);
    assert_eq!(data[32..], [0; 4], "no token came of it");
}

#[test]
fn ranges_beyond_the_token_are_left_and_said_so() {
    let (device, a) = two_units();
    let token = token_of(&a, 1, &[(0, 16)]);
    good(write_using(&a, 1, 2, &write_list(&token, 4, &[(0, 100)])));
    let data = good(information(&a, 1, 2));
    assert_eq!(data[5], 0x03);
    assert_eq!(data[23], 12);
    assert_eq!(device.read(&device.units[1], range(12, 88)), [0; 88 * 512]);
    fails(
        write_using(&a, 1, 2, &write_list(&token, 16, &[(0, 1)])),
        INVALID_IN_LIST,
    );
    assert_eq!(good(information(&a, 1, 2))[5], 0x02);
}

#[test]
fn a_write_to_its_blocks_revokes_a_token_and_no_other_does() {
    let (device, a) = two_units();
    let b = device.login(2, 1);
    let token = token_of(&a, 1, &[(0, 16), (100, 16)]);
    let list = write_list(&token, 0, &[(0, 32)]);
    good(b.run(&[0x2A, 0, 0, 0, 0, 16, 0, 0, 1, 0], &[9; 512]));
    good(write_using(&a, 1, 2, &list));
    good(b.run(&[0x2A, 0, 0, 0, 0, 115, 0, 0, 1, 0], &[9; 512]));
    fails(write_using(&a, 1, 2, &list), REVOKED);
}

#[test]
fn what_lies_behind_a_new_end_is_not_what_its_tokens_stood_for() {
    let (device, a) = two_units();
    let unit = &device.units[0];
    let whole = unit.blocks();
    let list = |lbas: &[(u64, u32)], id| write_list(&token_of(&a, id, lbas), 0, &[(0, 8)]);
    let (within, across) = (list(&[(92, 8)], 1), list(&[(0, 4), (93, 8)], 2));
    let behind = list(&[(whole - 8, 8)], 3);
    unit.resize(100);
    unit.resize(whole);
    let told = a.to(0, &[0; 6], &[]);
    assert_eq!(
        sense(&told),
        Some((6, 0x2a, 0x09)),
        "CAPACITY DATA HAS CHANGED"
    );
    good(write_using(&a, 1, 4, &within));
    fails(write_using(&a, 1, 5, &across), REVOKED);
    fails(write_using(&a, 1, 6, &behind), REVOKED);
    let list = list(&[(whole - 8, 8)], 7);
    unit.resize(whole + 8);
    a.to(0, &[0; 6], &[]);
    good(write_using(&a, 1, 8, &list));
}

#[test]
fn a_device_that_may_have_lost_writes_leaves_no_token() {
    let (device, a) = two_units();
    let list = write_list(&token_of(&a, 1, &[(0, 8)]), 0, &[(0, 8)]);
    let other = write_list(&token_of(&a, 2, &[(8, 8)]), 0, &[(0, 8)]);
    device.units[0].note_loss();
    fails(write_using(&a, 1, 3, &list), REVOKED);
    fails(write_using(&a, 1, 4, &other), REVOKED);
    let again = write_list(&token_of(&a, 5, &[(0, 8)]), 0, &[(0, 8)]);
    good(write_using(&a, 1, 6, &again));
}

#[test]
fn a_token_is_made_at_once_and_a_copy_in_the_background_is_refused() {
    let (device, a) = two_units();
    let mut immediate = populate_list(&[(0, 16)]);
    immediate[2] = 0x01;
    good(populate(&a, 1, &immediate));
    let made = good(information(&a, 0, 1));
    assert_eq!(
        made[4..6],
        [0x10, 0x01],
        "it is ready when its status comes"
    );
    let mut list = write_list(&made[38..], 0, &[(0, 16)]);
    list[2] = 0x01;
    fails(write_using(&a, 1, 2, &list), INVALID_IN_LIST);
    assert_eq!(device.read(&device.units[1], range(0, 16)), [0; 16 * 512]);
    list[2] = 0;
    good(write_using(&a, 1, 2, &list));
    assert_eq!(device.read(&device.units[1], range(0, 16)), pattern(16));
}

#[test]
fn the_maker_of_a_token_that_leaves_the_view_is_not_read_any_more() {
    let (device, a) = two_units();
    let token = token_of(&a, 1, &[(0, 3000)]);
    let list = write_list(&token, 0, &[(0, 3000)]);
    let left = a.itls[0].nexus().clone();
    let seen = left.id;
    *device.before_step.lock().unwrap() = Some(Box::new(move |device, step| {
        if matches!(step, Step::On { step, .. } if matches!(**step, Step::Read { .. })) {
            device.units[0].detach(seen);
        }
    }));
    fails(write_using(&a, 1, 2, &list), (0xA, 0x0D, 0x02));
    *device.before_step.lock().unwrap() = None;
    assert_eq!(
        device.read(&device.units[1], range(0, 3000)),
        vec![0; 3000 * 512]
    );
    // If the unit is gone from the beginning, no unit here made the token.
    fails(write_using(&a, 1, 3, &list), UNKNOWN);
    // A unit that comes back is another nexus, and the token is still valid.
    let again = Initiator {
        itls: vec![device.units[0].attach(left), Arc::clone(&a.itls[1])],
        device: Arc::clone(&device),
        hidden: Vec::new(),
    };
    good(write_using(&again, 1, 4, &list));
    assert_eq!(device.read(&device.units[1], range(0, 3000)), pattern(3000));
}

#[test]
fn a_write_in_the_midst_of_the_copy_stops_it_before_mixed_data_is_written() {
    let (device, a) = two_units();
    let token = token_of(&a, 1, &[(0, 3000)]);
    let unit = Arc::clone(&device.units[0]);
    *device.before_step.lock().unwrap() = Some(Box::new(move |device, step| {
        let reads_second_chunk = matches!(step, Step::On { step, .. }
            if matches!(**step, Step::Read { range } if range.start.0 == 2048));
        if reads_second_chunk {
            unit.note_write(range(2500, 1));
            device.write(&unit, range(2500, 1), &[0xEE; 512]);
        }
    }));
    fails(
        write_using(&a, 1, 2, &write_list(&token, 0, &[(0, 3000)])),
        REVOKED,
    );
    assert_eq!(
        device.read(&device.units[1], range(2048, 952)),
        vec![0; 952 * 512]
    );
    let data = good(information(&a, 1, 2));
    assert_eq!((data[5], data[12], data[23]), (0x02, 0x02, 0));
    assert_eq!(data[22], 8, "2048 blocks were copied");
}

#[test]
fn the_zero_token_zeroes() {
    let (device, a) = two_units();
    let mut zero = vec![0; 512];
    zero[..8].copy_from_slice(&[0xFF, 0xFF, 0, 1, 0, 0, 1, 0xF8]);
    good(write_using(
        &a,
        0,
        2,
        &write_list(&zero, 0, &[(5, 10), (50, 1)]),
    ));
    assert_eq!(device.read(&device.units[0], range(5, 10)), [0; 5120]);
    assert_eq!(device.read(&device.units[0], range(50, 1)), [0; 512]);
    let expected = pattern(3000);
    assert_eq!(
        device.read(&device.units[0], range(15, 35)),
        expected[15 * 512..50 * 512]
    );
}

#[test]
fn tokens_that_are_none_are_refused() {
    let (device, a) = two_units();
    let token = token_of(&a, 1, &[(0, 16)]);
    let with = |at: usize, value: u8| {
        let mut token = token.clone();
        token[at] = value;
        write_list(&token, 0, &[(0, 16)])
    };
    for (at, value, sense) in [
        (3, 9, (5, 0x23, 0x01)),
        (7, 0, (5, 0x23, 0x0A)),
        (15, 2, UNKNOWN),
        (15, 0, UNKNOWN),
        (16, 0, CORRUPT),
        (39, 9, UNKNOWN),
        (63, 1, CORRUPT),
        (256, 8, UNKNOWN),
        (511, 1, CORRUPT),
    ] {
        fails(write_using(&a, 1, 2, &with(at, value)), sense);
    }
    // Tokens of a unit outside the view are worthless, whichever initiator made them.
    let mut b = device.login(2, 1);
    b.hidden.push(0);
    fails(
        write_using(&b, 1, 2, &write_list(&token, 0, &[(0, 16)])),
        UNKNOWN,
    );
    // A restart brings another epoch.
    device.units[0].enable_tokens([8; 16]);
    fails(
        write_using(&a, 1, 2, &write_list(&token, 0, &[(0, 16)])),
        UNKNOWN,
    );
}

#[test]
fn the_oldest_token_goes_and_a_used_one_may_be_deleted() {
    let (_device, a) = two_units();
    let first = token_of(&a, 1, &[(0, 16)]);
    for list_id in 2..=256 {
        token_of(&a, list_id, &[(0, 16)]);
    }
    good(write_using(&a, 1, 0, &write_list(&first, 0, &[(0, 16)])));
    let last = token_of(&a, 257, &[(0, 16)]);
    fails(
        write_using(&a, 1, 0, &write_list(&first, 0, &[(0, 16)])),
        REVOKED,
    );
    let mut delete = write_list(&last, 0, &[(0, 16)]);
    delete[2] = 0x02;
    good(write_using(&a, 1, 0, &delete));
    fails(write_using(&a, 1, 0, &delete), REVOKED);
}

#[test]
fn wrong_parameter_lists_are_refused() {
    let (_device, a) = two_units();
    good(a.run(&cdb(0x10, 1, 0), &[]));
    good(a.run(&cdb(0x11, 1, 0), &[]));
    let list = populate_list(&[(0, 8)]);
    for len in [1, 15, 2 + 65_536] {
        fails(a.run(&cdb(0x10, 1, len), &vec![0; len]), LIST_LENGTH);
    }
    fails(a.run(&cdb(0x10, 1, list.len()), &list[..31]), MISMATCH);
    let changed = |at: usize, value: u8| {
        let mut list = list.clone();
        list[at] = value;
        populate(&a, 1, &list)
    };
    fails(changed(1, 0xFF), LIST_LENGTH);
    fails(changed(1, 0x10), INVALID_IN_LIST);
    fails(changed(15, 15), INVALID_IN_LIST);
    fails(changed(15, 32), INVALID_IN_LIST);
    fails(changed(4, 1), INVALID_IN_LIST);
    let mut typed = list.clone();
    typed[2] = 0x02;
    fails(populate(&a, 1, &typed), INVALID_IN_LIST);
    typed[8..12].copy_from_slice(&[0, 0x80, 0, 1]);
    good(populate(&a, 1, &typed));
    for (ranges, sense) in [
        (vec![(0, 8), (7, 1)], INVALID_IN_LIST),
        (vec![(0, 0)], INVALID_IN_LIST),
        (vec![(BLOCKS, 1)], (5, 0x21, 0)),
        (vec![(u64::MAX, 2)], (5, 0x21, 0)),
    ] {
        fails(populate(&a, 1, &populate_list(&ranges)), sense);
    }
    fails(information(&a, 0, 99), INVALID_IN_CDB);
}

#[test]
fn more_ranges_than_are_offered_are_too_many() {
    let (_device, a) = two_units();
    let ranges = |count: u64| (0..count).map(|at| (at * 2, 1)).collect::<Vec<_>>();
    let token = token_of(&a, 1, &ranges(64));
    good(write_using(&a, 1, 2, &write_list(&token, 0, &ranges(64))));
    let too_many = (5, 0x26, 0x08);
    for count in [65, 1000] {
        fails(populate(&a, 1, &populate_list(&ranges(count))), too_many);
        let list = write_list(&token, 0, &ranges(count));
        fails(write_using(&a, 1, 2, &list), too_many);
    }
}

#[test]
fn without_an_epoch_there_are_no_tokens() {
    let device = Device::new(&[config(1)]);
    let a = device.login(1, 1);
    fails(populate(&a, 1, &populate_list(&[(0, 8)])), INVALID_IN_CDB);
    fails(information(&a, 0, 1), INVALID_IN_CDB);
    device.units[0].enable_tokens([1; 16]);
    good(populate(&a, 1, &populate_list(&[(0, 8)])));
    let page = good(a.run(&[0x12, 1, 0x8F, 4, 0, 0], &[]));
    assert_eq!(page[4..8], [0, 0, 0, 32]);
    assert_eq!(page[14..16], [0, 64]);
    let most = (256_u64 << 20) / 512;
    assert_eq!(page[24..32], most.to_be_bytes());
}
