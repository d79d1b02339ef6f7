//! Histories: the events of a store's life, step by step, and their making from seeds.
//!
//! A history is data. So it can be shortened, and the rest of it run again.

mod generate;

pub use generate::generate;

use std::ops::Range;

use crate::disk::{Behaviour, Fault};
use crate::model::Rules;
use crate::operation::Operation;
use crate::subject::{FlawKind, Geometry};

/// Trouble of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// A fault strikes the `nth` request of its kind from now on.
    Fault {
        /// Number of the request; 1 is the next.
        nth: u64,
        /// Fault that strikes.
        fault: Fault,
    },
    /// A bit flips in each of `sectors` sectors.
    Rot {
        /// Number of sectors.
        sectors: u64,
    },
    /// The disk is gone.
    Vanish,
    /// The disk answers nothing any more.
    Hang,
    /// The disk's content is remembered for a return.
    Remember,
    /// The disk is back, unchanged.
    Return,
    /// The disk is back without its unsafe content: its power was gone.
    ReturnAfterPowerCut,
    /// The disk is back with the remembered content.
    ReturnOld,
    /// The disk is back with some sectors of the remembered content.
    ReturnMixed,
}

/// An attempt: a possible result of a power failure that is harsher than a power cut alone. The
/// result is only tried: the history goes on as if nothing had happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// Nothing else goes wrong, but the caches of all disks are lost together.
    Cut,
    /// Disks that were lost are back, and a disk from `first` up to `end` is away. An error reports
    /// that; nothing may be missing silently.
    Parting {
        /// First disk that may be away.
        first: usize,
        /// Disk behind the last that may be away.
        end: usize,
    },
    /// No label has the newest checkpoint any more. Every second time, all but one label of each
    /// disk may be gone, too. Nothing may be missing.
    LostRoot,
    /// A change that the power cut took is made again with equal bytes, while the changes behind it
    /// are not. Those may not come back.
    Repeat,
    /// The mark that an opening wrote is lost, and the earlier content of its place is back. Later
    /// promises do not need the mark.
    LostMark,
}

/// A step of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// An operation is submitted.
    Submit(Operation),
    /// Disks give this number of answers.
    Advance(u32),
    /// The run waits for all operations.
    Drain,
    /// The power fails and returns. It fails again in each opening after some answers of disks.
    PowerCut {
        /// Number of answers after which the power fails again, for each opening that is cut.
        again_after: Vec<u32>,
    },
    /// The program ends and is started again. The disks keep their power.
    Kill,
    /// The store is exported in order, with everything that it took. Then the power fails, and the
    /// store is opened again.
    Export,
    /// All is written out and scrubbed. After that, no copy of anything may be bad.
    Heal,
    /// Disks get more sectors. The pool is not told.
    Grow {
        /// Disk that grows; `None` for all disks.
        disk: Option<usize>,
        /// Number of sectors that are added.
        sectors: u64,
    },
    /// The results of a power failure at this moment are tried, in several ways. The history goes
    /// on as if the power had not failed.
    TryCuts {
        /// Number of ways.
        ways: usize,
    },
    /// The results of a power failure are tried, with one more damage in each: one place that leads
    /// to promised data cannot be read any more. The store must report that. A place that is no
    /// longer needed must not be missed.
    LoseRecords {
        /// Number of ways.
        ways: usize,
    },
    /// The results of a power failure at this moment are tried, in several ways. In each, one
    /// sector rots that leads to others, and everything must be found. The history goes on as if
    /// nothing had happened.
    RotMetadata {
        /// Number of ways.
        ways: usize,
    },
    /// The content of all disks is remembered, beside earlier contents.
    RememberAll,
    /// The power fails or the program is killed. Some disks come back with remembered content, as
    /// many as redundancy covers.
    OldCopies {
        /// Number of answers after which the power fails again, for each opening that is cut.
        again_after: Vec<u32>,
        /// Whether the power fails.
        power: bool,
    },
    /// The power fails, and up to three of the four labels of each disk are lost.
    LoseLabels,
    /// The power fails, and some disks lose all labels at their ends. These are rebuilt from the
    /// inner ones. The power may fail while they are written.
    LoseAllLabels,
    /// The power fails, and one disk that redundancy covers is shorter from then on.
    Shrink,
    /// [`Step::OldCopies`] is tried for several ways in which the power may fail. When all is
    /// rebuilt, as many other disks are lost. The history goes on as if this had not happened.
    TryOldCopies {
        /// Number of ways.
        ways: usize,
    },
    /// A disk in use is copied. The copy stays beside it from now on: every later opening sees the
    /// copy too, and must not take it.
    Copy {
        /// Disk that is copied.
        disk: usize,
    },
    /// All disks are copied in one moment, as a snapshot of an array does it. The copies become a
    /// store of their own, which must hold everything that was promised by then.
    CopyAll,
    /// An attempt is made: see [`Attempt`].
    Try(Attempt),
    /// A disk has trouble.
    Trouble {
        /// Disk of the trouble.
        disk: usize,
        /// Kind of trouble.
        trouble: Trouble,
    },
}

/// A history: the events of a store's life.
#[derive(Clone, Debug)]
pub struct History {
    /// Seed that made the history.
    pub seed: u64,
    /// Seed of all that is left to chance while the history runs. At first it equals `seed`.
    pub chance: u64,
    /// Geometry of the store.
    pub geometry: Geometry,
    /// Behaviour of its disks.
    pub behaviour: Behaviour,
    /// Disks that lie and fail. All others are honest.
    pub unreliable: Vec<usize>,
    /// Promises of the store on these disks.
    pub rules: Rules,
    /// Whether operations and openings may fail. Wrong bytes are never allowed.
    pub tolerates_errors: bool,
    /// Whether a lack of space is the only failure that may happen. Operations that need no space
    /// never fail then.
    pub lacks_only_space: bool,
    /// Number of ways to fail the power that are tried before each answered flush of a disk.
    pub cuts_per_flush: usize,
    /// Flushes of a thousand at which cuts are tried; every one with 1000.
    pub cut_flushes_per_mille: u64,
    /// Attempt that is made before flushes, and the number of flushes in a thousand before which it
    /// is made.
    pub attempt: Option<(Attempt, u64)>,
    /// Whether cuts are also tried before flushes of openings.
    pub cuts_openings: bool,
    /// Whether, after each opening, all extents are asked whether they have space or are holes.
    pub asks_extents: bool,
    /// Steps of the history.
    pub steps: Vec<Step>,
}

impl History {
    /// Reports whether a pool that went through this history may have this flaw.
    ///
    /// Bad copies come from disks that do not report the harm they did. Nothing is lost where the
    /// store promises that durable data stays, unless more disks fail than redundancy covers.
    /// Nothing ever contradicts itself.
    pub fn allows(&self, flaw: FlawKind) -> bool {
        match flaw {
            FlawKind::BadCopy => self.has_silent_damage() || self.rots_metadata(),
            FlawKind::Lost => !self.rules.durability && self.has_silent_damage(),
            FlawKind::Lacking => self.tolerates_errors,
            FlawKind::Contradiction => false,
        }
    }

    /// Reports whether a read may be an error.
    pub fn reads_may_fail(&self) -> bool {
        self.tolerates_errors && !self.lacks_only_space
    }

    /// Reports whether sectors that lead to others rot in attempts.
    fn rots_metadata(&self) -> bool {
        let mut steps = self.steps.iter();
        steps.any(|step| matches!(step, Step::RotMetadata { .. }))
    }

    /// Reports whether disks do harm that they do not report.
    fn has_silent_damage(&self) -> bool {
        let silent = |trouble: &Trouble| match trouble {
            Trouble::Fault { fault, .. } => fault.is_silent(),
            Trouble::Rot { .. } | Trouble::ReturnOld | Trouble::ReturnMixed => true,
            // Nobody may have asked the disk anything while it was away.
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

/// Climate of a family's histories. The seed decides the rest.
#[derive(Clone, Debug)]
pub struct Climate {
    /// Number of disks.
    pub disks: usize,
    /// Sectors of 4 KiB of each disk.
    pub disk_sectors: u64,
    /// Number of volumes that exist from the beginning.
    pub volumes: Range<u64>,
    /// Largest size of a volume, in blocks of 4 KiB.
    pub blocks: u64,
    /// Sizes of volume blocks to choose from, in blocks of 4 KiB.
    pub units: Vec<u64>,
    /// Volumes of a thousand that are thick.
    pub thick_per_mille: u64,
    /// Largest size of a thick volume, in blocks of 4 KiB.
    pub thick_blocks: u64,
    /// Number of steps.
    pub steps: Range<u64>,
    /// Whether all volumes are written before, as far as there is room, the thick ones last.
    pub fills: bool,
    /// Behaviour of the disks. The seed chooses the tearing.
    pub behaviour: Behaviour,
    /// Promises of the store on these disks.
    pub rules: Rules,
    /// Whether operations may fail: see [`History::tolerates_errors`].
    pub tolerates_errors: bool,
    /// Whether only a lack of space is a failure: see [`History::lacks_only_space`].
    pub lacks_only_space: bool,
    /// Changes of a thousand that do not end at blocks.
    pub unaligned_per_mille: u64,
    /// Steps of a thousand that are administration.
    pub admin_per_mille: u64,
    /// Steps of a thousand that change the disks of the pool.
    pub reshapes_per_mille: u64,
    /// Steps of a thousand that are power cuts or kills.
    pub crashes_per_mille: u64,
    /// Steps of a thousand that are troubles of a disk.
    pub troubles_per_mille: u64,
    /// Number of disks that may come back with old contents, if they are among those that fail at
    /// all.
    pub losable: usize,
    /// Whether only disks that may come back with old contents lie, fail or vanish. Then no request
    /// to the pool may fail.
    pub only_losable_fail: bool,
    /// Disks that fail or vanish, if only these do.
    pub troubled: Option<Range<usize>>,
    /// Histories of a thousand that try cuts at every flush.
    pub cut_histories_per_mille: u64,
    /// Number of ways to cut at each flush.
    pub cuts_per_flush: usize,
    /// Flushes of a thousand, in those histories, at which cuts are tried.
    pub cut_flushes_per_mille: u64,
    /// Steps of a thousand that ask for extents: what has space and what is a hole.
    pub extents_per_mille: u64,
    /// Steps of a thousand that read, beside the reads of all histories.
    pub reads_per_mille: u64,
    /// Steps of a thousand that let disks grow, or tell the pool of it.
    pub grows_per_mille: u64,
    /// Steps of a thousand that begin, pause or end trims of disks.
    pub trims_per_mille: u64,
    /// Steps of a thousand that change the reservation of a volume.
    pub reserves_per_mille: u64,
    /// Steps of a thousand that destroy several volumes or snapshots, or take the snapshots for
    /// that.
    pub destroys_per_mille: u64,
    /// Steps of a thousand that flip bits of disks that may come back with old contents.
    pub rots_per_mille: u64,
    /// Whether power cuts tear most often, and treat the writes that a flush covers otherwise than
    /// later ones.
    pub cuts_at_flushes: bool,
    /// Whether the seed may also choose disks that stall or keep trimmed bytes, openings that are
    /// cut late, and all kinds of administration.
    pub is_hard: bool,
    /// Whether sectors that a power cut tore may be unreadable. In the log, such a sector may be
    /// the one that tells where the log ends. The store may then refuse to open.
    pub ruins: bool,
}

impl Default for Climate {
    /// Makes a climate of honest disks that lose their power often, under small volumes.
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
            reads_per_mille: 0,
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
