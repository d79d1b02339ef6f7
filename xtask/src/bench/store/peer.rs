//! btrfs on a loop device over a file: a file system that, like the pool, copies on write and has
//! checksums.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::debian;

/// Mounted file system, which is removed when dropped.
pub(super) struct Peer {
    device: String,
    folder: PathBuf,
}

impl Peer {
    /// Makes the file system in a file of `size` bytes, and mounts it.
    pub(super) fn start(dir: &Path, size: u64) -> Result<Self, String> {
        debian::ensure("/usr/sbin/mkfs.btrfs", "btrfs-progs")?;
        let image = dir.join("btrfs-device.bench");
        let folder = dir.join("btrfs.bench");
        std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        command("fallocate", &["-l", &size.to_string(), text(&image)?])?;
        let shown = ["--find", "--show", "--direct-io=on", text(&image)?];
        let device = command("losetup", &shown)?.trim().to_owned();
        let peer = Self { device, folder };
        command("mkfs.btrfs", &["-q", "-f", &peer.device])?;
        command("mount", &[peer.device.as_str(), text(&peer.folder)?])?;
        Ok(peer)
    }

    /// Returns the folder of its files.
    pub(super) fn folder(&self) -> PathBuf {
        self.folder.clone()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        if let Ok(folder) = text(&self.folder) {
            // The file system may not be mounted yet.
            let _ = command("umount", &[folder]);
        }
        if let Err(error) = command("losetup", &["--detach", &self.device]) {
            eprintln!("bench: {error}");
        }
    }
}

fn text(path: &Path) -> Result<&str, String> {
    let text = path.to_str();
    text.ok_or_else(|| format!("{} is not UTF-8", path.display()))
}

fn command(name: &str, arguments: &[&str]) -> Result<String, String> {
    let shown = arguments.join(" ");
    let output = Command::new(name)
        .args(arguments)
        .output()
        .map_err(|error| format!("{name} cannot be run: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(format!("{name} {shown}: {}", errors.trim()))
}
