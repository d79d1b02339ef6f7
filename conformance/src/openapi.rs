//! Lab of the OpenAPI document. openapi-spec-validator accepts it, and a client that
//! openapi-python-client generates from it controls a daemon.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::lab::{Bench, Lab, Outcome, Room};
use crate::machine::packages::{cache_folder, on_path};
use crate::machine::process::{self, Running};
use crate::machine::scratch;
use crate::servers::server::{self, ServerKind};

const LIMIT: Duration = Duration::from_secs(120);
/// Time limit of an installation from PyPI, which happens once for each change of the versions.
const INSTALL: Duration = Duration::from_secs(300);

const REQUIREMENTS: &str = include_str!("../clients/openapi_requirements.txt");
/// Script that the generated client runs.
const CLIENT: &str = include_str!("../clients/openapi_client.py");
/// Package that the script imports.
const PACKAGE: &str = "sandstone_client";

/// Lab of the control API's document.
pub(crate) const LABS: &[Lab] = &[Lab {
    name: "openapi",
    about: "openapi-spec-validator takes our document, and a client in Python that was generated of it works a daemon",
    room: Room::Shared,
    run,
}];

fn run(bench: &Bench) -> Result<Outcome> {
    let ServerKind::Sandstone(program) = &bench.kind else {
        return Ok(Outcome::Skipped("it is about our own API".to_owned()));
    };
    let python = match Python::prepare() {
        Ok(python) => python,
        Err(error) => {
            return Ok(Outcome::Skipped(format!(
                "no Python with the programs of PyPI (Debian package python3-venv): {error:#}"
            )));
        }
    };
    let folder = scratch::folder("openapi")?;
    let document = folder.path().join("openapi.json");
    let mut command = Command::new(program);
    command.arg("openapi");
    fs::write(&document, process::output(command, LIMIT)?).context("keep the document")?;
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

/// Starts a daemon, and returns it and its control socket.
fn serve(program: &Path, folder: &Path) -> Result<(Running, PathBuf)> {
    let state = folder.join("state");
    let mut command = Command::new(program);
    command
        .args(["serve", "--console", "off", "--state"])
        .arg(&state);
    let daemon = process::start_logged(command, &server::log_file(folder))?;
    let socket = state.join("control.sock");
    process::until("the control socket is there", LIMIT, || socket.exists())?;
    Ok((daemon, socket))
}

/// Programs from PyPI in a folder of their own.
struct Python(PathBuf);

impl Python {
    /// Makes the folder, or makes it again if other versions are wanted.
    fn prepare() -> Result<Self> {
        let cache = cache_folder()?;
        let lock = File::create(cache.join("openapi.lock")).context("create a lock file")?;
        lock.lock().context("lock the folder of Python")?;
        let folder = cache.join("openapi");
        let contents = folder.join("contents");
        let python = Self(folder.join("bin"));
        if fs::read_to_string(&contents).is_ok_and(|have| have == REQUIREMENTS) {
            return Ok(python);
        }
        if folder.exists() {
            fs::remove_dir_all(&folder).context("remove the folder of older versions")?;
        }
        let mut venv = Command::new(on_path("python3").context("no python3")?);
        venv.args(["-m", "venv"]).arg(&folder);
        process::output(venv, INSTALL)?;
        let list = folder.join("requirements.txt");
        fs::write(&list, REQUIREMENTS).context("keep the list of programs")?;
        let mut pip = python.program("pip");
        pip.args(["install", "--quiet", "--requirement"]).arg(&list);
        process::output(pip, INSTALL)?;
        // This file is written last, so that a folder made in part is made again.
        fs::write(&contents, REQUIREMENTS).context("keep what is installed")?;
        Ok(python)
    }

    /// Builds a command that finds the other programs of the folder.
    fn program(&self, name: &str) -> Command {
        let mut command = Command::new(self.0.join(name));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = [self.0.clone()]
            .into_iter()
            .chain(std::env::split_paths(&path));
        // A folder with a colon in its name cannot be in PATH. The programs are then found without
        // it.
        if let Ok(path) = std::env::join_paths(folders) {
            command.env("PATH", path);
        }
        command
    }
}
