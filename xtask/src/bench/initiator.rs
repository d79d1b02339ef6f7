//! `cargo xtask bench initiator`: our initiator and libiscsi's client side by side, each on one
//! core against one target on another.
//!
//! Both read and write one unit of one Sandstone, in turns that swap the first one. The report
//! compares medians. Our side is `sandstone bench run iscsi://…`, whose figures include the cost of
//! its generator.

use std::path::Path;
use std::process::{Command, Stdio};

use serde::Serialize;

use super::client::{self, LoadResult};
use super::report::Spread;
use super::server::{self, Server};
use super::workload::{Client, Workload};
use super::{Options, machine, progress};

/// Goals for our initiator, as shares of libiscsi's figures.
const MOST_CPU: f64 = 0.6;
const LEAST_IOPS: f64 = 1.5;

const WORKLOADS: [Workload; 4] = [
    workload("read-4k-qd32", false, 32),
    workload("write-4k-qd32", true, 32),
    workload("read-4k-qd1", false, 1),
    workload("write-4k-qd1", true, 1),
];

const fn workload(name: &'static str, is_write: bool, depth: u32) -> Workload {
    Workload {
        name,
        client: Client::Libiscsi,
        is_write,
        is_random: true,
        block: 4096,
        depth,
        sessions: 1,
        digests: false,
        cached: false,
    }
}

/// Medians of one client.
#[derive(Clone, Copy, Debug, Serialize)]
struct Figures {
    iops: f64,
    cpu_us_per_io: f64,
}

/// Figures of both clients at one workload.
#[derive(Debug, Serialize)]
struct Row {
    workload: &'static str,
    libiscsi: Figures,
    sandstone: Figures,
    /// Ratio of our CPU time to libiscsi's.
    cpu_ratio: f64,
    iops_ratio: f64,
}

/// Reports whether a workload's name contains `part`.
pub(super) fn knows(part: &str) -> bool {
    WORKLOADS
        .iter()
        .any(|workload| workload.name.contains(part))
}

/// Runs the benchmark and prints it.
pub(super) fn run(options: &Options) -> Result<(), String> {
    let machine = machine::Machine::look()?;
    let libiscsi = client::build()?;
    let sandstone = server::sandstone_binary(options.server.as_deref())?;
    let server = Server::start(server::TargetKind::Sandstone, &sandstone)?;
    progress("writing every block once");
    client::fill(&server)?;
    let mut rows = Vec::new();
    for workload in WORKLOADS.iter().filter(|w| options.wants(w.name)) {
        rows.push(measure(workload, &server, &libiscsi, &sandstone, options)?);
    }
    if options.json {
        let report = serde_json::json!({ "machine": machine, "rows": rows });
        println!("{report:#}");
        return Ok(());
    }
    print(&rows, options);
    Ok(())
}

fn measure(
    workload: &Workload,
    server: &Server,
    libiscsi: &Path,
    sandstone: &Path,
    options: &Options,
) -> Result<Row, String> {
    let (mut theirs, mut ours) = (Vec::new(), Vec::new());
    for repeat in 0..options.repeats {
        let (name, turn) = (workload.name, repeat + 1);
        progress(&format!("{name}: run {turn} of {}", options.repeats));
        for ours_is_next in [repeat % 2 == 0, repeat % 2 == 1] {
            if ours_is_next {
                ours.push(load(workload, server, sandstone, options.seconds)?);
            } else {
                let loaded = client::load(workload, server, libiscsi, options.seconds);
                theirs.push(figures(&loaded.map_err(|e| format!("{name}: {e}"))?.0));
            }
        }
    }
    let (libiscsi, sandstone) = (medians(&theirs), medians(&ours));
    Ok(Row {
        workload: workload.name,
        libiscsi,
        sandstone,
        cpu_ratio: sandstone.cpu_us_per_io / libiscsi.cpu_us_per_io,
        iops_ratio: sandstone.iops / libiscsi.iops,
    })
}

fn figures(load: &LoadResult) -> Figures {
    Figures {
        iops: load.ios as f64 / load.seconds,
        cpu_us_per_io: load.client_cpu_s * 1e6 / load.ios.max(1) as f64,
    }
}

/// Runs our initiator once.
fn load(
    workload: &Workload,
    server: &Server,
    sandstone: &Path,
    seconds: f64,
) -> Result<Figures, String> {
    let mut command: Command = client::pinned(sandstone);
    command.args(["bench", "run", &server.url(), "--destroy-data", "--json"]);
    command.args(["--block", &workload.block.to_string(), "--random", "100"]);
    command.args(["--reads", if workload.is_write { "0" } else { "100" }]);
    command.args(["--workers", "1", "--ramp-up", "500ms"]);
    command.args(["--outstanding", &workload.depth.to_string()]);
    command.args(["--time", &format!("{}ms", (seconds * 1e3) as u64)]);
    let output = command.stderr(Stdio::piped()).output();
    let output = output.map_err(|e| format!("cannot start {}: {e}", sandstone.display()))?;
    let said = || String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if !output.status.success() {
        return Err(format!("sandstone bench run: {}", said()));
    }
    let results: serde_json::Value = serde_json::from_slice(&output.stdout)
        .map_err(|e| format!("sandstone bench run --json: {e}"))?;
    figures_of(&results)
        .ok_or_else(|| format!("sandstone bench run reported no figures: {}", said()))
}

fn figures_of(results: &serde_json::Value) -> Option<Figures> {
    let measurement = &results["runs"][0]["measurement"];
    let number = |value: &serde_json::Value| value.as_f64();
    let accesses =
        number(&measurement["read"]["accesses"])? + number(&measurement["write"]["accesses"])?;
    let cpu = &measurement["cpu"];
    let cpu_ns = number(&cpu["user_ns"])? + number(&cpu["system_ns"])?;
    let elapsed_ns = number(&measurement["elapsed_ns"])?;
    (accesses > 0.0 && elapsed_ns > 0.0).then(|| Figures {
        iops: accesses * 1e9 / elapsed_ns,
        cpu_us_per_io: cpu_ns / 1e3 / accesses,
    })
}

fn medians(runs: &[Figures]) -> Figures {
    let median = |of: fn(&Figures) -> f64| Spread::of(runs.iter().map(of)).median;
    Figures {
        iops: median(|run| run.iops),
        cpu_us_per_io: median(|run| run.cpu_us_per_io),
    }
}

fn print(rows: &[Row], options: &Options) {
    let (repeats, seconds) = (options.repeats, options.seconds);
    println!(
        "Medians of {repeats} runs of {seconds} s; the client on one core, the target on another\n"
    );
    println!(
        "{:<15} {:>18} {:>18} {:>9}   {:>16} {:>16} {:>9}",
        "", "CPU µs/I/O", "", "", "thousand I/O/s", "", ""
    );
    println!(
        "{:<15} {:>18} {:>18} {:>9}   {:>16} {:>16} {:>9}",
        "workload", "libiscsi", "Sandstone", "ratio", "libiscsi", "Sandstone", "ratio"
    );
    for row in rows {
        println!(
            "{:<15} {:>18.2} {:>18.2} {:>8.2}x   {:>16.1} {:>16.1} {:>8.2}x",
            row.workload,
            row.libiscsi.cpu_us_per_io,
            row.sandstone.cpu_us_per_io,
            row.cpu_ratio,
            row.libiscsi.iops / 1e3,
            row.sandstone.iops / 1e3,
            row.iops_ratio,
        );
    }
    let met = |is_met: bool| if is_met { "met" } else { "missed" };
    println!();
    for row in rows {
        println!(
            "{}: CPU at most {MOST_CPU}x: {}; I/O per second at least {LEAST_IOPS}x: {}",
            row.workload,
            met(row.cpu_ratio <= MOST_CPU),
            met(row.iops_ratio >= LEAST_IOPS),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_results_of_bench_run_are_read() {
        let results = serde_json::json!({ "runs": [{ "measurement": {
            "elapsed_ns": 2_000_000_000u64,
            "read": { "accesses": 3000 },
            "write": { "accesses": 1000 },
            "cpu": { "user_ns": 6_000_000, "system_ns": 2_000_000 },
        }}]});
        let figures = figures_of(&results).unwrap();
        assert_eq!((figures.iops, figures.cpu_us_per_io), (2000.0, 2.0));
        assert!(figures_of(&serde_json::json!({})).is_none());
    }
}
