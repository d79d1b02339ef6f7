//! Labs of the OpenAPI document. openapi-spec-validator accepts it, a client that
//! openapi-python-client generates from it controls a daemon, and schemathesis finds no answer that
//! the document does not tell.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::lab::{Bench, Lab, Outcome, Room};
use crate::machine::process::{self, Running};
use crate::machine::python::{Extent, Python};
use crate::machine::scratch;
use crate::servers::server::{self, ServerKind};

mod answers;

const LIMIT: Duration = Duration::from_secs(120);
const REQUIREMENTS: &str = include_str!("../clients/openapi_requirements.txt");
/// Script that the generated client runs.
const CLIENT: &str = include_str!("../clients/openapi_client.py");
/// Package that the script imports.
const PACKAGE: &str = "sandstone_client";

/// Labs of the control API's document.
pub(crate) const LABS: &[Lab] = &[
    Lab {
        name: "openapi",
        about: "openapi-spec-validator takes our document, and a client in Python that was generated of it works a daemon",
        room: Room::Shared,
        run,
    },
    Lab {
        name: "schemathesis",
        about: "schemathesis asks each operation of our document, right and wrong, and each answer is one that the \
            document tells",
        room: Room::Shared,
        run: answers::run,
    },
];

fn run(bench: &Bench) -> Result<Outcome> {
    let ServerKind::Sandstone(program) = &bench.kind else {
        return Ok(Outcome::Skipped("it is about our own API".to_owned()));
    };
    let python = match Python::prepare("openapi", REQUIREMENTS, Extent::Whole) {
        Ok(python) => python,
        Err(error) => {
            return Ok(Outcome::Skipped(format!(
                "no Python with the programs of PyPI (Debian package python3-venv): {error:#}"
            )));
        }
    };
    let folder = scratch::folder("openapi")?;
    let document = document(program, folder.path())?;
    let mut validate = python.program("openapi-spec-validator");
    validate.arg(&document);
    process::output(validate, LIMIT).context("openapi-spec-validator")?;
    generate(&python, &document, folder.path())?;
    let script = folder.path().join("client.py");
    fs::write(&script, CLIENT).context("keep the client's script")?;
    let (mut daemon, socket) = serve(program, folder.path())?;
    let mut command = python.program("python");
    command
        .arg(script)
        .args([folder.path(), &document, &socket])
        .arg(folder.path().join("device.img"));
    let told = process::output(command, LIMIT)?;
    ensure!(
        daemon.child.try_wait()?.is_none(),
        "the daemon ended under its client"
    );
    let last = told.lines().last().unwrap_or_default();
    Ok(Outcome::passed(format!("the document is valid; {last}")))
}

/// Writes the document of a program into a folder.
fn document(program: &Path, folder: &Path) -> Result<PathBuf> {
    let document = folder.join("openapi.json");
    let mut command = Command::new(program);
    command.arg("openapi");
    fs::write(&document, process::output(command, LIMIT)?).context("keep the document")?;
    Ok(document)
}

/// Generates the client. The generator warns of each type that it omits, and there may be no
/// warning.
fn generate(python: &Python, document: &Path, folder: &Path) -> Result<()> {
    let mut generator = python.program("openapi-python-client");
    generator
        .args(["generate", "--fail-on-warning", "--meta", "none", "--path"])
        .arg(document)
        .arg("--output-path")
        .arg(folder.join(PACKAGE));
    let generated = process::finish(generator, LIMIT)?;
    ensure!(
        generated.status.success(),
        "openapi-python-client: {}",
        generated.tail()
    );
    Ok(())
}

/// Starts a daemon with a console, and returns it and its control socket.
fn serve(program: &Path, folder: &Path) -> Result<(Running, PathBuf)> {
    let state = folder.join("state");
    let mut command = Command::new(program);
    command
        .args([
            "serve",
            "--cache",
            "64M",
            "--console",
            "127.0.0.1:0",
            "--state",
        ])
        .arg(&state)
        .current_dir(folder);
    let daemon = process::start_logged(command, &server::log_file(folder))?;
    let socket = state.join("control.sock");
    process::until("the control socket is there", LIMIT, || socket.exists())?;
    Ok((daemon, socket))
}
