//! Snapshots between two real daemons: through a file, a pipe and TCP.
//!
//! Streams are refused, interrupted, and killed in the middle. The received data is read over
//! iSCSI.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use crate::pools::life::{log_in, pattern};
use crate::process::Process;
use crate::served::{self, BLOCK, TARGET, free_portal, read, sense, write};
use iscsi::initiator::LoginSettings;
use iscsi::pdu::Isid;
use testing::wait;

const KEY: &str = "5ca1ab1e5ca1ab1e5ca1ab1e5ca1ab1e5ca1ab1e5ca1ab1e5ca1ab1e5ca1ab1e";

/// Starts a verb, and returns the running process.
pub(crate) fn begin(process: &Process, line: &str, input: Stdio, output: Stdio) -> Child {
    Command::new(env!("CARGO_BIN_EXE_sandstone"))
        .arg("--state")
        .arg(process.folder())
        .args(line.split_whitespace())
        .env("SANDSTONE_STREAM_KEY", KEY)
        .stdin(input)
        .stdout(output)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

pub(crate) fn end(child: Child) -> (bool, String) {
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.success(), text)
}

pub(crate) fn well(child: Child) {
    let (is_done, text) = end(child);
    assert!(is_done, "{text}");
}

/// Runs `send | receive`.
pub(crate) fn pipe(from: &Process, send: &str, to: &Process, receive: &str) {
    let mut sender = begin(from, send, Stdio::null(), Stdio::piped());
    let stream = sender.stdout.take().unwrap();
    let receiver = begin(to, receive, stream.into(), Stdio::null());
    well(sender);
    well(receiver);
}

/// Starts a daemon with a volume `tank/vm1` that was written before its snapshots `one` and `two`.
pub(crate) fn source() -> Process {
    let process = Process::start();
    process.done("pool create --size 256M tank a");
    let portal = written(&process, "tank/vm1");
    process.done("volume snapshot tank/vm1@one");
    change(portal, 99);
    process.done("volume snapshot tank/vm1@two");
    process
}

/// Creates a volume with data in each of its pieces, and serves it at the returned portal.
///
/// A daemon can have only one of these volumes.
pub(crate) fn written(process: &Process, volume: &str) -> SocketAddr {
    let portal = free_portal();
    process.done(&format!("volume create -s -V 64M {volume}"));
    process.done(&format!("lu create vm1 --volume {volume}"));
    process.done(&format!("target create {TARGET} --portal {portal}"));
    process.done(&format!(
        "map add vm1 --every-host --target {TARGET} --lun 0"
    ));
    let mut session = log_in(portal);
    for number in 0..40_u8 {
        let told = write(&mut session, u64::from(number) * 64, &pattern(number));
        assert_eq!(sense(&told), None, "{number}");
    }
    portal
}

/// Writes other data into the one piece that [`assert_holds`] tells apart.
pub(crate) fn change(portal: SocketAddr, tag: u8) {
    let mut session = log_in(portal);
    assert_eq!(sense(&write(&mut session, 5 * 64, &pattern(tag))), None);
}

/// Does the work of [`change`] at a target of another name.
pub(crate) fn change_at(portal: SocketAddr, target: &str, tag: u8) {
    let settings = LoginSettings::new(
        "iqn.2026-01.io.sandstone:changer",
        Some(target.to_owned()),
        Isid([0x80, 0, 0, 0, 0, 2]),
    );
    let mut session = served::log_in(portal, settings);
    assert_eq!(sense(&write(&mut session, 5 * 64, &pattern(tag))), None);
}

/// Checks the content of a daemon's volume, as a client reads it.
pub(crate) fn assert_holds(process: &Process, volume: &str, changed: u8) {
    let portal = free_portal();
    let target = format!("{TARGET}-{}", portal.port());
    process.done(&format!("lu create look --volume {volume}"));
    process.done(&format!("target create {target} --portal {portal}"));
    process.done(&format!(
        "map add look --every-host --target {target} --lun 0"
    ));
    let settings = LoginSettings::new(
        "iqn.2026-01.io.sandstone:looker",
        Some(target.clone()),
        Isid([0x80, 0, 0, 0, 0, 1]),
    );
    let mut session = served::log_in(portal, settings);
    for number in 0..40_u8 {
        let tag = if number == 5 { changed } else { number };
        let found = read(&mut session, u64::from(number) * 64, 64);
        assert_eq!(found, pattern(tag), "{number} of {volume}");
    }
    assert_eq!(read(&mut session, 100_000, 8), vec![0; 8 * BLOCK]);
    drop(session);
    process.done(&format!("target delete --yes {target}"));
    process.done("lu delete --yes look");
}

#[test]
fn snapshots_go_from_one_daemon_to_another() {
    let (from, to) = (source(), Process::start());
    to.done("pool create --size 256M pond mirror a b");
    // Through a file.
    let path = from.folder().join("one.stream");
    let file = File::create(&path).unwrap();
    well(begin(
        &from,
        "volume send tank/vm1@one",
        Stdio::null(),
        file.into(),
    ));
    let file = File::open(&path).unwrap();
    well(begin(
        &to,
        "volume receive pond/copy",
        file.into(),
        Stdio::null(),
    ));
    assert_holds(&to, "pond/copy", 5);
    // Through a pipe, only the changes.
    let send = "volume send -i @one tank/vm1@two";
    pipe(&from, send, &to, "volume receive pond/copy");
    assert_holds(&to, "pond/copy", 99);
    assert_holds(&to, "pond/copy@one", 5);
    // The receive is refused: the volume is there, and it is served.
    let refused = |line: &str| {
        let file = File::open(&path).unwrap();
        let (is_done, text) = end(begin(&to, line, file.into(), Stdio::null()));
        assert!(!is_done, "{line}: {text}");
        text
    };
    assert!(refused("volume receive pond/copy").contains("exists already"));
    to.done("lu create busy --volume pond/copy");
    let text = refused("volume receive -F pond/copy");
    assert!(text.contains("is busy: lu busy serves it"), "{text}");
    let text = to.refused("volume receive pond/no");
    assert!(text.contains("the stream is empty"), "{text}");
    // The output names the snapshots that would be sent.
    let told = from.done("volume send -n -P -i @one tank/vm1@two");
    let words: Vec<&str> = told.split_whitespace().collect();
    assert_eq!(words[..3], ["incremental", "one", "tank/vm1@two"], "{told}");
    from.refused("volume send tank/vm1@none");
    let holds = from.done("volume get -H -o value userrefs tank/vm1@one");
    assert_eq!(holds, "0\n");
}

#[test]
fn a_stream_goes_over_tcp_to_who_knows_its_key() {
    let (from, to) = (source(), Process::start());
    to.done("pool create --size 256M pond a");
    let mut receiver = begin(
        &to,
        &format!("volume receive --listen 127.0.0.1:0 --key {KEY} pond/copy"),
        Stdio::null(),
        Stdio::null(),
    );
    let mut told = BufReader::new(receiver.stderr.take().unwrap());
    let mut line = String::new();
    told.read_line(&mut line).unwrap();
    let port = line.rsplit(':').next().unwrap();
    let port: u16 = port.trim_end().trim_end_matches('`').parse().expect(&line);
    let address = format!("127.0.0.1:{port}");
    let wrong = KEY.replace('5', "6");
    let text = from.refused(&format!(
        "volume send tank/vm1@one --key {wrong} --to {address}"
    ));
    assert!(text.contains("does not know the key"), "{text}");
    let send = format!("volume send -R tank/vm1@two --to {address}");
    well(begin(&from, &send, Stdio::null(), Stdio::null()));
    let mut rest = String::new();
    told.read_to_string(&mut rest).unwrap();
    assert!(receiver.wait().unwrap().success(), "{rest}");
    assert_holds(&to, "pond/copy", 99);
    assert_holds(&to, "pond/copy@one", 5);
    // The history goes where the pool goes; the key does not.
    let history = to.done("pool history pond");
    assert!(history.contains("volume receive --listen"), "{history}");
    assert!(!history.contains(KEY), "{history}");
}

#[test]
fn a_daemon_that_is_killed_while_it_receives_goes_on_or_forgets() {
    let (from, mut to) = (source(), Process::start());
    to.done("pool create --size 256M pond a");
    let mut sender = begin(
        &from,
        "volume send tank/vm1@one",
        Stdio::null(),
        Stdio::piped(),
    );
    let mut stream = Vec::new();
    sender
        .stdout
        .take()
        .unwrap()
        .read_to_end(&mut stream)
        .unwrap();
    well(sender);
    let half = &stream[..stream.len() / 2];
    for (name, receive) in [
        ("kept", "volume receive -s pond/kept"),
        ("lost", "volume receive pond/lost"),
    ] {
        let mut receiver = begin(&to, receive, Stdio::piped(), Stdio::null());
        receiver.stdin.as_mut().unwrap().write_all(half).unwrap();
        let list = || to.done("volume list -H -o name");
        wait::until_seen("it begins", list, |told| told.contains(name));
        // It is seen a moment before it is durable.
        to.done("pool sync pond");
        to.kill();
        assert!(!end(receiver).0);
        to.restart();
    }
    let list = to.done("volume list -H -o name");
    assert!(
        list.contains("pond/kept") && !list.contains("pond/lost"),
        "{list}"
    );
    let text = to.refused("lu create early --volume pond/kept");
    assert!(text.contains("is being received"), "{text}");
    let token = to.done("volume get -H -o value receive_resume_token pond/kept");
    let send = format!("volume send -t {}", token.trim());
    pipe(&from, &send, &to, "volume receive -s pond/kept");
    assert_holds(&to, "pond/kept", 5);
}
