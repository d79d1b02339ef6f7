//! What the crash laboratory attacks: anything that keeps volumes on disks and says when.
//!
//! Shaped as the store's engine is: nothing waits, requests for disks come out, their answers and the
//! time go in. The engine's adapter implements it; so do the toys that prove the laboratory.

use std::collections::BTreeMap;
use std::fmt;

use pages::Pages;

use crate::disk::{DeviceOp, DeviceOutcome, Disk, Medium};
use crate::operation::{Operation, VolumeId};
use crate::random::Random;

/// A volume that is there from the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeSpec {
    /// Its name.
    pub id: VolumeId,
    /// Its size in blocks of 4 KiB.
    pub blocks: u64,
    /// Its volume block, in blocks of 4 KiB: what is written whole or not at all.
    pub unit: u64,
    /// Whether space is kept for all of it: a write never fails for lack of space.
    pub is_thick: bool,
}

/// What a subject is made on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// How many disks.
    pub disks: usize,
    /// Sectors of 4 KiB of each.
    pub disk_sectors: u64,
    /// The volumes of the beginning.
    pub volumes: Vec<VolumeSpec>,
    /// Sectors of the disks that have another size by now.
    pub grown: BTreeMap<usize, u64>,
}

impl Geometry {
    /// Sectors of a disk.
    pub fn sectors(&self, disk: usize) -> u64 {
        self.grown.get(&disk).copied().unwrap_or(self.disk_sectors)
    }

    /// The same on disks as large as these.
    pub fn on(&self, disks: &[Disk]) -> Self {
        let sizes = disks.iter().map(Disk::sectors).enumerate();
        let others = sizes.filter(|(_, sectors)| *sectors != self.disk_sectors);
        Self {
            grown: others.collect(),
            ..self.clone()
        }
    }
}

/// Whether a subject takes operations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Not yet: it reads or writes its disks.
    Opening,
    /// It does.
    Open,
    /// It never will: why.
    Refused(String),
}

/// A request for a disk.
#[derive(Clone, Debug)]
pub struct DiskRequest {
    /// Which disk, from 0.
    pub disk: usize,
    /// To be named in [`Subject::completed`]; never used twice by one subject.
    pub id: u64,
    /// What to do.
    pub op: DeviceOp,
}

/// How an operation ended.
#[derive(Clone, Debug)]
pub struct Answer {
    /// What it was submitted with.
    pub tag: u64,
    /// What came of it, or why it failed.
    pub outcome: Result<Outcome, String>,
}

/// How an operation ended well.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// It is done.
    Done,
    /// A read's bytes.
    Data(Pages),
    /// Runs of a non-empty part of what was asked about, from its start on: length in bytes, and whether it holds data.
    Extents(Vec<(u64, bool)>),
}

/// What a store does besides serving, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnderWay {
    /// What a leaf lacks is rebuilt on it.
    pub resilver: bool,
    /// Every copy is read.
    pub scrub: bool,
    /// Blocks of what was destroyed become free.
    pub freeing: bool,
    /// What the log holds is written out.
    pub checkpoint: bool,
    /// The labels do not say yet that the pool is larger.
    pub growth: bool,
}

/// What a [`Flaw`] costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlawKind {
    /// A copy is wrong, and another one is right.
    BadCopy,
    /// No copy is right, or what only such a copy leads to cannot be proven.
    Lost,
    /// The same where more leaves lack a part than redundancy covers, and the store knows that they do.
    Lacking,
    /// The store contradicts itself. No disk may bring that about, whatever it does: what it returns is checked
    /// before it is believed.
    Contradiction,
}

/// Something that is wrong with what lies on disks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flaw {
    /// What it costs.
    pub kind: FlawKind,
    /// What and where it is.
    pub text: String,
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// How often the disks of a store changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moves {
    /// A disk that stood ready took the place of another by itself.
    pub takeovers: u64,
    /// A [`Reshape`](crate::operation::Reshape) was taken.
    pub reshapes: u64,
    /// A vdev became larger.
    pub growths: u64,
    /// Disks were told that so many sectors are free.
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

/// Where something lies that leads to changes that were promised, and that another place proves to have been durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProvenRecord {
    /// Its number: later ones are found by it.
    pub number: u64,
    /// The disk.
    pub disk: usize,
    /// The sector of it.
    pub sector: u64,
    /// Whether it lies somewhere else once more, which does not take its place but shows that it is missing.
    pub is_twice: bool,
}

/// A store under attack.
pub trait Subject: Sized {
    /// What else it is made with.
    type Setup;

    /// Makes a pool with its volumes on disks of zeros.
    fn create(setup: &Self::Setup, geometry: &Geometry, now_us: u64) -> Self;

    /// Opens what lies on the disks. The geometry says how many there are; its volumes are those of the
    /// beginning.
    fn open(setup: &Self::Setup, geometry: &Geometry, now_us: u64) -> Self;

    /// Whether it takes operations.
    fn state(&self) -> State;

    /// Where the newest checkpoint lies that an opening would follow, and where it should lie besides, as disk and sector.
    /// Nothing where there is none before it.
    fn newest_root(
        setup: &Self::Setup,
        disks: &[Medium],
        geometry: &Geometry,
    ) -> Vec<(usize, u64)> {
        let _ = (setup, disks, geometry);
        Vec::new()
    }

    /// Where marks lie that openings left at the ends of logs, as disk and sector.
    fn marks(setup: &Self::Setup, disks: &[Medium]) -> Vec<(usize, u64)> {
        let _ = (setup, disks);
        Vec::new()
    }

    /// Lets go of the disks in order: all that was answered is safe when that is done. Nothing is asked from now on.
    fn close(&mut self, now_us: u64) {
        let _ = now_us;
    }

    /// Whether that is done.
    fn is_closed(&self) -> bool {
        true
    }

    /// A disk has so many sectors now.
    fn resized(&mut self, disk: usize, sectors: u64) {
        let _ = (disk, sectors);
    }

    /// Sectors that it has for blocks: those in use, and those of them that it will have after any power cut. `None` where
    /// it does not know by now.
    fn sectors(&self) -> Option<(u64, u64)> {
        None
    }

    /// What it does besides.
    fn under_way(&self) -> UnderWay {
        UnderWay::default()
    }

    /// Disks of which some may be lost now, in groups, and how many of each. None where something is lacking already.
    fn losable(&self) -> Vec<(Vec<usize>, usize)> {
        Vec::new()
    }

    /// Whether disks lack what they should have.
    fn is_lacking(&self) -> bool {
        false
    }

    /// What became of its disks.
    fn moves(&self) -> Moves {
        Moves::default()
    }

    /// The volumes and snapshots that there are, and their sizes in blocks of 4 KiB. Asked after opening.
    fn volumes(&self) -> Vec<(VolumeId, u64)>;

    /// Takes an operation; writes have `data`. Answered once, under `tag`.
    fn submit(&mut self, tag: u64, operation: &Operation, data: Pages, now_us: u64);

    /// A disk answered.
    fn completed(&mut self, disk: usize, id: u64, outcome: DeviceOutcome, now_us: u64);

    /// When [`Subject::tick`] wants to be called, if nothing else happens.
    fn next_tick_us(&self) -> Option<u64>;

    /// Time has passed.
    fn tick(&mut self, now_us: u64);

    /// Moves the requests for disks that have come up to `out`.
    fn take_requests(&mut self, out: &mut Vec<DiskRequest>);

    /// Moves the answers that are ready to `out`.
    fn take_answers(&mut self, out: &mut Vec<Answer>);

    /// Places without any one of which changes cannot be found that were promised, oldest first. What is on the disks was left
    /// there by a power cut.
    fn proven_records(setup: &Self::Setup, disks: &[Medium]) -> Vec<ProvenRecord> {
        let _ = (setup, disks);
        Vec::new()
    }

    /// Sectors of disks that lead to others, each of which may rot without a loss: disk and sector.
    fn metadata(setup: &Self::Setup, disks: &[Medium]) -> Vec<(usize, u64)> {
        let _ = (setup, disks);
        Vec::new()
    }

    /// Whether a refusal to open says that one of these is missing.
    fn misses_a_record(why: &str) -> bool {
        let _ = why;
        false
    }

    /// Whether what lies on another disk says to be a disk of this store, so that nobody could tell the two apart. `None`: it
    /// says so in a part.
    fn is_twin(&self, medium: &Medium, sectors: u64) -> Option<bool> {
        let _ = (medium, sectors);
        Some(false)
    }

    /// Whether a refusal to open says that there are two of one disk.
    fn refuses_twins(why: &str) -> bool {
        let _ = why;
        false
    }

    /// Makes copies of all disks a store of its own, while the power fails as chance has it and the same is done again:
    /// with what it is opened from then on, and how often the power failed. `None`: this store cannot.
    fn become_another(
        setup: &Self::Setup,
        copies: &mut [Medium],
        geometry: &Geometry,
        random: &mut Random,
    ) -> Option<Result<(Self::Setup, u64), String>> {
        let _ = (setup, copies, geometry, random);
        None
    }

    /// Proves what lies on the disks, where the store can: asked right after an opening and before anything else,
    /// and the last that it is asked. Tells what is wrong.
    fn prove(&mut self, disks: &mut [Disk], now_us: u64) -> Vec<Flaw> {
        let _ = (disks, now_us);
        Vec::new()
    }
}
