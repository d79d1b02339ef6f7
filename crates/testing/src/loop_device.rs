//! A loop device over a file: a device node that a test may use freely.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::skipped::skipped;

/// A loop device, detached on drop.
pub struct Loop(PathBuf);

impl Loop {
    /// Attaches a loop device to a file. Returns `None` if this machine gives none to this user,
    /// and reports the test as skipped.
    pub fn attach(file: &Path, options: &[&str]) -> Option<Self> {
        let mut command = Command::new("losetup");
        command.args(["--find", "--show"]).args(options).arg(file);
        match command.output() {
            Ok(made) if made.status.success() => {
                let node = String::from_utf8_lossy(&made.stdout);
                Some(Self(node.trim().into()))
            }
            other => {
                skipped(&format!("no loop device can be attached here: {other:?}"));
                None
            }
        }
    }

    /// Returns the path of the device node.
    pub fn node(&self) -> &Path {
        &self.0
    }

    /// Returns the last part of the node's path.
    pub fn name(&self) -> &str {
        let name = self.0.file_name().and_then(|name| name.to_str());
        name.expect("a name")
    }

    /// Reads a fact that the kernel reports below /sys/block.
    pub fn told(&self, what: &str) -> String {
        let file = Path::new("/sys/block").join(self.name()).join(what);
        std::fs::read_to_string(file).expect("told")
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("-d").arg(&self.0).status();
    }
}
