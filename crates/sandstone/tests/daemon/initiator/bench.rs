//! Benchmark against targets that refuse, break, and die.
//!
//! The measurements so far are kept, and the errors are reported.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use cli::{Terminal, run_client};
use iscsi::negotiation::DigestPolicy;
use iscsi::target::login::{Authentication, Authorization};
use testing::wait;

use config::history::Note;
use config::store::Store;

use super::fake_target::{FakeTarget, World, allowed};

/// Exit code and output of a command.
struct Ran {
    code: u8,
    err: String,
}

/// Runs a command; blanks separate its words.
fn run(line: &str) -> Ran {
    let words = std::iter::once("sandstone").chain(line.split_whitespace());
    let words: Vec<OsString> = words.map(OsString::from).collect();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let terminal = Terminal {
        out: &mut out,
        err: &mut err,
        ask: None,
        width: None,
    };
    let code = run_client(&sandstone::PROGRAM, words, terminal);
    Ran {
        code,
        err: String::from_utf8(err).unwrap(),
    }
}

/// Runs a short sweep, and returns its result and the saved measurements.
fn sweep(url: &str, rest: &str, saved: &Path) -> (Ran, serde_json::Value) {
    measured("sweep", url, rest, saved)
}

fn measured(verb: &str, url: &str, rest: &str, saved: &Path) -> (Ran, serde_json::Value) {
    let ran = run(&format!(
        "bench {verb} {url} --block 4K --time 20ms --ramp-up 0 -q 2 {rest} --save {}",
        saved.display()
    ));
    let text = std::fs::read_to_string(saved).unwrap();
    (ran, serde_json::from_str(&text).unwrap())
}

fn count(results: &serde_json::Value, what: &str) -> usize {
    results[what].as_array().map_or(0, Vec::len)
}

fn disk() -> World {
    // The data that it reads at once is one PDU.
    World::of(&[128 << 10])
}

/// Starts a target without data digests.
fn without_digests() -> FakeTarget {
    let fake = FakeTarget::honest(disk());
    let Authorization::Allowed(mut terms) = allowed(Authentication::None) else {
        unreachable!("it is allowed");
    };
    terms.limits.data_digest = DigestPolicy::Forbid;
    fake.authorize(Authorization::Allowed(terms));
    fake
}

#[test]
fn a_value_that_the_target_refuses_is_left_out_of_a_sweep() {
    let folder = tempfile::tempdir().unwrap();
    let saved = folder.path().join("sweep.json");
    let fake = without_digests();
    let knobs = "-k data_digest=none,crc32c -k outstanding=1,2 --repeat 2";
    let (ran, results) = sweep(&fake.url(""), knobs, &saved);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let told = "data_digest=crc32c outstanding=1: left out: ";
    assert!(ran.err.contains(told), "{}", ran.err);
    assert_eq!(count(&results, "runs"), 4, "two settings, two rounds");
    let failed = &results["failed"][0];
    assert_eq!(count(&results, "failed"), 1, "it is not tried again");
    assert_eq!(failed["settings"]["data_digest"], "crc32c");
    assert_eq!(failed["left_out"], true);

    let knobs = "-k data_digest=crc32c,none --repeat 2";
    let (ran, results) = sweep(&fake.url(""), knobs, &saved);
    assert_eq!((ran.code, count(&results, "runs")), (1, 0), "{}", ran.err);
    let told = "the first setting, data_digest=crc32c, cannot be set";
    assert!(ran.err.contains(told), "{}", ran.err);
}

#[test]
fn an_option_that_is_not_in_force_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let saved = folder.path().join("run.json");
    let fake = FakeTarget::honest(disk());
    let Authorization::Allowed(mut terms) = allowed(Authentication::None) else {
        unreachable!("it is allowed");
    };
    terms.limits.max_outstanding_r2t = 1;
    fake.authorize(Authorization::Allowed(terms));
    let told = |options: &str| measured("run", &fake.url(options), "", &saved).0.err;
    let warning = "warning: max_outstanding_r2t=8 was negotiated to MaxOutstandingR2T=1";
    let said = told("?max_outstanding_r2t=8");
    assert!(said.contains(warning), "{said}");
    let said = told("?max_outstanding_r2t=1");
    assert!(!said.contains("warning: "), "{said}");
}

#[test]
fn sessions_are_turned_where_all_of_them_are_used() {
    let folder = tempfile::tempdir().unwrap();
    let saved = folder.path().join("sweep.json");
    let fake = FakeTarget::honest(disk());
    let psps = |options: &str| {
        let (ran, results) = sweep(&fake.url(options), "-k sessions=1,2 --repeat 1", &saved);
        assert_eq!(ran.code, 0, "{}", ran.err);
        let runs = results["runs"].as_array().unwrap().iter();
        let psps: Vec<String> = runs
            .map(|run| run["reached"]["psp"].as_str().unwrap().to_owned())
            .collect();
        (ran.err, psps)
    };
    let (told, psp) = psps("");
    let note = "note: sessions: VMW_PSP_FIXED sends everything over one path";
    assert!(told.contains(note), "{told}");
    assert_eq!(psp, ["VMW_PSP_RR"; 2]);
    let (told, psp) = psps("?psp=least_queue");
    assert!(!told.contains("note: "), "{told}");
    assert_eq!(psp, ["SANDSTONE_PSP_LEAST_QUEUE"; 2]);
}

#[test]
fn what_makes_no_difference_is_said_before_it_is_measured() {
    let fake = FakeTarget::honest(disk());
    let ran = run(&format!(
        "bench sweep {} -k psp -k queue_depth=64,128 --dry-run",
        fake.url("")
    ));
    assert_eq!(ran.code, 0, "{}", ran.err);
    for told in [
        "note: queue_depth: at most 16 ",
        "note: psp: there is only one path",
    ] {
        assert!(ran.err.contains(told), "{told}: {}", ran.err);
    }
}

#[test]
fn a_setting_under_which_everything_fails_does_not_end_a_sweep() {
    let folder = tempfile::tempdir().unwrap();
    let saved = folder.path().join("sweep.json");
    let fake = FakeTarget::start(disk(), |peer, command| {
        let is_long = command.header.expected_data_transfer_length > 4096;
        match command.is_io() && is_long {
            true => peer.sense(command, [5, 0x24, 0]),
            false => Ok(false),
        }
    });
    let (ran, results) = measured("sweep", &fake.url(""), "-k max-io=none --repeat 2", &saved);
    assert_eq!((ran.code, count(&results, "runs")), (0, 2), "{}", ran.err);
    let (ran, results) = sweep(&fake.url(""), "-k block=4K,8K --repeat 2", &saved);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.err.contains("block=8K: left out"), "{}", ran.err);
    assert!(ran.err.contains("every access failed"), "{}", ran.err);
    let good = results["runs"].as_array().unwrap().iter();
    let good = good.filter(|run| run["settings"]["block"] == "4K");
    assert_eq!(good.count(), 2);
}

#[test]
fn a_sweep_over_a_target_that_dies_keeps_what_it_measured() {
    let folder = tempfile::tempdir().unwrap();
    let saved = folder.path().join("sweep.json");
    let fake = FakeTarget::honest(disk());
    // To open the device, for the first setting, and for the next one.
    for _ in 0..4 {
        fake.cut_after(usize::MAX);
    }
    for _ in 0..100 {
        fake.cut_after(0);
    }
    let knobs = "-k max_outstanding_r2t=1,2,4,8 --repeat 2";
    let (ran, results) = sweep(&fake.url(""), knobs, &saved);
    assert_eq!(ran.code, 1, "{}", ran.err);
    let runs = count(&results, "runs");
    assert!(runs > 0 && runs < 8, "{runs}: {}", ran.err);
    let failed = &results["failed"][0];
    assert_eq!(
        (count(&results, "failed"), &failed["left_out"]),
        (1, &false.into())
    );
    let name = failed["settings"]["max_outstanding_r2t"].as_str().unwrap();
    let told = format!("max_outstanding_r2t={name}, round {}: ", failed["round"]);
    let file = format!("saved in {}", saved.display());
    for told in [&*told, &*file, "bench report takes both"] {
        assert!(ran.err.contains(told), "{told}: {}", ran.err);
    }
}

#[test]
fn a_run_over_a_target_that_breaks_keeps_what_it_measured() {
    let folder = tempfile::tempdir().unwrap();
    let saved = folder.path().join("run.json");
    // The target takes no more writes once it was read after the first ones.
    let stage = AtomicUsize::new(0);
    let fake = FakeTarget::start(disk(), move |peer, command| {
        let is_write = command.opcode() == 0x8a;
        let is_read = command.opcode() == 0x88;
        match (stage.load(Ordering::Relaxed), is_write, is_read) {
            (0, true, _) => stage.store(1, Ordering::Relaxed),
            (1, _, true) => stage.store(2, Ordering::Relaxed),
            (2, true, _) => return peer.sense(command, [3, 0x0c, 0]),
            _ => {}
        }
        Ok(false)
    });
    // Each write is in one PDU, so that its end is its answer.
    let rest = "--fill --max-io 4K --destroy-data --repeat 3";
    let (ran, results) = measured("run", &fake.url(""), rest, &saved);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert_eq!((count(&results, "runs"), count(&results, "failed")), (1, 1));
    for told in [
        "round 1: ",
        "could not be filled",
        "1 run was measured before the error, and saved in",
    ] {
        assert!(ran.err.contains(told), "{told}: {}", ran.err);
    }
}

/// Returns an address on which nobody listens.
fn nobody() -> String {
    crate::served::free_portal().to_string()
}

#[test]
fn a_path_that_is_missing_is_said_and_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let saved = folder.path().join("run.json");
    let (fake, nobody) = (FakeTarget::honest(disk()), nobody());
    let url = fake.url(&format!("?portal={nobody}"));
    let (ran, results) = measured("run", &url, "", &saved);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let told = format!("warning: no session through {nobody}: ");
    assert!(ran.err.contains(&told), "{}", ran.err);
    let options = serde_json::json!([["portal", nobody]]);
    assert_eq!(results["target"]["options"], options);
    assert_eq!(results["target"]["unit"]["name"], "naa.5000000000000001");
    let reached = &results["runs"][0]["reached"];
    let sessions = reached["sessions"].as_array().unwrap();
    assert_eq!(sessions.len(), 2);
    let find = |portal: &str| sessions.iter().find(|session| session["portal"] == portal);
    let live = find(&fake.address.to_string()).unwrap();
    assert_eq!(
        (&live["up"], &live["keys"]["DataDigest"]),
        (&true.into(), &"None".into())
    );
    let dead = find(&nobody).unwrap();
    assert_eq!(dead["up"], false);
    assert!(dead["reason"].is_string(), "{dead}");
}

#[test]
fn what_was_negotiated_to_something_else_is_said_and_compared() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (folder.path().join("a.json"), folder.path().join("b.json"));
    let fake = FakeTarget::honest(disk());
    let Authorization::Allowed(mut terms) = allowed(Authentication::None) else {
        unreachable!("it is allowed");
    };
    let (ran, _) = measured("run", &fake.url(""), "", &a);
    assert_eq!(ran.code, 0, "{}", ran.err);
    terms.limits.max_outstanding_r2t = 1;
    fake.authorize(Authorization::Allowed(terms));
    let (ran, _) = measured("run", &fake.url("?psp=rr"), "", &b);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let ran = run(&format!("bench compare {} {}", a.display(), b.display()));
    let told = [
        "measured differently: options: – | psp=rr",
        "measured differently: negotiated: MaxOutstandingR2T=8 | MaxOutstandingR2T=1",
    ];
    for told in told {
        assert!(ran.err.contains(told), "{told}: {}", ran.err);
    }
    assert!(!ran.err.contains("differently: sessions"), "{}", ran.err);
    let knobs = "-k max_outstanding_r2t=1,8 --repeat 2";
    let (ran, _) = sweep(&fake.url(""), knobs, &a);
    let told = "max_outstanding_r2t=8 was negotiated to MaxOutstandingR2T=1";
    assert!(ran.code == 0 && ran.err.contains(told), "{}", ran.err);
    assert!(
        !ran.err.contains("max_outstanding_r2t=1 was"),
        "{}",
        ran.err
    );
}

#[test]
fn limits_of_round_robin_are_swept_under_round_robin() {
    let folder = tempfile::tempdir().unwrap();
    let saved = folder.path().join("sweep.json");
    let fake = FakeTarget::honest(disk());
    let psp = |run: &serde_json::Value| run["reached"]["psp"].as_str().unwrap().to_owned();
    let knobs = "-k psp=fixed -k iops=1000,1 -k bytes=10M,8K --repeat 1";
    let (ran, results) = sweep(&fake.url(""), knobs, &saved);
    assert_eq!(ran.code, 0, "{}", ran.err);
    for run in results["runs"].as_array().unwrap() {
        let settings = &run["settings"];
        let is_start = settings["iops"] == "1000" && settings["bytes"] == "10M";
        let (asked, had) = match is_start {
            true => ("fixed", "VMW_PSP_FIXED"),
            false => ("rr", "VMW_PSP_RR"),
        };
        assert_eq!((&settings["psp"], psp(run)), (&asked.into(), had.into()));
    }
    let (ran, results) = sweep(&fake.url("?psp=fixed"), "-k iops=1000,1 --repeat 1", &saved);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let runs = results["runs"].as_array().unwrap();
    assert!(runs.len() == 2 && runs.iter().all(|run| psp(run) == "VMW_PSP_RR"));
}

/// Creates a state folder whose configuration has a login to this target; `rest` adds settings to
/// the login.
fn configured(fake: &FakeTarget, rest: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let (mut store, mut config) = Store::open(folder.path()).unwrap();
    let url = fake.url("");
    let iqn = url.split('/').nth(3).unwrap();
    let login = format!("iqn = \"{iqn}\"\nportals = [\"{}\"]\n{rest}", fake.address);
    config
        .initiator
        .targets
        .push(toml::from_str(&login).unwrap());
    config.generation += 1;
    store.save(&config, &Note::default()).unwrap();
    folder
}

#[test]
fn a_device_is_measured_by_its_name_as_the_configuration_reaches_it() {
    let fake = FakeTarget::honest(disk());
    let state = configured(&fake, "sessions = 2");
    let saved = state.path().join("sweep.json");
    let name = "naa.5000000000000001";
    let here = format!("--state {}", state.path().display());
    let knobs = format!("-k queue_depth=4,8 --repeat 1 {here}");
    let (ran, results) = sweep(name, &knobs, &saved);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(results["target"]["name"], name);
    for run in results["runs"].as_array().unwrap() {
        let reached = &run["reached"];
        assert_eq!(
            reached["queue_depth"].to_string(),
            run["settings"]["queue_depth"].as_str().unwrap()
        );
        assert_eq!(count(reached, "sessions"), 2, "{reached}");
    }
    // The sessions of another process go on, and so would the daemon's.
    let (ran, results) = measured("run", &format!("{name}?psp=rr&iops=1"), &here, &saved);
    assert_eq!(ran.code, 0, "{}", ran.err);
    // The queue in the words of esxtop; two accesses in flight are the most that was seen.
    let queue = &results["runs"][0]["measurement"]["queue"];
    let of = |figure: &str| queue[figure].as_f64().unwrap();
    assert_eq!(queue["dqlen"], 128, "{queue}");
    assert!((0.0..=2.0).contains(&(of("actv") + of("qued"))), "{queue}");
    assert!((of("used_percent") - of("actv") / 1.28).abs() < 1e-9);
    assert!((of("load") - (of("actv") + of("qued")) / 128.0).abs() < 1e-9);
    assert!(ran.err.contains("of DQLEN 128: %USD "), "{}", ran.err);
    for (name, told) in [
        (
            "naa.5000000000000009",
            "no configured target shows naa.5000000000000009",
        ),
        (
            "naa.5000000000000001?portal=x",
            "portal is not an option of a device",
        ),
    ] {
        let ran = run(&format!("bench run {name} --time 20ms {here}"));
        assert_eq!(ran.code, 1, "{}", ran.err);
        assert!(ran.err.contains(told), "{}", ran.err);
    }
    let elsewhere = tempfile::tempdir().unwrap();
    let ran = run(&format!(
        "bench run {name} --state {}",
        elsewhere.path().display()
    ));
    assert!(ran.err.contains("holds no configuration"), "{}", ran.err);
}

/// Starts `bench run` with four READs under way at a target that answers none of them.
fn hung(verb: &[&str], saved: &Path) -> (FakeTarget, Child) {
    let (sender, reads) = std::sync::mpsc::channel();
    let sender = std::sync::Mutex::new(sender);
    let fake = FakeTarget::start(disk(), move |_, command| {
        if command.is_io() {
            // Nobody counts more than four.
            let _ = sender.lock().unwrap().send(());
        }
        Ok(command.is_io())
    });
    let child = std::process::Command::new(env!("CARGO_BIN_EXE_sandstone"))
        .arg("bench")
        .args(verb)
        .args([&fake.url(""), "--block", "4K", "-q", "4"])
        .args(["--time", "1h", "--ramp-up", "0", "--save"])
        .arg(saved)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    for _ in 0..4 {
        reads.recv().unwrap();
    }
    (fake, child)
}

fn signal(child: &Child, signal: rustix::process::Signal) {
    rustix::process::kill_process(rustix::process::Pid::from_child(child), signal).unwrap();
}

#[test]
fn a_run_whose_target_hangs_ends_by_a_signal_and_says_what_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let saved = folder.path().join("run.json");
    let (_fake, child) = hung(&["run"], &saved);
    signal(&child, rustix::process::Signal::TERM);
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.contains("NOT ENDED: 4 accesses got no answer"), "{err}");
    assert!(err.contains("interrupted: the figures cover"), "{err}");
    let out = String::from_utf8(output.stdout).unwrap();
    assert!(out.contains("IOPS"), "{out}");
    let text = std::fs::read_to_string(&saved).unwrap();
    let results: serde_json::Value = serde_json::from_str(&text).unwrap();
    let measurement = &results["runs"][0]["measurement"];
    assert_eq!(measurement["abandoned"], 4, "{measurement}");
    // esxtop would have shown them in place.
    let used = measurement["queue"]["used_percent"].as_f64().unwrap();
    assert!(used > 0.0, "{measurement}");
}

#[test]
fn a_second_signal_ends_a_run_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let (_fake, mut child) = hung(&["run"], &folder.path().join("run.json"));
    // Two signals that come at once are one to the kernel.
    let status = wait::until_some("the run ends", || {
        let status = child.try_wait().unwrap();
        if status.is_none() {
            signal(&child, rustix::process::Signal::INT);
        }
        status
    });
    assert_eq!(status.code(), Some(130));
}

#[test]
fn a_sweep_whose_target_hangs_ends_by_a_signal_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let saved = folder.path().join("sweep.json");
    let (_fake, child) = hung(&["sweep", "-k", "outstanding=4"], &saved);
    signal(&child, rustix::process::Signal::TERM);
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(
        err.contains("the target hangs: 4 accesses got no answer"),
        "{err}"
    );
    assert!(
        err.contains("0 runs were measured before the error"),
        "{err}"
    );
}
