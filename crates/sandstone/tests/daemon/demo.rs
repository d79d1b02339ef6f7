//! `sandstone demo` as a new user runs it: once, and again in the same folder.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use iscsi::initiator::LoginSettings;
use rustix::process::{Pid, Signal};
use testing::wait;

use crate::served::{BLOCK, log_in, read, sense, settings, write};

/// Demo that serves, and its first output.
struct Demo {
    child: Child,
    line: String,
    out: BufReader<ChildStdout>,
}

impl Demo {
    fn start(state: &Path, options: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_sandstone"))
            .args(["demo", "--state"])
            .arg(state)
            .args(options)
            .stdout(Stdio::piped())
            .stderr(File::create(state.join("log")).unwrap())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        if line.is_empty() {
            let log = std::fs::read_to_string(state.join("log")).unwrap();
            panic!("the demo ended at once: {log}");
        }
        Self { child, line, out }
    }

    /// Returns the portal in the line of `--json`.
    fn portal(&self) -> SocketAddr {
        let line: serde_json::Value = serde_json::from_str(&self.line).unwrap();
        line["portal"].as_str().unwrap().parse().unwrap()
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        // The demo may have ended already.
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }
}

fn free_port() -> u16 {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    free.local_addr().unwrap().port()
}

#[test]
fn the_history_names_the_demo_and_its_user() {
    let state = tempfile::tempdir().unwrap();
    drop(Demo::start(
        state.path(),
        &["--json", "--port", &free_port().to_string()],
    ));
    let history = Command::new(env!("CARGO_BIN_EXE_sandstone"))
        .args(["config", "history", "-H", "-o", "author,command", "--state"])
        .arg(state.path())
        .output()
        .unwrap();
    let history = String::from_utf8(history.stdout).unwrap();
    let mut made = history.lines().skip(1).peekable();
    assert!(made.peek().is_some(), "{history}");
    for line in made {
        assert!(line.ends_with("\tsandstone demo"), "{history}");
        let is_nobody = ["the daemon", "unknown"]
            .iter()
            .any(|it| line.starts_with(it));
        assert!(!is_nobody, "{history}");
    }
}

#[test]
fn a_demo_tells_of_its_console_and_certificate() {
    let state = tempfile::tempdir().unwrap();
    let port = free_port().to_string();
    let demo = Demo::start(state.path(), &["--json", "--port", &port]);
    let told = Command::new(env!("CARGO_BIN_EXE_sandstone"))
        .args(["tls", "show", "--state"])
        .arg(state.path())
        .output()
        .unwrap();
    drop(demo);
    let text = String::from_utf8_lossy(&told.stdout);
    assert!(text.contains("made by the daemon"), "{told:?}");
}

#[test]
fn a_second_demo_moves_where_somebody_took_the_port_of_the_first() {
    let state = tempfile::tempdir().unwrap();
    let port = free_port();
    let first = Demo::start(state.path(), &["--json", "--port", &port.to_string()]);
    assert_eq!(first.portal().port(), port);
    drop(first);
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
    let second = Demo::start(state.path(), &["--json"]);
    let moved = second.portal();
    assert_ne!(moved.port(), port);
    std::net::TcpStream::connect(moved).unwrap();
    let log = std::fs::read_to_string(state.path().join("log")).unwrap();
    assert_eq!(log, "", "it has moved by itself: nothing is wrong");
    drop(second);
    drop(taken);
    let third = Demo::start(state.path(), &["--json"]);
    assert_eq!(third.portal(), moved, "it stays where clients know it");
}

#[test]
fn a_later_demo_obeys_its_port_and_tells_the_size_that_the_unit_has() {
    let state = tempfile::tempdir().unwrap();
    drop(Demo::start(state.path(), &["--json", "--size", "16M"]));
    let port = free_port();
    let options = ["--json", "--port", &port.to_string()];
    let moved = Demo::start(state.path(), &options);
    assert_eq!(moved.portal().port(), port);
    drop(moved);
    let told = Demo::start(state.path(), &[]);
    assert!(
        told.line.starts_with(
            "Serving tank/demo, a thin volume of 16M in a pool mirrored over two files in "
        ),
        "{}",
        told.line
    );
}

/// The output is text for the reader to type: each client is named, with this portal, target and
/// unit.
#[test]
fn a_demo_tells_what_to_type_on_every_client() {
    let state = tempfile::tempdir().unwrap();
    // Another demo that begins at the same moment wants the same port, unless it is named.
    let port = free_port().to_string();
    let mut demo = Demo::start(state.path(), &["--size", "16M", "--port", &port]);
    let mut said = String::new();
    while !said.contains("Ctrl-C ends it.") {
        let length = demo.out.read_line(&mut said).unwrap();
        assert_ne!(length, 0, "it ended: {said}");
    }
    let (console, clients): (Vec<&str>, Vec<&str>) = said
        .split("\n\n")
        .skip(1)
        .filter(|text| text.contains("127.0.0.1"))
        .partition(|text| text.contains("/enter/"));
    assert_eq!(console.len(), 1, "a link leads into the console: {said}");
    let mut names = Vec::new();
    for client in clients {
        let name = client.lines().next().unwrap().split(' ').next().unwrap();
        names.push(name.to_owned());
    }
    let all = ["Linux", "VMware", "Windows", "Proxmox", "QEMU", "libiscsi"];
    assert_eq!(names, all, "{said}");
}

/// Stops a demo with Ctrl-C and `kill`, with a client that has written and does not log out.
///
/// Acknowledged writes are there again.
#[test]
fn a_signal_ends_a_demo_in_order_and_nothing_is_lost() {
    let state = tempfile::tempdir().unwrap();
    let log_in = |demo: &Demo, port| {
        let settings = LoginSettings {
            target_name: Some("iqn.2026-01.io.sandstone:demo".to_owned()),
            ..settings(port)
        };
        log_in(demo.portal(), settings)
    };
    let data = |number: u8| vec![number; 64 * BLOCK];
    for (number, signal) in [(1, Signal::TERM), (2, Signal::INT)] {
        let mut demo = Demo::start(state.path(), &["--json", "--size", "16M"]);
        let mut session = log_in(&demo, number);
        let lba = u64::from(number) * 64;
        assert_eq!(sense(&write(&mut session, lba, &data(number))), None);
        rustix::process::kill_process(Pid::from_child(&demo.child), signal).unwrap();
        let ended = demo.child.wait().unwrap();
        assert!(ended.success(), "{signal:?}: {ended:?}");
        let log = std::fs::read_to_string(state.path().join("log")).unwrap();
        assert_eq!(log, "", "{signal:?}");
    }
    let demo = Demo::start(state.path(), &["--json"]);
    let mut session = log_in(&demo, 3);
    for number in 1..=2 {
        let found = read(&mut session, u64::from(number) * 64, 64);
        assert!(found == data(number), "what was written before {number}");
    }
}

#[test]
fn a_demo_tests_itself_once_and_ends() {
    for backend in [["--size", "16M"], ["--memory", "16M"]] {
        let state = tempfile::tempdir().unwrap();
        let ended = Command::new(env!("CARGO_BIN_EXE_sandstone"))
            .args(["demo", "--once", "--state"])
            .arg(state.path())
            .args(backend)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ended.stdout);
        assert!(ended.status.success(), "{said}{ended:?}");
        assert!(said.contains("found equal"), "{said}");
        assert!(said.contains("has 32768 blocks of 512 bytes"), "{said}");
    }
}

/// Runs a demo that must end by itself, in this folder and environment, and returns its error.
fn refused(folder: &Path, options: &[&str], variables: &[(&str, &Path)]) -> String {
    let mut demo = Command::new(env!("CARGO_BIN_EXE_sandstone"));
    demo.arg("demo").args(options).current_dir(folder);
    demo.envs(variables.iter().copied());
    let ended = demo.output().unwrap();
    assert!(!ended.status.success(), "{ended:?}");
    String::from_utf8([ended.stdout, ended.stderr].concat()).unwrap()
}

fn entries(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// A demo once put its pool into the state of a daemon that was stopped.
#[test]
fn a_demo_stays_out_of_the_state_of_a_daemon() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("production");
    let serving = |verb: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sandstone"));
        command.args(verb).arg("--state").arg(&state);
        command
    };
    let mut daemon = serving(&[
        "serve",
        "--console",
        "off",
        "--cache",
        "64M",
        "--log",
        "error",
    ])
    .spawn()
    .unwrap();
    let status = || serving(&["status"]).output().unwrap();
    wait::until_seen("the daemon is well", status, |told| told.status.success());
    rustix::process::kill_process(Pid::from_child(&daemon), Signal::TERM).unwrap();
    daemon.wait().unwrap();
    let before = entries(&state);
    let config = std::fs::read(state.join("config.toml")).unwrap();
    // README has its reader export this.
    let socket = state.join("control.sock");
    let mut demo = Command::new(env!("CARGO_BIN_EXE_sandstone"));
    demo.args(["demo", "--json", "--size", "16M"])
        .env("SANDSTONE_STATE", &state)
        .env("SANDSTONE_CONTROL", &socket)
        .current_dir(folder.path())
        .stdout(Stdio::piped());
    let mut demo = demo.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(demo.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    rustix::process::kill_process(Pid::from_child(&demo), Signal::TERM).unwrap();
    assert!(demo.wait().unwrap().success(), "{line}");
    assert!(line.contains("sandstone-demo/control.sock"), "{line}");
    // The demo does not go there even if the user types it.
    let typed = ["--state", "production"];
    let said = refused(folder.path(), &typed, &[]);
    assert!(
        said.contains("is the state folder of a Sandstone daemon, not of a demo"),
        "{said}"
    );
    assert!(
        said.contains("sandstone serve --state production"),
        "{said}"
    );
    assert_eq!(entries(&state), before);
    assert_eq!(std::fs::read(state.join("config.toml")).unwrap(), config);
    assert_eq!(entries(folder.path()), ["production", "sandstone-demo"]);
}

#[test]
fn a_second_demo_in_one_folder_says_how_to_talk_to_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("sandstone-demo");
    std::fs::create_dir(&state).unwrap();
    let _first = Demo::start(&state, &["--json", "--size", "16M"]);
    let said = refused(folder.path(), &[], &[]);
    let hint = "sandstone --state sandstone-demo status";
    assert!(said.contains(hint), "{said}");
    let mut words = hint.split(' ').skip(1);
    let status = Command::new(env!("CARGO_BIN_EXE_sandstone"))
        .args(words.by_ref())
        .current_dir(folder.path())
        .output();
    assert!(status.unwrap().status.success(), "the hint works");
}

#[test]
fn options_that_contradict_a_demo_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("sandstone-demo");
    std::fs::create_dir(&state).unwrap();
    drop(Demo::start(&state, &["--json", "--size", "16M"]));
    let before = std::fs::read(state.join("config.toml")).unwrap();
    for (options, words) in [
        (
            &["--size", "32M"][..],
            "sandstone --state sandstone-demo lu modify demo --size 32M",
        ),
        (&["--size", "8M"], "a volume of 16M"),
        (
            &["--memory", "16M", "--state", "sandstone-demo"],
            "a volume of 16M",
        ),
        (&["--block-size", "4096"], "omit --block-size"),
        (
            &["--physical-block-size", "512"],
            "omit --physical-block-size",
        ),
        (&["--write-cache"], "no write cache"),
    ] {
        let said = refused(folder.path(), options, &[]);
        assert!(said.contains(words), "{options:?}: {said}");
        assert!(
            said.contains("sandstone demo --state DIR"),
            "{options:?}: {said}"
        );
        assert!(said.contains("nothing is served"), "{options:?}: {said}");
    }
    assert_eq!(std::fs::read(state.join("config.toml")).unwrap(), before);
    // Options that the demo already has may be given again.
    drop(Demo::start(
        &state,
        &["--json", "--size", "16M", "--block-size", "512"],
    ));
}

#[test]
fn a_port_that_is_taken_is_told_as_it_is_and_the_next_demo_begins() {
    let folder = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let said = refused(folder.path(), &["--size", "16M", "--port", &port], &[]);
    assert!(said.contains("another program listens there"), "{said}");
    assert!(said.contains("state: nothing is served"), "{said}");
    assert!(
        !said.contains("session") && !said.contains("moves"),
        "{said}"
    );
    drop(taken);
    let state = folder.path().join("sandstone-demo");
    drop(Demo::start(
        &state,
        &["--json", "--size", "16M", "--port", &port],
    ));
    let taken = TcpListener::bind(("127.0.0.1", port.parse().unwrap())).unwrap();
    // First its own port, then one that it is to move to.
    let said = refused(folder.path(), &["--port", &port], &[]);
    assert!(said.contains("another program listens there"), "{said}");
    drop(taken);
    let other = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let other_port = other.local_addr().unwrap().port().to_string();
    let said = refused(folder.path(), &["--port", &other_port], &[]);
    assert!(said.contains("another program listens there"), "{said}");
    assert!(!said.contains("moved to another portal"), "{said}");
}

#[test]
fn a_demo_serves_other_machines_where_that_is_asked_for() {
    let state = tempfile::tempdir().unwrap();
    let portal = format!("0.0.0.0:{}", free_port());
    let demo = Demo::start(
        state.path(),
        &["--json", "--size", "16M", "--portal", &portal],
    );
    let told = demo.portal();
    assert!(
        !told.ip().is_unspecified(),
        "what a client is to type: {told}"
    );
    std::net::TcpStream::connect(told).unwrap();
    drop(demo);
    let mut demo = Demo::start(state.path(), &["--portal", &portal]);
    let mut said = demo.line.clone();
    while !said.contains("Ctrl-C ends it.") {
        let length = demo.out.read_line(&mut said).unwrap();
        assert_ne!(length, 0, "it ended: {said}");
    }
    assert!(
        said.contains(&format!(
            "Every host that reaches {portal} can read and write it."
        )),
        "{said}"
    );
    assert!(!said.contains("//0.0.0.0"), "{said}");
}
