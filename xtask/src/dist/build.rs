//! The program for packages: locked dependencies, and the same bytes wherever it is built.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Sources, done, text};

/// Folder that debug information and messages name instead of the checkout.
const SOURCE_PLACE: &str = "/usr/src/sandstone";

/// Cargo's profile of packages that people get.
pub(super) const PROFILE: &str = "dist";

/// Builds the program with a profile, and returns its file.
pub(super) fn program(sources: &Sources, profile: &str) -> Result<PathBuf, String> {
    let target = sources.root.join("target");
    let places = places(&sources.root)?;
    let remap = |option: &str| {
        let options = places
            .iter()
            .map(|(from, to)| format!("{option}={}={to}", from.display()));
        options.collect::<Vec<String>>()
    };
    let mut command = crate::cargo::command();
    command
        .args([
            "build",
            "--locked",
            "--package",
            "sandstone",
            "--profile",
            profile,
        ])
        .arg("--target-dir")
        .arg(&target)
        .current_dir(&sources.root)
        .env("SOURCE_DATE_EPOCH", sources.epoch.to_string())
        .env("CARGO_INCREMENTAL", "0")
        .env(
            "CARGO_ENCODED_RUSTFLAGS",
            remap("--remap-path-prefix").join("\u{1f}"),
        )
        // The C code of libraries has paths in its messages too.
        .env("CFLAGS", remap("-ffile-prefix-map").join(" "));
    done(&mut command)?;
    // Cargo's folder of this profile has another name.
    let folder = if profile == "dev" { "debug" } else { profile };
    Ok(target.join(folder).join("sandstone"))
}

/// Returns the folders whose names would get into the program, and what stands for each.
fn places(root: &Path) -> Result<Vec<(PathBuf, String)>, String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let sysroot = text(Command::new(rustc).args(["--print", "sysroot"]))?;
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home
        .or_else(|| std::env::home_dir().map(|home| home.join(".cargo")))
        .ok_or("neither CARGO_HOME nor HOME is set")?;
    // A later option wins where two fit: the checkout may lie below the home folder.
    Ok(vec![
        (home, "/usr/src/cargo".into()),
        (sysroot.trim().into(), "/usr/src/rust".into()),
        (root.to_owned(), SOURCE_PLACE.into()),
    ])
}
