//! `cargo xtask test`: everything that shows whether Sandstone works, in order of cost.
//!
//! Every stage runs even if an earlier one failed, so that one run shows all faults. Only stages
//! that need a failed build are left out.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::{crate_root, debian, fuzz, target_folder, tidy};

const USAGE: &str = "\
usage: cargo xtask test [OPTIONS]

Installs missing Debian packages, then checks format, lints and rules, runs all tests, and
runs outside suites and real clients against the programs.

options:
  --quick    leave out the labs that boot a guest";

/// Time in seconds for which each fuzz target runs, after its committed corpus.
const FUZZ_SECONDS: &str = "4";

/// Arguments that run tests if nextest is missing.
const PLAIN: [&str; 5] = [
    "test",
    "--quiet",
    "--locked",
    "--no-fail-fast",
    "--all-targets",
];

/// Result of a stage.
enum Verdict {
    Passed,
    Failed(String),
    LeftOut(&'static str),
}

struct TestStage {
    name: &'static str,
    time: Duration,
    verdict: Verdict,
}

/// Runs all stages and prints a table of them.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let quick = match arguments {
        [] => false,
        [option] if option == "--quick" => true,
        [option] if option == "--help" || option == "-h" => {
            println!("{USAGE}");
            return Ok(());
        }
        _ => return Err(format!("unknown options: {}\n{USAGE}", arguments.join(" "))),
    };
    let start = Instant::now();
    let mut stages = Vec::new();
    let mut stage = |name, verdict: &mut dyn FnMut() -> Verdict| {
        println!("\n=== {name}");
        let start = Instant::now();
        let verdict = verdict();
        let passed = matches!(verdict, Verdict::Passed);
        if let Verdict::Failed(message) = &verdict {
            eprintln!("xtask test: {name} failed: {message}");
        }
        stages.push(TestStage {
            name,
            time: start.elapsed(),
            verdict,
        });
        passed
    };
    stage("packages", &mut || verdict(install()));
    stage("format", &mut || cargo(&["fmt", "--all", "--", "--check"]));
    stage("lints", &mut || {
        cargo(&[
            "clippy",
            "--workspace",
            "--all-targets",
            "--locked",
            "--",
            "--deny",
            "warnings",
        ])
    });
    stage("rules", &mut || verdict(tidy::run(&[])));
    stage("tests", &mut tests);
    // The programs are built together with the tests. So all have the features of the same
    // dependencies, and nothing is built twice.
    let built = stage("programs", &mut || {
        let all = ["--workspace", "--bins", "--tests", "--locked"];
        cargo(&[&["build", "--quiet"], &all[..]].concat())
    });
    stage("fuzz", &mut || {
        let seconds = ["--seconds".to_owned(), FUZZ_SECONDS.to_owned()];
        verdict(fuzz::run(&seconds))
    });
    stage("conformance", &mut || {
        if built {
            conformance(quick)
        } else {
            Verdict::LeftOut("the programs were not built")
        }
    });
    report(&stages, start.elapsed())
}

/// Installs the packages that the labs need on the machine itself. They unpack clients and guests
/// on their own.
fn install() -> Result<(), String> {
    let wanted = [
        ("/usr/bin/xz", "xz-utils"),
        ("/usr/bin/setpriv", "util-linux"),
        ("/usr/bin/stdbuf", "coreutils"),
        ("/sbin/ip", "iproute2"),
        ("/usr/bin/chromium", "chromium"),
        ("/usr/bin/chromedriver", "chromium-driver"),
        ("/usr/bin/fio", "fio"),
        ("/usr/share/doc/python3-venv/copyright", "python3-venv"),
    ];
    let missing: Vec<String> = wanted
        .iter()
        .filter_map(|(file, package)| debian::ensure(file, package).err())
        .collect();
    if missing.is_empty() {
        Ok(())
    } else {
        Err(missing.join("; "))
    }
}

/// Runs the tests, and lists behind them the tests that this machine does not allow.
fn tests() -> Verdict {
    let skipped = target_folder().join("skipped-tests");
    let skipped = std::path::absolute(&skipped).unwrap_or(skipped);
    let _ = std::fs::remove_file(&skipped);
    let verdict = run_tests(&skipped);
    if let Ok(skipped) = std::fs::read_to_string(&skipped) {
        println!("\nNot run, because this machine does not allow it:\n{skipped}");
    }
    verdict
}

/// Runs the tests. `skipped` is the file in which tests note that they were not done.
fn run_tests(skipped: &Path) -> Verdict {
    let cargo = |arguments: &[&str]| {
        let mut command = Command::new(cargo_program());
        command
            .args(arguments)
            .env("SANDSTONE_SKIPPED_TESTS", skipped);
        ended(&format!("cargo {}", arguments.join(" ")), &mut command)
    };
    let nextest = Command::new(cargo_program())
        .args(["nextest", "--version"])
        .output();
    if nextest.is_ok_and(|output| output.status.success()) {
        // Tests that start a daemon wait for most of their time.
        let at_once = std::thread::available_parallelism().map_or(1, usize::from) * 2;
        cargo(&[
            "nextest",
            "run",
            "--workspace",
            "--locked",
            "--no-fail-fast",
            // Examples are compiled by the lints, so there is no need to link them.
            "--tests",
            "--status-level",
            "slow",
            "--test-threads",
            &at_once.to_string(),
        ])
    } else {
        let rest = cargo(&[&PLAIN[..], &["--workspace", "--exclude", "sim"]].concat());
        // The output of the crash laboratory is shown, as `.config/nextest.toml` has it.
        let sim = cargo(&[&PLAIN[..], &["--package", "sim", "--", "--show-output"]].concat());
        both(rest, sim)
    }
}

/// Joins two verdicts: both must pass, and each failure is reported.
fn both(one: Verdict, other: Verdict) -> Verdict {
    match (one, other) {
        (Verdict::Failed(one), Verdict::Failed(other)) => {
            Verdict::Failed(format!("{one}; {other}"))
        }
        (Verdict::Passed, other) => other,
        (one, _) => one,
    }
}

/// Runs the conformance program that was built. Cargo, asked to run it, would build it once more
/// with only the features that it alone needs of its dependencies.
fn conformance(quick: bool) -> Verdict {
    let mut command = Command::new(target_folder().join("debug/conformance"));
    if quick {
        command.arg("--quick");
    }
    ended("conformance", &mut command)
}

fn cargo(arguments: &[&str]) -> Verdict {
    let name = format!("cargo {}", arguments.join(" "));
    ended(&name, Command::new(cargo_program()).args(arguments))
}

/// Runs a command and returns its verdict.
fn ended(name: &str, command: &mut Command) -> Verdict {
    match command.current_dir(crate_root()).status() {
        Ok(status) if status.success() => Verdict::Passed,
        Ok(status) => Verdict::Failed(format!("{name}: {status}")),
        Err(error) => Verdict::Failed(format!("cannot run {name}: {error}")),
    }
}

fn cargo_program() -> std::ffi::OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

fn verdict(result: Result<(), String>) -> Verdict {
    match result {
        Ok(()) => Verdict::Passed,
        Err(message) => Verdict::Failed(message),
    }
}

fn report(stages: &[TestStage], total: Duration) -> Result<(), String> {
    println!("\n{:<22} {:<8} {:>8}", "stage", "result", "time");
    let mut failed = Vec::new();
    for stage in stages {
        let (word, reason) = match &stage.verdict {
            Verdict::Passed => ("passed", ""),
            Verdict::LeftOut(reason) => ("left out", *reason),
            Verdict::Failed(message) => {
                failed.push(format!("{}: {message}", stage.name));
                ("FAILED", "")
            }
        };
        println!(
            "{:<22} {word:<8} {:>6.1} s  {reason}",
            stage.name,
            stage.time.as_secs_f64()
        );
    }
    println!("{:<22} {:<8} {:>6.1} s", "all", "", total.as_secs_f64());
    if failed.is_empty() {
        Ok(())
    } else {
        // Readers who see only the end of a long log find each failure and its reason here.
        Err(format!("failed\n{}", failed.join("\n")))
    }
}
