//! Exit codes and metrics tell scripts and monitoring that something is not well.
//!
//! The tests cover pools in each of their states, and units that are not served.

use std::process::{Command, Stdio};

use super::figures::live_figures::{metrics, sample};
use super::process::Process;
use crate::pools::devices::{flat, resilvered, serve, write_all};
use testing::exposition::{Format, parse};
use testing::skipped::skipped;

/// Returns the exit codes of `status` and of `pool status -x`.
fn codes(process: &Process) -> [i32; 2] {
    ["status", "pool status -x"].map(|line| process.ended(line).0)
}

fn state(process: &Process, name: &str) -> f64 {
    let state = format!("sandstone_pool_state{{pool=\"tank\",state=\"{name}\"}}");
    sample(&metrics(process), &state)
}

#[test]
fn a_degraded_pool_is_told_by_status_by_exit_codes_and_by_metrics() {
    let process = Process::start();
    assert_eq!(process.done("pool status -x"), "no pools available\n");
    assert_eq!(codes(&process), [0, 0]);
    process.done("pool create --size 128M tank mirror a b");
    process.done("pool create --size 128M pond c");
    assert_eq!(codes(&process), [0, 0]);
    assert_eq!(process.done("pool status -x"), "all pools are healthy\n");
    let told = process.done("status");
    assert!(told.contains("pool      tank ONLINE\n"), "{told}");
    assert_eq!(state(&process, "ONLINE"), 1.0);

    let device = process.folder().join("a");
    process.done(&format!("pool offline tank {}", device.display()));
    assert_eq!(codes(&process), [4, 4]);
    // This command only shows the state of the pools.
    assert_eq!(process.ended("pool status").0, 0);
    let told = flat(&process.done("status"));
    // An alert that opened meanwhile says these words in place of the pool's line.
    let online = format!(
        "Online the device using 'sandstone pool online tank {}'",
        device.display()
    );
    for words in [
        "pool tank DEGRADED",
        "One or more devices has been taken offline",
        &online,
        "pool pond ONLINE",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
    let named = process.done("pool status -x pond tank");
    assert!(
        named.starts_with("pool 'pond' is healthy\n  pool: tank\n"),
        "{named}"
    );
    assert_eq!(process.ended("pool status -x pond").0, 0);
    assert_eq!(process.ended("pool status -x --json").0, 4);
    let json: serde_json::Value = serde_json::from_str(&process.done("status --json")).unwrap();
    assert_eq!(json["health"], "impaired");
    assert_eq!(json["pools"][1]["state"], "DEGRADED");
    assert_eq!(
        [state(&process, "ONLINE"), state(&process, "DEGRADED")],
        [0.0, 1.0]
    );
    let told = metrics(&process);
    let impaired = "sandstone_daemon_health{state=\"impaired\"}";
    assert_eq!(sample(&told, impaired), 1.0);
    let vdev = format!(
        "sandstone_pool_vdev_state{{pool=\"tank\",class=\"data\",vdev=\"{}\",state=\"OFFLINE\"}}",
        device.display()
    );
    assert_eq!(sample(&told, &vdev), 1.0);

    process.done("volume create -s -V 8M tank/v");
    process.done(&format!("pool online tank {}", device.display()));
    resilvered(&process);
    assert_eq!(codes(&process), [0, 0]);
}

#[test]
fn a_pool_that_is_missing_or_only_read_and_a_unit_that_is_not_served_are_told_by_exit_codes() {
    let mut process = Process::start();
    process.done("pool create --size 128M tank a");
    serve(&process, "8M");
    assert_eq!(codes(&process), [0, 0]);
    process.done("pool export -f tank");
    // No pool is to be open; its unit is not served.
    assert_eq!(codes(&process), [4, 0]);
    let folder = process.folder().display().to_string();
    process.done(&format!("pool import -o readonly=on -d {folder} tank"));
    assert_eq!(codes(&process), [3, 3]);
    process.kill();
    let (device, away) = (process.folder().join("a"), process.folder().join("away"));
    std::fs::rename(&device, &away).unwrap();
    process.restart();
    assert_eq!(codes(&process), [4, 4]);
    assert_eq!(state(&process, "UNAVAIL"), 1.0);
    let told = flat(&process.done("status"));
    assert!(told.contains("pool tank UNAVAIL status"), "{told}");
}

/// Checks each metric family of the daemon by the rules of Prometheus, if its tool is installed.
#[test]
fn metrics_keep_prometheuss_conventions() {
    let process = Process::start();
    process.done("pool create --size 128M tank mirror a b log c cache d spare e");
    let portal = serve(&process, "64M");
    write_all(portal, 0..4);
    process.done("pool scrub -w tank");
    let told = metrics(&process);
    for name in [
        "sandstone_pool_size_bytes{pool=\"tank\"}",
        "sandstone_pool_allocated_bytes{pool=\"tank\"}",
        "sandstone_pool_free_bytes{pool=\"tank\"}",
        "sandstone_pool_available_bytes{pool=\"tank\"}",
        "sandstone_pool_promised_bytes{pool=\"tank\"}",
        "sandstone_tcp_segments_total{portal=\"PORTAL\"}",
        "sandstone_pool_scan_progress_ratio{pool=\"tank\",scan=\"scrub\"}",
        "sandstone_pool_vdev_size_bytes{pool=\"tank\",class=\"data\",vdev=\"mirror-0\"}",
        "sandstone_pool_vdev_operations_total{pool=\"tank\",class=\"data\",vdev=\"mirror-0\",op=\"write\"}",
    ] {
        let name = name.replace("PORTAL", &portal.to_string());
        assert!(sample(&told, &name) > 0.0, "{name}");
    }
    for (class, device) in [("log", "c"), ("cache", "d")] {
        let path = process.folder().join(device);
        let labels = format!(
            "pool=\"tank\",class=\"{class}\",vdev=\"{}\"",
            path.display()
        );
        let size = format!("sandstone_pool_vdev_size_bytes{{{labels}}}");
        assert!(sample(&told, &size) > 0.0, "{size}");
        for kind in ["read", "write", "checksum"] {
            let errors = format!("sandstone_pool_vdev_errors_total{{{labels},kind=\"{kind}\"}}");
            assert_eq!(sample(&told, &errors), 0.0);
        }
    }
    parse(&told, Format::Text);

    let tool = std::env::var_os("PROMTOOL").unwrap_or_else(|| "promtool".into());
    let child = Command::new(tool)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        return skipped("promtool is not there: it is in Debian's package prometheus");
    };
    let mut input = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut input, told.as_bytes()).unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.is_empty(), "{said}");
}
