//! Tests of UNMAP, WRITE SAME and GET LBA STATUS.

use proptest::prelude::*;
use scsi::BlockRange;

use crate::harness::*;

const UNMAP_256: [u8; 10] = [0x42, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0];

fn unmap_cdb(list_len: u16) -> Vec<u8> {
    let mut cdb = UNMAP_256.to_vec();
    cdb[7..9].copy_from_slice(&list_len.to_be_bytes());
    cdb
}

fn unmap_list(runs: &[(u64, u32)]) -> Vec<u8> {
    let descriptors = runs.len() as u16 * 16;
    let mut list = (descriptors + 6).to_be_bytes().to_vec();
    list.extend_from_slice(&descriptors.to_be_bytes());
    list.extend_from_slice(&[0; 4]);
    for (lba, count) in runs {
        list.extend_from_slice(&lba.to_be_bytes());
        list.extend_from_slice(&count.to_be_bytes());
        list.extend_from_slice(&[0; 4]);
    }
    list
}

fn fill(bench: &Harness) {
    let all = BlockRange::new(0, 2048).expect("small numbers");
    bench.disk().write(all, &vec![0xaa; 2048 * 512]);
}

#[test]
fn unmap_zeroes_every_run() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    fill(&bench);
    let list = unmap_list(&[(0, 8), (100, 0), (2040, 8), (2048, 0)]);
    assert_good(bench.run(&nexus, &unmap_cdb(list.len() as u16), &list));
    let mapped = bench.disk().mapped.borrow();
    assert!(!mapped[0] && mapped[8] && mapped[100] && !mapped[2047]);
    assert_eq!(bench.disk().bytes.borrow()[..8 * 512], [0; 8 * 512]);
}

#[test]
fn unmap_without_descriptors_does_nothing() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    assert_good(bench.run(&nexus, &unmap_cdb(0), &[]));
    assert_good(bench.run(&nexus, &unmap_cdb(8), &unmap_list(&[])));
}

#[test]
fn unmap_refuses_lies_and_unmaps_nothing_then() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    fill(&bench);
    let out_of_range = unmap_list(&[(0, 8), (2047, 2)]);
    assert_sense(
        &bench.run(&nexus, &unmap_cdb(40), &out_of_range),
        5,
        0x21,
        0x00,
    );
    let wraps = unmap_list(&[(u64::MAX, 2)]);
    assert_sense(&bench.run(&nexus, &unmap_cdb(24), &wraps), 5, 0x21, 0x00);
    assert_sense(&bench.run(&nexus, &unmap_cdb(7), &[0; 7]), 5, 0x1a, 0x00);
    let mut longer_than_sent = unmap_list(&[(0, 8)]);
    longer_than_sent[3] = 32;
    assert_sense(
        &bench.run(&nexus, &unmap_cdb(24), &longer_than_sent),
        5,
        0x1a,
        0x00,
    );
    let too_many = unmap_list(&[(0, 1); 257]);
    let cdb = unmap_cdb(too_many.len() as u16);
    assert_sense(&bench.run(&nexus, &cdb, &too_many), 5, 0x26, 0x00);
    let mut anchor = unmap_cdb(24);
    anchor[1] = 1;
    assert_sense(
        &bench.run(&nexus, &anchor, &unmap_list(&[(0, 1)])),
        5,
        0x24,
        0x00,
    );
    assert!(bench.disk().mapped.borrow().iter().all(|&mapped| mapped));
}

#[test]
fn unmap_is_unknown_to_a_thick_unit() {
    let bench = Harness::new(scsi::logical_unit::UnitConfig {
        thin: false,
        ..config()
    });
    let nexus = bench.login(1);
    let list = unmap_list(&[(0, 8)]);
    assert_sense(&bench.run(&nexus, &unmap_cdb(24), &list), 5, 0x20, 0x00);
    let capacity = assert_good(bench.run(&nexus, &cdb_16(0x9e, 0x10, 0, 32), &[]));
    assert_eq!(capacity[14] & 0xc0, 0, "neither LBPME nor LBPRZ");
    let unmap = cdb_16(0x93, 0x08, 0, 1);
    assert_sense(&bench.run(&nexus, &unmap, &[0; 512]), 5, 0x24, 0x00);
}

#[test]
fn write_same_repeats_its_block() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    let block: Vec<u8> = (0..512).map(|byte| byte as u8).collect();
    assert_good(bench.run(&nexus, &cdb_10(0x41, 0, 10, 600), &block));
    let written = bench.disk().read(BlockRange::new(10, 600).unwrap());
    assert!(written.chunks(512).all(|found| found == block));
    assert!(!bench.disk().mapped.borrow()[610]);
    // Even with UNMAP, a block that is not zeros is written.
    assert_good(bench.run(&nexus, &cdb_16(0x93, 0x08, 0, 4), &block));
    assert_eq!(bench.disk().read(BlockRange::new(3, 1).unwrap()), block);
}

#[test]
fn write_same_of_zeros_unmaps_if_it_may() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    for (cdb, data, mapped) in [
        (cdb_16(0x93, 0x08, 0, 16), vec![0; 512], false),
        (cdb_16(0x93, 0x09, 0, 16), vec![], false),
        (cdb_16(0x93, 0x00, 0, 16), vec![0; 512], true),
        (cdb_16(0x93, 0x01, 0, 16), vec![], true),
        (cdb_10(0x41, 0x08, 0, 16), vec![0; 512], false),
    ] {
        fill(&bench);
        assert_good(bench.run(&nexus, &cdb, &data));
        assert_eq!(
            bench.disk().read(BlockRange::new(0, 16).unwrap()),
            vec![0; 16 * 512]
        );
        assert_eq!(bench.disk().mapped.borrow()[15], mapped);
        assert!(bench.disk().mapped.borrow()[16]);
    }
}

#[test]
fn write_same_refuses_what_it_does_not_offer() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    let block = [1; 512];
    for flags in [0x20, 0xe0, 0x10, 0x18, 0x02, 0x04] {
        assert_sense(
            &bench.run(&nexus, &cdb_16(0x93, flags, 0, 1), &block),
            5,
            0x24,
            0x00,
        );
    }
    assert_sense(
        &bench.run(&nexus, &cdb_16(0x93, 0, 0, 0), &block),
        5,
        0x24,
        0x00,
    );
    assert_sense(
        &bench.run(&nexus, &cdb_10(0x41, 0, 0, 0), &block),
        5,
        0x24,
        0x00,
    );
    assert_sense(
        &bench.run(&nexus, &cdb_10(0x41, 1, 0, 1), &block),
        5,
        0x24,
        0x00,
    );
    assert_sense(
        &bench.run(&nexus, &cdb_16(0x93, 0, 2047, 2), &block),
        5,
        0x21,
        0x00,
    );
    assert_sense(
        &bench.run(&nexus, &cdb_16(0x93, 0, u64::MAX, 1), &block),
        5,
        0x21,
        0x00,
    );
    for data in [&[1; 256][..], &[1; 1024]] {
        assert_sense(
            &bench.run(&nexus, &cdb_16(0x93, 0x08, 0, 1), data),
            5,
            0x0e,
            0x03,
        );
    }
}

#[test]
fn write_same_enforces_its_largest_length() {
    let big = scsi::logical_unit::UnitConfig {
        blocks: 1 << 33,
        ..config()
    };
    let groups = std::sync::Arc::new(scsi::alua::TargetPortGroups::default());
    let unit = scsi::logical_unit::LogicalUnit::new(big, groups);
    let bench = Harness::new(config());
    let small = bench.login(1);
    let nexus = unit.attach(small.nexus().clone());
    assert_sense(&bench.run(&nexus, &[0; 6], &[]), 6, 0x29, 0x00);
    let limits = assert_good(bench.run(&nexus, &[0x12, 1, 0xb0, 0, 64, 0], &[]));
    let most = u64::from_be_bytes(limits[36..44].try_into().unwrap()) as u32;
    // libiscsi's suite takes 65 536 or more as a promise that WRITE(16) may be as long.
    assert!((1..65_536).contains(&most));
    let response = bench.run(&nexus, &cdb_16(0x93, 0x01, 0, most + 1), &[]);
    assert_sense(&response, 5, 0x24, 0x00);
}

#[test]
fn get_lba_status_tells_runs_merged_and_in_order() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    for lba in [10, 11, 12, 20, 30, 40, 50] {
        bench
            .disk()
            .write(BlockRange::new(lba, 1).unwrap(), &[1; 512]);
    }
    let cdb = cdb_16(0x9e, 0x12, 5, 8 + 16 * 5);
    let data = assert_good(bench.run(&nexus, &cdb, &[]));
    assert_eq!(
        u32::from_be_bytes(data[..4].try_into().unwrap()),
        4 + 5 * 16
    );
    let runs: Vec<(u64, u32, u8)> = data[8..]
        .chunks(16)
        .map(|run| {
            let lba = u64::from_be_bytes(run[..8].try_into().unwrap());
            (
                lba,
                u32::from_be_bytes(run[8..12].try_into().unwrap()),
                run[12],
            )
        })
        .collect();
    assert_eq!(
        runs,
        [(5, 5, 1), (10, 3, 0), (13, 7, 1), (20, 1, 0), (21, 9, 1)]
    );
}

#[test]
fn get_lba_status_of_an_empty_unit_is_one_run() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    let data = assert_good(bench.run(&nexus, &cdb_16(0x9e, 0x12, 0, 256), &[]));
    assert_eq!(data.len(), 24);
    assert_eq!(data[8..21], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 1]);
    for lba in [2048, 1 << 63, u64::MAX] {
        assert_sense(
            &bench.run(&nexus, &cdb_16(0x9e, 0x12, lba, 24), &[]),
            5,
            0x21,
            0x00,
        );
    }
    // REPORT TYPE asks for mapped blocks only, or for other types that are not offered.
    for report_type in [1, 2, 3, 4, 0x10, 0xff] {
        let mut cdb = cdb_16(0x9e, 0x12, 0, 256);
        cdb[14] = report_type;
        let refused = bench.run(&nexus, &cdb, &[]);
        assert_sense(&refused, 5, 0x24, 0x00);
        assert_eq!(refused.sense[15..18], [0xc0, 0, 14]);
    }
}

#[test]
fn get_lba_status_of_a_thick_unit_is_all_mapped() {
    let bench = Harness::new(scsi::logical_unit::UnitConfig {
        thin: false,
        ..config()
    });
    let nexus = bench.login(1);
    let data = assert_good(bench.run(&nexus, &cdb_16(0x9e, 0x12, 8, 256), &[]));
    assert_eq!(data[8..21], [0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 7, 0xf8, 0]);
}

proptest! {
    /// Tests that no parameter list causes a panic, and none reaches beyond the capacity (the disk
    /// would panic).
    #[test]
    fn any_unmap_list_is_survived(list in proptest::collection::vec(any::<u8>(), 0..128)) {
        let bench = Harness::new(config());
        let nexus = bench.login(1);
        bench.run(&nexus, &unmap_cdb(list.len() as u16), &list);
        let mut half_true = unmap_list(&[(2047, 1), (0, 1)]);
        half_true.extend_from_slice(&list);
        bench.run(&nexus, &unmap_cdb(half_true.len() as u16), &half_true);
    }
}
