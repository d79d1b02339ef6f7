//! Verdict of a sweep: each setting against the first, and the best for each workload.

use serde::Serialize;

use super::plan::Settings;
use crate::compare::{Comparison, Figure, Made, Verdict, compare};
use crate::results::{Results, Run};

/// Comparison of one setting with the first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Against {
    /// Settings that are compared.
    pub settings: Settings,
    /// Differences from the first settings.
    pub comparison: Comparison,
}

/// Best setting for a workload.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Best {
    /// Name of the workload.
    pub workload: String,
    /// Best settings; those of the sweep's start if no others are certainly better.
    pub settings: Settings,
    /// Accesses per second relative to the start; 1 if no others are certainly better.
    pub iops_ratio: f64,
    /// Whether the mean latency is certainly worse: more accesses at the cost of each.
    pub slower_each: bool,
}

/// Result of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SweepResult {
    /// Settings with which all others are compared.
    pub baseline: Settings,
    /// Comparisons of all others, in the order of the plan.
    pub against: Vec<Against>,
    /// Best settings of each workload.
    pub best: Vec<Best>,
}

/// Compares all settings of a sweep with the first. `alpha` is the chance that any settings without
/// an effect seem to have one.
pub fn find(results: &Results, settings: &[Settings], alpha: f64) -> SweepResult {
    let of = |wanted: &Settings| -> Vec<&Run> {
        let mut runs: Vec<&Run> = results
            .runs
            .iter()
            // A run that gave up has no figures.
            .filter(|run| run.settings == *wanted && !run.measurement.gave_up)
            .collect();
        // The runs of one round form pairs, whatever the order within the round was.
        runs.sort_by_key(|run| run.round);
        runs
    };
    let Some((baseline, others)) = settings.split_first() else {
        return SweepResult {
            baseline: Settings::new(),
            against: Vec::new(),
            best: Vec::new(),
        };
    };
    let start = of(baseline);
    let alpha_each = alpha / others.len().max(1) as f64;
    let against = |settings: &Settings| Against {
        settings: settings.clone(),
        comparison: compare(&start, &of(settings), Made::InTurns, alpha_each),
    };
    let against: Vec<Against> = others.iter().map(against).collect();
    SweepResult {
        best: best(&start, baseline, &against),
        baseline: baseline.clone(),
        against,
    }
}

fn best(start: &[&Run], baseline: &Settings, against: &[Against]) -> Vec<Best> {
    let mut best: Vec<Best> = Vec::new();
    for run in start {
        if best.iter().all(|best| best.workload != run.workload.name) {
            best.push(Best {
                workload: run.workload.name.clone(),
                settings: baseline.clone(),
                iops_ratio: 1.0,
                slower_each: false,
            });
        }
    }
    for best in &mut best {
        for Against {
            settings,
            comparison,
        } in against
        {
            let row = |figure| {
                let rows = &mut comparison.rows.iter();
                rows.find(|row| row.workload == best.workload && row.figure == figure)
            };
            let Some(iops) = row(Figure::Iops).filter(|row| row.verdict == Verdict::Better) else {
                continue;
            };
            let ratio = iops.ratio.map_or(1.0, |ratio| ratio.estimate);
            if ratio > best.iops_ratio {
                best.settings = settings.clone();
                best.iops_ratio = ratio;
                best.slower_each =
                    row(Figure::MeanMs).is_some_and(|row| row.verdict == Verdict::Worse);
            }
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::latency::LatencySummary;
    use crate::parameters::Parameters;
    use crate::profile;
    use crate::results::{DirectionResult, FORMAT, Machine, Measurement, Target};
    use crate::sweep::plan;

    /// Returns results of a sweep over queue depths in which 64 gives 1.5 times as many accesses,
    /// and each takes longer.
    fn swept(rounds: u32) -> (Results, Vec<Settings>) {
        let values = ["32", "64", "33"].map(str::to_owned).to_vec();
        let settings = plan::settings(
            &[("outstanding".to_owned(), values)],
            plan::Design::OneAtATime,
            |_| None,
        );
        let workload = profile::find("vmktree").expect("built in").workloads[0].clone();
        let run = |(round, setting): (u32, usize)| {
            let (iops, mean_ms) = [(100_000.0, 1.0), (150_000.0, 2.0), (100_000.0, 1.0)][setting];
            // The machine gets slower; each measurement has noise below a percent.
            let drift = 0.95f64.powi(round as i32)
                * (1.0 + 0.002 * f64::from((round * 7 + setting as u32 * 3) % 5));
            let measurement = Measurement {
                elapsed_ns: 1_000_000_000,
                read: DirectionResult {
                    accesses: (iops * drift) as u64,
                    ..DirectionResult::default()
                },
                latency: LatencySummary {
                    count: 1,
                    mean_ns: mean_ms * 1e6 / drift,
                    ..LatencySummary::default()
                },
                ..Measurement::default()
            };
            Run {
                round,
                settings: settings[setting].clone(),
                workload: workload.clone(),
                parameters: Parameters::default(),
                measurement,
                reached: None,
            }
        };
        let runs = plan::schedule(3, rounds, 1).into_iter().map(run).collect();
        let results = Results {
            format: FORMAT,
            tool: "test".into(),
            started_unix_s: 0,
            machine: Machine::default(),
            target: Target::default(),
            plan: settings.clone(),
            runs,
            failed: Vec::new(),
        };
        (results, settings)
    }

    #[test]
    fn the_best_setting_is_found_and_its_price_is_said() {
        let (results, settings) = swept(6);
        let found = find(&results, &settings, 0.05);
        assert_eq!(found.baseline["outstanding"], "32");
        let best = &found.best[0];
        assert_eq!(
            (best.settings["outstanding"].as_str(), best.slower_each),
            ("64", true)
        );
        assert!((1.45..1.55).contains(&best.iops_ratio), "{best:?}");
        let same = &found.against[1].comparison.rows;
        assert!(
            same.iter().all(|row| row.verdict == Verdict::NoDifference),
            "{same:?}"
        );
    }

    #[test]
    fn one_round_recommends_nothing() {
        let (results, settings) = swept(1);
        let best = &find(&results, &settings, 0.05).best[0];
        assert_eq!(
            (best.settings["outstanding"].as_str(), best.iops_ratio),
            ("32", 1.0)
        );
    }
}
