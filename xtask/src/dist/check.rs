//! Checks of finished packages: what Debian's and Red Hat's own tools say, and the labs that
//! install them.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::pack::{self, Packing};
use super::{Sources, done, stage};
use crate::debian;

/// Programs that the checks need, and Debian's packages that have them.
const NEEDED: &[(&str, &str)] = &[
    ("/usr/bin/lintian", "lintian"),
    ("/usr/bin/mmdebstrap", "mmdebstrap"),
    ("/usr/bin/rpm", "rpm"),
    ("/usr/bin/rpmlint", "rpmlint"),
];

/// Checks the packages of a folder, and installs two revisions of them in the labs.
pub(super) fn all(sources: &Sources, output: &Path) -> Result<(), String> {
    for (file, package) in NEEDED {
        debian::ensure(file, package)?;
    }
    lint(sources, output)?;
    labs(sources)
}

/// Asks the tools of both kinds of packages for errors.
fn lint(sources: &Sources, output: &Path) -> Result<(), String> {
    for entry in fs::read_dir(output).map_err(|error| error.to_string())? {
        let path = entry.map_err(|error| error.to_string())?.path();
        match path.extension().and_then(|kind| kind.to_str()) {
            Some("deb") => done(
                Command::new("lintian")
                    .args(["--fail-on", "error", "--allow-root"])
                    .arg(&path),
            )?,
            Some("rpm") => {
                done(Command::new("rpm").arg("--checksig").arg(&path))?;
                done(
                    Command::new("rpmlint")
                        .arg("--config")
                        .arg(sources.root.join("packaging/rpm/rpmlint.toml"))
                        .arg(&path),
                )?;
            }
            _ => (),
        }
    }
    Ok(())
}

/// Runs the labs of packages, with a second revision to upgrade to.
fn labs(sources: &Sources) -> Result<(), String> {
    let folder = sources.root.join("target/package-revisions");
    stage::remove(&folder)?;
    fs::create_dir_all(&folder)
        .map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    for revision in [1, 2] {
        pack::deb(sources, revision, Packing::Quick, &folder)?;
        pack::rpm(sources, revision, Packing::Quick, &folder)?;
    }
    done(
        crate::cargo::command()
            .args([
                "run",
                "--package",
                "conformance",
                "--",
                "--one",
                "--packages",
            ])
            .arg(&folder)
            .arg("--server")
            .arg(sources.stage().join("root/usr/bin/sandstone"))
            .arg("package-")
            .current_dir(&sources.root),
    )
}
