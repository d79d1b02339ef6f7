//! Attacks with the histories of many seeds.

use std::fmt;
use std::ops::Range;

use super::panics::quietly;
use super::{Failure, Report, run, shrink};
use crate::disk::Chances;
use crate::history::{Climate, History, generate};
use crate::subject::Subject;

/// Number of histories that are run to shorten one that failed.
const SHRINKING: u32 = 2000;
/// Number of steps that a person reads at a glance.
const SHORT: usize = 8;

/// Summary of a family of histories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Number of histories.
    pub histories: u64,
    /// Sum of the reports of all histories.
    pub total: Report,
    /// Number of histories that the store refused to open, where it may.
    pub refused: u64,
    /// Number of histories in which a tried cut at a flush tore a write.
    pub tearing: u64,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = &self.total;
        write!(
            f,
            "{} histories: {} operations, {} failed; {} crashes, {} more tried, {} at flushes, of which {} \
             tore, in {} histories; {} proofs; {} takeovers, {} reshapes, {} growths, {} sectors trimmed; {} \
             refused to open; {} questions for extents; {} records missed, {} by signposts, {} not needed; \
             {} sectors of metadata damaged; {} old copies, {} rebuilt before other disks left, {} labels \
             lost, {} disks relabelled, {} after a cut, {} short disks; {} changes within the reserve; {} \
             destroyed several; {} refused beside a copy, {} not, {} copies made pools after {} cuts; {} \
             reads beside the engine, {} of bytes that waited, {} from the cache, {} handed over; {:?}; {:?}",
            self.histories,
            total.operations,
            total.errors,
            total.crashes,
            total.tried_cuts,
            total.flush_cuts,
            total.torn_cuts,
            self.tearing,
            total.proofs,
            total.moves.takeovers,
            total.moves.reshapes,
            total.moves.growths,
            total.moves.trimmed,
            self.refused,
            total.extents,
            total.missed_records,
            total.missed_by_signposts,
            total.needless_records,
            total.rotten_metadata,
            total.old_copies,
            total.rebuilt_old_copies,
            total.lost_labels,
            total.rebuilt_labels,
            total.torn_rebuilds,
            total.short_disks,
            total.kept,
            total.destructions,
            total.refused_twins,
            total.strangers,
            total.separated,
            total.torn_separations,
            total.moves.read_beside,
            total.moves.waited_for,
            total.moves.from_cache,
            total.moves.handed_over,
            total.cut,
            total.attempts
        )
    }
}

/// A history that failed, and the shortest one found that fails.
#[derive(Clone, Debug)]
pub struct Defeat {
    /// Failure of the seed's history.
    pub failure: Failure,
    /// Shortest history found.
    pub shortest: History,
    /// Failure of the shortest history.
    pub shortest_failure: Failure,
}

impl fmt::Display for Defeat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.failure)?;
        writeln!(f, "the shortest history found that still fails:")?;
        for (number, step) in self.shortest.steps.iter().enumerate() {
            match step {
                crate::history::Step::Submit(operation) => writeln!(f, "  {number}: {operation}")?,
                step => writeln!(f, "  {number}: {step:?}")?,
            }
        }
        let chances = self.shortest.behaviour.chances;
        if chances != Chances::default() {
            writeln!(
                f,
                "  on disks with these chances in a thousand: {chances:?}"
            )?;
        }
        write!(f, "{}", self.shortest_failure)
    }
}

/// Runs the histories of these seeds until one fails. `finish` turns a generated history into the
/// one to run.
///
/// # Errors
/// The first history that fails, shortened.
pub fn attack<S: Subject>(
    setup: &S::Setup,
    climate: &Climate,
    finish: impl Fn(&mut History),
    seeds: Range<u64>,
) -> Result<Summary, Box<Defeat>> {
    let generate = |seed: u64, climate: &Climate| {
        let mut history = generate(seed, climate);
        finish(&mut history);
        history
    };
    let mut summary = Summary::default();
    for seed in seeds {
        let history = generate(seed, climate);
        match run::<S>(setup, &history) {
            Ok(report) => summary.add(&report),
            Err(failure) => {
                let shorten = || shorten::<S>(setup, climate, &generate, &history, &failure);
                let shortest = quietly(shorten);
                return Err(Box::new(Defeat {
                    failure,
                    shortest: shortest.0,
                    shortest_failure: shortest.1,
                }));
            }
        }
    }
    Ok(summary)
}

/// Returns the shortest history found that fails: a part of this one, or one that was short from
/// the beginning.
fn shorten<S: Subject>(
    setup: &S::Setup,
    climate: &Climate,
    generate: &impl Fn(u64, &Climate) -> History,
    history: &History,
    failure: &Failure,
) -> (History, Failure) {
    let left = shrink::<S>(setup, history, failure.clone(), SHRINKING);
    if left.0.steps.len() <= SHORT {
        return left;
    }
    let short = Climate {
        steps: 1..SHORT as u64 + 1,
        ..climate.clone()
    };
    for seed in 0..SHRINKING.into() {
        let history = generate(seed, &short);
        if let Err(failure) = run::<S>(setup, &history) {
            return shrink::<S>(setup, &history, failure, SHRINKING);
        }
    }
    left
}

impl std::ops::AddAssign for Summary {
    fn add_assign(&mut self, other: Self) {
        self.histories += other.histories;
        self.refused += other.refused;
        self.tearing += other.tearing;
        self.total.add(&other.total);
    }
}

impl Summary {
    /// Counts one more history.
    pub fn add(&mut self, report: &Report) {
        self.histories += 1;
        self.refused += u64::from(report.refused);
        self.tearing += u64::from(report.torn_cuts > 0);
        self.total.add(report);
    }
}
