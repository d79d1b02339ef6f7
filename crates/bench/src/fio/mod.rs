//! Export of results as fio prints them with `--output-format=json`, for tools that read this
//! format. There is one job for each run, or for each stream if several ran side by side.
//!
//! A value that was not measured is zero. fio's submission latency is part of the completion
//! latency here, because a lane submits in batches.

use serde_json::{Map, Value, json};

use self::options::Job;
use super::measure::latency::LatencySummary;
use super::measure::window::Second;
use super::results::{DirectionResult, Results, Run};
use super::workload::Stream;

mod options;

/// Version of fio that has this format.
const FIO: &str = "fio-3.33";

/// Error code that fio reports for accesses that failed.
const EIO: u32 = 5;

/// Percentiles that fio prints by default.
const PERCENTILES: [f64; 17] = [
    1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95,
    99.99,
];

/// Upper ends of fio's latency classes, in each of its three units, with the nanoseconds of the
/// unit.
const CLASSES: [(&str, u64, &[u64]); 3] = [
    (
        "latency_ns",
        1,
        &[2, 4, 10, 20, 50, 100, 250, 500, 750, 1000],
    ),
    (
        "latency_us",
        1000,
        &[2, 4, 10, 20, 50, 100, 250, 500, 750, 1000],
    ),
    (
        "latency_ms",
        1_000_000,
        &[2, 4, 10, 20, 50, 100, 250, 500, 750, 1000, 2000],
    ),
];

/// Exports all runs as one output of fio. Also returns notes on facts that fio cannot express.
pub fn export(results: &Results) -> (Value, Vec<String>) {
    let mut notes = Vec::new();
    let runs = results.runs.iter().enumerate();
    let jobs: Vec<Value> = runs
        .flat_map(|(group, run)| jobs(group, run, results, &mut notes))
        .collect();
    notes.sort();
    notes.dedup();
    // A colon ends a file name for fio.
    let filename = results.target.name.replace(':', "\\:");
    let value = json!({
        "fio version": FIO,
        "timestamp": results.started_unix_s,
        "timestamp_ms": results.started_unix_s * 1000,
        "time": "",
        "global options": { "filename": filename },
        "jobs": jobs,
    });
    (value, notes)
}

/// Exports a run, or the streams of a run that were measured one by one.
fn jobs(group: usize, run: &Run, results: &Results, notes: &mut Vec<String>) -> Vec<Value> {
    let (workload, m) = (&run.workload, &run.measurement);
    let depth = |stream: &Stream| stream.outstanding.unwrap_or(run.parameters.outstanding);
    let workers = |stream: &Stream| stream.workers.unwrap_or(run.parameters.workers);
    if m.streams.len() == workload.streams.len() && m.streams.len() > 1 {
        let streams = workload.streams.iter().zip(&m.streams);
        let streams = streams.map(|(stream, measured)| {
            let job = Job {
                name: format!("{}: {}", workload.name, stream.specification.name),
                lines: stream
                    .specification
                    .lines
                    .iter()
                    .map(|l| (1.0, l))
                    .collect(),
                outstanding: depth(stream),
                workers: workers(stream),
                region: None,
            };
            let figures = Figures {
                read: &measured.read,
                write: &measured.write,
                series: &[],
                cpu: None,
            };
            job_value(group, &job, &figures, run, results, notes)
        });
        return streams.collect();
    }
    if workload.streams.len() > 1 {
        notes.push(format!(
            "{}: its streams were measured together, and become one job of fio",
            workload.name
        ));
    }
    let lines = workload.streams.iter().flat_map(|stream| {
        let weight = f64::from(workers(stream).max(1));
        let lines = stream.specification.lines.iter();
        lines.map(move |line| (weight, line))
    });
    let workers = m.workers.max(1);
    let all = results.target.len.checked_sub(run.parameters.start);
    let region = run.parameters.working_set.or(all.filter(|len| *len > 0));
    let job = Job {
        name: workload.name.clone(),
        lines: lines.collect(),
        outstanding: (m.outstanding / workers).max(1),
        workers,
        region: region.map(|bytes| bytes / u64::from(workers)),
    };
    let figures = Figures {
        read: &m.read,
        write: &m.write,
        series: &m.series,
        cpu: Some(run),
    };
    vec![job_value(group, &job, &figures, run, results, notes)]
}

/// Measurements of a job.
struct Figures<'a> {
    read: &'a DirectionResult,
    write: &'a DirectionResult,
    series: &'a [Second],
    /// Run whose processor time the job reports; the time is that of a whole run.
    cpu: Option<&'a Run>,
}

fn job_value(
    group: usize,
    job: &Job<'_>,
    figures: &Figures<'_>,
    run: &Run,
    results: &Results,
    notes: &mut Vec<String>,
) -> Value {
    let (m, series) = (&run.measurement, figures.series);
    let (read, write) = (figures.read, figures.write);
    let errors = read.errors + write.errors;
    let error = if errors > 0 { EIO } else { 0 };
    for stream in run.workload.streams.iter().filter(|s| s.sequences > 1) {
        notes.push(format!(
            "{}: fio continues at one place per job, not at {} places in turn",
            job.name, stream.sequences
        ));
    }
    let granularity = match results.target.granularity {
        0 => 512,
        granularity => granularity,
    };
    let mut value = json!({
        "jobname": job.name,
        "groupid": group,
        "job_start": results.started_unix_s * 1000,
        "error": error,
        "total_err": errors,
        "first_error": error,
        "eta": 0,
        "elapsed": m.elapsed_ns.div_ceil(1_000_000_000),
        "job options": options::options(job, &run.workload, &run.parameters, granularity, notes),
        "read": direction(read, m.elapsed_ns, series.iter().map(|s| (s.reads, s.read_bytes, s))),
        "write": direction(write, m.elapsed_ns, series.iter().map(|s| (s.writes, s.written_bytes, s))),
        "trim": direction(&DirectionResult::default(), m.elapsed_ns, std::iter::empty()),
        "sync": { "total_ios": 0, "lat_ns": latency(&LatencySummary::default(), false) },
        "job_runtime": m.elapsed_ns / 1_000_000 * u64::from(job.workers),
        "usr_cpu": figures.cpu.map_or(0.0, |run| cpu(run, |cpu| cpu.user_ns)),
        "sys_cpu": figures.cpu.map_or(0.0, |run| cpu(run, |cpu| cpu.system_ns)),
        "ctx": 0,
        "majf": 0,
        "minf": 0,
        "iodepth_level": levels(&["1", "2", "4", "8", "16", "32", ">=64"], Some(job.outstanding)),
        "iodepth_submit": levels(&["0", "4", "8", "16", "32", "64", ">=64"], None),
        "iodepth_complete": levels(&["0", "4", "8", "16", "32", "64", ">=64"], None),
        "latency_depth": job.outstanding,
        "latency_target": 0,
        "latency_percentile": 100.0,
        "latency_window": 0,
    });
    if let Value::Object(value) = &mut value {
        value.extend(classes(&[&read.latency, &write.latency]));
    }
    value
}

fn direction<'a>(
    direction: &DirectionResult,
    elapsed_ns: u64,
    seconds: impl Iterator<Item = (u64, u64, &'a Second)>,
) -> Value {
    let per_second = |count: u64| match elapsed_ns {
        0 => 0.0,
        elapsed_ns => count as f64 * 1e9 / elapsed_ns as f64,
    };
    let bytes_per_s = per_second(direction.bytes);
    let (iops, kib): (Vec<f64>, Vec<f64>) = seconds
        .map(|(accesses, bytes, _)| (accesses as f64, bytes as f64 / 1024.0))
        .unzip();
    let (iops, bandwidth) = (Samples::of(&iops), Samples::of(&kib));
    json!({
        "io_bytes": direction.bytes,
        "io_kbytes": direction.bytes / 1024,
        "bw_bytes": bytes_per_s as u64,
        "bw": (bytes_per_s / 1024.0) as u64,
        "iops": per_second(direction.accesses),
        "runtime": elapsed_ns / 1_000_000,
        "total_ios": direction.accesses,
        "short_ios": 0,
        "drop_ios": 0,
        "slat_ns": latency(&LatencySummary::default(), false),
        "clat_ns": latency(&direction.latency, true),
        "lat_ns": latency(&direction.latency, false),
        "bw_min": bandwidth.min as u64,
        "bw_max": bandwidth.max as u64,
        "bw_agg": if direction.bytes > 0 { 100.0 } else { 0.0 },
        "bw_mean": bandwidth.mean,
        "bw_dev": bandwidth.deviation,
        "bw_samples": bandwidth.count,
        "iops_min": iops.min as u64,
        "iops_max": iops.max as u64,
        "iops_mean": iops.mean,
        "iops_stddev": iops.deviation,
        "iops_samples": iops.count,
    })
}

/// Statistics of fio's samples during a run; here a sample is a second.
#[derive(Default)]
struct Samples {
    count: usize,
    min: f64,
    max: f64,
    mean: f64,
    deviation: f64,
}

impl Samples {
    fn of(values: &[f64]) -> Self {
        if values.is_empty() {
            return Self::default();
        }
        let count = values.len();
        let mean = values.iter().sum::<f64>() / count as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Self {
            count,
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            max: values.iter().copied().fold(0.0, f64::max),
            mean,
            deviation: (squares / count.saturating_sub(1).max(1) as f64).sqrt(),
        }
    }
}

fn latency(latency: &LatencySummary, with_percentiles: bool) -> Value {
    let distribution = latency.distribution.as_ref();
    let mut value = json!({
        "min": distribution.map_or(0, |distribution| distribution.min_ns),
        "max": latency.max_ns,
        "mean": latency.mean_ns,
        "stddev": distribution.map_or(0.0, |distribution| distribution.stddev_ns),
        "N": latency.count,
    });
    if let (true, Some(distribution), Value::Object(fields)) =
        (with_percentiles, distribution, &mut value)
    {
        let percentile = |percent: f64| {
            let exact = match percent {
                50.0 => distribution.p50_ns,
                90.0 => distribution.p90_ns,
                99.0 => distribution.p99_ns,
                99.9 => distribution.p99_9_ns,
                99.99 => distribution.p99_99_ns,
                _ => distribution.percentile_ns(percent).min(latency.max_ns),
            };
            (format!("{percent:.6}"), Value::from(exact))
        };
        let percentiles: Map<String, Value> = PERCENTILES.into_iter().map(percentile).collect();
        fields.insert("percentile".to_owned(), Value::Object(percentiles));
    }
    value
}

fn cpu(run: &Run, of: fn(&super::results::CpuTime) -> u64) -> f64 {
    let cpu = run.measurement.cpu.filter(|cpu| cpu.elapsed_ns > 0);
    cpu.map_or(0.0, |cpu| of(&cpu) as f64 * 100.0 / cpu.elapsed_ns as f64)
}

/// Builds the levels of a depth. All accesses were started at this depth; which of them were
/// submitted together is not known.
fn levels(names: &[&str], depth: Option<u32>) -> Value {
    let level = depth.map(|depth| (depth.max(1).ilog2() as usize).min(names.len() - 1));
    let shares = names.iter().enumerate();
    let share = |(index, name): (usize, &&str)| {
        let share = if Some(index) == level { 100.0 } else { 0.0 };
        ((*name).to_owned(), Value::from(share))
    };
    Value::Object(shares.map(share).collect())
}

/// Computes the share of accesses in each class of latency, in percent.
fn classes(latencies: &[&LatencySummary]) -> Map<String, Value> {
    let distributions = latencies.iter().filter_map(|l| l.distribution.as_ref());
    let buckets: Vec<(u64, u64)> = distributions.flat_map(|d| d.buckets.clone()).collect();
    let total: u64 = buckets.iter().map(|(_, count)| count).sum();
    let mut begin_ns = 0;
    let mut all = Map::new();
    for (unit, factor, ends) in CLASSES {
        let mut shares = Map::new();
        for end in ends {
            let end_ns = end * factor;
            let inside = buckets
                .iter()
                .filter(|(at, _)| (begin_ns..end_ns).contains(at));
            let count: u64 = inside.map(|(_, count)| count).sum();
            shares.insert(end.to_string(), share(count, total));
            begin_ns = end_ns;
        }
        all.insert(unit.to_owned(), Value::Object(shares));
    }
    let beyond = buckets
        .iter()
        .filter(|(at, _)| *at >= begin_ns)
        .map(|(_, count)| count)
        .sum();
    if let Some(Value::Object(shares)) = all.get_mut("latency_ms") {
        shares.insert(">=2000".to_owned(), share(beyond, total));
    }
    all
}

fn share(count: u64, total: u64) -> Value {
    Value::from(if total == 0 {
        0.0
    } else {
        count as f64 * 100.0 / total as f64
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::latency::Latencies;
    use crate::parameters::Parameters;
    use crate::profile;
    use crate::results::{CpuTime, FORMAT, Machine, Measurement, Target};

    fn results() -> Results {
        let mut latencies = Latencies::default();
        (1..=10_000u64).for_each(|number| latencies.record(number * 1000));
        let latency = latencies.summary();
        let second = Second {
            reads: 5000,
            read_bytes: 5000 * 4096,
            ..Second::default()
        };
        let measurement = Measurement {
            elapsed_ns: 2_000_000_000,
            workers: 1,
            outstanding: 32,
            read: DirectionResult {
                accesses: 10_000,
                bytes: 10_000 * 4096,
                errors: 0,
                latency: latency.clone(),
            },
            latency,
            series: vec![
                second,
                Second {
                    reads: 3000,
                    ..second
                },
            ],
            cpu: Some(CpuTime {
                user_ns: 100_000_000,
                system_ns: 300_000_000,
                elapsed_ns: 2_000_000_000,
            }),
            ..Measurement::default()
        };
        Results {
            format: FORMAT,
            tool: "test".into(),
            started_unix_s: 1_700_000_000,
            machine: Machine::default(),
            target: Target {
                name: "/dev/sdb".into(),
                ..Target::default()
            },
            plan: Vec::new(),
            runs: vec![Run {
                round: 0,
                settings: Default::default(),
                workload: profile::find("crystal").expect("built in").workloads[2].clone(),
                parameters: Parameters::default(),
                measurement,
                reached: None,
            }],
            failed: Vec::new(),
        }
    }

    #[test]
    fn the_fields_that_tools_read_are_there_and_true() {
        let (fio, _) = export(&results());
        let job = &fio["jobs"][0];
        assert_eq!(job["jobname"], "RND4K Q32T1 read");
        let read = &job["read"];
        assert_eq!(read["io_bytes"], 40_960_000);
        assert_eq!(read["iops"], 5000.0);
        assert_eq!(read["bw_bytes"], 20_480_000);
        assert_eq!(read["bw"], 20_000);
        assert_eq!(
            (&read["iops_min"], &read["iops_max"]),
            (&json!(3000), &json!(5000))
        );
        assert_eq!(read["clat_ns"]["mean"], 5_000_500.0);
        let p99 = read["clat_ns"]["percentile"]["99.000000"]
            .as_u64()
            .expect("a number");
        assert!((9_890_000..=9_910_000).contains(&p99), "{p99}");
        assert_eq!(
            read["clat_ns"]["percentile"]
                .as_object()
                .expect("percentiles")
                .len(),
            17
        );
        assert_eq!(
            (&job["usr_cpu"], &job["sys_cpu"]),
            (&json!(5.0), &json!(15.0))
        );
        assert_eq!(job["iodepth_level"]["32"], 100.0);
        assert_eq!(job["write"]["total_ios"], 0);
        assert_eq!(job["job options"]["rw"], "randread");
    }

    #[test]
    fn the_classes_of_latency_make_a_hundred_percent() {
        let job = &export(&results()).0["jobs"][0];
        let units = ["latency_ns", "latency_us", "latency_ms"];
        let sum: f64 = units
            .iter()
            .flat_map(|unit| job[unit].as_object().expect("classes").values())
            .map(|share| share.as_f64().expect("a share"))
            .sum();
        assert!((sum - 100.0).abs() < 1e-9, "{sum}");
        let above_4ms = job["latency_ms"]["10"].as_f64().expect("a share");
        assert!((above_4ms - 60.0).abs() < 2.5, "{above_4ms}");
    }
}
