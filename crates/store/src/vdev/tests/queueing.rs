//! Tests of the order and the bounds of a leaf's requests, and of writes to one place.

use std::sync::Arc;

use pages::Pages;

use super::rig::{Rig, block, content, tree};
use crate::format::Address;
use crate::vdev::*;

const SECTOR: u64 = 4096;

fn writes(rig: &Rig) -> Vec<(u64, usize)> {
    let write = |request: &DeviceRequest| match &request.op {
        DeviceOp::Write { offset, data, .. } => Some((*offset, data.len())),
        _ => None,
    };
    rig.pending.iter().filter_map(write).collect()
}

fn start(rig: &mut Rig, sector: u64, sectors: usize, priority: Priority) -> u64 {
    let blocks = vec![(Address::new(0, sector), content(sector, sectors))];
    rig.ask(|array, tag, now_us, out| array.write(tag, blocks, priority, now_us, out))
}

#[test]
fn neighbours_of_one_write_become_one_request_up_to_the_bound() {
    let mut rig = Rig::new(TopLevelKind::Mirror, 2);
    let data = content(0, 1);
    let blocks = (0..300)
        .map(|sector| (Address::new(0, sector), data.clone()))
        .collect();
    let tag = rig.ask(|array, tag, now_us, out| {
        array.write(tag, blocks, Priority::SyncWrite, now_us, out);
    });
    let start = layout::sector_offset(0);
    let expected = [(start, 1 << 20), (start + (1 << 20), 44 * 4096)];
    assert_eq!(
        writes(&rig),
        [expected[0], expected[0], expected[1], expected[1]]
    );
    rig.run();
    rig.written(tag).expect("written");
}

#[test]
fn blocks_of_a_raidz_leave_no_gaps_between_requests() {
    // 3 sectors of data and 2 of parity are padded to 6, and the padding is written with them.
    let mut rig = Rig::new(TopLevelKind::Raidz { parity: 1 }, 3);
    assert_eq!(rig.array.footprint(0, 3), 6);
    let blocks = (0..20)
        .map(|number| (Address::new(0, number * 6), content(number, 3)))
        .collect();
    let tag = rig.ask(|array, tag, now_us, out| {
        array.write(tag, blocks, Priority::AsyncWrite, now_us, out);
    });
    assert_eq!(writes(&rig).len(), 3);
    rig.run();
    rig.written(tag).expect("written");
    for number in 0..20 {
        let data = content(number, 3);
        assert_eq!(
            rig.read(&block(number * 6, &data, 1))
                .expect("read")
                .to_vec(),
            data.to_vec()
        );
    }
}

#[test]
fn writes_that_wait_are_merged_in_the_order_of_their_places() {
    let limits = Limits {
        async_writes: 1,
        ..Limits::default()
    };
    let mut rig = Rig::of(&tree(TopLevelKind::Leaf, 1), 1, limits);
    let mut tags = vec![start(&mut rig, 1000, 1, Priority::AsyncWrite)];
    for sector in [1010, 1012, 8, 1011, 1001, 1013] {
        tags.push(start(&mut rig, sector, 1, Priority::AsyncWrite));
    }
    let mut order = Vec::new();
    while !rig.pending.is_empty() {
        assert_eq!(rig.pending.len(), 1);
        order.extend(writes(&rig));
        rig.step();
    }
    let at = |sector, sectors: usize| (layout::sector_offset(sector), sectors * 4096);
    assert_eq!(order, [at(1000, 1), at(1001, 1), at(1010, 4), at(8, 1)]);
    tags.into_iter()
        .for_each(|tag| rig.written(tag).expect("written"));
}

#[test]
fn beside_reads_that_other_threads_make_fewer_writes_are_in_flight() {
    let limits = Limits::default();
    let mut rig = Rig::of(&tree(TopLevelKind::Leaf, 1), 1, limits);
    let counts = Arc::clone(&rig.array.whole_copies()[0][0].1);
    counts.begin(0);
    for number in 0..300 {
        start(&mut rig, number * 20, 1, Priority::AsyncWrite);
    }
    assert_eq!(writes(&rig).len(), limits.async_writes_beside_reads);
    counts.end(0, Blocks::default(), 0, 0);
    rig.run();
}

#[test]
fn beside_reads_fewer_writes_are_in_flight() {
    let limits = Limits::default();
    let mut rig = Rig::of(&tree(TopLevelKind::Leaf, 1), 1, limits);
    let data = content(5000, 1);
    rig.write(Address::new(0, 5000), &data).expect("written");
    let bytes = |rig: &Rig| writes(rig).iter().map(|write| write.1 as u64).sum::<u64>();
    let most = limits.async_writes_beside_reads;
    for number in 0..300 {
        start(&mut rig, number * 20, 16, Priority::AsyncWrite);
    }
    assert_eq!(writes(&rig).len(), limits.async_writes);
    let mut read_at = None;
    for step in 0..200 {
        // Reads go at once, however many writes wait.
        let before = rig.pending.len();
        let tag = rig.start_read(&block(5000, &data, 1));
        assert_eq!(rig.pending.len(), before + 1);
        while !rig.done.contains_key(&tag) {
            rig.step();
        }
        rig.was_read(tag).expect("read");
        let (bytes, count) = (bytes(&rig), writes(&rig).len());
        if bytes <= limits.async_write_bytes_beside_reads && count <= most {
            read_at = read_at.or(Some(step));
        }
        let room = limits.async_write_bytes_beside_reads + 16 * SECTOR;
        assert!(read_at.is_none() || bytes < room && count <= most);
    }
    assert!(read_at.is_some());
    rig.run();
}

#[test]
fn background_work_leaves_room_for_others() {
    let limits = Limits::default();
    let mut rig = Rig::of(&tree(TopLevelKind::Mirror, 2), 1, limits);
    let data = content(0, 1);
    rig.write(Address::new(0, 0), &data).expect("written");
    rig.now_us += limits.reads_linger_us;
    let scrubs = |rig: &mut Rig| {
        for _ in 0..100 {
            let block = block(0, &data, 1);
            rig.ask(|array, tag, now_us, out| array.scrub_block(tag, block, now_us, out));
        }
    };
    scrubs(&mut rig);
    assert_eq!(rig.pending.len(), 2 * limits.background);
    rig.run();
    rig.done.clear();
    let tag = start(&mut rig, 100, 1, Priority::SyncWrite);
    scrubs(&mut rig);
    assert_eq!(rig.pending.len(), 2 + 2 * limits.background_beside_others);
    rig.run();
    rig.written(tag).expect("written");
}

fn reads(rig: &Rig) -> Vec<(u64, usize)> {
    let read = |request: &DeviceRequest| match request.op {
        DeviceOp::Read { offset, len } => Some((offset, len as usize)),
        _ => None,
    };
    rig.pending.iter().filter_map(read).collect()
}

/// Scrubs blocks of one sector that were written. Returns their tags.
fn scrub_all(rig: &mut Rig, sectors: std::ops::Range<u64>) -> Vec<u64> {
    let mut tags = Vec::new();
    rig.with(|array, out| {
        for sector in sectors {
            let tag = 1_000_000 + sector;
            let block = block(sector, &content(sector, 1), 1);
            array.scrub_block(tag, block, 0, out);
            tags.push(tag);
        }
    });
    tags
}

fn scrubbed(rig: &mut Rig, tag: u64) -> Scrubbed {
    match rig.done.remove(&tag) {
        Some(ArrayDone::Scrubbed(result)) => result.expect("there is a right copy"),
        other => panic!("{other:?}"),
    }
}

fn mirror_with(sectors: u64) -> Rig {
    let mut rig = Rig::new(TopLevelKind::Mirror, 2);
    let blocks = (0..sectors)
        .map(|sector| (Address::new(0, sector), content(sector, 1)))
        .collect();
    let tag = rig.ask(|array, tag, now_us, out| {
        array.write(tag, blocks, Priority::AsyncWrite, now_us, out);
    });
    rig.run();
    rig.written(tag).expect("written");
    rig
}

#[test]
fn reads_in_the_background_that_follow_one_another_are_one_request_up_to_the_bound() {
    let mut rig = mirror_with(100);
    let limits = Limits::default();
    let most = limits.max_background_read as usize;
    let tags = scrub_all(&mut rig, 0..100);
    let start = layout::sector_offset(0);
    let rest = 100 * 4096 - most;
    let expected = [(start, most), (start + most as u64, rest)];
    assert_eq!(
        reads(&rig),
        [expected[0], expected[1], expected[0], expected[1]]
    );
    rig.run();
    for tag in tags {
        assert_eq!(scrubbed(&mut rig, tag), Scrubbed::default());
    }
    // Beside other requests, the reads are smaller.
    start_write(&mut rig);
    scrub_all(&mut rig, 0..100);
    let largest = reads(&rig).into_iter().map(|(_, len)| len).max();
    let bound = limits.max_background_read_beside_others as usize;
    assert_eq!(largest, Some(bound));
    rig.run();
}

fn start_write(rig: &mut Rig) {
    start(rig, 5000, 1, Priority::SyncWrite);
}

#[test]
fn a_bad_sector_among_joined_reads_costs_only_its_own_block() {
    let mut rig = mirror_with(20);
    let bad = layout::sector_offset(7) / SECTOR;
    rig.disks[1].unreadable.insert(bad);
    for (tag, sector) in scrub_all(&mut rig, 0..20).into_iter().zip(0..) {
        rig.run();
        let is_bad = u32::from(sector == 7);
        let expected = Scrubbed {
            bad: is_bad,
            repaired: is_bad,
        };
        assert_eq!(scrubbed(&mut rig, tag), expected, "sector {sector}");
    }
    assert_eq!((rig.errors(0).read, rig.errors(1).read), (0, 1));
}

#[test]
fn repairs_that_were_joined_are_told_each_with_its_own_range() {
    let mut rig = mirror_with(20);
    rig.disks[0].rot(|| true);
    let writes_before = rig.disks[0].writes;
    scrub_all(&mut rig, 0..20);
    rig.run();
    assert!(rig.disks[0].writes - writes_before < 20, "none was joined");
    let mut repaired: Vec<(u64, u64)> = rig
        .events
        .iter()
        .filter_map(|event| match event {
            VdevEvent::Repaired { offset, len, .. } => Some((*offset, *len)),
            _ => None,
        })
        .collect();
    repaired.sort_unstable();
    let each = |sector| (layout::sector_offset(sector), SECTOR);
    assert_eq!(repaired, (0..20).map(each).collect::<Vec<_>>());
}

#[test]
fn writes_of_the_same_place_are_done_in_the_order_they_were_asked() {
    for seed in 0..50 {
        let mut rig = Rig::of(&tree(TopLevelKind::Mirror, 2), seed, Limits::default());
        let priorities = [
            Priority::AsyncWrite,
            Priority::SyncWrite,
            Priority::Background,
        ];
        for number in 0..9_u64 {
            let data = content(100 + number, 4);
            let blocks = vec![(Address::new(0, 10 + number % 3), data)];
            let priority = priorities[number as usize % 3];
            rig.ask(|array, tag, now_us, out| array.write(tag, blocks, priority, now_us, out));
        }
        rig.run();
        assert_eq!(rig.done.len(), 9);
        let last = content(108, 4);
        let read = rig.read(&block(12, &last, 1)).expect("the last one");
        assert_eq!(read.to_vec(), last.to_vec());
        assert_eq!(rig.errors(0), ErrorCounts::default());
    }
}

#[test]
fn a_trim_is_over_before_its_place_is_written() {
    for seed in 0..20 {
        let mut rig = Rig::of(
            &tree(TopLevelKind::Raidz { parity: 1 }, 3),
            seed,
            Limits::default(),
        );
        let data = content(1, 4);
        rig.write(Address::new(0, 0), &data).expect("written");
        rig.ask(|array, tag, now_us, out| {
            array.trim(tag, (Address::new(0, 0), 60), None, now_us, out);
        });
        let tag = rig.start_write(Address::new(0, 6), &data);
        rig.run();
        rig.written(tag).expect("written");
        assert_eq!(
            rig.read(&block(6, &data, 1)).expect("read").to_vec(),
            data.to_vec()
        );
        assert_eq!(rig.errors(0), ErrorCounts::default());
        assert!(rig.disks.iter().all(|disk| disk.trims == 1));
        rig.read(&block(0, &data, 1)).expect_err("trimmed");
    }
}

#[test]
fn what_lies_outside_is_refused() {
    let mut rig = Rig::new(TopLevelKind::Raidz { parity: 1 }, 3);
    let sectors = rig.top().sectors;
    let data = content(0, 4);
    for address in [
        Address::new(0, sectors - 5),
        Address::new(1, 0),
        Address::new(0, Address::SECTORS - 1),
    ] {
        let block = Block {
            address,
            ..block(0, &data, 1)
        };
        assert_eq!(
            rig.read(&block).expect_err("outside").kind,
            ArrayErrorKind::OutOfRange
        );
        assert_eq!(
            rig.scrub(&block).expect_err("outside").kind,
            ArrayErrorKind::OutOfRange
        );
        let error = rig.rebuild(&block, LeafId(0)).expect_err("outside");
        assert_eq!(error.kind, ArrayErrorKind::OutOfRange);
        let error = rig.write(address, &data).expect_err("outside");
        assert_eq!(error.kind, ArrayErrorKind::OutOfRange);
    }
    rig.write(Address::new(0, sectors - 6), &data)
        .expect("the last sectors");
    let error = rig
        .write(Address::new(0, 0), &Pages::from_bytes(&[1; 100]))
        .expect_err("no sector");
    assert_eq!(error.kind, ArrayErrorKind::OutOfRange);
    let bad_leaf = rig.ask(|array, tag, now_us, out| {
        array.read_leaf(tag, LeafId(9), 0, 4096, now_us, out);
    });
    assert_eq!(
        rig.was_read(bad_leaf).expect_err("no leaf").kind,
        ArrayErrorKind::OutOfRange
    );
}
