//! Labs that run `bench network` and `bench lab` as users do: with Debian's iperf3 at either end,
//! and on links of a network inside this machine.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::lab::{Bench, Lab, Outcome, Room};
use crate::machine::process;
use crate::servers::server::{self, ServerKind};

const LIMIT: Duration = Duration::from_secs(60);
/// Time limit of an experiment: some runs of a few seconds, each with a login before it.
const EXPERIMENT_LIMIT: Duration = Duration::from_secs(300);

/// Labs of the network alone, and of storage over it.
pub(crate) const LABS: &[Lab] = &[
    Lab {
        name: "bench-network-client",
        about: "bench network measures both directions against Debian's iperf3 server",
        room: Room::Shared,
        run: client,
    },
    Lab {
        name: "bench-network-server",
        about: "Debian's iperf3 measures against bench network --serve: both directions, both at once, an amount, a rate",
        room: Room::Shared,
        run: serve,
    },
    Lab {
        name: "bench-lab",
        about: "bench lab makes experiments on links inside this machine and leaves nothing behind",
        room: Room::Shared,
        run: experiments,
    },
];

fn sandstone(bench: &Bench) -> Option<&Path> {
    match &bench.kind {
        ServerKind::Sandstone(path) => Some(path),
        ServerKind::Tgt => None,
    }
}

fn not_the_peer() -> Result<Outcome> {
    Ok(Outcome::Skipped(
        "this lab is about Sandstone's benchmark, not about a target".into(),
    ))
}

fn client(bench: &Bench) -> Result<Outcome> {
    let Some(sandstone) = sandstone(bench) else {
        return not_the_peer();
    };
    let folder = crate::machine::scratch::folder("iperf3")?;
    let port = server::free_port()?.to_string();
    let mut command = bench.tools.client("iperf3")?;
    command.args(["--server", "--forceflush", "--bind", "127.0.0.1"]);
    command.args(["--port", &port]);
    let log = folder.path().join("iperf3.log");
    let _server = process::start_logged(command, &log)?;
    process::until("iperf3 listens", LIMIT, || {
        std::fs::read_to_string(&log).is_ok_and(|said| said.contains("listening"))
    })?;
    let mut command = Command::new(sandstone);
    let host = format!("127.0.0.1:{port}");
    command.args(["bench", "network", &host, "--parallel", "2"]);
    command.args(["--seconds", "2", "--json"]);
    let text = process::output(command, LIMIT).with_context(|| {
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        format!("iperf3 says:\n{said}")
    })?;
    let value: Value = serde_json::from_str(&text).context("its JSON")?;
    let survey = &value["survey"];
    ensure!(
        survey["other_end"] == "iperf3",
        "not known as iperf3: {survey}"
    );
    let mut figures = Vec::new();
    for (direction, one) in ["send", "receive"].iter().zip(0..) {
        let one = &survey["throughput"][one];
        ensure!(
            one["direction"] == *direction,
            "{direction} is missing: {survey}"
        );
        let rate = one["bytes"].as_f64().unwrap_or(0.0) / one["seconds"].as_f64().unwrap_or(1.0);
        ensure!(rate > 1e6, "{direction}: {rate} bytes/s: {one}");
        ensure!(
            one["retransmits"].is_u64(),
            "{direction}: no retransmits: {one}"
        );
        figures.push(format!("{direction} {:.0} MB/s", rate / 1e6));
    }
    Ok(Outcome::passed(figures.join(", ")))
}

/// Starts `bench network --serve` on the loopback. Returns it, listening, and its port.
pub(crate) fn start_server(sandstone: &Path, log: &Path) -> Result<(process::Running, String)> {
    let port = server::free_port()?.to_string();
    let mut command = Command::new(sandstone);
    command.args(["bench", "network", "--serve", "--listen"]);
    command.arg(format!("127.0.0.1:{port}"));
    let running = process::start_logged(command, log)?;
    process::until("bench network listens", LIMIT, || {
        std::net::TcpStream::connect(format!("127.0.0.1:{port}")).is_ok()
    })?;
    Ok((running, port))
}

fn serve(bench: &Bench) -> Result<Outcome> {
    let Some(sandstone) = sandstone(bench) else {
        return not_the_peer();
    };
    let folder = crate::machine::scratch::folder("iperf3-client")?;
    let (_server, port) = start_server(sandstone, &folder.path().join("server.log"))?;
    let cases: [&[&str]; 6] = [
        &["--time", "1"],
        &["--time", "1", "--reverse", "--parallel", "4"],
        &["--time", "1", "--bidir"],
        &["--bytes", "50M"],
        &["--time", "1", "--reverse", "--bitrate", "80M"],
        &[
            "--time",
            "1",
            "--window",
            "256K",
            "--length",
            "8K",
            "--no-delay",
        ],
    ];
    let mut figures = Vec::new();
    for options in cases {
        let mut command = bench.tools.client("iperf3")?;
        command.args(["--client", "127.0.0.1", "--port", &port, "--json"]);
        command.args(options);
        let text = process::output(command, LIMIT)?;
        let value: Value = serde_json::from_str(&text).context("iperf3's JSON")?;
        ensure!(value["error"].is_null(), "{options:?}: {}", value["error"]);
        let sum = &value["end"]["sum_received"];
        let (bytes, rate) = (sum["bytes"].as_f64(), sum["bits_per_second"].as_f64());
        let (Some(bytes), Some(rate)) = (bytes, rate) else {
            anyhow::bail!("{options:?}: no sum: {}", value["end"]);
        };
        ensure!(bytes > 1e6, "{options:?}: {bytes} bytes");
        if options.contains(&"80M") {
            ensure!(
                (60e6..100e6).contains(&rate),
                "80 Mb/s were asked for: {rate}"
            );
        }
        if options.contains(&"50M") {
            let sent = value["end"]["sum_sent"]["bytes"].as_f64().unwrap_or(0.0);
            ensure!(sent >= 50e6 && bytes <= sent, "{bytes} of {sent}");
        }
        figures.push(format!("{:.1} Gb/s", rate / 1e9));
    }
    let mut command = bench.tools.client("iperf3")?;
    command.args([
        "--client",
        "127.0.0.1",
        "--port",
        &port,
        "--udp",
        "--time",
        "1",
    ]);
    let refused = process::finish(command, LIMIT)?;
    ensure!(
        refused.tail().contains("not implemented"),
        "UDP was not refused as it should be: {}",
        refused.tail()
    );
    Ok(Outcome::passed(figures.join(", ")))
}

fn experiments(bench: &Bench) -> Result<Outcome> {
    let Some(sandstone) = sandstone(bench) else {
        return not_the_peer();
    };
    let mut figures = Vec::new();
    for (name, demands) in [
        ("jumbo", false),
        ("queue-depth", false),
        ("failover-silent", true),
    ] {
        let mut command = Command::new(sandstone);
        command.args(["bench", "lab", "run", name, "--repeats", "1", "--json"]);
        command.args(["--seconds", "3", "--speed", "200M"]);
        let finished = process::finish(command, EXPERIMENT_LIMIT)?;
        if let Some(reason) = lacking(&finished.stderr) {
            return Ok(Outcome::Skipped(reason));
        }
        let value: Value = serde_json::from_str(&finished.stdout)
            .with_context(|| format!("{name}: {}", finished.tail()))?;
        let outcome = &value["experiments"][0];
        let variants = outcome["variants"].as_array().context("variants")?;
        ensure!(variants.len() >= 2, "{name}: {outcome}");
        for variant in variants {
            let share = variant["wire_share"].as_f64().unwrap_or(0.0);
            ensure!((0.05..1.2).contains(&share), "{name}: {variant}");
        }
        let checks = outcome["checks"].as_array().context("checks")?;
        let met = checks.iter().all(|check| check["holds"] == true);
        ensure!(
            !demands || (met && !checks.is_empty()),
            "{name}: {outcome:#}"
        );
        for check in checks {
            figures.push(check["text"].as_str().unwrap_or_default().to_owned());
        }
        if checks.is_empty() {
            figures.push(format!("{name} {} variants", variants.len()));
        }
    }
    let left = std::fs::read_dir("/run/netns").map_or(0, |entries| {
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        // Other labs make experiments meanwhile. Their names belong to processes that live.
        let owner = |name: &String| {
            let rest = name.strip_prefix("sandstone-lab-")?;
            rest.split('-').next().map(str::to_owned)
        };
        names
            .filter_map(|name| owner(&name))
            .filter(|owner| !Path::new(&format!("/proc/{owner}")).exists())
            .count()
    });
    ensure!(left == 0, "{left} namespaces are left behind");
    Ok(Outcome::passed(figures.join("; ")))
}

/// Returns the reason why this machine cannot make an experiment, if the program says so.
pub(crate) fn lacking(stderr: &str) -> Option<String> {
    let lacks = [
        "need root",
        "Debian's package iproute2",
        "Operation not permitted",
        "has no token bucket",
    ];
    let reason = stderr
        .lines()
        .find(|line| lacks.iter().any(|lack| line.contains(lack)))?;
    Some(reason.trim().to_owned())
}
