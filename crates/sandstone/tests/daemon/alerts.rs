//! Alerts of a real daemon: faults are made, and found, told, acknowledged and kept.

use std::time::Duration;

use initiator::connection::Connection;
use model::alert::AlertView;
use testing::wait;

use super::events::{awaited, events};
use super::process::Process;
use crate::pools::devices::{flat, serve, write_all};
use crate::served::settings;

/// Longest wait for an alert.
const PATIENCE: Duration = Duration::from_secs(120);

/// Returns the open alerts.
pub(crate) fn open(process: &Process) -> Vec<AlertView> {
    serde_json::from_str(&process.done("alert list --json")).unwrap()
}

/// Waits for an alert, and returns it.
pub(crate) fn opened(process: &Process, condition: &str) -> AlertView {
    wait::at_most(PATIENCE).until_ok(condition, || {
        let all = open(process);
        let found = all.iter().find(|alert| alert.condition == condition);
        found.cloned().ok_or_else(|| (all, process.done("status")))
    })
}

#[test]
fn a_degraded_pool_is_an_alert_that_stays_acknowledged_over_a_kill() {
    let mut process = Process::start();
    process.done("pool create --size 128M tank mirror a b");
    process.done("pool create --size 128M pond mirror c d");
    assert_eq!(process.ended("status").0, 0);
    assert_eq!(flat(&process.done("alert list")), "no open alerts");
    let device = process.folder().join("a");
    process.done(&format!("pool offline tank {}", device.display()));
    let alert = opened(&process, "pool-degraded");
    assert_eq!(alert.object, "tank");
    // Nothing is wrong with the other pool, and nothing else with this one.
    assert_eq!(open(&process), std::slice::from_ref(&alert));
    let status = process.done("status");
    let second = status.lines().nth(1).unwrap();
    let number = alert.number;
    assert_eq!(
        second,
        format!("alert     {number}: error pool-degraded tank")
    );
    let status = flat(&status);
    let advice = format!(
        "next Online the device using 'sandstone pool online tank {}'",
        device.display()
    );
    assert!(status.contains(&advice), "{status}");
    // The alert tells the advice, so the pool's line does not repeat it.
    assert_eq!(status.matches("Online the device using").count(), 1);
    let pool = format!("pool tank DEGRADED (alert {number})");
    assert!(status.contains(&pool), "{status}");
    assert!(
        status.contains("disks 4 in 2 pools (1 not in use as they should be)"),
        "{status}"
    );
    let shown = flat(&process.done(&format!("alert show {number}")));
    for words in [
        "pool-degraded of tank, error",
        "meaning The pool serves everything, but with less redundancy",
        "look at `sandstone pool status tank` shows the device",
        "remedy Replace it with `sandstone pool replace tank DEVICE NEW`",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }

    let done = process.done(&format!("alert ack {number}"));
    assert_eq!(
        done,
        format!("alert {number} acknowledged: pool-degraded of tank\n")
    );
    process.kill();
    process.restart();
    let after = opened(&process, "pool-degraded");
    let by = after.acknowledged.expect("it is known").by;
    assert!(by.contains("uid"), "{by}");
    assert_eq!((after.number, after.since_ms), (number, alert.since_ms));
    assert!(
        process
            .done("status")
            .contains(&format!("pool-degraded tank, known to {by}"))
    );
    // A second alert tells of the kill. It is gone after an end in order.
    let killed = opened(&process, "daemon-was-killed");
    assert_eq!(open(&process).len(), 2);
    awaited(&process, |it| it.text.contains("opened: daemon-was-killed"));
    let number = killed.number;
    process.done(&format!("alert ack {number}"));
    let back = process.done(&format!("alert unack {number}"));
    assert_eq!(
        back,
        format!("alert {number} open again: daemon-was-killed of daemon\n")
    );
    let known = opened(&process, "daemon-was-killed").acknowledged;
    assert_eq!(known, None);
    let told = events(&process);
    let opened_twice = told
        .iter()
        .filter(|it| it.text.contains("opened: pool-degraded"));
    assert_eq!(opened_twice.count(), 1, "{told:?}");
    for (line, words) in [
        (
            "alert ack 999",
            "sandstone alert list shows the open alerts",
        ),
        ("alert show 999", "there is no alert 999"),
        (
            "alert ack tank",
            "write the number that `sandstone alert list` shows",
        ),
    ] {
        let refused = process.refused(line);
        assert!(refused.contains(words), "{line}: {refused}");
    }
}

#[test]
fn a_pool_that_fills_and_one_that_is_missing_are_alerts() {
    let mut process = Process::start();
    process.done("pool create --size 128M tank a");
    process.done("pool create --size 128M pond c");
    let portal = serve(&process, "256M");
    // Some of the writes may fail: the pool is full then.
    let filled = std::panic::catch_unwind(|| write_all(portal, 0..600));
    assert!(filled.is_err(), "the pool is never full");
    let full = opened(&process, "unit-full");
    assert_eq!(full.object, "vm1");
    assert!(full.next.contains("volume list -t all -r -S used tank"));
    assert_eq!(opened(&process, "pool-full").object, "tank");
    assert_eq!(process.ended("status").0, 4);

    process.stop();
    let (device, away) = (process.folder().join("c"), process.folder().join("away"));
    std::fs::rename(&device, &away).unwrap();
    process.restart();
    let missing = opened(&process, "pool-not-open");
    assert_eq!(missing.object, "pond");
    // The unit that was full before the restart is not forgotten: it is the same alert.
    assert_eq!(opened(&process, "unit-full").number, full.number);
}

#[test]
fn logins_that_are_refused_again_and_again_are_an_alert_with_the_reason() {
    let process = Process::start();
    process.done("pool create --size 128M tank a");
    let portal = serve(&process, "8M");
    for port in 0..5 {
        let mut settings = settings(port);
        settings.target_name = Some("iqn.2026-01.io.sandstone:other".to_owned());
        assert!(Connection::open(portal, settings).is_err());
    }
    let alert = opened(&process, "login-refused-repeatedly");
    assert_eq!(alert.object, "iqn.2026-01.io.sandstone:tester");
    assert!(alert.text.contains("target not found"), "{alert:?}");
    assert!(
        alert
            .next
            .contains("map explain iqn.2026-01.io.sandstone:tester")
    );
    // The initiator is let in: the alert asks for nothing more, and ends by itself.
    Connection::open(portal, settings(9)).expect("it is mended");
    let open = || {
        let mut all = open(&process);
        all.retain(|alert| alert.condition == "login-refused-repeatedly");
        all
    };
    let left = wait::at_most(PATIENCE).until_seen("it no longer holds", open, |open| {
        let mut texts = open.iter().map(|alert| &alert.text);
        texts.all(|text| text.starts_with("This no longer holds: "))
    });
    for alert in left {
        assert!(alert.next.starts_with("nothing: "), "{alert:?}");
    }
}
