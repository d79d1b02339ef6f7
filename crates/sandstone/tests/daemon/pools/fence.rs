//! Persistent reservations as the fence of a protected pool on disks of another machine.
//!
//! Real daemons act as hosts, and one serves the disk. Sessions of strangers look at the
//! reservations and try to write.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use initiator::connection::Connection;
use iscsi::initiator::LoginSettings;
use iscsi::pdu::Isid;
use scsi::application_client::reserving::{holder, keys};
use testing::wait;

use crate::initiator::fake_target::{self, FakeTarget, World};
use crate::pools::devices::{BLOCKS, flat, pattern, resilvered, serve, verify_all, write_all};
use crate::pools::over_iscsi::{Array, until};
use crate::process::Process;
use crate::served::{self, cdb, free_portal};

const SIZE: u64 = 128 << 20;

/// Session with an array that belongs to no host of a pool.
struct Stranger {
    session: Connection,
    portal: SocketAddr,
    settings: LoginSettings,
}

impl Stranger {
    fn of(array: &Array) -> Self {
        let settings = LoginSettings::new(
            "iqn.2026-01.io.sandstone:stranger",
            Some(array.target.clone()),
            Isid([0x80, 0, 0, 0, 0, 9]),
        );
        Self {
            session: served::log_in(array.portal, settings.clone()),
            portal: array.portal,
            settings,
        }
    }

    fn reserve_in(&mut self, action: u8) -> Vec<u8> {
        let mut cdb = [0; 16];
        (cdb[0], cdb[1], cdb[7]) = (0x5e, action, 0x10);
        loop {
            // It answers no pings, so the array ends its session if the test takes long.
            let Ok(told) = self.session.read(0, &cdb, 0x1000) else {
                self.session = served::log_in(self.portal, self.settings.clone());
                continue;
            };
            // The session first hears of other hosts' changes.
            if told.status != Some(2) {
                assert_eq!(told.status, Some(0), "{told:?}");
                return told.data_in;
            }
        }
    }

    fn reserve_out(&mut self, action: u8, key: u64, other: u64) -> Option<u8> {
        let mut cdb = [0; 16];
        (cdb[0], cdb[1], cdb[2], cdb[8]) = (0x5f, action, 5, 24);
        let list = [&key.to_be_bytes()[..], &other.to_be_bytes(), &[0; 8]].concat();
        self.session.write(0, &cdb, list).unwrap().status
    }

    fn keys(&mut self) -> Vec<u64> {
        keys(&self.reserve_in(0)).unwrap()
    }

    /// Returns the key that holds the reservation, and its type.
    fn holder(&mut self) -> Option<(u64, u8)> {
        holder(&self.reserve_in(1)).unwrap()
    }

    /// Returns the status of a write of no blocks, which harms nothing.
    fn writes(&mut self) -> Option<u8> {
        loop {
            let told = self.session.write(0, &cdb(0x8a, 0, 0), Vec::new()).unwrap();
            if told.status != Some(2) {
                return told.status;
            }
        }
    }

    fn reads(&mut self) -> Option<u8> {
        self.session.read(0, &cdb(0x88, 0, 1), 512).unwrap().status
    }

    /// Returns the key with which this number of paths of one host is registered.
    ///
    /// Nobody else is registered, and the key holds the reservation.
    fn key_of_paths(&mut self, paths: usize) -> u64 {
        let what = format!("{paths} paths are registered");
        let keys = wait::until_seen(&what, || self.keys(), |keys| keys.len() == paths);
        assert!(
            keys.iter().all(|key| *key == keys[0] && *key != 0),
            "{keys:x?}"
        );
        // Write Exclusive – Registrants Only.
        assert_eq!(self.holder(), Some((keys[0], 5)));
        assert_eq!(self.writes(), Some(0x18), "RESERVATION CONFLICT");
        assert_eq!(self.reads(), Some(0));
        keys[0]
    }

    fn nobody_is_registered(&mut self) {
        assert_eq!(self.keys(), [0; 0]);
        assert_eq!(self.holder(), None);
        assert_eq!(self.writes(), Some(0));
    }
}

/// Starts an array with two portals.
fn two_portals() -> (Array, SocketAddr) {
    let array = Array::start(1, SIZE);
    let second = free_portal();
    array.process.done(&format!(
        "target portal add {} {second} --tag 2",
        array.target
    ));
    (array, second)
}

#[test]
fn every_path_takes_part_also_a_new_one_and_nobody_else_writes() {
    let (array, second) = two_portals();
    let front = Process::start();
    array.log_in(&front);
    front.done(&format!("pool create tank {}", array.naa));
    let mut stranger = Stranger::of(&array);
    let key = stranger.key_of_paths(1);
    let status = flat(&front.done("pool status tank"));
    assert!(
        status.contains("reserved for this host (persistent reservations)"),
        "{status}"
    );
    // A path that comes later is registered before it carries anything.
    let portal = serve(&front, "64M");
    front.done(&format!(
        "initiator modify {} --portal {} --portal {second}",
        array.target, array.portal
    ));
    write_all(portal, 0..8);
    assert_eq!(stranger.key_of_paths(2), key);
    // READ FULL STATUS: both target ports.
    let full = stranger.reserve_in(3);
    let (mut rest, mut ports) = (&full[8..], Vec::new());
    while !rest.is_empty() {
        ports.push(rest[19]);
        rest = &rest[24 + usize::from(rest[23])..];
    }
    ports.sort_unstable();
    assert_eq!(ports, [1, 2], "{full:?}");
    // After an export in order, nothing is left.
    front.done("map remove vm1 --all --yes");
    front.done("lu delete vm1 --yes");
    front.done("pool export tank");
    stranger.nobody_is_registered();
    // The pool is opened again by its last host, and exported in order.
    front.done("pool import tank");
    assert_ne!(stranger.key_of_paths(2), key, "each opening has its own");
    front.done("pool destroy tank --yes");
    stranger.nobody_is_registered();
}

#[test]
fn the_fence_comes_and_goes_with_multihost_and_with_devices() {
    let (a, b) = (Array::start(1, SIZE), Array::start(2, SIZE));
    let front = Process::start();
    a.log_in(&front);
    b.log_in(&front);
    front.done(&format!("pool create -o multihost=off tank {}", a.naa));
    let (mut at_a, mut at_b) = (Stranger::of(&a), Stranger::of(&b));
    at_a.nobody_is_registered();
    front.done("pool set multihost=on tank");
    let key = at_a.key_of_paths(1);
    at_b.nobody_is_registered();
    front.done(&format!("pool attach tank {} {}", a.naa, b.naa));
    assert_eq!(at_b.key_of_paths(1), key);
    resilvered(&front);
    front.done(&format!("pool detach tank {}", a.naa));
    wait::until_seen("no key is left", || at_a.keys(), |keys| keys.is_empty());
    front.done(&format!("pool add -f tank spare {}", a.naa));
    assert_eq!(at_a.key_of_paths(1), key);
    front.done("pool set multihost=off tank");
    at_a.nobody_is_registered();
    at_b.nobody_is_registered();
}

#[test]
fn a_pool_of_local_disks_is_protected_while_it_has_another_machines_disk() {
    let array = Array::start(1, SIZE);
    let front = Process::start();
    array.log_in(&front);
    front.done("pool create --size 128M tank disk");
    let is_protected = || flat(&front.done("pool status tank")).contains("one at a time");
    assert!(!is_protected());
    let mut stranger = Stranger::of(&array);
    for (comes, leaves) in [
        ("add tank log", "remove tank"),
        ("attach tank disk", "detach tank"),
    ] {
        front.done(&format!("pool {comes} {}", array.naa));
        assert!(is_protected(), "{comes}");
        stranger.key_of_paths(1);
        if comes.starts_with("attach") {
            resilvered(&front);
        }
        front.done(&format!("pool {leaves} {}", array.naa));
        wait::until(&format!("{leaves} ends the protection"), || {
            !is_protected() && stranger.keys().is_empty()
        });
    }
    // A refused host leaves the pool as it was.
    assert_eq!(stranger.reserve_out(6, 0, 0xabc), Some(0));
    assert_eq!(stranger.reserve_out(1, 0xabc, 0), Some(0));
    let said = flat(&front.refused(&format!("pool add tank log {}", array.naa)));
    assert!(said.contains("reserved by another host"), "{said}");
    assert!(!is_protected());
    assert_eq!(stranger.keys(), [0xabc]);
}

#[test]
fn a_disk_that_another_host_has_reserved_is_taken_by_force_only() {
    let array = Array::start(1, SIZE);
    let front = Process::start();
    array.log_in(&front);
    let mut stranger = Stranger::of(&array);
    assert_eq!(stranger.reserve_out(6, 0, 0xabc), Some(0));
    assert_eq!(stranger.reserve_out(1, 0xabc, 0), Some(0));
    let said = flat(&front.refused(&format!("pool create tank {}", array.naa)));
    assert!(said.contains("reserved by another host"), "{said}");
    assert!(
        said.contains("0x0000000000000abc") && said.contains("use -f"),
        "{said}"
    );
    assert_eq!(stranger.keys(), [0xabc]);
    front.done(&format!("pool create -f tank {}", array.naa));
    stranger.key_of_paths(1);
}

#[test]
fn a_host_whose_disk_is_reserved_by_another_one_stops_and_blames_no_disk() {
    let array = Array::start(1, SIZE);
    let front = Process::start();
    array.log_in(&front);
    front.done(&format!("pool create tank {}", array.naa));
    let portal = serve(&front, "64M");
    write_all(portal, 0..4);
    let mut stranger = Stranger::of(&array);
    let key = stranger.key_of_paths(1);
    assert_eq!(stranger.reserve_out(6, 0, 0xabc), Some(0));
    // Commands are under way, and the target aborts them without an answer.
    let written = [(); 4].map(|()| Arc::<AtomicU64>::default());
    let writers: Vec<_> = (1..5_u8)
        .zip(written.clone())
        .map(|(number, written)| {
            std::thread::spawn(move || {
                let mut session = served::log_in(portal, served::settings(number));
                while served::write(&mut session, (4 + u64::from(number)) * BLOCKS, &pattern(40))
                    .status
                    == Some(0)
                {
                    written.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    wait::until("all of them write", || {
        written
            .iter()
            .all(|count| count.load(Ordering::Relaxed) >= 3)
    });
    // PREEMPT AND ABORT.
    assert_eq!(stranger.reserve_out(5, 0xabc, key), Some(0));
    let mut session = served::log_in(portal, served::settings(9));
    let told = served::write(&mut session, 0, &pattern(40));
    assert_ne!(told.status, Some(0), "it is acknowledged: {told:?}");
    for writer in writers {
        writer.join().expect("no write is acknowledged for ever");
    }
    let status = flat(&until(&front, "pool status tank", "SUSPENDED"));
    assert!(status.contains("reserved a device of the pool"), "{status}");
    assert!(status.contains("pool clear tank"), "{status}");
    assert!(!status.contains("FAULTED"), "{status}");
    let events = front.done("pool events tank");
    assert!(!events.contains("FAULTED"), "{events}");
    assert_eq!(stranger.keys(), [0xabc], "it does not come back by itself");
    // An administrator who decides that the pool is this host's takes it back.
    front.done("pool clear tank");
    stranger.key_of_paths(1);
    verify_all(portal, 0..4);
}

#[test]
fn registrations_that_are_cleared_under_a_host_that_has_the_pool_are_made_anew() {
    let (array, second) = two_portals();
    let front = Process::start();
    front.done(&format!(
        "initiator login {} --portal {} --portal {second}",
        array.target, array.portal
    ));
    until(&front, "initiator device list", &array.naa);
    front.done(&format!("pool create tank {}", array.naa));
    let portal = serve(&front, "64M");
    let mut stranger = Stranger::of(&array);
    let key = stranger.key_of_paths(2);
    // CLEAR, by a stranger who registers first.
    assert_eq!(stranger.reserve_out(6, 0, 0xabc), Some(0));
    assert_eq!(stranger.reserve_out(3, 0xabc, 0), Some(0));
    write_all(portal, 0..16);
    assert_eq!(stranger.key_of_paths(2), key);
    verify_all(portal, 0..16);
    let status = front.done("pool status tank");
    assert!(status.contains(" state: ONLINE\n"), "{status}");
}

#[test]
fn a_target_that_restarts_keeps_the_fence_and_one_that_forgets_it_gets_it_again() {
    for forgets in [false, true] {
        let mut array = Array::start(1, SIZE);
        let front = Process::start();
        array.log_in(&front);
        front.done(&format!("pool create tank {}", array.naa));
        let portal = serve(&front, "64M");
        write_all(portal, 0..4);
        let key = Stranger::of(&array).key_of_paths(1);
        array.process.kill();
        if forgets {
            std::fs::remove_dir_all(array.process.folder().join("units")).unwrap();
        }
        array.process.restart();
        write_all(portal, 4..8);
        assert_eq!(Stranger::of(&array).key_of_paths(1), key, "{forgets}");
        verify_all(portal, 0..8);
        let status = front.done("pool status tank");
        assert!(status.contains(" state: ONLINE\n"), "{status}");
    }
}

#[test]
fn a_target_without_persistent_reservations_is_used_and_the_status_says_so() {
    let mut world = World::of(&[SIZE as usize]);
    world.disks[0].data.fill(0);
    let fake = FakeTarget::honest(world);
    let front = Process::start();
    let name = fake_target::NAME;
    front.done(&format!("initiator login {name} --portal {}", fake.address));
    let naa = "naa.5000000000000001";
    until(&front, "initiator device list", naa);
    front.done(&format!("pool create tank {naa}"));
    let status = flat(&front.done("pool status tank"));
    let told = format!("without a reservation, since the target does not support it: {naa}");
    assert!(status.contains(&told), "{status}");
    write_all(serve(&front, "16M"), 0..4);
}

#[test]
fn a_host_is_killed_and_its_next_start_takes_its_own_reservation_over_at_once() {
    let array = Array::start(1, SIZE);
    let mut front = Process::start();
    array.log_in(&front);
    front.done(&format!("pool create tank {}", array.naa));
    write_all(serve(&front, "64M"), 0..4);
    let mut stranger = Stranger::of(&array);
    let before = stranger.key_of_paths(1);
    front.kill();
    assert_eq!(stranger.key_of_paths(1), before, "it stays");
    front.restart();
    until(&front, "pool status tank", " state: ONLINE\n");
    let after = stranger.key_of_paths(1);
    assert_ne!(after, before);
    assert_eq!(after >> 32, before >> 32, "it is of the same host");
}

/// A paused host with writes under way loses its pool to another one.
///
/// This is the one test that waits for the proof of another host's silence.
#[test]
fn writes_of_a_paused_host_do_not_land_after_another_one_took_its_pool() {
    let array = Array::start(1, SIZE);
    let (first, second) = (Process::start(), Process::start());
    array.log_in(&first);
    array.log_in(&second);
    first.done(&format!("pool create tank {}", array.naa));
    let portal = serve(&first, "64M");
    write_all(portal, 0..8);
    let mut stranger = Stranger::of(&array);
    let before = stranger.key_of_paths(1);
    // A writer writes all the time, and waits for the answer when the host stops.
    let written = Arc::<AtomicU64>::default();
    let count = Arc::clone(&written);
    let writer = std::thread::spawn(move || {
        let Ok(mut session) = Connection::open(portal, served::settings(3)) else {
            return;
        };
        for number in (8..16).cycle() {
            let (at, data) = (number * 512, pattern(number ^ 1));
            match session.write(0, &cdb(0x8a, at, 512), data) {
                Ok(told) if matches!(told.status, Some(0)) || told.sense.get(2) == Some(&6) => {
                    count.fetch_add(1, Ordering::Relaxed);
                }
                _ => return,
            }
        }
    });
    wait::until("it writes all the time", || {
        written.load(Ordering::Relaxed) >= 20
    });
    first.signal("STOP");
    std::thread::scope(|scope| {
        let import = scope.spawn(|| second.done("pool import -f tank"));
        until(&second, "pool import", "tank");
        // An import that did not wait would be over.
        std::thread::sleep(Duration::from_secs(2));
        // Others have their turn while the host waits. A host that only watches has registered
        // nothing.
        second.done("pool create --size 64M other disk");
        second.done("pool destroy other --yes");
        assert!(!import.is_finished(), "it waits for the proof");
        assert_eq!(stranger.key_of_paths(1), before);
        let said = flat(&import.join().unwrap());
        assert!(said.contains("watching the devices"), "{said}");
    });
    // The stranger's own session has been idle for too long.
    stranger = Stranger::of(&array);
    let after = stranger.key_of_paths(1);
    assert_ne!(after >> 32, before >> 32, "it is the other host's");
    let portal = free_portal();
    second.done("lu create vm1 --volume tank/vm1");
    second.done(&format!(
        "target create {} --portal {portal}",
        served::TARGET
    ));
    second.done(&format!(
        "map add vm1 --every-host --target {} --lun 0",
        served::TARGET
    ));
    first.signal("CONT");
    write_all(portal, 8..32);
    until(&first, "pool status tank", "SUSPENDED");
    writer.join().unwrap();
    assert_eq!(stranger.key_of_paths(1), after, "it did not come back");
    verify_all(portal, 0..32);
    second.done("pool scrub -w tank");
    let status = second.done("pool status tank");
    assert!(status.contains("with 0 errors on "), "{status}");
    assert!(status.contains("scrub repaired 0B"), "{status}");
}
