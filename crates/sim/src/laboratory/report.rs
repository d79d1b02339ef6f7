//! The result of a history: counts, or the one failure, with the steps that led to it.

use std::fmt;

use crate::disk::Struck;
use crate::model::Wrong;
use crate::subject::{Flaw, Moves, UnderWay};

/// Most flaws that a failure lists.
const MAX_FLAWS: usize = 8;

/// Counts of a history's events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Operations that were submitted.
    pub operations: u64,
    /// Operations that failed, where they may.
    pub errors: u64,
    /// Power cuts and kills after which the history went on.
    pub crashes: u64,
    /// Power cuts that were only tried, each opened and read.
    pub tried_cuts: u64,
    /// Tried power cuts at flushes.
    pub flush_cuts: u64,
    /// Tried power cuts at flushes that tore a write on some disk.
    pub torn_cuts: u64,
    /// Sectors that were torn by those cuts.
    pub torn_sectors: u64,
    /// Places that were taken away and led to promised data. Each was missed.
    pub missed_records: u64,
    /// Missed places of which a second copy lay somewhere else.
    pub missed_by_signposts: u64,
    /// Places that were taken away though everything was there without them.
    pub needless_records: u64,
    /// Sectors that led to others and rotted, without a loss.
    pub rotten_metadata: u64,
    /// Disks that came back with old content.
    pub old_copies: u64,
    /// Number of times that old disks were rebuilt and as many others were lost after that.
    pub rebuilt_old_copies: u64,
    /// Labels that were lost.
    pub lost_labels: u64,
    /// Disks that lost all labels at their ends and got them back.
    pub rebuilt_labels: u64,
    /// Number of times that the power failed while disks got their labels back.
    pub torn_rebuilds: u64,
    /// Disks that shrank.
    pub short_disks: u64,
    /// Work during which power cuts fell, tried or not.
    pub cut: CutInto,
    /// Number of times that extents were asked for: what has space and what is a hole.
    pub extents: u64,
    /// Number of those answers that contained both.
    pub mixed_extents: u64,
    /// Number of times that the content of the disks was proven.
    pub proofs: u64,
    /// Number of times that all was scrubbed, and no copy was bad after that.
    pub heals: u64,
    /// Openings that were shown a disk and its copy, and refused.
    pub refused_twins: u64,
    /// Openings that were shown a copy of a disk that the store does not know any more.
    pub strangers: u64,
    /// Copies of all disks that became a store of their own.
    pub separated: u64,
    /// Power cuts while copies became a store of their own.
    pub torn_separations: u64,
    /// Attempts that were made besides.
    pub attempts: Attempts,
    /// Changes whose space was reserved, among those that may lack space.
    pub kept: u64,
    /// Operations that destroyed several volumes or snapshots.
    pub destructions: u64,
    /// Work of the store.
    pub moves: Moves,
    /// Whether the history ended early because the store refused to open, where it may.
    pub refused: bool,
    /// Faults of all disks.
    pub struck: Struck,
    /// Simulated time.
    pub time_us: u64,
}

/// Numbers of attempts of each kind ([`Attempt`](crate::history::Attempt)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attempts {
    /// Power cuts at which all caches were lost together.
    pub cuts: u64,
    /// Disks that were back while another was away.
    pub partings: u64,
    /// Partings of which nothing was reported.
    pub untold: u64,
    /// Newest checkpoints that were lost.
    pub lost_roots: u64,
    /// Changes that were made again.
    pub repeats: u64,
    /// Marks that were lost.
    pub lost_marks: u64,
    /// Lost marks after which a promise had been made.
    pub needless_marks: u64,
}

impl Attempts {
    fn add(&mut self, other: &Self) {
        self.cuts += other.cuts;
        self.partings += other.partings;
        self.untold += other.untold;
        self.lost_roots += other.lost_roots;
        self.repeats += other.repeats;
        self.lost_marks += other.lost_marks;
        self.needless_marks += other.needless_marks;
    }
}

/// Power cuts by the store's work at that moment, besides serving.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CutInto {
    /// A resilver.
    pub resilvers: u64,
    /// A scrub.
    pub scrubs: u64,
    /// Blocks of destroyed datasets were being freed.
    pub freeing: u64,
    /// A checkpoint.
    pub checkpoints: u64,
    /// The pool became larger.
    pub growths: u64,
}

impl CutInto {
    /// Counts one power cut.
    pub(super) fn count(&mut self, under_way: UnderWay) {
        let UnderWay {
            resilver,
            scrub,
            freeing,
            checkpoint,
            growth,
        } = under_way;
        self.resilvers += u64::from(resilver);
        self.scrubs += u64::from(scrub);
        self.freeing += u64::from(freeing);
        self.checkpoints += u64::from(checkpoint);
        self.growths += u64::from(growth);
    }

    fn add(&mut self, other: &Self) {
        self.resilvers += other.resilvers;
        self.scrubs += other.scrubs;
        self.freeing += other.freeing;
        self.checkpoints += other.checkpoints;
        self.growths += other.growths;
    }
}

impl Report {
    /// Adds the counts of another history.
    pub(super) fn add(&mut self, other: &Self) {
        self.operations += other.operations;
        self.errors += other.errors;
        self.crashes += other.crashes;
        self.tried_cuts += other.tried_cuts;
        self.flush_cuts += other.flush_cuts;
        self.torn_cuts += other.torn_cuts;
        self.torn_sectors += other.torn_sectors;
        self.missed_records += other.missed_records;
        self.missed_by_signposts += other.missed_by_signposts;
        self.needless_records += other.needless_records;
        self.rotten_metadata += other.rotten_metadata;
        self.destructions += other.destructions;
        self.old_copies += other.old_copies;
        self.rebuilt_old_copies += other.rebuilt_old_copies;
        self.lost_labels += other.lost_labels;
        self.rebuilt_labels += other.rebuilt_labels;
        self.torn_rebuilds += other.torn_rebuilds;
        self.short_disks += other.short_disks;
        self.cut.add(&other.cut);
        self.attempts.add(&other.attempts);
        self.extents += other.extents;
        self.heals += other.heals;
        self.kept += other.kept;
        self.refused_twins += other.refused_twins;
        self.strangers += other.strangers;
        self.separated += other.separated;
        self.torn_separations += other.torn_separations;
        self.mixed_extents += other.mixed_extents;
        self.proofs += other.proofs;
        self.moves = self.moves + other.moves;
        self.struck = self.struck + other.struck;
        self.time_us += other.time_us;
    }
}

/// Kind of failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// Data was found that must not be there.
    Wrong(Wrong),
    /// The store waits for something that never comes.
    Hangs(String),
    /// The store does not open its disks, for this reason.
    Refused(String),
    /// An operation failed: the operation, and the reason.
    Failed(String, String),
    /// An answer has a tag that no operation has.
    UnknownAnswer(u64),
    /// An answer does not fit its operation.
    NoAnswer(String),
    /// A read returned another length.
    WrongLength(usize),
    /// The content of the disks has flaws that it must not have, by the store's own proof.
    Flawed(Vec<Flaw>),
    /// The pool has fewer sectors than it promised to have for good: the number now, and the
    /// promised number.
    Shrunk(u64, u64),
    /// A disk and its copy were not told apart as they must be.
    Twins(String),
    /// The store panicked.
    Panicked(String),
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wrong(wrong) => write!(f, "{wrong}"),
            Self::Hangs(what) => write!(f, "hangs: {what}"),
            Self::Refused(why) => write!(f, "the pool does not open: {why}"),
            Self::Failed(what, why) => write!(f, "{what} failed: {why}"),
            Self::UnknownAnswer(tag) => write!(f, "answer {tag} belongs to no request"),
            Self::NoAnswer(what) => write!(f, "a request was not answered: {what}"),
            Self::WrongLength(len) => write!(f, "a read returned {len} bytes"),
            Self::Flawed(flaws) => {
                write!(f, "{} flaws after an opening", flaws.len())?;
                let told = flaws.iter().take(MAX_FLAWS);
                told.into_iter().try_for_each(|flaw| write!(f, "; {flaw}"))
            }
            Self::Shrunk(now, before) => {
                write!(
                    f,
                    "the pool has {now} sectors, but had promised {before} for good"
                )
            }
            Self::Twins(what) => write!(f, "beside a copy of a disk: {what}"),
            Self::Panicked(words) => write!(f, "panicked: {words}"),
        }
    }
}

/// A history that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Seed of the history.
    pub seed: u64,
    /// Step of the failure, from 0. The number of steps means the end.
    pub step: usize,
    /// Kind of the failure.
    pub kind: FailureKind,
    /// Context: the step, and the changes that `kind` names.
    pub context: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {}, step {}: {}", self.seed, self.step, self.kind)?;
        self.context
            .iter()
            .try_for_each(|line| write!(f, "\n  {line}"))
    }
}
