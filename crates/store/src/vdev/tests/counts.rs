//! Tests of the counts of devices' work: by leaf the requests to it, by top-level vdev the blocks
//! asked of it.

use super::rig::{Rig, block, content, tree};
use crate::format::Address;
use crate::vdev::*;

fn io(rig: &Rig, leaf: u32) -> LeafIo {
    rig.status(leaf).io
}

/// Returns the sums of both times over leaves, disk and total.
fn times(all: &[Transfers]) -> (u64, u64) {
    let sum = |of: fn(&Transfers) -> u64| all.iter().map(of).sum();
    (sum(|of| of.disk_us), sum(|of| of.total_us))
}

#[test]
fn a_mirror_writes_to_each_leaf_and_reads_from_one() {
    let mut rig = Rig::new(TopLevelKind::Mirror, 2);
    let data = content(1, 3);
    rig.write(Address::new(0, 5), &data).expect("written");
    for leaf in [0, 1] {
        let LeafIo { read, write } = io(&rig, leaf);
        assert_eq!(read, Transfers::default());
        assert_eq!((write.requests, write.bytes), (1, 12_288), "leaf {leaf}");
    }
    // Both were asked at once. One answered after 10 µs, the other after 20.
    assert_eq!(times(&[io(&rig, 0).write, io(&rig, 1).write]), (30, 30));
    rig.read(&block(5, &data, 1)).expect("read");
    let reads = [io(&rig, 0).read, io(&rig, 1).read];
    let requests: u64 = reads.iter().map(|read| read.requests).sum();
    let bytes: u64 = reads.iter().map(|read| read.bytes).sum();
    assert_eq!((requests, bytes, times(&reads)), (1, 12_288, (10, 10)));
    let once = Blocks {
        operations: 1,
        bytes: 12_288,
    };
    let expected = BlockIo {
        read: once,
        write: once,
    };
    assert_eq!(rig.top().io, expected);
    rig.scrub(&block(5, &data, 1)).expect("scrubbed");
    let requests = [0, 1].map(|leaf| io(&rig, leaf).read.requests);
    assert_eq!(requests.iter().sum::<u64>(), 3, "{requests:?}");
    assert_eq!(rig.top().io.read.operations, 2);
}

#[test]
fn parity_counts_for_leaves_and_not_for_the_vdev() {
    let mut rig = Rig::new(TopLevelKind::Raidz { parity: 1 }, 3);
    rig.write(Address::new(0, 0), &content(1, 4))
        .expect("written");
    let bytes: u64 = (0..3).map(|leaf| io(&rig, leaf).write.bytes).sum();
    assert_eq!(bytes, 6 * 4096);
    let Blocks { operations, bytes } = rig.top().io.write;
    assert_eq!((operations, bytes), (1, 4 * 4096));
}

#[test]
fn what_waits_in_a_queue_is_told_from_what_the_device_takes() {
    let limits = Limits {
        async_writes: 1,
        ..Limits::default()
    };
    let mut rig = Rig::of(&tree(TopLevelKind::Leaf, 1), 1, limits);
    // The first goes at once. The last two lie together and go as one.
    for sector in [1000, 8, 9] {
        rig.start_write(Address::new(0, sector), &content(sector, 1));
    }
    rig.run();
    let LeafIo { write, .. } = io(&rig, 0);
    let expected = Transfers {
        requests: 2,
        bytes: 3 * 4096,
        disk_us: 10 + 10,
        total_us: 10 + 20,
    };
    assert_eq!(write, expected);
    assert_eq!(rig.top().io.write.operations, 3);
}

#[test]
fn what_fails_or_moves_no_bytes_is_not_counted() {
    let mut rig = Rig::new(TopLevelKind::Leaf, 1);
    let data = content(1, 1);
    rig.write(Address::new(0, 5), &data).expect("written");
    let before = (io(&rig, 0), rig.top().io);
    rig.flush().expect("flushed");
    rig.ask(|array, tag, now_us, out| array.trim(tag, (Address::new(0, 64), 8), None, now_us, out));
    rig.run();
    rig.disks[0]
        .unreadable
        .insert(layout::sector_offset(5) / 4096);
    rig.read(&block(5, &data, 1)).expect_err("unreadable");
    rig.disks[0].mute = true;
    let tag = rig.start_read(&block(5, &data, 1));
    rig.pass(40_000_000);
    rig.was_read(tag).expect_err("given up");
    // An answer after its request was given up counts no more.
    rig.disks[0].mute = false;
    rig.disks[0].unreadable.clear();
    rig.run();
    assert!(rig.pending.is_empty());
    assert_eq!((io(&rig, 0), rig.top().io), before);
}

#[test]
fn a_read_beside_the_array_counts_its_bytes_for_the_leaf_and_its_blocks_for_the_vdev() {
    let rig = Rig::new(TopLevelKind::Mirror, 2);
    let (_, counts) = rig.array.whole_copies()[0][1].clone();
    let mut blocks = Blocks::default();
    blocks.count(4096);
    blocks.count(8192);
    counts.begin(3);
    counts.begin(4);
    assert_eq!(counts.under_way(), 2);
    // Lanes with these numbers share a part, and others have their own.
    for lane in [11, 19, 7] {
        counts.begin(lane);
    }
    assert_eq!(counts.under_way(), 5);
    for lane in [11, 19, 7] {
        counts.end(lane, Blocks::default(), 0, 0);
    }
    // A gap of one sector lies between the blocks.
    counts.end(3, blocks, 16_384, 70);
    counts.end(4, Blocks::default(), 4096, 5);
    assert_eq!(counts.under_way(), 0);
    let read = io(&rig, 1).read;
    assert_eq!((read.requests, read.bytes, read.disk_us), (1, 16_384, 70));
    assert_eq!(io(&rig, 0).read, Transfers::default());
    assert_eq!(rig.top().io.read, blocks);
}
