//! Disks of other machines that come back to their pool.
//!
//! They come back by themselves if nothing was lost. Otherwise the administrator decides, and
//! follows the advice. Real daemons are used by the command line, and the advice is typed as it is
//! printed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use testing::wait;
use testing::wait::Wait;

use crate::initiator::fake_target::{FakeTarget, NAME, World};
use crate::pools::devices::{
    flat, line_of, pattern, resilvered, scrubbed_clean, serve, verify_all, write_all,
};
use crate::pools::over_iscsi::{Array, mirrored, until};
use crate::pools::units::{self, copies};
use crate::process::Process;
use crate::served::{self, settings};

/// Returns the commands that a text advises, without the name of the program.
fn advised(text: &str) -> Vec<String> {
    let text = flat(text);
    let quoted = text.split(['`', '\'']);
    let commands = quoted.filter_map(|part| part.strip_prefix("sandstone "));
    commands.map(str::to_owned).collect()
}

/// Sets up a mirror of which one half was opened alone after the other half was used alone.
///
/// The first half has blocks 0 to 8, the second has 0 to 24.
fn parted() -> (Array, Array, Process, std::net::SocketAddr) {
    let (mut a, mut b, mut front) = mirrored();
    let portal = serve(&front, "64M");
    write_all(portal, 0..8);
    a.process.kill();
    write_all(portal, 8..24);
    until(&front, "pool status tank", "DEGRADED");
    b.process.kill();
    front.kill();
    a.process.restart();
    front.restart();
    let status = until(&front, "pool status tank", "waits for");
    let import = advised(&status);
    front.done(
        import
            .iter()
            .find(|line| line.starts_with("pool import"))
            .unwrap(),
    );
    b.process.restart();
    until(&front, "pool status tank", "was used without the other");
    (a, b, front, portal)
}

/// Types the command that the status advises, and then the commands that its refusal advises.
fn choices(front: &Process, naa: &str) -> Vec<String> {
    let status = front.done("pool status tank");
    let mut lines = advised(&status);
    assert!(!lines.is_empty(), "{status}");
    let first = lines.remove(0).replace("DEVICE", naa);
    assert_eq!(first, format!("pool online tank {naa}"), "{status}");
    let refused = front.refused(&first);
    let lines = advised(&refused);
    assert!(lines.len() >= 2, "{refused}");
    lines
}

#[test]
fn what_went_on_alone_is_given_up_as_advised() {
    let (_a, b, front, portal) = parted();
    let lines = choices(&front, &b.naa);
    assert!(lines[0].starts_with("pool replace -f"), "{lines:?}");
    front.done(&lines[0]);
    let status = resilvered(&front);
    assert!(status.contains(" state: ONLINE\n"), "{status}");
    verify_all(portal, 0..8);
    scrubbed_clean(&front);
    write_all(portal, 0..4);
}

#[test]
fn what_went_on_alone_is_gone_on_with_as_advised() {
    let (a, b, front, portal) = parted();
    let lines = choices(&front, &b.naa);
    assert!(lines[1].starts_with("pool export -f"), "{lines:?}");
    front.done(&lines[1]);
    // With both halves there is nothing to open, and the refusal says so.
    let refused = flat(&front.refused("pool import tank"));
    assert!(
        refused.contains("each has acknowledged changes"),
        "{refused}"
    );
    assert!(refused.contains("pool import -f -d"), "{refused}");
    front.done(&lines[2]);
    until(&front, "lu list -H -o state", "online");
    verify_all(portal, 0..24);
    // Now the other half went on alone.
    until(&front, "pool status tank", "was used without the other");
    let lines = choices(&front, &a.naa);
    front.done(&lines[0]);
    let status = resilvered(&front);
    assert!(status.contains(" state: ONLINE\n"), "{status}");
    verify_all(portal, 0..24);
    scrubbed_clean(&front);
}

type Session = initiator::connection::Connection;

const BUSY: u8 = 8;

/// Wait for a pool whose devices were away.
const RETURN: Wait = wait::at_most(Duration::from_secs(90));

/// Writes blocks, again if the unit is busy, and returns how often it was busy.
fn write_patiently(session: &mut Session, numbers: std::ops::Range<u64>) -> u32 {
    let mut busy = 0;
    for number in numbers {
        let at = number * pattern(0).len() as u64 / 512;
        RETURN.until("the pool is back", || {
            let told = served::write(session, at, &pattern(number));
            let is_done = told.status == Some(0);
            assert!(is_done || told.status == Some(BUSY), "{told:?}");
            busy += u32::from(!is_done);
            is_done
        });
    }
    busy
}

#[test]
fn a_pool_without_redundancy_goes_on_when_its_disk_is_back() {
    let mut array = Array::start(1, 128 << 20);
    let front = Process::start();
    array.log_in(&front);
    front.done(&format!("pool create tank {}", array.naa));
    let portal = serve(&front, "64M");
    write_all(portal, 0..16);
    let mut session = served::log_in(portal, settings(3));
    array.process.kill();
    let writer = std::thread::spawn(move || {
        let busy = write_patiently(&mut session, 16..48);
        (busy, session)
    });
    let status = until(&front, "pool status tank", "SUSPENDED");
    assert!(flat(&status).contains("automatically"), "{status}");
    array.process.restart();
    // The old session goes on, and no acknowledged write is lost.
    let (busy, mut session) = writer.join().expect("it goes on");
    assert!(busy > 0);
    let status = front.done("pool status tank");
    assert!(status.contains(" state: ONLINE\n"), "{status}");
    verify_all(portal, 0..48);
    write_patiently(&mut session, 0..4);
    scrubbed_clean(&front);
}

#[test]
fn a_spare_that_was_away_at_the_start_stands_ready_when_it_is_back() {
    let (a, b) = (Array::start(1, 128 << 20), Array::start(2, 128 << 20));
    let mut c = Array::start(3, 128 << 20);
    let mut front = Process::start();
    for array in [&a, &b, &c] {
        array.log_in(&front);
    }
    front.done(&format!(
        "pool create tank mirror {} {} spare {}",
        a.naa, b.naa, c.naa
    ));
    c.process.kill();
    front.kill();
    front.restart();
    until(&front, "pool status tank", "UNAVAIL");
    c.process.restart();
    let line = || line_of(&front, &c.naa);
    wait::until_seen("the spare is back", line, |line| line[0] == "AVAIL");
    // The disk is of use.
    let portal = serve(&front, "64M");
    drop(b);
    write_all(portal, 0..8);
    let status = resilvered(&front);
    assert!(status.contains("INUSE"), "{status}");
}

/// LUN 1, as it is coded on the wire.
const LUN_1: u64 = 1 << 48;

/// Maps a unit over the disk of that name, writes to all of it, and takes the unit away again.
fn scribble(front: &Process, portal: std::net::SocketAddr, naa: &str) {
    front.done(&format!("lu create disk --backend {naa}"));
    front.done(&format!(
        "map add disk --every-host --target {} --lun 1",
        served::TARGET
    ));
    let mut session = served::log_in(portal, settings(9));
    // Until the unit has reported all unit attentions.
    while session.read(LUN_1, &[0; 6], 0).expect("a session").status != Some(0) {}
    // Behind the labels, where the pool's first blocks lie.
    for at in 2..32_u64 {
        let cdb = served::cdb(0x8a, at * 2048, 2048);
        let told = session.write(LUN_1, &cdb, vec![0x5a; 1 << 20]);
        let told = told.expect("a session");
        assert_eq!(told.status, Some(0), "{told:?}");
    }
    front.done("lu delete disk --yes");
}

#[test]
fn a_disk_that_a_unit_had_meanwhile_is_not_taken_for_what_it_was() {
    let (_a, b, mut front) = mirrored();
    let portal = serve(&front, "64M");
    write_all(portal, 0..24);
    front.done(&format!("pool offline tank {}", b.naa));
    scribble(&front, portal, &b.naa);
    // A daemon that was started since knows it too.
    front.kill();
    front.restart();
    let refused = front.refused(&format!("pool online tank {}", b.naa));
    assert!(flat(&refused).contains("lu disk used"), "{refused}");
    let lines = advised(&refused);
    front.done(&lines[0]);
    let status = resilvered(&front);
    assert!(status.contains(" state: ONLINE\n"), "{status}");
    scrubbed_clean(&front);
    verify_all(portal, 0..24);
}

/// Behaviour of the scripted half of a mirror.
const HONEST: u8 = 0;
const FLUSH_FAILS_ONCE: u8 = 1;
const SILENT: u8 = 2;

/// Sets up a mirror of a scripted disk and an honest one.
fn half_scripted() -> (FakeTarget, Arc<AtomicU8>, String, Array, Process) {
    let manner = Arc::new(AtomicU8::new(HONEST));
    let told = Arc::clone(&manner);
    let fake = FakeTarget::start(World::of(&[128 << 20]), move |peer, command| {
        match (told.load(Ordering::Relaxed), command.opcode()) {
            (FLUSH_FAILS_ONCE, 0x91) => {
                told.store(HONEST, Ordering::Relaxed);
                peer.sense(command, [3, 0x0c, 0])
            }
            (SILENT, _) => Ok(true),
            _ => Ok(false),
        }
    });
    let array = Array::start(2, 128 << 20);
    let front = Process::start();
    array.log_in(&front);
    front.done(&format!("initiator login {NAME} --portal {}", fake.address));
    let naa = "naa.5000000000000001".to_owned();
    front.done(&format!("pool create -f tank mirror {naa} {}", array.naa));
    (fake, manner, naa, array, front)
}

#[test]
fn a_disk_that_failed_a_flush_is_used_again_when_it_is_rebuilt() {
    let (_fake, manner, naa, _array, front) = half_scripted();
    let portal = serve(&front, "64M");
    write_all(portal, 0..8);
    manner.store(FLUSH_FAILS_ONCE, Ordering::Relaxed);
    // Each change of the catalogue is a checkpoint, which flushes.
    front.done("volume create -s -V 1M tank/x");
    until(&front, "pool status tank", "FAULTED");
    let lines = advised(&front.done("pool status tank"));
    let clear = lines.iter().find(|line| line.contains("clear"));
    front.done(&clear.expect("it is advised").replace("DEVICE", &naa));
    let status = resilvered(&front);
    assert!(status.contains(" state: ONLINE\n"), "{status}");
    front.done("volume create -s -V 1M tank/y");
    write_all(portal, 8..16);
    scrubbed_clean(&front);
    let status = front.done("pool status tank");
    assert!(status.contains(" state: ONLINE\n"), "{status}");
}

#[test]
fn a_disk_that_answers_nothing_but_pings_is_used_again_when_it_answers() {
    let (_fake, manner, naa, _array, front) = half_scripted();
    let portal = serve(&front, "64M");
    write_all(portal, 0..8);
    manner.store(SILENT, Ordering::Relaxed);
    write_all(portal, 8..16);
    until(&front, "pool status tank", "DEGRADED");
    let state = line_of(&front, &naa)[0].clone();
    assert_eq!(state, "REMOVED");
    write_all(portal, 16..24);
    manner.store(HONEST, Ordering::Relaxed);
    let status = resilvered(&front);
    assert!(status.contains(" state: ONLINE\n"), "{status}");
    verify_all(portal, 0..24);
    scrubbed_clean(&front);
}

/// Returns key and additional sense of SYNCHRONIZE CACHE (16) once the unit is not busy; `None` for
/// GOOD.
fn flushed(session: &mut Session) -> Option<[u8; 3]> {
    let flush = || {
        let told = session.read(0, &served::cdb(0x91, 0, 0), 0);
        told.expect("a session")
    };
    let told = RETURN.until_seen("the pool is back", flush, |told| told.status != Some(BUSY));
    served::sense(&told)
}

#[test]
fn writes_that_were_not_flushed_when_a_pool_stopped_are_not_flushed_with_success() {
    const WRITE_ERROR: Option<[u8; 3]> = Some([3, 0x0c, 0]);
    let mut array = Array::start(1, 128 << 20);
    let front = Process::start();
    array.log_in(&front);
    front.done(&format!("pool create tank {}", array.naa));
    let portal = serve(&front, "64M");
    front.done("volume create -s -V 1M tank/other");
    front.done("lu modify vm1 --write-cache yes");
    let mut session = served::log_in(portal, settings(4));
    write_patiently(&mut session, 0..4);
    assert_eq!(flushed(&mut session), None);
    array.process.kill();
    // The write is acknowledged, but on no disk.
    let told = served::write(&mut session, 0, &pattern(7));
    assert_eq!(told.status, Some(0), "{told:?}");
    // For what was just written.
    let mut copier = units::Session(served::log_in(portal, settings(5)));
    let token = copies::token(&mut copier, 0, 1, &[(0, 8)]);
    until(&front, "pool status tank", "SUSPENDED");
    array.process.restart();
    assert_eq!(flushed(&mut session), WRITE_ERROR);
    let told = copies::write_using(&mut copier, 0, 2, &token, &[(65_536, 8)]);
    assert_eq!(served::sense(&told), Some([5, 0x23, 6]), "TOKEN REVOKED");
    let status = flat(&front.done("pool status tank"));
    assert!(
        status.contains("Unflushed writes to tank/vm1 are lost;"),
        "{status}"
    );
    assert_eq!(flushed(&mut session), WRITE_ERROR);
    let lines = advised(&status);
    front.done(&lines[0]);
    assert_eq!(flushed(&mut session), None);
    let status = front.done("pool status tank");
    assert!(status.contains("errors: No known data errors"), "{status}");
    // The data that was flushed before is there.
    verify_all(portal, 1..4);
}

#[test]
fn the_start_waits_for_no_target_that_no_pool_was_seen_at() {
    let arrays = [1, 2].map(|number| Array::start(number, 128 << 20));
    // The listener takes connections, and says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let portal = silent.local_addr().expect("bound");
    let mut front = Process::start();
    for (name, array) in ["tank", "pond"].iter().zip(&arrays) {
        array.log_in(&front);
        front.done(&format!("pool create {name} {}", array.naa));
    }
    // The login is configured, but is not established.
    let said = front.refused(&format!(
        "initiator login iqn.2026-01.org.example:silent --portal {portal} --login-timeout 15"
    ));
    assert!(said.contains("the daemon keeps trying"), "{said}");
    front.kill();
    drop(arrays);
    front.restart();
    let sessions = front.done("initiator session list --json");
    let sessions: serde_json::Value = serde_json::from_str(&sessions).expect("JSON");
    let sessions = sessions.as_array().expect("a list");
    let is_it =
        |session: &&serde_json::Value| session["target"] == "iqn.2026-01.org.example:silent";
    let session = sessions.iter().find(is_it).expect("it is configured");
    assert_eq!(
        session["failures"], 0,
        "nobody waited for it to fail: {session}"
    );
}
