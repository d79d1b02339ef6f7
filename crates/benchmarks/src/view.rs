//! Benchmarks as they are listed and shown.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::order::{BenchmarkKind, StartBenchmark};
use super::rows::RowView;
use super::sweep_table::SweepView;
use bench::measure::window::Second;
use bench::results::Results;

/// State of a benchmark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BenchmarkState {
    /// The benchmark runs now.
    #[default]
    Running,
    /// The benchmark came to its end.
    Finished,
    /// The benchmark was ended early. The figures cover the time until then.
    Stopped,
    /// The daemon ended while it ran.
    Interrupted,
    /// The benchmark could not go on.
    Failed,
}

impl BenchmarkState {
    /// Returns the word for the state.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Finished => "finished",
            Self::Stopped => "stopped",
            Self::Interrupted => "interrupted",
            Self::Failed => "failed",
        }
    }
}

/// Benchmark in a list.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BenchmarkView {
    /// Number of the benchmark.
    pub id: u64,
    /// Name of the logical unit, as it was then.
    pub unit: String,
    /// NAA designator of the logical unit. It tells the unit from others of its name.
    pub naa: String,
    /// Kind of the benchmark.
    pub kind: BenchmarkKind,
    /// Description of the load, in a few words.
    pub about: String,
    /// Remark of the user who started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Whether it writes to the unit.
    pub writes: bool,
    /// User or token that started it.
    pub by: String,
    /// Time of the start, in seconds since 1970.
    pub started_unix_s: u64,
    /// Time of the end, in seconds since 1970; absent while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_unix_s: Option<u64>,
    /// State of the benchmark.
    pub state: BenchmarkState,
    /// Reason why it did not come to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Number of measurements that were made.
    pub runs: u32,
    /// Number of measurements that were ordered.
    pub of_runs: u32,
    /// Row with the most accesses per second, once there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most: Option<RowView>,
    /// Present measurement, while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<ProgressView>,
}

/// A measurement under way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ProgressView {
    /// Number of the measurement, from 1 on.
    pub run: u32,
    /// Name of the workload, with its settings in a sweep.
    pub workload: String,
    /// Phase of the measurement: `ramping up` or `measuring`.
    pub phase: String,
    /// Seconds of the phase that are over.
    pub seconds: u64,
    /// Seconds that the phase takes; absent if its end is not known before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_seconds: Option<f64>,
    /// Seconds until the whole benchmark ends, at most.
    pub left_s: u64,
    /// Accesses of the last second.
    pub iops: u64,
    /// Bytes of the last second.
    pub bytes_per_s: u64,
    /// Mean latency of the last second, in milliseconds.
    pub mean_ms: f64,
    /// Latency that 99 of 100 accesses of the last second did not exceed, in milliseconds.
    pub p99_ms: f64,
    /// Accesses that failed so far.
    pub errors: u64,
}

/// Benchmark with its results.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BenchmarkDetail {
    /// The benchmark.
    pub benchmark: BenchmarkView,
    /// Order by which it was started.
    pub order: StartBenchmark,
    /// A row for each workload and setting, over all rounds.
    pub rows: Vec<RowView>,
    /// Table of a sweep, with the best settings in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<SweepView>,
    /// Remarks that a reader needs to understand the figures.
    pub remarks: Vec<String>,
    /// Seconds of the measurement under way, while it runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    pub seconds: Vec<Second>,
    /// All figures, in the format of `bench run --save`, which `bench report`, `bench compare` and
    /// `bench export` read.
    #[schema(value_type = Object)]
    pub results: Option<Results>,
}

/// Preview of a benchmark, with its number if it was started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BenchmarkStarted {
    /// Whether nothing was started.
    pub dry_run: bool,
    /// Number of the benchmark, if it was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<u64>,
    /// Description of the load, in a few words.
    pub about: String,
    /// Names of the workloads.
    pub workloads: Vec<String>,
    /// Number of measurements.
    pub runs: u32,
    /// Seconds that it takes, at most.
    pub seconds: u64,
    /// Bytes at the start of the unit that are used.
    pub working_set: u64,
    /// Whether it writes to the unit.
    pub writes: bool,
    /// Data that is overwritten, if it writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overwrites: Option<Overwrites>,
    /// Remarks to read before it starts.
    pub notes: Vec<String>,
}

/// Data that a benchmark overwrites.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Overwrites {
    /// Description of the data.
    pub words: String,
    /// Whether the name of the unit must be typed once more, and the user must be an admin: the
    /// unit has data, or hosts may use it.
    pub needs_name: bool,
}
