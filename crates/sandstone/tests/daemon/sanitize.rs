//! SANITIZE OVERWRITE goes on to its end although the session that asked for it is gone (SBC-4 4.11.2).

use std::fs::File;
use std::thread;
use std::time::{Duration, Instant};

use sandstone::config::model::{BackendSpec, UnitSpec};
use sandstone::initiator::connection::Connection;

use crate::served::{BLOCK, Served, read, test_unit_ready, unit};

const SIZE: u64 = 32 << 20;
/// Enough passes that it is still going on when its session ends.
const PASSES: u8 = 15;
const PATTERN: u8 = 0xa5;
const IN_PROGRESS: [u8; 3] = [0x02, 0x04, 0x1b];

/// SANITIZE OVERWRITE with a pattern of one byte, and its parameter list.
fn overwrite() -> ([u8; 10], Vec<u8>) {
    let list = vec![PASSES, 0, 0, 1, PATTERN];
    ([0x48, 0x01, 0, 0, 0, 0, 0, 0, list.len() as u8, 0], list)
}

/// Looks at the unit every 5 ms until it says `wanted`; it may say SANITIZE IN PROGRESS meanwhile, and
/// nothing worse.
fn wait_for(connection: &mut Connection, wanted: Option<[u8; 3]>, from: Option<[u8; 3]>) {
    let end = Instant::now() + Duration::from_secs(120);
    loop {
        let told = test_unit_ready(connection);
        if told == wanted {
            return;
        }
        let attention = told.is_some_and(|sense| sense[0] == 6);
        assert!(told == from || attention, "{told:x?}");
        assert!(Instant::now() < end, "still {told:x?}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_sanitize_outlives_its_session() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk.img");
    File::create(&path).unwrap().set_len(SIZE).unwrap();
    let backend = BackendSpec::File {
        path,
        size: SIZE,
        preallocate: true,
    };
    let served = Served::start(vec![UnitSpec {
        thin: false,
        ..unit("disk", 1, backend)
    }]);
    let mut first = served.log_in(1);
    let mut second = served.log_in(2);
    let asking = thread::spawn(move || {
        let (cdb, list) = overwrite();
        first.write(0, &cdb, list).map(|outcome| outcome.status)
    });
    wait_for(&mut second, Some(IN_PROGRESS), None);
    // The same initiator port logs in again: its old session ends, with all its tasks.
    let again = Connection::open(served.portal, served.settings(1)).unwrap();
    assert!(asking.join().unwrap().is_err(), "the session lived on");
    assert_eq!(test_unit_ready(&mut second), Some(IN_PROGRESS));
    wait_for(&mut second, None, Some(IN_PROGRESS));
    let last = SIZE / BLOCK as u64 - 1;
    for lba in [0, last / 2, last] {
        assert_eq!(read(&mut second, lba, 1), [PATTERN; BLOCK]);
    }
    drop(again);
}
