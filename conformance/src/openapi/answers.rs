//! Lab of the API's answers. schemathesis makes requests of the OpenAPI document, right ones and
//! wrong ones, and asks a daemon through its listener with TLS. No answer may be an error of the
//! daemon, or one that the document does not tell.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::{document, serve};
use crate::lab::{Bench, Outcome};
use crate::machine::python::{Extent, Python};
use crate::machine::{process, scratch};
use crate::servers::server::ServerKind;

const LIMIT: Duration = Duration::from_secs(120);
/// Programs from PyPI.
const REQUIREMENTS: &str = include_str!("../../clients/schemathesis_requirements.txt");
/// Longest time of the requests in seconds.
const SECONDS: &str = "45";
/// Seconds that it waits for an answer. Other labs and tests keep the processors busy.
const PATIENCE: &str = "60";
/// Most requests of one kind to each operation.
const EXAMPLES: &str = "8";
/// Properties that each answer must have.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
    response_headers_conformance,response_schema_conformance,unsupported_method,\
    allow_header_conformance,ignored_auth,negative_data_rejection";

/// Runs the lab.
pub(super) fn run(bench: &Bench) -> Result<Outcome> {
    let ServerKind::Sandstone(program) = &bench.kind else {
        return Ok(Outcome::Skipped("it is about our own API".to_owned()));
    };
    let python = match Python::prepare("schemathesis", REQUIREMENTS, Extent::Whole) {
        Ok(python) => python,
        Err(error) => {
            return Ok(Outcome::Skipped(format!(
                "no Python with the programs of PyPI (Debian package python3-venv): {error:#}"
            )));
        }
    };
    let folder = scratch::folder("schemathesis")?;
    let document = document(program, folder.path())?;
    let (mut daemon, socket) = serve(program, folder.path())?;
    let ask = |line: &str| ask(program, &socket, folder.path(), line);
    for line in [
        "pool create --size 256M tank a",
        "volume create -s -V 16M tank/v",
        "volume snapshot tank/v@monday",
        "lu create vm1 --volume tank/v",
        "host create esx --initiator iqn.1998-01.com.vmware:esx",
        "map add vm1 --host esx",
    ] {
        ask(line)?;
    }
    let token = ask("token add schemathesis --role admin")?;
    let status: Value = serde_json::from_str(&ask("status --json")?).context("read the status")?;
    let url = status["console"]["url"].as_str().context("no console")?;
    let report = folder.path().join("report.json");
    let mut fuzz = python.program("schemathesis");
    fuzz.arg("run")
        .arg(&document)
        .args(["--url", url, "--header"])
        .arg(format!("Authorization: Bearer {}", token.trim()))
        .arg("--tls-verify")
        .arg(folder.path().join("state/tls/cert.pem"))
        .args(["--phases", "coverage,fuzzing", "--checks", CHECKS])
        .args(["--max-examples", EXAMPLES, "--max-time", SECONDS])
        .args(["--continue-on-failure", "--no-shrink"])
        .args(["--request-timeout", PATIENCE])
        .args([
            "--generation-deterministic",
            "--warnings",
            "off",
            "--no-color",
        ])
        .args(["--report", "json", "--report-json-path"])
        .arg(&report)
        .current_dir(folder.path());
    let fuzzed = process::finish(fuzz, LIMIT)?;
    ensure!(
        daemon.child.try_wait()?.is_none(),
        "the daemon ended under its client"
    );
    ensure!(
        fuzzed.status.success(),
        "schemathesis: {}{}",
        findings(&fuzzed.stdout),
        fuzzed.tail()
    );
    Ok(Outcome::passed(figures(&report)?))
}

/// Returns the part of the program's output that tells its errors and failures, up to a bound.
fn findings(output: &str) -> String {
    let lines = output.lines().skip_while(|line| !line.starts_with("=="));
    lines
        .take(60)
        .fold(String::new(), |text, line| text + line + "\n")
}

/// Runs the command line against the daemon, and returns what it says.
fn ask(program: &Path, socket: &Path, folder: &Path, line: &str) -> Result<String> {
    let mut command = Command::new(program);
    command
        .arg("--control")
        .arg(socket)
        .args(line.split(' '))
        .current_dir(folder);
    process::output(command, LIMIT)
}

/// Returns the number of requests in a report. Each operation must have been asked.
fn figures(report: &Path) -> Result<String> {
    let text = fs::read_to_string(report).context("read the report")?;
    let report: Value = serde_json::from_str(&text).context("read the report")?;
    let number = |pointer| {
        report
            .pointer(pointer)
            .and_then(Value::as_u64)
            .context(pointer)
    };
    let (all, tested) = (number("/operations/total")?, number("/operations/tested")?);
    let asked = number("/test_cases/generated")?;
    ensure!(tested == all, "{tested} of {all} operations were asked");
    Ok(format!("{asked} requests to {all} operations"))
}
