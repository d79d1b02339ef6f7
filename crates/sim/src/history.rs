//! Histories: the events of a store's life, step by step, and their generation from seeds.
//!
//! A history is data. It can therefore be shortened, and the shorter history can run again.

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
        /// Fault that strikes the request.
        fault: Fault,
    },
    /// A bit turns over in each of several sectors.
    Rot {
        /// Number of sectors.
        sectors: u64,
    },
    /// The disk is gone.
    Vanish,
    /// The disk no longer answers.
    Hang,
    /// The content of the disk is remembered for a return.
    Remember,
    /// The disk is back as it was.
    Return,
    /// The disk lost its power and is back without the bytes that were not safe.
    ReturnAfterPowerCut,
    /// The disk is back with the remembered content.
    ReturnOld,
    /// The disk is back, and some of its sectors have their remembered content.
    ReturnMixed,
}

/// Trial of the states that the power may leave behind at one moment, harsher than a power cut
/// alone.
///
/// The attempt is only a trial: the history goes on as if nothing had happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// Nothing else goes wrong, but all disks lose their caches together.
    Cut,
    /// Lost disks are back, and one disk from `first` up to `end` is away.
    ///
    /// An error tells of the missing disk. No content is missing silently.
    Parting {
        /// First disk that may be away.
        first: usize,
        /// Disk behind the last that may be away.
        end: usize,
    },
    /// No label holds the newest checkpoint any more.
    ///
    /// Every second time, all but one label of each disk may also be gone. No content is missing.
    LostRoot,
    /// A change that the power cut took is made again with the same bytes.
    ///
    /// The changes behind it are not made again, and they do not come back.
    Repeat,
    /// The mark that an opening wrote is lost, and the earlier bytes are back in its place.
    ///
    /// Changes that were promised since then do not need the mark.
    LostMark,
}

/// A step of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// An operation is submitted.
    Submit(Operation),
    /// The disks give this number of answers.
    Advance(u32),
    /// The run waits for all operations.
    Drain,
    /// The power fails and returns. In each opening it fails again after a number of disk answers.
    PowerCut {
        /// Numbers of answers before the next power cut, one for each opening that is cut.
        again_after: Vec<u32>,
    },
    /// The program ends and is started again; the disks keep their power.
    Kill,
    /// The store is exported in order, with every change that it took. Then the power fails, and
    /// the store is opened again.
    Export,
    /// All changes are written out and scrubbed. Then no copy of any block is bad.
    Heal,
    /// Disks become larger; the pool is not told.
    Grow {
        /// Disk that grows; `None` means all disks.
        disk: Option<usize>,
        /// Number of added sectors.
        sectors: u64,
    },
    /// A power failure is tried in several ways, and the recovered state is judged.
    ///
    /// The history goes on as if the power had not failed.
    TryCuts {
        /// Number of ways in which the power may fail.
        ways: usize,
    },
    /// A power failure is tried as in [`Step::TryCuts`], and one place that leads to promised
    /// changes becomes unreadable.
    ///
    /// The store must report that place, and must not miss a place that it no longer needs.
    LoseRecords {
        /// Number of ways in which the power may fail.
        ways: usize,
    },
    /// A power failure is tried in several ways; in each, one sector that leads to others rots.
    ///
    /// All content must still be found. The history goes on as if nothing had happened.
    RotMetadata {
        /// Number of ways in which the power may fail.
        ways: usize,
    },
    /// The content of all disks is remembered, beside the contents that were remembered before.
    RememberAll,
    /// Disks come back with their remembered content, as many as redundancy covers.
    ///
    /// Before that, the power fails or the program is killed.
    OldCopies {
        /// Numbers of answers before the next power cut, one for each opening that is cut.
        again_after: Vec<u32>,
        /// Whether the power fails.
        power: bool,
    },
    /// The power fails, and each disk loses up to three of its four labels.
    LoseLabels,
    /// The power fails, and some disks lose all labels at their ends.
    ///
    /// These labels are made again from the inner ones. The power may fail while they are written.
    LoseAllLabels,
    /// The power fails, and one disk that redundancy covers is shorter from then on.
    Shrink,
    /// [`Step::OldCopies`] is tried for several ways in which the power may fail.
    ///
    /// When the store has rebuilt everything, as many other disks are lost. The history goes on as
    /// if nothing had happened.
    TryOldCopies {
        /// Number of ways in which the power may fail.
        ways: usize,
    },
    /// A disk in use is copied, and the copy stays beside it from now on.
    ///
    /// Every later opening is shown the copy too, and the store must not take it.
    Copy {
        /// Disk that is copied.
        disk: usize,
    },
    /// All disks are copied at one moment, as a snapshot of an array does it.
    ///
    /// The copies become a store of their own, which must hold every change that was promised by
    /// then.
    CopyAll,
    /// An [`Attempt`] is made.
    Try(Attempt),
    /// A disk meets trouble.
    Trouble {
        /// Disk that meets the trouble.
        disk: usize,
        /// Trouble that the disk meets.
        trouble: Trouble,
    },
}

/// Events of a store's life, with the disks and promises that they start from.
#[derive(Clone, Debug)]
pub struct History {
    /// Seed that the history was made from.
    pub seed: u64,
    /// Seed of all chance during the run; at first the same as [`History::seed`].
    pub chance: u64,
    /// Disks and volumes that the store is made on.
    pub geometry: Geometry,
    /// Behaviour of the unreliable disks.
    pub behaviour: Behaviour,
    /// Disks that lie and fail; all others are honest.
    pub unreliable: Vec<usize>,
    /// Promises of the store on these disks.
    pub rules: Rules,
    /// Whether operations and openings may fail. Wrong bytes are never allowed.
    pub tolerates_errors: bool,
    /// Whether lack of space is the only error that may occur. An operation that needs no space
    /// never fails.
    pub lacks_only_space: bool,
    /// Number of power failures that are tried before each answered flush of a disk.
    pub cuts_per_flush: usize,
    /// Share of the flushes at which power failures are tried, in a thousand; 1000 means every
    /// flush.
    pub cut_flushes_per_mille: u64,
    /// Attempt to make, and the share of the flushes before which it is made, in a thousand.
    pub attempt: Option<(Attempt, u64)>,
    /// Whether power failures are also tried before the flushes of openings.
    pub cuts_openings: bool,
    /// Whether each opening is followed by a query of all extents and holes.
    pub asks_extents: bool,
    /// Steps of the history.
    pub steps: Vec<Step>,
}

impl History {
    /// Reports whether a pool that went through this history may have a flaw of this kind.
    ///
    /// Bad copies come from disks that do not tell which harm they did. If the store promises
    /// durability, content is lost only when more disks fail than redundancy covers. The store
    /// never contradicts itself.
    pub fn allows(&self, flaw: FlawKind) -> bool {
        match flaw {
            FlawKind::BadCopy => self.has_silent_damage() || self.rots_metadata(),
            FlawKind::Lost => !self.rules.durability && self.has_silent_damage(),
            FlawKind::Lacking => self.tolerates_errors,
            FlawKind::Contradiction => false,
        }
    }

    /// Reports whether a read may return an error.
    pub fn reads_may_fail(&self) -> bool {
        self.tolerates_errors && !self.lacks_only_space
    }

    /// Reports whether the history rots sectors that lead to others.
    fn rots_metadata(&self) -> bool {
        let mut steps = self.steps.iter();
        steps.any(|step| matches!(step, Step::RotMetadata { .. }))
    }

    /// Reports whether disks do harm that they do not tell of.
    fn has_silent_damage(&self) -> bool {
        let silent = |trouble: &Trouble| match trouble {
            Trouble::Fault { fault, .. } => fault.is_silent(),
            Trouble::Rot { .. } | Trouble::ReturnOld | Trouble::ReturnMixed => true,
            // Nobody may have sent the disk a request while it was away.
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

/// Character of the histories of a family; the seed decides the rest.
#[derive(Clone, Debug)]
pub struct Climate {
    /// Number of disks.
    pub disks: usize,
    /// Size of each disk, in sectors of 4 KiB.
    pub disk_sectors: u64,
    /// Number of volumes that exist from the beginning.
    pub volumes: Range<u64>,
    /// Largest size of a volume, in blocks of 4 KiB.
    pub blocks: u64,
    /// Sizes of volume blocks to choose from, in blocks of 4 KiB.
    pub units: Vec<u64>,
    /// Share of the volumes that are thick, in a thousand.
    pub thick_per_mille: u64,
    /// Largest size of a thick volume, in blocks of 4 KiB.
    pub thick_blocks: u64,
    /// Number of steps.
    pub steps: Range<u64>,
    /// Whether all volumes are first written as far as there is room, the thick ones last.
    pub fills: bool,
    /// Behaviour of the disks; the seed chooses the tearing.
    pub behaviour: Behaviour,
    /// Promises of the store on these disks.
    pub rules: Rules,
    /// Value of [`History::tolerates_errors`].
    pub tolerates_errors: bool,
    /// Value of [`History::lacks_only_space`].
    pub lacks_only_space: bool,
    /// Share of the changes that do not end at block boundaries, in a thousand.
    pub unaligned_per_mille: u64,
    /// Share of the steps that are administration, in a thousand.
    pub admin_per_mille: u64,
    /// Share of the steps that change the disks of the pool, in a thousand.
    pub reshapes_per_mille: u64,
    /// Share of the steps that are power cuts or kills, in a thousand.
    pub crashes_per_mille: u64,
    /// Share of the steps that bring trouble to a disk, in a thousand.
    pub troubles_per_mille: u64,
    /// Number of disks that may come back with old contents, if they are among the disks that fail
    /// at all.
    pub losable: usize,
    /// Whether only the disks that may come back with old contents lie, fail or vanish.
    ///
    /// Then no request to the pool may fail.
    pub only_losable_fail: bool,
    /// Disks that may fail or vanish; `None` sets no limit.
    pub troubled: Option<Range<usize>>,
    /// Share of the histories that try power cuts at flushes, in a thousand.
    pub cut_histories_per_mille: u64,
    /// Number of power cuts to try at each of these flushes.
    pub cuts_per_flush: usize,
    /// Share of the flushes of these histories at which power cuts are tried, in a thousand.
    pub cut_flushes_per_mille: u64,
    /// Share of the steps that query extents and holes, in a thousand.
    pub extents_per_mille: u64,
    /// Share of the steps that let disks grow, or tell the pool of the growth, in a thousand.
    pub grows_per_mille: u64,
    /// Share of the steps that begin, pause or end trims of disks, in a thousand.
    pub trims_per_mille: u64,
    /// Share of the steps that change the size of a volume's reservation, in a thousand.
    pub reserves_per_mille: u64,
    /// Share of the steps that destroy several volumes or snapshots, or take the snapshots for
    /// that, in a thousand.
    pub destroys_per_mille: u64,
    /// Share of the steps that turn over bits of disks that may come back with old contents, in a
    /// thousand.
    pub rots_per_mille: u64,
    /// Whether power cuts tear most often, and treat the writes that a flush covers unlike later
    /// ones.
    pub cuts_at_flushes: bool,
    /// Whether the seed may also choose harder conditions.
    ///
    /// These are disks that stall or keep trimmed bytes, openings that are cut late, and all kinds
    /// of administration.
    pub is_hard: bool,
    /// Whether a write that a power cut tore may be unreadable.
    ///
    /// If the unreadable part tells where the log ends, the store may refuse to open.
    pub ruins: bool,
}

impl Default for Climate {
    /// Returns honest disks that lose their power often, under small volumes.
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
