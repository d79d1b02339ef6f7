//! Installs what a command needs from Debian when it is missing, and says so.

use std::path::Path;
use std::process::Command;

/// Makes sure that `file` exists, else installs `package`, which holds it.
pub(crate) fn ensure(file: &str, package: &str) -> Result<(), String> {
    if Path::new(file).exists() {
        return Ok(());
    }
    eprintln!("xtask: {file} is missing: installing Debian's package {package}");
    let status = Command::new("apt-get")
        .args(["install", "--yes", "--no-install-recommends", package])
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdout(std::process::Stdio::null())
        .status();
    match status {
        Ok(status) if status.success() && Path::new(file).exists() => Ok(()),
        Ok(_) => Err(format!(
            "apt-get could not install {package}: install it by hand (as root: apt-get install {package})"
        )),
        Err(e) => Err(format!(
            "{file} is missing and apt-get cannot be run ({e}): install what Debian calls {package}"
        )),
    }
}
