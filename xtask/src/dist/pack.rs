//! The packages, made of the gathered files: .deb, .rpm, tarball, checksums.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::stage::{files_below, remove};
use super::{Options, Sources, done, sbom, text};

/// Programs that make packages, and the version of each. They are tools: nothing of them is linked.
const TOOLS: [(&str, &str); 2] = [("cargo-deb", "3.8.0"), ("cargo-generate-rpm", "0.21.1")];

/// Compression of packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    /// Small files, for people. Making them takes minutes.
    Small,
    /// Files that are made quickly and that an emulated processor unpacks quickly, for tests.
    Quick,
}

/// Makes the packages in the folder of the options, and returns the names of all files there.
pub(super) fn pack(sources: &Sources, options: &Options) -> Result<Vec<String>, String> {
    let output = &options.output;
    remove(output)?;
    fs::create_dir_all(output)
        .map_err(|error| format!("cannot make {}: {error}", output.display()))?;
    let output = output
        .canonicalize()
        .map_err(|error| format!("cannot find {}: {error}", output.display()))?;
    deb(sources, options.revision, options.packing(), &output)?;
    rpm(sources, options.revision, options.packing(), &output)?;
    let machine = text(Command::new("uname").arg("-m"))?;
    let name = format!("sandstone-{}", sources.version);
    let of_machine = format!("{name}-{}-linux", machine.trim());
    tarball(sources, &name, &output.join(format!("{of_machine}.tar.gz")))?;
    let symbols = output.join(format!("{of_machine}.debug"));
    fs::copy(sources.stage().join("sandstone.debug"), &symbols)
        .map_err(|error| format!("cannot copy the symbols: {error}"))?;
    sbom::write(sources, &output.join("sandstone.cdx.json"))?;
    sums(&output)
}

/// Makes the .deb of a revision in a folder.
pub(super) fn deb(
    sources: &Sources,
    revision: u32,
    packing: Packing,
    output: &Path,
) -> Result<(), String> {
    let mut command = tool(sources, &tools()?.join("cargo-deb"));
    command
        .args([
            "--package",
            "sandstone",
            "--no-build",
            "--no-strip",
            "--quiet",
        ])
        // The program is among the gathered files already: the profile only names a folder.
        .args([
            "--profile",
            "dist",
            "--no-separate-debug-symbols",
            "--no-dbgsym",
        ])
        .args(["--deb-revision", &revision.to_string()])
        .args(["--maintainer", &sources.maintainer])
        .arg("--output")
        .arg(output);
    if packing == Packing::Quick {
        // Its own gzip takes minutes for few bytes less.
        command.args(["--fast", "--compress-type", "gz", "--compress-system"]);
    }
    done(&mut command)
}

/// Makes the .rpm of a revision in a folder.
pub(super) fn rpm(
    sources: &Sources,
    revision: u32,
    packing: Packing,
    output: &Path,
) -> Result<(), String> {
    let compression = match packing {
        Packing::Small => "zstd",
        Packing::Quick => "gzip",
    };
    let mut metadata = toml::Table::new();
    metadata.insert("release".into(), revision.to_string().into());
    metadata.insert("vendor".into(), sources.maintainer.clone().into());
    done(
        tool(sources, &tools()?.join("cargo-generate-rpm"))
            .args(["--package", "crates/sandstone"])
            .args(["--set-metadata", &metadata.to_string()])
            .args(["--source-date", &sources.epoch.to_string()])
            // The other way to find libraries is that of the machine, if it has one.
            .args(["--auto-req", "builtin"])
            .args(["--payload-compress", compression, "--output"])
            .arg(output),
    )
}

/// Returns the command of a tool that packs the gathered files of a checkout.
fn tool(sources: &Sources, program: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .current_dir(&sources.root)
        .env("SOURCE_DATE_EPOCH", sources.epoch.to_string())
        .env_remove("CARGO_TARGET_DIR");
    command
}

/// Packs the gathered files as they lie on a machine, below one folder. Folders are left out: who
/// unpacks the files over a system must not change the modes of its folders.
fn tarball(sources: &Sources, name: &str, file: &Path) -> Result<(), String> {
    let plain = file.with_extension("");
    let stage = sources.stage();
    let list = stage.join("files");
    let mut names = String::new();
    for path in files_below(&stage.join("root"))? {
        let path = path.strip_prefix(&stage).unwrap_or(&path);
        names.push_str(&format!("{}\n", path.display()));
    }
    fs::write(&list, names).map_err(|error| format!("cannot write {}: {error}", list.display()))?;
    done(
        Command::new("tar")
            .args(["--create", "--format=gnu", "--numeric-owner"])
            .args(["--owner=0", "--group=0", "--mode=u=rwX,go=rX"])
            .arg(format!("--mtime=@{}", sources.epoch))
            .arg(format!("--transform=s,^root,{name},"))
            .arg("--directory")
            .arg(&stage)
            .arg("--file")
            .arg(&plain)
            .arg("--verbatim-files-from")
            .arg("--files-from")
            .arg(&list),
    )?;
    done(
        Command::new("gzip")
            .args(["-9", "-n", "--force"])
            .arg(&plain),
    )
}

/// Writes the checksums of all files of the folder, and returns their names.
fn sums(folder: &Path) -> Result<Vec<String>, String> {
    let listed = fs::read_dir(folder)
        .map_err(|error| format!("cannot list {}: {error}", folder.display()))?;
    let mut names: Vec<String> = listed
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    names.sort();
    let sums = text(Command::new("sha256sum").args(&names).current_dir(folder))?;
    fs::write(folder.join("SHA256SUMS"), sums)
        .map_err(|error| format!("cannot write the checksums: {error}"))?;
    names.push("SHA256SUMS".into());
    Ok(names)
}

/// Returns the folder of the tools, which are built the first time.
fn tools() -> Result<PathBuf, String> {
    let home = std::env::home_dir().ok_or("HOME is not set")?;
    let root = home.join(".cache/sandstone/tools");
    for (tool, version) in TOOLS {
        let program = root.join("bin").join(tool);
        let told = Command::new(&program).arg("--version").output();
        let is_there = told.is_ok_and(|told| {
            let told = String::from_utf8_lossy(&told.stdout).into_owned();
            told.split_whitespace().any(|word| word == version)
        });
        if is_there {
            continue;
        }
        eprintln!("xtask: building {tool} {version} into {}", root.display());
        done(
            crate::cargo::command()
                .args([
                    "install",
                    "--locked",
                    "--force",
                    "--version",
                    version,
                    tool,
                    "--root",
                ])
                .arg(&root)
                .env_remove("CARGO_ENCODED_RUSTFLAGS")
                .env_remove("CARGO_TARGET_DIR"),
        )?;
    }
    Ok(root.join("bin"))
}
