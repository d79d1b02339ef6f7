//! Metrics of commands: how long they took, and in which stage.

use super::exposition::{Exposition, MetricKind};
use model::figures::latency::Latencies;
use model::figures::{CommandSums, KindSums, Snapshot, UnitSnapshot};

/// Upper bounds of the buckets, in nanoseconds and as text in seconds.
const BOUNDS: [(u64, &str); 13] = [
    (100_000, "0.0001"),
    (250_000, "0.00025"),
    (500_000, "0.0005"),
    (1_000_000, "0.001"),
    (2_500_000, "0.0025"),
    (5_000_000, "0.005"),
    (10_000_000, "0.01"),
    (25_000_000, "0.025"),
    (50_000_000, "0.05"),
    (100_000_000, "0.1"),
    (250_000_000, "0.25"),
    (500_000_000, "0.5"),
    (1_000_000_000, "1"),
];

/// Names of the stages, in their order.
const STAGES: [&str; 4] = ["wire_in", "queue", "device", "reply"];

/// Adds the metrics.
pub(super) fn tell(out: &mut Exposition, snapshot: &Snapshot) {
    durations(out, &snapshot.units);
    out.family(
        "sandstone_lu_stage_seconds_total",
        MetricKind::Counter,
        "Time that commands spent in each stage.",
    );
    for unit in &snapshot.units {
        stages(out, &[("lu", &unit.name)], &unit.sums);
    }
    of_port_groups(
        out,
        snapshot,
        "sandstone_port_group_commands_total",
        "Commands of the sessions of a port group.",
        |out, labels, sums| {
            for (op, sums) in kinds(sums) {
                out.sample(&[labels, &[("op", op)]].concat(), sums.commands);
            }
        },
    );
    of_port_groups(
        out,
        snapshot,
        "sandstone_port_group_bytes_total",
        "Bytes that READs and WRITEs of a port group moved.",
        |out, labels, sums| {
            for (op, sums) in moving(sums) {
                out.sample(&[labels, &[("op", op)]].concat(), sums.bytes);
            }
        },
    );
    of_port_groups(
        out,
        snapshot,
        "sandstone_port_group_stage_seconds_total",
        "Time that commands of a port group spent in each stage.",
        stages,
    );
}

/// Adds a counter of all port groups. `samples` adds those of one group.
fn of_port_groups(
    out: &mut Exposition,
    snapshot: &Snapshot,
    name: &'static str,
    help: &str,
    samples: impl Fn(&mut Exposition, &[(&str, &str)], &KindSums),
) {
    out.family(name, MetricKind::Counter, help);
    for group in &snapshot.port_groups {
        let tag = group.portal_group.to_string();
        let labels = [("target", &*group.target), ("tag", &*tag)];
        samples(out, &labels, &group.sums);
    }
}

fn durations(out: &mut Exposition, units: &[UnitSnapshot]) {
    out.family(
        "sandstone_lu_command_duration_seconds",
        MetricKind::Histogram,
        "Time from the arrival of a command to the last byte of its answer.",
    );
    for unit in units {
        let latencies = [&unit.read_latency, &unit.write_latency];
        for ((op, sums), latencies) in moving(&unit.sums).into_iter().zip(latencies) {
            let labels = [("lu", &*unit.name), ("op", op)];
            let sum = seconds(sums.latency_ns());
            let number = latencies.commands();
            out.histogram(&labels, up_to_bounds(latencies), sum, number);
        }
    }
}

fn up_to_bounds(latencies: &Latencies) -> impl Iterator<Item = (&'static str, u64)> {
    BOUNDS
        .map(|(ns, text)| (text, latencies.below(ns)))
        .into_iter()
}

/// Adds the time of each kind and each stage.
fn stages(out: &mut Exposition, labels: &[(&str, &str)], sums: &KindSums) {
    for (op, sums) in kinds(sums) {
        for (stage, ns) in STAGES.iter().zip(sums.stages_ns()) {
            let labels = [labels, &[("op", op), ("stage", stage)]].concat();
            out.sample(&labels, seconds(ns));
        }
    }
}

fn kinds(sums: &KindSums) -> [(&'static str, &CommandSums); 3] {
    [
        ("read", &sums.reads),
        ("write", &sums.writes),
        ("other", &sums.others),
    ]
}

fn moving(sums: &KindSums) -> [(&'static str, &CommandSums); 2] {
    [("read", &sums.reads), ("write", &sums.writes)]
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
