//! Workloads that are measured, and one run of one of them on one target.

use std::path::Path;

use serde::Serialize;

use super::client::{self, LoadResult};
use super::distance::{Distance, round_trip_ns};
use super::server::Server;

/// Client that makes the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Client {
    /// Debian's libiscsi, which shows the speed for users.
    Libiscsi,
    /// Lean client of this benchmark, which costs less CPU than the target and so shows the ability
    /// of the target.
    Lean,
}

/// One workload.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Workload {
    pub name: &'static str,
    pub client: Client,
    pub is_write: bool,
    pub is_random: bool,
    /// Bytes of one transfer.
    pub block: u32,
    /// Number of commands outstanding per session.
    pub depth: u32,
    pub sessions: u32,
    /// Whether digests are used. libiscsi of Debian 12 knows header digests only, and the lean
    /// client uses both.
    pub digests: bool,
    /// Whether a volume of a pool is measured too, whose blocks are all in the pool's cache.
    pub cached: bool,
}

/// All workloads that `bench target` measures under load.
pub(super) const WORKLOADS: &[Workload] = &[
    also_cached(random(
        "libiscsi-read-4k-qd32",
        Client::Libiscsi,
        false,
        32,
        1,
    )),
    random("libiscsi-write-4k-qd32", Client::Libiscsi, true, 32, 1),
    also_cached(random(
        "libiscsi-read-4k-qd1",
        Client::Libiscsi,
        false,
        1,
        1,
    )),
    random("libiscsi-write-4k-qd1", Client::Libiscsi, true, 1, 1),
    also_cached(sequential(
        "libiscsi-read-256k-qd8",
        Client::Libiscsi,
        false,
        1,
    )),
    sequential("libiscsi-write-256k-qd8", Client::Libiscsi, true, 1),
    random("libiscsi-read-4k-qd32-x8", Client::Libiscsi, false, 32, 8),
    random("libiscsi-write-4k-qd32-x8", Client::Libiscsi, true, 32, 8),
    sequential("libiscsi-read-256k-qd8-x8", Client::Libiscsi, false, 8),
    sequential("libiscsi-write-256k-qd8-x8", Client::Libiscsi, true, 8),
    with_digests(random(
        "libiscsi-read-4k-qd32-crc",
        Client::Libiscsi,
        false,
        32,
        1,
    )),
    with_digests(random(
        "libiscsi-write-4k-qd32-crc",
        Client::Libiscsi,
        true,
        32,
        1,
    )),
    also_cached(random("lean-read-4k-qd64", Client::Lean, false, 64, 1)),
    random("lean-write-4k-qd64", Client::Lean, true, 64, 1),
    random("lean-read-4k-qd1", Client::Lean, false, 1, 1),
    random("lean-write-4k-qd1", Client::Lean, true, 1, 1),
    random("lean-read-4k-qd16-x8", Client::Lean, false, 16, 8),
    random("lean-write-4k-qd16-x8", Client::Lean, true, 16, 8),
    also_cached(sequential("lean-read-256k-qd8", Client::Lean, false, 1)),
    sequential("lean-write-256k-qd8", Client::Lean, true, 1),
    with_digests(random("lean-read-4k-qd64-crc", Client::Lean, false, 64, 1)),
    with_digests(random("lean-write-4k-qd64-crc", Client::Lean, true, 64, 1)),
    with_digests(sequential("lean-read-256k-qd8-crc", Client::Lean, false, 1)),
    with_digests(sequential("lean-write-256k-qd8-crc", Client::Lean, true, 1)),
];

/// Workload that brings every block of a unit into a cache.
pub(super) const READS_ALL: Workload = sequential("all", Client::Lean, false, 1);

const fn random(
    name: &'static str,
    client: Client,
    is_write: bool,
    depth: u32,
    sessions: u32,
) -> Workload {
    Workload {
        name,
        client,
        is_write,
        is_random: true,
        block: 4096,
        depth,
        sessions,
        digests: false,
        cached: false,
    }
}

const fn sequential(name: &'static str, client: Client, is_write: bool, sessions: u32) -> Workload {
    Workload {
        name,
        client,
        is_write,
        is_random: false,
        block: 256 << 10,
        depth: 8,
        sessions,
        digests: false,
        cached: false,
    }
}

const fn with_digests(workload: Workload) -> Workload {
    Workload {
        digests: true,
        ..workload
    }
}

const fn also_cached(workload: Workload) -> Workload {
    Workload {
        cached: true,
        ..workload
    }
}

impl Workload {
    pub(super) fn op(&self) -> &'static str {
        if self.is_write { "write" } else { "read" }
    }

    pub(super) fn pattern(&self) -> &'static str {
        if self.is_random {
            "random"
        } else {
            "sequential"
        }
    }

    /// Reports whether the workload is about latency, not throughput.
    pub(super) fn is_latency(&self) -> bool {
        self.depth == 1
    }

    pub(super) fn description(&self) -> String {
        let sessions = if self.sessions == 1 {
            "1 session".into()
        } else {
            format!("{} sessions", self.sessions)
        };
        let digests = match (self.digests, self.client) {
            (false, _) => "",
            (true, Client::Libiscsi) => ", header digest",
            (true, Client::Lean) => ", header and data digests",
        };
        let (kib, pattern, op, depth) = (self.block >> 10, self.pattern(), self.op(), self.depth);
        format!("{kib} KiB {pattern} {op}, {depth} outstanding each, {sessions}{digests}")
    }
}

/// One run of one workload on one target.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Cell {
    #[serde(flatten)]
    pub load: LoadResult,
    /// CPU time of the target while it was measured, in seconds.
    pub target_cpu_s: f64,
    /// Distance of the target's core and the client's.
    pub cores: Distance,
}

impl Cell {
    pub(super) fn measure(
        workload: &Workload,
        server: &Server,
        load_client: &Path,
        seconds: f64,
    ) -> Result<Self, String> {
        let before_ns = round_trip_ns();
        let (load, target_cpu_s) = client::load(workload, server, load_client, seconds)?;
        let cores = Distance::of(before_ns, round_trip_ns());
        if load.ios == 0 {
            return Err("no transfer finished".into());
        }
        Ok(Self {
            load,
            target_cpu_s,
            cores,
        })
    }

    pub(super) fn iops(&self) -> f64 {
        self.load.ios as f64 / self.load.seconds
    }

    /// Returns thousands of transfers per second.
    pub(super) fn kiops(&self) -> f64 {
        self.iops() / 1e3
    }

    /// Returns the median latency.
    pub(super) fn p50_us(&self) -> f64 {
        self.load.p50_us
    }

    pub(super) fn cpu_us_per_io(&self) -> f64 {
        self.target_cpu_s * 1e6 / self.load.ios as f64
    }

    /// Returns the client's share of its core, 0 to 1.
    pub(super) fn client_share(&self) -> f64 {
        self.load.client_cpu_s / self.load.seconds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        for (i, workload) in WORKLOADS.iter().enumerate() {
            assert!(
                WORKLOADS[i + 1..]
                    .iter()
                    .all(|other| other.name != workload.name),
                "{}",
                workload.name
            );
        }
    }

    #[test]
    fn shares_are_per_second_and_per_transfer() {
        let load = LoadResult {
            ios: 1000,
            seconds: 2.0,
            p50_us: 1.0,
            p99_us: 2.0,
            client_cpu_s: 1.0,
            retries: 0,
        };
        let cell = Cell {
            load,
            target_cpu_s: 0.002,
            cores: Distance::Near,
        };
        assert_eq!(
            (cell.iops(), cell.cpu_us_per_io(), cell.client_share()),
            (500.0, 2.0, 0.5)
        );
    }
}
