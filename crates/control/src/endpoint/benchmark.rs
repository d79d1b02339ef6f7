//! Endpoints for benchmarks that the daemon runs on its own logical units.

use serde::{Deserialize, Serialize};
use utoipa::IntoParams;

use super::description::queries;
use super::endpoints;
use benchmarks::{
    BenchmarkComparison, BenchmarkDetail, BenchmarkStarted, BenchmarkView, StartBenchmark,
};

const ALL: &str = "/v1/benchmarks";
const ONE: &str = "/v1/benchmarks/{id}";

endpoints! {
    "benchmark":
    /// Lists the benchmarks, the newest first. Of more than 50, the oldest are removed by
    /// themselves.
    LIST = Viewer GET ALL "benchmark_list" ((), ()) -> Vec<BenchmarkView>;
    /// Starts a benchmark, or says what it would do. One runs at a time. A benchmark that writes is
    /// refused while hosts use the unit. It needs the role admin, and the name of the unit typed
    /// once more, if the unit has data or hosts may use it.
    START = Operator POST ALL "benchmark_start" (Preview, StartBenchmark) -> BenchmarkStarted;
    /// Returns a benchmark with its results.
    SHOW = Viewer GET ONE "benchmark_show" ((), ()) -> BenchmarkDetail;
    /// Removes a benchmark that is over, with its results.
    DELETE = Operator DELETE ONE "benchmark_delete" ((), ()) -> ();
    /// Stops the benchmark that runs. The measurements until then are kept.
    STOP = Operator POST "/v1/benchmarks/{id}/stop" "benchmark_stop" ((), ()) -> BenchmarkView;
    /// Compares two benchmarks: for each figure, whether the second is better or worse than the
    /// first, and whether the difference is larger than the noise.
    COMPARE = Viewer GET "/v1/benchmarks/{id}/compare/{with}" "benchmark_compare" ((), ()) -> BenchmarkComparison;
}

queries!(Preview);

/// Options for starting a benchmark.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Preview {
    /// Whether the request only says what the benchmark would do.
    #[serde(default)]
    pub dry_run: bool,
}
