//! Tests of READ and WRITE in all lengths: data, limits, flags, residuals.

use scsi::{BlockError, BlockRange, Command, Start, TaskAttribute};

use crate::harness::*;

/// Groups of commands: (READ opcode, WRITE opcode, CDB length).
const GROUPS: [(u8, u8, usize); 4] = [
    (0x08, 0x0a, 6),
    (0x28, 0x2a, 10),
    (0xa8, 0xaa, 12),
    (0x88, 0x8a, 16),
];

fn cdb(opcode: u8, len: usize, flags: u8, lba: u64, count: u32) -> Vec<u8> {
    match len {
        6 => {
            let [_, high, mid, low] = (lba as u32).to_be_bytes();
            vec![opcode, high & 0x1f, mid, low, count as u8, 0]
        }
        10 => cdb_10(opcode, flags, lba as u32, count as u16),
        12 => cdb_12(opcode, flags, lba as u32, count),
        _ => cdb_16(opcode, flags, lba, count),
    }
}

#[test]
fn what_is_written_is_read_back_through_every_length() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    for (index, (read, write, len)) in GROUPS.into_iter().enumerate() {
        let data = vec![index as u8 + 1; 3 * 512];
        let lba = 10 * index as u64 + 2045 - 40;
        assert_good(bench.run(&nexus, &cdb(write, len, 0, lba, 3), &data));
        assert_eq!(
            assert_good(bench.run(&nexus, &cdb(read, len, 0, lba, 3), &[])),
            data
        );
    }
}

#[test]
fn a_length_of_zero_is_256_blocks_for_6_bytes_and_nothing_for_the_others() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    let read = |cdb: Vec<u8>| assert_good(bench.run(&nexus, &cdb, &[])).len();
    assert_eq!(read(cdb(0x08, 6, 0, 0, 0)), 256 * 512);
    for (opcode, _, len) in &GROUPS[1..] {
        assert_eq!(read(cdb(*opcode, *len, 0, 2048, 0)), 0);
    }
}

#[test]
fn beyond_the_end_is_out_of_range_even_with_length_zero() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    for (read, write, len) in &GROUPS[1..] {
        for opcode in [*read, *write] {
            for (lba, count) in [
                (2048, 1),
                (2047, 2),
                (2049, 0),
                (0x7fff_ffff, 1),
                (0xffff_ffff, 2),
            ] {
                let response = bench.run(&nexus, &cdb(opcode, *len, 0, lba, count), &[]);
                assert_sense(&response, 5, 0x21, 0x00);
            }
        }
    }
    for lba in [1 << 63, u64::MAX] {
        assert_sense(
            &bench.run(&nexus, &cdb_16(0x88, 0, lba, 2), &[]),
            5,
            0x21,
            0x00,
        );
    }
    assert_sense(
        &bench.run(&nexus, &cdb(0x08, 6, 0, 2047, 2), &[]),
        5,
        0x21,
        0x00,
    );
}

#[test]
fn longer_than_the_largest_transfer_is_an_invalid_field() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    assert_good(bench.run(&nexus, &cdb_10(0x28, 0, 0, 512), &[]));
    let response = bench.run(&nexus, &cdb_10(0x28, 0, 0, 513), &[]);
    assert_sense(&response, 5, 0x24, 0x00);
    assert_eq!(response.sense[15..18], [0xc0, 0, 7], "points at the length");
}

#[test]
fn protection_is_refused_and_dpo_and_fua_are_accepted() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    for (read, write, len) in &GROUPS[1..] {
        for opcode in [*read, *write] {
            for protect in 1..8 {
                let cdb = cdb(opcode, *len, protect << 5, 0, 1);
                assert_sense(&bench.run(&nexus, &cdb, &[0; 512]), 5, 0x24, 0x00);
            }
        }
        assert_good(bench.run(&nexus, &cdb(*read, *len, 0x18, 0, 1), &[]));
        assert_good(bench.run(&nexus, &cdb(*write, *len, 0x18, 0, 1), &[7; 512]));
    }
}

#[test]
fn force_unit_access_reaches_the_transport() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    let start = |cdb: &[u8]| {
        let command = Command {
            cdb,
            attribute: TaskAttribute::Simple,
            data_out_len: Some(512),
            data_in_len: 0,
        };
        nexus.start(&command, &View(&bench))
    };
    let range = BlockRange::new(5, 1).unwrap();
    for flags in [0x00, 0x08] {
        let wanted = flags != 0;
        match start(&cdb_10(0x2a, flags, 5, 1)) {
            Start::Write {
                range: found, fua, ..
            } => assert_eq!((found, fua), (range, wanted)),
            other => panic!("{other:?}"),
        }
        match start(&cdb_12(0xa8, flags, 5, 1)) {
            Start::Read { range: found, fua } => assert_eq!((found, fua), (range, wanted)),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn residuals_are_told_and_a_short_write_writes_whole_blocks() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    let short = bench.run_offering(&nexus, &cdb_10(0x2a, 0, 8, 3), &[0x61; 1024], 0);
    assert_good(short.response);
    assert_eq!(short.residual, 512);
    assert_eq!(
        bench.disk().read(BlockRange::new(8, 3).unwrap()),
        [[0x61; 512], [0x61; 512], [0; 512]].concat()
    );
    let short = bench.run_offering(&nexus, &cdb_10(0x2a, 0, 0, 1), &[0x62; 200], 0);
    assert_good(short.response);
    assert_eq!(short.residual, 312);
    assert_eq!(
        bench.disk().read(BlockRange::new(0, 1).unwrap()),
        [&[0x62; 200][..], &[0; 312]].concat()
    );
    let long = bench.run_offering(&nexus, &cdb_10(0x2a, 0, 0, 1), &[0x62; 10_000], 0);
    assert_good(long.response);
    assert_eq!(long.residual, 512 - 10_000);
    let narrow = bench.run_offering(&nexus, &cdb_10(0x28, 0, 0, 2), &[], 512);
    assert_eq!(narrow.residual, 512);
    assert_eq!(assert_good(narrow.response), vec![0x62; 512]);
}

#[test]
fn each_block_error_has_its_own_sense() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    for (error, key, asc, ascq) in [
        (BlockError::NoSpace, 7, 0x27, 0x07),
        (BlockError::ReadOnly, 7, 0x27, 0x00),
        (BlockError::Medium { lba: Some(9) }, 3, 0x11, 0x00),
        (BlockError::Write { lba: None }, 3, 0x0c, 0x00),
        (BlockError::OutOfRange, 5, 0x21, 0x00),
        (BlockError::Gone, 4, 0x44, 0x00),
    ] {
        bench.disk().fail.set(Some(error));
        assert_sense(
            &bench.run(&nexus, &cdb_10(0x2a, 0, 0, 1), &[1; 512]),
            key,
            asc,
            ascq,
        );
    }
}

#[test]
fn read_32_is_for_protected_media_and_unknown_here() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    let mut cdb = vec![0; 32];
    (cdb[0], cdb[7], cdb[9]) = (0x7f, 0x18, 0x09);
    assert_sense(&bench.run(&nexus, &cdb, &[]), 5, 0x20, 0x00);
}

#[test]
fn a_cdb_cut_short_is_refused() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    let command = Command {
        cdb: &[0x28, 0, 0],
        attribute: TaskAttribute::Simple,
        data_out_len: Some(0),
        data_in_len: 0,
    };
    let Start::Respond(response) = nexus.start(&command, &View(&bench)) else {
        panic!("a cut CDB must not start");
    };
    assert_sense(&response, 5, 0x24, 0x00);
}

#[test]
fn naca_is_refused() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    let mut cdb = cdb_10(0x28, 0, 0, 1);
    cdb[9] = 0x04;
    assert_sense(&bench.run(&nexus, &cdb, &[]), 5, 0x24, 0x00);
}

#[test]
fn synchronize_cache_flushes_and_checks_its_range() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    assert_good(bench.run(&nexus, &cdb_10(0x35, 0, 0, 0), &[]));
    assert_good(bench.run(&nexus, &cdb_16(0x91, 0, 100, 5), &[]));
    assert_eq!(bench.disk().flushes.get(), 2);
    // IMMED asks for GOOD before anything is durable. It is not offered, and so it is refused.
    for cdb in [cdb_10(0x35, 0x02, 0, 0), cdb_16(0x91, 0x02, 100, 5)] {
        let refused = bench.run(&nexus, &cdb, &[]);
        assert_sense(&refused, 5, 0x24, 0x00);
        assert_eq!(refused.sense[15..18], [0xc9, 0, 1], "byte 1, bit 1");
    }
    assert_eq!(bench.disk().flushes.get(), 2);
    assert_sense(
        &bench.run(&nexus, &cdb_10(0x35, 0, 2048, 1), &[]),
        5,
        0x21,
        0x00,
    );
    bench.disk().fail.set(Some(BlockError::Write { lba: None }));
    assert_sense(
        &bench.run(&nexus, &cdb_10(0x35, 0, 0, 0), &[]),
        3,
        0x0c,
        0x00,
    );
}

#[test]
fn prefetch_checks_its_range_and_promises_nothing() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    for cdb in [
        cdb_10(0x34, 0, 0, 0),
        cdb_10(0x34, 2, 5, 1),
        cdb_16(0x90, 0, 0, 2048),
    ] {
        assert_good(bench.run(&nexus, &cdb, &[]));
    }
    assert_sense(
        &bench.run(&nexus, &cdb_10(0x34, 0, 2049, 0), &[]),
        5,
        0x21,
        0x00,
    );
    assert_sense(
        &bench.run(&nexus, &cdb_16(0x90, 0, 2048, 1), &[]),
        5,
        0x21,
        0x00,
    );
}
