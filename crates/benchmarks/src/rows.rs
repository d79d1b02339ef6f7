//! Rows of results: the measurements of one workload under one setting, over all rounds.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use bench::measure::latency::Distribution;
use bench::results::{Measurement, Results, Run};
use bench::sweep::plan;

/// A workload under one setting. Figures are means over the rounds, and the greatest latency is
/// that of all rounds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RowView {
    /// Name of the workload.
    pub workload: String,
    /// Settings of a sweep, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
    /// Number of rounds that were measured.
    pub rounds: u32,
    /// Accesses per second.
    pub iops: f64,
    /// Reads per second.
    pub read_iops: f64,
    /// Writes per second.
    pub write_iops: f64,
    /// Bytes per second.
    pub bytes_per_s: f64,
    /// Mean latency in milliseconds.
    pub mean_ms: f64,
    /// Latency that half of all accesses did not exceed, in milliseconds; absent if none ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_ms: Option<f64>,
    /// Latency that 99 of 100 accesses did not exceed, in milliseconds; absent if none ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_ms: Option<f64>,
    /// Greatest latency in milliseconds.
    pub max_ms: f64,
    /// Accesses that failed, in all rounds together.
    pub errors: u64,
    /// Half of the difference between the fastest and the slowest round, in percent of the mean of
    /// accesses per second; absent with one round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread_percent: Option<f64>,
}

impl RowView {
    /// Returns the name of the row: the workload, with its settings in a sweep.
    pub fn name(&self) -> String {
        name_of(&self.workload, &self.settings)
    }
}

/// Returns the name of a workload under a setting.
pub(crate) fn name_of(workload: &str, settings: &BTreeMap<String, String>) -> String {
    match settings.is_empty() {
        true => workload.to_owned(),
        false => format!("{workload}, {}", plan::words(settings)),
    }
}

/// Returns the rows of results, in the order of their first measurements within the plan.
pub(crate) fn rows(results: &Results) -> Vec<RowView> {
    let groups = groups(results);
    groups.into_iter().map(|(_, runs)| row(&runs)).collect()
}

/// Subject of a row: a workload and its settings.
type About<'a> = (&'a str, &'a BTreeMap<String, String>);

/// Returns the runs of each workload and setting. Settings come in the order of the plan.
pub(crate) fn groups(results: &Results) -> Vec<(About<'_>, Vec<&Run>)> {
    let mut groups: Vec<(About<'_>, Vec<&Run>)> = Vec::new();
    for run in &results.runs {
        let about: About<'_> = (&run.workload.name, &run.settings);
        match groups.iter_mut().find(|(of, _)| *of == about) {
            Some((_, runs)) => runs.push(run),
            None => groups.push((about, vec![run])),
        }
    }
    let place = |settings: &BTreeMap<String, String>| {
        let mut plan = results.plan.iter();
        plan.position(|of| of == settings).unwrap_or(usize::MAX)
    };
    groups.sort_by_key(|((_, settings), _)| place(settings));
    groups
}

fn row(runs: &[&Run]) -> RowView {
    let first = runs.first();
    let mean = |of: fn(&Measurement) -> f64| {
        let sum: f64 = runs.iter().map(|run| of(&run.measurement)).sum();
        sum / runs.len().max(1) as f64
    };
    let percentile = |of: fn(&Distribution) -> u64| {
        let values = runs.iter().filter_map(|run| {
            let distribution = run.measurement.latency.distribution.as_ref()?;
            Some(of(distribution) as f64 / 1e6)
        });
        let values: Vec<f64> = values.collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    let iops = mean(Measurement::iops);
    let each = runs.iter().map(|run| run.measurement.iops());
    let most = each.clone().fold(f64::MIN, f64::max);
    let least = each.fold(f64::MAX, f64::min);
    let max_ns = runs.iter().map(|run| run.measurement.latency.max_ns).max();
    RowView {
        workload: first.map_or(String::new(), |run| run.workload.name.clone()),
        settings: first.map_or_else(BTreeMap::new, |run| run.settings.clone()),
        rounds: runs.len() as u32,
        iops,
        read_iops: mean(Measurement::read_iops),
        write_iops: mean(Measurement::write_iops),
        bytes_per_s: mean(Measurement::bytes_per_s),
        mean_ms: mean(|it| it.latency.mean_ns / 1e6),
        p50_ms: percentile(|it| it.p50_ns),
        p99_ms: percentile(|it| it.p99_ns),
        max_ms: max_ns.unwrap_or(0) as f64 / 1e6,
        errors: runs.iter().map(|run| run.measurement.errors()).sum(),
        spread_percent: (runs.len() > 1 && iops > 0.0).then(|| (most - least) / 2.0 / iops * 100.0),
    }
}

/// Returns what a reader must know of the figures, each once.
pub(crate) fn remarks(results: &Results) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for run in &results.runs {
        let name = name_of(&run.workload.name, &run.settings);
        for remark in bench::remarks::remarks(run) {
            let words = format!("{name}, round {}: {remark}", run.round + 1);
            all.push(words);
        }
    }
    for failed in &results.failed {
        let name = name_of(failed.workload.as_deref().unwrap_or(""), &failed.settings);
        all.push(format!("{name}: {}", failed.reason));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{results, run};

    #[test]
    fn a_row_is_the_mean_of_its_rounds_with_their_spread() {
        let all = vec![run("a", &[], 0, 100, 2.0), run("a", &[], 1, 300, 4.0)];
        let rows = rows(&results(all));
        assert_eq!(rows.len(), 1);
        let row = &rows[0];
        assert_eq!((row.rounds, row.iops, row.mean_ms), (2, 200.0, 3.0));
        assert_eq!(row.spread_percent, Some(50.0));
        assert_eq!(row.p50_ms, None, "no distribution was kept");
        assert_eq!(row.name(), "a");
    }

    #[test]
    fn rows_of_a_sweep_stand_in_the_order_of_its_plan() {
        let settings =
            |depth: &str| [("outstanding", depth)].map(|(a, b)| (a.to_owned(), b.to_owned()));
        let all = vec![
            run("a", &settings("4"), 0, 400, 1.0),
            run("a", &settings("1"), 0, 100, 1.0),
        ];
        let mut results = results(all);
        results.plan = ["1", "4"].map(|it| settings(it).into()).to_vec();
        let names: Vec<String> = rows(&results).iter().map(RowView::name).collect();
        assert_eq!(names, ["a, outstanding=1", "a, outstanding=4"]);
        assert_eq!(rows(&results)[0].spread_percent, None);
    }

    #[test]
    fn remarks_name_their_measurement() {
        let mut one = run("a", &[], 1, 100, 2.0);
        one.measurement.interrupted = true;
        let told = remarks(&results(vec![one]));
        let expected = "a, round 2: interrupted: the figures cover the time until then";
        assert_eq!(told, [expected]);
    }
}
