//! `cargo xtask bench console`: figures of the console of a large daemon. It has 1,000 units on as
//! many volumes with 10,000 snapshots, 200 hosts, and 2,000 sessions.
//!
//! The daemon has one core, on which its event loop and its console compete. Clients have the other
//! core. What viewers cost the data path is measured in turns, with and without them.

mod http;
mod site;
mod viewers;

use std::path::PathBuf;

use serde::Serialize;

use self::http::Client;
use self::site::Site;
use self::viewers::Watched;
use super::machine::Machine;
use super::report::{Goal, Spread};
use super::{progress, server};

const USAGE: &str = "\
usage: cargo xtask bench console [OPTIONS]

options:
  --quick         a tenth of everything, and short runs: to see that it works, not to quote
  --json          print the figures as JSON
  --server PATH   the Sandstone binary (default: build it as packages have it)";

/// Milliseconds within which 95 of 100 requests for a page are answered.
const MOST_MS: f64 = 100.0;
/// Bytes that the first page may take with all its files, and each later one.
const MOST_FIRST: u64 = 150 << 10;
const MOST_LATER: u64 = 20 << 10;
/// Page that shows a whole file, so it is as long as the file. All others show windows.
const WHOLE_FILE: &str = "/config/file";
/// Share of a core, in percent, that one viewer may cost.
const MOST_VIEWER_PERCENT: f64 = 0.5;
/// Share of reads, in percent, that 64 viewers may cost the data path.
const MOST_COST_PERCENT: f64 = 1.0;
/// Events that a viewer must have in each second, or its measurement does not count. One is sent.
const LEAST_EVENTS: f64 = 0.5;

/// Size of a run.
#[derive(Clone, Copy, Debug)]
struct Extent {
    units: usize,
    hosts: usize,
    sessions: usize,
    /// Snapshots of each volume.
    snapshots: usize,
    /// Requests for each page.
    requests: usize,
    /// Pairs of runs with and without viewers.
    pairs: usize,
    seconds: f64,
}

const WHOLE: Extent = Extent {
    units: 1000,
    hosts: 200,
    sessions: 2000,
    snapshots: 10,
    requests: 60,
    pairs: 24,
    seconds: 3.0,
};
const QUICK: Extent = Extent {
    units: 100,
    hosts: 20,
    sessions: 200,
    snapshots: 10,
    requests: 10,
    pairs: 1,
    seconds: 2.0,
};

/// All figures of a run.
#[derive(Serialize)]
struct Report {
    machine: Machine,
    pages: Vec<Page>,
    /// Bytes of the first page with its files.
    first_bytes: u64,
    watched: Vec<Watched>,
    /// Thousands of reads per second without viewers, and with 64.
    alone: Vec<f64>,
    viewed: Vec<f64>,
    /// Events that each viewer had in a second beside the reads. One is sent, and a viewer that is
    /// late misses some.
    events: Vec<f64>,
    goals: Vec<Goal>,
}

/// Figures of a page.
#[derive(Serialize)]
struct Page {
    path: String,
    median_ms: f64,
    p95_ms: f64,
    /// Bytes of the answer as it was sent, head included.
    bytes: u64,
}

/// Runs the benchmark.
pub(super) fn run(arguments: &[String]) -> Result<(), String> {
    let (mut extent, mut is_json, mut binary) = (WHOLE, false, None::<PathBuf>);
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--quick" => extent = QUICK,
            "--json" => is_json = true,
            "--server" => binary = Some(words.next().ok_or("--server needs a path")?.into()),
            "--help" | "-h" => {
                println!("{USAGE}");
                return Ok(());
            }
            other => return Err(format!("unknown option '{other}'\n{USAGE}")),
        }
    }
    let machine = Machine::look()?;
    crate::debian::ensure("/usr/bin/curl", "curl")?;
    crate::debian::ensure("/usr/bin/taskset", "util-linux")?;
    let sandstone = server::sandstone_binary(binary.as_deref())?;
    let site = Site::start(&sandstone, &extent)?;
    let held = site.hold_sessions(extent.sessions)?;
    progress(&format!(
        "{} sessions logged in after {:.1} s",
        extent.sessions, held.seconds
    ));
    let client = site.client()?;
    let mut report = Report {
        machine,
        pages: pages(&client, &extent)?,
        first_bytes: first_bytes(&client)?,
        watched: Vec::new(),
        alone: Vec::new(),
        viewed: Vec::new(),
        events: Vec::new(),
        goals: Vec::new(),
    };
    for path in ["/", "/units"] {
        progress(&format!("the processor for viewers of {path}"));
        let watched = viewers::cost(&client, path, site.pid(), extent.seconds * 5.0)?;
        report.watched.push(watched);
    }
    for pair in 0..extent.pairs {
        progress(&format!("reads, pair {} of {}", pair + 1, extent.pairs));
        for is_viewed in [pair % 2 == 0, pair % 2 == 1] {
            let viewers = match is_viewed {
                true => Some(viewers::watch(&client, "/units", viewers::MOST)?),
                false => None,
            };
            let reads = site.reads(extent.seconds)?;
            match viewers {
                Some(viewers) => {
                    report.events.push(viewers.end());
                    report.viewed.push(reads);
                }
                None => report.alone.push(reads),
            }
        }
    }
    drop(held);
    report.goals = goals(&report);
    report.print(is_json, &extent)
}

/// Measures each page that the navigation leads to, and one object of each list.
fn pages(client: &Client, extent: &Extent) -> Result<Vec<Page>, String> {
    let mut pages = Vec::new();
    for path in paths(client)? {
        progress(&format!("the page {path}"));
        let answers = client.time(&path, extent.requests)?;
        let mut times: Vec<f64> = answers.iter().map(|answer| answer.ms).collect();
        times.sort_by(f64::total_cmp);
        let at = |share: f64| times[((times.len() - 1) as f64 * share).ceil() as usize];
        pages.push(Page {
            path,
            median_ms: at(0.5),
            p95_ms: at(0.95),
            bytes: answers.iter().map(|answer| answer.bytes).max().unwrap_or(0),
        });
    }
    Ok(pages)
}

/// Returns the pages of the navigation, and for each list the page of its first object.
fn paths(client: &Client) -> Result<Vec<String>, String> {
    let overview = client.text("/")?;
    let navigation = overview.split("<nav class=\"main\"").nth(1);
    let navigation = navigation.and_then(|rest| rest.split("</nav>").next());
    let navigation = navigation.ok_or("the overview has no navigation")?;
    let mut paths: Vec<String> = Vec::new();
    for path in http::attributes(navigation, "href") {
        let text = client.text(&path)?;
        let below = format!("{}/", path.trim_end_matches('/'));
        let object = http::attributes(&text, "href")
            .into_iter()
            .find(|link| path != "/" && link.starts_with(&below) && !link.contains('?'));
        paths.push(path);
        paths.extend(object);
    }
    Ok(paths)
}

/// Returns the bytes of the overview with all files that it names.
fn first_bytes(client: &Client) -> Result<u64, String> {
    let text = client.text("/")?;
    let named = ["href", "src"].map(|name| http::attributes(&text, name));
    let files = named.into_iter().flatten();
    let files = files.filter(|path| path.starts_with("/assets/"));
    let mut bytes = 0;
    for path in std::iter::once("/".to_owned()).chain(files) {
        bytes += client
            .time(&path, 1)?
            .iter()
            .map(|it| it.bytes)
            .sum::<u64>();
    }
    Ok(bytes)
}

fn goals(report: &Report) -> Vec<Goal> {
    let slowest = report.pages.iter().map(|page| page.p95_ms);
    let slowest = slowest.fold(0.0, f64::max);
    let windows = report.pages.iter().filter(|page| page.path != WHOLE_FILE);
    let largest = windows.map(|page| page.bytes).max();
    let largest = largest.unwrap_or(0);
    let viewer = report.watched.iter().map(|it| it.percent);
    let viewer = viewer.fold(0.0, f64::max);
    let Spread {
        min: low,
        median: cost,
        max: high,
    } = report.cost_percent();
    let watching = report.watched.iter().map(|it| it.events);
    let events = watching.chain(report.events.iter().copied());
    let events = events.fold(f64::INFINITY, f64::min);
    let goal = |what: &str, target: String, measured: String, reached: bool| Goal {
        what: what.to_owned(),
        target,
        measured,
        reached,
    };
    vec![
        goal(
            "95th percentile of the slowest page",
            format!("≤ {MOST_MS} ms"),
            format!("{slowest:.1} ms"),
            slowest <= MOST_MS,
        ),
        goal(
            "first page with its files",
            format!("≤ {} KiB", MOST_FIRST >> 10),
            format!("{:.1} KiB", report.first_bytes as f64 / 1024.0),
            report.first_bytes <= MOST_FIRST,
        ),
        goal(
            "largest page after it",
            format!("≤ {} KiB", MOST_LATER >> 10),
            format!("{:.1} KiB", largest as f64 / 1024.0),
            largest <= MOST_LATER,
        ),
        goal(
            "processor for one viewer",
            format!("≤ {MOST_VIEWER_PERCENT} % of a core"),
            format!("{viewer:.3} %"),
            viewer <= MOST_VIEWER_PERCENT,
        ),
        goal(
            "4 KiB random reads that 64 viewers cost",
            format!("< {MOST_COST_PERCENT} %"),
            format!("{cost:.2} % [{low:.1}–{high:.1}]"),
            cost < MOST_COST_PERCENT,
        ),
        goal(
            "events that each viewer has in a second beside reads",
            format!("≥ {LEAST_EVENTS}"),
            format!("{events:.2}"),
            events >= LEAST_EVENTS,
        ),
    ]
}

impl Report {
    /// Returns the share of reads that is lost to viewers, in percent: the median of the pairs, and
    /// the interval that holds the true median with a confidence of 95 %. The two runs of a pair
    /// are neighbours, so the machine's slow moments strike both.
    fn cost_percent(&self) -> Spread {
        let pairs = self.viewed.iter().zip(&self.alone);
        let mut costs: Vec<f64> = pairs
            .map(|(with, without)| (1.0 - with / without) * 100.0)
            .collect();
        costs.sort_by(f64::total_cmp);
        // Ranks around the median, by the normal approximation of the binomial distribution.
        let count = costs.len() as f64;
        let outside = ((count - 1.96 * count.sqrt()) / 2.0).max(1.0) as usize - 1;
        Spread {
            min: costs[outside],
            max: costs[costs.len() - 1 - outside],
            ..Spread::of(costs.iter().copied())
        }
    }

    fn print(&self, is_json: bool, extent: &Extent) -> Result<(), String> {
        if is_json {
            let text = serde_json::to_string_pretty(self).map_err(|e| e.to_string())?;
            println!("{text}");
        } else {
            self.print_tables(extent);
        }
        match self.goals.iter().filter(|goal| !goal.reached).count() {
            0 => Ok(()),
            short => Err(format!(
                "{short} of {} goals are not reached",
                self.goals.len()
            )),
        }
    }

    fn print_tables(&self, extent: &Extent) {
        let machine = &self.machine;
        println!(
            "\nmachine: {}, {} cores, {} GiB, Linux {}; load before the run {}\n\
             {} units, {} hosts, {} sessions, {} snapshots; the daemon on core 0, clients on core 1",
            machine.cpu,
            machine.cores,
            machine.memory_gib,
            machine.kernel,
            machine.load_before,
            extent.units,
            extent.hosts,
            extent.sessions,
            extent.units * extent.snapshots,
        );
        println!("\n{:<44} {:>9} {:>9} {:>9}", "page", "median", "p95", "KiB");
        for page in &self.pages {
            println!(
                "{:<44} {:>6.1} ms {:>6.1} ms {:>9.1}",
                page.path,
                page.median_ms,
                page.p95_ms,
                page.bytes as f64 / 1024.0
            );
        }
        println!();
        for watched in &self.watched {
            println!(
                "{} viewers of {}: {:.3} % of a core each",
                watched.viewers, watched.path, watched.percent
            );
        }
        let shown = |figures: &[f64]| {
            let spread = Spread::of(figures.iter().copied());
            format!("{:.1} [{:.1}–{:.1}]", spread.median, spread.min, spread.max)
        };
        println!(
            "4 KiB random reads, K/s: {} without viewers, {} with {}\n",
            shown(&self.alone),
            shown(&self.viewed),
            viewers::MOST
        );
        for goal in &self.goals {
            let mark = if goal.reached { "yes" } else { "NO" };
            println!(
                "{:<54} {:>18} {:>20}  {mark}",
                goal.what, goal.target, goal.measured
            );
        }
    }
}
