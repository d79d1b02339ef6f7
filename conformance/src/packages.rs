//! Labs of the packages: .deb and .rpm in bare systems, and the .deb under systemd in a guest.
//!
//! Each upgrades from one revision to another, so only `cargo xtask dist --test` runs them, after
//! building both. The systems are made by mmdebstrap from Debian, once, and kept in the cache.

mod guest;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::lab::{Bench, Lab, Outcome, Room};
use crate::machine::packages::{cache_folder, on_path};
use crate::machine::{process, scratch};
use crate::servers::server;

/// Longest time in which a system is made.
const MAKING: Duration = Duration::from_secs(600);
const LIMIT: Duration = Duration::from_secs(300);
/// Release of Debian of the systems.
const SUITE: &str = "bookworm";
/// Packages that a bare system has beside the least: those that ours names as dependencies.
const BARE: &str = "adduser,debconf,init-system-helpers";

/// Labs of packages.
pub(crate) const LABS: &[Lab] = &[
    Lab {
        name: "package-bare",
        about: "the .deb in a bare Debian: install, first LUN, upgrade, removal, purge that asks",
        room: Room::Packages,
        run: bare,
    },
    Lab {
        name: "package-rpm",
        about: "the .rpm in a bare system: digests, install, verify, upgrade, removal",
        room: Room::Packages,
        run: rpm,
    },
    Lab {
        name: "package-systemd",
        about: "the .deb under systemd: upgrade and watchdog while our initiator and open-iscsi write",
        room: Room::Packages,
        run: guest::run,
    },
];

/// Returns the folder of a Debian system with these packages, unpacked for the caller alone; or
/// why there can be none.
fn system(name: &str, packages: &str, folder: &Path) -> Result<Result<PathBuf, String>> {
    if on_path("mmdebstrap").is_none() {
        return Ok(Err("mmdebstrap is not installed".into()));
    }
    if !is_root() {
        return Ok(Err("only root can make a system of its own".into()));
    }
    let kept = cache_folder()?.join(format!("system-{name}.tar"));
    if !kept.exists() {
        println!("  making the system {name} in {}", kept.display());
        let new = kept.with_extension("new.tar");
        let mut command = Command::new("mmdebstrap");
        command
            .args(["--variant=minbase", "--mode=root", "--quiet"])
            .arg(format!("--include={packages}"))
            .arg(SUITE)
            .arg(&new);
        process::output(command, MAKING)?;
        fs::rename(&new, &kept)?;
    }
    let root = folder.join("root");
    fs::create_dir_all(&root)?;
    let mut command = Command::new("tar");
    command.arg("-C").arg(&root).arg("-xf").arg(&kept);
    process::output(command, LIMIT)?;
    Ok(Ok(root))
}

fn is_root() -> bool {
    let mut command = Command::new("id");
    command.arg("-u");
    process::output(command, LIMIT).is_ok_and(|text| text.trim() == "0")
}

/// Puts both revisions of both packages into a system, and returns the version of the program.
fn put_packages(bench: &Bench, root: &Path) -> Result<String> {
    let folder = bench.packages.as_ref().context(
        "this lab needs two revisions of the package: `cargo xtask dist --test` builds them",
    )?;
    let mut version = None;
    for entry in fs::read_dir(folder).with_context(|| format!("list {}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let Some((of, file)) = package(&name) else {
            continue;
        };
        fs::copy(&path, root.join(file))?;
        version = Some(of.to_owned());
    }
    for file in ["1.deb", "2.deb", "1.rpm", "2.rpm"] {
        ensure!(
            root.join(file).exists(),
            "{} does not hold both revisions: there is no {file}",
            folder.display()
        );
    }
    version.context("the packages have no version")
}

/// Returns the program's version of a package, and the name of its file in labs: `1.deb` of
/// `sandstone_0.1.0-1_amd64.deb`.
fn package(name: &str) -> Option<(&str, String)> {
    let (kind, told) = match name.strip_prefix("sandstone_") {
        Some(told) => ("deb", told.strip_suffix("_amd64.deb")?),
        None => {
            let told = name.strip_prefix("sandstone-")?;
            ("rpm", told.strip_suffix(".x86_64.rpm")?)
        }
    };
    let (version, revision) = told.rsplit_once('-')?;
    Some((version, format!("{revision}.{kind}")))
}

fn bare(bench: &Bench) -> Result<Outcome> {
    let folder = scratch::folder("package")?;
    let root = match system("bare", BARE, folder.path())? {
        Ok(root) => root,
        Err(reason) => return Ok(Outcome::Skipped(reason)),
    };
    let version = put_packages(bench, &root)?;
    fs::write(root.join("bare.sh"), include_str!("../packages/bare.sh"))?;
    let port = server::free_port()?;
    // Whatever the script leaves running ends with its namespace of processes.
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-c"])
        .arg(
            "mount -t proc proc \"$1/proc\" && mount -t devpts devpts \"$1/dev/pts\" && \
             exec chroot \"$1\" sh /bare.sh \"$2\" \"$3\"",
        )
        .arg("bare")
        .arg(&root)
        .arg(port.to_string())
        .arg(version);
    let text = process::output(command, LIMIT)?;
    figures(&text)
}

fn rpm(bench: &Bench) -> Result<Outcome> {
    if on_path("rpm").is_none() {
        return Ok(Outcome::Skipped("rpm is not installed".into()));
    }
    let folder = scratch::folder("package")?;
    let root = match system("bare", BARE, folder.path())? {
        Ok(root) => root,
        Err(reason) => return Ok(Outcome::Skipped(reason)),
    };
    let version = put_packages(bench, &root)?;
    let script = folder.path().join("rpm.sh");
    fs::write(&script, include_str!("../packages/rpm.sh"))?;
    let mut command = Command::new("sh");
    command.arg(&script).arg(&root).arg(version);
    let text = process::output(command, LIMIT)?;
    figures(&text)
}

/// Returns the outcome that a script told in its last line.
fn figures(text: &str) -> Result<Outcome> {
    let lines = text.lines().map(str::trim);
    let told = lines
        .filter_map(|line| line.strip_prefix("figures: "))
        .next_back();
    let told = told.with_context(|| {
        format!(
            "the script did not come through:\n{}",
            process::last_lines(text, 40)
        )
    })?;
    Ok(Outcome::passed(told))
}

#[cfg(test)]
mod tests {
    use super::package;

    #[test]
    fn packages_are_told_by_their_names() {
        let deb = package("sandstone_0.1.0-2_amd64.deb");
        assert_eq!(deb, Some(("0.1.0", "2.deb".to_owned())));
        let rpm = package("sandstone-0.1.0-rc1-1.x86_64.rpm");
        assert_eq!(rpm, Some(("0.1.0-rc1", "1.rpm".to_owned())));
        for other in [
            "SHA256SUMS",
            "sandstone-0.1.0.tar.gz",
            "sandstone_0.1.0_amd64.deb",
        ] {
            assert_eq!(package(other), None, "{other}");
        }
    }
}
