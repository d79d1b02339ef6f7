//! Time limits of the adapter: set, shown, kept, and in force at once.

use std::time::{Duration, Instant};

use testing::wait;

use super::{DEVICE, back, front, log_in, run, until};
use crate::served::{BLOCK, TARGET, cdb, log_in as session, settings, write};

#[test]
fn times_are_set_shown_and_kept_without_losing_a_session() {
    let (back, mut front) = (back(), front());
    let folder = front.folder().to_owned();
    let state = &*folder;
    log_in(&front, &back, 2);
    let get = || run(state, "initiator adapter get").good();
    let device = || run(state, &format!("initiator device get -d {DEVICE}")).good();
    let sessions = || run(state, "initiator session list -H -o c,logins,times").good();
    let defaults = "ping=250ms,dead=450ms,idle=5s,alone=10s,login=5s,command=30s";
    assert_eq!(
        sessions(),
        format!("C0\t1\t{defaults}\nC1\t1\t{defaults}\n")
    );
    assert!(
        get().contains("APD Timeout: 140s (by default)\n"),
        "{}",
        get()
    );
    assert!(device().contains("Fence Timeout: 140s\n"), "{}", device());
    assert!(
        get().contains("Fence Settle: by vendor (by default)\n"),
        "{}",
        get()
    );
    assert!(device().contains("Fence Settle: 0s\n"), "{}", device());

    let line = "initiator adapter set --apd-timeout 5m --fence-timeout never --fence-settle 2500ms --ping-after 300ms --dead-after 600ms --idle-ping-after 2s --dead-after-alone 20s --retry-first 200ms --retry-most 3s";
    let said = run(state, &format!("{line} --dry-run")).good();
    assert!(said.contains("times.apd_timeout_s        300\n"), "{said}");
    assert!(
        get().contains("APD Timeout: 140s (by default)\n"),
        "{}",
        get()
    );
    let said = run(state, line).good();
    assert!(
        said.starts_with("setting initiator: times.apd_timeout_s - -> 300"),
        "{said}"
    );
    let said = run(state, line).good();
    assert_eq!(
        said,
        "nothing to change: the configuration already says so\n"
    );
    let shown = [
        "APD Timeout: 300s",
        "Fence Timeout: never",
        "Fence Settle: 2500ms",
        "Ping After: 300ms",
        "Dead After: 600ms",
        "Idle Ping After: 2s",
        "Dead After, Alone: 20s",
        "First Retry: 200ms",
        "Longest Retry: 3s",
    ];
    let check = || {
        let got = get();
        for line in shown {
            assert!(got.contains(&format!("   {line}\n")), "{line}: {got}");
        }
        let device = device();
        for line in &shown[..3] {
            assert!(device.contains(&format!("   {line}\n")), "{line}: {device}");
        }
    };
    check();
    // The sessions are the same as before: one login each.
    let times = "ping=300ms,dead=600ms,idle=2s,alone=20s,login=5s,command=30s";
    assert_eq!(sessions(), format!("C0\t1\t{times}\nC1\t1\t{times}\n"));
    // The times of a login have priority.
    run(
        state,
        &format!(
            "initiator modify {TARGET} --ping-after 100 --login-timeout 9 --command-timeout 1m"
        ),
    )
    .good();
    let times = "ping=100ms,dead=600ms,idle=2s,alone=20s,login=9s,command=60s";
    assert_eq!(sessions(), format!("C0\t1\t{times}\nC1\t1\t{times}\n"));

    front.restart();
    until(
        state,
        "initiator session list -H -o c,state,luns",
        "C0\tlogged-in\t0\nC1\tlogged-in\t0\n",
    );
    check();
    assert_eq!(sessions(), format!("C0\t1\t{times}\nC1\t1\t{times}\n"));
    let json = run(state, "initiator adapter get --json").good();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["times"]["fence_timeout_ms"], "never");
    assert_eq!(json["chosen_times"]["apd_timeout_s"], 300);
    let file = run(state, "config show").good();
    assert!(
        file.contains("[initiator.times]") && file.contains("fence_timeout_ms = \"never\""),
        "{file}"
    );

    run(
        state,
        "initiator adapter set --default-times --retry-most 9s",
    )
    .good();
    let got = get();
    assert!(got.contains("APD Timeout: 140s (by default)\n"), "{got}");
    assert!(got.contains("Longest Retry: 9s\n"), "{got}");
}

#[test]
fn times_that_make_no_sense_are_refused_with_those_that_do() {
    let (back, front) = (back(), front());
    let state = front.folder();
    log_in(&front, &back, 1);
    let before = run(state, "initiator adapter get").good();
    for (options, wanted) in [
        ("--apd-timeout 28h", "use 0 to 99999 seconds"),
        (
            "--fence-timeout 300ms",
            "use 5000 to 99999000 milliseconds, or never",
        ),
        ("--fence-settle 11m", "use 0 to 600000 milliseconds"),
        ("--ping-after 1ms", "ping_after_ms cannot be 1"),
        ("--retry-most 11m", "use 10 to 600000 milliseconds"),
        ("--retry-first 6s", "later than the longest wait, 5s"),
        (
            "--dead-after 900ms --dead-after-alone 800ms",
            "other sessions only after 900ms",
        ),
    ] {
        let error = run(state, &format!("initiator adapter set {options}")).bad();
        assert!(error.contains(wanted), "{options}: {error}");
    }
    for (options, wanted) in [
        ("--apd-timeout 60", "write a number with ms, s, m or h"),
        ("--apd-timeout 1500ms", "not a whole number of seconds"),
        ("--fence-timeout always", "or never"),
    ] {
        let ran = run(state, &format!("initiator adapter set {options}"));
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(ran.err.contains(wanted), "{options}: {}", ran.err);
    }
    for seconds in ["0", "3601"] {
        let line = format!("initiator modify {TARGET} --command-timeout {seconds}");
        let error = run(state, &line).bad();
        assert!(error.contains("use 1 to 3600 seconds"), "{error}");
    }
    assert_eq!(run(state, "initiator adapter get").good(), before);
}

#[test]
fn a_shorter_apd_timeout_ends_an_outage_under_way() {
    let (mut back, front) = (back(), front());
    let folder = front.folder().to_owned();
    let state = &*folder;
    log_in(&front, &back, 1);
    run(state, &format!("lu create gw --backend {DEVICE}")).good();
    run(state, "map add gw --every-host --lun 0").good();
    let mut connection = session(front.portal, settings(1));
    back.stop();
    until(state, "lu list -H -o state", "fault: all paths are down");
    let waits = std::thread::spawn(move || {
        let outcome = connection.write(0, &cdb(0x8a, 0, 1), vec![1; BLOCK]);
        (outcome.unwrap().status, Instant::now())
    });
    until(state, "initiator device list -H -o qued", "1");
    let set = Instant::now();
    run(state, "initiator adapter set --apd-timeout 1s").good();
    let (status, ended) = waits.join().unwrap();
    assert_eq!(status, Some(2), "CHECK CONDITION");
    assert!(ended.duration_since(set) < Duration::from_secs(20));
    // The login goes on when its array is there again.
    back.restart();
    until(state, "lu list -H -o state", "online\n");
    let mut connection = session(front.portal, settings(2));
    assert_eq!(write(&mut connection, 0, &[2; BLOCK]).status, Some(0));
}

#[test]
fn a_shorter_wait_between_logins_holds_for_who_waits_already() {
    let (mut back, front) = (back(), front());
    let state = front.folder();
    run(
        state,
        "initiator adapter set --retry-first 10m --retry-most 10m",
    )
    .good();
    let portal = back.portal;
    back.stop();
    run(
        state,
        &format!("initiator login {TARGET} --portal {portal} --no-wait"),
    )
    .good();
    until(state, "initiator session list -H -o state", "down\n");
    let retry = || run(state, "initiator session list -H -p -o retry").good();
    wait::until_seen("it tries again late", retry, |told| {
        told.trim().parse().unwrap_or(0.0) >= 500.0
    });
    back.restart();
    run(state, "initiator adapter set --default-times").good();
    until(state, "initiator session list -H -o state", "logged-in\n");
}
