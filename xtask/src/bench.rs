//! Benchmarks. `cargo xtask bench target` runs Debian's tgt and Sandstone side by side, in one run
//! on one machine. `cargo xtask bench initiator` runs libiscsi's client and our initiator. `cargo
//! xtask bench store` runs a pool beside its raw file and btrfs (`store.rs`). `cargo xtask bench
//! console` measures the console of a large daemon (`console.rs`).
//!
//! Absolute figures drift from machine to machine and from hour to hour. Ratios measured in one run
//! do not. So all targets serve at once, each from one core (core 0), and the client has the other
//! core (core 1). Each workload runs several times on each target, in turns that change the first
//! one. The report compares medians, and shows the spread beside them.

mod client;
mod console;
mod distance;
mod histogram;
mod initiator;
mod lean_client;
mod machine;
mod process;
mod report;
mod server;
mod sessions;
mod store;
mod workload;

use std::path::PathBuf;

use report::Report;
use server::Server;
use workload::{Cell, WORKLOADS, Workload};

const USAGE: &str = "\
usage: cargo xtask bench target|initiator|store|console [OPTIONS]

  target     Sandstone beside Debian's tgt
  initiator  our initiator beside libiscsi's, both against Sandstone
  store      a pool beside its raw file and btrfs; `bench store --help` tells its own options
  console    the console of a large daemon; `bench console --help` tells its own options

options:
  --quick         one repeat of one second each: to see that it works, not to quote
  --json          print the whole report as JSON instead of tables
  --only NAME     only workloads whose name contains NAME (may be repeated); `sessions` is the
                  part about logins, memory and idle CPU
  --seconds S     seconds measured per run (default 4)
  --repeats N     runs per workload and target (default 5)
  --server PATH   the Sandstone binary (default: build it as packages have it)
  --list          print the names of the workloads";

/// Options of a run.
pub(crate) struct Options {
    pub quick: bool,
    pub json: bool,
    pub only: Vec<String>,
    pub seconds: f64,
    pub repeats: usize,
    pub server: Option<PathBuf>,
}

impl Options {
    fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|part| name.contains(part.as_str()))
    }
}

/// Runs a benchmark.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    match arguments.split_first() {
        Some((first, rest)) if first == "target" => target(&parse(rest)?),
        Some((first, rest)) if first == "initiator" => initiator::run(&parse(rest)?),
        Some((first, rest)) if first == "lean" => lean_client::run(rest),
        Some((first, rest)) if first == "store" => store::run(rest),
        Some((first, rest)) if first == "console" => console::run(rest),
        Some((first, _)) if first == "--list" => {
            list();
            Ok(())
        }
        _ => Err(USAGE.into()),
    }
}

fn list() {
    for workload in WORKLOADS {
        println!("{:<28} {}", workload.name, workload.description());
    }
    println!(
        "{:<28} logins at once, resident memory, idle CPU",
        sessions::NAME
    );
}

fn parse(arguments: &[String]) -> Result<Options, String> {
    let mut options = Options {
        quick: false,
        json: false,
        only: Vec::new(),
        seconds: 4.0,
        repeats: 5,
        server: None,
    };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let mut value = || {
            words
                .next()
                .ok_or_else(|| format!("{word} needs a value\n{USAGE}"))
        };
        match word.as_str() {
            "--quick" => (options.quick, options.seconds, options.repeats) = (true, 1.0, 1),
            "--json" => options.json = true,
            "--only" => options.only.push(value()?.clone()),
            "--seconds" => {
                options.seconds = value()?.parse().map_err(|_| "--seconds takes a number")?
            }
            "--repeats" => {
                options.repeats = value()?.parse().map_err(|_| "--repeats takes a number")?
            }
            "--server" => options.server = Some(value()?.into()),
            "--list" => {
                list();
                std::process::exit(0);
            }
            other => return Err(format!("unknown option '{other}'\n{USAGE}")),
        }
    }
    if options.repeats == 0 || !(0.1..=600.0).contains(&options.seconds) {
        return Err("--repeats starts at 1; --seconds lies between 0.1 and 600".into());
    }
    let known = |part: &str| {
        sessions::NAME.contains(part)
            || initiator::knows(part)
            || WORKLOADS.iter().any(|w| w.name.contains(part))
    };
    if let Some(unknown) = options.only.iter().find(|part| !known(part)) {
        return Err(format!(
            "no workload's name contains '{unknown}'; `cargo xtask bench --list` names them"
        ));
    }
    Ok(options)
}

fn target(options: &Options) -> Result<(), String> {
    let machine = machine::Machine::look()?;
    server::install_tgt()?;
    let load_client = client::build()?;
    let sandstone = server::sandstone_binary(options.server.as_deref())?;
    let mut report = Report::new(machine, options, &sandstone)?;
    if options.wants(sessions::NAME) {
        for kind in [server::TargetKind::Tgt, server::TargetKind::Sandstone] {
            progress(&format!("{}: sessions", kind.name()));
            report
                .sessions
                .push(sessions::measure(kind, &sandstone, options.quick)?);
        }
    }
    let wanted: Vec<&Workload> = WORKLOADS.iter().filter(|w| options.wants(w.name)).collect();
    if !wanted.is_empty() {
        let mut servers = vec![
            Server::start(server::TargetKind::Tgt, &sandstone)?,
            Server::start(server::TargetKind::Sandstone, &sandstone)?,
        ];
        if wanted.iter().any(|workload| workload.cached) {
            servers.push(Server::start(server::TargetKind::Pool, &sandstone)?);
        }
        for server in &servers {
            progress(&format!("{}: writing every block once", server.kind.name()));
            client::fill(server)?;
        }
        if let Some(pool) = servers.get(2) {
            progress("Sandstone's pool: reading every block into its cache");
            for _ in 0..2 {
                Cell::measure(&workload::READS_ALL, pool, &load_client, 4.0)?;
            }
        }
        for workload in wanted {
            report
                .rows
                .push(measure(workload, &servers, &load_client, options)?);
        }
    }
    report.print(options.json)
}

/// Runs one workload, in turns, on all servers for which it is meant.
fn measure(
    workload: &'static Workload,
    servers: &[Server],
    load_client: &std::path::Path,
    options: &Options,
) -> Result<report::Row, String> {
    let mut row = report::Row::new(workload);
    for repeat in 0..options.repeats {
        let count = if workload.cached { servers.len() } else { 2 };
        for turn in 0..count {
            let server = &servers[(repeat + turn) % count];
            let name = server.kind.name();
            progress(&format!(
                "{}: {name}, run {} of {}",
                workload.name,
                repeat + 1,
                options.repeats
            ));
            let cell = Cell::measure(workload, server, load_client, options.seconds)
                .map_err(|e| format!("{} on {name}: {e}", workload.name))?;
            row.push(server.kind, cell);
        }
    }
    Ok(row)
}

fn progress(what: &str) {
    eprintln!("bench: {what}");
}

/// Builds a program as packages have it, and returns the folder of the builds of that kind.
fn build(what: &[&str]) -> Result<PathBuf, String> {
    let status = crate::cargo::command()
        .args(["build", "--profile", "dist", "--locked"])
        .args(what)
        .current_dir(crate::crate_root())
        .status()
        .map_err(|error| format!("cargo cannot be run: {error}"))?;
    if !status.success() {
        return Err(format!("cargo build {} failed", what.join(" ")));
    }
    Ok(crate::target_folder().join("dist"))
}
