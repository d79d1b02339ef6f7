//! SANITIZE OVERWRITE goes on to its end although the session that asked for it is gone (SBC-4
//! 4.11.2).
//!
//! If the daemon is killed meanwhile, the next one knows that the operation did not end.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::thread;
use std::time::Duration;

use initiator::connection::Connection;
use model::config::{BackendSpec, UnitSpec};
use testing::wait;

use crate::process::Process;
use crate::served::{
    BLOCK, Served, TARGET, free_portal, log_in, read, sense, settings, test_unit_ready, unit,
};

const SIZE: u64 = 32 << 20;
/// Number of passes: enough that the operation is still going on when its session ends.
const PASSES: u8 = 15;
const PATTERN: u8 = 0xa5;
const IN_PROGRESS: [u8; 3] = [0x02, 0x04, 0x1b];

const FAILED: [u8; 3] = [0x03, 0x31, 0x03];

/// Returns SANITIZE OVERWRITE with a pattern of one byte, and its parameter list.
fn overwrite(passes: u8) -> ([u8; 10], Vec<u8>) {
    let list = vec![passes, 0, 0, 1, PATTERN];
    ([0x48, 0x01, 0, 0, 0, 0, 0, 0, list.len() as u8, 0], list)
}

/// Looks at the unit until it reports `wanted`.
///
/// Until then it may report SANITIZE IN PROGRESS, and nothing worse.
fn wait_for(connection: &mut Connection, wanted: Option<[u8; 3]>, from: Option<[u8; 3]>) {
    let what = format!("the unit reports {wanted:x?}");
    let look = || {
        let told = test_unit_ready(connection);
        let attention = told.is_some_and(|sense| sense[0] == 6);
        assert!(told == wanted || told == from || attention, "{told:x?}");
        told
    };
    wait::at_most(Duration::from_secs(120)).until_seen(&what, look, |told| *told == wanted);
}

fn first_byte(path: &Path) -> u8 {
    let mut byte = [0];
    File::open(path).unwrap().read_exact(&mut byte).unwrap();
    byte[0]
}

/// Waits until a byte is overwritten. Until then, the unit is as it was.
fn wait_for_the_first_byte(process: &Process) {
    let path = process.folder().join("disk.img");
    wait::at_most(Duration::from_secs(120)).until("it is overwritten", || first_byte(&path) != 0);
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
        let (cdb, list) = overwrite(PASSES);
        first.write(0, &cdb, list).map(|outcome| outcome.status)
    });
    wait_for(&mut second, Some(IN_PROGRESS), None);
    // The initiator port logs in again: its old session ends, with all its tasks.
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

#[test]
fn a_sanitize_that_a_kill_cut_short_is_a_failed_one() {
    let mut process = Process::start();
    let portal = free_portal();
    process.done(&format!(
        "lu create disk --file disk.img --size {SIZE} --preallocate"
    ));
    process.done(&format!("target create {TARGET} --portal {portal}"));
    process.done(&format!(
        "map add disk --every-host --target {TARGET} --lun 0"
    ));
    let mut first = log_in(portal, settings(1));
    let mut second = log_in(portal, settings(2));
    let asking = thread::spawn(move || {
        let (cdb, list) = overwrite(PASSES);
        first.write(0, &cdb, list).map(|outcome| outcome.status)
    });
    wait_for(&mut second, Some(IN_PROGRESS), None);
    wait_for_the_first_byte(&process);
    let told = process.done("lu list disk");
    assert!(told.contains("online,sanitize"), "{told}");
    assert!(told.contains("cannot be stopped"), "{told}");
    process.kill();
    assert!(asking.join().unwrap().is_err(), "it was answered");
    process.restart();
    let mut session = log_in(portal, settings(1));
    assert_eq!(test_unit_ready(&mut session), Some(FAILED));
    for view in ["lu list disk", "status"] {
        let told = process.done(view);
        let end = "sandstone lu clear disk sanitize-failed";
        assert!(told.contains(end), "{view}: {told}");
    }
    // Without AUSE, another SANITIZE is the only command that leads out.
    let exit = [0x48, 0x1f, 0, 0, 0, 0, 0, 0, 0, 0];
    let refused = session.write(0, &exit, Vec::new()).unwrap();
    assert_eq!(sense(&refused), Some([0x05, 0x24, 0x00]));
    let (cdb, list) = overwrite(1);
    assert_eq!(sense(&session.write(0, &cdb, list).unwrap()), None);
    let told = process.done("lu list disk");
    assert!(!told.contains("sanitize"), "{told}");
    process.kill();
    process.restart();
    let mut session = log_in(portal, settings(1));
    assert_eq!(test_unit_ready(&mut session), None);
    assert_eq!(read(&mut session, 0, 1), [PATTERN; BLOCK]);
}

#[test]
fn an_administrator_ends_a_failed_sanitize() {
    let mut process = Process::start();
    let portal = free_portal();
    process.done("lu create disk --file disk.img --size 64M --preallocate");
    process.done(&format!("target create {TARGET} --portal {portal}"));
    process.done(&format!(
        "map add disk --every-host --target {TARGET} --lun 0"
    ));
    let mut first = log_in(portal, settings(1));
    let mut second = log_in(portal, settings(2));
    let asking = thread::spawn(move || {
        let (cdb, list) = overwrite(31);
        first.write(0, &cdb, list).map(|outcome| outcome.status)
    });
    wait_for(&mut second, Some(IN_PROGRESS), None);
    wait_for_the_first_byte(&process);
    process.kill();
    assert!(asking.join().unwrap().is_err(), "it was answered");
    process.restart();
    let mut session = log_in(portal, settings(1));
    assert_eq!(test_unit_ready(&mut session), Some(FAILED));
    let refused = process.refused("lu clear disk sanitize-failed");
    assert!(
        refused.contains("The content of its blocks is not known"),
        "{refused}"
    );
    assert_eq!(test_unit_ready(&mut session), Some(FAILED));
    process.done("lu clear disk sanitize-failed --yes");
    assert_eq!(test_unit_ready(&mut session), None);
    process.kill();
    process.restart();
    let mut session = log_in(portal, settings(1));
    assert_eq!(test_unit_ready(&mut session), None);
}
