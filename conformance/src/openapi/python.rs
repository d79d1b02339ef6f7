//! Programs from PyPI, each list of them in a folder of its own that is made once.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::machine::packages::{cache_folder, on_path};
use crate::machine::process;

/// Time limit of an installation from PyPI, which happens once for each change of the versions.
const INSTALL: Duration = Duration::from_secs(300);

/// Programs from PyPI in a folder of their own.
pub(super) struct Python(PathBuf);

impl Python {
    /// Makes the folder of this name, or makes it again if other versions are wanted.
    pub(super) fn prepare(name: &str, requirements: &str) -> Result<Self> {
        let cache = cache_folder()?;
        let lock =
            File::create(cache.join(format!("{name}.lock"))).context("create a lock file")?;
        lock.lock().context("lock the folder of Python")?;
        let folder = cache.join(name);
        let contents = folder.join("contents");
        let python = Self(folder.join("bin"));
        if fs::read_to_string(&contents).is_ok_and(|have| have == requirements) {
            return Ok(python);
        }
        if folder.exists() {
            fs::remove_dir_all(&folder).context("remove the folder of older versions")?;
        }
        let mut venv = Command::new(on_path("python3").context("no python3")?);
        venv.args(["-m", "venv"]).arg(&folder);
        process::output(venv, INSTALL)?;
        let list = folder.join("requirements.txt");
        fs::write(&list, requirements).context("keep the list of programs")?;
        let mut pip = python.program("pip");
        pip.args(["install", "--quiet", "--requirement"]).arg(&list);
        process::output(pip, INSTALL)?;
        // This file is written last, so that a folder made in part is made again.
        fs::write(&contents, requirements).context("keep what is installed")?;
        Ok(python)
    }

    /// Builds a command that finds the other programs of the folder.
    pub(super) fn program(&self, name: &str) -> Command {
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
