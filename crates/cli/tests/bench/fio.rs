//! Tests of the exports for fio, with fio itself: it takes each job's options, and gives them our
//! meaning.

use std::path::Path;
use std::process::Command;

use bench::fio::export;
use bench::parameters::{Pace, Parameters};
use bench::profile::built_in;
use bench::results::{FORMAT, Machine, Measurement, Results, Run, StreamResult, Target};
use bench::workload::{Stream, Workload};
use iometer::access::{AccessLine, AccessSpecification, Assignment};
use serde_json::{Map, Value};

use testing::skipped::skipped;

fn line(size: u32, share: u8, reads: u8, random: u8) -> AccessLine {
    AccessLine::all(size, reads, random).share(share)
}

fn mixture(name: &str, lines: Vec<AccessLine>) -> Workload {
    Workload::single(Stream::new(AccessSpecification {
        name: name.into(),
        assignment: Assignment::None,
        lines,
    }))
}

/// Returns mixtures whose directions have different sizes, whose shares are no whole percents, and
/// which have many sizes.
fn mixtures() -> Vec<Workload> {
    let sizes = (1..=100).map(|n| line(n * 512, 1, 50, 100)).collect();
    vec![
        mixture(
            "apart",
            vec![line(4096, 50, 100, 100), line(65536, 50, 0, 0)],
        ),
        mixture(
            "thirds",
            vec![
                line(512, 33, 33, 7),
                line(1024, 33, 67, 7),
                line(2048, 34, 50, 7),
            ],
        ),
        mixture(
            "rare",
            vec![
                line(4096, 99, 1, 50),
                line(8192, 1, 99, 50),
                line(512, 0, 50, 50),
            ],
        ),
        mixture(
            "writes",
            vec![line(8192, 60, 0, 0), line(131_072, 40, 0, 0)],
        ),
        mixture("hundred", sizes),
        mixture(
            "pausing",
            vec![AccessLine {
                delay_ms: 20,
                burst: 8,
                ..line(4096, 100, 70, 100)
            }],
        ),
    ]
}

fn results(workloads: Vec<Workload>, parameters: &Parameters) -> Results {
    let run = |workload: Workload| {
        let streams = workload.streams.iter().map(|stream| StreamResult {
            name: stream.specification.name.clone(),
            read: Default::default(),
            write: Default::default(),
        });
        let first = &workload.streams[0];
        let workers = first.workers.unwrap_or(parameters.workers);
        Run {
            round: 0,
            settings: Default::default(),
            parameters: parameters.clone(),
            reached: None,
            measurement: Measurement {
                workers,
                outstanding: workers * first.outstanding.unwrap_or(parameters.outstanding),
                streams: if workload.streams.len() > 1 {
                    streams.collect()
                } else {
                    Vec::new()
                },
                ..Measurement::default()
            },
            workload,
        }
    };
    Results {
        format: FORMAT,
        tool: "test".into(),
        started_unix_s: 0,
        machine: Machine::default(),
        target: Target {
            name: "memory:1G".into(),
            len: 1 << 30,
            ..Target::default()
        },
        plan: Vec::new(),
        runs: workloads.into_iter().map(run).collect(),
        failed: Vec::new(),
    }
}

fn all() -> Vec<Results> {
    let workloads = || {
        let built_in = built_in().into_iter().flat_map(|profile| profile.workloads);
        built_in.chain(mixtures()).collect::<Vec<_>>()
    };
    let other = Parameters {
        run_time_ms: 1500,
        ramp_up_ms: 0,
        workers: 3,
        working_set: Some(96 << 20),
        start: 1 << 20,
        pace: Pace::Limited(1000.0),
        ..Parameters::default()
    };
    let amount = Parameters {
        amount: Some(1 << 20),
        ..Parameters::default()
    };
    [Parameters::default(), other, amount]
        .iter()
        .map(|parameters| results(workloads(), parameters))
        .collect()
}

fn section(name: usize, options: &Map<String, Value>, without: &[&str]) -> String {
    let options = options
        .iter()
        .filter(|(key, _)| !without.contains(&key.as_str()));
    let lines = options.map(|(key, value)| format!("{key}={}\n", value.as_str().unwrap()));
    format!("[{name}]\n{}", lines.collect::<String>())
}

/// Returns fio's output about a job file, or `None` if fio is not installed.
fn fio(folder: &Path, file: &str, arguments: &[&str]) -> Option<(bool, String)> {
    let path = folder.join("jobs.fio");
    std::fs::write(&path, file).unwrap();
    match Command::new("fio").args(arguments).arg(&path).output() {
        Err(error) => {
            skipped(&format!(
                "fio cannot be run ({error}); cargo xtask test installs it"
            ));
            None
        }
        Ok(output) => {
            let said = [output.stdout, output.stderr].concat();
            let said = String::from_utf8_lossy(&said).into_owned();
            Some((output.status.success(), said))
        }
    }
}

#[test]
fn fio_takes_the_options_of_every_exported_job() {
    let folder = tempfile::tempdir().unwrap();
    for results in all() {
        let (exported, _) = export(&results);
        let filename = exported["global options"]["filename"].as_str().unwrap();
        let jobs = exported["jobs"].as_array().unwrap();
        assert!(
            jobs.len() > results.runs.len(),
            "several streams are several jobs"
        );
        let sections = jobs
            .iter()
            .enumerate()
            .map(|(index, job)| section(index, job["job options"].as_object().unwrap(), &[]));
        let file = format!(
            "[global]\nfilename={filename}\n{}",
            sections.collect::<String>()
        );
        let Some((success, said)) = fio(folder.path(), &file, &["--parse-only"]) else {
            return;
        };
        let complaints = said.lines().filter(|line| !line.contains("randommap"));
        let complaints: Vec<&str> = complaints.collect();
        assert!(success && complaints.is_empty(), "{complaints:#?}\n{file}");
    }
}

/// Returns the means of a specification's accesses: the share of reads, and the bytes of a read and
/// of a write.
fn means(lines: &[AccessLine]) -> [f64; 3] {
    let mut sums = [0.0; 4];
    for line in lines {
        let share = f64::from(line.of_size_percent);
        let reads = share * f64::from(line.reads_percent) / 100.0;
        let size = f64::from(line.size);
        for (sum, more) in
            sums.iter_mut()
                .zip([reads, reads * size, share - reads, (share - reads) * size])
        {
            *sum += more;
        }
    }
    let [reads, read, writes, written] = sums;
    [
        reads * 100.0 / (reads + writes),
        read / reads.max(1e-9),
        written / writes.max(1e-9),
    ]
}

#[test]
fn fio_makes_the_mixture_of_sizes_and_directions_that_was_measured() {
    let folder = tempfile::tempdir().unwrap();
    let file_server = built_in()
        .into_iter()
        .find(|p| p.name == "fileserver")
        .unwrap();
    for workload in mixtures()
        .into_iter()
        .chain(file_server.workloads)
        .filter(|w| w.name != "pausing")
    {
        let expected = means(&workload.streams[0].specification.lines);
        let name = workload.name.clone();
        let (exported, _) = export(&results(vec![workload], &Parameters::default()));
        let options = exported["jobs"][0]["job options"].as_object().unwrap();
        let without = [
            "runtime",
            "ramp_time",
            "time_based",
            "numjobs",
            "size",
            "offset",
        ];
        let more = "ioengine=null\nthread=1\nsize=1g\nnumber_ios=20000\n";
        let file = section(0, options, &without) + more;
        let Some((success, said)) = fio(folder.path(), &file, &["--output-format=json"]) else {
            return;
        };
        assert!(success, "{said}\n{file}");
        let measured: Value = serde_json::from_str(&said[said.find('{').unwrap()..]).unwrap();
        let job = &measured["jobs"][0];
        let number = |way: &str, what: &str| job[way][what].as_f64().unwrap();
        let (reads, writes) = (number("read", "total_ios"), number("write", "total_ios"));
        let share = reads * 100.0 / (reads + writes);
        assert!(
            (share - expected[0]).abs() < 2.0,
            "{name}: {share} % read, {expected:?}"
        );
        for (way, count, expected) in [("read", reads, expected[1]), ("write", writes, expected[2])]
        {
            let mean = number(way, "io_bytes") / count.max(1.0);
            // Whole percents are at most half a percent of all sizes away, and sizes scatter.
            let tolerance = 0.08 * expected + if count < 500.0 { 0.2 * expected } else { 0.0 };
            assert!(
                (mean - expected).abs() <= tolerance,
                "{name}: {mean} of {expected} bytes a {way}\n{file}"
            );
        }
    }
}

#[test]
fn the_export_has_each_field_of_fio() {
    let folder = tempfile::tempdir().unwrap();
    let file = "[x]\nioengine=null\nthread=1\nsize=1m\nrw=rw\nbs=4k\n";
    let Some((_, said)) = fio(folder.path(), file, &["--output-format=json"]) else {
        return;
    };
    let theirs: Value = serde_json::from_str(&said[said.find('{').unwrap()..]).unwrap();
    let (ours, _) = export(&results(mixtures(), &Parameters::default()));
    lacks_nothing(&theirs, &ours, "");
}

fn lacks_nothing(theirs: &Value, ours: &Value, place: &str) {
    match (theirs, ours) {
        (Value::Object(theirs), Value::Object(ours)) => {
            for (key, value) in theirs {
                // Options come from the job, and percentiles only exist for accesses that took
                // place.
                if place.ends_with("options") || key == "percentile" {
                    continue;
                }
                let own = ours
                    .get(key)
                    .unwrap_or_else(|| panic!("{place}/{key} is missing"));
                lacks_nothing(value, own, &format!("{place}/{key}"));
            }
        }
        (Value::Array(theirs), Value::Array(ours)) => lacks_nothing(&theirs[0], &ours[0], place),
        (theirs, ours) => {
            let same = std::mem::discriminant(theirs) == std::mem::discriminant(ours);
            assert!(same, "{place}: {theirs} and {ours}");
        }
    }
}
