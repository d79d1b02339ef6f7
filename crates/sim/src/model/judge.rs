//! The judge: it compares the content that was found with the content that may be found.

use std::collections::BTreeMap;
use std::fmt;

use pages::Pages;

use super::pattern::{SliceContent, recognise};
use super::{
    BEGINNING, Change, ChangeId, Contents, Entry, Existence, Hold, Model, Moment, Order, SLICE_SIZE,
};
use crate::operation::{SLICES_PER_BLOCK, VolumeId};

/// Kind of a wrong finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WrongKind {
    /// The bytes are ones that nobody wrote, or that were written elsewhere.
    Bytes,
    /// A change is found that cannot be there any more, or never could.
    Stale,
    /// A part of this change is found without the rest of it.
    Torn(ChangeId),
    /// A later change survived although this change, which came before it, did not.
    Order(ChangeId),
    /// A hole is reported where data was written.
    Hole,
    /// Space is reported where nothing but zeros can be.
    Space,
    /// A volume is missing.
    Missing,
    /// A volume exists that was destroyed, or never made.
    Undead,
    /// A volume exists, and this one, which was to go together with it, does not.
    Half(VolumeId),
    /// A volume has another size, in blocks.
    Size(u64),
}

/// A finding that is not allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// Kind of the finding.
    pub kind: WrongKind,
    /// Volume of the finding.
    pub volume: VolumeId,
    /// Slice of 512 bytes of the finding.
    pub slice: u64,
    /// Content that was found.
    pub found: SliceContent,
    /// Changes that may be found there; 0 is zeros from the beginning.
    pub allowed: Vec<ChangeId>,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (volume, slice) = (self.volume, self.slice);
        match self.kind {
            WrongKind::Missing => return write!(f, "{volume} is missing"),
            WrongKind::Undead => return write!(f, "{volume} exists, but must not exist"),
            WrongKind::Half(other) => {
                return write!(
                    f,
                    "{volume} exists, but {other} does not, although they were to be destroyed together"
                );
            }
            WrongKind::Size(blocks) => {
                return write!(f, "{volume} has a wrong size of {blocks} blocks");
            }
            WrongKind::Space => {
                return write!(
                    f,
                    "{volume}, slice {slice}: reported as allocated, but must hold zeros"
                );
            }
            _ => {}
        }
        write!(
            f,
            "{volume}, block {}, slice {slice}: ",
            slice / SLICES_PER_BLOCK
        )?;
        match self.found {
            SliceContent::Zeros => write!(f, "found zeros")?,
            SliceContent::Change(change) => write!(f, "found change {}", change.0)?,
            SliceContent::Elsewhere(change, at) => {
                write!(f, "found the bytes of change {} to slice {at}", change.0)?;
            }
            SliceContent::Garbage => write!(f, "found bytes that no change wrote")?,
            SliceContent::Unreadable => write!(f, "cannot be read")?,
        }
        match self.kind {
            WrongKind::Torn(change) => write!(f, ", beside a part of change {}", change.0)?,
            WrongKind::Hole => write!(f, ", but was reported as a hole")?,
            WrongKind::Order(change) => write!(f, ", though change {} survived", change.0)?,
            _ => {}
        }
        let allowed = self.allowed.iter().map(|change| match change.0 {
            0 => "zeros".to_owned(),
            number => format!("change {number}"),
        });
        let allowed: Vec<String> = allowed.collect();
        write!(f, "; allowed: {}", allowed.join(", "))
    }
}

/// A volume as it was found when the store was opened.
#[derive(Clone, Debug, Default)]
pub struct FoundVolume {
    /// Content of each of its slices.
    pub slices: Vec<SliceContent>,
    /// Answers whether each slice has space, as far as they were asked for and given.
    pub space: Vec<bool>,
}

impl FoundVolume {
    /// Adds the next slices.
    pub fn push(&mut self, data: &Pages) {
        recognise_all(data, &mut self.slices);
    }

    /// Adds slices that could not be read.
    pub fn push_unreadable(&mut self, count: u64) {
        let len = self.slices.len() + count as usize;
        self.slices.resize(len, SliceContent::Unreadable);
    }
}

impl FoundVolume {
    /// Adds the answers about the next of `asked` slices. Returns the number of slices that they
    /// cover.
    ///
    /// # Errors
    /// The runs are no valid answer.
    pub fn push_extents(&mut self, runs: &[(u64, bool)], asked: u64) -> Result<u64, String> {
        let told = super::extents::slices(runs, asked)?;
        self.space.extend_from_slice(&told);
        Ok(told.len() as u64)
    }
}

/// Recognises the content of each slice of `data`. The first is slice `found.len()` of the volume.
fn recognise_all(data: &Pages, found: &mut Vec<SliceContent>) {
    for chunk in data.chunks() {
        if !chunk.len().is_multiple_of(SLICE_SIZE) {
            return recognise_scattered(data, found);
        }
    }
    for slice in data.chunks().flat_map(|chunk| chunk.chunks(SLICE_SIZE)) {
        found.push(recognise(slice, found.len() as u64));
    }
}

/// Recognises as [`recognise_all`] does, for data whose pages end within slices.
fn recognise_scattered(data: &Pages, found: &mut Vec<SliceContent>) {
    for slice in data.to_vec().chunks_exact(SLICE_SIZE) {
        found.push(recognise(slice, found.len() as u64));
    }
}

/// Rules for which changes are certainly there.
#[derive(Clone, Copy)]
pub(super) struct Sight {
    /// Moment before which acknowledged changes count.
    acknowledged_before: Moment,
    /// Moment before which submitted changes count that did not fail.
    submitted_before: Moment,
    /// Whether durable changes count.
    durable: bool,
}

impl Sight {
    /// Returns the rules for a read that was submitted at this moment.
    pub(super) fn of_read(submitted: Moment) -> Self {
        Self {
            acknowledged_before: submitted,
            submitted_before: 0,
            durable: false,
        }
    }
}

impl Model {
    /// Judges the data that a read returned for the slices from `first` on.
    ///
    /// # Errors
    /// The read must not return this data.
    pub fn judge_read(
        &mut self,
        volume: VolumeId,
        first: u64,
        data: &Pages,
        submitted: Moment,
    ) -> Result<(), Wrong> {
        self.end_read(submitted);
        let mut slices = vec![SliceContent::Unreadable; first as usize];
        recognise_all(data, &mut slices);
        let sight = Sight::of_read(submitted);
        let (unit, contents) = match self.volumes.get(&volume) {
            Some(target) => (target.unit, &target.alternatives[0]),
            None => return Err(whole_volume(WrongKind::Undead, volume)),
        };
        let start = first / SLICES_PER_BLOCK / unit * unit;
        self.judge_slices(volume, unit, contents, &slices, start, sight)?;
        Ok(())
    }

    /// Judges all content that was found after [`Model::crash`], and pins it.
    ///
    /// # Errors
    /// A part of the content must not be so.
    pub fn judge_recovered(
        &mut self,
        found: &BTreeMap<VolumeId, FoundVolume>,
    ) -> Result<(), Wrong> {
        if let Some(undead) = found.keys().find(|id| !self.volumes.contains_key(id)) {
            return Err(whole_volume(WrongKind::Undead, *undead));
        }
        self.judge_together(found)?;
        let durable = Sight {
            acknowledged_before: 0,
            submitted_before: 0,
            durable: self.rules.durability,
        };
        let mut newest = (0, ChangeId(0));
        let mut possible = BTreeMap::new();
        for (id, volume) in &self.volumes {
            let Some(slices) = found.get(id).map(|found| &found.slices[..]) else {
                // If flushes lied, a volume that was made in the log's last groups goes with them.
                if volume.existence == Existence::Certain && self.rules.durability {
                    return Err(whole_volume(WrongKind::Missing, *id));
                }
                continue;
            };
            let all: Vec<usize> = (0..volume.alternatives.len()).collect();
            let (fitting, found_newest) = self.judge_volume(*id, &all, slices, durable)?;
            newest = newest.max(found_newest);
            possible.insert(*id, fitting);
        }
        let ordered = match self.rules.order {
            Order::Free => durable,
            Order::AfterAcknowledged => Sight {
                acknowledged_before: newest.0,
                ..durable
            },
            Order::AsSubmitted => Sight {
                submitted_before: newest.0,
                ..durable
            },
        };
        for (id, alternatives) in &mut possible {
            let slices = &found[id].slices;
            let judged = self.judge_volume(*id, alternatives, slices, ordered);
            *alternatives = judged
                .map_err(|wrong| Wrong {
                    kind: WrongKind::Order(newest.1),
                    ..wrong
                })?
                .0;
        }
        self.judge_found_extents(found)?;
        self.pin(found, &possible, ordered);
        self.opened = self.tick();
        Ok(())
    }

    /// Checks that volumes that were to go in one operation are all there, or all gone.
    fn judge_together(&mut self, found: &BTreeMap<VolumeId, FoundVolume>) -> Result<(), Wrong> {
        for volumes in std::mem::take(&mut self.together) {
            let (left, gone): (Vec<VolumeId>, Vec<VolumeId>) =
                volumes.into_iter().partition(|id| found.contains_key(id));
            // If flushes lie, volumes that were made in the log's last groups may have gone with
            // these groups.
            if let (Some(left), Some(gone)) = (left.first(), gone.first())
                && self.rules.durability
            {
                return Err(whole_volume(WrongKind::Half(*gone), *left));
            }
        }
        Ok(())
    }

    /// Returns the alternatives that a volume may still have, and the newest change that shows in
    /// each of them. Several remain if the slices that tell them apart cannot be read.
    fn judge_volume(
        &self,
        id: VolumeId,
        alternatives: &[usize],
        slices: &[SliceContent],
        sight: Sight,
    ) -> Result<(Vec<usize>, (Moment, ChangeId)), Wrong> {
        let volume = &self.volumes[&id];
        let blocks = slices.len() as u64 / SLICES_PER_BLOCK;
        let mut wrong = whole_volume(WrongKind::Size(blocks), id);
        let (mut fitting, mut shown) = (Vec::new(), Vec::new());
        for number in alternatives {
            let contents = &volume.alternatives[*number];
            if contents.len() as u64 != blocks {
                continue;
            }
            match self.judge_slices(id, volume.unit, contents, slices, 0, sight) {
                Ok(newest) => {
                    fitting.push(*number);
                    shown.push(newest);
                }
                Err(why) => wrong = why,
            }
        }
        let newest = shown.into_iter().min().ok_or(wrong)?;
        Ok((fitting, newest))
    }

    /// Judges slices of a volume from block `start` on. Returns the newest change that shows.
    fn judge_slices(
        &self,
        id: VolumeId,
        unit: u64,
        contents: &Contents,
        slices: &[SliceContent],
        start: u64,
        sight: Sight,
    ) -> Result<(Moment, ChangeId), Wrong> {
        let mut newest = (0, ChangeId(0));
        let mut shown: Vec<ChangeId> = Vec::new();
        let unit_slices = unit * SLICES_PER_BLOCK;
        let first = start * SLICES_PER_BLOCK;
        let mut at = first;
        while at < slices.len() as u64 {
            let end = (at + unit_slices).min(slices.len() as u64);
            shown.clear();
            let mut is_one = true;
            for slice in at..end {
                let found = slices[slice as usize];
                is_one &= found == slices[at as usize];
                let entries = entries_of(contents, slice);
                let wrong = |kind| self.wrong(kind, id, slice, found, entries, sight);
                if found == SliceContent::Unreadable {
                    continue;
                }
                let Some(entry) = self.oldest_allowed(entries, slice, found, sight) else {
                    let is_known = matches!(found, SliceContent::Zeros | SliceContent::Change(_));
                    let kind = if is_known {
                        WrongKind::Stale
                    } else {
                        WrongKind::Bytes
                    };
                    return Err(wrong(kind));
                };
                if entry.hold == Hold::ByMoments {
                    newest = newest.max((self.change(entry.change).submitted, entry.change));
                }
                if let SliceContent::Change(change) = found
                    && shown.last() != Some(&change)
                {
                    shown.push(change);
                }
            }
            if !is_one || shown.is_empty() {
                self.judge_whole(
                    id,
                    contents,
                    at,
                    &slices[at as usize..end as usize],
                    &shown,
                    sight,
                )?;
            }
            at = end;
        }
        Ok(newest)
    }

    /// Checks that a change that shows in one slice of a volume block shows in all of them, or was
    /// replaced there.
    fn judge_whole(
        &self,
        id: VolumeId,
        contents: &Contents,
        first: u64,
        slices: &[SliceContent],
        shown: &[ChangeId],
        sight: Sight,
    ) -> Result<(), Wrong> {
        for (slice, found) in (first..).zip(slices) {
            let entries = entries_of(contents, slice);
            for survivor in shown {
                let is_here = |entry: &&Entry| entry.change == *survivor && covers(entry, slice);
                if *found == SliceContent::Unreadable
                    || !entries.iter().any(|entry| is_here(&entry))
                {
                    continue;
                }
                let survivor_change = self.change(*survivor);
                let fits = self.candidates(entries, slice, *found).any(|entry| {
                    let change = self.change(entry.change);
                    entry.change == *survivor || !self.is_before(change, survivor_change)
                });
                if !fits {
                    let kind = WrongKind::Torn(*survivor);
                    return Err(self.wrong(kind, id, slice, *found, entries, sight));
                }
            }
        }
        Ok(())
    }

    /// Returns the entries from which `found` may stem.
    fn candidates<'a>(
        &'a self,
        entries: &'a [Entry],
        slice: u64,
        found: SliceContent,
    ) -> impl Iterator<Item = Entry> + 'a {
        let beginning = Entry {
            change: ChangeId(0),
            slices: u8::MAX,
            hold: Hold::Certain,
        };
        let all = std::iter::once(beginning).chain(entries.iter().copied());
        all.filter(move |entry| covers(entry, slice))
            .filter(move |entry| match found {
                SliceContent::Zeros => self.change(entry.change).is_zero,
                SliceContent::Change(change) => {
                    entry.change == change && !self.change(change).is_zero
                }
                _ => false,
            })
    }

    pub(super) fn oldest_allowed(
        &self,
        entries: &[Entry],
        slice: u64,
        found: SliceContent,
        sight: Sight,
    ) -> Option<Entry> {
        self.candidates(entries, slice, found)
            .find(|candidate| self.is_allowed(candidate, entries, slice, sight))
    }

    /// Reports whether no change that is certainly there came after the candidate.
    fn is_allowed(&self, candidate: &Entry, entries: &[Entry], slice: u64, sight: Sight) -> bool {
        let change = match candidate.change {
            ChangeId(0) => &BEGINNING,
            id => self.change(id),
        };
        !entries.iter().any(|other| {
            covers(other, slice)
                && other.change != candidate.change
                && self.is_certain(other, sight)
                && self.is_before(change, self.change(other.change))
        })
    }

    fn is_before(&self, one: &Change, other: &Change) -> bool {
        match self.rules.order {
            Order::AsSubmitted => one.submitted < other.submitted,
            _ => one.settled < other.submitted,
        }
    }

    fn is_certain(&self, entry: &Entry, sight: Sight) -> bool {
        match entry.hold {
            Hold::Certain => true,
            Hold::Perhaps => false,
            Hold::ByMoments => {
                let change = self.change(entry.change);
                // A change that was only acknowledged in an earlier life was pinned, or may be
                // lost.
                let is_of_this_life = change.submitted > self.opened;
                let in_order = change.submitted < sight.submitted_before && !change.has_failed;
                is_of_this_life && (change.acknowledged < sight.acknowledged_before || in_order)
                    || sight.durable && change.is_durable
            }
        }
    }

    pub(super) fn wrong(
        &self,
        kind: WrongKind,
        volume: VolumeId,
        slice: u64,
        found: SliceContent,
        entries: &[Entry],
        sight: Sight,
    ) -> Wrong {
        let zeros = self.candidates(entries, slice, SliceContent::Zeros);
        let others = entries.iter().copied();
        let mut allowed: Vec<ChangeId> = zeros
            .chain(others)
            .filter(|entry| covers(entry, slice))
            .filter(|entry| self.is_allowed(entry, entries, slice, sight))
            .map(|entry| entry.change)
            .collect();
        allowed.sort_unstable();
        allowed.dedup();
        Wrong {
            kind,
            volume,
            slice,
            found,
            allowed,
        }
    }

    /// Pins the content: from now on nothing else may be found, unless it is changed.
    fn pin(
        &mut self,
        found: &BTreeMap<VolumeId, FoundVolume>,
        possible: &BTreeMap<VolumeId, Vec<usize>>,
        sight: Sight,
    ) {
        let mut volumes = std::mem::take(&mut self.volumes);
        let is_certain = self.rules.durability;
        volumes.retain(|id, _| possible.contains_key(id) || !is_certain);
        for (id, volume) in &mut volumes {
            if !possible.contains_key(id) {
                // The volume went with the log's last groups. An opening wrote the end of the log
                // there. If that write is lost as well, the groups are found again: on a disk
                // without a second one, nothing could tell.
                volume.existence = Existence::Perhaps;
                continue;
            }
            volume.existence = Existence::Certain;
            let mut number = 0..;
            volume
                .alternatives
                .retain(|_| number.next().is_some_and(|at| possible[id].contains(&at)));
            for contents in &mut volume.alternatives {
                let blocks = found[id].slices.chunks(SLICES_PER_BLOCK as usize);
                for (entries, slices) in contents.iter_mut().zip(blocks) {
                    // If flushes lie, the next power cut may take the content back.
                    if self.rules.durability {
                        self.pin_block(entries, slices, sight);
                    }
                }
            }
            volume.alternatives.dedup();
        }
        self.volumes = volumes;
    }

    fn pin_block(&self, entries: &mut Vec<Entry>, slices: &[SliceContent], sight: Sight) {
        if slices.contains(&SliceContent::Unreadable) {
            for entry in entries {
                if self.is_certain(entry, sight) {
                    entry.hold = Hold::Certain;
                }
            }
            return;
        }
        entries.clear();
        for (bit, found) in slices.iter().enumerate() {
            let SliceContent::Change(change) = *found else {
                continue;
            };
            match entries.last_mut() {
                Some(last) if last.change == change => last.slices |= 1 << bit,
                _ => entries.push(Entry {
                    change,
                    slices: 1 << bit,
                    hold: Hold::Certain,
                }),
            }
        }
    }
}

pub(super) fn entries_of(contents: &Contents, slice: u64) -> &[Entry] {
    &contents[(slice / SLICES_PER_BLOCK) as usize]
}

fn covers(entry: &Entry, slice: u64) -> bool {
    entry.slices >> (slice % SLICES_PER_BLOCK) & 1 == 1
}

pub(super) fn whole_volume(kind: WrongKind, volume: VolumeId) -> Wrong {
    Wrong {
        kind,
        volume,
        slice: 0,
        found: SliceContent::Zeros,
        allowed: Vec::new(),
    }
}
