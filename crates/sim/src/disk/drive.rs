//! The disk. It takes requests, and answers them late and in the seed's order. It separates safe
//! content from content that a power cut may take. It can vanish, hang and come back.

use std::collections::BTreeMap;

use pages::{PageMut, Pages};

use super::cut::{Cut, Image, LooseWrite, Tearing};
use super::fault::{Behaviour, Chances, Dirty, Fates, Fault, Struck, StruckRequest};
use super::medium::{Medium, SECTOR_SIZE};
use crate::random::Random;
use store::vdev::{DeviceError, DeviceErrorKind, DeviceOp, DeviceOutcome};

/// An answer.
#[derive(Debug)]
pub struct Completion {
    /// Number with which the request was submitted.
    pub id: u64,
    /// Outcome of the request.
    pub outcome: DeviceOutcome,
}

/// Presence of the disk: whether it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    Here,
    /// Every request fails.
    Gone,
    /// No request is answered.
    Hung,
}

/// State in which a disk comes back.
#[derive(Clone, Debug)]
pub enum Return {
    /// The disk is unchanged: a cable was pulled.
    Unharmed,
    /// The disk has lost its unsafe content: its power was gone.
    AfterPowerCut,
    /// The disk has the contents of another time.
    Old(Medium),
    /// Each sector is either unchanged or as it was at another time.
    Mixed(Medium),
}

#[derive(Clone, Debug)]
struct InFlight {
    id: u64,
    op: DeviceOp,
    /// Number below which all writes become safe by a flush.
    below: u64,
    /// Whether the disk went away meanwhile.
    doomed: bool,
}

/// A disk.
#[derive(Clone, Debug)]
pub struct Disk {
    sectors: u64,
    /// Content that reads return.
    current: Medium,
    /// Content that surely survives a power cut.
    safe: Medium,
    /// Writes that are in `current` and not in `safe`.
    loose: Vec<LooseWrite>,
    /// Number of the next loose write.
    next_number: u64,
    /// Whether reads return data that no flush will make safe.
    has_forgotten: bool,
    /// Requests by the time at which they are answered.
    in_flight: BTreeMap<(u64, u64), InFlight>,
    /// Number of these that may change sectors.
    changing: usize,
    submitted: u64,
    presence: Presence,
    behaviour: Behaviour,
    fates: Fates,
    random: Random,
}

impl Disk {
    /// Makes a disk of zeros with `sectors` sectors of 4 KiB.
    pub fn new(sectors: u64, behaviour: Behaviour, random: Random) -> Self {
        Self::from_medium(sectors, Medium::default(), behaviour, random)
    }

    /// Makes a disk on which `medium` lies safe.
    pub fn from_medium(sectors: u64, medium: Medium, behaviour: Behaviour, random: Random) -> Self {
        Self {
            sectors,
            current: medium.clone(),
            safe: medium,
            loose: Vec::new(),
            next_number: 0,
            has_forgotten: false,
            in_flight: BTreeMap::new(),
            changing: 0,
            submitted: 0,
            presence: Presence::Here,
            behaviour,
            fates: Fates::default(),
            random,
        }
    }

    /// Makes a disk of this one's size and behaviour with other contents, after a power cut. It
    /// tells no lies.
    pub fn with_medium(&self, medium: Medium, random: Random) -> Self {
        let mut behaviour = self.behaviour.clone();
        behaviour.chances = Chances::default();
        Self {
            presence: match self.presence {
                // The disk's power was gone, so it answers again.
                Presence::Hung => Presence::Here,
                presence => presence,
            },
            ..Self::from_medium(self.sectors, medium, behaviour, random)
        }
    }

    /// Makes a disk that returns what this one returns, and tells no lies.
    pub fn honest_copy(&self) -> Self {
        self.with_medium(self.current.clone(), self.random.clone())
    }

    /// Returns the disk's size in sectors.
    pub fn sectors(&self) -> u64 {
        self.sectors
    }

    /// Returns the disk's behaviour from now on, for a change.
    pub fn behaviour_mut(&mut self) -> &mut Behaviour {
        &mut self.behaviour
    }

    /// Returns the faults that have happened.
    pub fn struck(&self) -> Struck {
        self.fates.struck
    }

    /// Takes a request, to be answered under `id` by [`Disk::complete`].
    ///
    /// # Panics
    /// The range is not sectors of this disk: a correct store never asks for that.
    pub fn submit(&mut self, now_us: u64, id: u64, op: DeviceOp) {
        let (offset, len) = match &op {
            DeviceOp::Read { offset, len } => (*offset, u64::from(*len)),
            DeviceOp::Write { offset, data, .. } => (*offset, data.len() as u64),
            DeviceOp::Trim { offset, len } => (*offset, *len),
            DeviceOp::Flush => (0, 0),
        };
        let sector = SECTOR_SIZE as u64;
        assert!(
            offset.is_multiple_of(sector) && len.is_multiple_of(sector),
            "bytes {offset}+{len} are not sectors"
        );
        assert!(
            offset.saturating_add(len) <= self.sectors * sector,
            "bytes {offset}+{len} are beyond {} sectors",
            self.sectors
        );
        let mut latency_us = self.random.within(self.behaviour.latency_us.clone());
        let stalls = self.behaviour.stalls_per_mille;
        if stalls > 0 && self.random.per_mille(stalls) {
            latency_us += self.behaviour.stall_us;
        }
        self.submitted += 1;
        let request = InFlight {
            id,
            op,
            below: self.next_number,
            doomed: false,
        };
        let due = (now_us + latency_us, self.submitted);
        self.changing += usize::from(request.may_change());
        self.in_flight.insert(due, request);
    }

    /// Returns the time of the next answer; `None` if none will come of itself.
    pub fn next_due_us(&self) -> Option<u64> {
        if self.presence == Presence::Hung {
            return None;
        }
        self.in_flight.keys().next().map(|(due_us, _)| *due_us)
    }

    /// Reports whether the next answer is that of a flush or of a durable write. The moment before
    /// it is the worst for a power cut.
    pub fn is_flush_next(&self) -> bool {
        let next = self.in_flight.values().next();
        next.is_some_and(|request| {
            matches!(
                request.op,
                DeviceOp::Flush | DeviceOp::Write { durable: true, .. }
            )
        })
    }

    /// Returns the number of requests that were not answered yet.
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Returns the next answer that is due by `now_us`.
    pub fn complete(&mut self, now_us: u64) -> Option<Completion> {
        self.next_due_us().filter(|due_us| *due_us <= now_us)?;
        let (_, request) = self.in_flight.pop_first()?;
        self.changing -= usize::from(request.may_change());
        let InFlight { id, op, below, .. } = request;
        let outcome = match op {
            _ if request.doomed || self.presence == Presence::Gone => {
                Err(failure(DeviceErrorKind::Gone, "the device vanished"))
            }
            DeviceOp::Read { offset, len } => self.read(offset, len),
            DeviceOp::Write {
                offset,
                data,
                durable,
            } => self.write(offset, data, durable),
            DeviceOp::Trim { offset, len } => self.trim(offset, len),
            DeviceOp::Flush => self.flush(below),
        };
        Some(Completion { id, outcome })
    }

    fn strike(&mut self, kind: StruckRequest) -> Option<Fault> {
        let chances = &self.behaviour.chances;
        self.fates.strike(kind, chances, &mut self.random)
    }

    fn read(&mut self, offset: u64, len: u32) -> DeviceOutcome {
        let count = u64::from(len) / SECTOR_SIZE as u64;
        let mut sector = offset / SECTOR_SIZE as u64;
        match self.strike(StruckRequest::Read) {
            Some(Fault::FailedRead) => {
                return Err(failure(DeviceErrorKind::Medium, "a read failed"));
            }
            Some(Fault::MisdirectedRead) => {
                sector = self.random.within(0..self.sectors - count + 1)
            }
            Some(Fault::BitRot) => self.rot_near(sector, count),
            Some(Fault::Ruin) if count > 0 => {
                let ruined = sector + self.random.within(0..count);
                self.ruin(ruined);
            }
            _ => {}
        }
        let Some(data) = self.current.read(sector..sector + count) else {
            self.fates.struck.failed_reads += 1;
            return Err(failure(DeviceErrorKind::Medium, "a sector cannot be read"));
        };
        Ok(self.with_glimpses(sector, count, data))
    }

    /// Mixes parts of writes in flight into a read: a read may see them.
    fn with_glimpses(&mut self, sector: u64, count: u64, data: Pages) -> Pages {
        if self.changing == 0 {
            return data;
        }
        let mut seen: Option<Medium> = None;
        for request in self.in_flight.values() {
            let Some(write) = as_write(request, &self.behaviour) else {
                continue;
            };
            for (at, page) in write.sectors() {
                if (sector..sector + count).contains(&at) && self.random.per_mille(500) {
                    let seen = seen.get_or_insert_with(|| self.current.clone());
                    seen.put(at, page);
                }
            }
        }
        seen.and_then(|seen| seen.read(sector..sector + count))
            .unwrap_or(data)
    }

    fn write(&mut self, offset: u64, data: Pages, durable: bool) -> DeviceOutcome {
        let count = (data.len() / SECTOR_SIZE) as u64;
        let mut sector = offset / SECTOR_SIZE as u64;
        match self.strike(StruckRequest::Write) {
            Some(Fault::FailedWrite) => {
                self.take_effect_partly(&in_flight_write(sector, count, Some(data)));
                return Err(failure(DeviceErrorKind::Failed, "a write failed"));
            }
            Some(Fault::LostWrite) => return Ok(Pages::new()),
            Some(Fault::MisdirectedWrite) => {
                sector = self.random.within(0..self.sectors - count + 1);
            }
            _ => {}
        }
        // A cache that lies about flushes lies here too.
        let fault = durable.then(|| self.strike(StruckRequest::Flush)).flatten();
        if let Some(Fault::FailedFlush(_)) = fault {
            self.take_effect_partly(&in_flight_write(sector, count, Some(data)));
            return Err(failure(DeviceErrorKind::Failed, "a durable write failed"));
        }
        if durable && fault.is_none() {
            self.make_safe(sector, count, data);
        } else {
            self.take_effect(sector, count, Some(data));
        }
        Ok(Pages::new())
    }

    /// Makes a write safe when it is answered. Earlier content of its sectors that was not safe yet
    /// never will be: nothing brings it back.
    fn make_safe(&mut self, sector: u64, count: u64, data: Pages) {
        let written = sector..sector + count;
        let loose = std::mem::take(&mut self.loose);
        let kept = loose.iter().flat_map(|write| write.outside(&written));
        self.loose = kept.collect();
        let write = in_flight_write(sector, count, Some(data));
        write.apply(&mut self.current);
        write.apply(&mut self.safe);
    }

    fn trim(&mut self, offset: u64, len: u64) -> DeviceOutcome {
        if !self.behaviour.trim_keeps_bytes {
            let sector = offset / SECTOR_SIZE as u64;
            let count = len / SECTOR_SIZE as u64;
            let garbage = self.behaviour.trim_garbles.then(|| self.garbage(count));
            self.take_effect(sector, count, garbage);
        }
        Ok(Pages::new())
    }

    /// Makes bytes that nobody wrote, one sector again and again.
    fn garbage(&mut self, sectors: u64) -> Pages {
        let mut page = PageMut::zeroed();
        for word in page.chunks_mut(8) {
            word.copy_from_slice(&self.random.within(0..u64::MAX).to_le_bytes());
        }
        let page = page.freeze();
        let pages = std::iter::repeat_n(page, sectors as usize);
        Pages::from_pages(pages, 0, (sectors as usize * SECTOR_SIZE) as u32)
    }

    fn take_effect(&mut self, sector: u64, count: u64, data: Option<Pages>) {
        let write = LooseWrite {
            number: self.next_number,
            sector,
            count,
            data,
        };
        write.apply(&mut self.current);
        self.loose.push(write);
        self.next_number += 1;
    }

    /// Applies or skips each sector of a write.
    fn take_effect_partly(&mut self, write: &LooseWrite) {
        for (sector, page) in write.sectors() {
            if self.random.per_mille(500) {
                let data = Pages::from_page(page, 0, SECTOR_SIZE as u32);
                self.take_effect(sector, 1, Some(data));
            }
        }
    }

    fn flush(&mut self, below: u64) -> DeviceOutcome {
        let covered = self.loose.partition_point(|write| write.number < below);
        match self.strike(StruckRequest::Flush) {
            Some(Fault::LyingFlush) => {}
            Some(Fault::FailedFlush(dirty)) => {
                self.lose_dirty(covered, dirty);
                return Err(failure(DeviceErrorKind::Failed, "a flush failed"));
            }
            _ => {
                for write in self.loose.drain(..covered) {
                    write.apply(&mut self.safe);
                }
            }
        }
        Ok(Pages::new())
    }

    /// Ends a failed flush. A part of the writes that it covered became safe before it failed.
    fn lose_dirty(&mut self, covered: usize, dirty: Dirty) {
        if dirty == Dirty::Kept {
            return;
        }
        let covered = self.loose.drain(..covered).collect();
        let partial = Cut {
            durable: self.safe.clone(),
            covered: 0,
            loose: covered,
        };
        let left = partial.image(self.behaviour.tearing, &mut self.random);
        self.safe = left.medium;
        match dirty {
            Dirty::Dropped => self.drop_forgotten(),
            _ => self.has_forgotten = true,
        }
    }

    /// Drops content from reads that can never become safe.
    fn drop_forgotten(&mut self) {
        self.has_forgotten = false;
        self.current = self.safe.clone();
        for write in &self.loose {
            write.apply(&mut self.current);
        }
    }

    /// Arms a fault to strike the `nth` request of its kind from now on; 1 is the next one.
    pub fn arm(&mut self, nth: u64, fault: Fault) {
        self.fates.arm(nth, fault);
    }

    /// Flips a bit of a sector.
    pub fn rot(&mut self, sector: u64, bit: u32) {
        self.current.flip(sector, bit);
        self.safe.flip(sector, bit);
        self.fates.struck.rotten_bits += 1;
    }

    /// Flips a bit in each of `sectors` written sectors, which the seed chooses.
    pub fn rot_written(&mut self, sectors: u64) {
        for _ in 0..sectors {
            let near = self.random.within(0..self.sectors);
            if let Some(sector) = self.current.written_near(near) {
                let bit = self.random.within(0..SECTOR_SIZE as u64 * 8) as u32;
                self.rot(sector, bit);
            }
        }
    }

    fn rot_near(&mut self, sector: u64, count: u64) {
        let near = if count > 0 && self.random.per_mille(800) {
            sector + self.random.within(0..count)
        } else {
            self.random.within(0..self.sectors)
        };
        let bit = self.random.within(0..SECTOR_SIZE as u64 * 8) as u32;
        if let Some(sector) = self.current.written_near(near) {
            self.current.flip(sector, bit);
            self.safe.flip(sector, bit);
        }
    }

    /// Makes a sector unreadable until it is written.
    pub fn ruin(&mut self, sector: u64) {
        self.current.ruin(sector);
        self.safe.ruin(sector);
    }

    /// Takes the disk away: all requests fail from now on. Of writes in flight, any sector may be
    /// written.
    pub fn vanish(&mut self) {
        self.presence = Presence::Gone;
        self.abandon();
    }

    /// Hangs the disk: it answers nothing any more.
    pub fn hang(&mut self) {
        self.presence = Presence::Hung;
    }

    /// Reports whether the disk hangs.
    pub fn is_hung(&self) -> bool {
        self.presence == Presence::Hung
    }

    /// Reports whether the disk vanished.
    pub fn is_gone(&self) -> bool {
        self.presence == Presence::Gone
    }

    /// Lets a disk that hung answer again, as after a power cycle.
    pub fn wake(&mut self) {
        if self.is_hung() {
            self.presence = Presence::Here;
        }
    }

    /// Brings back a disk that vanished or hung. A disk that hung and comes back unharmed does the
    /// requests that it owes. Otherwise the requests in flight fail.
    pub fn come_back(&mut self, how: Return) {
        self.presence = Presence::Here;
        match how {
            Return::Unharmed => {}
            Return::AfterPowerCut => {
                let image = self.cut().image(self.behaviour.tearing, &mut self.random);
                self.replace(image.medium);
            }
            Return::Old(medium) => self.replace(medium),
            Return::Mixed(medium) => {
                let mut mixed = self.current.clone();
                let mut sectors: Vec<u64> = self.current.written().collect();
                sectors.extend(medium.written());
                sectors.sort_unstable();
                sectors.dedup();
                for sector in sectors {
                    if self.random.per_mille(500) {
                        mixed.put(sector, medium.sector(sector));
                    }
                }
                self.replace(mixed);
            }
        }
    }

    fn replace(&mut self, medium: Medium) {
        let mut in_flight = std::mem::take(&mut self.in_flight);
        in_flight
            .values_mut()
            .for_each(|request| request.doomed = true);
        let changing = self.changing;
        self.restore(medium);
        (self.in_flight, self.changing) = (in_flight, changing);
    }

    /// Cuts the power and restores it. Requests in flight are never answered, and the seed decides
    /// what is left of unsafe content.
    pub fn power_cut(&mut self) {
        let (cut, tearing) = (self.cut(), self.behaviour.tearing);
        let at_flush = self.behaviour.cuts_at_flushes && self.random.per_mille(500);
        let image = match at_flush {
            true => cut.image_at_flush(tearing, &mut self.random),
            false => cut.image(tearing, &mut self.random),
        };
        self.restore(image.medium);
    }

    /// Overwrites sectors with other content, whatever happens.
    pub fn spoil(&mut self, sectors: std::ops::Range<u64>, page: &pages::Page) {
        for sector in sectors {
            self.current.put(sector, page.clone());
            self.safe.put(sector, page.clone());
        }
    }

    /// Ends the disk behind `sectors` sectors. Content behind them is gone.
    pub fn shrink(&mut self, sectors: u64) {
        self.spoil(sectors..self.sectors, &pages::Page::zero());
        self.sectors = self.sectors.min(sectors);
    }

    /// Adds `sectors` sectors to the disk.
    pub fn grow(&mut self, sectors: u64) {
        self.sectors += sectors;
    }

    /// Returns up to `limit` media that may be found after a power cut at this moment.
    pub fn images(&self, limit: usize, tearing: Tearing, random: &mut Random) -> Vec<Image> {
        let cut = self.cut();
        match self.behaviour.cuts_at_flushes && !cut.loose.is_empty() {
            true => (0..limit)
                .map(|_| cut.image_at_flush(tearing, random))
                .collect(),
            false => cut.images(limit, tearing, random),
        }
    }

    /// Ends the program that used the disk. Requests in flight are never answered. The power stays,
    /// so that the effects of answered requests stay as well. Content that a failed flush forgot
    /// was in a cache of the program's.
    pub fn detach(&mut self) {
        if self.has_forgotten {
            self.drop_forgotten();
        }
        self.abandon();
        self.in_flight.clear();
        self.changing = 0;
    }

    /// Lets any part of each write in flight take effect, and nothing more of it.
    fn abandon(&mut self) {
        let in_flight = self.in_flight.clone();
        for request in in_flight.values() {
            if let Some(write) = as_write(request, &self.behaviour) {
                self.take_effect_partly(&write);
            }
        }
        let in_flight = self.in_flight.values_mut();
        in_flight.for_each(|request| request.doomed = true);
    }

    /// Returns the state of the disk as a power cut would meet it now.
    pub fn cut(&self) -> Cut {
        let mut loose = self.loose.clone();
        let mut in_flight = self.in_flight.values();
        let flush =
            in_flight.find(|request| !request.doomed && matches!(request.op, DeviceOp::Flush));
        let is_covered = |write: &LooseWrite| flush.is_some_and(|flush| write.number < flush.below);
        let covered = loose.partition_point(is_covered);
        let in_flight = self.in_flight.values();
        loose.extend(in_flight.filter_map(|request| as_write(request, &self.behaviour)));
        Cut {
            durable: self.safe.clone(),
            loose,
            covered,
        }
    }

    /// Returns the content that reads return, as an image to be restored.
    pub fn snapshot(&self) -> Medium {
        self.current.clone()
    }

    /// Replaces all content by an image, safely. Requests in flight are forgotten.
    pub fn restore(&mut self, medium: Medium) {
        self.current = medium.clone();
        self.safe = medium;
        self.loose.clear();
        self.has_forgotten = false;
        self.in_flight.clear();
        self.changing = 0;
    }
}

impl InFlight {
    fn may_change(&self) -> bool {
        matches!(self.op, DeviceOp::Write { .. } | DeviceOp::Trim { .. })
    }
}

/// Returns the write that a request in flight may turn out to be.
fn as_write(request: &InFlight, behaviour: &Behaviour) -> Option<LooseWrite> {
    let sector_size = SECTOR_SIZE as u64;
    match &request.op {
        _ if request.doomed => None,
        DeviceOp::Write { offset, data, .. } => Some(in_flight_write(
            offset / sector_size,
            data.len() as u64 / sector_size,
            Some(data.clone()),
        )),
        DeviceOp::Trim { offset, len } if !behaviour.trim_keeps_bytes => Some(in_flight_write(
            offset / sector_size,
            len / sector_size,
            None,
        )),
        _ => None,
    }
}

/// Makes a write that has not taken effect. No other write comes after it.
fn in_flight_write(sector: u64, count: u64, data: Option<Pages>) -> LooseWrite {
    LooseWrite {
        number: u64::MAX,
        sector,
        count,
        data,
    }
}

fn failure(kind: DeviceErrorKind, context: &str) -> DeviceError {
    DeviceError::new(kind, context)
}
