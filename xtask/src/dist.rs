//! `cargo xtask dist`: the packages, from one command, the same bytes each time.
//!
//! | step | where |
//! |---|---|
//! | the program, from locked dependencies and without paths of this machine | `build.rs` |
//! | the files of the packages, gathered as they will lie on a machine | `stage.rs` |
//! | .deb, .rpm, tarball, checksums | `pack.rs` |
//! | what lintian, rpm and rpmlint say, and the labs of packages | `check.rs` |
//! | the list of what is linked | `sbom.rs` |
//! | two builds in two folders, compared | `reproducible.rs` |

mod build;
mod check;
mod pack;
mod reproducible;
mod sbom;
mod stage;

use std::path::{Path, PathBuf};
use std::process::Command;

use self::pack::Packing;
use crate::crate_root;

const USAGE: &str = "\
usage: cargo xtask dist [OPTIONS]

Builds the .deb, the .rpm and the tarball into target/packages, with SHA256SUMS and a list of the
linked libraries. The tools cargo-deb and cargo-generate-rpm are built once, into
~/.cache/sandstone/tools.

options:
  --check-reproducible   build the last commit twice, in two folders, and compare the bytes
  --test                 check the packages by lintian and rpmlint, install both in a bare system,
                         and the .deb under systemd in a guest: first LUN, upgrade under load,
                         watchdog, purge (needs root; minutes, because the guest is emulated)
  --maintainer TEXT      who distributes these packages, as \"NAME <ADDRESS>\"
                         (default: the authors of Cargo.toml)
  --program FILE         pack this program quickly, and build none (for tests of packages)
  --profile NAME         build with this profile of cargo (default: dist; dev is quicker to build)
  --revision N           number of the package of this version (default: 1)
  --output DIR           folder of the packages (default: target/packages)";

/// Options of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Options {
    is_compared: bool,
    is_tested: bool,
    maintainer: Option<String>,
    program: Option<PathBuf>,
    profile: String,
    revision: u32,
    output: PathBuf,
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Self, String> {
        let mut options = Self {
            is_compared: false,
            is_tested: false,
            maintainer: None,
            program: None,
            profile: build::PROFILE.to_owned(),
            revision: 1,
            output: crate_root().join("target/packages"),
        };
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            let mut value = || {
                let value = words.next().cloned();
                value.ok_or_else(|| format!("{word} needs a value\n{USAGE}"))
            };
            match word.as_str() {
                "--check-reproducible" => options.is_compared = true,
                "--test" => options.is_tested = true,
                "--maintainer" => options.maintainer = Some(value()?),
                "--program" => options.program = Some(value()?.into()),
                "--profile" => options.profile = value()?,
                "--revision" => {
                    let number = value()?.parse().ok().filter(|number| *number > 0);
                    options.revision =
                        number.ok_or("--revision takes a whole number, at least 1")?;
                }
                "--output" => options.output = value()?.into(),
                _ => return Err(format!("unknown option {word}\n{USAGE}")),
            }
        }
        let is_built = options.is_compared || options.profile != build::PROFILE;
        if is_built && options.program.is_some() {
            return Err(
                "--check-reproducible and --profile build the program: omit --program".into(),
            );
        }
        if options.is_compared && options.is_tested {
            return Err(
                "--check-reproducible removes what it built: test in a run of its own".into(),
            );
        }
        Ok(options)
    }
}

impl Options {
    /// Returns how packages are compressed. A program from elsewhere is packed for tests.
    fn packing(&self) -> Packing {
        match self.program {
            Some(_) => Packing::Quick,
            None => Packing::Small,
        }
    }
}

/// Sources of packages: a checkout, and what all its packages have in common.
#[derive(Clone, Debug)]
struct Sources {
    /// Root of the checkout. Builds and gathered files lie in its folder `target`.
    root: PathBuf,
    /// Time of the last commit, in seconds since 1970. All files of packages have it.
    epoch: u64,
    /// Version of the program.
    version: String,
    /// Name and address of the packages' maintainer.
    maintainer: String,
}

impl Sources {
    fn of(root: &Path, options: &Options) -> Result<Self, String> {
        let epoch = text(
            Command::new("git")
                .args(["log", "-1", "--format=%ct"])
                .current_dir(crate_root()),
        )?;
        let epoch = epoch.trim().parse();
        let manifest = std::fs::read_to_string(root.join("Cargo.toml"))
            .map_err(|error| format!("cannot read Cargo.toml: {error}"))?;
        let manifest: toml::Table =
            toml::from_str(&manifest).map_err(|error| format!("Cargo.toml: {error}"))?;
        let package = manifest.get("workspace").and_then(|of| of.get("package"));
        let version = package
            .and_then(|of| of.get("version")?.as_str())
            .ok_or("Cargo.toml has no version of the workspace")?;
        let author = package.and_then(|of| of.get("authors")?.get(0)?.as_str());
        let maintainer = options.maintainer.as_deref().or(author);
        let maintainer = maintainer.ok_or("Cargo.toml names no authors: say --maintainer")?;
        Ok(Self {
            root: root.to_owned(),
            epoch: epoch.map_err(|_| "git tells no time of the last commit")?,
            version: version.to_owned(),
            maintainer: maintainer.to_owned(),
        })
    }

    /// Returns the folder of the gathered files.
    fn stage(&self) -> PathBuf {
        self.root.join("target/package")
    }
}

/// Runs the command.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    if let [option] = arguments
        && (option == "--help" || option == "-h")
    {
        println!("{USAGE}");
        return Ok(());
    }
    let options = Options::parse(arguments)?;
    let sources = Sources::of(&crate_root(), &options)?;
    let files = match options.is_compared {
        true => reproducible::check(&options)?,
        false => make(&sources, &options)?,
    };
    for file in files {
        println!("{}", options.output.join(file).display());
    }
    match options.is_tested {
        true => check::all(&sources, &options.output),
        false => Ok(()),
    }
}

/// Makes all packages of a checkout, and returns their names.
fn make(sources: &Sources, options: &Options) -> Result<Vec<String>, String> {
    let program = match &options.program {
        Some(program) => std::path::absolute(program).map_err(|error| error.to_string())?,
        None => build::program(sources, &options.profile)?,
    };
    stage::gather(sources, &program, options.revision)?;
    pack::pack(sources, options)
}

/// Runs a command, and returns an error that names it if it fails.
fn done(command: &mut Command) -> Result<(), String> {
    let shown = shown(command);
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{shown}: {status}")),
        Err(error) => Err(format!("cannot run {shown}: {error}")),
    }
}

/// Runs a command and returns its output.
fn text(command: &mut Command) -> Result<String, String> {
    let shown = shown(command);
    let output = command
        .output()
        .map_err(|error| format!("cannot run {shown}: {error}"))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{shown}: {}\n{errors}", output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn shown(command: &Command) -> String {
    command.get_program().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<Options, String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        Options::parse(&words)
    }

    #[test]
    fn options_are_taken_or_refused() {
        let options = parsed(&[
            "--revision",
            "2",
            "--program",
            "p",
            "--output",
            "/o",
            "--maintainer",
            "A <a@b.example>",
        ]);
        let expected = Options {
            is_compared: false,
            is_tested: false,
            maintainer: Some("A <a@b.example>".into()),
            program: Some("p".into()),
            profile: "dist".into(),
            revision: 2,
            output: "/o".into(),
        };
        assert_eq!(expected.packing(), Packing::Quick);
        assert_eq!(options, Ok(expected));
        assert!(parsed(&["--check-reproducible"]).is_ok_and(|options| options.is_compared));
        for wrong in [
            &["--revision"][..],
            &["--revision", "0"],
            &["--fast"],
            &["--program", "p", "--check-reproducible"],
            &["--program", "p", "--profile", "dev"],
        ] {
            assert!(parsed(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn version_and_maintainer_are_those_of_the_workspace() {
        let options = parsed(&[]).expect("no options");
        let sources = Sources::of(&crate_root(), &options).expect("the checkout");
        assert_eq!(sources.version, env!("CARGO_PKG_VERSION"));
        assert!(sources.epoch > 1_700_000_000);
        let (name, address) = sources.maintainer.split_once(" <").expect("an address");
        assert!(!name.is_empty() && address.ends_with('>'), "{address}");
        let options = parsed(&["--maintainer", "A <a@b.example>"]).expect("options");
        let sources = Sources::of(&crate_root(), &options).expect("the checkout");
        assert_eq!(sources.maintainer, "A <a@b.example>");
    }
}
