//! Reports beside those of sysstat 12.6.1, whose headers and rows were recorded.

use super::*;

/// Header and rows of `iostat -x` for a disk.
const TABLE: &str = "\
Device            r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz     w/s     wkB/s   wrqm/s  \
%wrqm w_await wareq-sz     d/s     dkB/s   drqm/s  %drqm d_await dareq-sz     f/s f_await  \
aqu-sz  %util
vda            114.00   5335.00     0.00   0.00    0.88    46.80  154.00   9182.00     0.00   \
0.00    0.40    59.62   23.50   6454.50     0.00   0.00    0.17   274.66   20.60    0.13    \
0.17   1.93


";
/// Header and row of `iostat -xs`.
const SHORT: &str = "\
Device             tps      kB/s    rqm/s   await  areq-sz  aqu-sz  %util
vda             312.10  20971.50     0.00    0.54    67.19    0.17   1.93


";
/// Row of `iostat -x -o JSON`.
const JSON_ROW: &str = "\
{\"disk_device\": \"vda\", \"r/s\": 114.00, \"w/s\": 154.00, \"d/s\": 23.50, \"f/s\": 20.60, \
\"rkB/s\": 5335.00, \"wkB/s\": 9182.00, \"dkB/s\": 6454.50, \"rrqm/s\": 0.00, \"wrqm/s\": 0.00, \
\"drqm/s\": 0.00, \"rrqm\": 0.00, \"wrqm\": 0.00, \"drqm\": 0.00, \"r_await\": 0.88, \
\"w_await\": 0.40, \"d_await\": 0.17, \"f_await\": 0.13, \"rareq-sz\": 46.80, \"wareq-sz\": 59.62, \
\"dareq-sz\": 274.66, \"aqu-sz\": 0.17, \"util\": 1.93}";

fn disk() -> Activity {
    let rates = |per_s: f64, kb: f64, await_ms: f64| Rates {
        per_s,
        bytes_per_s: kb * 1024.0,
        latency_ns: Some(await_ms * 1e6),
        ..Rates::default()
    };
    let rare = |per_s, kb: f64, await_ms: f64| {
        Some(RareRates {
            per_s,
            bytes_per_s: kb * 1024.0,
            latency_ns: Some(await_ms * 1e6),
        })
    };
    let (discards, flushes) = (rare(23.5, 6454.5, 0.17), rare(20.6, 0.0, 0.13));
    // Times of discards and flushes: 0.003995 and 0.002678 s in each second.
    Activity {
        name: "vda".into(),
        reads: rates(114.0, 5335.0, 0.88),
        writes: rates(154.0, 9182.0, 0.40),
        both: Rates {
            waiting: 0.153,
            active: 0.012_627,
            ..Rates::default()
        },
        discards,
        flushes,
        ..Activity::default()
    }
}

fn layout(megabytes: bool, short: bool, json: bool) -> Layout {
    Layout {
        megabytes,
        short,
        json,
        has_rare: true,
    }
}

#[test]
fn tables_are_those_of_sysstat() {
    assert_eq!(layout(false, false, false).report(&[disk()], 0), TABLE);
    assert_eq!(layout(false, true, false).report(&[disk()], 0), SHORT);
    let megabytes = layout(true, false, false).report(&[disk()], 0);
    assert!(megabytes.contains("     rMB/s   rrqm/s"), "{megabytes}");
    assert!(
        megabytes.contains("114.00      5.21     0.00"),
        "{megabytes}"
    );
}

#[test]
fn json_is_that_of_sysstat() {
    let layout = layout(false, false, true);
    let reports = [layout.report(&[disk()], 0), layout.report(&[disk()], 1)];
    assert!(reports[0].contains(JSON_ROW), "{}", reports[0]);
    let whole = layout.begin() + &reports.concat() + layout.end();
    let parsed: serde_json::Value = serde_json::from_str(&whole).expect("JSON");
    let host = &parsed["sysstat"]["hosts"][0];
    assert_eq!(host["statistics"].as_array().map(Vec::len), Some(2));
    assert_eq!(host["statistics"][1]["disk"][0]["disk_device"], "vda");
    for key in ["nodename", "sysname", "release", "machine", "date"] {
        assert!(host[key].is_string(), "{key}: {host}");
    }
    assert!(host["number-of-cpus"].is_u64());
}

#[test]
fn a_disk_that_counts_no_discards_has_no_columns_for_them() {
    let mut layout = layout(false, false, false);
    layout.has_rare = false;
    let report = layout.report(&[disk()], 0);
    let header = report.lines().next().expect("a header");
    assert!(
        !header.contains("d/s") && !header.contains("f_await"),
        "{header}"
    );
    assert!(header.ends_with("wareq-sz  aqu-sz  %util"), "{header}");
}
