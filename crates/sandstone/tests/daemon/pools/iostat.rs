//! `pool iostat` of the real daemon: a client's reads and writes show in the figures.
//!
//! The figures are those of the pool, its vdevs and its devices.

use serde_json::Value;

use crate::pools::devices::serve;
use crate::process::Process;
use crate::served::{self, read, sense, settings, write};

/// Returns 1 MiB that no compression makes smaller.
fn noise(tag: u64) -> Vec<u8> {
    let mut word = tag.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let bytes = (0..(1_u64 << 20) / 8).flat_map(|_| {
        word = word.wrapping_mul(6_364_136_223_846_793_005).rotate_left(9);
        word.to_le_bytes()
    });
    bytes.collect()
}

fn json(process: &Process, line: &str) -> Value {
    serde_json::from_str(&process.done(line)).unwrap()
}

/// Returns the bytes written to a vdev since the pool was opened, and the requests of its devices
/// for them.
fn written(vdev: &Value) -> (u64, u64) {
    let write = &vdev["io"]["write"];
    let number = |name: &str| write[name].as_u64().unwrap();
    assert!(number("total_wait_us") >= number("disk_wait_us"), "{vdev}");
    (number("bytes"), number("requests"))
}

#[test]
fn what_a_client_writes_and_reads_shows_in_the_figures() {
    const MIB: u64 = 16;
    let process = Process::start();
    process.done("pool create --size 256M tank mirror a b log l cache c");
    let portal = serve(&process, "64M");
    let status = |process: &Process| json(process, "pool status --json tank")[0].clone();
    let before = status(&process);
    let mut session = served::log_in(portal, settings(1));
    for at in 0..MIB {
        let told = write(&mut session, at << 11, &noise(at));
        assert_eq!(sense(&told), None);
    }
    assert!(read(&mut session, 0, 2048) == noise(0));
    let after = status(&process);
    let rise = |of: &dyn Fn(&Value) -> (u64, u64)| {
        let (before, after) = (of(&before), of(&after));
        (after.0 - before.0, after.1 - before.1)
    };
    // The mirror was given each block once, and each of its devices has all of it; so has the log.
    for of in [
        &|status: &Value| written(&status["vdevs"][0]),
        &|status: &Value| written(&status["vdevs"][0]["children"][0]),
        &|status: &Value| written(&status["vdevs"][0]["children"][1]),
        &|status: &Value| written(&status["logs"][0]),
    ] as [&dyn Fn(&Value) -> (u64, u64); 4]
    {
        let (bytes, requests) = rise(of);
        let most = (MIB << 20) * 3 / 2;
        assert!((MIB << 20..most).contains(&bytes), "{bytes}");
        assert!(requests >= MIB, "{requests}");
    }
    layout(&process);
    let all = json(&process, "pool iostat -v --json tank");
    let tank = &all[0];
    assert_eq!(tank["name"], "tank");
    assert!(tank["write"]["bandwidth"].as_f64().unwrap() > 0.0, "{tank}");
    let mirror = &tank["vdevs"][0];
    let space = |of: &Value, name: &str| of[name].as_u64().unwrap();
    assert!(space(mirror, "allocated") > MIB << 20, "{mirror}");
    for name in ["allocated", "free"] {
        assert_eq!(space(mirror, name), space(tank, name), "{tank}");
    }
    assert_eq!(
        json(&process, "pool iostat --json")[0]["vdevs"],
        Value::Null
    );
}

fn layout(process: &Process) {
    let report = process.done("pool iostat -v -l tank");
    let names: Vec<&str> = report
        .lines()
        .skip(3)
        .filter_map(|line| line.split_whitespace().next())
        .map(|name| name.rsplit('/').next().unwrap_or(name))
        .collect();
    assert_eq!(
        names[..8],
        ["tank", "mirror-0", "a", "b", "logs", "l", "cache", "c"],
        "{report}"
    );
    // The first report is left out, then two follow: one line each, in whole numbers for scripts.
    let reports = process.done("pool iostat -H -p -y tank 0.1 2");
    let lines: Vec<Vec<&str>> = reports
        .lines()
        .map(|line| line.split('\t').collect())
        .collect();
    assert_eq!(lines.len(), 2, "{reports}");
    for line in lines {
        assert_eq!((line[0], line.len()), ("tank", 7), "{reports}");
        assert!(
            line[1..].iter().all(|cell| cell.parse::<u64>().is_ok()),
            "{reports}"
        );
    }
    let streamed = process.done("pool iostat --json 0.1 3");
    for line in streamed.lines() {
        let report: Value = serde_json::from_str(line).unwrap();
        assert_eq!(report[0]["name"], "tank");
    }
    assert_eq!(streamed.lines().count(), 3, "{streamed}");
    for (line, said) in [
        ("pool iostat tunk", "there is no pool tunk"),
        ("pool iostat 5x", "\"5x\" is neither a pool nor an interval"),
        (
            "pool iostat tank 0",
            "an interval of 0 seconds is too short",
        ),
        ("pool iostat tank 1 none", "none comes after a number"),
        ("pool iostat -y tank", "without an interval"),
    ] {
        let text = process.refused(line);
        assert!(
            text.contains(said) && text.contains("next:"),
            "{line}: {text}"
        );
    }
}
