//! Ways out of a real daemon: a fault reaches a webhook, a message waits for its server over a
//! kill, and no secret is shown anywhere.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use config::store::Store;
use serde_json::Value;
use testing::wait;

use super::alerts::opened;
use super::events::events;
use super::process::Process;
use crate::pools::devices::flat;

/// Longest wait for a message.
const PATIENCE: Duration = Duration::from_secs(120);
/// Part of each secret of these tests.
const SECRET: &str = "very-secret";

/// Serves HTTP on an address, and hands on the body of each request.
fn sink(address: SocketAddr) -> Receiver<Value> {
    let listener = TcpListener::bind(address).unwrap();
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(&stream);
            let mut len = 0;
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                let line = line.trim_end().to_ascii_lowercase();
                if let Some(value) = line.strip_prefix("content-length: ") {
                    len = value.parse().unwrap();
                }
                if line.is_empty() {
                    break;
                }
            }
            let mut body = vec![0; len];
            reader.read_exact(&mut body).unwrap();
            let answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            (&stream).write_all(answer.as_bytes()).unwrap();
            // The test may have ended.
            let _ = sender.send(serde_json::from_slice(&body).unwrap_or_default());
        }
    });
    receiver
}

#[test]
fn a_fault_reaches_its_webhook_also_when_that_was_away_and_the_daemon_was_killed() {
    let mut process = Process::start();
    let address = crate::served::free_portal();
    process.done("pool create --size 128M tank mirror a b");
    let url = format!("http://{address}/hook/{SECRET}");
    let added = process.done(&format!("alert way add desk --url {url} --least error"));
    assert_eq!(added, "alert way desk created\n");
    let device = process.folder().join("a");
    process.done(&format!("pool offline tank {}", device.display()));
    let alert = opened(&process, "pool-degraded");
    // Nobody listens there: the message waits.
    let waits = || process.done("alert way list -H -o waiting,error");
    wait::at_most(PATIENCE).until_seen("the message waits", waits, |told| {
        told.starts_with("1\tcannot connect to")
    });
    assert!(
        process
            .refused("alert test desk")
            .contains("does not reach")
    );
    process.kill();
    let received = sink(address);
    process.restart();
    let mut bodies = Vec::new();
    while !bodies
        .iter()
        .any(|it: &Value| it["alert"]["condition"] == "pool-degraded")
    {
        bodies.push(received.recv_timeout(PATIENCE).unwrap());
    }
    let body = bodies.last().unwrap();
    assert_eq!(body["alert"]["number"], alert.number);
    assert_eq!(body["news"], "opened");
    let tested = process.done("alert test desk");
    assert!(
        tested.starts_with("way desk: http://127.0.0.1:"),
        "{tested}"
    );
    assert_eq!(process.ended("alert way remove desk --yes").0, 0);
    assert_eq!(
        flat(&process.done("alert way list")),
        "no ways out: alerts are only shown here"
    );
}

#[test]
fn secrets_of_ways_are_shown_nowhere_and_kept_by_an_applied_file() {
    let process = Process::start();
    let folder = process.folder().to_owned();
    for (file, text) in [
        ("url", format!("https://hooks.example/T0/{SECRET}")),
        ("other", format!("https://hooks.example/T1/{SECRET}")),
        ("key", format!("{SECRET}-of-sixteen-bytes")),
        ("token", format!("{SECRET}-token")),
        ("password", format!("{SECRET}-password")),
    ] {
        std::fs::write(folder.join(file), format!("{text}\n")).unwrap();
    }
    let told = [
        process.done("alert way add desk --url-file url --key-file key --token-file token"),
        process.done(&format!(
            "alert way add beat --url https://watch.example/{SECRET} --every 60 --ca /etc/{}",
            "authorities.pem"
        )),
        process.done(
            "alert way add ops --to ops@example.org --from san@example.org \
             --server mail.example.org --user san --password-file password",
        ),
        process.done("alert way list --json"),
        process.done("config show"),
        process.done("config history"),
        process.done("events --json"),
        process.done("alert way modify -n desk --url-file other --key-file url"),
    ];
    for text in &told {
        assert!(!text.contains(SECRET), "{text}");
    }
    assert!(told[3].contains("https://hooks.example"), "{}", told[3]);
    let changed = events(&process);
    assert!(
        changed.iter().any(|it| it.object == "alert way ops"),
        "{changed:?}"
    );

    // An edited file keeps what it does not show.
    let file = folder.join("edited.toml");
    let shown = process.done("config show").replace("warning", "critical");
    std::fs::write(&file, &shown).unwrap();
    let applied = process.done(&format!("config apply --yes {}", file.display()));
    assert!(
        applied.contains("alert way desk: least warning -> critical"),
        "{applied}"
    );
    let stored = std::fs::read_to_string(folder.join("config.toml")).unwrap();
    assert!(!stored.contains(SECRET), "it is sealed there: {stored}");
    assert!(!stored.contains("<unchanged>"));
    let opened = toml::to_string(&Store::peek(&folder).unwrap()).unwrap();
    assert_eq!(opened.matches(SECRET).count(), 5, "{opened}");

    for (line, words) in [
        (
            "alert way add desk --url https://example/",
            "way desk exists already",
        ),
        ("alert way add x", "not exactly one of a webhook"),
        (
            "alert way add x --to a@example.org --url https://e/",
            "not exactly one of",
        ),
        ("alert way add x --to a@example.org", "mail needs --server"),
        (
            "alert way add x --url https://e/ --tls none",
            "a webhook has no --tls",
        ),
        (
            "alert way add x --url https://e/ --every 5",
            "choose 10 to 86400",
        ),
        (
            "alert way add x --url https://u:p@e/",
            "its address is not valid",
        ),
        (
            "alert way modify ops --format slack",
            "is a mail and has no format",
        ),
        (
            "alert way modify none --least error",
            "way none does not exist",
        ),
        ("alert way remove none", "way none does not exist"),
        ("alert test none", "way none does not exist"),
    ] {
        let refused = process.refused(line);
        assert!(refused.contains(words), "{line}: {refused}");
        assert!(refused.contains("next:"), "{line}: {refused}");
    }
    let removed = process.done("alert way modify desk --token-file /dev/null");
    assert!(removed.contains("alert way desk"), "{removed}");
    let stored = std::fs::read_to_string(folder.join("config.toml")).unwrap();
    assert!(!stored.contains(&format!("{SECRET}-token")));
}
