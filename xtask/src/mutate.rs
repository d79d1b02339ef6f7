//! `cargo xtask mutate`: removes the store's promises about the order of writes, and rules of the
//! target and the initiator, one after the other. It shows that the crash laboratory, storage
//! networks, or a test of simulated worlds finds each fault.
//!
//! The sources are copied, changed as `mutate/mutants.rs` says, and built once with all faults in
//! them. An environment variable chooses one fault for each run. So what is shipped knows nothing
//! of this.

mod mutants;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use self::mutants::{CHANGES, Change, MUTANTS, Mutant, Seeker};
use crate::{crate_root, target_folder};

const USAGE: &str = "\
usage: cargo xtask mutate [OPTIONS] [FAULT]...

Shows that the crash laboratory finds each fault in the order of the store's writes, that simulated
storage networks find each fault of the initiator, and tests of worlds each fault of the target.

options:
  --histories N   give up after N histories of a fault (default 20000)
  --list          print the names of the faults, and the promises that they break";

/// Environment variable that chooses the fault of a run.
const VARIABLE: &str = "SANDSTONE_MUTANT";
/// First seeds of the harder, the hard and the plain histories (see `sim::pool::families`).
const SEEDS: [u64; 3] = [1 << 40, 1 << 32, 0];
/// Number of histories of the store without a fault. None may fail, which shows that the harness
/// itself does no harm.
const CONTROL: u64 = 300;

/// Result of a search for a fault.
struct Outcome {
    /// Number of histories up to the first that failed, that one included, or of all histories.
    /// `None` if worlds were searched.
    histories: Option<u64>,
    /// Family and failure that were found, or `None` if nothing failed.
    found: Option<String>,
    seconds: f64,
}

/// Runs the laboratory against the faults.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let mut histories = 20_000;
    let mut names = Vec::new();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--list" => {
                let print = |of: &Mutant| println!("{:24}{}", of.name, of.order);
                MUTANTS.iter().for_each(print);
                return Ok(());
            }
            "--histories" => {
                let number = words.next().and_then(|word| word.parse().ok());
                histories = number.ok_or(USAGE)?;
            }
            name if MUTANTS.iter().any(|of| of.name == name) => names.push(name),
            other => return Err(format!("fault '{other}' is unknown\n{USAGE}")),
        }
    }
    let is_meant = |of: &&Mutant| names.is_empty() || names.contains(&of.name);
    let chosen: Vec<&Mutant> = MUTANTS.iter().filter(is_meant).collect();
    copy(&sources())?;
    let (of_store, of_target): (Vec<&Mutant>, Vec<&Mutant>) = chosen
        .into_iter()
        .partition(|of| matches!(of.seeker, Seeker::Family(_)));
    let mut survived = attack_store(&of_store, histories)?;
    survived.extend(attack_target(&of_target)?);
    match survived.is_empty() {
        true => Ok(()),
        false => Err(format!("not found: {}", survived.join(", "))),
    }
}

/// Attacks faults of the store. Returns those that were not found.
fn attack_store(mutants: &[&Mutant], histories: u64) -> Result<Vec<&'static str>, String> {
    if mutants.is_empty() {
        return Ok(Vec::new());
    }
    build(&["build", "--package", "sim", "--example", "soak"])?;
    let laboratory = built().join("debug/examples/soak");
    let control = attack(&laboratory, None, CONTROL)?;
    if let Some(failure) = control.found {
        return Err(format!(
            "the laboratory finds a failure without a fault: {failure}"
        ));
    }
    println!("without a fault: none of {CONTROL} histories failed");
    attack_all(&laboratory, mutants, histories)
}

/// Attacks faults of the target. Returns those that were not found.
fn attack_target(mutants: &[&Mutant]) -> Result<Vec<&'static str>, String> {
    if mutants.is_empty() {
        return Ok(Vec::new());
    }
    build(&["test", "--no-run", "--package", "sim", "--test", "worlds"])?;
    let mut survived = Vec::new();
    for mutant in mutants {
        let Seeker::World(test) = mutant.seeker else {
            continue;
        };
        if let Some(failure) = search_worlds(test, "")?.found {
            return Err(format!("{test} fails without a fault: {failure}"));
        }
        let outcome = search_worlds(test, mutant.name)?;
        report(mutant, &outcome);
        if outcome.found.is_none() {
            survived.push(mutant.name);
        }
    }
    Ok(survived)
}

/// Runs a test of simulated worlds with the fault of this name, or without one.
fn search_worlds(test: &str, fault: &str) -> Result<Outcome, String> {
    let begun = Instant::now();
    let mut command = cargo(&["test", "--package", "sim", "--test", "worlds"]);
    let ran = command
        .args(["--", "--exact", test])
        .env(VARIABLE, fault)
        .output()
        .map_err(|error| format!("cargo cannot be run: {error}"))?;
    let told = String::from_utf8_lossy(&ran.stdout);
    if !told.contains("running 1 test") {
        return Err(format!("there is no test {test}"));
    }
    let again = told.lines().find(|line| line.starts_with("again: "));
    let found = (!ran.status.success()).then(|| again.unwrap_or(test).to_owned());
    Ok(Outcome {
        histories: None,
        found,
        seconds: begun.elapsed().as_secs_f64(),
    })
}

fn report(mutant: &Mutant, outcome: &Outcome) {
    let Mutant { name, order, .. } = mutant;
    let seconds = outcome.seconds;
    let how = outcome.found.as_deref().unwrap_or("NOT FOUND");
    let effort = match outcome.histories {
        Some(histories) => format!("{histories} histories, "),
        None => String::new(),
    };
    println!("{name} ({order}): {effort}{seconds:.0} s: {how}");
}

/// Attacks the faults, one on each core at a time. Returns those that were not found.
fn attack_all(
    laboratory: &Path,
    mutants: &[&Mutant],
    histories: u64,
) -> Result<Vec<&'static str>, String> {
    let next = AtomicUsize::new(0);
    let survived = Mutex::new(Vec::new());
    let one_after_another = || -> Result<(), String> {
        while let Some(mutant) = mutants.get(next.fetch_add(1, Ordering::Relaxed)) {
            let outcome = attack(laboratory, Some(mutant), histories)?;
            report(mutant, &outcome);
            if outcome.found.is_none() {
                let mut all = survived.lock().map_err(|_| "a thread panicked")?;
                all.push(mutant.name);
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(one_after_another)).collect();
        let mut ended = threads.into_iter().map(|thread| thread.join());
        ended.try_for_each(|ended| ended.unwrap_or_else(|_| Err("a thread panicked".to_owned())))
    })?;
    survived
        .into_inner()
        .map_err(|_| "a thread panicked".to_owned())
}

/// Runs `histories` histories with a fault, with seeds of each kind, until one fails. Some are of
/// the family that is tried first, the rest of all families.
fn attack(laboratory: &Path, fault: Option<&Mutant>, histories: u64) -> Result<Outcome, String> {
    let begun = Instant::now();
    let mut done = 0;
    let family = fault.and_then(|fault| match fault.seeker {
        Seeker::Family(family) => Some(["--family", family]),
        Seeker::World(_) => None,
    });
    let own = family.map_or(0, |_| histories / 4);
    for (histories, family) in [(own, family), (histories - own, None)] {
        for first in SEEDS {
            let share = histories / SEEDS.len() as u64;
            if share == 0 {
                continue;
            }
            let ran = Command::new(laboratory)
                .env(VARIABLE, fault.map_or("", |fault| fault.name))
                .args(family.iter().flatten())
                .args(["--first", &first.to_string(), "--failures", "1"])
                .args(["--histories", &share.to_string()])
                .stderr(Stdio::null())
                .output()
                .map_err(|error| format!("the laboratory cannot be run: {error}"))?;
            let told = String::from_utf8_lossy(&ran.stdout);
            let last = told.lines().last().unwrap_or_default();
            let count: u64 = last
                .split(' ')
                .next()
                .and_then(|word| word.parse().ok())
                .ok_or_else(|| format!("the laboratory ended with '{last}'"))?;
            done += count;
            if !ran.status.success() {
                return Ok(Outcome {
                    histories: Some(done),
                    found: told.lines().next().map(str::to_owned),
                    seconds: begun.elapsed().as_secs_f64(),
                });
            }
        }
    }
    Ok(Outcome {
        histories: Some(done),
        found: None,
        seconds: begun.elapsed().as_secs_f64(),
    })
}

/// Returns the folder of the changed sources.
fn sources() -> PathBuf {
    target_folder().join("mutants/sources")
}

/// Returns the folder of what is built from them.
fn built() -> PathBuf {
    target_folder().join("mutants/built")
}

/// Returns a command of cargo for the changed sources.
fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command
        .current_dir(sources())
        .args(arguments)
        .arg("--target-dir")
        .arg(built());
    command
}

/// Builds with all faults.
fn build(arguments: &[&str]) -> Result<(), String> {
    match cargo(arguments).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err("the changed sources do not build".to_owned()),
        Err(error) => Err(format!("cargo cannot be run: {error}")),
    }
}

/// Returns the crates that have faults.
fn changed_crates() -> BTreeSet<&'static str> {
    CHANGES.iter().map(|change| change.of).collect()
}

/// Copies and changes the files needed to build it. Files that are already equal are left alone.
fn copy(to: &Path) -> Result<(), String> {
    let root = crate_root();
    let listed = Command::new("git")
        .current_dir(&root)
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .output()
        .map_err(|error| format!("git cannot be run: {error}"))?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    for name in listed.split('\0').filter(|name| !name.is_empty()) {
        let Ok(mut bytes) = fs::read(root.join(name)) else {
            // The file was deleted and is still listed.
            continue;
        };
        for of in changed_crates() {
            if let Some(file) = name.strip_prefix(&format!("crates/{of}/src/")) {
                bytes = changed(of, file, &String::from_utf8_lossy(&bytes))?.into_bytes();
            }
        }
        write(&to.join(name), &bytes)?;
    }
    for of in changed_crates() {
        let chooser = to.join(format!("crates/{of}/src/mutants.rs"));
        write(&chooser, CHOOSER.as_bytes())?;
    }
    Ok(())
}

/// Module that is added to each crate that has faults.
const CHOOSER: &str = "\
//! Number of the chosen fault.

/// Reports whether the fault of this number is chosen.
pub(crate) fn is(name: &str) -> bool {
    static CHOSEN: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    CHOSEN.get_or_init(|| std::env::var(\"SANDSTONE_MUTANT\").unwrap_or_default()) == name
}
";

/// Returns a file of a crate with all its faults.
fn changed(of: &str, file: &str, source: &str) -> Result<String, String> {
    let mut text = source.to_owned();
    let changes = CHANGES
        .iter()
        .filter(|change| (change.of, change.file) == (of, file));
    for Change { from, to, .. } in changes {
        if text.matches(from).count() != 1 {
            return Err(format!(
                "crates/{of}/src/{file} has changed and no longer holds this text exactly once; adapt \
                 xtask/src/mutate/mutants.rs:\n{from}"
            ));
        }
        text = text.replace(from, &spelled(to));
    }
    if file == "lib.rs" {
        text.push_str("\nmod mutants;\n");
    }
    Ok(text)
}

/// Returns the text as it is spelled in the source.
fn spelled(text: &str) -> String {
    text.replace('‹', "crate::mutants::is(\"")
        .replace('›', "\")")
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    let failed = |error| format!("{} cannot be written: {error}", path.display());
    if fs::read(path).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    fs::write(path, bytes).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the names of faults in a change.
    fn named(text: &str) -> BTreeSet<&str> {
        let parts = text.split('‹').skip(1);
        let names = parts.filter_map(|part| Some(part.split_once('›')?.0));
        names.collect()
    }

    /// Tests that every fault fits the sources: a change of the product that a fault has to follow
    /// fails here.
    #[test]
    fn every_fault_still_fits_the_sources() {
        let files: BTreeSet<_> = CHANGES
            .iter()
            .map(|change| (change.of, change.file))
            .collect();
        for (of, file) in files {
            let path = crate_root().join("crates").join(of).join("src").join(file);
            let source = fs::read_to_string(path).expect(file);
            let changed = changed(of, file, &source).unwrap_or_else(|why| panic!("{why}"));
            assert_ne!(changed, source, "{file}");
        }
    }

    /// Tests that each test that finds a fault of the target exists.
    #[test]
    fn every_world_that_finds_a_fault_is_a_test() {
        let worlds = crate_root().join("crates/sim/tests/worlds.rs");
        let worlds = fs::read_to_string(worlds).expect("tests");
        for mutant in &MUTANTS {
            if let Seeker::World(test) = mutant.seeker {
                let is_there = worlds.contains(&format!("fn {test}()"));
                assert!(is_there, "{}: there is no test {test}", mutant.name);
            }
        }
    }

    #[test]
    fn every_fault_is_somewhere_and_has_a_name_of_its_own() {
        let changed: BTreeSet<&str> = CHANGES.iter().flat_map(|change| named(change.to)).collect();
        let names: BTreeSet<&str> = MUTANTS.iter().map(|mutant| mutant.name).collect();
        assert_eq!(changed, names);
        assert_eq!(names.len(), MUTANTS.len());
    }
}
