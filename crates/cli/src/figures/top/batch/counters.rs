//! Counters of each category, with the names and in the order that readers of esxtop's files know.

use crate::figures::rates::network::InterfaceRates;
use crate::figures::rates::{Activity, Rates};

/// Number of counters of a queue.
const QUEUE: usize = 6;
/// Number of counters of commands that failed.
const FAILURES: usize = 8;

/// Counters of a device.
pub(super) const DEVICE: &[&str] = &[
    "Device Q Depth",
    "World Q Depth",
    "Active Commands",
    "Queued Commands",
    "% Used",
    "Load",
    "Commands/sec",
    "Reads/sec",
    "Writes/sec",
    "MBytes Read/sec",
    "MBytes Written/sec",
    "Average Driver MilliSec/Command",
    "Average Kernel MilliSec/Command",
    "Average Guest MilliSec/Command",
    "Average Queue MilliSec/Command",
    "Average Driver MilliSec/Read",
    "Average Kernel MilliSec/Read",
    "Average Guest MilliSec/Read",
    "Average Queue MilliSec/Read",
    "Average Driver MilliSec/Write",
    "Average Kernel MilliSec/Write",
    "Average Guest MilliSec/Write",
    "Average Queue MilliSec/Write",
    "Failed Commands/sec",
    "Failed Reads/sec",
    "Failed Writes/sec",
    "Failed Bytes Read/sec",
    "Failed Bytes Written/sec",
    "Failed Reserves/sec",
    "Aborts/sec",
    "Resets/sec",
];

/// Counters of an adapter: its queue depth, and those of a device from the commands on.
pub(super) const ADAPTER: &[&str] = &{
    let mut counters = ["Adapter Q Depth"; 1 + DEVICE.len() - QUEUE];
    let mut at = QUEUE;
    while at < DEVICE.len() {
        counters[1 + at - QUEUE] = DEVICE[at];
        at += 1;
    }
    counters
};

/// Counters of a path: those of a device that paths count.
pub(super) const PATH: &[&str] = &{
    let mut counters = [""; DEVICE.len() - QUEUE - FAILURES];
    let mut at = 0;
    while at < counters.len() {
        counters[at] = DEVICE[QUEUE + at];
        at += 1;
    }
    counters
};

/// Counters of a unit as a host uses it.
pub(super) const VIRTUAL_DISK: &[&str] = &[
    "Commands/sec",
    "Reads/sec",
    "Writes/sec",
    "MBytes Read/sec",
    "MBytes Written/sec",
    "Average MilliSec/Read",
    "Average MilliSec/Write",
];

/// Counters of a network interface.
pub(super) const PORT: &[&str] = &[
    "MBits Transmitted/sec",
    "MBits Received/sec",
    "Packets Transmitted/sec",
    "Packets Received/sec",
    "% Outbound Packets Dropped",
    "% Received Packets Dropped",
];

fn ms(ns: Option<f64>) -> f64 {
    ns.unwrap_or(0.0) / 1e6
}

fn commands(of: &Activity) -> [f64; 5] {
    let megabytes = |bytes: f64| bytes / f64::from(1 << 20);
    [
        of.all.per_s,
        of.reads.per_s,
        of.writes.per_s,
        megabytes(of.reads.bytes_per_s),
        megabytes(of.writes.bytes_per_s),
    ]
}

fn times(of: &Rates) -> [f64; 4] {
    [
        ms(of.device_ns),
        ms(of.kernel_ns()),
        ms(of.latency_ns),
        ms(of.queue_ns),
    ]
}

/// Returns the values of [`PATH`].
pub(super) fn path(of: &Activity) -> Vec<f64> {
    let all = [times(&of.all), times(&of.reads), times(&of.writes)];
    commands(of).into_iter().chain(all.concat()).collect()
}

fn failures(of: &Activity) -> [f64; FAILURES] {
    let failures = of.failures.unwrap_or_default();
    [
        failures.commands,
        failures.reads,
        failures.writes,
        failures.read_bytes,
        failures.written_bytes,
        failures.reserves,
        failures.aborts,
        failures.resets,
    ]
}

/// Returns the values of [`DEVICE`]. A device as a whole has no world.
pub(super) fn device(of: &Activity) -> Vec<f64> {
    let queue = of.queue.unwrap_or_default();
    let load: [f64; QUEUE] = [
        queue.depth.into(),
        0.0,
        queue.active.into(),
        queue.queued.into(),
        queue.used_percent().unwrap_or(0.0),
        queue.load().unwrap_or(0.0),
    ];
    load.into_iter()
        .chain(path(of))
        .chain(failures(of))
        .collect()
}

/// Returns the values of [`ADAPTER`].
pub(super) fn adapter(of: &Activity) -> Vec<f64> {
    let depth: f64 = of.queue.unwrap_or_default().depth.into();
    let all = std::iter::once(depth).chain(path(of));
    all.chain(failures(of)).collect()
}

/// Returns the values of [`VIRTUAL_DISK`].
pub(super) fn virtual_disk(of: &Activity) -> Vec<f64> {
    let times = [ms(of.reads.latency_ns), ms(of.writes.latency_ns)];
    commands(of).into_iter().chain(times).collect()
}

/// Returns the values of [`PORT`].
pub(super) fn port(of: &InterfaceRates<'_>) -> Vec<f64> {
    vec![
        of.sent_bits / 1e6,
        of.received_bits / 1e6,
        of.sent_packets,
        of.received_packets,
        of.sent_dropped_percent,
        of.received_dropped_percent,
    ]
}
