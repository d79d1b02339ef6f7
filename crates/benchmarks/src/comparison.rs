//! Comparison of two benchmarks: each figure of each workload that both have, and whether the
//! difference is larger than the noise.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::rows::name_of;
use super::view::BenchmarkView;
use bench::compare::{Made, Row, Verdict, compare};
use bench::facts::differences;
use bench::results::{Results, Run};

/// Chance that any row calls equal things different.
const ALPHA: f64 = 0.05;

/// Verdict on the second benchmark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ComparisonVerdict {
    /// The second one is better, and the difference is larger than the noise.
    Better,
    /// The second one is worse, and the difference is larger than the noise.
    Worse,
    /// The difference is not larger than the noise.
    NoDifference,
    /// The rounds are too few, or differ too much among themselves.
    #[default]
    CannotTell,
}

impl ComparisonVerdict {
    /// Returns the verdict in words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::NoDifference => "no difference",
            Self::CannotTell => "cannot tell",
        }
    }
}

impl From<Verdict> for ComparisonVerdict {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Better => Self::Better,
            Verdict::Worse => Self::Worse,
            Verdict::NoDifference => Self::NoDifference,
            Verdict::CannotTell => Self::CannotTell,
        }
    }
}

/// One figure of one workload in both benchmarks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ComparisonRow {
    /// Name of the workload, with its settings in a sweep.
    pub workload: String,
    /// Name of the figure: `iops`, `mean-ms` or `p99-ms`.
    pub figure: String,
    /// Mean of the first benchmark's rounds.
    pub a: f64,
    /// Mean of the second benchmark's rounds.
    pub b: f64,
    /// Change from the first to the second, in percent.
    pub change_percent: f64,
    /// Least change that the noise allows for, in percent; absent if it cannot be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub least_percent: Option<f64>,
    /// Greatest change that the noise allows for, in percent; absent if it cannot be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_percent: Option<f64>,
    /// Verdict on the second benchmark.
    pub verdict: ComparisonVerdict,
}

/// A fact in which two benchmarks differ beside their figures.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FactDifference {
    /// Name of the fact.
    pub fact: String,
    /// Value in the first benchmark.
    pub a: String,
    /// Value in the second benchmark.
    pub b: String,
}

/// Comparison of two benchmarks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BenchmarkComparison {
    /// First benchmark.
    pub a: BenchmarkView,
    /// Second benchmark, which is judged.
    pub b: BenchmarkView,
    /// Figures of the workloads that both have.
    pub rows: Vec<ComparisonRow>,
    /// Workloads that only the first one has.
    pub only_a: Vec<String>,
    /// Workloads that only the second one has.
    pub only_b: Vec<String>,
    /// Facts in which they differ.
    pub differences: Vec<FactDifference>,
    /// Advice for rows that the comparison cannot decide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

/// Compares the results of two benchmarks.
pub(crate) fn comparison(
    (a, results_a): (BenchmarkView, &Results),
    (b, results_b): (BenchmarkView, &Results),
) -> BenchmarkComparison {
    let (runs_a, runs_b) = (named(results_a), named(results_b));
    let (of_a, of_b): (Vec<&Run>, Vec<&Run>) = (runs_a.iter().collect(), runs_b.iter().collect());
    let found = compare(&of_a, &of_b, Made::Apart, ALPHA);
    let differences = differences(results_a, results_b).into_iter();
    BenchmarkComparison {
        a,
        b,
        advice: advice(&found.rows),
        rows: found.rows.into_iter().map(row).collect(),
        only_a: found.only_a,
        only_b: found.only_b,
        differences: differences
            .map(|it| FactDifference {
                fact: it.fact.to_owned(),
                a: it.a,
                b: it.b,
            })
            .collect(),
    }
}

/// Returns the runs of results, each named after its workload and its settings: runs under
/// different settings are no rounds of each other.
fn named(results: &Results) -> Vec<Run> {
    let runs = results.runs.iter().filter(|run| !run.measurement.gave_up);
    let named = runs.map(|run| {
        let mut run = run.clone();
        run.workload.name = name_of(&run.workload.name, &run.settings);
        run
    });
    named.collect()
}

fn row(row: Row) -> ComparisonRow {
    let percent = |ratio: f64| (ratio - 1.0) * 100.0;
    let plain = if row.a > 0.0 { row.b / row.a } else { 1.0 };
    let estimate = row.ratio.map_or(plain, |ratio| ratio.estimate);
    ComparisonRow {
        workload: row.workload,
        figure: row.figure.name().to_owned(),
        a: row.a,
        b: row.b,
        change_percent: percent(estimate),
        least_percent: row.ratio.map(|ratio| percent(ratio.low)),
        most_percent: row.ratio.map(|ratio| percent(ratio.high)),
        verdict: row.verdict.into(),
    }
}

/// Returns what to do about rows that the comparison cannot decide.
fn advice(rows: &[Row]) -> Option<String> {
    let mut unknown = rows
        .iter()
        .filter(|row| row.verdict == Verdict::CannotTell)
        .peekable();
    unknown.peek()?;
    let words = match unknown.any(|row| row.runs.0.min(row.runs.1) < 2) {
        true => {
            "One round each does not tell a difference from noise: measure both again with three or more rounds."
        }
        false => {
            "The rounds differ too much among themselves to tell: measure again with more rounds, or longer."
        }
    };
    Some(words.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{results, run};

    fn compared(a: Results, b: Results) -> BenchmarkComparison {
        comparison(
            (BenchmarkView::default(), &a),
            (BenchmarkView::default(), &b),
        )
    }

    fn rounds(iops: &[u64]) -> Results {
        let runs = iops.iter().enumerate();
        let runs =
            runs.map(|(round, iops)| run("a", &[], round as u32, *iops, 1000.0 / *iops as f64));
        results(runs.collect())
    }

    #[test]
    fn a_difference_larger_than_the_noise_is_told_for_each_figure() {
        let told = compared(rounds(&[100, 101, 99]), rounds(&[200, 203, 198]));
        let verdicts: Vec<_> = told
            .rows
            .iter()
            .map(|row| (row.figure.as_str(), row.verdict))
            .collect();
        let better = ComparisonVerdict::Better;
        assert_eq!(verdicts, [("iops", better), ("mean-ms", better)]);
        let iops = &told.rows[0];
        assert!((95.0..105.0).contains(&iops.change_percent), "{iops:?}");
        assert!(iops.least_percent < Some(iops.change_percent), "{iops:?}");
        assert_eq!(told.advice, None);
    }

    #[test]
    fn one_round_each_tells_the_change_and_no_verdict() {
        let told = compared(rounds(&[100]), rounds(&[150]));
        let row = &told.rows[0];
        assert_eq!(
            (row.change_percent.round(), row.least_percent),
            (50.0, None)
        );
        assert_eq!(row.verdict, ComparisonVerdict::CannotTell);
        assert!(told.advice.expect("advice").starts_with("One round"));
    }

    #[test]
    fn settings_of_a_sweep_are_compared_with_themselves() {
        let setting = |depth: &str| [("outstanding".to_owned(), depth.to_owned())];
        let one = |depths: [&str; 2]| {
            let runs = depths.map(|depth| run("a", &setting(depth), 0, 100, 1.0));
            results(runs.to_vec())
        };
        let told = compared(one(["1", "4"]), one(["4", "8"]));
        assert!(
            told.rows
                .iter()
                .all(|row| row.workload == "a, outstanding=4"),
            "{told:?}"
        );
        assert_eq!(told.only_a, ["a, outstanding=1"]);
        assert_eq!(told.only_b, ["a, outstanding=8"]);
    }
}
