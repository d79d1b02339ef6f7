//! Results as fio prints them with `--output-format=json`, for the tools that read that: one job per run.
//!
//! Only what was measured has a value other than zero; what fio calls submission latency is part of the
//! completion latency here, because a lane submits in batches.

use serde_json::{Map, Value, json};

use super::measure::latency::LatencySummary;
use super::measure::window::Second;
use super::results::{DirectionResult, Results, Run};

/// The version of fio whose format this is.
const FIO: &str = "fio-3.33";

/// The percentiles that fio prints unless told otherwise.
const PERCENTILES: [f64; 17] = [
    1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95,
    99.99,
];

/// Where the classes of latency end that fio gives shares of, in nanoseconds, for each of its three units.
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

/// All runs as one output of fio.
pub fn export(results: &Results) -> Value {
    json!({
        "fio version": FIO,
        "timestamp": results.started_unix_s,
        "timestamp_ms": results.started_unix_s * 1000,
        "time": "",
        "global options": { "filename": results.target.name },
        "jobs": results.runs.iter().enumerate().map(|(index, run)| job(index, run, results)).collect::<Vec<_>>(),
    })
}

fn job(index: usize, run: &Run, results: &Results) -> Value {
    let m = &run.measurement;
    let mut job = json!({
        "jobname": run.workload.name,
        "groupid": index,
        "job_start": results.started_unix_s * 1000,
        "error": 0,
        "eta": 0,
        "elapsed": m.elapsed_ns.div_ceil(1_000_000_000),
        "job options": options(run),
        "read": direction(&m.read, m.elapsed_ns, m.series.iter().map(|s| (s.reads, s.read_bytes, s))),
        "write": direction(&m.write, m.elapsed_ns, m.series.iter().map(|s| (s.writes, s.written_bytes, s))),
        "trim": direction(&DirectionResult::default(), m.elapsed_ns, std::iter::empty()),
        "sync": { "total_ios": 0, "lat_ns": latency(&LatencySummary::default(), false) },
        "job_runtime": m.elapsed_ns / 1_000_000 * u64::from(m.workers),
        "usr_cpu": cpu(run, |cpu| cpu.user_ns),
        "sys_cpu": cpu(run, |cpu| cpu.system_ns),
        "ctx": 0,
        "majf": 0,
        "minf": 0,
        "iodepth_level": depths(m.outstanding / m.workers.max(1)),
        "latency_depth": run.parameters.outstanding,
        "latency_target": 0,
        "latency_percentile": 100.0,
        "latency_window": 0,
    });
    if let Value::Object(job) = &mut job {
        job.extend(classes(&m.latency));
    }
    job
}

fn options(run: &Run) -> Value {
    let lines = run
        .workload
        .streams
        .iter()
        .flat_map(|stream| &stream.specification.lines);
    let sizes: Vec<String> = lines.map(|line| line.size.to_string()).collect();
    let line = run
        .workload
        .streams
        .first()
        .and_then(|stream| stream.specification.lines.first());
    let (reads, random) = line.map_or((100, 0), |line| (line.reads_percent, line.random_percent));
    let rw = match (reads, random > 0) {
        (100, false) => "read",
        (100, true) => "randread",
        (0, false) => "write",
        (0, true) => "randwrite",
        (_, false) => "rw",
        (_, true) => "randrw",
    };
    json!({
        "name": run.workload.name,
        "rw": rw,
        "rwmixread": reads.to_string(),
        "bs": sizes.join(","),
        "iodepth": run.parameters.outstanding.to_string(),
        "numjobs": run.measurement.workers.to_string(),
        "runtime": (run.parameters.run_time_ms / 1000).to_string(),
        "ramp_time": (run.parameters.ramp_up_ms / 1000).to_string(),
    })
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

/// What fio says of samples that it takes while running; ours are the seconds.
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

/// All accesses were started at this depth.
fn depths(depth: u32) -> Value {
    let levels = ["1", "2", "4", "8", "16", "32", ">=64"];
    let level = (depth.max(1).ilog2() as usize).min(levels.len() - 1);
    let shares = levels.iter().enumerate();
    let share = |(index, name): (usize, &&str)| {
        (
            (*name).to_owned(),
            Value::from(if index == level { 100.0 } else { 0.0 }),
        )
    };
    Value::Object(shares.map(share).collect())
}

/// The share of accesses in each class of latency, in percent.
fn classes(latency: &LatencySummary) -> Map<String, Value> {
    let buckets = latency
        .distribution
        .as_ref()
        .map_or(&[][..], |distribution| &distribution.buckets);
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
    use crate::bench::measure::latency::Latencies;
    use crate::bench::parameters::Parameters;
    use crate::bench::profile;
    use crate::bench::results::{CpuTime, FORMAT, Machine, Measurement, Target};

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
        let fio = export(&results());
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
        let job = &export(&results())["jobs"][0];
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
