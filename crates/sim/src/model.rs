//! The model of a pool's volumes: their possible content. It is the judge of every history.
//!
//! Each change of a volume has four moments: submitted, settled (it cannot take effect any more),
//! acknowledged, durable. From these alone follows which changes may be found in every slice of 512
//! bytes. Any change may be found, unless another one that is *certainly there* came after it.
//! These changes are certainly there:
//! - while the store runs, all that were acknowledged before the read was submitted;
//! - after a power cut, all that were durable;
//! - after a power cut, all that show elsewhere in one volume block, since a change of one volume
//!   block is applied whole or not at all;
//! - after a power cut, if [`Rules::order`] says so, all that came before any change that is found;
//! - in a snapshot, all that were acknowledged before the snapshot was asked for.
//!
//! "After" means submitted after the other one had settled: of changes in flight together, either
//! may win. Content that is found after a power cut is pinned: nothing else may ever be found there
//! again, unless it is changed. Of content that cannot be read, the certain changes are pinned. The
//! others may be there or not, whatever was answered before the power failed.

pub mod extents;
mod judge;
pub mod pattern;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::Range;

pub use judge::{FoundVolume, Wrong, WrongKind};
pub use pattern::SliceContent;

pub use crate::disk::SLICE_SIZE;
use crate::operation::{Admin, ChangeKind, SLICES_PER_BLOCK, VolumeId};

/// Number of a change of a volume, counted from 1; 0 is the zeros that a volume begins with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChangeId(pub u32);

/// Moment: it counts everything that the model is told.
pub type Moment = u64;

const NEVER: Moment = Moment::MAX;
/// Value that reserves space for as many blocks as a volume has.
const ALL_OF_IT: u64 = u64::MAX;

/// Changes that survive together with a change that survived a power cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// No other change survives for sure.
    Free,
    /// Every change of the pool survives that was acknowledged before the surviving one was
    /// submitted. A log of groups that is replayed up to its end does this.
    #[default]
    AfterAcknowledged,
    /// Every change of the pool survives that was submitted before the surviving one and did not
    /// fail. This holds if the first to be submitted is also the first in the log.
    AsSubmitted,
}

/// Promises of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Changes that survive together.
    pub order: Order,
    /// Whether durable changes survive a power cut. They do not on disks without redundancy whose
    /// flushes lie and whose bits rot. The last groups of the log may be gone there, and nothing
    /// tells: their place looks as a power cut leaves a record that was being written. With these
    /// groups goes everything that they made, volumes too. An opening writes over their beginning;
    /// if that write is gone after the next power cut, the groups may be back.
    ///
    /// Even so, a group that a later one knew to be durable is not lost silently, and bytes are
    /// right or an error. Without this promise a history can have no administration, since nothing
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
    /// Whether the change was answered with a failure.
    has_failed: bool,
    is_durable: bool,
    /// Whether the change becomes durable when it is acknowledged.
    wants_durable: bool,
    volume: VolumeId,
    /// Whether space was reserved for the change when it was submitted.
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

/// Presence of a change of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hold {
    /// The change's moments decide.
    ByMoments,
    /// The change is certainly there.
    Certain,
    /// The change may be there: it was in flight when the snapshot was taken.
    Perhaps,
}

/// A change of some slices of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    change: ChangeId,
    slices: u8,
    hold: Hold,
}

/// Entries of each block: the changes that may be found in it besides zeros.
type Contents = Vec<Vec<Entry>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Existence {
    Certain,
    /// The volume's creation was not acknowledged.
    Perhaps,
    /// The volume's destruction was not acknowledged.
    Doomed,
}

#[derive(Clone, Debug)]
struct Volume {
    /// Number of blocks in a volume block, the unit that is never torn.
    unit: u64,
    existence: Existence,
    is_snapshot: bool,
    /// Number of blocks of 4 KiB for which space is reserved; [`ALL_OF_IT`] if that follows the
    /// volume's size.
    kept: u64,
    /// Possible contents. There are several while a rollback or resize is not acknowledged, and if
    /// the content found after a power cut does not tell which of them is right.
    alternatives: Vec<Contents>,
}

/// Number of submitted administration, for [`Model::settle_admin`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AdminId(Moment);

/// Possible content of a pool.
#[derive(Clone, Debug)]
pub struct Model {
    rules: Rules,
    now: Moment,
    /// Moment at which the store was opened last.
    opened: Moment,
    /// Changes by [`ChangeId`].
    changes: Vec<Change>,
    volumes: BTreeMap<VolumeId, Volume>,
    admin: BTreeMap<AdminId, Admin>,
    /// Moments at which the reads in flight were submitted.
    reads: Vec<Moment>,
    /// Volumes that were to be destroyed in one operation, if nobody knows whether it happened.
    together: Vec<Vec<VolumeId>>,
}

impl Volume {
    /// Cuts the reservation to the volume's new size, unless it follows the size.
    fn keep_at_most(&mut self, blocks: u64) {
        if self.kept != ALL_OF_IT {
            self.kept = self.kept.min(blocks);
        }
    }
}

impl Model {
    /// Makes a pool without volumes.
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

    /// Returns the number of blocks of 4 KiB in one of a volume's own blocks.
    pub fn unit(&self, volume: VolumeId) -> Option<u64> {
        self.volumes.get(&volume).map(|known| known.unit)
    }

    /// Adds a volume that exists from the beginning, with volume blocks of `unit` blocks of 4 KiB.
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

    /// Reserves space for all of a volume, also when it is resized or rolled back. None of its
    /// changes lacks space.
    ///
    /// # Panics
    /// There is no such volume.
    pub fn keep_space(&mut self, volume: VolumeId) {
        self.volume_mut(volume).kept = ALL_OF_IT;
    }

    /// Reports whether space is reserved for some volume.
    pub fn keeps_space(&self) -> bool {
        self.volumes.values().any(|volume| volume.kept > 0)
    }

    /// Reports whether space was reserved for a change. If so, it cannot fail on disks that do not
    /// fail.
    pub fn has_space_for(&self, change: ChangeId) -> bool {
        let change = self.change(change);
        let volume = self.volumes.get(&change.volume);
        // The space was reserved when the change was submitted, and still is.
        change.has_space && volume.is_some_and(|volume| self.fits_in_kept(volume))
    }

    /// Reports whether all that a volume may hold is within its reservation. Space is reserved anew
    /// for the writes since its newest snapshot, and these are no more than all that it may hold.
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

    /// Returns the volumes that may exist.
    pub fn volumes(&self) -> impl Iterator<Item = VolumeId> + '_ {
        self.volumes.keys().copied()
    }

    /// Returns the size in blocks of a volume that certainly exists and whose contents are not in
    /// question.
    pub fn blocks(&self, volume: VolumeId) -> Option<u64> {
        let volume = self.volumes.get(&volume)?;
        let [contents] = &volume.alternatives[..] else {
            return None;
        };
        (volume.existence == Existence::Certain).then_some(contents.len() as u64)
    }

    /// Reports whether the volume is a snapshot.
    pub fn is_snapshot(&self, volume: VolumeId) -> bool {
        let volume = self.volumes.get(&volume);
        volume.is_some_and(|volume| volume.is_snapshot)
    }

    /// Submits a change, which may take effect from now on.
    ///
    /// # Panics
    /// The volume does not certainly have these slices.
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

    /// Submits a settled change again, with equal bytes. From now on it is a change of this moment.
    ///
    /// # Panics
    /// The volume does not certainly have these slices.
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
        // The repeated change has no number of its own.
        self.changes.pop();
    }

    /// Drops changes that can never be found again.
    fn forget_replaced(&self, entries: &mut Vec<Entry>) {
        if !self.rules.durability {
            return;
        }
        let pending = self.admin.keys().map(|id| id.0);
        let oldest = self.reads.iter().copied().chain(pending).min();
        let since = oldest.unwrap_or(self.now);
        let replaces = |new: &Entry, old: &Entry| {
            let (newer, older) = (self.change(new.change), self.change(old.change));
            // A change that was durable in the volume may be missing in the snapshot to which the
            // volume was rolled back.
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

    /// Settles a change that was answered. A change that failed may have happened, but will not
    /// happen any more.
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

    /// Submits a flush. The moment is for [`Model::flushed`].
    pub fn submit_flush(&mut self) -> Moment {
        self.tick()
    }

    /// Notes that a flush of a volume was answered well.
    pub fn flushed(&mut self, volume: VolumeId, submitted: Moment) {
        for change in &mut self.changes {
            // A change that a power cut took away before does not come back with the flush.
            let is_there = self.opened < change.submitted && change.acknowledged < submitted;
            if change.volume == volume && is_there {
                change.is_durable = true;
            }
        }
    }

    /// Submits a read. The moment is for [`Model::judge_read`] or [`Model::end_read`].
    pub fn submit_read(&mut self) -> Moment {
        let now = self.tick();
        self.reads.push(now);
        now
    }

    /// Ends a read, whatever its result.
    pub fn end_read(&mut self, submitted: Moment) {
        self.reads.retain(|read| *read != submitted);
    }

    /// Submits administration. From now on it may have happened.
    ///
    /// # Panics
    /// A volume that the administration needs does not certainly exist.
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
                // Until the answer comes, nobody knows which of the two contents is right.
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

    /// Settles administration that was answered. If it failed, it may have happened: its volumes
    /// are in question until the store was opened again.
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

    /// Gives snapshots that were asked for at `submitted` their possible content.
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

    /// Ends the store's life, by a power cut or by its own end. Operations that were not answered
    /// happened or never will. [`Model::judge_recovered`] comes next.
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

    /// Notes that nobody knows whether an operation happened.
    fn doubt(&mut self, admin: &Admin) {
        if let Admin::DestroyAll { volumes, .. } = admin {
            self.together.push(volumes.clone());
        }
    }

    /// Describes the fate of a change, for reports.
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
