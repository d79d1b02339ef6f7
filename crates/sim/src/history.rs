//! Histories: what happens to a store, step by step, and their making from seeds.
//!
//! A history is data. So it can be shortened, and what is left of it run again.

mod generate;

pub use generate::generate;

use std::ops::Range;

use crate::disk::{Behaviour, Fault};
use crate::model::Rules;
use crate::operation::Operation;
use crate::subject::{FlawKind, Geometry};

/// What befalls a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// A fault strikes the `nth` request of its kind from now on.
    Fault {
        /// Which request; 1 is the next.
        nth: u64,
        /// What happens to it.
        fault: Fault,
    },
    /// A bit turns over in each of so many sectors.
    Rot {
        /// How many.
        sectors: u64,
    },
    /// The disk is gone.
    Vanish,
    /// The disk does not answer any more.
    Hang,
    /// What lies on the disk is remembered for a return.
    Remember,
    /// The disk is back as it was.
    Return,
    /// The disk is back without what was not safe: its power was gone.
    ReturnAfterPowerCut,
    /// The disk is back with what was remembered.
    ReturnOld,
    /// The disk is back with some sectors as they were remembered.
    ReturnMixed,
}

/// What the power may leave behind at one moment, in a way that is harsher than a power cut alone. It is only tried: the history
/// goes on as if nothing had happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// Nothing else goes wrong, but caches are lost on all disks together.
    Cut,
    /// Disks that were lost are back, and one from `first` up to `end` is away. An error tells of that; nothing is missing
    /// without a word.
    Parting {
        /// The first disk that may be away.
        first: usize,
        /// The disk behind the last.
        end: usize,
    },
    /// No label has the newest checkpoint any more; every second time all but one label of each disk may be gone, too. Nothing
    /// is missing.
    LostRoot,
    /// A change that the power cut took is made again with the same bytes, while those behind it are not. They do not come
    /// back.
    Repeat,
    /// The mark that an opening wrote is lost, and what lay there before is back. What was promised since does not need it.
    LostMark,
}

/// A step of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// An operation is submitted.
    Submit(Operation),
    /// Disks give so many answers.
    Advance(u32),
    /// All operations are waited for.
    Drain,
    /// The power fails and returns; and fails again in each opening after so many answers of disks.
    PowerCut {
        /// After how many answers, one for each opening that is cut.
        again_after: Vec<u32>,
    },
    /// The program ends and is started again; the disks keep their power.
    Kill,
    /// The store is let go in order, with everything that it took; then the power fails, and it is opened again.
    Export,
    /// All is written out and scrubbed; then no copy of anything is bad.
    Heal,
    /// Disks get so many sectors more; the pool is not told.
    Grow {
        /// Which disk; `None`: all of them.
        disk: Option<usize>,
        /// How many.
        sectors: u64,
    },
    /// What would be found if the power failed now, for so many ways in which it may fail. The history
    /// goes on as if it had not.
    TryCuts {
        /// How many ways.
        ways: usize,
    },
    /// The same where besides one place cannot be read any more that leads to what was promised: that is told, and what is not
    /// needed any more is not missed.
    LoseRecords {
        /// How many ways.
        ways: usize,
    },
    /// What would be found if the power failed now, for so many ways, in each of which one sector rots that leads to others:
    /// everything. The history goes on as if nothing had happened.
    RotMetadata {
        /// How many ways.
        ways: usize,
    },
    /// What lies on all disks is remembered, with what was remembered before.
    RememberAll,
    /// The power fails or the program is killed, and some disks come back as they were remembered, as many as redundancy
    /// covers.
    OldCopies {
        /// After how many answers the power fails again, one for each opening that is cut.
        again_after: Vec<u32>,
        /// Whether the power fails.
        power: bool,
    },
    /// The power fails, and of each disk up to three labels of four are lost.
    LoseLabels,
    /// The power fails, and some disks lose all labels at their ends, which are made anew from the inner ones. The power may
    /// fail while they are written.
    LoseAllLabels,
    /// The power fails, and one disk that redundancy covers is shorter from then on.
    Shrink,
    /// The same as [`Step::OldCopies`] for so many ways in which the power may fail; when all is rebuilt, as many other disks are lost. The history
    /// goes on as if this had not happened.
    TryOldCopies {
        /// How many ways.
        ways: usize,
    },
    /// A copy is made of a disk that is in use, and stays beside it from now on: at every later opening the store is shown it
    /// too, and must not take it.
    Copy {
        /// Which disk.
        disk: usize,
    },
    /// All disks are copied in one moment, as a snapshot of an array does it; the copies become a store of their own, which
    /// must hold what was promised by then.
    CopyAll,
    /// See [`Attempt`].
    Try(Attempt),
    /// Something befalls a disk.
    Trouble {
        /// Which disk.
        disk: usize,
        /// What.
        trouble: Trouble,
    },
}

/// What happens to a store.
#[derive(Clone, Debug)]
pub struct History {
    /// Where it came from.
    pub seed: u64,
    /// The seed of all that is left to chance while it runs; at first the same.
    pub chance: u64,
    /// What the store is made on.
    pub geometry: Geometry,
    /// How its disks behave.
    pub behaviour: Behaviour,
    /// The disks that lie and fail; all others are honest.
    pub unreliable: Vec<usize>,
    /// What the store promises on them.
    pub rules: Rules,
    /// Whether operations and openings may fail. Wrong bytes are never allowed.
    pub tolerates_errors: bool,
    /// Of these only a lack of space: what needs none never fails.
    pub lacks_only_space: bool,
    /// Before every answered flush of a disk, try so many ways in which the power may fail.
    pub cuts_per_flush: usize,
    /// So many flushes of a thousand; every one with 1000.
    pub cut_flushes_per_mille: u64,
    /// This is tried before so many flushes of a thousand.
    pub attempt: Option<(Attempt, u64)>,
    /// And also before those of openings.
    pub cuts_openings: bool,
    /// What has space and what is a hole is asked of everything after each opening.
    pub asks_extents: bool,
    /// What happens.
    pub steps: Vec<Step>,
}

impl History {
    /// Whether a pool that went through this may have such a flaw.
    ///
    /// Bad copies come from disks that do not say what they did to them. Nothing is lost where the store promises that
    /// what is durable stays, but where more disks fail than redundancy covers. Nothing ever contradicts itself.
    pub fn allows(&self, flaw: FlawKind) -> bool {
        match flaw {
            FlawKind::BadCopy => self.has_silent_damage() || self.rots_metadata(),
            FlawKind::Lost => !self.rules.durability && self.has_silent_damage(),
            FlawKind::Lacking => self.tolerates_errors,
            FlawKind::Contradiction => false,
        }
    }

    /// Whether what is read may be an error.
    pub fn reads_may_fail(&self) -> bool {
        self.tolerates_errors && !self.lacks_only_space
    }

    /// Whether sectors that lead to others rot where that is tried.
    fn rots_metadata(&self) -> bool {
        let mut steps = self.steps.iter();
        steps.any(|step| matches!(step, Step::RotMetadata { .. }))
    }

    /// Whether disks do harm that they do not tell of.
    fn has_silent_damage(&self) -> bool {
        let silent = |trouble: &Trouble| match trouble {
            Trouble::Fault { fault, .. } => fault.is_silent(),
            Trouble::Rot { .. } | Trouble::ReturnOld | Trouble::ReturnMixed => true,
            // Nobody may have asked it anything while it was away.
            Trouble::ReturnAfterPowerCut => true,
            Trouble::Vanish | Trouble::Hang | Trouble::Remember | Trouble::Return => false,
        };
        let mut steps = self.steps.iter();
        if self.steps.contains(&Step::Shrink) {
            return true;
        }
        let lies = !self.unreliable.is_empty() && self.behaviour.chances.are_silent();
        lies || steps.any(|step| matches!(step, Step::Trouble { trouble, .. } if silent(trouble)))
    }
}

/// What the histories of a family are like; the rest is left to the seed.
#[derive(Clone, Debug)]
pub struct Climate {
    /// How many disks.
    pub disks: usize,
    /// Sectors of 4 KiB of each.
    pub disk_sectors: u64,
    /// How many volumes there are from the beginning.
    pub volumes: Range<u64>,
    /// The largest size of a volume, in blocks of 4 KiB.
    pub blocks: u64,
    /// Volume blocks to choose from, in blocks of 4 KiB.
    pub units: Vec<u64>,
    /// How many of a thousand volumes are thick.
    pub thick_per_mille: u64,
    /// The largest size of a thick volume, in blocks of 4 KiB.
    pub thick_blocks: u64,
    /// How many steps.
    pub steps: Range<u64>,
    /// Whether all volumes are written before, as far as there is room, the thick ones last.
    pub fills: bool,
    /// How the disks behave; the seed chooses the tearing.
    pub behaviour: Behaviour,
    /// What the store promises on them.
    pub rules: Rules,
    /// See [`History::tolerates_errors`].
    pub tolerates_errors: bool,
    /// See [`History::lacks_only_space`].
    pub lacks_only_space: bool,
    /// How many of a thousand changes do not end at blocks.
    pub unaligned_per_mille: u64,
    /// How many of a thousand steps are administration.
    pub admin_per_mille: u64,
    /// How many of a thousand steps change what disks the pool lies on.
    pub reshapes_per_mille: u64,
    /// How many of a thousand steps are power cuts or kills.
    pub crashes_per_mille: u64,
    /// How many of a thousand steps befall a disk.
    pub troubles_per_mille: u64,
    /// How many disks may come back with old contents, if they are among those that fail at all.
    pub losable: usize,
    /// Whether only those that may come back with old contents lie, fail or vanish at all: then nothing
    /// that is asked of the pool may fail.
    pub only_losable_fail: bool,
    /// Only these disks fail or vanish, where it is given.
    pub troubled: Option<Range<usize>>,
    /// How many of a thousand histories try cuts at every flush.
    pub cut_histories_per_mille: u64,
    /// In how many ways at each.
    pub cuts_per_flush: usize,
    /// At how many of a thousand of their flushes.
    pub cut_flushes_per_mille: u64,
    /// How many of a thousand steps ask what has space and what is a hole.
    pub extents_per_mille: u64,
    /// How many of a thousand steps let disks grow, or tell the pool so.
    pub grows_per_mille: u64,
    /// How many of a thousand steps begin, pause or end trims of disks.
    pub trims_per_mille: u64,
    /// How many of a thousand steps change how much of a volume space is kept for.
    pub reserves_per_mille: u64,
    /// How many of a thousand steps destroy several volumes or snapshots, or take the snapshots for that.
    pub destroys_per_mille: u64,
    /// How many of a thousand steps turn over bits of disks that may come back with old contents.
    pub rots_per_mille: u64,
    /// Whether power cuts tear most often, and treat what a flush covers otherwise than what came later.
    pub cuts_at_flushes: bool,
    /// Whether the seed may also choose disks that stall or keep what was trimmed, openings that are cut late, and all
    /// kinds of administration.
    pub is_hard: bool,
    /// Whether what a power cut tore may be unreadable. Of the log that may be what tells where it ends: the store may
    /// then refuse to open.
    pub ruins: bool,
}

impl Default for Climate {
    /// Honest disks that lose their power often, under small volumes.
    fn default() -> Self {
        Self {
            disks: 1,
            disk_sectors: 4096,
            volumes: 1..3,
            blocks: 24,
            units: vec![1, 4],
            thick_per_mille: 0,
            thick_blocks: 24,
            steps: 10..50,
            fills: false,
            behaviour: Behaviour::default(),
            rules: Rules::default(),
            tolerates_errors: false,
            lacks_only_space: false,
            unaligned_per_mille: 200,
            admin_per_mille: 60,
            reshapes_per_mille: 0,
            crashes_per_mille: 50,
            troubles_per_mille: 0,
            losable: 0,
            only_losable_fail: false,
            troubled: None,
            cut_histories_per_mille: 150,
            cuts_per_flush: 4,
            cut_flushes_per_mille: 1000,
            extents_per_mille: 0,
            grows_per_mille: 0,
            trims_per_mille: 0,
            reserves_per_mille: 0,
            destroys_per_mille: 0,
            rots_per_mille: 0,
            cuts_at_flushes: false,
            is_hard: false,
            ruins: false,
        }
    }
}
