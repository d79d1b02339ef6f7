//! `cargo xtask fuzz`: replays the corpora, then runs each fuzz target for a bounded time.
//!
//! It needs no nightly compiler and no cargo-fuzz. LLVM's coverage pass and libFuzzer are reached
//! from the stable toolchain by its own `-C` options. Compared to cargo-fuzz, only the address
//! sanitizer is missing, which has nothing to find in crates without `unsafe`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::{crate_root, debian};

const USAGE: &str = "\
usage: cargo xtask fuzz [OPTIONS] [TARGET]...

options:
  --seconds N     run each target for N seconds (default 20)
  --replay        only replay the committed corpora
  --input FILE    run the one named target on this file once
  --list          print the names of the targets";

/// Flags for LLVM's edge coverage as libFuzzer reads it, with the operands of comparisons.
const COVERAGE: &str = "--cfg fuzzing -Cpasses=sancov-module -Ccodegen-units=1 \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";

/// Options of a run.
#[derive(Debug, Default)]
struct Options {
    seconds: Option<u32>,
    replay_only: bool,
    input: Option<PathBuf>,
    targets: Vec<String>,
}

/// Runs the fuzz targets.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let known = targets()?;
    if arguments.iter().any(|word| word == "--list") {
        known.iter().for_each(|name| println!("{name}"));
        return Ok(());
    }
    let mut options = parse(arguments)?;
    if let Some(unknown) = options.targets.iter().find(|name| !known.contains(name)) {
        return Err(format!(
            "target '{unknown}' is unknown; the targets are: {}",
            known.join(", ")
        ));
    }
    if options.targets.is_empty() {
        options.targets = known;
    }
    if options.replay_only {
        return replay();
    }
    let folder = build()?;
    if let Some(input) = &options.input {
        let [target] = options.targets.as_slice() else {
            return Err(format!("--input needs one target\n{USAGE}"));
        };
        return check(Command::new(folder.join(target)).arg(input), target);
    }
    let failures = fuzz_all(&folder, &options.targets, options.seconds.unwrap_or(20));
    if failures.is_empty() {
        Ok(())
    } else {
        Err(failures.join("\n"))
    }
}

/// Runs the targets, one on each core at a time. Returns the failures and their output.
fn fuzz_all(folder: &Path, targets: &[String], seconds: u32) -> Vec<String> {
    let next = AtomicUsize::new(0);
    let one_after_another = || {
        let mut failures = Vec::new();
        while let Some(target) = targets.get(next.fetch_add(1, Ordering::Relaxed)) {
            failures.extend(fuzz(folder, target, seconds).err());
        }
        failures
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(one_after_another)).collect();
        let ended = threads.into_iter().flat_map(|thread| {
            let panicked = |_| vec!["a thread that runs targets panicked".to_owned()];
            thread.join().unwrap_or_else(panicked)
        });
        ended.collect()
    })
}

fn parse(arguments: &[String]) -> Result<Options, String> {
    let mut options = Options::default();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let mut value = || {
            words
                .next()
                .ok_or_else(|| format!("{word} needs a value\n{USAGE}"))
        };
        match word.as_str() {
            "--seconds" => {
                options.seconds = Some(
                    value()?
                        .parse()
                        .map_err(|_| "--seconds takes a whole number")?,
                )
            }
            "--replay" => options.replay_only = true,
            "--input" => options.input = Some(value()?.into()),
            other if other.starts_with('-') => {
                return Err(format!("unknown option '{other}'\n{USAGE}"));
            }
            target => options.targets.push(target.to_owned()),
        }
    }
    Ok(options)
}

/// Returns the names of the files in fuzz/fuzz_targets.
fn targets() -> Result<Vec<String>, String> {
    let folder = crate_root().join("fuzz/fuzz_targets");
    let entries = std::fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut names: Vec<String> = entries
        .flatten()
        .filter_map(|entry| {
            entry
                .file_name()
                .to_str()?
                .strip_suffix(".rs")
                .map(str::to_owned)
        })
        .collect();
    names.sort();
    Ok(names)
}

/// Runs every seed as a plain test, which needs nothing but the compiler.
fn replay() -> Result<(), String> {
    println!("fuzz: replaying the committed corpora");
    check(cargo("test").args(["--quiet"]), "replay")
}

/// Builds the targets with coverage, and returns their folder.
fn build() -> Result<PathBuf, String> {
    debian::ensure("/usr/bin/c++", "g++")?; // libFuzzer is compiled from source
    let host = host()?;
    println!("fuzz: building the targets");
    // An explicit target keeps the flags away from build scripts.
    let mut command = cargo("build");
    command.args([
        "--quiet",
        "--release",
        "--features",
        "libfuzzer",
        "--target",
        &host,
    ]);
    check(command.env("RUSTFLAGS", COVERAGE), "build")?;
    Ok(target_folder().join(host).join("release"))
}

/// Runs each committed seed of a target, whole, once, as the minimum. Fuzzing takes no more of a
/// seed than the longest input that it makes itself.
fn replay_seeds(folder: &Path, target: &str) -> Result<(), String> {
    let corpus = crate_root().join("fuzz/corpus").join(target);
    let entries = std::fs::read_dir(&corpus);
    let entries = entries.map_err(|e| format!("{}: {e}", corpus.display()))?;
    let seeds: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    if seeds.is_empty() {
        return Err(format!("{} holds no seed", corpus.display()));
    }
    let run = Command::new(folder.join(target))
        .args(&seeds)
        .args(plain_inputs(target)?)
        .output();
    let output = run.map_err(|e| format!("cannot run {target}: {e}"))?;
    let log = String::from_utf8_lossy(&output.stderr);
    let last = log.lines().rfind(|line| line.starts_with("Running: "));
    match output.status.success() {
        true => Ok(()),
        false => Err(format!(
            "{target} failed with a committed seed ({}): {}",
            last.unwrap_or("which one is not known"),
            failure(&log).join("\n  ")
        )),
    }
}

/// Writes inputs that are no seed of any target and do no harm. Fuzzing itself begins with no input
/// at all.
fn plain_inputs(target: &str) -> Result<[PathBuf; 2], String> {
    let folder = target_folder();
    let files = [
        (folder.join(format!("{target}.zero")), vec![0]),
        (folder.join(format!("{target}.ones")), vec![0xff; 4096]),
    ];
    for (path, bytes) in &files {
        std::fs::write(path, bytes).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    Ok(files.map(|(path, _)| path))
}

fn fuzz(folder: &Path, target: &str, seconds: u32) -> Result<(), String> {
    replay_seeds(folder, target)?;
    let root = crate_root();
    let (found, artifacts) = (
        target_folder().join("corpus").join(target),
        root.join("fuzz/artifacts").join(target),
    );
    for folder in [&found, &artifacts] {
        std::fs::create_dir_all(folder)
            .map_err(|e| format!("cannot make {}: {e}", folder.display()))?;
    }
    println!("fuzz: {target} for {seconds} s");
    let output = Command::new(folder.join(target))
        .arg(format!("-max_total_time={seconds}"))
        .args([
            "-timeout=10",
            "-rss_limit_mb=1024",
            "-max_len=8192",
            "-print_final_stats=1",
        ])
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .arg(&found)
        .arg(root.join("fuzz/corpus").join(target))
        .output()
        .map_err(|e| format!("cannot run {target}: {e}"))?;
    let log = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        let runs = log
            .lines()
            .find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
        let coverage = log
            .lines()
            .rev()
            .find_map(|line| line.split("cov: ").nth(1)?.split(' ').next());
        println!(
            "fuzz: {target}: {} runs, {} edges, no failure",
            runs.unwrap_or("?").trim(),
            coverage.unwrap_or("?")
        );
        return Ok(());
    }
    let tail: Vec<&str> = log.lines().rev().take(40).collect();
    for line in tail.iter().rev() {
        eprintln!("{line}");
    }
    Err(format!(
        "{target} failed: {}\n\
         run it again with `cargo xtask fuzz {target} --input FILE`, correct the fault, then keep the \
         input as a seed in fuzz/corpus/{target}",
        failure(&log).join("\n  ")
    ))
}

/// Returns the lines of libFuzzer and the panic about a failure. If the machine of the run is gone
/// by the time that someone reads its output, nothing else is left. So the lines name the place and
/// carry the input.
fn failure(log: &str) -> Vec<&str> {
    /// A panic's message may show whole buffers.
    const LINE: usize = 500;
    let short = |line: &'_ str| line.floor_char_boundary(LINE);
    let telling = |line: &&str| {
        let marks = [
            "panicked at",
            "SUMMARY:",
            "ERROR:",
            "Test unit written to",
            "Base64:",
        ];
        marks.iter().any(|mark| line.contains(mark))
    };
    let mut lines = log.lines().peekable();
    let mut found = Vec::new();
    while let Some(line) = lines.next() {
        if telling(&line) {
            found.push(&line[..short(line)]);
            // A panic's message stands on the line below its place.
            if line.contains("panicked at") {
                found.extend(lines.peek().map(|line| &line[..short(line)]));
            }
        }
    }
    found
}

fn cargo(command: &str) -> Command {
    let mut cargo = crate::cargo::command();
    cargo
        .arg(command)
        .arg("--manifest-path")
        .arg(crate_root().join("fuzz/Cargo.toml"));
    cargo.arg("--target-dir").arg(target_folder());
    cargo
}

fn target_folder() -> PathBuf {
    crate_root().join("target/fuzz")
}

/// Returns the host's target triple, as the compiler calls it.
fn host() -> Result<String, String> {
    let output = Command::new("rustc")
        .arg("-vV")
        .output()
        .map_err(|e| format!("cannot run rustc: {e}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned)
        .ok_or_else(|| "rustc does not report its host".into())
}

fn check(command: &mut Command, what: &str) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{what} failed ({status})")),
        Err(e) => Err(format!(
            "{what}: cannot run {}: {e}",
            command.get_program().display()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn options_and_targets_may_come_in_any_order() {
        let options = parse(&words("pdu --seconds 5 cdb --replay")).unwrap();
        assert_eq!((options.seconds, options.replay_only), (Some(5), true));
        assert_eq!(options.targets, ["pdu", "cdb"]);
        assert!(parse(&words("--seconds five")).is_err());
        assert!(parse(&words("--second 5")).is_err());
    }

    #[test]
    fn a_failure_is_told_by_its_place_its_message_and_its_input() {
        let log = "#5 NEW cov: 3\n\nthread 'main' panicked at src/a.rs:5:9:\nindex out of bounds\n\
                   note: run with\n==7== ERROR: libFuzzer: deadly signal\n    #0 0x55\n\
                   artifact_prefix='x/'; Test unit written to x/crash-1\nBase64: AAEC\n";
        assert_eq!(
            failure(log),
            [
                "thread 'main' panicked at src/a.rs:5:9:",
                "index out of bounds",
                "==7== ERROR: libFuzzer: deadly signal",
                "artifact_prefix='x/'; Test unit written to x/crash-1",
                "Base64: AAEC"
            ]
        );
    }

    #[test]
    fn there_are_targets() {
        let names = targets().unwrap();
        assert!(names.contains(&"pdu".to_owned()) && names.contains(&"login".to_owned()));
    }
}
