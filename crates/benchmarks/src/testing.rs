//! Results for tests.

use bench::measure::latency::LatencySummary;
use bench::parameters::Parameters;
use bench::profile;
use bench::results::{DirectionResult, FORMAT, Machine, Measurement, Results, Run, Target};

/// Returns a run of one second.
pub(crate) fn run(
    workload: &str,
    settings: &[(String, String)],
    round: u32,
    iops: u64,
    mean_ms: f64,
) -> Run {
    let mut of = profile::of_one_size(4096, 100, 0).workloads.remove(0);
    of.name = workload.to_owned();
    Run {
        round,
        settings: settings.iter().cloned().collect(),
        workload: of,
        parameters: Parameters::default(),
        reached: None,
        measurement: Measurement {
            elapsed_ns: 1_000_000_000,
            read: DirectionResult {
                accesses: iops,
                bytes: iops * 4096,
                ..DirectionResult::default()
            },
            latency: LatencySummary {
                count: iops,
                mean_ns: mean_ms * 1e6,
                ..LatencySummary::default()
            },
            ..Measurement::default()
        },
    }
}

/// Returns results of these runs.
pub(crate) fn results(runs: Vec<Run>) -> Results {
    Results {
        format: FORMAT,
        tool: "a test".to_owned(),
        started_unix_s: 0,
        machine: Machine::default(),
        target: Target::default(),
        plan: Vec::new(),
        runs,
        failed: Vec::new(),
    }
}
