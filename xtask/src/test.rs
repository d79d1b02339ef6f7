//! `cargo xtask test`: everything that shows whether Sandstone works, in order of cost.
//!
//! Every stage runs even if an earlier one failed, so that one run shows all faults. Only stages
//! that need a failed build are left out.

mod build;
mod slowest;
mod stages;

use std::path::Path;
use std::process::Command;

use self::build::{Clippy, build};
use self::stages::{Stages, Verdict};
use crate::{cargo, crate_root, debian, fuzz, target_folder, tidy};

const USAGE: &str = "\
usage: cargo xtask test [OPTIONS]

Installs missing Debian packages, then checks format, lints and rules, runs all tests, and
runs outside suites and real clients against the programs.

options:
  --quick    omit the labs that boot a guest";

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
    let clippy = Clippy::find();
    let mut stages = Stages::begin();
    stages.run("packages", || install().into());
    stages.run("format", || run_cargo(&["fmt", "--all", "--", "--check"]));
    stages.run("rules", || tidy::run(&[]).into());
    // Everything is built together, so that all have the features of the same dependencies, and
    // nothing is built twice.
    let mut lints = Verdict::Passed;
    let is_built = stages.run("build", || {
        let (built, linted) = build(&clippy);
        lints = linted;
        built
    });
    stages.note("lints", lints);
    let labs = |which| match is_built {
        true => conformance(which, quick),
        false => Verdict::LeftOut("the programs were not built"),
    };
    stages.run_both("tests", || tests(&clippy), "labs", || labs(Labs::Beside));
    stages.run("fuzz", || {
        let seconds = ["--seconds".to_owned(), FUZZ_SECONDS.to_owned()];
        fuzz::run(&seconds).into()
    });
    stages.run("labs alone", || labs(Labs::Alone));
    stages.report()
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
fn tests(clippy: &Clippy) -> Verdict {
    let skipped = target_folder().join("skipped-tests");
    let skipped = std::path::absolute(&skipped).unwrap_or(skipped);
    let _ = std::fs::remove_file(&skipped);
    slowest::forget();
    let verdict = run_tests(&skipped, clippy);
    slowest::print();
    if let Ok(skipped) = std::fs::read_to_string(&skipped) {
        println!("\nNot run, because this machine does not allow it:\n{skipped}");
    }
    verdict
}

/// Runs the tests. `skipped` is the file in which tests note that they were not done.
fn run_tests(skipped: &Path, clippy: &Clippy) -> Verdict {
    let run_nicely = |arguments: &[&str]| {
        // Guests in the labs beside the tests have one processor and little patience, so they come
        // first. Most tests that keep a processor busy do not look at the time.
        let mut command = Command::new("nice");
        cargo::forget_this_program(&mut command);
        command
            .args(["-n", "5"])
            .arg(cargo::command().get_program())
            .args(arguments)
            .env("SANDSTONE_SKIPPED_TESTS", skipped);
        clippy.wrap(&mut command);
        ended(&format!("cargo {}", arguments.join(" ")), &mut command)
    };
    let nextest = cargo::command().args(["nextest", "--version"]).output();
    if nextest.is_ok_and(|output| output.status.success()) {
        // Tests that start a daemon wait for most of their time.
        let at_once = std::thread::available_parallelism().map_or(1, usize::from) * 2;
        run_nicely(&[
            "nextest",
            "run",
            "--workspace",
            "--locked",
            "--no-fail-fast",
            "--tests",
            "--status-level",
            "slow",
            "--test-threads",
            &at_once.to_string(),
        ])
    } else {
        let rest = run_nicely(&[&PLAIN[..], &["--workspace", "--exclude", "sim"]].concat());
        // The output of the crash laboratory is shown, as `.config/nextest.toml` has it.
        let sim = run_nicely(&[&PLAIN[..], &["--package", "sim", "--", "--show-output"]].concat());
        rest.and(sim)
    }
}

/// Labs of a stage.
#[derive(Clone, Copy, Debug)]
enum Labs {
    /// Labs that may run beside other programs.
    Beside,
    /// Labs that measure, so nothing may run beside them.
    Alone,
}

/// Runs labs by the conformance program that was built. Cargo, asked to run it, would build it once
/// more with only the features that it alone needs of its dependencies.
fn conformance(labs: Labs, quick: bool) -> Verdict {
    let mut command = Command::new(target_folder().join("debug/conformance"));
    if quick {
        command.arg("--quick");
    }
    match labs {
        Labs::Alone => ended("conformance", command.arg("--alone")),
        Labs::Beside => told_at_the_end("conformance", command.arg("--beside")),
    }
}

/// Runs a program beside another that prints: its output follows when it has ended.
fn told_at_the_end(name: &str, command: &mut Command) -> Verdict {
    let file = target_folder().join(format!("{name}.log"));
    let log = std::fs::File::create(&file).and_then(|log| Ok((log.try_clone()?, log)));
    let (out, err) = match log {
        Ok(log) => log,
        Err(error) => return Verdict::Failed(format!("cannot make {}: {error}", file.display())),
    };
    let verdict = ended(name, command.stdout(out).stderr(err));
    // Programs may print bytes that are no text.
    let text = std::fs::read(&file).unwrap_or_default();
    println!("\n=== {name}\n{}", String::from_utf8_lossy(&text));
    verdict
}

fn run_cargo(arguments: &[&str]) -> Verdict {
    let name = format!("cargo {}", arguments.join(" "));
    ended(&name, cargo::command().args(arguments))
}

/// Runs a command and returns its verdict.
fn ended(name: &str, command: &mut Command) -> Verdict {
    match command.current_dir(crate_root()).status() {
        Ok(status) if status.success() => Verdict::Passed,
        Ok(status) => Verdict::Failed(format!("{name}: {status}")),
        Err(error) => Verdict::Failed(format!("cannot run {name}: {error}")),
    }
}
