//! Comparison of two series of runs: green, red and yellow as people colour tables by hand, but
//! with a stated chance of error.
//!
//! Every row asks a question, and of many questions about equal things some would seem to differ by
//! chance. So the chance is divided among the rows (Bonferroni). The whole table, not each row,
//! calls equal things different with at most the stated probability. With one run on each side, a
//! difference cannot be told from noise, and no verdict is given.

use serde::Serialize;

use super::results::{Measurement, Run};
use super::statistics::{Ratio, paired, welch};

/// Figure that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// Accesses per second; more is better.
    Iops,
    /// Mean latency in milliseconds; less is better.
    MeanMs,
    /// Latency that 1 of 100 accesses exceeds, in milliseconds; less is better.
    P99Ms,
    /// esxtop's KAVG in milliseconds: mean time of a command on this side of the wire; less is
    /// better. A queue that is too short shows here, and in no other figure.
    KavgMs,
    /// esxtop's DAVG in milliseconds: mean time of a command from the wire to its answer; less is
    /// better.
    DavgMs,
    /// Processor time per access in microseconds; less is better.
    CpuUs,
}

/// Least KAVG that is compared: the last digit that esxtop shows. A command that nothing holds up
/// reaches the wire in less time. Nobody wants to hear of twice as much of next to nothing, and
/// zero has no ratio.
const LEAST_KAVG_MS: f64 = 0.01;

impl Figure {
    /// All figures, in the order of tables.
    pub const ALL: [Self; 6] = [
        Self::Iops,
        Self::MeanMs,
        Self::P99Ms,
        Self::KavgMs,
        Self::DavgMs,
        Self::CpuUs,
    ];

    /// Returns the name in the table of results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Iops => "iops",
            Self::MeanMs => "mean-ms",
            Self::P99Ms => "p99-ms",
            Self::KavgMs => "kavg-ms",
            Self::DavgMs => "davg-ms",
            Self::CpuUs => "cpu-us",
        }
    }

    /// Returns the value, if it was measured.
    pub fn of(self, measurement: &Measurement) -> Option<f64> {
        match self {
            Self::Iops => Some(measurement.iops()),
            Self::MeanMs => Some(measurement.latency.mean_ns / 1e6),
            Self::P99Ms => {
                let distribution = measurement.latency.distribution.as_ref()?;
                Some(distribution.p99_ns as f64 / 1e6)
            }
            Self::KavgMs => Some((measurement.esxtop?.kavg_us / 1e3).max(LEAST_KAVG_MS)),
            Self::DavgMs => Some(measurement.esxtop?.davg_us / 1e3),
            Self::CpuUs => Some(measurement.cpu_ns_per_access()? / 1e3),
        }
    }

    fn more_is_better(self) -> bool {
        self == Self::Iops
    }
}

/// Verdict of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The second side is better (green).
    Better,
    /// The second side is worse (red).
    Worse,
    /// No difference was found (yellow). The interval says how large a difference may be all the
    /// same.
    NoDifference,
    /// The runs are too few, or differ so much that the interval says nothing.
    CannotTell,
}

impl Verdict {
    /// Returns the word for the verdict.
    pub fn words(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::NoDifference => "no difference",
            Self::CannotTell => "cannot tell",
        }
    }
}

/// Order in which the runs of both sides were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
    /// First one side, then the other.
    Apart,
    /// Runs in turns: each run of one side pairs with the other side's run of that round.
    InTurns,
}

/// One figure of one workload on both sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Name of the workload.
    pub workload: String,
    /// The figure.
    pub figure: Figure,
    /// Mean of the first side's runs.
    pub a: f64,
    /// Mean of the second side's runs.
    pub b: f64,
    /// Number of runs of both sides.
    pub runs: (usize, usize),
    /// Ratio of the second side to the first, with its interval; `None` if it cannot be told.
    pub ratio: Option<Ratio>,
    /// Verdict on the second side.
    pub verdict: Verdict,
}

/// Whole comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Chance that any row calls equal things different.
    pub alpha: f64,
    /// Every figure of every workload that both sides have.
    pub rows: Vec<Row>,
    /// Workloads that only the first side has.
    pub only_a: Vec<String>,
    /// Workloads that only the second side has.
    pub only_b: Vec<String>,
}

/// Compares two series of runs, workload by workload.
pub fn compare(a: &[&Run], b: &[&Run], made: Made, alpha: f64) -> Comparison {
    let (names_a, names_b) = (names(a), names(b));
    let only = |names: &[String], others: &[String]| -> Vec<String> {
        names
            .iter()
            .filter(|name| !others.contains(name))
            .cloned()
            .collect()
    };
    let mut questions = Vec::new();
    for name in names_a.iter().filter(|name| names_b.contains(name)) {
        for figure in Figure::ALL {
            let values = |runs: &[&Run], others: &[&Run]| -> Vec<f64> {
                let of_name = runs.iter().filter(|run| run.workload.name == *name);
                // A run without a counterpart on the other side has no pair: it was left out, or
                // the sweep ended.
                let is_paired = |run: &Run| {
                    let is_it =
                        |other: &&Run| other.round == run.round && other.workload.name == *name;
                    made == Made::Apart || others.iter().any(is_it)
                };
                of_name
                    .filter(|run| is_paired(run))
                    .filter_map(|run| figure.of(&run.measurement))
                    .collect()
            };
            let (a, b) = (values(a, b), values(b, a));
            if !a.is_empty() && !b.is_empty() {
                questions.push((name.clone(), figure, a, b));
            }
        }
    }
    let alpha_each = alpha / questions.len().max(1) as f64;
    let row = |(workload, figure, a, b): (String, Figure, Vec<f64>, Vec<f64>)| {
        let ratio = match made {
            Made::Apart => welch(&a, &b, alpha_each),
            Made::InTurns => paired(&a, &b, alpha_each),
        };
        Row {
            workload,
            figure,
            a: mean(&a),
            b: mean(&b),
            runs: (a.len(), b.len()),
            ratio,
            verdict: verdict(figure, ratio),
        }
    };
    Comparison {
        alpha,
        only_a: only(&names_a, &names_b),
        only_b: only(&names_b, &names_a),
        rows: questions.into_iter().map(row).collect(),
    }
}

fn verdict(figure: Figure, ratio: Option<Ratio>) -> Verdict {
    match ratio {
        None => Verdict::CannotTell,
        Some(ratio) if ratio.is_vague() => Verdict::CannotTell,
        Some(ratio) if !ratio.differs() => Verdict::NoDifference,
        Some(ratio) if (ratio.low > 1.0) == figure.more_is_better() => Verdict::Better,
        Some(_) => Verdict::Worse,
    }
}

/// Lists the names of the workloads in the order in which they were first run.
fn names(runs: &[&Run]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for run in runs {
        if !names.contains(&run.workload.name) {
            names.push(run.workload.name.clone());
        }
    }
    names
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::latency::LatencySummary;
    use crate::parameters::Parameters;
    use crate::profile;
    use crate::random::Random;
    use crate::results::{DirectionResult, EsxtopLatency};

    /// Returns runs of the vmktree profile whose figures have 3 % of noise around a speed.
    fn runs(random: &mut Random, rounds: u32, speed: f64) -> Vec<Run> {
        let workloads = profile::find("vmktree").expect("built in").workloads;
        let noise = |random: &mut Random| {
            let sum: f64 = (0..12)
                .map(|_| random.below(1 << 30) as f64 / f64::from(1 << 30))
                .sum();
            1.0 + 0.03 * (sum - 6.0)
        };
        let mut runs = Vec::new();
        for round in 0..rounds {
            for workload in &workloads {
                let measurement = Measurement {
                    elapsed_ns: 1_000_000_000,
                    read: DirectionResult {
                        accesses: (100_000.0 * speed * noise(random)) as u64,
                        ..DirectionResult::default()
                    },
                    latency: LatencySummary {
                        count: 1,
                        mean_ns: 1e6 / speed * noise(random),
                        ..LatencySummary::default()
                    },
                    ..Measurement::default()
                };
                runs.push(Run {
                    round,
                    settings: Default::default(),
                    workload: workload.clone(),
                    parameters: Parameters::default(),
                    measurement,
                    reached: None,
                });
            }
        }
        runs
    }

    fn compared(seed: u64, rounds: u32, speed: f64, made: Made) -> Comparison {
        let mut random = Random::new(seed);
        let (a, b) = (
            runs(&mut random, rounds, 1.0),
            runs(&mut random, rounds, speed),
        );
        let (a, b): (Vec<&Run>, Vec<&Run>) = (a.iter().collect(), b.iter().collect());
        compare(&a, &b, made, 0.05)
    }

    #[test]
    fn a_whole_table_of_equal_things_is_wrong_no_more_often_than_stated() {
        for made in [Made::Apart, Made::InTurns] {
            let wrong = |seed: &u64| {
                let comparison = compared(*seed, 5, 1.0, made);
                assert_eq!(
                    comparison.rows.len(),
                    8,
                    "what was not measured is not compared"
                );
                comparison
                    .rows
                    .iter()
                    .any(|row| row.verdict != Verdict::NoDifference)
            };
            let count = (0..1000).filter(wrong).count();
            // The bounds are 5 %, and three standard deviations.
            assert!((15..=71).contains(&count), "{count} of 1000");
        }
    }

    #[test]
    fn what_is_faster_is_better_in_every_figure() {
        let better = compared(1, 5, 1.3, Made::Apart);
        assert!(
            better.rows.iter().all(|row| row.verdict == Verdict::Better),
            "{better:?}"
        );
        let iops = better.rows[0].ratio.expect("enough runs");
        assert!(iops.low < 1.3 && iops.high > 1.3, "{iops:?}");
        let worse = compared(2, 5, 0.7, Made::InTurns);
        assert!(worse.rows.iter().all(|row| row.verdict == Verdict::Worse));
    }

    #[test]
    fn a_queue_that_is_too_short_is_seen_in_kavg_alone() {
        let mut random = Random::new(1);
        let split = |kavg_us: f64, davg_us: f64| EsxtopLatency {
            commands: 1,
            gavg_us: kavg_us + davg_us,
            kavg_us,
            davg_us,
            qavg_us: kavg_us,
        };
        let mut of = |kavg_us: f64| {
            let mut runs = runs(&mut random, 5, 1.0);
            for (index, run) in runs.iter_mut().enumerate() {
                run.measurement.esxtop = Some(split(kavg_us, 500.0 + index as f64));
            }
            runs
        };
        let (none, hardly, queued) = (of(0.0), of(3.0), of(2000.0));
        let verdicts = |a: &[Run], b: &[Run]| {
            let (a, b): (Vec<&Run>, Vec<&Run>) = (a.iter().collect(), b.iter().collect());
            let rows = compare(&a, &b, Made::InTurns, 0.05).rows;
            assert_eq!(rows.len(), 16, "four figures of four workloads");
            let of = |figure| {
                let rows = rows.iter().filter(move |row| row.figure == figure);
                rows.map(|row| row.verdict).collect::<Vec<_>>()
            };
            [of(Figure::KavgMs), of(Figure::DavgMs)]
        };
        let same = vec![Verdict::NoDifference; 4];
        assert_eq!(verdicts(&none, &hardly), [same.clone(), same.clone()]);
        assert_eq!(verdicts(&none, &queued), [vec![Verdict::Worse; 4], same]);
    }

    #[test]
    fn runs_that_differ_wildly_among_themselves_tell_nothing() {
        let mut random = Random::new(1);
        let (a, mut b) = (runs(&mut random, 3, 1.0), runs(&mut random, 3, 1.0));
        for run in b.iter_mut().filter(|run| run.round == 1) {
            run.measurement.read.accesses *= 8;
        }
        let (a, b): (Vec<&Run>, Vec<&Run>) = (a.iter().collect(), b.iter().collect());
        let rows = compare(&a, &b, Made::InTurns, 0.05).rows;
        for row in rows {
            let expected = match row.figure {
                Figure::Iops => Verdict::CannotTell,
                _ => Verdict::NoDifference,
            };
            assert_eq!(row.verdict, expected, "{row:?}");
        }
    }

    #[test]
    fn one_run_each_tells_nothing() {
        let comparison = compared(1, 1, 2.0, Made::Apart);
        assert!(
            comparison
                .rows
                .iter()
                .all(|row| row.verdict == Verdict::CannotTell)
        );
        assert_eq!(comparison.rows[0].runs, (1, 1));
    }

    #[test]
    fn what_only_one_side_has_is_said() {
        let mut random = Random::new(1);
        let (a, mut b) = (runs(&mut random, 2, 1.0), runs(&mut random, 2, 1.0));
        b.iter_mut().for_each(|run| run.workload.name.push('!'));
        b[0].workload.name = a[0].workload.name.clone();
        let comparison = compare(
            &a.iter().collect::<Vec<_>>(),
            &b.iter().collect::<Vec<_>>(),
            Made::Apart,
            0.05,
        );
        assert_eq!((comparison.only_a.len(), comparison.only_b.len()), (3, 4));
        assert_eq!(comparison.rows.len(), 2);
    }
}
