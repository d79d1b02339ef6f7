//! Writes whose initiator offers less, or more, data than the CDB names, over a real session.
//!
//! The tests check the data on the unit and the residual (RFC 7143 §11.4.5).

use crate::served::{self, BLOCK, Served, read, unit};
use initiator::connection::{Connection, Outcome};
use iscsi::initiator::Residual;
use model::config::BackendSpec;

const GOOD: Option<u8> = Some(0);

/// Starts a daemon that serves one unit in memory.
fn served() -> Served {
    Served::start(vec![unit("unit", 1, BackendSpec::Memory { size: 1 << 20 })])
}

fn cdb(opcode: u8, flags: u8, lba: u64, blocks: u32) -> [u8; 16] {
    let mut cdb = served::cdb(opcode, lba, blocks);
    cdb[1] = flags;
    cdb
}

fn write(connection: &mut Connection, cdb: &[u8; 16], data: &[u8]) -> Outcome {
    connection.write(0, cdb, data.to_vec()).unwrap()
}

/// WRITE(16), WRITE AND VERIFY(16) without and with a comparison.
const WRITES: [(u8, u8); 3] = [(0x8a, 0), (0x8e, 0), (0x8e, 2)];

#[test]
fn a_short_write_writes_the_whole_blocks_that_were_offered() {
    let served = served();
    let mut connection = served.log_in(1);
    for (opcode, flags) in WRITES {
        for (wanted, offered, blocks) in [
            (1_u32, 0, 0),
            (2, BLOCK, 1),
            (4, 3 * BLOCK, 3),
            // More than one burst, and not from the start of a page.
            (1024, 300 * 1024, 600),
        ] {
            let all = wanted as usize * BLOCK;
            let before = vec![b'a'; all];
            let full = write(&mut connection, &cdb(0x8a, 0, 9, wanted), &before);
            assert_eq!((full.status, full.residual), (GOOD, Some(Residual::None)));
            let offer = vec![b'b'; offered];
            let outcome = write(&mut connection, &cdb(opcode, flags, 9, wanted), &offer);
            assert_eq!(outcome.status, GOOD, "{:02x?}", outcome.sense);
            let missing = (all - offered) as u32;
            assert_eq!(outcome.residual, Some(Residual::Overflow(missing)));
            let landed = blocks * BLOCK;
            assert_eq!(
                read(&mut connection, 9, wanted),
                [&offer[..landed], &before[landed..]].concat()
            );
        }
    }
    connection.close().unwrap();
}

#[test]
fn a_write_that_ends_within_a_block_leaves_the_rest_of_it_or_is_refused() {
    let served = served();
    let mut connection = served.log_in(1);
    for (opcode, flags) in WRITES {
        for (wanted, offered) in [(1_u32, 200), (4, 3 * BLOCK + 511), (1024, 300 * 1024 + 1)] {
            let all = wanted as usize * BLOCK;
            let before = vec![b'a'; all];
            write(&mut connection, &cdb(0x8a, 0, 9, wanted), &before);
            let offer = vec![b'b'; offered];
            let outcome = write(&mut connection, &cdb(opcode, flags, 9, wanted), &offer);
            let landed = if opcode == 0x8a {
                assert_eq!(outcome.status, GOOD);
                offered
            } else {
                assert_eq!(outcome.sense[12..14], [0x0e, 0x03], "{opcode:02x}");
                0
            };
            let missing = (all - offered) as u32;
            assert_eq!(outcome.residual, Some(Residual::Overflow(missing)));
            let after = [&offer[..landed], &before[landed..]].concat();
            assert!(
                read(&mut connection, 9, wanted) == after,
                "{wanted} {offered}"
            );
        }
    }
    connection.close().unwrap();
}

#[test]
fn a_long_write_writes_no_more_than_the_cdb_says() {
    let served = served();
    let mut connection = served.log_in(1);
    for (opcode, flags) in WRITES {
        let clear = write(&mut connection, &cdb(0x8a, 0, 0, 2), &[b'a'; 2 * BLOCK]);
        assert_eq!(clear.status, GOOD);
        let outcome = write(&mut connection, &cdb(opcode, flags, 0, 1), &[b'b'; 10_000]);
        assert_eq!(outcome.status, GOOD);
        let left = 10_000 - BLOCK as u32;
        assert_eq!(outcome.residual, Some(Residual::Underflow(left)));
        assert_eq!(
            read(&mut connection, 0, 2),
            [[b'b'; BLOCK], [b'a'; BLOCK]].concat()
        );
    }
    connection.close().unwrap();
}

#[test]
fn commands_that_are_all_or_nothing_refuse_what_is_short() {
    let served = served();
    let mut connection = served.log_in(1);
    let mut compare_and_write = [0; 16];
    (compare_and_write[0], compare_and_write[13]) = (0x89, 1);
    // COMPARE AND WRITE, ORWRITE, VERIFY with a comparison, WRITE SAME.
    for (cdb, whole) in [
        (compare_and_write, 2 * BLOCK),
        (cdb(0x8b, 0, 0, 2), 2 * BLOCK),
        (cdb(0x8f, 2, 0, 2), 2 * BLOCK),
        (cdb(0x93, 0, 0, 2), BLOCK),
    ] {
        for offered in [0, whole - 1] {
            let outcome = write(&mut connection, &cdb, &vec![b'b'; offered]);
            assert_eq!(outcome.status, Some(2), "{cdb:02x?} of {offered}");
            assert_eq!(outcome.sense[12..14], [0x0e, 0x03], "{cdb:02x?}");
        }
    }
    assert_eq!(read(&mut connection, 0, 2), [0; 2 * BLOCK]);
    connection.close().unwrap();
}
