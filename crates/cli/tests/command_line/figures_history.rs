//! Tests of `history`: figures of the past as tables, charts and JSON.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use history::{Clock, History, PoolReading, Readings};
use model::figures::{CommandSums, KindSums, Snapshot, UnitSnapshot};
use model::pool::status::PoolView;
use serde_json::Value;

use super::daemon::{Daemon, NOW_S};

const GIB: u64 = 1 << 30;

/// Records each minute up to the time at which the daemon's clock stands.
fn record(folder: &Path, reads: &[Option<u64>]) {
    record_every(1, folder, reads);
}

/// Records one of that many minutes up to the time at which the daemon's clock stands: a unit with
/// this many reads a second, and a pool that fills by 24 GiB a day.
fn record_every(minutes: u64, folder: &Path, reads: &[Option<u64>]) {
    let clock = Arc::new(AtomicU64::new(0));
    let turned = Arc::clone(&clock);
    let history = History::new(folder, Clock::of(move || turned.load(Ordering::Relaxed)));
    let mut commands = 0;
    for (minute, per_s) in reads.iter().enumerate() {
        let minute = (minute as u64 + 1) * minutes;
        clock.store(
            NOW_S - (reads.len() as u64 * minutes - minute) * 60,
            Ordering::Relaxed,
        );
        commands += per_s.unwrap_or(0) * 60;
        let sums = CommandSums {
            commands,
            bytes: commands * 4096,
            device_ns: commands * 250_000,
            ..CommandSums::default()
        };
        let unit = UnitSnapshot {
            name: "vm1".into(),
            sums: KindSums {
                reads: sums,
                ..KindSums::default()
            },
            ..UnitSnapshot::default()
        };
        let snapshot = Snapshot {
            at_us: minute * 60_000_000,
            units: per_s.map(|_| unit).into_iter().collect(),
            ..Snapshot::default()
        };
        let view = PoolView {
            name: "tank".into(),
            guid: "f00d".into(),
            size: 1000 * GIB,
            available: 900 * GIB - minute * GIB / 60,
            open_for_us: Some(minute * 60_000_000),
            ..PoolView::default()
        };
        let reading = PoolReading {
            view,
            promised: None,
        };
        history.record(&Readings {
            snapshot: Arc::new(snapshot),
            pools: Some(vec![reading]),
            host_of: &|name| name.to_owned(),
        });
    }
    assert_eq!(history.notices(), Vec::<String>::new());
}

#[test]
fn a_table_shows_each_figure_with_a_chart() {
    let daemon = Daemon::start();
    let reads = [Some(100), None, Some(0), Some(300), Some(200)];
    record(daemon.folder.path(), &reads);
    let ran = daemon.run("history unit vm1");
    assert_eq!(ran.code, 0, "{ran:?}");
    let lines: Vec<&str> = ran.out.lines().collect();
    let title = "unit vm1, 2026-09-21 08:21 UTC to 2026-09-21 14:21 UTC, in steps of a minute";
    assert_eq!(lines[0], title, "{ran:?}");
    let words =
        |line: &str| -> Vec<String> { line.split_whitespace().map(str::to_owned).collect() };
    let head = ["FIGURE", "LAST", "MIN", "MEAN", "MAX", "CHART"];
    assert_eq!(words(lines[1]), head);
    assert_eq!(
        words(lines[2])[..5],
        ["reads/s", "200.0", "100.0", "200.0", "300.0"]
    );
    assert!(lines[2].ends_with('█'), "{ran:?}");
    let device = lines.iter().find(|line| line.starts_with("device"));
    assert_eq!(words(device.unwrap())[1..5], ["0.250"; 4]);
    let write = lines.iter().find(|line| line.starts_with("write p99"));
    assert_eq!(words(write.unwrap())[2..], ["-"; 4]);
    let exact = daemon.run("history lu vm1 -H -p -o figure,max").out;
    assert!(exact.starts_with("reads/s\t300.0\n"), "{exact}");
    let exact: Vec<&str> = exact.lines().collect();
    let latency = exact.iter().find_map(|line| line.strip_prefix("read\t"));
    let latency: f64 = latency.unwrap().parse().unwrap();
    assert!((latency - 250_000.0).abs() < 250.0, "{latency}");
}

#[test]
fn json_has_times_values_and_gaps() {
    let daemon = Daemon::start();
    // The minute in which the unit comes back is not known as a whole.
    let reads = [Some(100), None, Some(0), Some(300)];
    record(daemon.folder.path(), &reads);
    let ran = daemon.run("history unit vm1 --json");
    let told: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(told["kind"], "unit");
    assert_eq!(told["span"], "6h");
    assert_eq!(told["step_s"], 60);
    assert_eq!(told["unix_s"].as_array().unwrap().len(), 360);
    assert_eq!(told["unix_s"][359], NOW_S - 60);
    let reads = &told["series"][0];
    assert_eq!(
        (&reads["name"], &reads["unit"]),
        (&"reads_per_s".into(), &"per_second".into())
    );
    let last = &reads["values"].as_array().unwrap()[356..];
    assert_eq!(last, [100.0.into(), Value::Null, Value::Null, 300.0.into()]);
    for (span, points) in [("14d", 2016), ("2y", 2920)] {
        let ran = daemon.run(&format!("history unit vm1 --span {span} --json"));
        let told: Value = serde_json::from_str(&ran.out).unwrap();
        let values = told["series"][0]["values"].as_array().unwrap();
        assert_eq!(values.len(), points, "{span}");
        // Unfinished steps show the minutes that they have so far.
        assert!(values.iter().any(Value::is_number), "{span}");
    }
}

#[test]
fn objects_are_listed_and_unknown_ones_refused() {
    let daemon = Daemon::start();
    let none = daemon.run("history disk");
    assert!(
        none.err.contains("the first minute is recorded"),
        "{none:?}"
    );
    record(daemon.folder.path(), &[Some(100), None]);
    let listed = daemon.run("history unit -H").out;
    assert_eq!(listed, "vm1\t2026-09-21 14:19 UTC\n");
    let listed = daemon.run("history pool -H -p -o name,key,last record").out;
    assert_eq!(listed, "");
    let refused = daemon.run("history unit vm2");
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(
        refused.err.contains("no history of a unit \"vm2\""),
        "{refused:?}"
    );
    assert!(
        refused.err.contains("sandstone history unit"),
        "{refused:?}"
    );
    for line in ["history volume", "history unit vm1 --span 3d"] {
        assert_eq!(daemon.run(line).code, 2, "{line}");
    }
}

#[test]
fn a_pool_tells_when_it_is_full() {
    let daemon = Daemon::start();
    record_every(10, daemon.folder.path(), &[Some(1); 290]);
    let ran = daemon.run("history pool tank --span 14d");
    assert_eq!(ran.code, 0, "{ran:?}");
    let title = ran.out.lines().next().unwrap();
    assert!(title.contains("pool tank, "), "{title}");
    let expected = "in steps of 10 minutes; full in 35 days";
    assert!(title.ends_with(expected), "{title}");
    let available = ran.out.lines().find(|line| line.starts_with("available"));
    assert!(available.unwrap().contains("852G"), "{ran:?}");
}
