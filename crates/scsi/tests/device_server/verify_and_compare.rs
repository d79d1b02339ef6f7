//! Tests of VERIFY, WRITE AND VERIFY, COMPARE AND WRITE, ORWRITE, WRITE ATOMIC.

use scsi::{BlockError, BlockRange, Command, Start, TaskAttribute};

use crate::harness::*;

fn compare_and_write(lba: u64, count: u8, flags: u8) -> Vec<u8> {
    let mut cdb = cdb_16(0x89, flags, lba, 0);
    cdb[13] = count;
    cdb
}

fn write_atomic(lba: u64, boundary: u16, count: u16) -> Vec<u8> {
    cdb_16(0x9c, 0, lba, u32::from(boundary) << 16 | u32::from(count))
}

#[test]
fn compare_and_write_writes_what_matched() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    for count in [1_u8, 5, 128] {
        let len = usize::from(count) * 512;
        bench.disk().write(
            BlockRange::new(7, u64::from(count)).unwrap(),
            &vec![b'A'; len],
        );
        let data = [vec![b'A'; len], vec![b'B'; len]].concat();
        assert_good(bench.run(&nexus, &compare_and_write(7, count, 0x18), &data));
        assert_eq!(
            bench
                .disk()
                .read(BlockRange::new(7, u64::from(count)).unwrap()),
            vec![b'B'; len]
        );
    }
}

#[test]
fn compare_and_write_tells_the_offset_of_a_miscompare_and_writes_nothing() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    for at in [0, 1, 511, 512, 1023] {
        let mut data = vec![0; 2 * 1024];
        data[at] = b'Z';
        data[1024..].fill(b'C');
        let response = bench.run(&nexus, &compare_and_write(0, 2, 0), &data);
        assert_sense(&response, 0x0e, 0x1d, 0x00);
        assert_eq!(response.sense[0], 0xf0, "INFORMATION is valid");
        assert_eq!(response.sense[3..7], (at as u32).to_be_bytes());
        assert_eq!(
            bench.disk().read(BlockRange::new(0, 2).unwrap()),
            vec![0; 1024]
        );
    }
}

#[test]
fn compare_and_write_limits() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    let limits = assert_good(bench.run(&nexus, &[0x12, 1, 0xb0, 0, 64, 0], &[]));
    let most = limits[5];
    let data = vec![0; (usize::from(most) + 1) * 1024];
    assert_sense(
        &bench.run(&nexus, &compare_and_write(0, most + 1, 0), &data),
        5,
        0x24,
        0x00,
    );
    assert_sense(
        &bench.run(&nexus, &compare_and_write(2048, 1, 0), &data[..1024]),
        5,
        0x21,
        0x00,
    );
    assert_sense(
        &bench.run(&nexus, &compare_and_write(0, 1, 0x20), &data[..1024]),
        5,
        0x24,
        0x00,
    );
    for wrong in [512, 1023, 2048] {
        let response = bench.run(&nexus, &compare_and_write(0, 1, 0), &data[..wrong]);
        assert_sense(&response, 5, 0x0e, 0x03);
    }
    assert_good(bench.run(&nexus, &compare_and_write(0, 0, 0), &[]));
}

#[test]
fn a_compare_and_write_of_256_blocks_does_not_pass_for_one_of_none() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    let data = vec![0; 2 * 256 * 512];
    let response = bench.run(&nexus, &compare_and_write(0, 0, 0), &data);
    assert_sense(&response, 5, 0x24, 0x00);
    assert_eq!(response.sense[15..18], [0xc0, 0, 13], "points at the count");
}

#[test]
fn read_modify_write_commands_claim_their_range() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    for cdb in [
        compare_and_write(3, 2, 0),
        cdb_16(0x8b, 0, 3, 2),
        write_atomic(3, 0, 2),
    ] {
        let command = Command {
            cdb: &cdb,
            attribute: TaskAttribute::Simple,
            data_out_len: Some(if cdb[0] == 0x89 { 2048 } else { 1024 }),
            data_in_len: 0,
        };
        let Start::Task(task) = nexus.start(&command, &View(&bench)) else {
            panic!("{cdb:?} must be a task");
        };
        assert_eq!(task.exclusive(), BlockRange::new(3, 2));
        assert_eq!(Some(task.data_out_len()), command.data_out_len);
    }
}

#[test]
fn a_failed_read_fails_the_compare() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    bench
        .disk()
        .fail
        .set(Some(BlockError::Medium { lba: Some(3) }));
    let response = bench.run(&nexus, &compare_and_write(3, 1, 0), &[0; 1024]);
    assert_sense(&response, 3, 0x11, 0x00);
    assert_eq!(response.sense[3..7], [0, 0, 0, 3]);
}

#[test]
fn orwrite_ors() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    for (sent, found) in [(0xa5, 0xa5), (0x5a, 0xff)] {
        assert_good(bench.run(&nexus, &cdb_16(0x8b, 0, 2046, 2), &[sent; 1024]));
        assert_eq!(
            bench.disk().read(BlockRange::new(2046, 2).unwrap()),
            vec![found; 1024]
        );
    }
    assert_good(bench.run(&nexus, &cdb_16(0x8b, 0, 0, 0), &[]));
    for (lba, count) in [(2049, 0), (1 << 63, 0), (u64::MAX, 0), (2047, 2)] {
        assert_sense(
            &bench.run(&nexus, &cdb_16(0x8b, 0, lba, count), &[0; 1024]),
            5,
            0x21,
            0x00,
        );
    }
    assert_sense(
        &bench.run(&nexus, &cdb_16(0x8b, 0x20, 0, 1), &[0; 512]),
        5,
        0x24,
        0x00,
    );
    assert_sense(
        &bench.run(&nexus, &cdb_16(0x8b, 0, 0, 513), &[]),
        5,
        0x24,
        0x00,
    );
    assert_sense(
        &bench.run(&nexus, &cdb_16(0x8b, 0, 0, 1), &[0; 511]),
        5,
        0x0e,
        0x03,
    );
}

#[test]
fn write_atomic_writes_within_its_limit() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    assert_good(bench.run(&nexus, &write_atomic(0, 0, 256), &[6; 256 * 512]));
    assert_eq!(
        bench.disk().read(BlockRange::new(255, 1).unwrap()),
        vec![6; 512]
    );
    assert_good(bench.run(&nexus, &write_atomic(0, 0, 0), &[]));
    assert_sense(
        &bench.run(&nexus, &write_atomic(0, 0, 257), &[]),
        5,
        0x24,
        0x00,
    );
    assert_sense(
        &bench.run(&nexus, &write_atomic(0, 8, 8), &[]),
        5,
        0x24,
        0x00,
    );
    assert_sense(
        &bench.run(&nexus, &write_atomic(1792, 0, 512), &[]),
        5,
        0x21,
        0x00,
    );
    assert_sense(
        &bench.run(&nexus, &write_atomic(u64::MAX, 0, 0), &[]),
        5,
        0x21,
        0x00,
    );
    let none = scsi::logical_unit::UnitConfig {
        max_atomic_write: 0,
        ..config()
    };
    let bench = Harness::new(none);
    let nexus = bench.login(1);
    assert_sense(
        &bench.run(&nexus, &write_atomic(0, 0, 1), &[0; 512]),
        5,
        0x20,
        0x00,
    );
}

/// Builds VERIFY with BYTCHK, of each length.
fn verifies(bytchk: u8, lba: u64, count: u32) -> [Vec<u8>; 3] {
    let flags = bytchk << 1;
    [
        cdb_10(0x2f, flags, lba as u32, count as u16),
        cdb_12(0xaf, flags, lba as u32, count),
        cdb_16(0x8f, flags, lba, count),
    ]
}

#[test]
fn verify_compares_as_bytchk_says() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    bench
        .disk()
        .write(BlockRange::new(4, 3).unwrap(), &[9; 3 * 512]);
    let mut wrong = vec![9; 3 * 512];
    wrong[1025] ^= 1;
    for index in 0..3 {
        let run = |bytchk, data: &[u8]| bench.run(&nexus, &verifies(bytchk, 4, 3)[index], data);
        assert_good(run(0, &wrong));
        assert_good(run(1, &[9; 3 * 512]));
        assert_sense(&run(1, &wrong), 0x0e, 0x1d, 0x00);
        assert_good(run(3, &[9; 512]));
        assert_sense(&run(3, &[8; 512]), 0x0e, 0x1d, 0x00);
        assert_sense(&run(2, &[]), 5, 0x24, 0x00);
        assert_sense(&run(1, &[9; 512]), 5, 0x0e, 0x03);
    }
}

#[test]
fn verify_reads_all_it_is_asked_to() {
    let bench = Harness::new(scsi::logical_unit::UnitConfig {
        blocks: 8192,
        ..config()
    });
    let nexus = bench.login(1);
    assert_good(bench.run(&nexus, &cdb_16(0x8f, 0, 0, 8192), &[]));
    bench
        .disk()
        .write(BlockRange::new(8191, 1).unwrap(), &[1; 512]);
    let response = bench.run(&nexus, &cdb_16(0x8f, 0x06, 0, 8192), &[0; 512]);
    assert_sense(&response, 0x0e, 0x1d, 0x00);
    bench
        .disk()
        .fail
        .set(Some(BlockError::Medium { lba: None }));
    assert_sense(
        &bench.run(&nexus, &cdb_16(0x8f, 0, 0, 1), &[]),
        3,
        0x11,
        0x00,
    );
}

#[test]
fn verify_checks_its_range() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    for cdb in verifies(1, 2049, 0).into_iter().chain(verifies(0, 2047, 2)) {
        assert_sense(&bench.run(&nexus, &cdb, &[]), 5, 0x21, 0x00);
    }
    for cdb in verifies(1, 0, 0) {
        assert_good(bench.run(&nexus, &cdb, &[]));
    }
    for mut cdb in verifies(1, 0, 1) {
        cdb[1] |= 0x20;
        assert_sense(&bench.run(&nexus, &cdb, &[0; 512]), 5, 0x24, 0x00);
    }
}

#[test]
fn write_and_verify_writes_and_reads_back() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    for (index, bytchk) in [(0, 0), (1, 1), (2, 1)] {
        let flags = bytchk << 1;
        let lba = 100 * (index + 1);
        let cdb = [
            cdb_10(0x2e, flags, lba, 4),
            cdb_12(0xae, flags, lba, 4),
            cdb_16(0x8e, flags, u64::from(lba), 4),
        ][index as usize]
            .clone();
        let data = vec![index as u8 + 3; 4 * 512];
        assert_good(bench.run(&nexus, &cdb, &data));
        assert_eq!(
            bench
                .disk()
                .read(BlockRange::new(u64::from(lba), 4).unwrap()),
            data
        );
        let other = [0xee; 4 * 512];
        for (offered, blocks) in [(200, 0), (1535, 0), (0, 0), (512, 1), (1024, 2)] {
            let short = bench.run_offering(&nexus, &cdb, &other[..offered], 0);
            if offered % 512 == 0 {
                assert_good(short.response);
            } else {
                assert_sense(&short.response, 5, 0x0e, 0x03);
            }
            assert_eq!(short.residual, 2048 - offered as i64);
            let found = bench
                .disk()
                .read(BlockRange::new(u64::from(lba), 4).unwrap());
            let whole = blocks * 512;
            assert_eq!(found, [&other[..whole], &data[whole..]].concat());
        }
    }
    assert_sense(
        &bench.run(&nexus, &cdb_10(0x2e, 4, 0, 1), &[0; 512]),
        5,
        0x24,
        0x00,
    );
    assert_sense(
        &bench.run(&nexus, &cdb_10(0x2e, 0, 2048, 1), &[0; 512]),
        5,
        0x21,
        0x00,
    );
}
