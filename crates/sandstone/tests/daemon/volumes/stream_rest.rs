//! The rest of an interrupted stream brings everything that the stream would have brought.
//!
//! With `send -R`, this includes properties that volumes inherit from sent folders.

use std::io::{Read as _, Write as _};
use std::process::Stdio;

use super::stream::{assert_holds, begin, change, end, pipe, well, written};
use crate::process::Process;

/// Returns a stream as bytes.
pub(crate) fn sent(from: &Process, send: &str) -> Vec<u8> {
    let mut sender = begin(from, send, Stdio::null(), Stdio::piped());
    let mut stream = Vec::new();
    let mut output = sender.stdout.take().unwrap();
    output.read_to_end(&mut stream).unwrap();
    well(sender);
    stream
}

/// Gives a receiver these bytes and no more.
pub(crate) fn receive(to: &Process, line: &str, bytes: &[u8]) -> (bool, String) {
    let mut receiver = begin(to, line, Stdio::piped(), Stdio::null());
    // A receiver that refuses does not take the rest.
    let _ = receiver.stdin.take().unwrap().write_all(bytes);
    end(receiver)
}

/// Interrupts a stream in its last quarter; returns the token of the part that `volume` has
/// received.
fn interrupted(to: &Process, name: &str, volume: &str, stream: &[u8]) -> String {
    let cut = &stream[..stream.len() * 3 / 4];
    let (is_done, text) = receive(to, &format!("volume receive -s {name}"), cut);
    assert!(!is_done, "{text}");
    let token = to.done(&format!(
        "volume get -H -o value receive_resume_token {volume}"
    ));
    let token = token.trim().to_owned();
    // The message says what to do, and that nothing is lost.
    let advice =
        format!("`sandstone volume send -t {token}` into `sandstone volume receive -s {volume}`");
    assert!(
        text.contains(&advice) && text.contains("is kept"),
        "{advice}: {text}"
    );
    token
}

/// Returns the properties that came with a stream, from `volume get`.
fn received(process: &Process, volume: &str) -> String {
    process.done(&format!(
        "volume get -H -o property,value -s received all {volume}"
    ))
}

/// Starts a daemon with a written volume `tank/f/g/v` and its snapshot `one`.
fn source() -> (Process, std::net::SocketAddr) {
    let process = Process::start();
    process.done("pool create --size 256M tank a");
    process.done("volume create -p tank/f/g");
    let portal = written(&process, "tank/f/g/v");
    process.done("volume set my:own=v tank/f/g/v");
    process.done("volume snapshot -r tank/f@one");
    (process, portal)
}

/// Changes the volume of [`source`], and the folders' properties, after the first stream.
fn go_on(process: &Process, portal: std::net::SocketAddr) {
    for (folder, property) in [
        ("tank", "my:pool=no"),
        ("tank/f", "my:above=f"),
        ("tank/f", "my:both=f"),
        ("tank/f", "compression=zstd-7"),
        ("tank/f/g", "my:both=g"),
        ("tank/f/g", "sync=always"),
    ] {
        process.done(&format!("volume set {property} {folder}"));
    }
    change(portal, 91);
    process.done("volume snapshot -r tank/f@two");
}

const EXPECTED: &str = "compression\tzstd-7\nsync\talways\nmy:above\tf\nmy:both\tg\nmy:own\tv\n";

#[test]
fn the_rest_of_a_package_brings_what_folders_pass_on() {
    let ((from, portal), mut to) = (source(), Process::start());
    to.done("pool create --size 256M pond a");
    for copy in ["pond/fresh", "pond/copy"] {
        let whole = "volume send -R tank/f@one";
        pipe(&from, whole, &to, &format!("volume receive -p {copy}"));
        assert_eq!(received(&to, &format!("{copy}/g/v")), "my:own\tv\n");
    }
    go_on(&from, portal);
    let send = "volume send -R -i @one tank/f@two";
    let changes = sent(&from, send);
    let (is_done, text) = receive(&to, "volume receive pond/fresh", &changes);
    assert!(is_done, "{text}");
    assert_eq!(received(&to, "pond/fresh/g/v"), EXPECTED);

    let token = interrupted(&to, "pond/copy", "pond/copy/g/v", &changes);
    assert_eq!(received(&to, "pond/copy/g/v"), "my:own\tv\n");
    // The received part outlives the daemon; and the rest may be interrupted, too.
    to.kill();
    to.restart();
    let rest = sent(&from, &format!("volume send -t {token}"));
    assert!(
        rest.len() < changes.len(),
        "{} {}",
        rest.len(),
        changes.len()
    );
    let token = interrupted(&to, "pond/copy/g/v", "pond/copy/g/v", &rest);
    pipe(
        &from,
        &format!("volume send -t {token}"),
        &to,
        "volume receive -s pond/copy/g/v",
    );
    assert_eq!(received(&to, "pond/copy/g/v"), EXPECTED);
    for copy in ["pond/fresh/g/v", "pond/copy/g/v"] {
        assert_holds(&to, copy, 91);
        assert_holds(&to, &format!("{copy}@one"), 5);
    }
    let token = to.done("volume get -H -o value receive_resume_token pond/copy/g/v");
    assert_eq!(token, "-\n");
}

#[test]
fn the_rest_of_one_volume_brings_its_own_properties_and_no_others() {
    let ((from, portal), to) = (source(), Process::start());
    to.done("pool create --size 256M pond a");
    for (copy, how, expected) in [("pond/own", "-p", "my:own\tv\n"), ("pond/none", "", "")] {
        let receive_it = format!("volume receive -s {copy}");
        let whole = format!("volume send {how} tank/f/g/v@one");
        let stream = sent(&from, &whole);
        let token = interrupted(&to, copy, copy, &stream);
        let rest = format!("volume send -t {token}");
        pipe(&from, &rest, &to, &receive_it);
        assert_eq!(received(&to, copy), expected, "{copy}");
        assert_holds(&to, copy, 5);
    }
    go_on(&from, portal);
    let changes = sent(&from, "volume send -p -i @one tank/f/g/v@two");
    let token = interrupted(&to, "pond/own", "pond/own", &changes);
    let rest = format!("volume send -t {token}");
    pipe(&from, &rest, &to, "volume receive -s pond/own");
    assert_eq!(received(&to, "pond/own"), "my:own\tv\n");
    assert_holds(&to, "pond/own@two", 91);

    // A token that was copied wrong, and one of a snapshot that is gone.
    let text = from.refused(&format!("volume send -t {}0", token));
    assert!(
        text.contains("is not a token of an interrupted receive") && text.contains("volume get"),
        "{text}"
    );
    from.done("volume destroy -y tank/f/g/v@two");
    let text = from.refused(&rest);
    assert!(
        text.contains("the snapshot of the interrupted receive no longer exists")
            && text.contains("volume receive -A"),
        "{text}"
    );
}
