//! Installer of Debian packages that a command needs and that are missing. It reports each
//! installation.

use std::path::Path;
use std::process::Command;

/// Makes sure that `file` exists, by installing `package`, which holds it, if necessary.
pub(crate) fn ensure(file: &str, package: &str) -> Result<(), String> {
    if Path::new(file).exists() {
        return Ok(());
    }
    eprintln!("xtask: {file} is missing: installing Debian's package {package}");
    let install = ["install", "--yes", "--no-install-recommends", package];
    // A fresh machine has no lists of packages. An old one has lists of packages that are gone.
    let outcome =
        apt_get(&install).or_else(|_| apt_get(&["update"]).and_then(|()| apt_get(&install)));
    match outcome {
        Ok(()) if Path::new(file).exists() => Ok(()),
        Ok(()) => Err(format!(
            "Debian's package {package} is installed but brought no {file}"
        )),
        Err(why) => Err(format!(
            "{file} of Debian's package {package} is missing, and the package could not be installed: {why}; \
             install it by hand (as root: apt-get install {package})"
        )),
    }
}

fn apt_get(arguments: &[&str]) -> Result<(), String> {
    let shown = arguments.join(" ");
    let output = Command::new("apt-get")
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .env("LC_ALL", "C")
        .output()
        .map_err(|error| format!("apt-get cannot be run: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let last = errors.lines().rfind(|line| !line.trim().is_empty());
    Err(format!("apt-get {shown}: {}", last.unwrap_or("no message")))
}
