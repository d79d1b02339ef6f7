//! The table of results, and the words below it.

use crate::print::table::{self, Column, ListArgs, Numbers, extra, left, right};
use crate::{Done, Terminal};
use bench::measure::latency::Distribution;
use bench::remarks::remarks;
use bench::results::{Results, Run};

/// Prints the runs as a table, or all of the results as JSON.
pub(super) fn print(t: &mut Terminal<'_>, args: &ListArgs, results: &Results) -> Done {
    if args.json {
        return table::json(t, results);
    }
    table::print(t, args, COLUMNS, &results.runs, "nothing was measured")?;
    for run in &results.runs {
        let esxtop = split(run).into_iter().chain(queue(run));
        for remark in remarks(run).into_iter().chain(esxtop) {
            writeln!(t.err, "{}: {remark}", run.workload.name)?;
        }
    }
    Ok(())
}

const COLUMNS: &[Column<Run>] = &[
    left("workload", |run, _| run.workload.name.clone()),
    extra(right("round", |run, _| run.round.to_string())),
    right("iops", |run, n| decimal(run.measurement.iops(), n, 0)),
    extra(right("read-iops", |run, n| {
        decimal(run.measurement.read_iops(), n, 0)
    })),
    extra(right("write-iops", |run, n| {
        decimal(run.measurement.write_iops(), n, 0)
    })),
    right("mb/s", |run, n| {
        decimal(run.measurement.bytes_per_s() / 1e6, n, 1)
    }),
    extra(right("mib/s", |run, n| {
        decimal(run.measurement.bytes_per_s() / f64::from(1 << 20), n, 1)
    })),
    extra(right("read-mb/s", |run, n| {
        decimal(run.measurement.read_bytes_per_s() / 1e6, n, 1)
    })),
    extra(right("write-mb/s", |run, n| {
        decimal(run.measurement.write_bytes_per_s() / 1e6, n, 1)
    })),
    right("mean-ms", |run, n| {
        decimal(run.measurement.latency.mean_ns / 1e6, n, 3)
    }),
    extra(right("min-ms", |run, n| spread(run, n, |d| d.min_ns))),
    right("p50-ms", |run, n| spread(run, n, |d| d.p50_ns)),
    extra(right("p90-ms", |run, n| spread(run, n, |d| d.p90_ns))),
    right("p99-ms", |run, n| spread(run, n, |d| d.p99_ns)),
    right("p99.9-ms", |run, n| spread(run, n, |d| d.p99_9_ns)),
    extra(right("p99.99-ms", |run, n| spread(run, n, |d| d.p99_99_ns))),
    right("max-ms", |run, n| {
        decimal(run.measurement.latency.max_ns as f64 / 1e6, n, 3)
    }),
    right("errors", |run, _| run.measurement.errors().to_string()),
    right("cpu-us", |run, n| {
        known(run.measurement.cpu_ns_per_access().map(|ns| ns / 1e3), n, 2)
    }),
    right("core%", |run, n| {
        known(run.measurement.cpu_cores().map(|cores| cores * 100.0), n, 0)
    }),
    extra(right("gap-ms", |run, n| {
        decimal(run.measurement.longest_gap_ns as f64 / 1e6, n, 1)
    })),
    extra(right("seconds", |run, n| {
        decimal(run.measurement.elapsed_ns as f64 / 1e9, n, 1)
    })),
    extra(right("outstanding", |run, _| {
        run.measurement.outstanding.to_string()
    })),
    extra(right("workers", |run, _| {
        run.measurement.workers.to_string()
    })),
];

/// Returns a number with a given number of decimal places, and with more if it would be nearly
/// nothing.
fn decimal(value: f64, numbers: Numbers, places: usize) -> String {
    match numbers {
        Numbers::Exact => value.to_string(),
        Numbers::Short if places == 3 && value > 0.0 && value < 0.1 => format!("{value:.5}"),
        Numbers::Short => format!("{value:.places$}"),
    }
}

fn known(value: Option<f64>, numbers: Numbers, places: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| decimal(value, numbers, places))
}

fn spread(run: &Run, numbers: Numbers, of: fn(&Distribution) -> u64) -> String {
    let distribution = run.measurement.latency.distribution.as_ref();
    known(
        distribution.map(|distribution| of(distribution) as f64 / 1e6),
        numbers,
        3,
    )
}

/// Returns the parts of the latency, in esxtop's words.
fn split(run: &Run) -> Option<String> {
    let split = run.measurement.esxtop?;
    Some(format!(
        "GAVG {:.3} ms = KAVG {:.3} + DAVG {:.3} (QAVG {:.3}) over {} commands",
        split.gavg_us / 1e3,
        split.kavg_us / 1e3,
        split.davg_us / 1e3,
        split.qavg_us / 1e3,
        split.commands
    ))
}

/// Returns the fill of the queue, in esxtop's words.
fn queue(run: &Run) -> Option<String> {
    let queue = run.measurement.queue?;
    Some(format!(
        "ACTV {:.1}, QUED {:.1} of DQLEN {}: %USD {:.0}, LOAD {:.2} on average",
        queue.actv, queue.qued, queue.dqlen, queue.used_percent, queue.load
    ))
}
