//! Figures of data that was just written or received are shown at once, and equally by every view.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use crate::pools::devices::{serve, write_all};
use crate::process::Process;
use crate::volumes::stream::{pipe, source};
use testing::exposition::{Family, Format, parse};
use testing::wait;

/// Bytes that a piece of `write_all` takes.
const PIECE: u64 = 512 * 512;

/// Returns the text of `/metrics`.
pub(crate) fn metrics(process: &Process) -> String {
    let mut socket = UnixStream::connect(process.folder().join("control.sock")).unwrap();
    let request = "GET /metrics HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n";
    socket.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    body.to_owned()
}

/// Returns the value of a sample, by its name and labels.
pub(crate) fn sample(metrics: &str, name: &str) -> f64 {
    let mut lines = metrics.lines();
    let line = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let line = line.unwrap_or_else(|| panic!("no {name} in {metrics}"));
    line.parse().unwrap()
}

fn number(process: &Process, line: &str) -> u64 {
    let told = process.done(line);
    told.trim_end()
        .parse()
        .unwrap_or_else(|_| panic!("{line}: {told}"))
}

#[test]
fn what_was_just_written_is_told_at_once_by_all_that_tell_it() {
    let process = Process::start();
    process.done("pool create --size 512M tank mirror a b");
    let portal = serve(&process, "64M");
    write_all(portal, 0..8);
    let expected = 8 * PIECE;
    for line in [
        "volume list -H -p -o used tank/vm1",
        "volume list -H -p -o refer tank/vm1",
        "volume get -H -p -o value written tank/vm1",
        "volume get -H -p -o value logicalused tank/vm1",
        "volume list -H -p -o used tank",
        "lu list -H -p -o used vm1",
    ] {
        assert_eq!(number(&process, line), expected, "{line}");
    }
    let told = metrics(&process);
    let allocated = sample(&told, "sandstone_lu_allocated_bytes{lu=\"vm1\"}");
    assert_eq!(allocated, expected as f64);

    // An overwrite takes no more space. After a snapshot, the snapshot keeps the overwritten data.
    write_all(portal, 0..4);
    let refer = "volume list -H -p -o refer tank/vm1";
    assert_eq!(number(&process, refer), expected);
    process.done("volume snapshot tank/vm1@one");
    write_all(portal, 4..6);
    assert_eq!(number(&process, refer), expected);
    let of_snapshot = number(&process, "volume list -H -p -o used tank/vm1@one");
    assert_eq!(of_snapshot, 2 * PIECE);
}

/// The figures of commands are a snapshot, at most a second old, that all views share.
#[test]
fn commands_are_told_by_iostat_and_metrics_alike() {
    let process = Process::start();
    process.done("pool create --size 512M tank mirror a b");
    let portal = serve(&process, "64M");
    write_all(portal, 0..8);
    let written = number(&process, "lu list -H -p -o writes vm1") as f64;
    let writes = "sandstone_lu_command_duration_seconds_count{lu=\"vm1\",op=\"write\"}";
    let look = || metrics(&process);
    let told = wait::until_seen("the snapshot comes", look, |told| {
        // A new unit is in no snapshot yet.
        told.contains(writes) && sample(told, writes) >= written
    });
    let commands = sample(&told, writes);
    assert!(commands >= 8.0, "{commands}");
    assert_eq!(commands, written);
    let total = "sandstone_lu_commands_total{lu=\"vm1\",op=\"write\"}";
    assert_eq!(sample(&told, total), written);
    let seconds = |stage| {
        let labels = format!("lu=\"vm1\",op=\"write\",stage=\"{stage}\"");
        sample(
            &told,
            &format!("sandstone_lu_stage_seconds_total{{{labels}}}"),
        )
    };
    let stages: f64 = ["wire_in", "queue", "device", "reply"]
        .map(seconds)
        .iter()
        .sum();
    let sum = "sandstone_lu_command_duration_seconds_sum{lu=\"vm1\",op=\"write\"}";
    let sum = sample(&told, sum);
    assert!((stages - sum).abs() < 1e-6, "{stages} and {sum}");
    let groups = told.lines().filter(|line| {
        line.starts_with("sandstone_port_group_commands_total") && line.contains("\"write\"")
    });
    let at_groups: f64 = groups
        .map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap())
        .sum();
    assert_eq!(at_groups, commands);
    // Nothing has come since: the figures from the start of the daemon hold in each view.
    let json: serde_json::Value = serde_json::from_str(&process.done("iostat vm1 --json")).unwrap();
    let unit = &json[0];
    let interval = unit["interval_s"].as_f64().unwrap();
    let told_by_iostat = unit["writes"]["per_s"].as_f64().unwrap() * interval;
    assert!((told_by_iostat - commands).abs() < 1e-3, "{unit}");
    let bytes = unit["writes"]["bytes_per_s"].as_f64().unwrap() * interval;
    assert!((bytes - (8 * PIECE) as f64).abs() < 1.0, "{unit}");
    assert!(process.refused("iostat vm2").contains("no lu vm2"));
    assert!(process.refused("iostat 0.5").contains("too short"));
}

/// Returns the values of all counters of the unit vm1, by series.
fn counters_of_unit(process: &Process) -> BTreeMap<String, f64> {
    let families = parse(&metrics(process), Format::Text);
    let grows = |family: &&Family| matches!(&*family.kind, "counter" | "histogram");
    let samples = families.values().filter(grows).flat_map(|of| &of.samples);
    samples
        .filter(|(_, labels, _)| labels.get("lu").is_some_and(|unit| unit == "vm1"))
        .map(|(name, labels, value)| (format!("{name}{labels:?}"), *value))
        .collect()
}

#[test]
fn counters_of_a_unit_never_go_back_when_it_is_opened_anew() {
    let process = Process::start();
    process.done("pool create --size 512M tank a");
    let portal = serve(&process, "64M");
    process.done("volume create -s -V 64M tank/other");
    let writes = |counters: &BTreeMap<String, f64>| {
        let series = "sandstone_lu_commands_total{\"lu\": \"vm1\", \"op\": \"write\"}";
        counters.get(series).copied().unwrap_or_default()
    };
    let mut before = counters_of_unit(&process);
    for volume in ["tank/other", "tank/vm1", "tank/other"] {
        write_all(portal, 0..4);
        let at_least = writes(&before) + 4.0;
        let look = || {
            let now = counters_of_unit(&process);
            for (series, value) in &before {
                assert!(
                    now[series] >= *value,
                    "{series}: {value} to {}",
                    now[series]
                );
            }
            before.clone_from(&now);
            now
        };
        wait::until_seen("the snapshot comes", look, |now| writes(now) >= at_least);
        process.done(&format!("lu modify vm1 --volume {volume}"));
    }
}

#[test]
fn a_replica_tells_what_it_takes_as_soon_as_it_is_received() {
    let (from, to) = (source(), Process::start());
    to.done("pool create --size 256M tank a");
    pipe(
        &from,
        "volume send -R tank/vm1@two",
        &to,
        "volume receive tank/copy",
    );
    let refer = |process: &Process, name: &str| {
        number(process, &format!("volume list -H -p -o refer {name}"))
    };
    for snapshot in ["@one", "@two", ""] {
        let there = refer(&from, &format!("tank/vm1{snapshot}"));
        let here = refer(&to, &format!("tank/copy{snapshot}"));
        assert!(there > 0, "{snapshot}");
        assert_eq!(here, there, "{snapshot}");
    }
}

/// The free space of pools and folders can really be used: parity, slop and reservations are
/// already subtracted.
#[test]
fn pools_and_folders_tell_what_can_still_be_created_in_them() {
    let process = Process::start();
    process.done("pool create --size 256M tank raidz a b c");
    process.done("volume create tank/f");
    let avail = |name: &str| number(&process, &format!("volume list -H -p -o avail {name}"));
    let at_first = avail("tank");
    assert_eq!(avail("tank/f"), at_first);
    // Two of three disks hold data.
    assert!((400 << 20..512 << 20).contains(&at_first), "{at_first}");
    assert_eq!(number(&process, "volume list -H -p -o refer tank/f"), 0);
    process.done("volume create -V 100M tank/f/thick");
    let left = at_first - avail("tank");
    assert!((98 << 20..108 << 20).contains(&left), "{left}");
    process.done(&format!("volume create -V {} tank/f/all", avail("tank/f")));
    assert!(avail("tank") < 16 << 20);
    process.refused("volume create -V 32M tank/f/more");
}
