//! Events of the whole daemon: told by all of its parts, kept over restarts, followed live.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use initiator::connection::Connection;
use model::event::{Event, EventPage, Severity, Topic};
use testing::wait;

use super::process::Process;
use crate::pools::devices::{flat, serve};
use crate::served::{self, settings};

/// Returns all events, oldest first.
pub(crate) fn events(process: &Process) -> Vec<Event> {
    serde_json::from_str(&process.done("events -n 1000 --json")).unwrap()
}

/// Waits for an event, and returns it.
pub(crate) fn awaited(process: &Process, is_it: impl Fn(&Event) -> bool) -> Event {
    wait::until_ok("the event is told", || {
        let all = events(process);
        all.iter().find(|event| is_it(event)).cloned().ok_or(all)
    })
}

#[test]
fn events_of_all_parts_are_kept_over_a_kill() {
    let mut process = Process::start();
    process.done("pool create --size 128M tank mirror a b");
    let portal = serve(&process, "8M");
    let device = process.folder().join("a");
    process.done(&format!("pool offline tank {}", device.display()));
    drop(served::log_in(portal, settings(1)));
    let of =
        |topic, words: &str| awaited(&process, |it| it.topic == topic && it.text.contains(words));
    assert_eq!(of(Topic::Pool, "taken offline").severity, Severity::Warning);
    let created = of(Topic::Config, "lu vm1 created");
    assert_eq!(created.object, "lu vm1");
    let uid = rustix::process::geteuid().as_raw();
    assert!(
        created.text.contains(&format!("(uid {uid})")),
        "{created:?}"
    );
    let login = of(Topic::Login, "logged in to");
    assert_eq!(login.object, "iqn.2026-01.io.sandstone:tester");
    let ended = of(Topic::Session, "ended: closed by the initiator");
    assert_eq!(ended.severity, Severity::Warning);
    let before = events(&process);
    let first = before.first().unwrap();
    assert_eq!((first.number, first.topic), (1, Topic::Daemon));
    // What was told is on the disk a moment later.
    let file = process.folder().join("events.log");
    let written = || std::fs::read_to_string(&file).unwrap_or_default();
    wait::until_seen("the event is written", written, |text| {
        text.contains("closed by the init")
    });

    process.kill();
    process.restart();
    let after = events(&process);
    assert_eq!(after[..before.len()], before);
    let killed = &after[before.len()];
    assert_eq!(
        (killed.topic, killed.severity),
        (Topic::Daemon, Severity::Error)
    );
    assert!(killed.text.contains("did not end in order"), "{killed:?}");
    assert_eq!(killed.number, before.last().unwrap().number + 1);

    process.stop();
    process.restart();
    let all = events(&process);
    // The alert about the kill has an event of its own, if it opened in time.
    let told = all.iter().filter(|it| it.topic == Topic::Daemon);
    let kills = told.filter(|it| it.text.contains("did not end"));
    assert_eq!(kills.count(), 1, "{all:?}");
    assert!(all.iter().any(|it| it.text == "the daemon stops"));
}

#[test]
fn a_storm_of_refused_logins_is_one_event_that_says_what_to_do() {
    let process = Process::start();
    process.done("pool create --size 128M tank a");
    let portal = serve(&process, "8M");
    for port in 0..20 {
        let mut settings = settings(port);
        settings.target_name = Some("iqn.2026-01.io.sandstone:other".to_owned());
        assert!(Connection::open(portal, settings).is_err());
    }
    let all = events(&process);
    let mut refused = all.iter().filter(|it| it.text.contains("refused"));
    let told = refused.next().unwrap();
    assert_eq!(refused.next(), None, "{all:?}");
    assert_eq!(told.object, "iqn.2026-01.io.sandstone:tester");
    assert!(told.text.contains("target not found"), "{told:?}");
    let next = told.next.as_deref().unwrap();
    let line = next
        .split(" shows ")
        .next()
        .unwrap()
        .trim_start_matches("sandstone ");
    assert!(process.verb(line).0, "{line}");
}

#[test]
fn events_are_filtered_and_followed() {
    let process = Process::start();
    process.done("pool create --size 128M tank mirror a b");
    let path = process.folder().to_owned();
    let mut follower = Command::new(env!("CARGO_BIN_EXE_sandstone"))
        .arg("--state")
        .arg(&path)
        .args(["events", "-f", "-H", "-o", "severity,object,event"])
        .args(["--severity", "warning"])
        .stdout(Stdio::piped())
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    let device = path.join("a");
    process.done(&format!("pool offline tank {}", device.display()));
    let line = lines.next().unwrap().unwrap();
    let expected = format!("warning\ttank\t{} was taken offline", device.display());
    assert_eq!(line, expected);
    follower.kill().unwrap();
    follower.wait().unwrap();

    let grave = process.done("events --severity warning --since 1h");
    assert!(grave.contains("was taken offline") && !grave.contains("the daemon starts"));
    assert!(
        process
            .done("events -n 1 -H -p -o number")
            .trim()
            .parse::<u64>()
            .unwrap()
            > 1
    );
    let none = process.done("events --severity critical");
    assert_eq!(flat(&none), "no events");
    for (line, words) in [
        ("events --severity grave", "choose from info, warning"),
        (
            "events --since yesterday",
            "write a number with s, m, h or d",
        ),
        ("events -n 0", "not in 1..=1000"),
        ("events -o colour", "choose from -o time,severity,topic"),
    ] {
        let told = process.refused(line);
        assert!(told.contains(words), "{line}: {told}");
    }
}

#[test]
fn a_page_of_the_api_leads_to_the_next() {
    let process = Process::start();
    process.done("pool create --size 128M tank mirror a b");
    let device = process.folder().join("a");
    process.done(&format!("pool offline tank {}", device.display()));
    let socket = process.folder().join("control.sock");
    let client = control::Client::new(control::ControlAddress::Unix(socket));
    let ask = |after, limit| -> EventPage {
        let query = control::endpoint::event::EventQuery {
            after: Some(after),
            limit: Some(limit),
            ..Default::default()
        };
        client
            .ask(&control::endpoint::event::LIST, &[], &query, &())
            .unwrap()
    };
    let first = ask(0, 1);
    assert_eq!((first.events.len(), first.next, first.oldest), (1, 1, 1));
    let second = ask(first.next, 100);
    assert_eq!(second.events[0].number, 2);
    let refused: Result<EventPage, _> = client.ask(
        &control::endpoint::event::LIST,
        &[],
        &control::endpoint::event::EventQuery {
            limit: Some(0),
            ..Default::default()
        },
        &(),
    );
    assert!(refused.unwrap_err().next.contains("1 to 1000"));
}
