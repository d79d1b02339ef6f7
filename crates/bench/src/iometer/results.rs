//! IOmeter's results: a text file of comma-separated values, with headers that begin with an
//! apostrophe.
//!
//! The writer follows version 1.1.0 with only the whole of each test recorded, because scripts that
//! parse these files read this part. [`::iometer::results`] reads the files.

use std::fmt::Write as _;

use crate::measure::latency::{Distribution, LatencySummary};
use crate::parameters::Parameters;
use crate::results::{DirectionResult, FORMAT, Machine, Measurement, Results, Run, Target};
use crate::workload::{Stream, Workload};
use ::iometer::read::ReadError;
use ::iometer::results::{Direction, Test};

/// Columns of version 1.1.0.
const COLUMNS: &str = "'Target Type,Target Name,Access Specification Name,# Managers,# Workers,# Disks,\
IOps,Read IOps,Write IOps,MiBps (Binary),Read MiBps (Binary),Write MiBps (Binary),\
MBps (Decimal),Read MBps (Decimal),Write MBps (Decimal),Transactions per Second,Connections per Second,\
Average Response Time,Average Read Response Time,Average Write Response Time,Average Transaction Time,\
Average Connection Time,Maximum Response Time,Maximum Read Response Time,Maximum Write Response Time,\
Maximum Transaction Time,Maximum Connection Time,Errors,Read Errors,Write Errors,Bytes Read,Bytes Written,\
Read I/Os,Write I/Os,Connections,Transactions per Connection,Total Raw Read Response Time,\
Total Raw Write Response Time,Total Raw Transaction Time,Total Raw Connection Time,\
Maximum Raw Read Response Time,Maximum Raw Write Response Time,Maximum Raw Transaction Time,\
Maximum Raw Connection Time,Total Raw Run Time,Starting Sector,Maximum Size,Queue Depth,% CPU Utilization,\
% User Time,% Privileged Time,% DPC Time,% Interrupt Time,Processor Speed,Interrupts per Second,\
CPU Effectiveness,Packets/Second,Packet Errors,Segments Retransmitted/Second,0 to 50 uS,50 to 100 uS,\
100 to 200 uS,200 to 500 uS,0.5 to 1 mS,1 to 2 mS,2 to 5 mS,5 to 10 mS,10 to 15 mS,15 to 20 mS,20 to 30 mS,\
30 to 50 mS,50 to 100 mS,100 to 200 mS,200 to 500 mS,0.5 to 1 S,1 to 2 s,2 to 4.7 s,4.7 to 5 s,5 to 10 s, >= 10 s";

/// Upper ends of the latency classes, in microseconds; the last class has no end.
const CLASSES_US: [u64; 20] = [
    50, 100, 200, 500, 1000, 2000, 5000, 10_000, 15_000, 20_000, 30_000, 50_000, 100_000, 200_000,
    500_000, 1_000_000, 2_000_000, 4_700_000, 5_000_000, 10_000_000,
];

/// Writes results as IOmeter 1.1.0 does.
pub fn write(results: &Results) -> String {
    let mut text = String::new();
    for run in &results.runs {
        // Writing to a string cannot fail.
        let _ = write_run(&mut text, run, results.started_unix_s);
    }
    text
}

fn write_run(text: &mut String, run: &Run, started_unix_s: u64) -> std::fmt::Result {
    let time = timestamp(started_unix_s);
    let name = run.workload.name.replace(',', ";");
    writeln!(
        text,
        "'Test Type,Test Description\n0,{name}\n'Version\n1.1.0 \n'Time Stamp\n{time}"
    )?;
    writeln!(text, "'Access specifications")?;
    for stream in &run.workload.streams {
        let specification = &stream.specification;
        writeln!(text, "'Access specification name,default assignment")?;
        writeln!(
            text,
            "{},{}",
            specification.name.replace(',', ";"),
            specification.assignment as u8
        )?;
        writeln!(
            text,
            "'size,% of size,% reads,% random,delay,burst,align,reply"
        )?;
        for line in &specification.lines {
            writeln!(
                text,
                "{},{},{},{},{},{},{},{},",
                line.size,
                line.of_size_percent,
                line.reads_percent,
                line.random_percent,
                line.delay_ms,
                line.burst,
                line.align,
                line.reply
            )?;
        }
    }
    writeln!(text, "'End access specifications\n'Results\n{COLUMNS}")?;
    writeln!(text, "{}\n'Time Stamp\n{time}", row(&name, run))
}

/// Returns the values of a run in the order of the columns.
fn row(name: &str, run: &Run) -> String {
    let Measurement {
        read,
        write,
        latency,
        ..
    } = &run.measurement;
    let m = &run.measurement;
    let mut values = vec![
        "ALL".to_owned(),
        "All".to_owned(),
        name.to_owned(),
        "1".to_owned(),
    ];
    values.extend([m.workers.to_string(), "1".to_owned()]);
    let mut decimals =
        |numbers: &[f64]| values.extend(numbers.iter().map(|number| format!("{number:.6}")));
    decimals(&[m.iops(), m.read_iops(), m.write_iops()]);
    let rates = [m.bytes_per_s(), m.read_bytes_per_s(), m.write_bytes_per_s()];
    decimals(&rates.map(|rate| rate / f64::from(1 << 20)));
    decimals(&rates.map(|rate| rate / 1e6));
    // On a disk each access is a transaction, and there are no connections.
    decimals(&[m.iops(), 0.0]);
    let means = [latency, &read.latency, &write.latency].map(|latency| latency.mean_ns / 1e6);
    decimals(&means);
    decimals(&[means[0], 0.0]);
    let greatest =
        [latency, &read.latency, &write.latency].map(|latency| latency.max_ns as f64 / 1e6);
    decimals(&greatest);
    decimals(&[greatest[0], 0.0]);
    let counts = [
        m.errors(),
        read.errors,
        write.errors,
        read.bytes,
        write.bytes,
        read.accesses,
        write.accesses,
        0,
    ];
    values.extend(counts.map(|count| count.to_string()));
    // For the whole of a test IOmeter writes -2 as transactions per connection, and no raw times.
    values.push("-2".to_owned());
    values.extend((0..9).map(|_| String::new()));
    let parameters = &run.parameters;
    let sectors = [
        parameters.start / 512,
        parameters.working_set.unwrap_or(0) / 512,
    ];
    values.extend(sectors.map(|count| count.to_string()));
    values.push((m.outstanding / m.workers.max(1)).to_string());
    let cpu = m.cpu.filter(|cpu| cpu.elapsed_ns > 0).unwrap_or_default();
    let share = |ns: u64| match cpu.elapsed_ns {
        0 => 0.0,
        elapsed_ns => ns as f64 * 100.0 / elapsed_ns as f64,
    };
    let (user, system) = (share(cpu.user_ns), share(cpu.system_ns));
    let effectiveness = if user + system > 0.0 {
        m.iops() / (user + system)
    } else {
        0.0
    };
    let decimal = |number: f64| format!("{number:.6}");
    values.extend([user + system, user, system, 0.0, 0.0].map(decimal));
    values.push(String::new());
    values.extend([0.0, effectiveness, 0.0, 0.0, 0.0].map(decimal));
    values.extend(classes(latency).map(|count| count.to_string()));
    values.join(",")
}

/// Counts the accesses in each class of latency.
fn classes(latency: &LatencySummary) -> [u64; 21] {
    let mut classes = [0; 21];
    let buckets = latency
        .distribution
        .iter()
        .flat_map(|Distribution { buckets, .. }| buckets);
    for (end_ns, count) in buckets {
        let class = CLASSES_US.partition_point(|class_end_us| end_ns / 1000 >= *class_end_us);
        classes[class] += count;
    }
    classes
}

/// Formats a time as IOmeter does, in UTC.
fn timestamp(unix_s: u64) -> String {
    let (days, second) = ((unix_s / 86_400) as i64, unix_s % 86_400);
    // The civil date follows from the days since 1970, counted in years that begin in March.
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}:000")
}

/// Reads a file of results: one run for each test whose whole was recorded. Also returns notes on
/// values that are missing.
///
/// # Errors
/// The text is no such file, or a value is malformed. The error names the line and the reason.
pub fn read(text: &str, name: &str) -> Result<(Results, Vec<String>), ReadError> {
    let file = ::iometer::results::read(text)?;
    let mut runs: Vec<Run> = Vec::new();
    for test in file.tests {
        let run = run(test);
        let same = |other: &&Run| other.workload.name == run.workload.name;
        let round = runs.iter().filter(same).count() as u32;
        runs.push(Run { round, ..run });
    }
    let results = Results {
        format: FORMAT,
        tool: format!("IOmeter {}", file.version.trim()),
        started_unix_s: 0,
        machine: Machine::default(),
        target: Target {
            name: name.to_owned(),
            ..Target::default()
        },
        plan: Vec::new(),
        runs,
        failed: Vec::new(),
    };
    let notes = file.notes.iter().map(|note| format!("{name}, {note}"));
    Ok((results, notes.collect()))
}

fn run(test: Test) -> Run {
    let (read, write) = (direction(&test.read), direction(&test.write));
    let accesses = read.accesses + write.accesses;
    let elapsed_ns = if test.iops > 0.0 {
        accesses as f64 * 1e9 / test.iops
    } else {
        0.0
    };
    // IOmeter's queue depth applies to each target.
    let depth = test.queue_depth.unwrap_or(1);
    let outstanding = depth.saturating_mul(test.workers.max(test.disks));
    let measurement = Measurement {
        elapsed_ns: elapsed_ns as u64,
        workers: test.workers,
        outstanding,
        latency: latency(accesses, test.mean_ms, test.max_ms),
        read,
        write,
        ..Measurement::default()
    };
    let name = match test.name.as_str() {
        "" => "unnamed",
        name => name,
    };
    Run {
        round: 0,
        settings: Default::default(),
        workload: Workload {
            name: name.to_owned(),
            streams: test.specifications.into_iter().map(Stream::new).collect(),
            data: None,
            amount: None,
        },
        parameters: Parameters {
            run_time_ms: (elapsed_ns / 1e6) as u64,
            ramp_up_ms: 0,
            outstanding: outstanding / test.workers.max(1),
            workers: test.workers,
            ..Parameters::default()
        },
        measurement,
        reached: None,
    }
}

fn direction(direction: &Direction) -> DirectionResult {
    let accesses = direction.accesses as u64;
    DirectionResult {
        accesses,
        bytes: direction.bytes as u64,
        errors: direction.errors as u64,
        latency: latency(accesses, direction.mean_ms, direction.max_ms),
    }
}

fn latency(count: u64, mean_ms: f64, max_ms: f64) -> LatencySummary {
    LatencySummary {
        count,
        mean_ns: mean_ms * 1e6,
        max_ns: (max_ms * 1e6) as u64,
        distribution: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::latency::Latencies;
    use crate::profile;

    fn results() -> Results {
        let mut latencies = Latencies::default();
        (1..=1000u64).for_each(|number| latencies.record(number * 20_000));
        let direction = DirectionResult {
            accesses: 1000,
            bytes: 8_192_000,
            errors: 2,
            latency: latencies.summary(),
        };
        let measurement = Measurement {
            elapsed_ns: 2_000_000_000,
            workers: 2,
            outstanding: 32,
            latency: latencies.summary(),
            read: direction,
            ..Measurement::default()
        };
        let run = Run {
            round: 0,
            settings: Default::default(),
            workload: profile::find("vmktree").expect("built in").workloads[3].clone(),
            parameters: Parameters::default(),
            measurement,
            reached: None,
        };
        Results {
            format: FORMAT,
            tool: "test".into(),
            started_unix_s: 1_387_722_843,
            machine: Machine::default(),
            target: Target::default(),
            plan: Vec::new(),
            runs: vec![run],
            failed: Vec::new(),
        }
    }

    #[test]
    fn there_are_eighty_columns_and_as_many_values() {
        let text = write(&results());
        assert_eq!(COLUMNS.split(',').count(), 80);
        let row = text
            .lines()
            .find(|line| line.starts_with("ALL,"))
            .expect("a row");
        assert_eq!(row.split(',').count(), 80);
        let value = |name: &str| {
            let index = COLUMNS
                .split(',')
                .position(|column| column == name)
                .expect(name);
            row.split(',').nth(index).expect(name).to_owned()
        };
        assert_eq!(value("IOps"), "500.000000");
        assert_eq!(value("MBps (Decimal)"), "4.096000");
        assert_eq!(value("MiBps (Binary)"), "3.906250");
        assert_eq!(value("Maximum Response Time"), "20.000000");
        assert_eq!(value("Read Errors"), "2");
        assert_eq!(value("Queue Depth"), "16");
        assert_eq!(value("0 to 50 uS"), "2");
        let classes: u64 = row
            .split(',')
            .skip(59)
            .map(|count| count.parse::<u64>().expect("a count"))
            .sum();
        assert_eq!(classes, 1000);
        assert!(text.contains("2013-12-22 14:34:03:000"));
    }

    #[test]
    fn what_was_written_is_read_again() {
        let (read, _) = read(&write(&results()), "x").expect("we wrote it");
        let (run, expected) = (&read.runs[0], &results().runs[0]);
        assert_eq!(run.workload.name, "Random-8k-70%Read");
        assert_eq!(run.workload.streams, expected.workload.streams);
        assert_eq!(run.measurement.elapsed_ns, 2_000_000_000);
        assert_eq!(run.measurement.read.bytes, 8_192_000);
        assert_eq!(
            run.measurement.latency.mean_ns,
            expected.measurement.latency.mean_ns
        );
        assert_eq!(
            run.measurement.latency.distribution, None,
            "IOmeter does not tell"
        );
        assert_eq!(read.tool, "IOmeter 1.1.0");
    }

    #[test]
    fn columns_are_found_by_name_wherever_they_stand() {
        let text = "'Version\r\n2006.07.27\r\n'Results\r\n'Target Type,Write I/Os,Read I/Os,Bytes Written,Bytes Read,\
                    IOps,MBps,Access Specification Name,Average Response Time\r\nALL,0,500,0,4096000,50.0,0.2,some,1.5\r\n\
                    MANAGER,0,500,0,4096000,50.0,0.2,some,1.5\r\n'Time Stamp\r\n2013-01-01 00:00:00:000\r\n";
        let (results, _) = read(text, "old.csv").expect("a good file");
        assert_eq!(results.runs.len(), 1);
        let run = &results.runs[0];
        assert_eq!(
            (run.measurement.elapsed_ns, run.measurement.read.bytes),
            (10_000_000_000, 4_096_000)
        );
        assert_eq!(run.measurement.latency.mean_ns, 1_500_000.0);
        assert_eq!(results.tool, "IOmeter 2006.07.27");
    }

    #[test]
    fn what_is_no_result_is_refused_with_its_line() {
        let error = read("hello\nworld\n", "x").expect_err("nothing");
        assert!(
            error.line == 2 && error.reason.contains("no row"),
            "{error}"
        );
        let error = read("'Target Type,IOps\nALL,12\n", "x").expect_err("columns are missing");
        assert_eq!(
            error.to_string(),
            "line 2: there is no column \"Read I/Os\""
        );
        let row = "'Target Type,Read I/Os,Bytes Read\nALL,many,1\n";
        let error = read(row, "x").expect_err("no number");
        assert_eq!(
            error.to_string(),
            "line 2: column \"Read I/Os\" holds \"many\", which is not a number"
        );
        assert!(read("'Target Type,Read I/Os\nALL,NaN\n", "x").is_err());
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        assert_eq!(timestamp(0), "1970-01-01 00:00:00:000");
        assert_eq!(timestamp(951_826_153), "2000-02-29 12:09:13:000");
        assert_eq!(timestamp(1_798_761_599), "2026-12-31 23:59:59:000");
    }
}
