//! One life of a subject: the subject, its disks and the clock, from an opening to its end.

use std::collections::BTreeMap;

use super::FailureKind;
use crate::disk::{Disk, Image, Struck, Tearing};
use crate::history::History;
use crate::model::{FoundVolume, Model};
use crate::operation::{Operation, SLICES_PER_BLOCK, VolumeId};
use crate::random::Random;
use crate::subject::{Answer, DiskRequest, Flaw, Geometry, Outcome, Subject, SubjectState};
use pages::Pages;

/// Tags of the reads that check everything after an opening.
const VERIFYING: u64 = 1 << 63;
/// Number of blocks that one of these reads covers.
const VERIFIED_BLOCKS: u64 = 16;
/// Number of disk answers that no opening or operation of a history reaches.
const ENDLESS: u32 = 10_000_000;

/// The next event.
#[derive(Clone, Copy, Debug)]
enum Next {
    Disk(usize),
    Tick,
}

/// One possible state of the disks after a power cut.
pub(super) struct Way {
    pub disks: Vec<Disk>,
    /// Numbers of writes and of sectors that were torn on them.
    pub torn_writes: u64,
    pub torn_sectors: u64,
}

/// A subject on its disks.
pub(crate) struct Machine<S> {
    pub subject: S,
    pub disks: Vec<Disk>,
    pub now_us: u64,
    requests: Vec<DiskRequest>,
    pub answers: Vec<Answer>,
}

impl<S: Subject> Machine<S> {
    pub(crate) fn new(subject: S, disks: Vec<Disk>, now_us: u64) -> Self {
        Self {
            subject,
            disks,
            now_us,
            requests: Vec::new(),
            answers: Vec::new(),
        }
    }

    /// Returns the faults that have struck its disks.
    pub(super) fn struck(&self) -> Struck {
        let disks = self.disks.iter();
        disks.fold(Struck::default(), |sum, disk| sum + disk.struck())
    }

    pub(crate) fn submit(&mut self, tag: u64, operation: &Operation, data: Pages) {
        self.subject.submit(tag, operation, data, self.now_us);
        self.collect();
    }

    pub(super) fn close(&mut self) {
        self.subject.close(self.now_us);
        self.collect();
    }

    /// Hands requests to disks, and takes answers.
    fn collect(&mut self) {
        self.subject.take_requests(&mut self.requests);
        for DiskRequest { disk, id, op } in self.requests.drain(..) {
            self.disks[disk].submit(self.now_us, id, op);
        }
        self.subject.take_answers(&mut self.answers);
    }

    fn next(&self) -> Option<(u64, Next)> {
        let disks = self.disks.iter().enumerate();
        let due = disks.filter_map(|(number, disk)| Some((disk.next_due_us()?, number)));
        let disk = due.min().map(|(due_us, disk)| (due_us, Next::Disk(disk)));
        let tick = self.subject.next_tick_us().map(|at| (at, Next::Tick));
        match (disk, tick) {
            (Some(disk), Some(tick)) if tick.0 < disk.0 => Some(tick),
            (disk, tick) => disk.or(tick),
        }
    }

    /// Returns the time of the next event, if there is one.
    pub(crate) fn next_us(&self) -> Option<u64> {
        self.next().map(|(at_us, _)| at_us)
    }

    /// Reports whether a flush of a disk is answered next.
    pub(super) fn is_flush_next(&self) -> bool {
        matches!(self.next(), Some((_, Next::Disk(disk))) if self.disks[disk].is_flush_next())
    }

    /// Returns the disks as power cuts at this moment may leave them, in `ways` ways.
    pub(super) fn cut(&self, ways: usize, tearing: Tearing, random: &mut Random) -> Vec<Way> {
        let images = self.disks.iter().map(|disk| {
            let mut of_disk = disk.images(ways, tearing, random);
            if self.disks.len() > 1 {
                random.shuffle(&mut of_disk);
            }
            of_disk
        });
        let images: Vec<Vec<Image>> = images.collect();
        let most = images.iter().map(Vec::len).max().unwrap_or(0);
        let disks_of = |way: usize| {
            let (mut torn_writes, mut torn_sectors) = (0, 0);
            let disks = images.iter().zip(&self.disks);
            let disks = disks.map(|(images, disk)| {
                let image = &images[way % images.len()];
                torn_writes += image.torn_writes;
                torn_sectors += image.torn_sectors;
                disk.with_medium(image.medium.clone(), random.fork())
            });
            let disks = disks.collect();
            Way {
                disks,
                torn_writes,
                torn_sectors,
            }
        };
        (0..most).map(disks_of).collect()
    }

    /// Returns the disks as one power cut may leave them that treats all caches alike. They lose
    /// all unsafe content, or keep it, or each has a fate of its own.
    pub(super) fn cut_together(&self, tearing: Tearing, random: &mut Random) -> Vec<Disk> {
        let fate = random.within(0..8);
        let of = |disk: &Disk| {
            let cut = disk.cut();
            let all = || cut.with(&(0..cut.loose.len()).collect());
            let medium = match fate {
                0..=2 => cut.durable.clone(),
                3 => all(),
                4 if random.per_mille(500) => all(),
                4 => cut.durable.clone(),
                _ => cut.image(tearing, random).medium,
            };
            disk.with_medium(medium, random.fork())
        };
        self.disks.iter().map(of).collect()
    }

    /// Lets the next event happen. Returns false if none ever will.
    pub(crate) fn advance(&mut self) -> bool {
        self.collect();
        let Some((at_us, next)) = self.next() else {
            return false;
        };
        self.now_us = self.now_us.max(at_us);
        match next {
            Next::Disk(disk) => {
                if let Some(completion) = self.disks[disk].complete(self.now_us) {
                    let (id, outcome) = (completion.id, completion.outcome);
                    self.subject.completed(disk, id, outcome, self.now_us);
                }
            }
            Next::Tick => self.subject.tick(self.now_us),
        }
        self.collect();
        true
    }

    /// Waits until the subject is open.
    pub(crate) fn wait_until_open(&mut self) -> Result<(), FailureKind> {
        for _ in 0..ENDLESS {
            match self.subject.state() {
                SubjectState::Open => return Ok(()),
                SubjectState::Refused(why) => return Err(FailureKind::Refused(why)),
                SubjectState::Opening if !self.advance() => break,
                SubjectState::Opening => {}
            }
        }
        Err(FailureKind::Hangs("opening".into()))
    }

    /// Lets `answers` disks answer, or fewer if the subject is open before.
    pub(super) fn open_partly(&mut self, answers: u32) {
        for _ in 0..answers {
            if self.subject.state() != SubjectState::Opening || !self.advance() {
                return;
            }
        }
    }

    /// Reads everything.
    pub(super) fn read_all(
        &mut self,
        tolerates_errors: bool,
    ) -> Result<BTreeMap<VolumeId, FoundVolume>, FailureKind> {
        let mut parts: Vec<(VolumeId, u64, Option<Pages>)> = Vec::new();
        let mut found = BTreeMap::new();
        for (volume, blocks) in self.subject.volumes() {
            found.insert(volume, FoundVolume::default());
            for first in (0..blocks).step_by(VERIFIED_BLOCKS as usize) {
                let end = (first + VERIFIED_BLOCKS).min(blocks);
                let slices = first * SLICES_PER_BLOCK..end * SLICES_PER_BLOCK;
                let tag = VERIFYING | parts.len() as u64;
                parts.push((volume, slices.end - slices.start, None));
                let operation = Operation::Read { volume, slices };
                self.submit(tag, &operation, Pages::new());
            }
        }
        let mut left = parts.len();
        for _ in 0..ENDLESS {
            for Answer { tag, outcome } in std::mem::take(&mut self.answers) {
                let part = parts.get_mut((tag & !VERIFYING) as usize);
                let Some(part) = part.filter(|_| tag & VERIFYING != 0) else {
                    return Err(FailureKind::UnknownAnswer(tag));
                };
                match outcome {
                    Ok(Outcome::Data(data)) => part.2 = Some(data),
                    Ok(other) => return Err(FailureKind::NoAnswer(format!("{other:?}"))),
                    Err(_) if tolerates_errors => {}
                    Err(why) => return Err(FailureKind::Failed("read after opening".into(), why)),
                }
                left -= 1;
            }
            if left == 0 {
                break;
            }
            if !self.advance() {
                return Err(FailureKind::Hangs("reading after opening".into()));
            }
        }
        for (volume, slices, data) in parts {
            let volume = found.entry(volume).or_default();
            match data {
                Some(data) if data.len() as u64 == slices * 512 => volume.push(&data),
                Some(data) => return Err(FailureKind::WrongLength(data.len())),
                None => volume.push_unreadable(slices),
            }
        }
        Ok(found)
    }

    /// Asks for the extents of everything: what has space, and what is a hole.
    pub(super) fn ask_extents(
        &mut self,
        found: &mut BTreeMap<VolumeId, FoundVolume>,
        tolerates_errors: bool,
    ) -> Result<(), FailureKind> {
        for (volume, blocks) in self.subject.volumes() {
            let found = found.entry(volume).or_default();
            let end = blocks * SLICES_PER_BLOCK;
            let mut start = 0;
            while start < end {
                let slices = start..end;
                let operation = Operation::Extents { volume, slices };
                self.submit(VERIFYING, &operation, Pages::new());
                let outcome = self.wait_for(VERIFYING)?;
                let runs = match outcome {
                    Ok(Outcome::Extents(runs)) => runs,
                    Ok(other) => return Err(FailureKind::NoAnswer(format!("{other:?}"))),
                    Err(_) if tolerates_errors => break,
                    Err(why) => {
                        return Err(FailureKind::Failed("extents after opening".into(), why));
                    }
                };
                start += found
                    .push_extents(&runs, end - start)
                    .map_err(FailureKind::NoAnswer)?;
            }
        }
        Ok(())
    }

    fn wait_for(&mut self, tag: u64) -> Result<Result<Outcome, String>, FailureKind> {
        for _ in 0..ENDLESS {
            match self.answers.pop() {
                Some(answer) if answer.tag == tag => return Ok(answer.outcome),
                Some(answer) => return Err(FailureKind::UnknownAnswer(answer.tag)),
                None if self.advance() => {}
                None => break,
            }
        }
        Err(FailureKind::Hangs("extents after opening".into()))
    }
}

/// Opens copies of the disks that tell no lies, and proves their content. The content of the disks
/// themselves, and their random numbers, do not change by this.
pub(crate) fn prove<S: Subject>(
    setup: &S::Setup,
    geometry: &Geometry,
    disks: &[Disk],
    now_us: u64,
) -> Result<Vec<Flaw>, FailureKind> {
    let copies: Vec<Disk> = disks.iter().map(Disk::honest_copy).collect();
    let geometry = geometry.on(&copies);
    let mut machine = Machine::new(S::open(setup, &geometry, now_us), copies, now_us);
    machine.wait_until_open()?;
    let Machine {
        subject,
        disks,
        now_us,
        ..
    } = &mut machine;
    Ok(subject.prove(disks, *now_us))
}

/// An opening after the end of a life, and its judgement.
pub(super) struct Recovery<'a> {
    pub history: &'a History,
    pub now_us: u64,
    /// Number of sectors for blocks that the pool promised to have for good.
    pub promised_sectors: u64,
    /// Number of disk answers after which the power is cut again, for each opening that is cut.
    pub interruptions: &'a [u32],
    /// Power cuts that are tried at each flush of the opening. Each result is opened as well.
    pub cuts: Option<Cuts>,
    pub model: &'a mut Model,
    /// Faults that struck the disks meanwhile, also if the disks are lost in a failure.
    pub struck: &'a mut Struck,
}

/// Power cuts that are only tried.
pub(super) struct Cuts {
    /// Number of ways at each flush.
    pub ways: usize,
    pub random: Random,
    /// Number of cuts that were tried.
    pub tried: u64,
}

impl Recovery<'_> {
    /// Opens the disks and judges all that is found.
    pub(super) fn run<S: Subject>(
        &mut self,
        setup: &S::Setup,
        mut disks: Vec<Disk>,
    ) -> Result<Machine<S>, FailureKind> {
        let geometry = &self.history.geometry.on(&disks);
        let mut now_us = self.now_us;
        for answers in self.interruptions {
            let subject = S::open(setup, geometry, now_us);
            let mut machine = Machine::new(subject, disks, now_us);
            machine.open_partly(*answers);
            (disks, now_us) = (machine.disks, machine.now_us);
            disks.iter_mut().for_each(Disk::power_cut);
        }
        let subject = S::open(setup, geometry, now_us);
        let mut machine = Machine::new(subject, disks, now_us);
        self.try_cuts(setup, &mut machine)?;
        let opened = machine.wait_until_open();
        let may_fail = self.history.reads_may_fail();
        let mut found = opened.and_then(|()| machine.read_all(may_fail));
        if self.history.asks_extents
            && let Ok(volumes) = &mut found
            && let Err(failure) = machine.ask_extents(volumes, may_fail)
        {
            found = Err(failure);
        }
        *self.struck = machine.struck();
        self.model
            .judge_recovered(&found?)
            .map_err(FailureKind::Wrong)?;
        match machine.subject.sectors() {
            Some((now, _)) if now < self.promised_sectors => {
                Err(FailureKind::Shrunk(now, self.promised_sectors))
            }
            _ => Ok(machine),
        }
    }

    /// Opens the disks. Before each flush, it tries the results of a power cut.
    fn try_cuts<S: Subject>(
        &mut self,
        setup: &S::Setup,
        machine: &mut Machine<S>,
    ) -> Result<(), FailureKind> {
        let Some(cuts) = &mut self.cuts else {
            return Ok(());
        };
        let tearing = self.history.behaviour.tearing;
        let per_mille = self.history.cut_flushes_per_mille;
        while machine.subject.state() == SubjectState::Opening {
            let is_chosen = |random: &mut Random| per_mille >= 1000 || random.per_mille(per_mille);
            if machine.is_flush_next() && is_chosen(&mut cuts.random) {
                let all = machine.cut(cuts.ways, tearing, &mut cuts.random);
                let tried = Trying {
                    history: self.history,
                    model: self.model,
                    promised_sectors: self.promised_sectors,
                    now_us: machine.now_us,
                };
                cuts.tried += tried.all::<S>(setup, all).map_err(|(_, kind)| kind)?;
            }
            if !machine.advance() {
                break;
            }
        }
        Ok(())
    }
}

/// Results of power cuts, each of which is opened and judged.
pub(super) struct Trying<'a> {
    pub history: &'a History,
    pub model: &'a Model,
    pub promised_sectors: u64,
    pub now_us: u64,
}

impl Trying<'_> {
    /// Tries all results. Returns their number, or the way that fails.
    pub(super) fn all<S: Subject>(
        &self,
        setup: &S::Setup,
        all: Vec<Way>,
    ) -> Result<u64, (usize, FailureKind)> {
        let tried = all.len() as u64;
        for (way, Way { disks, .. }) in all.into_iter().enumerate() {
            match self.one::<S>(setup, disks) {
                Err(FailureKind::Refused(_)) if self.history.tolerates_errors => {}
                Err(kind) => return Err((way, kind)),
                Ok(()) => {}
            }
        }
        Ok(tried)
    }

    /// Tries the content of these disks.
    pub(super) fn one<S: Subject>(
        &self,
        setup: &S::Setup,
        disks: Vec<Disk>,
    ) -> Result<(), FailureKind> {
        let mut recovery = Recovery {
            history: self.history,
            now_us: self.now_us,
            promised_sectors: self.promised_sectors,
            interruptions: &[],
            cuts: None,
            model: &mut self.model.clone(),
            struck: &mut Struck::default(),
        };
        recovery.run::<S>(setup, disks).map(drop)
    }
}
