//! Interface of a store that the crash laboratory attacks: it keeps volumes on disks and
//! acknowledges changes.
//!
//! The interface has the shape of the store's engine. Nothing waits: requests for disks come out,
//! and their answers and the time go in. The engine's adapter implements it, and so do the toys
//! that prove the laboratory.

use std::collections::BTreeMap;
use std::fmt;

use pages::Pages;

use crate::disk::{DeviceOp, DeviceOutcome, Disk, Medium};
use crate::operation::{Operation, VolumeId};
use crate::random::Random;

/// Volume that is there from the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeSpec {
    /// Name of the volume.
    pub id: VolumeId,
    /// Size of the volume, in blocks of 4 KiB.
    pub blocks: u64,
    /// Size of a volume block, in blocks of 4 KiB: it is written whole or not at all.
    pub unit: u64,
    /// Whether space is kept for the whole volume, so that a write never fails for lack of space.
    pub is_thick: bool,
}

/// Disks and volumes that a subject is made on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Number of disks.
    pub disks: usize,
    /// Size of each disk, in sectors of 4 KiB.
    pub disk_sectors: u64,
    /// Volumes of the beginning.
    pub volumes: Vec<VolumeSpec>,
    /// Sizes, in sectors, of the disks that have another size by now.
    pub grown: BTreeMap<usize, u64>,
}

impl Geometry {
    /// Returns the size of a disk, in sectors.
    pub fn sectors(&self, disk: usize) -> u64 {
        self.grown.get(&disk).copied().unwrap_or(self.disk_sectors)
    }

    /// Returns this geometry with the sizes of these disks.
    pub fn on(&self, disks: &[Disk]) -> Self {
        let sizes = disks.iter().map(Disk::sectors).enumerate();
        let others = sizes.filter(|(_, sectors)| *sectors != self.disk_sectors);
        Self {
            grown: others.collect(),
            ..self.clone()
        }
    }
}

/// State of a subject: whether it takes operations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Opening: the subject still reads or writes its disks.
    Opening,
    /// Open: the subject takes operations.
    Open,
    /// Refused for good, with the reason.
    Refused(String),
}

/// Request for a disk.
#[derive(Clone, Debug)]
pub struct DiskRequest {
    /// Number of the disk, from 0.
    pub disk: usize,
    /// Number that [`Subject::completed`] names; a subject never uses one twice.
    pub id: u64,
    /// Operation of the disk.
    pub op: DeviceOp,
}

/// Answer to an operation.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Tag that the operation was submitted with.
    pub tag: u64,
    /// Result of the operation, or the reason why it failed.
    pub outcome: Result<Outcome, String>,
}

/// Result of an operation that succeeded.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The operation is done.
    Done,
    /// Bytes of a read.
    Data(Pages),
    /// Runs of a non-empty part of the queried slices, from their start on.
    ///
    /// A run is its length in bytes, and whether it holds data.
    Extents(Vec<(u64, bool)>),
}

/// Work of a store at one moment, besides serving.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnderWay {
    /// A resilver rebuilds the content that a leaf lacks.
    pub resilver: bool,
    /// A scrub reads every copy.
    pub scrub: bool,
    /// Blocks of destroyed datasets become free.
    pub freeing: bool,
    /// A checkpoint writes out the content of the log.
    pub checkpoint: bool,
    /// The labels do not say yet that the pool is larger.
    pub growth: bool,
}

/// Cost of a [`Flaw`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlawKind {
    /// A copy is wrong, and another copy is right.
    BadCopy,
    /// No copy is right, or a block that only a wrong copy leads to cannot be proven.
    Lost,
    /// A [`FlawKind::Lost`] of a part that more leaves lack than redundancy covers; the store knows
    /// that they do.
    Lacking,
    /// The store contradicts itself.
    ///
    /// No disk may bring that about, whatever it does: the store checks every returned byte before
    /// it believes it.
    Contradiction,
}

/// Error in the content of the disks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flaw {
    /// Cost of the flaw.
    pub kind: FlawKind,
    /// Description and place of the flaw.
    pub text: String,
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Counts of the changes of a store's disks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moves {
    /// Number of spares that took the place of a disk by themselves.
    pub takeovers: u64,
    /// Number of [`Reshape`](crate::operation::Reshape)s that the store accepted.
    pub reshapes: u64,
    /// Number of vdevs that became larger.
    pub growths: u64,
    /// Number of sectors that disks were told are free.
    pub trimmed: u64,
}

impl std::ops::Add for Moves {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            takeovers: self.takeovers + other.takeovers,
            reshapes: self.reshapes + other.reshapes,
            growths: self.growths + other.growths,
            trimmed: self.trimmed + other.trimmed,
        }
    }
}

/// Place of a log record that leads to promised changes. Another place proves that it was durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProvenRecord {
    /// Number of the record: later records are found by it.
    pub number: u64,
    /// Disk of the record.
    pub disk: usize,
    /// Sector of the record.
    pub sector: u64,
    /// Whether a second copy lies elsewhere.
    ///
    /// The copy does not replace the record, but shows that the record is missing.
    pub is_twice: bool,
}

/// Store under attack.
pub trait Subject: Sized {
    /// Further settings that the store is made with.
    type Setup;

    /// Makes a pool with its volumes on disks of zeros.
    fn create(setup: &Self::Setup, geometry: &Geometry, now_us: u64) -> Self;

    /// Opens the store on these disks. The geometry gives their number; its volumes are those of
    /// the beginning.
    fn open(setup: &Self::Setup, geometry: &Geometry, now_us: u64) -> Self;

    /// Returns the state: whether the store takes operations.
    fn state(&self) -> State;

    /// Returns the places of the newest checkpoint that an opening would follow, as disk and
    /// sector.
    ///
    /// The list also holds the places where that checkpoint should lie besides. The list is empty
    /// if no checkpoint comes before the newest one.
    fn newest_root(
        setup: &Self::Setup,
        disks: &[Medium],
        geometry: &Geometry,
    ) -> Vec<(usize, u64)> {
        let _ = (setup, disks, geometry);
        Vec::new()
    }

    /// Returns the places of the marks that openings left at the ends of logs, as disk and sector.
    fn marks(setup: &Self::Setup, disks: &[Medium]) -> Vec<(usize, u64)> {
        let _ = (setup, disks);
        Vec::new()
    }

    /// Begins to let go of the disks in order. Every answered change is safe when that is done.
    ///
    /// Nothing is asked from now on.
    fn close(&mut self, now_us: u64) {
        let _ = now_us;
    }

    /// Reports whether the store has let go of its disks.
    fn is_closed(&self) -> bool {
        true
    }

    /// Tells the store that a disk now has this number of sectors.
    fn resized(&mut self, disk: usize, sectors: u64) {
        let _ = (disk, sectors);
    }

    /// Returns the sectors for blocks: the number in use, and the number in use after any power
    /// cut.
    ///
    /// `None` if the store does not know them yet.
    fn sectors(&self) -> Option<(u64, u64)> {
        None
    }

    /// Returns the work of the store besides serving.
    fn under_way(&self) -> UnderWay {
        UnderWay::default()
    }

    /// Returns groups of disks of which some may be lost now, and how many of each group.
    ///
    /// The list is empty if something is lacking already.
    fn losable(&self) -> Vec<(Vec<usize>, usize)> {
        Vec::new()
    }

    /// Reports whether disks lack content that they should have.
    fn is_lacking(&self) -> bool {
        false
    }

    /// Returns the counts of the changes of the store's disks.
    fn moves(&self) -> Moves {
        Moves::default()
    }

    /// Returns the existing volumes and snapshots, and their sizes in blocks of 4 KiB.
    ///
    /// Called after opening.
    fn volumes(&self) -> Vec<(VolumeId, u64)>;

    /// Takes an operation; a write has `data`. The operation is answered once, under `tag`.
    fn submit(&mut self, tag: u64, operation: &Operation, data: Pages, now_us: u64);

    /// Takes the answer of a disk.
    fn completed(&mut self, disk: usize, id: u64, outcome: DeviceOutcome, now_us: u64);

    /// Returns the time for the next call of [`Subject::tick`], if nothing else happens.
    fn next_tick_us(&self) -> Option<u64>;

    /// Tells the store that time has passed.
    fn tick(&mut self, now_us: u64);

    /// Moves the new requests for disks to `out`.
    fn take_requests(&mut self, out: &mut Vec<DiskRequest>);

    /// Moves the answers that are ready to `out`.
    fn take_answers(&mut self, out: &mut Vec<Answer>);

    /// Returns the places without any one of which promised changes cannot be found, oldest first.
    ///
    /// A power cut left the content of these disks.
    fn proven_records(setup: &Self::Setup, disks: &[Medium]) -> Vec<ProvenRecord> {
        let _ = (setup, disks);
        Vec::new()
    }

    /// Returns sectors that lead to others, as disk and sector. Each may rot without a loss.
    fn metadata(setup: &Self::Setup, disks: &[Medium]) -> Vec<(usize, u64)> {
        let _ = (setup, disks);
        Vec::new()
    }

    /// Reports whether a refusal to open says that one of the [proven
    /// records](Self::proven_records) is missing.
    fn misses_a_record(why: &str) -> bool {
        let _ = why;
        false
    }

    /// Reports whether the content of another disk claims to be a disk of this store.
    ///
    /// Nobody could then tell the two apart. `None` if only a part of the content claims so.
    fn is_twin(&self, medium: &Medium, sectors: u64) -> Option<bool> {
        let _ = (medium, sectors);
        Some(false)
    }

    /// Reports whether a refusal to open says that one disk is there twice.
    fn refuses_twins(why: &str) -> bool {
        let _ = why;
        false
    }

    /// Makes copies of all disks a store of its own, and returns its setup and the number of power
    /// cuts.
    ///
    /// The power fails by chance, and then the work is done again. The setup opens the store from
    /// then on. `None` if this store has no way to do that.
    fn become_another(
        setup: &Self::Setup,
        copies: &mut [Medium],
        geometry: &Geometry,
        random: &mut Random,
    ) -> Option<Result<(Self::Setup, u64), String>> {
        let _ = (setup, copies, geometry, random);
        None
    }

    /// Proves the content of the disks if the store can, and returns the flaws.
    ///
    /// Called right after an opening and before anything else. It is the last call of this subject.
    fn prove(&mut self, disks: &mut [Disk], now_us: u64) -> Vec<Flaw> {
        let _ = (disks, now_us);
        Vec::new()
    }
}
