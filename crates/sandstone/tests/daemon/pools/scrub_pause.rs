//! Scrubs that are paused, go on, and are stopped, by the command line.
//!
//! The pool lies on a disk of another daemon behind a link that can be slowed down. The middle of a
//! scrub therefore lasts as long as the test needs.

use std::time::Duration;

use serde_json::Value;
use testing::wait;

use crate::initiator::proxy::Proxy;
use crate::pools::devices::{flat, serve, verify_all, write_all};
use crate::pools::over_iscsi::Array;
use crate::process::Process;

/// Writes of 256 KiB: 48 MiB, three times the bytes that a scrub has under way at once.
const WRITES: std::ops::Range<u64> = 0..192;
/// Bytes that a scrub has under way at once.
const UNDER_WAY: u64 = 16 << 20;
/// Bytes per second of the slow link.
const SLOW: u64 = 6 << 20;

/// Sets up a pool that is full enough, on a disk behind a link.
fn behind_a_link() -> (Array, Proxy, Process, std::net::SocketAddr) {
    let array = Array::start(1, 128 << 20);
    let link = Proxy::start(array.portal);
    let front = Process::start();
    front.done(&format!(
        "initiator login {} --portal {}",
        array.target, link.address
    ));
    front.done(&format!("pool create tank {}", array.naa));
    let portal = serve(&front, "64M");
    write_all(portal, WRITES);
    (array, link, front, portal)
}

fn scan(process: &Process) -> Value {
    let told = process.done("pool status --json tank");
    let told: Value = serde_json::from_str(&told).expect(&told);
    told[0]["scan_status"].clone()
}

fn number(scan: &Value, name: &str) -> u64 {
    scan[name].as_u64().expect(name)
}

/// Waits until a scrub has done more than its first requests, and returns its status.
fn in_the_middle(process: &Process) -> Value {
    let look = || {
        let now = scan(process);
        assert_eq!(now["state"], "running", "{now}");
        now
    };
    wait::until_seen("the scrub goes on", look, |now| {
        number(now, "issued") > UNDER_WAY + (4 << 20)
    })
}

#[test]
fn a_paused_scrub_goes_on_where_it_was() {
    let (_array, link, process, portal) = behind_a_link();
    let refused = flat(&process.refused("pool scrub -p tank"));
    assert!(
        refused.contains("cannot pause scrubbing tank: there is no active scrub")
            && refused.contains("sandstone pool status tank"),
        "{refused}"
    );
    // Number of bytes that the link carries for an uninterrupted scrub.
    let before = link.bytes_from_portal();
    process.done("pool scrub -w tank");
    let whole = link.bytes_from_portal() - before;

    let before = link.bytes_from_portal();
    link.set_pace(SLOW);
    process.done("pool scrub tank");
    in_the_middle(&process);
    let refused = flat(&process.refused("pool scrub tank"));
    assert!(
        refused.contains("a scrub is in progress; stop it with -s, or pause it with -p"),
        "{refused}"
    );
    process.done("pool scrub -p tank");
    link.set_pace(0);
    let paused = scan(&process);
    assert_eq!(paused["state"], "paused", "{paused}");
    let (issued, total) = (number(&paused, "issued"), number(&paused, "total"));
    assert!(issued > UNDER_WAY && issued < total, "{paused}");
    let told = flat(&process.done("pool status tank"));
    assert!(told.contains("scrub paused; it was started on "), "{told}");
    let refused = flat(&process.refused("pool scrub -p tank"));
    assert!(refused.contains("there is no active scrub"), "{refused}");
    // The scrub stays paused, also if checkpoints are made and a client writes.
    write_all(portal, 0..4);
    wait::throughout(Duration::from_secs(1), || {
        let rests = scan(&process);
        assert_eq!(rests["state"], "paused");
        assert_eq!(number(&rests, "issued"), issued, "{rests}");
    });

    process.done("pool scrub -w tank");
    let ended = scan(&process);
    assert_eq!(ended["state"], "finished", "{ended}");
    assert_eq!(ended["started_s"], paused["started_s"], "the same scrub");
    assert_eq!(ended["errors"], 0, "{ended}");
    // Data that was overwritten meanwhile is not looked for any more.
    assert!(number(&ended, "issued") + (2 << 20) > total, "{ended}");
    // A scrub from the beginning would have read more than a third of it twice.
    let read = link.bytes_from_portal() - before;
    assert!(read < whole + whole / 6, "{read} of {whole}");
    verify_all(portal, WRITES);
}

#[test]
fn a_stopped_scrub_is_over() {
    let (_array, link, process, portal) = behind_a_link();
    let refused = flat(&process.refused("pool scrub -s tank"));
    assert!(
        refused.contains("cannot cancel scrubbing tank: there is no active scrub"),
        "{refused}"
    );
    for is_paused in [false, true] {
        link.set_pace(SLOW);
        process.done("pool scrub tank");
        in_the_middle(&process);
        if is_paused {
            process.done("pool scrub -p tank");
        }
        process.done("pool scrub -s tank");
        link.set_pace(0);
        let stopped = scan(&process);
        assert_eq!(stopped["state"], "canceled", "{stopped}");
        assert!(
            number(&stopped, "issued") < number(&stopped, "total"),
            "{stopped}"
        );
        let told = process.done("pool status tank");
        assert!(told.contains("  scan: scrub canceled on "), "{told}");
        process.refused("pool scrub -s tank");
        process.refused("pool scrub -p tank");
    }
    // Another scrub begins, and sees everything.
    process.done("pool scrub -w tank");
    let ended = scan(&process);
    assert_eq!(ended["state"], "finished", "{ended}");
    assert!(
        number(&ended, "issued") + (2 << 20) > number(&ended, "total"),
        "{ended}"
    );
    let events = process.done("pool events -H -o event tank");
    assert_eq!(events.matches("scrub canceled").count(), 2, "{events}");
    verify_all(portal, WRITES);
}
