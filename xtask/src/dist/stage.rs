//! The files of the packages, gathered below `target/package/root` as they will lie on a machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Sources, done, text};

/// Place of the licence. Debian's systems have its text already, so the .deb lacks it.
const LICENSE: &str = "usr/share/licenses/sandstone/LICENSE";

/// Files of the repository, and their places on a machine.
const FILES: &[(&str, &str)] = &[
    (
        "packaging/systemd/sandstone.service",
        "usr/lib/systemd/system/sandstone.service",
    ),
    ("packaging/sandstone.toml", "etc/sandstone/sandstone.toml"),
    ("CHANGELOG.md", "usr/share/doc/sandstone/changelog"),
    ("LICENSE", LICENSE),
    ("docs/first-lun.md", "usr/share/doc/sandstone/first-lun.md"),
    (
        "docs/installation.md",
        "usr/share/doc/sandstone/installation.md",
    ),
    ("docs/console.md", "usr/share/doc/sandstone/console.md"),
    ("docs/alerts.md", "usr/share/doc/sandstone/alerts.md"),
    ("docs/clients.md", "usr/share/doc/sandstone/clients.md"),
    (
        "docs/operations.md",
        "usr/share/doc/sandstone/operations.md",
    ),
    ("docs/initiator.md", "usr/share/doc/sandstone/initiator.md"),
    ("docs/benchmark.md", "usr/share/doc/sandstone/benchmark.md"),
    (
        "docs/performance.md",
        "usr/share/doc/sandstone/performance.md",
    ),
];

/// Folders below `packaging` whose files are for other programs: clients of the storage, and
/// programs that watch it. Tests of these files are left out: a program that reads all files of a
/// folder would take them for more rules.
const FOLDERS: &[&str] = &["clients", "grafana", "prometheus"];

/// Scripts by which shells complete, and their places.
const COMPLETIONS: &[(&str, &str)] = &[
    ("bash", "usr/share/bash-completion/completions/sandstone"),
    ("zsh", "usr/share/zsh/site-functions/_sandstone"),
    ("fish", "usr/share/fish/vendor_completions.d/sandstone.fish"),
];

/// Gathers the files of the packages around a program.
pub(super) fn gather(sources: &Sources, program: &Path, revision: u32) -> Result<(), String> {
    let stage = sources.stage();
    let root = stage.join("root");
    remove(&stage)?;
    place_program(&stage, &root, program)?;
    for (from, to) in FILES {
        copy(&sources.root.join(from), &root.join(to))?;
    }
    for folder in FOLDERS {
        let from = sources.root.join("packaging").join(folder);
        let files = files_below(&from)?;
        for file in files.iter().filter(|file| !is_test(file)) {
            let name = file.strip_prefix(&from).unwrap_or(file);
            let to = root.join("usr/share/sandstone").join(folder).join(name);
            copy(file, &to)?;
        }
    }
    let pages = root.join("usr/share/man/man1");
    make_folder(&pages)?;
    done(Command::new(program).args(["man", "--folder"]).arg(&pages))?;
    let pages = files_below(&pages)?;
    // `-n` leaves out the time of the packing.
    done(Command::new("gzip").args(["-9", "-n"]).args(pages))?;
    for (shell, to) in COMPLETIONS {
        let script = text(Command::new(program).args(["completion", shell]))?;
        write(&root.join(to), &script)?;
    }
    write(&stage.join("changelog"), &changelog(sources, revision)?)
}

fn is_test(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    name.contains(".test.")
}

/// Puts the program in its place, without symbols. They lie in a file of their own beside the
/// packages, for whoever reads a backtrace.
fn place_program(stage: &Path, root: &Path, program: &Path) -> Result<(), String> {
    let place = root.join("usr/bin/sandstone");
    copy(program, &place)?;
    let symbols = stage.join("sandstone.debug");
    done(
        Command::new("objcopy")
            .args(["--only-keep-debug", "--compress-debug-sections"])
            .arg(&place)
            .arg(&symbols),
    )?;
    done(
        Command::new("strip")
            .args(["--strip-unneeded", "--remove-section=.comment"])
            // A program out of a package has this one already.
            .arg("--remove-section=.gnu_debuglink")
            .arg(&place),
    )?;
    done(
        Command::new("objcopy")
            .arg("--add-gnu-debuglink=sandstone.debug")
            .arg("root/usr/bin/sandstone")
            .current_dir(stage),
    )
}

/// Returns the changelog as Debian's packages have it. It points to the one that people read.
fn changelog(sources: &Sources, revision: u32) -> Result<String, String> {
    let at = format!("@{}", sources.epoch);
    let date = text(Command::new("date").args(["-u", "-R", "-d", &at]))?;
    Ok(format!(
        "sandstone ({}-{revision}) unstable; urgency=medium\n\n  \
         * /usr/share/doc/sandstone/changelog.gz lists what users notice.\n\n \
         -- {}  {}\n",
        sources.version,
        sources.maintainer,
        date.trim()
    ))
}

/// Returns all files below a folder, sorted; none if there is no such folder.
pub(super) fn files_below(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries {
            let path = entry
                .map_err(|error| format!("cannot list {}: {error}", folder.display()))?
                .path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    make_folder(to.parent().unwrap_or(to))?;
    fs::copy(from, to).map(drop).map_err(|error| {
        format!(
            "cannot copy {} to {}: {error}",
            from.display(),
            to.display()
        )
    })
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    make_folder(path.parent().unwrap_or(path))?;
    fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

fn make_folder(path: &Path) -> Result<(), String> {
    fs::create_dir_all(path).map_err(|error| format!("cannot make {}: {error}", path.display()))
}

/// Removes a folder that may not exist.
pub(super) fn remove(folder: &Path) -> Result<(), String> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("cannot remove {}: {error}", folder.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
