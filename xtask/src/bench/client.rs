//! Runner of a client, as a process of its own on the other core. It samples the target's CPU time
//! for exactly the period that the client measures.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use super::process;
use super::server::Server;
use super::workload::{Client, Workload};
use crate::{crate_root, debian};

/// Core that makes the load.
const CORE: &str = "1";
const SOURCE: &str = "conformance/clients/libiscsi_load.c";

/// Result that a client prints at its end.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct LoadResult {
    /// Number of transfers in the measured period.
    pub ios: u64,
    /// Length of the measured period.
    pub seconds: f64,
    pub p50_us: f64,
    pub p99_us: f64,
    /// CPU time of the client in that period.
    pub client_cpu_s: f64,
    /// Number of transfers that had to be sent again because of a unit attention or a busy target.
    pub retries: u64,
}

/// Compiles the libiscsi client, and returns its path.
pub(super) fn build() -> Result<PathBuf, String> {
    debian::ensure("/usr/bin/cc", "gcc")?;
    debian::ensure("/usr/include/iscsi/iscsi.h", "libiscsi-dev")?;
    let folder = crate_root().join("target/clients");
    std::fs::create_dir_all(&folder)
        .map_err(|e| format!("cannot make {}: {e}", folder.display()))?;
    let program = folder.join("libiscsi_load");
    let output = Command::new("cc")
        .args(["-O2", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&program)
        .args([SOURCE, "-liscsi"])
        .current_dir(crate_root())
        .output()
        .map_err(|e| format!("cannot run cc: {e}"))?;
    if !output.status.success() {
        return Err(format!(
            "{SOURCE} does not compile:\n{}",
            String::from_utf8_lossy(&output.stderr)
        ));
    }
    Ok(program)
}

/// Runs the workload. Returns the client's result and the target's CPU seconds in the measured
/// period.
pub(super) fn load(
    workload: &Workload,
    server: &Server,
    libiscsi_client: &Path,
    seconds: f64,
) -> Result<(LoadResult, f64), String> {
    let mut command = match workload.client {
        Client::Libiscsi => {
            let mut command = pinned(libiscsi_client);
            command.args(["--url", &server.url()]);
            if workload.digests {
                command.arg("--header-digest");
            }
            command
        }
        Client::Lean => {
            let mut command = lean(server)?;
            if workload.digests {
                command.arg("--digests");
            }
            command
        }
    };
    command.args(["--op", workload.op(), "--pattern", workload.pattern()]);
    command.args([
        "--block",
        &workload.block.to_string(),
        "--depth",
        &workload.depth.to_string(),
    ]);
    command.args([
        "--sessions",
        &workload.sessions.to_string(),
        "--seconds",
        &seconds.to_string(),
    ]);
    let mut child = spawn(&mut command)?;
    let mut lines = lines_of(&mut child);
    let outcome = sample(&mut lines, server);
    let status = child.wait().map_err(|e| e.to_string())?;
    match outcome {
        Ok(result) if status.success() => Ok(result),
        Ok(_) => Err(format!("the client failed after its result ({status})")),
        Err(e) => Err(format!("{e} ({status})")),
    }
}

fn sample(
    lines: &mut impl Iterator<Item = String>,
    server: &Server,
) -> Result<(LoadResult, f64), String> {
    match lines.next() {
        Some(line) if line == "started" => {}
        Some(other) => return Err(format!("the client said '{other}'")),
        None => return Err("the client gave up before it started".into()),
    }
    let before = process::cpu_s(server.pid())?;
    let line = lines.next().ok_or("the client gave up while it measured")?;
    let used = process::cpu_s(server.pid())? - before;
    let result =
        serde_json::from_str(&line).map_err(|e| format!("the client said '{line}': {e}"))?;
    Ok((result, used))
}

/// Writes every block of the unit once, so that reads find memory that was written.
pub(super) fn fill(server: &Server) -> Result<(), String> {
    let mut command = lean(server)?;
    command.args([
        "--mode",
        "fill",
        "--op",
        "write",
        "--pattern",
        "sequential",
        "--block",
        "262144",
        "--depth",
        "8",
    ]);
    let status = spawn(&mut command)?.wait().map_err(|e| e.to_string())?;
    if status.success() {
        Ok(())
    } else {
        Err(format!(
            "cannot fill the unit of {}: {status}",
            server.kind.name()
        ))
    }
}

/// Logged-in sessions that stay silent until they are dropped.
pub(super) struct Held {
    child: Child,
    /// Time until all were logged in.
    pub seconds: f64,
}

impl Held {
    /// Logs `sessions` in at once.
    pub(super) fn log_in(server: &Server, sessions: usize) -> Result<Self, String> {
        Self::log_in_to(server.portal, &server.target, sessions)
    }

    /// Logs `sessions` in at once to a target.
    pub(super) fn log_in_to(
        portal: SocketAddr,
        target: &str,
        sessions: usize,
    ) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Line {
            seconds: f64,
        }
        let mut command = lean_to(portal, target)?;
        command
            .args(["--mode", "hold", "--sessions", &sessions.to_string()])
            .stdin(Stdio::piped());
        let mut child = spawn(&mut command)?;
        let line = lines_of(&mut child).next();
        let parsed = line.and_then(|line| serde_json::from_str::<Line>(&line).ok());
        let mut held = Self {
            child,
            seconds: 0.0,
        };
        held.seconds = parsed
            .ok_or_else(|| format!("{sessions} sessions could not be logged in"))?
            .seconds;
        Ok(held)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        drop(self.child.stdin.take()); // its end tells the client to log out
        let _ = self.child.wait();
    }
}

/// Builds the command that runs this program as the lean client of a unit.
fn lean(server: &Server) -> Result<Command, String> {
    let mut command = lean_to(server.portal, &server.target)?;
    command.args(["--lun", &server.lun.to_string()]);
    Ok(command)
}

/// Builds the command that runs this program as the lean client of a target.
fn lean_to(portal: SocketAddr, target: &str) -> Result<Command, String> {
    let program = optimised_self()?;
    let mut command = Command::new(program);
    command.args([
        "bench",
        "lean",
        "--core",
        CORE,
        "--portal",
        &portal.to_string(),
    ]);
    command.args(["--target", target]);
    Ok(command)
}

/// Returns this program as a benchmark needs it: its client must cost less than the target that it
/// measures. Developer commands run without much optimisation, so that they are built quickly.
fn optimised_self() -> Result<PathBuf, String> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let built = BUILT.get_or_init(|| Ok(super::build(&["--package", "xtask"])?.join("xtask")));
    built.clone()
}

/// Builds a command that runs `program` on the client's core.
pub(super) fn pinned(program: &Path) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", CORE]).arg(program);
    command
}

fn spawn(command: &mut Command) -> Result<Child, String> {
    command
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| format!("cannot start {}: {e}", command.get_program().display()))
}

fn lines_of(child: &mut Child) -> impl Iterator<Item = String> + use<> {
    child
        .stdout
        .take()
        .into_iter()
        .flat_map(|out| BufReader::new(out).lines().map_while(Result::ok))
}
