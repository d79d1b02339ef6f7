//! Loop devices over files: disks of this machine that a lab may use, and break.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::machine::process;

const LIMIT: Duration = Duration::from_secs(20);

/// Disk over a file, which is detached with the value. The file stays.
#[derive(Debug)]
pub(crate) struct LoopDisk {
    node: String,
    file: PathBuf,
}

/// Returns the reason why this machine gives no loop devices to this user, or `None` if it does.
pub(crate) fn missing(folder: &Path) -> Option<String> {
    let tried = LoopDisk::attach(&folder.join("tried"), 1 << 20);
    let error = tried.err()?;
    Some(format!("no loop device: {error:#}"))
}

impl LoopDisk {
    /// Makes a file of a size, and attaches a disk to it.
    ///
    /// # Errors
    /// The file cannot be made, or this machine gives no loop device to this user.
    pub(crate) fn attach(file: &Path, size: u64) -> Result<Self> {
        let made = File::create(file).with_context(|| format!("make {}", file.display()))?;
        made.set_len(size)?;
        let mut command = Command::new("losetup");
        command.args(["--find", "--show"]).arg(file);
        let node = process::output(command, LIMIT)?;
        Ok(Self {
            node: node.trim().to_owned(),
            file: file.to_owned(),
        })
    }

    /// Returns the path of the device node.
    pub(crate) fn node(&self) -> &str {
        &self.node
    }

    /// Breaks the disk: what lies behind these bytes can no longer be read or written.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn break_behind(&self, bytes: u64) -> Result<()> {
        let file = File::options().write(true).open(&self.file)?;
        file.set_len(bytes)?;
        let mut command = Command::new("losetup");
        command.arg("--set-capacity").arg(&self.node);
        process::output(command, LIMIT).map(drop)
    }
}

impl Drop for LoopDisk {
    fn drop(&mut self) {
        let detached = Command::new("losetup").arg("-d").arg(&self.node).status();
        // A device that stays is seen by the next `losetup -a`, and hinders nothing.
        drop(detached);
    }
}
