//! Packages of PyPI, in a virtual environment of their own below the cache. An environment is made
//! again if other versions are wanted.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::packages::{cache_folder, on_path};
use super::process;

/// Time limit of an installation from PyPI, which happens once for each change of the versions.
const INSTALL: Duration = Duration::from_secs(300);

/// Extent of an installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// The packages, and all that they need.
    Whole,
    /// The packages themselves, because a file of theirs is wanted.
    Alone,
}

/// Virtual environment with packages of PyPI.
#[derive(Debug)]
pub(crate) struct Python(PathBuf);

impl Python {
    /// Makes the environment `name` with the packages that `requirements` pins, or finds it made.
    ///
    /// # Errors
    /// The machine has no python3 with venv, or the packages cannot be installed.
    pub(crate) fn prepare(name: &str, requirements: &str, extent: Extent) -> Result<Self> {
        let cache = cache_folder()?;
        let lock =
            File::create(cache.join(format!("{name}.lock"))).context("create a lock file")?;
        lock.lock().context("lock the folder of Python")?;
        let python = Self(cache.join(name));
        let contents = python.0.join("contents");
        if fs::read_to_string(&contents).is_ok_and(|have| have == requirements) {
            return Ok(python);
        }
        if python.0.exists() {
            fs::remove_dir_all(&python.0).context("remove the folder of older versions")?;
        }
        let mut venv = Command::new(on_path("python3").context("no python3")?);
        venv.args(["-m", "venv"]).arg(&python.0);
        process::output(venv, INSTALL)?;
        let list = python.0.join("requirements.txt");
        fs::write(&list, requirements).context("keep the list of programs")?;
        let mut pip = python.program("pip");
        pip.args(["install", "--quiet"]);
        if extent == Extent::Alone {
            pip.arg("--no-deps");
        }
        pip.arg("--requirement").arg(&list);
        process::output(pip, INSTALL)?;
        // This file is written last, so that a folder made in part is made again.
        fs::write(&contents, requirements).context("keep what is installed")?;
        Ok(python)
    }

    /// Builds a command that finds the other programs of the environment.
    pub(crate) fn program(&self, name: &str) -> Command {
        let programs = self.0.join("bin");
        let mut command = Command::new(programs.join(name));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = [programs].into_iter().chain(std::env::split_paths(&path));
        // A folder with a colon in its name cannot be in PATH. The programs are then found without
        // it.
        if let Ok(path) = std::env::join_paths(folders) {
            command.env("PATH", path);
        }
        command
    }

    /// Reads a file of a package, such as `axe_playwright_python/axe.min.js`.
    ///
    /// # Errors
    /// No package has it.
    pub(crate) fn file(&self, path: &str) -> Result<String> {
        let libraries = fs::read_dir(self.0.join("lib")).context("list Python's libraries")?;
        for library in libraries.flatten() {
            let file = library.path().join("site-packages").join(path);
            if file.is_file() {
                return fs::read_to_string(&file)
                    .with_context(|| format!("read {}", file.display()));
            }
        }
        anyhow::bail!("no package in {} has {path}", self.0.display())
    }
}
