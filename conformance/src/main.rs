//! Outside suites and real clients, run against a real Sandstone server.
//!
//! Each lab starts its own server. So labs do not see each other and may run side by side, because
//! most of their time they wait. A lab that cannot run on this machine is skipped with the reason.
//! It never passes by doing nothing.

mod bench_bars;
mod bench_network;
mod bench_volumes;
mod browser;
mod console;
mod diskless_boot;
mod failover;
mod initiator;
mod iscsi_test_cu;
mod isns;
mod lab;
mod libiscsi_tools;
mod libvirt;
mod linux_guest;
mod machine;
mod nbd;
mod nbdkit;
mod openapi;
mod packages;
mod pool_hosts;
mod prometheus;
mod qemu_img;
mod report_page;
mod servers;
mod terminal;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};

use lab::{Bench, Lab, Outcome, Room};
use machine::packages::Tools;
use servers::server::ServerKind;

const USAGE: &str = "\
usage: conformance [OPTIONS] [NAME…]

Runs the labs whose names begin with one of the NAMEs; all of them without a NAME.

options:
  --list           name the labs and say what each proves
  --server PATH    the sandstone binary (default: beside this program)
  --peer           run against Debian's tgt instead, to see whether the labs work
  --quick          omit the labs that boot a guest
  --one            one lab after the other
  --beside         only labs that may run beside other programs
  --alone          only labs that must run alone
  --packages DIR   two revisions of the package, for the labs of packages, which run only then
  --pictures DIR   keep a picture of each page of the console there; the lab of the documents'
                   pictures runs only then
  --seconds N      how long a storm of path failures rages (default: SANDSTONE_STORM_SECONDS, else 60)

SANDSTONE_SEED=N repeats a storm.";

/// Environment variable with the duration of storms, for labs that another program runs without
/// passing options on.
const STORM_SECONDS: &str = "SANDSTONE_STORM_SECONDS";

/// Number of labs without a guest that run side by side.
const LANES: usize = 2;

struct Arguments {
    list: bool,
    quick: bool,
    one: bool,
    beside: bool,
    alone: bool,
    peer: bool,
    server: Option<PathBuf>,
    packages: Option<PathBuf>,
    pictures: Option<PathBuf>,
    seconds: u64,
    names: Vec<String>,
}

fn main() -> ExitCode {
    let storms = std::env::var(STORM_SECONDS).ok();
    let arguments = parse(std::env::args().skip(1), storms.as_deref());
    match arguments.and_then(|arguments| run(&arguments)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("conformance: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn labs() -> Vec<Lab> {
    [
        iscsi_test_cu::LABS,
        libiscsi_tools::LABS,
        qemu_img::LABS,
        nbd::LABS,
        initiator::LABS,
        failover::LABS,
        pool_hosts::LABS,
        nbdkit::LABS,
        libvirt::LABS,
        isns::LABS,
        bench_network::LABS,
        bench_bars::LABS,
        bench_volumes::LABS,
        report_page::LABS,
        console::LABS,
        terminal::LABS,
        openapi::LABS,
        prometheus::LABS,
        linux_guest::LABS,
        diskless_boot::LABS,
        packages::LABS,
    ]
    .concat()
}

/// Parses the arguments. `storms` is the environment's value for the duration of storms.
fn parse(arguments: impl Iterator<Item = String>, storms: Option<&str>) -> Result<Arguments> {
    let mut parsed = Arguments {
        list: false,
        quick: false,
        one: false,
        beside: false,
        alone: false,
        peer: false,
        server: None,
        packages: None,
        pictures: None,
        seconds: match storms {
            Some(seconds) => whole_seconds(seconds, STORM_SECONDS)?,
            None => 60,
        },
        names: Vec::new(),
    };
    let mut arguments = arguments;
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--list" => parsed.list = true,
            "--quick" => parsed.quick = true,
            "--one" => parsed.one = true,
            "--beside" => parsed.beside = true,
            "--alone" => parsed.alone = true,
            "--peer" => parsed.peer = true,
            "--server" => {
                parsed.server = Some(arguments.next().context("--server needs a path")?.into())
            }
            "--packages" => {
                parsed.packages = Some(
                    arguments
                        .next()
                        .context("--packages needs a folder")?
                        .into(),
                );
            }
            "--pictures" => {
                parsed.pictures = Some(
                    arguments
                        .next()
                        .context("--pictures needs a folder")?
                        .into(),
                );
            }
            "--seconds" => {
                let value = arguments.next().context("--seconds needs a number")?;
                parsed.seconds = whole_seconds(&value, "--seconds")?;
            }
            "-h" | "--help" => {
                println!("{USAGE}");
                std::process::exit(0);
            }
            option if option.starts_with('-') => bail!("there is no option {option}\n{USAGE}"),
            name => parsed.names.push(name.to_owned()),
        }
    }
    Ok(parsed)
}

/// Reads a duration from `what`. Zero is refused, because a storm of no time proves nothing.
fn whole_seconds(text: &str, what: &str) -> Result<u64> {
    match text.parse() {
        Ok(seconds) if seconds > 0 => Ok(seconds),
        _ => bail!("{what} takes whole seconds, at least 1, not {text:?}; no lab was run"),
    }
}

/// Runs the labs. Returns true if none failed.
fn run(arguments: &Arguments) -> Result<bool> {
    let mut chosen = labs();
    if !arguments.names.is_empty() {
        if let Some(name) = arguments
            .names
            .iter()
            .find(|name| !chosen.iter().any(|lab| lab.name.starts_with(*name)))
        {
            bail!("no lab begins with '{name}'; see --list");
        }
        chosen.retain(|lab| {
            arguments
                .names
                .iter()
                .any(|name| lab.name.starts_with(name))
        });
    }
    if arguments.packages.is_none() && !arguments.list {
        chosen.retain(|lab| lab.room != Room::Packages);
    }
    if arguments.pictures.is_none() && !arguments.list {
        chosen.retain(|lab| lab.room != Room::Pictures);
    }
    if arguments.quick {
        chosen.retain(|lab| lab.room != Room::Guest);
    }
    if arguments.beside {
        chosen.retain(|lab| lab.room != Room::Alone);
    }
    if arguments.alone {
        chosen.retain(|lab| lab.room == Room::Alone);
    }
    if arguments.list {
        for lab in &chosen {
            println!("{:<28} {}", lab.name, lab.about);
        }
        return Ok(true);
    }
    let kind = if arguments.peer {
        ServerKind::Tgt
    } else {
        ServerKind::Sandstone(server_binary(arguments)?)
    };
    if let Some(folder) = &arguments.pictures {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("make the folder {}", folder.display()))?;
    }
    machine::network::remove_stale();
    machine::scratch::remove_stale();
    let bench = Bench {
        kind,
        seconds: arguments.seconds,
        packages: arguments.packages.clone(),
        pictures: arguments.pictures.clone(),
        tools: Tools::prepare().context("the programs that the labs need")?,
    };
    let rows = if arguments.one {
        chosen.iter().map(|lab| run_lab(lab, &bench)).collect()
    } else {
        run_lanes(&chosen, &bench)
    };
    Ok(report(&rows))
}

/// Runs the labs side by side. A guest keeps a processor busy, so one runs at a time, and a second
/// one once the other labs leave a core for it. Once there are no more guests, a third of the other
/// labs runs. Labs that have to be alone come last, one by one.
fn run_lanes(labs: &[Lab], bench: &Bench) -> Vec<Row> {
    let queue = |room: Room| {
        let indexes = (0..labs.len()).filter(|&index| labs[index].room == room);
        Mutex::new(indexes.collect::<Vec<_>>().into_iter())
    };
    let (guests, others, alone) = (queue(Room::Guest), queue(Room::Shared), queue(Room::Alone));
    let rows = Mutex::new(Vec::with_capacity(labs.len()));
    let drain = |queue: &Mutex<std::vec::IntoIter<usize>>| {
        loop {
            // `next` is bound first, because the lock must not be held while the lab runs.
            let next = locked(queue).next();
            let Some(index) = next else { break };
            let row = run_lab(&labs[index], bench);
            locked(&rows).push((index, row));
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            drain(&guests);
            drain(&others);
        });
        scope.spawn(|| {
            drain(&others);
            drain(&guests);
        });
        for _ in 1..LANES {
            scope.spawn(|| drain(&others));
        }
    });
    drain(&queue(Room::Packages));
    drain(&queue(Room::Pictures));
    drain(&alone);
    let mut rows = rows
        .into_inner()
        .unwrap_or_else(|broken| broken.into_inner());
    rows.sort_by_key(|(index, _)| *index);
    rows.into_iter().map(|(_, row)| row).collect()
}

/// Locks a mutex, also after a lab's panic, because only whole values are put there.
fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|broken| broken.into_inner())
}

fn server_binary(arguments: &Arguments) -> Result<PathBuf> {
    let path = match &arguments.server {
        Some(path) => path.clone(),
        None => std::env::current_exe()
            .context("find this program")?
            .with_file_name("sandstone"),
    };
    path.canonicalize().with_context(|| {
        format!(
            "there is no server at {}: build it (`cargo build --release`) or name it with --server",
            path.display()
        )
    })
}

struct Row {
    name: &'static str,
    seconds: f64,
    result: Result<Outcome>,
}

fn run_lab(lab: &Lab, bench: &Bench) -> Row {
    println!("-- {} begins", lab.name);
    let start = Instant::now();
    let result = (lab.run)(bench);
    let seconds = start.elapsed().as_secs_f64();
    // One call writes all, so that labs that end together do not mix their lines.
    let mut text = format!("== {}: {}", lab.name, lab.about);
    match &result {
        Ok(Outcome::Passed { figures, .. }) => {
            text.push_str(&format!("\n  passed in {seconds:.1} s: {figures}"));
        }
        Ok(Outcome::Skipped(reason)) => text.push_str(&format!("\n  skipped: {reason}")),
        Err(error) => text.push_str(&format!("\n  FAILED after {seconds:.1} s: {error:#}")),
    }
    println!("{text}");
    Row {
        name: lab.name,
        seconds,
        result,
    }
}

fn report(rows: &[Row]) -> bool {
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    println!("\n{:<28} {:<8} {:>7}  figures", "lab", "result", "time");
    for row in rows {
        let (word, text) = match &row.result {
            Ok(Outcome::Passed { figures, skips }) => {
                passed += 1;
                let more = if skips.is_empty() {
                    String::new()
                } else {
                    format!("; reasons of skips: {}", skips.len())
                };
                ("passed", format!("{figures}{more}"))
            }
            Ok(Outcome::Skipped(reason)) => {
                skipped += 1;
                ("skipped", reason.clone())
            }
            Err(error) => {
                failed += 1;
                (
                    "FAILED",
                    format!("{error:#}")
                        .lines()
                        .next()
                        .unwrap_or_default()
                        .to_owned(),
                )
            }
        };
        println!("{:<28} {word:<8} {:>5.1} s  {text}", row.name, row.seconds);
    }
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    report_skips(rows);
    failed == 0
}

/// Prints the skips of outside suites, by reason, and the labs of each.
fn report_skips(rows: &[Row]) {
    let mut labs_of: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for row in rows {
        if let Ok(Outcome::Passed { skips, .. }) = &row.result {
            for skip in skips {
                labs_of.entry(skip).or_default().push(row.name);
            }
        }
    }
    if !labs_of.is_empty() {
        println!("\nskipped by outside suites, and why:");
    }
    for (skip, labs) in labs_of {
        println!("  {skip}\n      in {}", labs.join(", "));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(words: &[&str], storms: Option<&str>) -> Result<u64> {
        let words = words.iter().map(|word| (*word).to_owned());
        parse(words, storms).map(|arguments| arguments.seconds)
    }

    #[test]
    fn storms_last_as_long_as_options_or_the_environment_say() {
        assert_eq!(seconds(&[], None).unwrap(), 60);
        assert_eq!(seconds(&[], Some("300")).unwrap(), 300);
        assert_eq!(seconds(&["--seconds", "5"], Some("300")).unwrap(), 5);
        for wrong in ["", "0", "-1", "5m", "1.5"] {
            let error = seconds(&[], Some(wrong)).unwrap_err().to_string();
            assert!(error.contains(STORM_SECONDS), "{error}");
            assert!(seconds(&["--seconds", wrong], None).is_err(), "{wrong}");
        }
    }
}
