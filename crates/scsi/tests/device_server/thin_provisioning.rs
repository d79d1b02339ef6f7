//! Tests of the soft threshold of thin provisioning: page 1Ch/02h, its unit attention, and a full
//! pool.

use scsi::BlockError;
use scsi::logical_unit::UnitConfig;
use scsi::medium::thin_provisioning::Space;

use crate::harness::*;

/// Number of blocks in one threshold set.
const SET: u64 = 2048;

fn available(sets: u64) -> Space {
    Space {
        available: sets * SET,
        used: 8,
        capacity: 1000 * SET,
    }
}

const TEST_UNIT_READY: [u8; 6] = [0; 6];
const MODE_SENSE: [u8; 6] = [0x1a, 0x08, 0x1c, 0x02, 255, 0];

#[test]
fn the_page_shows_the_administrators_threshold() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    let page = |control: u8| {
        let mut cdb = MODE_SENSE;
        cdb[2] |= control << 6;
        assert_good(bench.run(&nexus, &cdb, &[]))[4..].to_vec()
    };
    let mut expected = vec![0; 24];
    expected[..4].copy_from_slice(&[0x5c, 0x02, 0, 20]);
    assert_eq!(page(1), expected, "nothing is changeable");
    expected[17] = 1;
    assert_eq!(page(0), expected, "no threshold is enabled");
    bench.unit().set_soft_threshold(Some(75));
    bench.unit().note_space(available(900));
    assert_sense(&bench.run(&nexus, &TEST_UNIT_READY, &[]), 6, 0x2a, 0x01);
    expected[16] = 0x80;
    expected[20..24].copy_from_slice(&250_u32.to_be_bytes());
    for control in [0, 2, 3] {
        assert_eq!(page(control), expected);
    }
    // MODE SELECT takes values that hold, and refuses values that would change them.
    let select = |page: &[u8]| {
        let list = [&[0; 4], page].concat();
        bench.run(&nexus, &[0x15, 0x10, 0, 0, list.len() as u8, 0], &list)
    };
    let mut same = expected.clone();
    assert_good(select(&same));
    same[23] ^= 1;
    assert_sense(&select(&same), 5, 0x26, 0x00);
    // LBPERE is in the read-write error recovery page.
    let recovery = assert_good(bench.run(&nexus, &[0x1a, 0x08, 0x01, 0, 255, 0], &[]));
    assert_eq!(recovery[4 + 7], 0x80);
}

#[test]
fn a_unit_that_is_not_thin_has_no_such_page() {
    let bench = Harness::new(UnitConfig {
        thin: false,
        ..config()
    });
    let nexus = bench.login(1);
    let refused = bench.run(&nexus, &MODE_SENSE, &[]);
    assert_sense(&refused, 5, 0x24, 0x00);
    let recovery = assert_good(bench.run(&nexus, &[0x1a, 0x08, 0x01, 0, 255, 0], &[]));
    assert_eq!(recovery[4 + 7], 0);
}

#[test]
fn every_nexus_hears_of_the_threshold_once_until_space_came_back() {
    let bench = Harness::new(config());
    bench.unit().set_soft_threshold(Some(75));
    bench.unit().note_space(available(900));
    let (one, two) = (bench.login(1), bench.login(2));
    bench.unit().note_space(available(251));
    assert_good(bench.run(&one, &TEST_UNIT_READY, &[]));
    bench.unit().note_space(available(250));
    for nexus in [&one, &two] {
        let told = bench.run(nexus, &TEST_UNIT_READY, &[]);
        assert_sense(&told, 6, 0x38, 0x07);
        // The sense data has VALID, and the offset of the descriptor in the page.
        assert_eq!(told.sense[0], 0xf0);
        assert_eq!(told.sense[3..7], [0, 0, 0, 16]);
        assert_good(bench.run(nexus, &TEST_UNIT_READY, &[]));
    }
    bench.unit().note_space(available(10));
    bench.unit().note_space(available(260));
    bench.unit().note_space(available(100));
    assert_good(bench.run(&one, &TEST_UNIT_READY, &[]));
    // An initiator that comes while space is short hears of it too.
    let late = bench.login(3);
    assert_sense(&bench.run(&late, &TEST_UNIT_READY, &[]), 6, 0x38, 0x07);
    bench.unit().note_space(available(300));
    bench.unit().note_space(available(200));
    assert_sense(&bench.run(&one, &TEST_UNIT_READY, &[]), 6, 0x38, 0x07);
}

#[test]
fn every_command_that_meets_a_full_pool_says_so_and_goes_on_when_there_is_space() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    let block = vec![7; 512];
    let pair = vec![7; 1024];
    // The list has a header and one descriptor: LBA 0, 8 blocks.
    let mut unmap = vec![0, 22, 0, 16, 0, 0, 0, 0];
    unmap.extend([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0]);
    let cdb16 = |opcode: u8, flags: u8| {
        let mut cdb = vec![opcode, flags, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0];
        if opcode == 0x89 {
            (cdb[10], cdb[13]) = (0, 1);
        }
        cdb
    };
    let commands: Vec<(&str, Vec<u8>, &[u8])> = vec![
        ("WRITE(10)", vec![0x2a, 0, 0, 0, 0, 0, 0, 0, 1, 0], &block),
        ("WRITE(16)", cdb16(0x8a, 0), &block),
        ("WRITE(16) FUA", cdb16(0x8a, 0x08), &block),
        ("WRITE AND VERIFY(16)", cdb16(0x8e, 0), &block),
        ("WRITE SAME(16)", cdb16(0x93, 0), &block),
        ("COMPARE AND WRITE", cdb16(0x89, 0), &pair),
        ("ORWRITE(16)", cdb16(0x8b, 0), &block),
        ("SYNCHRONIZE CACHE(16)", cdb16(0x91, 0), &[]),
        ("UNMAP", vec![0x42, 0, 0, 0, 0, 0, 0, 0, 24, 0], &unmap),
    ];
    for (name, cdb, data) in commands {
        bench.disk().bytes.borrow_mut().fill(7);
        bench.disk().fail.set(Some(BlockError::NoSpace));
        let full = bench.run(&nexus, &cdb, data);
        assert_eq!(
            (full.sense[2] & 0x0f, full.sense[12], full.sense[13]),
            (7, 0x27, 0x07),
            "{name}: {full:?}"
        );
        let again = bench.run(&nexus, &cdb, data);
        assert_eq!(again.status, scsi::Status::Good, "{name}: {again:?}");
    }
}
