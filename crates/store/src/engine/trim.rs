//! Tells devices which space is free: by itself if the property `autotrim` is on, and for the
//! command `pool trim`.
//!
//! A trimmed range reads as anything. So a trim follows the rule of a write: it may touch only
//! sectors that are free in [`Space`](crate::space::Space). No such sector is reached by the last
//! two durable checkpoints. Nor is it reached by the log since them, with its signposts, its mark
//! and the place of its next record. A dropped block becomes free only when two more checkpoints
//! are durable. So a power cut at any moment of a trim loses nothing that an opening needs.
//!
//! Each step keeps this order:
//! 1. free runs of one region are held back from allocation (`crate::space::Space::hold`);
//! 2. the devices are told;
//! 3. when all have answered, the hold ends. If allocation needs the sectors sooner, it ends before
//!    that: each device's queue lets no write into a range that the device is still trimming.
//!
//! Each top-level vdev has one step under way, in the background class of its leaves' queues. While
//! the pool serves requests, a rest follows each step, three times as long as the step.
//!
//! Only vdevs for blocks are trimmed, but all their leaves in use: of mirrors, of raidz, new ones
//! of a replacement, and spares in use. Log vdevs and cache vdevs are not trimmed, since they
//! overwrite the same space again and again. An available spare is not trimmed, since the pool put
//! nothing on it.

pub(super) mod record;
pub(super) mod trims;

use std::collections::BTreeSet;
use std::fmt;

use super::properties::PoolProperty;
use super::request::Event;
use super::state::Pool;
use super::tags::Tag;
use crate::format::SECTOR_SIZE;
use crate::space::{Extent, Untold};
use crate::vdev::{DeviceError, DeviceErrorKind, LeafId};
use record::TrimRecord;
use trims::Step;

pub use record::{TrimState, TrimStatus};

/// Runs that devices are told of in one step.
const RUNS_AT_ONCE: usize = 32;
/// Least sectors of each leaf that `autotrim` tells its device of: 32 KiB, as zpool does.
const LEAST_FREED: u64 = 8;
/// Time since the last request during which the pool counts as serving, in microseconds.
const SERVING_US: u64 = 100_000;
/// Ratio of the rest after a step to the step, while the pool is serving.
const REST: u64 = 3;
/// Time after which a step that could not begin is tried again, in microseconds.
const AGAIN_US: u64 = 1_000;

/// Reason why a trim is not begun, paused or ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrimRefused {
    /// The leaf is not of a vdev for blocks.
    NotOfBlocks,
    /// The leaf is away.
    Away,
    /// The device cannot trim.
    Unable,
    /// The leaf is already being trimmed.
    Running,
    /// The leaf is not being trimmed.
    NotRunning,
}

impl fmt::Display for TrimRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotOfBlocks => {
                "only devices that hold blocks can be trimmed, not logs, caches and spares"
            }
            Self::Away => "the device is not in use",
            Self::Unable => "the device cannot trim",
            Self::Running => "the device is already being trimmed",
            Self::NotRunning => "the device is not being trimmed",
        })
    }
}

/// Orders of administrators.
impl Pool {
    /// Begins or resumes a trim of all free space of a leaf, at most `rate` bytes a second.
    ///
    /// # Errors
    /// The leaf is already being trimmed, or cannot be.
    pub fn start_trim(
        &mut self,
        leaf: LeafId,
        rate: Option<u64>,
        now_us: u64,
    ) -> Result<(), TrimRefused> {
        self.heed_time(now_us);
        let guid = self.may_trim(leaf)?;
        let before = self.trims.by_leaf.get(&guid);
        let record = match before.map(|record| record.state) {
            Some(TrimState::Running) => return Err(TrimRefused::Running),
            Some(TrimState::Suspended) => before.cloned(),
            _ => None,
        };
        let mut record = record.unwrap_or_else(|| TrimRecord::new(guid, self.time_s()));
        record.state = TrimState::Running;
        record.rate = rate;
        self.trim_changed(record);
        Ok(())
    }

    /// Pauses a trim of a leaf until it is started again.
    ///
    /// # Errors
    /// The leaf is not being trimmed.
    pub fn pause_trim(&mut self, leaf: LeafId, now_us: u64) -> Result<(), TrimRefused> {
        self.end_trim(leaf, TrimState::Suspended, now_us)
    }

    /// Cancels a trim of a leaf.
    ///
    /// # Errors
    /// The leaf is not being trimmed.
    pub fn cancel_trim(&mut self, leaf: LeafId, now_us: u64) -> Result<(), TrimRefused> {
        self.end_trim(leaf, TrimState::Canceled, now_us)
    }

    fn end_trim(&mut self, leaf: LeafId, state: TrimState, now_us: u64) -> Result<(), TrimRefused> {
        self.heed_time(now_us);
        let guid = self.array_guid(leaf).ok_or(TrimRefused::NotRunning)?;
        let record = self.trims.by_leaf.get(&guid);
        let may = |record: &&TrimRecord| match record.state {
            TrimState::Running => true,
            TrimState::Suspended => state == TrimState::Canceled,
            TrimState::Finished | TrimState::Canceled => false,
        };
        let mut record = record.filter(may).cloned().ok_or(TrimRefused::NotRunning)?;
        record.state = state;
        record.ended_s = self.time_s();
        self.trim_changed(record);
        Ok(())
    }

    fn may_trim(&self, leaf: LeafId) -> Result<u64, TrimRefused> {
        self.blocks_of(leaf).ok_or(TrimRefused::NotOfBlocks)?;
        let guid = self.array_guid(leaf).ok_or(TrimRefused::NotOfBlocks)?;
        match () {
            () if !self.is_usable(leaf) => Err(TrimRefused::Away),
            () if self.trims.unable.contains(&guid) => Err(TrimRefused::Unable),
            () => Ok(guid),
        }
    }

    /// Stores a trim's record for the next checkpoint.
    fn trim_changed(&mut self, record: TrimRecord) {
        let event = Event::Trim {
            leaf: record.leaf,
            state: record.state,
            bytes: record.bytes,
        };
        self.tell(event);
        self.trims.by_leaf.insert(record.leaf, record);
        self.want_checkpoint();
        self.go_on();
    }

    /// Returns the trims that users asked for, of leaves that still exist.
    pub fn trims(&self) -> Vec<TrimStatus> {
        let records = self.trims.by_leaf.values().filter_map(|record| {
            let (vdev, _) = self.blocks_of(self.array_leaf(record.leaf)?)?;
            // A vdev that was just added has no space before the labels know it. Its trim waits.
            let is_in_use = vdev < self.space.vdevs();
            let total = if is_in_use { self.space.size(vdev) } else { 0 };
            Some(record.status(total))
        });
        records.collect()
    }

    /// Returns the guids of leaves whose devices reported that they cannot trim.
    pub fn leaves_without_trim(&self) -> Vec<u64> {
        self.trims.unable.iter().copied().collect()
    }

    /// Returns the bytes that `autotrim` told devices of since the pool was opened.
    pub fn auto_trimmed(&self) -> u64 {
        self.trims.auto_bytes
    }
}

/// Steps of trims.
impl Pool {
    /// Starts or stops noting freed space for `autotrim`. Called when the property is set, and when
    /// the pool is open.
    pub(super) fn heed_autotrim(&mut self) {
        let is_on = self.config().properties.is_on(PoolProperty::Autotrim);
        self.space.note_freed(is_on && !self.is_read_only());
    }

    /// Stops new steps, or allows them again.
    pub(super) fn end_trims(&mut self, is_over: bool) {
        self.trims.is_over = is_over;
    }

    /// Begins the steps that are due.
    pub(super) fn trim_go_on(&mut self) {
        if self.is_suspended() || self.trims.is_over || !self.space.may_hold() {
            return;
        }
        for vdev in 0..self.space.vdevs() {
            let due_us = self.trims.due_us.get(&vdev).copied().unwrap_or(0);
            if due_us <= self.now_us() && !self.trims.steps.contains_key(&vdev) {
                self.begin_step(vdev);
            }
        }
    }

    /// Returns the time at which a step is to begin; `None` if there is nothing to trim, or devices
    /// still have to answer.
    pub(super) fn trim_due_us(&self) -> Option<u64> {
        if self.trims.is_over {
            return None;
        }
        let waiting = (0..self.space.vdevs()).filter(|vdev| {
            !self.trims.steps.contains_key(vdev)
                && (self.space.has_freed(*vdev) || self.next_leaf(*vdev).is_some())
        });
        let due = waiting.map(|vdev| self.trims.due_us.get(&vdev).copied().unwrap_or(0));
        let least = match self.space.may_hold() {
            true => 0,
            false => self.background.worked_us() + AGAIN_US,
        };
        due.min().map(|due| due.max(least))
    }

    /// Returns the leaf of a top-level vdev whose turn it is, among those that users want trimmed.
    fn next_leaf(&self, vdev: u16) -> Option<(u64, LeafId)> {
        let running = self.trims.by_leaf.values();
        let running = running.filter(|record| record.state == TrimState::Running);
        let here = running.filter_map(|record| {
            let leaf = self.array_leaf(record.leaf)?;
            let (own, _) = self.blocks_of(leaf)?;
            (own == vdev && self.is_usable(leaf)).then_some((record.position, record.leaf, leaf))
        });
        here.min().map(|(_, guid, leaf)| (guid, leaf))
    }

    fn begin_step(&mut self, vdev: u16) {
        match self.next_leaf(vdev) {
            Some((guid, leaf)) => {
                let position = self.trims.by_leaf[&guid].position;
                let which = Untold::From(position);
                let (extents, next) = self.space.hold(vdev, which, 1, RUNS_AT_ONCE);
                match extents.is_empty() {
                    true => self.trim_is_done(guid, next),
                    false => self.tell_devices(vdev, Some((guid, leaf)), extents, next),
                }
            }
            None if self.space.has_freed(vdev) => {
                if self.able_leaves(vdev) == 0 {
                    return self.space.forget_freed(vdev);
                }
                let least = LEAST_FREED * self.columns_of(vdev);
                let (extents, _) = self
                    .space
                    .hold(vdev, Untold::Freed, least as u32, RUNS_AT_ONCE);
                if !extents.is_empty() {
                    self.tell_devices(vdev, None, extents, 0);
                }
            }
            None => {}
        }
    }

    /// Returns the number of leaves of a top-level vdev that are used and may trim.
    fn able_leaves(&self, vdev: u16) -> u64 {
        let leaves = self.leaves_of(vdev);
        let able = leaves.filter(|leaf| {
            let guid = self.array_guid(*leaf);
            let is_unable = guid.is_some_and(|guid| self.trims.unable.contains(&guid));
            self.is_usable(*leaf) && !is_unable
        });
        able.count() as u64
    }

    fn tell_devices(
        &mut self,
        vdev: u16,
        of: Option<(u64, LeafId)>,
        extents: Vec<Extent>,
        next: u64,
    ) {
        let step = Step {
            of: of.map(|(guid, _)| guid),
            waiting: extents.len(),
            extents: extents.clone(),
            failed: Vec::new(),
            asked_us: self.now_us(),
            next,
        };
        self.trims.steps.insert(vdev, step);
        for extent in extents {
            let tag = self.tag(Tag::Trim(vdev));
            let range = (extent.address(), u64::from(extent.sectors));
            self.trim_range(tag, range, of.map(|(_, leaf)| leaf));
        }
    }

    /// Takes the devices' answers for one run.
    pub(super) fn trimmed(&mut self, vdev: u16, failed: Vec<(LeafId, DeviceError)>) {
        let Some(step) = self.trims.steps.get_mut(&vdev) else {
            return;
        };
        step.failed.extend(failed);
        step.waiting -= 1;
        if step.waiting > 0 {
            return;
        }
        let Some(step) = self.trims.steps.remove(&vdev) else {
            return;
        };
        for extent in &step.extents {
            self.space.let_go(*extent);
        }
        for (leaf, error) in &step.failed {
            if error.kind == DeviceErrorKind::Unsupported {
                self.is_unable(*leaf);
            }
        }
        let sectors: u64 = step.extents.iter().map(|of| u64::from(of.sectors)).sum();
        let bytes = sectors * SECTOR_SIZE as u64 / self.columns_of(vdev);
        let rate = match step.of {
            None => {
                self.trims.auto_bytes += bytes * self.able_leaves(vdev);
                None
            }
            Some(guid) => self.note_step(guid, &step, bytes),
        };
        let took_us = self.now_us().saturating_sub(step.asked_us);
        let serves = self.background.was_asked(self.now_us(), SERVING_US);
        let rest_us = if serves { REST * took_us } else { 0 };
        let by_rate = rate.map_or(0, |rate| bytes.saturating_mul(1_000_000) / rate.max(1));
        let due_us = (self.now_us() + rest_us).max(step.asked_us + by_rate);
        self.trims.due_us.insert(vdev, due_us);
        self.background.owe();
    }

    /// Notes the progress of a leaf's trim, if it was not cancelled. Returns its limit in bytes a
    /// second.
    fn note_step(&mut self, guid: u64, step: &Step, bytes: u64) -> Option<u64> {
        let record = self.trims.by_leaf.get_mut(&guid)?;
        let is_away = step.failed.iter().any(|(_, error)| {
            matches!(
                error.kind,
                DeviceErrorKind::Gone | DeviceErrorKind::TimedOut
            )
        });
        // If the leaf is away, the trim continues at this place when it is back.
        if !is_away {
            record.position = record.position.max(step.next);
            match step.failed.is_empty() {
                true => record.bytes += bytes,
                false => record.failed += 1,
            }
        }
        record.rate
    }

    /// Notes that a device cannot trim. The event comes once, and the device is not asked again.
    fn is_unable(&mut self, leaf: LeafId) {
        let Some(guid) = self.array_guid(leaf) else {
            return;
        };
        self.trims.by_leaf.remove(&guid);
        if self.trims.unable.insert(guid) {
            self.tell(Event::TrimUnsupported { leaf: guid });
        }
    }

    fn trim_is_done(&mut self, guid: u64, end: u64) {
        let Some(mut record) = self.trims.by_leaf.remove(&guid) else {
            return;
        };
        record.position = end;
        record.state = TrimState::Finished;
        record.ended_s = self.time_s();
        let event = Event::Trim {
            leaf: guid,
            state: record.state,
            bytes: record.bytes,
        };
        self.tell(event);
        self.trims.by_leaf.insert(guid, record);
        self.want_checkpoint();
    }

    /// Forgets the trims of leaves that have left the pool.
    pub(super) fn forget_trims(&mut self) {
        if self.trims.by_leaf.is_empty() && self.trims.unable.is_empty() {
            return;
        }
        let there: BTreeSet<u64> = self.leaf_statuses().map(|leaf| leaf.guid).collect();
        self.trims.by_leaf.retain(|guid, _| there.contains(guid));
        self.trims.unable.retain(|guid| there.contains(guid));
    }
}
