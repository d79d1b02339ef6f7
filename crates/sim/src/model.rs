//! What a pool's volumes may hold: the judge of every history.
//!
//! Each change of a volume has four moments: submitted, settled (it cannot take effect any more),
//! acknowledged, durable. From these alone follows, for every slice of 512 bytes, which changes may be
//! found there: any, unless one that is *certainly there* came after it. Certainly there are
//! - while the store runs: what was acknowledged before the read was submitted;
//! - after a power cut: what was durable; whatever stands elsewhere in the same volume block, since a
//!   change of one volume block is applied whole or not at all; and, where [`Rules::order`] says so,
//!   everything that came before anything that is found;
//! - in a snapshot: what was acknowledged before it was asked for.
//!
//! "After" means submitted after the other one had settled: of changes in flight together either may win.
//! What is found after a power cut is pinned: nothing else may ever be found there again, unless it is
//! changed. Where it cannot be read, what was certainly there is pinned; the rest may be there or not, whatever was
//! answered before the power failed.

pub mod extents;
mod judge;
pub mod pattern;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::Range;

pub use judge::{FoundVolume, Wrong, WrongKind};
pub use pattern::Found;

pub use crate::disk::SLICE_SIZE;
use crate::operation::{Admin, ChangeKind, SLICES_PER_BLOCK, VolumeId};

/// A change of a volume, counted from 1; 0 is the zeros that a volume begins with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChangeId(pub u32);

/// Counts everything that the model is told.
pub type Moment = u64;

const NEVER: Moment = Moment::MAX;
/// Space is kept for as many blocks as a volume has.
const ALL_OF_IT: u64 = u64::MAX;

/// What survives together with a change that survived a power cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Nothing but itself.
    Free,
    /// Every change of the pool that was acknowledged before it was submitted: a log of groups that is
    /// replayed up to its end.
    #[default]
    AfterAcknowledged,
    /// Every change of the pool that was submitted before it and did not fail: also where the first to
    /// be submitted is the first in the log.
    AsSubmitted,
}

/// What the store promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// What survives together.
    pub order: Order,
    /// Whether what was durable survives a power cut; not so on disks without redundancy whose flushes lie
    /// and whose bits rot. The last groups of the log may be gone there, and nothing tells: what lies where
    /// they lay is what a power cut leaves of a record that was being written. With them goes what they made,
    /// volumes too; and what an opening wrote over their beginning may be gone after the next power cut, and they be
    /// back. A group that a later one knew to be durable is not lost silently, and bytes are right or
    /// an error also here. Without this promise there can be no administration in a history, since nothing
    /// would follow from its answers.
    pub durability: bool,
}

impl Default for Rules {
    fn default() -> Self {
        let (order, durability) = (Order::AfterAcknowledged, true);
        Self { order, durability }
    }
}

#[derive(Clone, Copy, Debug)]
struct Change {
    is_zero: bool,
    submitted: Moment,
    settled: Moment,
    acknowledged: Moment,
    /// It was answered, and not well.
    has_failed: bool,
    is_durable: bool,
    /// To become durable when it is acknowledged.
    wants_durable: bool,
    volume: VolumeId,
    /// Space was kept for it when it was submitted.
    has_space: bool,
}

const BEGINNING: Change = Change {
    is_zero: true,
    submitted: 0,
    settled: 0,
    acknowledged: 0,
    has_failed: false,
    is_durable: true,
    wants_durable: false,
    volume: VolumeId(u32::MAX),
    has_space: false,
};

/// Whether a change of a block is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hold {
    /// Its moments tell.
    ByMoments,
    /// Certainly.
    Certain,
    /// It may be: it was in flight when the snapshot was taken.
    Perhaps,
}

/// A change of some slices of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    change: ChangeId,
    slices: u8,
    hold: Hold,
}

/// Per block, what may be found in it besides zeros.
type Contents = Vec<Vec<Entry>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Existence {
    Certain,
    /// Its making was not acknowledged.
    Perhaps,
    /// Its end was not acknowledged.
    Doomed,
}

#[derive(Clone, Debug)]
struct Volume {
    /// Blocks per volume block, the unit that is never torn.
    unit: u64,
    existence: Existence,
    is_snapshot: bool,
    /// Blocks of 4 KiB for which space is kept; [`ALL_OF_IT`] where that follows its size.
    kept: u64,
    /// More than one while a rollback or resize is not acknowledged, and where what was found after a power cut
    /// does not tell which of them it is.
    alternatives: Vec<Contents>,
}

/// Administration that was submitted, for [`Model::settle_admin`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AdminId(Moment);

/// What a pool may hold.
#[derive(Clone, Debug)]
pub struct Model {
    rules: Rules,
    now: Moment,
    /// When the store was opened last.
    opened: Moment,
    /// By [`ChangeId`].
    changes: Vec<Change>,
    volumes: BTreeMap<VolumeId, Volume>,
    admin: BTreeMap<AdminId, Admin>,
    /// When the reads in flight were submitted.
    reads: Vec<Moment>,
    /// What was to be destroyed in one operation of which nobody knows whether it happened.
    together: Vec<Vec<VolumeId>>,
}

impl Volume {
    /// It gets another size, to which what is kept is cut, unless that follows it.
    fn keep_at_most(&mut self, blocks: u64) {
        if self.kept != ALL_OF_IT {
            self.kept = self.kept.min(blocks);
        }
    }
}

impl Model {
    /// A pool without volumes.
    pub fn new(rules: Rules) -> Self {
        Self {
            rules,
            now: 0,
            opened: 0,
            changes: vec![BEGINNING],
            volumes: BTreeMap::new(),
            admin: BTreeMap::new(),
            reads: Vec::new(),
            together: Vec::new(),
        }
    }

    /// How many blocks of 4 KiB a volume's own blocks have.
    pub fn unit(&self, volume: VolumeId) -> Option<u64> {
        self.volumes.get(&volume).map(|known| known.unit)
    }

    /// A volume that is there from the beginning, with volume blocks of `unit` blocks of 4 KiB.
    pub fn insert(&mut self, volume: VolumeId, blocks: u64, unit: u64) {
        let contents = vec![Vec::new(); blocks as usize];
        self.volumes.insert(
            volume,
            Volume {
                unit,
                existence: Existence::Certain,
                is_snapshot: false,
                kept: 0,
                alternatives: vec![contents],
            },
        );
    }

    /// Space is kept for all of a volume, also when it is resized or rolled back: none of its changes lacks space.
    ///
    /// # Panics
    /// Where there is no such volume.
    pub fn keep_space(&mut self, volume: VolumeId) {
        self.volume_mut(volume).kept = ALL_OF_IT;
    }

    /// Whether space is kept for some volume.
    pub fn keeps_space(&self) -> bool {
        self.volumes.values().any(|volume| volume.kept > 0)
    }

    /// Whether space was kept for a change, so that on disks that do not fail it cannot.
    pub fn has_space_for(&self, change: ChangeId) -> bool {
        let change = self.change(change);
        let volume = self.volumes.get(&change.volume);
        // What was kept when it was submitted, and still is.
        change.has_space && volume.is_some_and(|volume| self.fits_in_kept(volume))
    }

    /// Whether all that a volume may hold is within what is kept for it. What it wrote since its newest snapshot, for
    /// which space is kept anew, is no more than that.
    fn fits_in_kept(&self, volume: &Volume) -> bool {
        let is_written = |entry: &Entry| !self.change(entry.change).is_zero;
        let is_used = |unit: &[Vec<Entry>]| unit.iter().flatten().any(is_written);
        let fits = |contents: &Contents| {
            let used = contents.chunks(volume.unit as usize);
            used.filter(|unit| is_used(unit)).count() as u64 * volume.unit <= volume.kept
        };
        volume.kept == ALL_OF_IT || volume.kept > 0 && volume.alternatives.iter().all(fits)
    }

    fn tick(&mut self) -> Moment {
        self.now += 1;
        self.now
    }

    /// The volumes that may exist.
    pub fn volumes(&self) -> impl Iterator<Item = VolumeId> + '_ {
        self.volumes.keys().copied()
    }

    /// The size in blocks of a volume that certainly exists and whose contents are not in question.
    pub fn blocks(&self, volume: VolumeId) -> Option<u64> {
        let volume = self.volumes.get(&volume)?;
        let [contents] = &volume.alternatives[..] else {
            return None;
        };
        (volume.existence == Existence::Certain).then_some(contents.len() as u64)
    }

    /// Whether it is a snapshot.
    pub fn is_snapshot(&self, volume: VolumeId) -> bool {
        let volume = self.volumes.get(&volume);
        volume.is_some_and(|volume| volume.is_snapshot)
    }

    /// A change is submitted; it may take effect from now on.
    ///
    /// # Panics
    /// Where the volume has no such slices for certain.
    pub fn submit_change(
        &mut self,
        volume: VolumeId,
        slices: Range<u64>,
        kind: ChangeKind,
        durable: bool,
    ) -> ChangeId {
        let id = ChangeId(self.changes.len() as u32);
        let change = Change {
            is_zero: kind != ChangeKind::Write,
            submitted: self.tick(),
            settled: NEVER,
            acknowledged: NEVER,
            has_failed: false,
            is_durable: false,
            wants_durable: durable,
            volume,
            has_space: false,
        };
        self.changes.push(change);
        let mut target = self.volumes.remove(&volume).expect("the volume exists");
        let block = SLICES_PER_BLOCK;
        for at in slices.start / block..slices.end.div_ceil(block) {
            let first = slices.start.max(at * block) - at * block;
            let end = slices.end.min((at + 1) * block) - at * block;
            let entry = Entry {
                change: id,
                slices: ((1_u16 << end) - (1 << first)) as u8,
                hold: Hold::ByMoments,
            };
            let entries = &mut target.alternatives[0][at as usize];
            if entries.len() >= 16 {
                self.forget_replaced(entries);
            }
            entries.push(entry);
        }
        self.changes[id.0 as usize].has_space = self.fits_in_kept(&target);
        self.volumes.insert(volume, target);
        id
    }

    /// A change that is settled is submitted again, with the same bytes: from now on it is a change of this moment.
    ///
    /// # Panics
    /// As [`Model::submit_change`].
    pub fn submit_again(&mut self, change: ChangeId, slices: Range<u64>) {
        let Change {
            volume,
            wants_durable,
            ..
        } = *self.change(change);
        let again = self.submit_change(volume, slices, ChangeKind::Write, wants_durable);
        self.changes[change.0 as usize] = *self.change(again);
        let target = self.volume_mut(volume);
        for entries in &mut target.alternatives[0] {
            for entry in entries.iter_mut().filter(|entry| entry.change == again) {
                entry.change = change;
            }
        }
        // It has no number of its own.
        self.changes.pop();
    }

    /// Drops what can never be found again.
    fn forget_replaced(&self, entries: &mut Vec<Entry>) {
        if !self.rules.durability {
            return;
        }
        let pending = self.admin.keys().map(|id| id.0);
        let oldest = self.reads.iter().copied().chain(pending).min();
        let since = oldest.unwrap_or(self.now);
        let replaces = |new: &Entry, old: &Entry| {
            let (newer, older) = (self.change(new.change), self.change(old.change));
            // What was durable in the volume may not be in the snapshot that it was rolled back to.
            let is_in = new.hold != Hold::Perhaps;
            let is_there = is_in && newer.is_durable && newer.acknowledged < since;
            is_there && old.slices & !new.slices == 0 && older.settled < newer.submitted
        };
        let all = entries.clone();
        entries.retain(|old| !all.iter().any(|new| replaces(new, old)));
    }

    fn change(&self, id: ChangeId) -> &Change {
        &self.changes[id.0 as usize]
    }

    /// A change was answered. One that failed may have happened, but will not any more.
    pub fn settle_change(&mut self, id: ChangeId, ok: bool) {
        let now = self.tick();
        let change = &mut self.changes[id.0 as usize];
        change.settled = now;
        change.has_failed = !ok;
        if ok {
            change.acknowledged = now;
            change.is_durable = change.wants_durable;
        }
    }

    /// A flush is submitted; the moment is for [`Model::flushed`].
    pub fn submit_flush(&mut self) -> Moment {
        self.tick()
    }

    /// A flush of a volume was answered well.
    pub fn flushed(&mut self, volume: VolumeId, submitted: Moment) {
        for change in &mut self.changes {
            // What a power cut took away before does not come back with it.
            let is_there = self.opened < change.submitted && change.acknowledged < submitted;
            if change.volume == volume && is_there {
                change.is_durable = true;
            }
        }
    }

    /// A read is submitted; the moment is for [`Model::judge_read`] or [`Model::end_read`].
    pub fn submit_read(&mut self) -> Moment {
        let now = self.tick();
        self.reads.push(now);
        now
    }

    /// A read ended, however.
    pub fn end_read(&mut self, submitted: Moment) {
        self.reads.retain(|read| *read != submitted);
    }

    /// Administration is submitted: from now on it may have happened.
    ///
    /// # Panics
    /// Where a volume that it needs does not exist for certain.
    pub fn submit_admin(&mut self, admin: &Admin) -> AdminId {
        let id = AdminId(self.tick());
        let perhaps = |unit, contents: Option<Contents>| Volume {
            unit,
            existence: Existence::Perhaps,
            is_snapshot: contents.is_none(),
            kept: 0,
            alternatives: contents.into_iter().collect(),
        };
        match admin {
            Admin::Create { volume, blocks } => {
                let contents = vec![Vec::new(); *blocks as usize];
                self.volumes.insert(*volume, perhaps(1, Some(contents)));
            }
            Admin::Snapshot { of } => {
                for (volume, snapshot) in of {
                    let unit = self.volumes[volume].unit;
                    self.volumes.insert(*snapshot, perhaps(unit, None));
                }
            }
            Admin::Clone { snapshot, volume } => {
                let origin = &self.volumes[snapshot];
                let contents = origin.alternatives[0].clone();
                let made = perhaps(origin.unit, Some(contents));
                self.volumes.insert(*volume, made);
            }
            Admin::Rollback { volume, snapshot } => {
                let contents = self.volumes[snapshot].alternatives[0].clone();
                let volume = self.volume_mut(*volume);
                volume.keep_at_most(contents.len() as u64);
                volume.alternatives.push(contents);
            }
            Admin::Resize { volume, blocks } => {
                let volume = self.volume_mut(*volume);
                volume.keep_at_most(*blocks);
                let mut contents = volume.alternatives[0].clone();
                contents.resize(*blocks as usize, Vec::new());
                volume.alternatives.push(contents);
            }
            Admin::Destroy { volume } => self.volume_mut(*volume).existence = Existence::Doomed,
            Admin::DestroyAll { volumes, .. } => {
                for volume in volumes {
                    self.volume_mut(*volume).existence = Existence::Doomed;
                }
            }
            Admin::Reserve { volume, blocks } => {
                // Until that is answered nobody knows which of the two it is.
                let volume = self.volume_mut(*volume);
                volume.kept = volume.kept.min(*blocks);
            }
            Admin::Promote { .. } | Admin::Rename { .. } | Admin::SetProperty { .. } => {}
            Admin::Checkpoint | Admin::Scrub | Admin::Reshape(_) => {}
        }
        self.admin.insert(id, admin.clone());
        id
    }

    fn volume_mut(&mut self, volume: VolumeId) -> &mut Volume {
        self.volumes.get_mut(&volume).expect("the volume exists")
    }

    /// Administration was answered. What failed may have happened: its volumes are in question until the
    /// store was opened again.
    pub fn settle_admin(&mut self, id: AdminId, ok: bool) {
        self.tick();
        let admin = self.admin.remove(&id).expect("it was submitted");
        if let Admin::Snapshot { of } = &admin {
            self.freeze(of, id.0);
        }
        if !ok {
            self.doubt(&admin);
            return;
        }
        match admin {
            Admin::Create { volume, .. } | Admin::Clone { volume, .. } => {
                self.volume_mut(volume).existence = Existence::Certain;
            }
            Admin::Snapshot { of } => {
                for (_, snapshot) in of {
                    self.volume_mut(snapshot).existence = Existence::Certain;
                }
            }
            Admin::Rollback { volume, .. } | Admin::Resize { volume, .. } => {
                self.volume_mut(volume).alternatives.remove(0);
            }
            Admin::Destroy { volume } => {
                self.volumes.remove(&volume);
            }
            Admin::DestroyAll { volumes, .. } => {
                for volume in volumes {
                    self.volumes.remove(&volume);
                }
            }
            Admin::Reserve { volume, blocks } => {
                let others = self.admin.values();
                let of_it = |admin: &&Admin| matches!(admin, Admin::Reserve { volume: other, .. } if *other == volume);
                let least = others.filter(of_it).filter_map(Admin::reserved).min();
                let target = self.volume_mut(volume);
                let is_all = target.alternatives[0].len() as u64 == blocks;
                let kept = if is_all { ALL_OF_IT } else { blocks };
                target.kept = least.map_or(kept, |least| kept.min(least));
            }
            Admin::Promote { .. } | Admin::Rename { .. } | Admin::SetProperty { .. } => {}
            Admin::Checkpoint | Admin::Scrub | Admin::Reshape(_) => {}
        }
    }

    /// Gives snapshots that were asked for at `submitted` what they may hold.
    fn freeze(&mut self, of: &[(VolumeId, VolumeId)], submitted: Moment) {
        for (volume, snapshot) in of {
            let Some(origin) = self.volumes.get(volume) else {
                continue;
            };
            let mut contents = origin.alternatives[0].clone();
            for entry in contents.iter_mut().flatten() {
                if entry.hold == Hold::ByMoments {
                    let change = self.change(entry.change);
                    let is_of_this_life = self.opened < change.submitted;
                    let is_there = is_of_this_life || change.is_durable && self.rules.durability;
                    let is_in = is_there && change.acknowledged < submitted;
                    entry.hold = if is_in { Hold::Certain } else { Hold::Perhaps };
                }
            }
            self.volume_mut(*snapshot).alternatives = vec![contents];
        }
    }

    /// The store is gone, by a power cut or by its own end: whatever was not answered happened or never
    /// will. [`Model::judge_recovered`] comes next.
    pub fn crash(&mut self) {
        let now = self.tick();
        for change in &mut self.changes {
            change.settled = change.settled.min(now);
        }
        for (id, admin) in std::mem::take(&mut self.admin) {
            self.doubt(&admin);
            if let Admin::Snapshot { of } = admin {
                self.freeze(&of, id.0);
            }
        }
        self.reads.clear();
    }

    /// Nobody knows whether an operation happened.
    fn doubt(&mut self, admin: &Admin) {
        if let Admin::DestroyAll { volumes, .. } = admin {
            self.together.push(volumes.clone());
        }
    }

    /// What became of a change, for reports.
    pub fn describe(&self, id: ChangeId) -> &'static str {
        let change = self.change(id);
        match change {
            change if change.is_durable => "durable",
            change if change.acknowledged != NEVER => "acknowledged",
            change if change.has_failed => "failed",
            _ => "not answered",
        }
    }
}
