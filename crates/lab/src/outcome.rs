//! Outcome of an experiment: our figures beside the report's, the differences, and whether the
//! demands are met.

use serde::Serialize;

use super::experiments::{Demand, Experiment, Figure, Load};
pub use super::load::Figures;
use super::reports::Quote;
use super::run::Plan;
use bench::network::wire::Packing;
use bench::statistics::{Ratio, paired};

/// Chance that any equal variants are called different.
const ALPHA: f64 = 0.05;

/// Outcome of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// Name of the experiment.
    pub experiment: &'static str,
    /// Purpose of the experiment.
    pub about: &'static str,
    /// Figure in which variants are compared.
    pub figure: Figure,
    /// Number of links.
    pub links: usize,
    /// Bits per second of each link.
    pub link_bits_per_s: f64,
    /// Reason why the speed is less than requested; `None` if it is not.
    pub scaled: Option<String>,
    /// Seconds of each run.
    pub seconds: f64,
    /// Number of rounds.
    pub repeats: u32,
    /// Outcomes of the variants.
    pub variants: Vec<VariantOutcome>,
    /// Checks of the demands.
    pub checks: Vec<Check>,
    /// Differences from the reports, or parts that are missing here.
    pub remark: &'static str,
    /// Quotes from the field reports.
    pub quotes: &'static [Quote],
}

/// Outcome of a variant.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VariantOutcome {
    /// Name of the variant.
    pub name: &'static str,
    /// Means over the rounds.
    pub mean: Figures,
    /// Figures of each round.
    pub runs: Vec<Figures>,
    /// Share of the capacity of the links in use, in the direction with more bytes; 1 for all of
    /// it.
    pub wire_share: f64,
    /// Name of the variant with which this one is compared.
    pub against: Option<&'static str>,
    /// Ratio of its figure to the other variant's; `None` if it cannot be told.
    pub ratio: Option<Ratio>,
    /// Verdict in words.
    pub verdict: String,
    /// The report's figure.
    pub reported: &'static str,
}

/// Demand, and whether it is met.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Demand and finding in words.
    pub text: String,
    /// Whether the demand is met.
    pub holds: bool,
}

impl Figure {
    fn of(self, figures: &Figures) -> f64 {
        match self {
            Self::Throughput => figures.bytes_per_s,
            Self::Iops => figures.iops,
            Self::Gap => figures.gap_ms,
        }
    }
}

impl Outcome {
    /// Evaluates the measurements. `(wanted, given, reached)` are the requested and the given speed
    /// of a link in bits per second, and the bytes per second that the cores reach without shaping.
    pub(super) fn new(
        experiment: &'static Experiment,
        plan: &Plan,
        (wanted, given, reached): (f64, f64, f64),
        figures: Vec<Vec<Figures>>,
    ) -> Self {
        let scaled = (given < wanted).then(|| {
            format!(
                "links of {:.2} Gb/s instead of {:.0}: the cores of this machine move {:.0} MB/s without a \
                 limit",
                given / 1e9,
                wanted / 1e9,
                reached / 1e6
            )
        });
        let comparisons = experiment
            .variants
            .iter()
            .filter(|variant| variant.against.is_some());
        let alpha = ALPHA / comparisons.count().max(1) as f64;
        let variants = (0..figures.len())
            .map(|index| VariantOutcome::new(experiment, index, given, &figures, alpha))
            .collect::<Vec<_>>();
        Self {
            experiment: experiment.name,
            about: experiment.about,
            figure: experiment.figure,
            links: experiment.links,
            link_bits_per_s: given,
            scaled,
            seconds: plan.time.as_secs_f64(),
            repeats: plan.repeats,
            checks: checks(experiment, &variants),
            variants,
            remark: experiment.remark,
            quotes: experiment.quotes,
        }
    }

    /// Reports whether all demands are met.
    pub fn holds(&self) -> bool {
        self.checks.iter().all(|check| check.holds)
    }
}

impl VariantOutcome {
    fn new(
        experiment: &Experiment,
        index: usize,
        link_bits_per_s: f64,
        figures: &[Vec<Figures>],
        alpha: f64,
    ) -> Self {
        let variant = &experiment.variants[index];
        let mean = Figures::mean(&figures[index]);
        let values = |index: usize| -> Vec<f64> {
            let runs = figures[index].iter();
            runs.map(|one| experiment.figure.of(one)).collect()
        };
        let ratio = variant
            .against
            .and_then(|other| paired(&values(other), &values(index), alpha));
        let packing = Packing {
            mtu: variant.mtu,
            ipv6: false,
            timestamps: true,
        };
        let paths = match variant.load {
            Load::Tcp { .. } => 1,
            Load::Storage { .. } => variant.paths,
        };
        let wire = packing.bytes_per_s(link_bits_per_s) * paths as f64;
        Self {
            name: variant.name,
            mean,
            runs: figures[index].clone(),
            wire_share: mean.bytes_per_s * busier_direction(variant.load) / wire,
            against: variant.against.map(|other| experiment.variants[other].name),
            ratio,
            verdict: match variant.against {
                Some(_) => verdict(ratio, experiment.figure),
                None => String::new(),
            },
            reported: variant.reported,
        }
    }
}

/// Returns the share of all bytes that goes in the busier direction. Links carry as much both ways
/// at once.
fn busier_direction(load: Load) -> f64 {
    match load {
        Load::Tcp { .. } => 1.0,
        Load::Storage { reads, .. } => f64::from(reads.max(100 - reads)) / 100.0,
    }
}

fn verdict(ratio: Option<Ratio>, figure: Figure) -> String {
    let Some(ratio) = ratio else {
        return "cannot tell from one round".to_owned();
    };
    let percent = |value: f64| (value - 1.0) * 100.0;
    let range = format!(
        "{:+.1} % ({:+.1} to {:+.1})",
        percent(ratio.estimate),
        percent(ratio.low),
        percent(ratio.high)
    );
    let less_is_better = figure == Figure::Gap;
    match (ratio.differs(), (ratio.estimate > 1.0) != less_is_better) {
        (false, _) if ratio.is_vague() => {
            format!("cannot tell, more rounds are needed: {range}")
        }
        (false, _) => format!("no difference found: {range}"),
        (true, true) => format!("better: {range}"),
        (true, false) => format!("worse: {range}"),
    }
}

fn checks(experiment: &Experiment, variants: &[VariantOutcome]) -> Vec<Check> {
    let check = |demand: &Demand| match *demand {
        Demand::Ratio {
            variant,
            of,
            at_least,
        } => {
            let value = |index: usize| experiment.figure.of(&variants[index].mean);
            let share = value(variant) / value(of);
            Check {
                text: format!(
                    "\"{}\" is {share:.3} of \"{}\"; at least {at_least} is required",
                    variants[variant].name, variants[of].name
                ),
                holds: share >= at_least,
            }
        }
        Demand::GapBelow { variant, ms } => {
            let gaps = variants[variant].runs.iter().map(|run| run.gap_ms);
            let worst = gaps.fold(0.0, f64::max);
            Check {
                text: format!(
                    "\"{}\": longest gap {worst:.0} ms; less than {ms:.0} ms is required",
                    variants[variant].name
                ),
                holds: worst < ms,
            }
        }
    };
    experiment.demands.iter().map(check).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::experiments::find;

    fn outcome(name: &str, values: &[f64]) -> Outcome {
        let experiment = find(name).expect("known");
        let figures = values.iter().map(|value| {
            let one = |noise: f64| Figures {
                bytes_per_s: value * noise,
                gap_ms: value * noise,
                ..Figures::default()
            };
            vec![one(0.999), one(1.0), one(1.001)]
        });
        let plan = Plan {
            time: Duration::from_secs(1),
            repeats: 3,
            link_bits_per_s: None,
        };
        Outcome::new(experiment, &plan, (1e9, 5e8, 2e8), figures.collect())
    }

    #[test]
    fn demands_are_checked() {
        let good = outcome("one-gigabit", &[58e6, 58e6, 57.9e6, 57e6]);
        assert!(good.holds(), "{:?}", good.checks);
        assert!(good.scaled.is_some() && (0.97..1.0).contains(&good.variants[0].wire_share));
        let bad = outcome("one-gigabit", &[58e6, 58e6, 50e6, 57e6]);
        assert!(!bad.holds() && bad.checks[1].holds);
        assert!(
            bad.variants[2].verdict.starts_with("worse"),
            "{:?}",
            bad.variants[2]
        );
        assert!(outcome("failover-silent", &[5.0, 900.0]).holds());
        assert!(!outcome("failover-silent", &[5.0, 1000.0]).holds());
        let slower = outcome("failover-silent", &[5.0, 900.0]);
        assert!(slower.variants[1].verdict.starts_with("worse"));
    }
}
