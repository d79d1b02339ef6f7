//! One build of everything that later stages run, which also tells what clippy finds.
//!
//! Clippy's driver is the compiler with more lints. As cargo's wrapper for the crates of the
//! workspace it compiles and lints at once. `cargo clippy` would compile everything once more.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::stages::Verdict;
use crate::{cargo, crate_root};

/// Environment variable that names cargo's wrapper.
const WRAPPER: &str = "RUSTC_WORKSPACE_WRAPPER";

/// Compiler with clippy's lints, beside the compiler itself.
#[derive(Clone, Debug)]
pub(super) struct Clippy(Option<PathBuf>);

impl Clippy {
    /// Looks for clippy's driver in the toolchain that is in use.
    pub(super) fn find() -> Self {
        let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
        let root = rustc.args(["--print", "sysroot"]).output().ok();
        let root = root.and_then(|output| String::from_utf8(output.stdout).ok());
        let driver = root.map(|root| PathBuf::from(root.trim()).join("bin/clippy-driver"));
        Self(driver.filter(|driver| driver.exists()))
    }

    /// Makes a command of cargo use what this builds.
    pub(super) fn wrap<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        match &self.0 {
            Some(driver) => command.env(WRAPPER, driver),
            None => command,
        }
    }
}

/// Builds all targets. Returns the verdict of the build, and that of the lints.
pub(super) fn build(clippy: &Clippy) -> (Verdict, Verdict) {
    let mut command = cargo::command();
    command.args(["build", "--workspace", "--all-targets", "--locked"]);
    command.arg("--message-format=json-diagnostic-rendered-ansi");
    clippy.wrap(&mut command);
    let failed =
        |error: std::io::Error| Verdict::Failed(format!("cannot run cargo build: {error}"));
    let unknown = || Verdict::LeftOut("the programs were not built");
    let child = command
        .current_dir(crate_root())
        .stdout(Stdio::piped())
        .spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) => return (failed(error), unknown()),
    };
    let messages = child.stdout.take().map(BufReader::new);
    let lines = messages.into_iter().flat_map(BufRead::lines);
    let told = lines
        .map_while(Result::ok)
        .filter(|line| tell(line))
        .count();
    let built = match child.wait() {
        Ok(status) if status.success() => Verdict::Passed,
        Ok(status) => Verdict::Failed(format!("cargo build: {status}")),
        Err(error) => failed(error),
    };
    let lints = match (&built, &clippy.0, told) {
        (Verdict::Passed, None, _) => {
            Verdict::Failed("clippy is missing: rustup component add clippy".into())
        }
        (Verdict::Passed, Some(_), 0) => Verdict::Passed,
        (Verdict::Passed, Some(_), _) => Verdict::Failed(format!("{told} warnings, see above")),
        _ => unknown(),
    };
    (built, lints)
}

/// Prints a message of the compiler. Returns whether `line` is one.
fn tell(line: &str) -> bool {
    let Ok(message) = serde_json::from_str::<Value>(line) else {
        return false;
    };
    if message["reason"] != "compiler-message" {
        return false;
    }
    eprint!(
        "{}",
        message["message"]["rendered"].as_str().unwrap_or(line)
    );
    // The last message of a crate, which counts the others, has neither a lint nor a place.
    let message = &message["message"];
    !message["code"].is_null()
        || message["spans"]
            .as_array()
            .is_some_and(|all| !all.is_empty())
}
