//! An experiment from beginning to end: links, daemon, calibration, and rounds in which the
//! variants take turns.

use std::fs;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::error::LabError;
use super::experiments::{Experiment, Load};
use super::load::{Figures, Site};
use super::network::{Network, remove_stale};
use super::outcome::Outcome;
use super::target::{self, Target};

/// Parameters of an experiment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// Measured time of each run.
    pub time: Duration,
    /// Number of rounds.
    pub repeats: u32,
    /// Speed of each link in bits per second, instead of the experiment's own.
    pub link_bits_per_s: Option<f64>,
}

/// Event of a lab run, for an observer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step<'a> {
    /// The speed that this machine's cores reach is measured.
    Calibrate,
    /// A variant begins, in this round.
    Begin(&'a str, u32),
    /// The variant is over.
    End(Figures),
}

/// Duration of a calibration, and the number of calibrations. Other work of the machine only makes
/// it seem slower, so the best one counts.
const CALIBRATION: Duration = Duration::from_secs(1);
const CALIBRATIONS: u32 = 2;
/// Share of the cores' speed that all links may have together, so that the links are the limit.
const HEADROOM: f64 = 0.5;

/// Makes an experiment. Leaves nothing behind, however it ends.
///
/// # Errors
/// This machine lacks something, or a run failed.
pub fn run(
    experiment: &'static Experiment,
    plan: &Plan,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(Step<'_>),
) -> Result<Outcome, LabError> {
    remove_stale();
    let network = Network::new(experiment.links)?;
    let target = Target::start(&network, experiment.variants)?;
    let scratch = Scratch::new()?;
    let site = Site {
        network: &network,
        target: &target,
        stop,
        scratch: &scratch.0,
    };
    watch(Step::Calibrate);
    let reached = calibrate(experiment, &site)?;
    let wanted = plan.link_bits_per_s.unwrap_or(experiment.link_bits_per_s);
    let possible = reached * 8.0 * HEADROOM / experiment.links as f64;
    let link_bits_per_s = wanted.min(round(possible));
    let mut figures = vec![Vec::new(); experiment.variants.len()];
    for round in 0..plan.repeats {
        for (index, variant) in experiment.variants.iter().enumerate() {
            watch(Step::Begin(variant.name, round));
            network.shape(Some(link_bits_per_s), variant.mtu)?;
            let found = site.run(variant, plan.time)?;
            watch(Step::End(found));
            figures[index].push(found);
        }
    }
    Ok(Outcome::new(
        experiment,
        plan,
        (wanted, link_bits_per_s, reached),
        figures,
    ))
}

/// Measures the bytes per second that the cores reach over links without a speed limit. The result
/// is unlimited if the experiment's load is not about bytes.
fn calibrate(experiment: &Experiment, site: &Site<'_>) -> Result<f64, LabError> {
    let variant = &experiment.variants[experiment.calibrate];
    site.network.shape(None, variant.mtu)?;
    let mut best = 0.0f64;
    for _ in 0..CALIBRATIONS {
        best = best.max(site.run(variant, CALIBRATION)?.bytes_per_s);
    }
    if best <= 0.0 {
        return Err(LabError::Invalid(
            "no access ended within a second on links without a speed limit: this machine is too busy".to_owned(),
        ));
    }
    Ok(match variant.load {
        Load::Storage { block, .. } if block < 64 * 1024 => f64::INFINITY,
        _ => best,
    })
}

/// Rounds down to two digits.
fn round(value: f64) -> f64 {
    if !value.is_finite() || value <= 0.0 {
        return value;
    }
    let unit = 10f64.powf(value.log10().floor() - 1.0);
    (value / unit).floor() * unit
}

/// Folder for results, removed on drop.
struct Scratch(std::path::PathBuf);

impl Scratch {
    fn new() -> Result<Self, LabError> {
        let name = format!("{}{}-scratch", super::network::PREFIX, std::process::id());
        let folder = target::folder().join(name);
        fs::create_dir(&folder).map_err(LabError::system(format!("make {}", folder.display())))?;
        Ok(Self(folder))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // If the folder stays, the next lab removes it.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn speeds_are_rounded_down_to_two_digits() {
        for (value, rounded) in [(1.234e9, 1.2e9), (9.99e8, 9.9e8), (1e10, 1e10)] {
            let found = super::round(value);
            assert!((found / rounded - 1.0f64).abs() < 1e-9, "{value}: {found}");
        }
        assert_eq!(super::round(f64::INFINITY), f64::INFINITY);
        assert_eq!(super::round(0.0), 0.0);
    }
}
