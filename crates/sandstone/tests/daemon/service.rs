//! `serve` under a service manager and in a terminal that closes.
//!
//! The tests cover signals, the messages to `NOTIFY_SOCKET`, and the log with its authors and
//! without secrets.

use std::fs::File;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use initiator::connection::Connection;
use rustix::process::{Pid, Signal, kill_process};
use testing::wait;

use crate::pools::life::{log_in, pattern};
use crate::served::{BLOCK, TARGET, free_portal, read, sense, write};
use testing::user::me;

/// Daemon with its log in a file and a service manager that listens.
struct Service {
    state: tempfile::TempDir,
    manager: UnixDatagram,
    child: Child,
}

impl Service {
    fn start() -> Self {
        Self::with(&[], |_| ())
    }

    /// Starts the daemon with further options, and with what `prepare` adds to its environment.
    fn with(options: &[&str], prepare: impl FnOnce(&mut Command)) -> Self {
        let state = tempfile::tempdir().unwrap();
        let socket = state.path().join("notify");
        let manager = UnixDatagram::bind(&socket).unwrap();
        manager
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_sandstone"));
        command
            .args(["serve", "--console", "off", "--cache", "64M", "--state"])
            .arg(state.path().join("state"))
            .args(options)
            .env("NOTIFY_SOCKET", &socket)
            .stdin(Stdio::null())
            .stderr(File::create(state.path().join("log")).unwrap());
        prepare(&mut command);
        let child = command.spawn().unwrap();
        Self {
            state,
            manager,
            child,
        }
    }

    /// Returns the next message that the service manager receives.
    fn told(&self) -> String {
        let mut bytes = [0; 4096];
        let length = self.manager.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    }

    /// Returns the names of the daemon's threads.
    fn threads(&self) -> Vec<String> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let names = tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")));
        names
            .map(|name| name.unwrap().trim_end().to_owned())
            .collect()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn folder(&self) -> std::path::PathBuf {
        self.state.path().join("state")
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.state.path().join("log")).unwrap()
    }

    /// Waits until the log contains this.
    fn wait_for(&self, text: &str) {
        wait::until_seen(text, || self.log(), |log| log.contains(text));
    }

    fn done(&self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        command(&self.folder(), &words);
    }

    fn stop(&mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.child.wait().unwrap()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // The daemon may have ended already.
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }
}

fn command(state: &Path, words: &[&str]) {
    let output = Command::new(env!("CARGO_BIN_EXE_sandstone"))
        .arg("--state")
        .arg(state)
        .args(words)
        .current_dir(state)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
}

#[test]
fn a_hangup_reloads_and_ends_neither_the_daemon_nor_a_session() {
    let mut service = Service::start();
    let ready = service.told();
    assert!(ready.starts_with("READY=1\nSTATUS=serving "), "{ready}");
    let portal = free_portal();
    service.done("pool create --size 256M tank a");
    service.done("lu create vm1 --size 16M");
    service.done(&format!("target create {TARGET} --portal {portal}"));
    service.done(&format!(
        "map add vm1 --every-host --target {TARGET} --lun 0"
    ));
    let mut session = log_in(portal);
    assert_eq!(sense(&write(&mut session, 0, &pattern(1))), None);
    for _ in 0..2 {
        service.signal(Signal::HUP);
        let reloading = service.told();
        assert!(
            reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="),
            "{reloading}"
        );
        assert!(service.told().starts_with("READY=1\n"));
    }
    assert_eq!(read(&mut session, 0, 64), pattern(1)[..64 * BLOCK]);
    let log = service.log();
    assert!(log.contains("reloading"), "{log}");
    assert!(log.contains("were tried again"), "{log}");
    assert!(
        log.contains("options of the command line need a restart"),
        "{log}"
    );
    assert!(service.stop().success());
}

#[test]
fn the_watchdog_is_fed_from_the_start_to_the_stop() {
    let mut service = Service::with(&[], |command| {
        command.env("WATCHDOG_USEC", "200000");
    });
    assert!(service.told().starts_with("READY=1"));
    service.done("pool create --size 256M tank a");
    for _ in 0..3 {
        assert_eq!(service.told(), "WATCHDOG=1");
    }
    service.signal(Signal::TERM);
    let mut told = service.told();
    while told == "WATCHDOG=1" {
        told = service.told();
    }
    assert_eq!(told, "STOPPING=1\nSTATUS=stopping: SIGTERM");
    assert!(service.child.wait().unwrap().success());
}

#[test]
fn without_a_watchdog_of_its_own_the_daemon_feeds_none() {
    for (usec, pid) in [("0", None), ("1000", Some("1"))] {
        let mut service = Service::with(&[], |command| {
            command.env("WATCHDOG_USEC", usec);
            command.envs(pid.map(|pid| ("WATCHDOG_PID", pid)));
        });
        assert!(service.told().starts_with("READY=1"));
        assert!(service.stop().success());
        assert!(service.told().starts_with("STOPPING=1"), "{usec}");
    }
}

#[test]
fn the_log_goes_to_lines_of_json_or_to_the_journal_if_it_is_told_to() {
    let mut service = Service::with(&["--log-format", "json"], |_| ());
    service.told();
    assert!(service.stop().success());
    let log = service.log();
    let first: serde_json::Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
    assert_eq!(first["message"], "Sandstone starts");
    assert_eq!(first["level"], "INFO");
    assert_eq!(first["version"], env!("CARGO_PKG_VERSION"));
    // Where no journal takes the entries, stderr has them, with the priority in front.
    if !Path::new("/run/systemd/journal/socket").exists() {
        let mut service = Service::with(&["--log-format", "journal"], |_| ());
        service.told();
        assert!(service.stop().success());
        let log = service.log();
        assert!(log.starts_with("<6>Sandstone starts version="), "{log}");
    }
}

#[test]
fn a_settings_file_is_obeyed_and_the_command_line_beats_it() {
    let place = tempfile::tempdir().unwrap();
    let (file, socket) = (place.path().join("s.toml"), place.path().join("api.sock"));
    let text =
        format!("control = {socket:?}\nthreads = 1\n[log]\nlevel = \"debug\"\nformat = \"json\"\n");
    std::fs::write(&file, text).unwrap();
    let options = [
        "--config-file",
        file.to_str().unwrap(),
        "--log-format",
        "text",
    ];
    let mut service = Service::with(&options, |command| {
        command.env("WATCHDOG_USEC", "200000");
    });
    assert!(service.told().starts_with("READY=1"));
    // Now every event loop has had a turn, and so its name.
    assert_eq!(service.told(), "WATCHDOG=1");
    assert!(socket.exists());
    let log = service.log();
    assert!(log.contains("INFO Sandstone starts"), "{log}");
    let loops = service
        .threads()
        .iter()
        .filter(|name| name.starts_with("loop"))
        .count();
    assert_eq!(loops, 1);
    assert!(service.stop().success());
}

#[test]
fn a_wrong_settings_file_is_refused_and_check_says_so_without_a_start() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("s.toml");
    let run = |text: &str, options: &[&str]| {
        std::fs::write(&file, text).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_sandstone"))
            .args(["serve", "--state"])
            .arg(place.path().join("state"))
            .arg("--config-file")
            .arg(&file)
            .args(options)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        (output.status.code(), told)
    };
    let (code, told) = run("\ntread = 2\n", &[]);
    assert_eq!(code, Some(1));
    let place_of_it = format!("sandstone: {}:2: there is no key tread\n", file.display());
    assert!(told.starts_with(&place_of_it), "{told}");
    assert!(told.contains("state: nothing is served\n"), "{told}");
    assert!(told.contains("next:  did you mean threads?\n"), "{told}");
    assert_eq!(run("threads = 2\n", &["--check"]), (Some(0), String::new()));
    assert_eq!(run("threads = 0\n", &["--check"]).0, Some(1));
    std::fs::remove_file(&file).unwrap();
    assert!(!place.path().join("state").exists(), "nothing was started");
    let output = Command::new(env!("CARGO_BIN_EXE_sandstone"))
        .args(["serve", "--check", "--config-file"])
        .arg(&file)
        .output()
        .unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("could not read the settings file"), "{told}");
}

/// A user edits the file and reloads: the log says where the configuration is changed.
#[test]
fn a_file_that_was_edited_by_hand_is_not_taken_and_that_is_said() {
    let service = Service::start();
    service.told();
    let file = service.folder().join("config.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(
        &file,
        text.replace("discovery_auth = false", "discovery_auth = true"),
    )
    .unwrap();
    service.signal(Signal::HUP);
    service.wait_for("reloaded");
    let log = service.log();
    assert!(
        log.contains("sandstone config apply FILE changes it"),
        "{log}"
    );
    service.done("config discovery-auth yes");
    service.done("config show");
}

#[test]
fn the_log_has_start_addresses_and_the_reason_of_the_stop() {
    let mut service = Service::start();
    assert!(service.told().starts_with("READY=1"));
    service.wait_for(" serving ");
    let log = service.log();
    let start = log.lines().next().unwrap();
    let version = format!("version=\"{}\"", env!("CARGO_PKG_VERSION"));
    assert!(start.contains("Sandstone starts"), "{log}");
    assert!(start.contains(&version), "{log}");
    let state = format!("state={}", service.folder().display());
    assert!(start.contains(&state), "{log}");
    assert!(
        log.contains(&format!(
            "control={}/control.sock",
            service.folder().display()
        )),
        "{log}"
    );
    assert!(log.contains("metrics="), "{log}");
    assert!(service.stop().success());
    assert_eq!(service.told(), "STOPPING=1\nSTATUS=stopping: SIGTERM");
    let log = service.log();
    let last: Vec<&str> = log.lines().rev().take(2).collect();
    assert!(last[1].contains(r#"stopping reason="SIGTERM""#), "{log}");
    assert!(last[0].ends_with("stopped"), "{log}");
}

#[test]
fn the_log_says_where_targets_listen() {
    let service = Service::start();
    service.told();
    let portal = free_portal();
    service.done(&format!("target create {TARGET} --portal {portal}"));
    service.signal(Signal::TERM);
    service.wait_for("stopped");
    let again = Command::new(env!("CARGO_BIN_EXE_sandstone"))
        .args(["serve", "--console", "off", "--cache", "64M", "--state"])
        .arg(service.folder())
        .stdin(Stdio::null())
        .stderr(File::create(service.state.path().join("log")).unwrap())
        .spawn();
    let mut again = again.unwrap();
    service.wait_for(" serving ");
    kill_process(Pid::from_child(&again), Signal::TERM).unwrap();
    again.wait().unwrap();
    let listens = format!("a target listens portal={portal}");
    assert!(service.log().contains(&listens), "{}", service.log());
}

/// Every change of an administrator stands in the log: its author, object and command; and no
/// secret.
#[test]
fn every_change_is_in_the_log_with_its_author_and_no_secret_is() {
    let service = Service::start();
    service.told();
    let folder = service.folder();
    std::fs::write(folder.join("secret"), "a-secret-of-hosts\n").unwrap();
    let portal = free_portal();
    let initiator = "iqn.1994-05.com.redhat:a";
    let lines = [
        ("pool create --size 256M tank a".to_owned(), "done"),
        ("volume create -s -V 16M tank/v".into(), "done"),
        (
            "lu create vm1 --volume tank/v".into(),
            "lu vm1 created, naa.6",
        ),
        (
            format!("target create {TARGET} --portal {portal}"),
            "target iqn.2026-01.io.sandstone:test created",
        ),
        (
            format!("map add vm1 --every-host --target {TARGET} --lun 0"),
            "added as LUN 0",
        ),
        (
            "lu modify vm1 --size 32M".into(),
            "volume tank/v: volsize 16M -> 32M",
        ),
        (
            "target alua-state 1 active-optimized".into(),
            "lu vm1: alua of group 1 for iqn.2026-01.io.sandstone:tester active-non-optimized -> active-optimized",
        ),
        ("map remove -y vm1".into(), "removed"),
        (
            format!("host create h --initiator {initiator}"),
            "host h created",
        ),
        (
            "host auth h --user h --secret-file secret".into(),
            "host h: chap.",
        ),
        ("map add vm1 --host h --lun 3".into(), "added as LUN 3"),
        ("lu offline vm1".into(), "lu vm1: offline false -> true"),
        (format!("target offline {TARGET}"), "offline false -> true"),
        ("volume snapshot tank/v@s".into(), "done"),
        ("map remove vm1 --host h".into(), "removed"),
        (
            "config discovery-auth yes".into(),
            "setting daemon: discovery_auth false -> true",
        ),
        ("host delete h".into(), "host h removed"),
        ("lu delete vm1".into(), "lu vm1 removed"),
        ("pool destroy -y tank".into(), "done"),
    ];
    let by = format!("by={} (uid {})", me(), rustix::process::geteuid().as_raw());
    for (line, what) in &lines {
        if line.contains("alua-state") {
            let mut session = log_in(portal);
            choose_alua_state(&mut session);
        }
        let before = service.log().len();
        service.done(line);
        let log = service.log();
        let news = &log[before..];
        let is_told = |of: &str| of.contains(what) && of.contains(&by);
        let is_author = |of: &str| of.contains(&format!("command=\"sandstone {line}\""));
        let told = news.lines().any(|of| is_told(of) && is_author(of));
        assert!(told, "{line}: {news}");
    }
    // Commands that only look change nothing.
    let before = service.log();
    for line in [
        "lu list",
        "lu create x --file --size 1M -n",
        "pool create -n --size 256M p b",
        "volume list",
    ] {
        service.done(line);
    }
    assert_eq!(service.log(), before);
    assert!(!before.contains("a-secret-of-hosts"), "{before}");
}

/// Sends SET TARGET PORT GROUPS: the initiator chooses active/non-optimized for group 1.
fn choose_alua_state(session: &mut Connection) {
    let list = [0, 0, 0, 0, 1, 0, 0, 1];
    let told = session.write(
        0,
        &[0xA4, 0x0A, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0],
        list.to_vec(),
    );
    assert_eq!(sense(&told.unwrap()), None);
}

/// One client on a full pool once wrote 101 lines in 0.2 s.
#[test]
fn a_client_that_is_refused_again_and_again_is_one_line_with_a_count() {
    let mut service = Service::start();
    service.told();
    let portal = free_portal();
    service.done("pool create --size 128M tank a");
    service.done("volume create -s -V 2G -o compression=off tank/v");
    service.done("lu create vm1 --volume tank/v");
    service.done(&format!("target create {TARGET} --portal {portal}"));
    service.done(&format!(
        "map add vm1 --every-host --target {TARGET} --lun 0"
    ));
    let mut session = log_in(portal);
    let noise: Vec<u8> = (0..1 << 20)
        .map(|at: u32| (at.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    let mut refused = 0;
    for number in 0..2048_u64 {
        let told = sense(&write(&mut session, number * 2048, &noise));
        refused += u32::from(told.is_some());
        if refused == 100 {
            break;
        }
    }
    assert_eq!(refused, 100, "it is not full");
    assert!(service.stop().success());
    let log = service.log();
    let lines: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("block request failed"))
        .collect();
    assert!((2..10).contains(&lines.len()), "{log}");
    assert!(lines.iter().any(|line| line.contains(" more in ")), "{log}");
}
