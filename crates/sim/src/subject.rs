//! The subject of the crash laboratory's attacks: anything that keeps volumes on disks and
//! acknowledges changes.
//!
//! A subject has the form of the store's engine. Nothing waits, requests for disks come out, and
//! their answers and the time go in. The engine's adapter implements it; so do the toys that prove
//! the laboratory.

use std::collections::BTreeMap;
use std::fmt;

use pages::Pages;

use crate::disk::{DeviceOp, DeviceOutcome, Disk, Medium};
use crate::operation::{Operation, VolumeId};
use crate::random::Random;

/// A volume that exists from the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeSpec {
    /// Number of the volume.
    pub id: VolumeId,
    /// Size in blocks of 4 KiB.
    pub blocks: u64,
    /// Size of a volume block, in blocks of 4 KiB. A volume block is written whole or not at all.
    pub unit: u64,
    /// Whether space is reserved for all of the volume. A write never fails for lack of space then.
    pub is_thick: bool,
}

/// Geometry of a subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Number of disks.
    pub disks: usize,
    /// Sectors of 4 KiB of each disk.
    pub disk_sectors: u64,
    /// Volumes of the beginning.
    pub volumes: Vec<VolumeSpec>,
    /// Sectors of the disks that have another size by now.
    pub grown: BTreeMap<usize, u64>,
}

impl Geometry {
    /// Returns the number of sectors of a disk.
    pub fn sectors(&self, disk: usize) -> u64 {
        self.grown.get(&disk).copied().unwrap_or(self.disk_sectors)
    }

    /// Returns this geometry on disks as large as these.
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
pub enum SubjectState {
    /// The subject takes none yet: it reads or writes its disks.
    Opening,
    /// The subject takes operations.
    Open,
    /// The subject will never take any, for this reason.
    Refused(String),
}

/// A request for a disk.
#[derive(Clone, Debug)]
pub struct DiskRequest {
    /// Number of the disk, from 0.
    pub disk: usize,
    /// Number of the request, to be named in [`Subject::completed`]. One subject never uses it
    /// twice.
    pub id: u64,
    /// Work of the disk.
    pub op: DeviceOp,
}

/// Answer to an operation.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Tag with which the operation was submitted.
    pub tag: u64,
    /// Result of the operation, or the reason why it failed.
    pub outcome: Result<Outcome, String>,
}

/// Result of an operation that ended well.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The operation is done.
    Done,
    /// The bytes of a read.
    Data(Pages),
    /// Runs of a non-empty part of the range in question, from its start on: length in bytes, and
    /// whether the run holds data.
    Extents(Vec<(u64, bool)>),
}

/// Work of a store besides serving, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnderWay {
    /// Whether missing blocks of a leaf are rebuilt on it.
    pub resilver: bool,
    /// Whether every copy is read.
    pub scrub: bool,
    /// Whether blocks of destroyed datasets become free.
    pub freeing: bool,
    /// Whether the content of the log is written out.
    pub checkpoint: bool,
    /// Whether the labels do not say yet that the pool is larger.
    pub growth: bool,
}

/// Cost of a [`Flaw`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlawKind {
    /// A copy is wrong, and another one is right.
    BadCopy,
    /// No copy is right, or data to which only such a copy leads cannot be proven.
    Lost,
    /// Data is lost as in `Lost`, but more leaves lack a part than redundancy covers, and the store
    /// knows that they do.
    Lacking,
    /// The store contradicts itself. No disk may cause that, whatever it does: its answers are
    /// checked before they are believed.
    Contradiction,
}

/// Flaw of the content of disks.
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

/// Counts of a store's work: changes of its disks, and ways of its reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moves {
    /// Takeovers by disks that stood ready and replaced another by themselves.
    pub takeovers: u64,
    /// Changes of [`Reshape`](crate::operation::Reshape) that were taken.
    pub reshapes: u64,
    /// Vdevs that became larger.
    pub growths: u64,
    /// Sectors of which disks were told that they are free.
    pub trimmed: u64,
    /// Reads that lanes answered from the cache.
    pub from_cache: u64,
    /// Reads that lanes answered with bytes that they had read in advance.
    pub waited_for: u64,
    /// Reads that lanes made on disks, beside the engine.
    pub read_beside: u64,
    /// Reads that lanes left to the engine.
    pub handed_over: u64,
}

impl std::ops::Add for Moves {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            takeovers: self.takeovers + other.takeovers,
            reshapes: self.reshapes + other.reshapes,
            growths: self.growths + other.growths,
            trimmed: self.trimmed + other.trimmed,
            from_cache: self.from_cache + other.from_cache,
            waited_for: self.waited_for + other.waited_for,
            read_beside: self.read_beside + other.read_beside,
            handed_over: self.handed_over + other.handed_over,
        }
    }
}

/// Place of a record that leads to promised changes. Another place proves that the record was
/// durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProvenRecord {
    /// Number of the record, by which later ones are found.
    pub number: u64,
    /// Disk of the record.
    pub disk: usize,
    /// Sector of the record.
    pub sector: u64,
    /// Whether a second copy lies somewhere else. It does not replace the record but shows that it
    /// is missing.
    pub is_twice: bool,
}

/// A store under attack.
pub trait Subject: Sized {
    /// Type of the further facts with which a store is made.
    type Setup;

    /// Makes a pool with its volumes on disks of zeros.
    fn create(setup: &Self::Setup, geometry: &Geometry, now_us: u64) -> Self;

    /// Opens the pool on the disks. The geometry has the number of disks; its volumes are those of
    /// the beginning.
    fn open(setup: &Self::Setup, geometry: &Geometry, now_us: u64) -> Self;

    /// Returns whether the store takes operations.
    fn state(&self) -> SubjectState;

    /// Returns the places of the newest checkpoint that an opening would follow, and the other
    /// places that should have it, as disk and sector. Returns nothing if there is no checkpoint
    /// before it.
    fn newest_root(
        setup: &Self::Setup,
        disks: &[Medium],
        geometry: &Geometry,
    ) -> Vec<(usize, u64)> {
        let _ = (setup, disks, geometry);
        Vec::new()
    }

    /// Returns the places of marks that openings left at the ends of logs, as disk and sector.
    fn marks(setup: &Self::Setup, disks: &[Medium]) -> Vec<(usize, u64)> {
        let _ = (setup, disks);
        Vec::new()
    }

    /// Closes the store in order. When that is done, all that was answered is safe. Nothing is
    /// asked from now on.
    fn close(&mut self, now_us: u64) {
        let _ = now_us;
    }

    /// Reports whether the close is done.
    fn is_closed(&self) -> bool {
        true
    }

    /// Notes that a disk has `sectors` sectors now.
    fn resized(&mut self, disk: usize, sectors: u64) {
        let _ = (disk, sectors);
    }

    /// Returns the sectors that the store has for blocks: those in use, and those of them that it
    /// will have after any power cut. Returns `None` if it does not know.
    fn sectors(&self) -> Option<(u64, u64)> {
        None
    }

    /// Returns the work of the store besides serving.
    fn under_way(&self) -> UnderWay {
        UnderWay::default()
    }

    /// Returns groups of disks of which some may be lost now, each with the number that may.
    /// Returns none if something is missing already.
    fn losable(&self) -> Vec<(Vec<usize>, usize)> {
        Vec::new()
    }

    /// Reports whether disks lack data that they should have.
    fn is_lacking(&self) -> bool {
        false
    }

    /// Returns the counts of the store's work.
    fn moves(&self) -> Moves {
        Moves::default()
    }

    /// Returns the existing volumes and snapshots, with their sizes in blocks of 4 KiB. It is asked
    /// after opening.
    fn volumes(&self) -> Vec<(VolumeId, u64)>;

    /// Takes an operation; writes have `data`. The operation is answered once, under `tag`.
    fn submit(&mut self, tag: u64, operation: &Operation, data: Pages, now_us: u64);

    /// Takes a disk's answer.
    fn completed(&mut self, disk: usize, id: u64, outcome: DeviceOutcome, now_us: u64);

    /// Returns the time at which [`Subject::tick`] wants to be called, if nothing else happens.
    fn next_tick_us(&self) -> Option<u64>;

    /// Notes that time has passed.
    fn tick(&mut self, now_us: u64);

    /// Moves the new requests for disks to `out`.
    fn take_requests(&mut self, out: &mut Vec<DiskRequest>);

    /// Moves the answers that are ready to `out`.
    fn take_answers(&mut self, out: &mut Vec<Answer>);

    /// Returns places of records, oldest first. Without any one of them, promised changes cannot be
    /// found. A power cut left the content of the disks.
    fn proven_records(setup: &Self::Setup, disks: &[Medium]) -> Vec<ProvenRecord> {
        let _ = (setup, disks);
        Vec::new()
    }

    /// Returns sectors of disks that lead to others, each of which may rot without a loss, as disk
    /// and sector.
    fn metadata(setup: &Self::Setup, disks: &[Medium]) -> Vec<(usize, u64)> {
        let _ = (setup, disks);
        Vec::new()
    }

    /// Reports whether a refusal to open says that one of these records is missing.
    fn misses_a_record(why: &str) -> bool {
        let _ = why;
        false
    }

    /// Reports whether the content of another disk claims to be a disk of this store, so that
    /// nobody could tell the two apart. Returns `None` if only a part claims so.
    fn is_twin(&self, medium: &Medium, sectors: u64) -> Option<bool> {
        let _ = (medium, sectors);
        Some(false)
    }

    /// Reports whether a refusal to open says that there are two copies of one disk.
    fn refuses_twins(why: &str) -> bool {
        let _ = why;
        false
    }

    /// Makes copies of all disks a store of its own. Chance decides when the power fails meanwhile,
    /// and then the change is made again. Returns the setup with which the new store is opened from
    /// then on, and how often the power failed. Returns `None` if this store cannot do it.
    fn become_another(
        setup: &Self::Setup,
        copies: &mut [Medium],
        geometry: &Geometry,
        random: &mut Random,
    ) -> Option<Result<(Self::Setup, u64), String>> {
        let _ = (setup, copies, geometry, random);
        None
    }

    /// Proves the content of the disks, if the store can. It is called right after an opening and
    /// before anything else, and nothing is asked after it. Returns the flaws.
    fn prove(&mut self, disks: &mut [Disk], now_us: u64) -> Vec<Flaw> {
        let _ = (disks, now_us);
        Vec::new()
    }
}
