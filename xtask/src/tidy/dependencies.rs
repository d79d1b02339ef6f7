//! Rule of dependencies: the leaf crates do no I/O and do not know each other, and nothing imports
//! the binary's crate.
//!
//! It is checked twice. Manifests are checked as cargo reads them. Sources are checked too, because
//! `std` offers sockets, files, threads and clocks without any manifest.

use std::path::Path;

use serde::Deserialize;
use syn::visit::Visit;

use super::paths::Paths;
use super::{Finding, Tree};

/// Crates that take bytes and time and return actions.
const LEAVES: &[&str] = &["scsi", "iscsi", "nbd", "iometer", "store"];

/// Paths that a leaf's product code must not name, and the alternative to each.
const BANNED_PATHS: &[(&[&str], &str)] = &[
    (
        &["std", "net"],
        "sockets belong to `sandstone`: take bytes and return bytes",
    ),
    (
        &["std", "fs"],
        "files belong to `sandstone`: take bytes and return bytes",
    ),
    (
        &["std", "os"],
        "the operating system belongs to `sandstone`",
    ),
    (
        &["std", "thread"],
        "threads belong to `sandstone`: return the work to be done",
    ),
    (&["std", "process"], "processes belong to `sandstone`"),
    (
        &["std", "env"],
        "the environment belongs to `sandstone`: take a parameter",
    ),
    (&["Instant", "now"], "time is an argument, never read"),
    (&["SystemTime", "now"], "time is an argument, never read"),
];

/// Packages that bring I/O, clocks, randomness or a runtime into a leaf.
const BANNED_PACKAGES: &[&str] = &[
    "async-std",
    "futures",
    "futures-executor",
    "getrandom",
    "io-uring",
    "libc",
    "mio",
    "nix",
    "rand",
    "rustix",
    "smol",
    "socket2",
    "tokio",
];

/// Composition root. Only its own folder may name it.
const ROOT: &str = "sandstone";

/// Checks imports in the sources.
pub(super) fn imports(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, rust) in tree.rust() {
        let owner = owner(&file.path);
        let mut paths = Paths::default();
        paths.visit_file(&rust.syntax);
        for (path, line) in paths.found {
            if let Some(message) = judge(owner, &path, !rust.in_test(line)) {
                findings.push(Finding {
                    path: file.path.clone(),
                    line,
                    rule: "dependency",
                    message,
                });
            }
        }
    }
    findings
}

/// Returns the crate of a file: `crates/NAME/…` or the first folder.
fn owner(path: &str) -> &str {
    let mut parts = path.split('/');
    match parts.next() {
        Some("crates") => parts.next().unwrap_or_default(),
        first => first.unwrap_or_default(),
    }
}

fn judge(owner: &str, path: &[String], product: bool) -> Option<String> {
    let first = path.first()?.as_str();
    let named = path.join("::");
    if owner != ROOT && first == ROOT && path.len() > 1 {
        return Some(format!(
            "`{named}`: no crate may import `{ROOT}`; move the needed code into a leaf crate"
        ));
    }
    if !LEAVES.contains(&owner) {
        return None;
    }
    if first != owner && LEAVES.contains(&first) && path.len() > 1 {
        return Some(format!(
            "`{named}`: `{owner}` may not import `{first}`; `{ROOT}` joins them"
        ));
    }
    if !product {
        return None;
    }
    let holds = |banned: &[&str]| {
        path.windows(banned.len())
            .any(|w| w.iter().zip(banned).all(|(a, b)| a == b))
    };
    let (_, advice) = BANNED_PATHS.iter().find(|(banned, _)| holds(banned))?;
    Some(format!("`{named}`: {advice}"))
}

/// Parts of `cargo metadata` that the rules need.
#[derive(Debug, Deserialize)]
pub(super) struct Metadata {
    pub packages: Vec<Package>,
}

/// One package.
#[derive(Debug, Deserialize)]
pub(super) struct Package {
    pub name: String,
    pub version: String,
    pub license: Option<String>,
    pub source: Option<String>,
    pub dependencies: Vec<Dependency>,
}

/// One line of a manifest's dependency tables.
#[derive(Debug, Deserialize)]
pub(super) struct Dependency {
    pub name: String,
    /// Kind of the dependency: `None` for normal ones, else `dev` or `build`.
    pub kind: Option<String>,
}

/// Asks cargo for the workspace's own packages, or for all packages that they need.
pub(super) fn metadata(root: &Path, with_dependencies: bool) -> Result<Metadata, String> {
    let mut command = crate::cargo::command();
    command
        .args(["metadata", "--format-version", "1", "--locked"])
        .current_dir(root);
    if !with_dependencies {
        command.arg("--no-deps");
    }
    let output = command
        .output()
        .map_err(|e| format!("cannot run cargo metadata: {e}"))?;
    if !output.status.success() {
        return Err(format!(
            "cargo metadata failed: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        ));
    }
    serde_json::from_slice(&output.stdout)
        .map_err(|e| format!("the output of cargo metadata is not as expected: {e}"))
}

/// Checks dependencies in the manifests.
pub(super) fn manifests(metadata: &Metadata) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in &metadata.packages {
        for dependency in &package.dependencies {
            if let Some(message) = judge_manifest(&package.name, dependency) {
                let front = if ["xtask", "conformance"].contains(&package.name.as_str()) {
                    ""
                } else {
                    "crates/"
                };
                let path = format!("{front}{}/Cargo.toml", package.name);
                findings.push(Finding {
                    path,
                    line: 0,
                    rule: "dependency",
                    message,
                });
            }
        }
    }
    findings
}

fn judge_manifest(package: &str, dependency: &Dependency) -> Option<String> {
    let name = dependency.name.as_str();
    if name == ROOT {
        return Some(format!(
            "`{package}` depends on `{ROOT}`: no crate may; development crates run its binary"
        ));
    }
    if !LEAVES.contains(&package) {
        return None;
    }
    if LEAVES.contains(&name) {
        return Some(format!(
            "`{package}` depends on `{name}`: leaf crates may not import each other; `{ROOT}` joins them"
        ));
    }
    let product = dependency.kind.as_deref() != Some("dev");
    (product && package != "store" && BANNED_PACKAGES.contains(&name))
        .then(|| format!("`{package}` depends on `{name}`: a leaf crate does no I/O, reads no clock and draws no random number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        imports(&Tree::fixture(&[(path, text)]))
            .into_iter()
            .map(|f| f.line)
            .collect()
    }

    #[test]
    fn leaves_do_not_meet_even_in_tests() {
        assert_eq!(
            lines("crates/scsi/src/a.rs", "//! x\nuse iscsi::pdu::Bhs;\n"),
            [2]
        );
        assert_eq!(
            lines(
                "crates/iscsi/tests/a.rs",
                "//! x\nfn a() { scsi::Lba(1); }\n"
            ),
            [2]
        );
        assert!(
            lines(
                "crates/scsi/src/a.rs",
                "//! x\nuse scsi::Lba;\nuse crate::iscsi_name;\n"
            )
            .is_empty()
        );
        assert!(
            lines(
                "crates/sim/src/a.rs",
                "//! x\nuse {scsi::Lba, iscsi::pdu::Bhs};\n"
            )
            .is_empty()
        );
    }

    #[test]
    fn sockets_files_threads_and_clocks_are_found_however_they_are_written() {
        let text = "//! x\nuse std::{io, net::TcpStream};\nfn a() { let t = std::time::Instant::now(); }\nfn b() { assert!(std::fs::read(p).is_ok()); }\nuse std::time::Instant;\nfn c(now: Instant) {}\n#[cfg(test)]\nmod t { use std::thread; }\n";
        assert_eq!(lines("crates/iscsi/src/a.rs", text), [2, 3, 4]);
        assert!(lines("crates/sandstone/src/a.rs", text).is_empty());
        assert_eq!(lines("crates/store/src/device/file.rs", text), [2, 3, 4]);
    }

    #[test]
    fn nothing_imports_the_root() {
        assert_eq!(
            lines("crates/sim/src/a.rs", "//! x\nuse sandstone::config;\n"),
            [2]
        );
        assert_eq!(
            lines(
                "conformance/src/a.rs",
                "//! x\nfn a() { sandstone::run(); let sandstone = 1; f(sandstone); }\n"
            ),
            [2]
        );
        assert!(
            lines(
                "crates/sandstone/src/main.rs",
                "//! x\nuse sandstone::config;\n"
            )
            .is_empty()
        );
    }

    #[test]
    fn manifests_are_judged_by_kind() {
        let dependency = |name: &str, kind: Option<&str>| Dependency {
            name: name.into(),
            kind: kind.map(str::to_owned),
        };
        assert!(judge_manifest("scsi", &dependency("tokio", None)).is_some());
        assert!(judge_manifest("scsi", &dependency("rand", Some("dev"))).is_none());
        assert!(judge_manifest("scsi", &dependency("iscsi", Some("dev"))).is_some());
        assert!(judge_manifest("sandstone", &dependency("tokio", None)).is_none());
        assert!(judge_manifest("conformance", &dependency("sandstone", None)).is_some());
    }
}
