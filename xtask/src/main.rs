//! Developer commands in one place: `cargo xtask COMMAND`.

mod bench;
mod cargo;
mod debian;
mod dist;
mod fuzz;
mod mutate;
mod test;
mod tidy;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND [OPTIONS]

commands:
  bench    measure Sandstone beside Debian's tgt, its initiator beside libiscsi, its store beside btrfs
  dist     build the packages: .deb, .rpm, tarball, with checksums
  fuzz     run the fuzz targets for a bounded time
  mutate   show that the crash laboratory finds faults in the order of the store's writes
  test     check and test everything, also with outside suites and real clients
  tidy     check the rules of the house that a machine can check";

fn main() -> ExitCode {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.is_empty() {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    }
    let command = arguments.remove(0);
    let outcome = match command.as_str() {
        "bench" => bench::run(&arguments),
        "dist" => dist::run(&arguments),
        "fuzz" => fuzz::run(&arguments),
        "mutate" => mutate::run(&arguments),
        "test" => test::run(&arguments),
        "tidy" => tidy::run(&arguments),
        "help" | "--help" | "-h" => {
            println!("{USAGE}");
            Ok(())
        }
        other => Err(format!("command '{other}' is unknown\n{USAGE}")),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask {command}: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the root of the repository: this crate's folder is one below it.
pub(crate) fn crate_root() -> std::path::PathBuf {
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// Returns the folder where cargo puts builds, each profile in a folder of its own.
pub(crate) fn target_folder() -> std::path::PathBuf {
    let told = std::env::var_os("CARGO_TARGET_DIR").map(std::path::PathBuf::from);
    told.unwrap_or_else(|| crate_root().join("target"))
}
