//! Changes the vdevs of a pool while it is in use. Devices are taken offline and used again,
//! attached, detached and replaced; vdevs are added and grown. For spares, see `devices/spares.rs`.
//!
//! A change takes effect at once. It is also written to the labels at once, and nothing is
//! acknowledged before they hold it (`devices/label_writes.rs`). [`Pool::sync`] tells when they do.
//! Sectors of a new or larger vdev are used from then on. Rebuilding begins by itself (`scan.rs`).

use std::collections::BTreeMap;

use super::activity::protection::{Protected, Stop};
use super::config::PoolConfig;
use super::request::{PoolError, PoolErrorKind, RequestId};
use super::scan::status::{ScanState, ScanStatus};
use super::state::Pool;
use crate::engine::devices::caches::CacheStatus;
use crate::engine::devices::logs::LogStatus;
use crate::space::{Counts, VdevSpace};
use crate::vdev::{
    Class, LeafId, LeafSpec, LeafStatus, ShapeError, SlotKind, TopLevelSpec, TopLevelStatus,
    VdevEvent, VdevState,
};

/// State of a pool, as users see it.
#[derive(Clone, Debug)]
pub struct PoolStatus {
    /// Name of the pool.
    pub name: String,
    /// Guid of the pool.
    pub guid: u64,
    /// State of the worst top-level vdev, even if the pool is suspended.
    pub state: VdevState,
    /// Reason why the pool takes no more changes; `None` if it takes them, or never did.
    pub suspended: Option<String>,
    /// Reason why the pool is not served at all any more; `None` if it is served.
    pub stopped: Option<Stop>,
    /// Protection against being open on two hosts; `None` if the pool has none.
    pub protected: Option<Protected>,
    /// Whether the pool only serves reads.
    pub is_read_only: bool,
    /// Top-level vdevs of the pool.
    pub top_levels: Vec<TopLevelStatus>,
    /// Guids of spares that are in no slot.
    pub spares: Vec<u64>,
    /// Guids of `spares` that are still leaving a slot. They are available when the labels say so
    /// and their devices have answered.
    pub leaving_spares: Vec<u64>,
    /// Guids of spares that stand in for a leaf.
    pub spares_in_use: Vec<u64>,
    /// Leaves whose devices fail so often that they are not trusted to last. They are degraded, and
    /// still used.
    pub failing: Vec<LeafId>,
    /// Leaves that came back older than the pool. They do not count until they are rebuilt.
    pub behind: Vec<LeafId>,
    /// Devices that were shorter than remembered when the pool was opened.
    pub short: Vec<super::open::sizes::Short>,
    /// Scan under way, or the last one.
    pub scan: Option<ScanStatus>,
    /// Scrub, running or paused, that a resilver interrupted. It begins again when the resilver is
    /// over.
    pub waiting_scrub: Option<ScanState>,
    /// Counts of the pool's sectors, parity included.
    pub counts: Counts,
    /// Sectors that are left for data, without those that volumes reserved.
    pub available: u64,
    /// Whether long writes to a volume find no room.
    pub is_full: bool,
    /// Sectors of each top-level vdev, by its number; zeros for vdevs that take no blocks.
    pub space: Vec<VdevSpace>,
    /// Cache vdevs of the pool.
    pub caches: Vec<CacheStatus>,
    /// Log vdevs of the pool.
    pub logs: Vec<LogStatus>,
    /// Blocks leading to other blocks that were written only once since the pool was opened, for
    /// lack of room for second copies.
    pub written_once: u64,
}

impl From<ShapeError> for PoolError {
    fn from(error: ShapeError) -> Self {
        Self::new(PoolErrorKind::Refused, error.to_string())
    }
}

impl Pool {
    /// Returns the present state of the pool.
    pub fn status(&self) -> PoolStatus {
        let top_levels = self.top_levels();
        // A pool without its log vdevs is slower, but works.
        let state = top_levels.iter().map(|top| match top.class {
            Class::Log if severity(&top.state) > severity(&VdevState::Degraded) => {
                VdevState::Degraded
            }
            _ => top.state,
        });
        let state = state.max_by_key(severity);
        let guids = self.config.spares.iter().map(|spare| spare.guid);
        let (spares_in_use, spares) = guids.partition(|guid| self.array_leaf(*guid).is_some());
        PoolStatus {
            name: self.config.name.clone(),
            guid: self.config.guid,
            state: state.unwrap_or(VdevState::Online),
            suspended: self.suspended_because().map(str::to_owned),
            stopped: self.stopped().cloned(),
            protected: self.protected(),
            is_read_only: self.is_read_only(),
            top_levels,
            spares,
            leaving_spares: self.tending.leaving().collect(),
            spares_in_use,
            failing: self.failures.failing().collect(),
            behind: (self.old_devices.behind())
                .filter_map(|of| self.array_leaf(of.leaf))
                .collect(),
            short: self.short_devices(),
            scan: self.scan_status(),
            waiting_scrub: self.waiting_scrub(),
            counts: self.counts(),
            available: self.unreserved(),
            is_full: self.is_full(),
            space: self.space_by_vdev(),
            caches: self.caches.statuses(),
            logs: self.log_statuses(),
            written_once: self.second_copies.written_once(),
        }
    }

    /// Returns the pool's identity and its vdevs, as the labels say or will say.
    pub fn config(&self) -> &PoolConfig {
        &self.config
    }

    /// Returns the guid of a leaf, even of one that was detached.
    pub fn guid(&self, leaf: LeafId) -> Option<u64> {
        self.array_guid(leaf).or_else(|| self.caches.guid(leaf))
    }

    /// Returns the position of a leaf in the array.
    pub fn leaf(&self, guid: u64) -> Option<LeafId> {
        self.array_leaf(guid).or_else(|| self.caches.find(guid))
    }

    /// Reports whether a leaf may get requests: it is there, and neither offline nor given up.
    pub fn uses(&self, leaf: LeafId) -> bool {
        let mut leaves = self.leaf_statuses();
        let is_used = leaves.any(|status| {
            let is_given_up = matches!(
                status.state,
                VdevState::Offline | VdevState::Faulted | VdevState::Removed
            );
            status.leaf == leaf && !is_given_up
        });
        is_used || self.caches.uses(leaf)
    }

    /// Reports whether the device of a leaf went away.
    pub fn is_removed(&self, leaf: LeafId) -> bool {
        let mut leaves = self.leaf_statuses();
        leaves.any(|status| status.leaf == leaf && status.state == VdevState::Removed)
    }

    /// Answers the request when a checkpoint is durable that begins after this call. All changes of
    /// vdevs are then durable too.
    pub fn sync(&mut self, id: RequestId, now_us: u64) {
        self.heed_time(now_us);
        if let Some(error) = self.suspension() {
            return self.answer(id, Err(error));
        }
        self.await_checkpoint(id);
        self.want_checkpoint();
        self.go_on();
    }

    /// Notes that this host exports or imports the pool. [`Pool::sync`] makes the change durable.
    pub fn set_exported(&mut self, is_exported: bool, host: &str) {
        self.config.is_exported = is_exported;
        self.config.host = host.to_owned();
        self.shape_changed();
    }

    /// Takes a leaf offline. The leaf keeps its data, and misses all later writes.
    ///
    /// # Errors
    /// The other leaves do not hold all that this leaf holds.
    pub fn offline(&mut self, leaf: LeafId, now_us: u64) -> Result<(), ShapeError> {
        self.heed_time(now_us);
        self.disks.offline(leaf)?;
        self.shape_changed();
        Ok(())
    }

    /// Uses a leaf again that was offline, failed or away. The data that it missed is rebuilt.
    ///
    /// # Errors
    /// The leaf's device has not yet answered all earlier requests.
    pub fn online(&mut self, leaf: LeafId, now_us: u64) -> Result<(), ShapeError> {
        self.heed_time(now_us);
        self.disks.online(leaf)?;
        self.failures.forget(leaf);
        self.allow_spare(leaf);
        // The leaf may have data that could not be rebuilt without it.
        self.tending.forget_heard();
        self.rebuild_again();
        self.shape_changed();
        Ok(())
    }

    /// Notes that the device of a leaf is gone.
    ///
    /// # Errors
    /// There is no such leaf.
    pub fn removed(&mut self, leaf: LeafId, now_us: u64) -> Result<(), ShapeError> {
        self.heed_time(now_us);
        self.disks.remove(leaf)?;
        self.shape_changed();
        Ok(())
    }

    /// Notes that the name of a device is gone, even if the device still answers. The leaf is given
    /// up if it has failed, or if the other leaves hold all that it holds.
    ///
    /// # Errors
    /// The other leaves lack data of this leaf. The leaf stays in use as long as its device
    /// answers.
    pub fn pulled(&mut self, leaf: LeafId, now_us: u64) -> Result<(), ShapeError> {
        if self.uses(leaf) {
            self.disks.array().require_spare(leaf)?;
        }
        self.removed(leaf, now_us)
    }

    /// Attaches a new leaf: makes a mirror of an existing leaf and the new one, or adds the new
    /// leaf to the mirror.
    ///
    /// # Errors
    /// The new leaf is too small, or the vdev takes none.
    pub fn attach(&mut self, beside: LeafId, new: &LeafSpec) -> Result<LeafId, ShapeError> {
        self.require_label_room(1)?;
        let leaf = self.disks.attach(beside, new)?;
        self.shape_changed();
        Ok(leaf)
    }

    /// Rebuilds the data of a leaf on a new one, which then takes the old leaf's place.
    ///
    /// # Errors
    /// The new leaf is too small.
    pub fn replace(&mut self, old: LeafId, new: &LeafSpec) -> Result<LeafId, ShapeError> {
        self.require_label_room(1)?;
        let leaf = self.disks.replace(old, new, SlotKind::Replacing)?;
        self.shape_changed();
        Ok(leaf)
    }

    /// Takes a leaf out of its mirror or replacement. A detached spare is available again, and no
    /// other spare replaces it by itself. If the leaf that a spare stands in for is detached, the
    /// spare becomes an ordinary leaf ([`Pool::tend_vdevs`]).
    ///
    /// # Errors
    /// The other leaves do not hold all that this leaf holds.
    pub fn detach(&mut self, leaf: LeafId, now_us: u64) -> Result<(), ShapeError> {
        let others = self.others_in_slot(leaf);
        let is_spare = self.is_spare(leaf);
        self.take_out(leaf, now_us)?;
        if is_spare && others.iter().all(|other| is_broken(other.state)) {
            let first = others.first().into_iter();
            let own = others.iter().filter(|other| !self.is_spare(other.leaf));
            let all: Vec<u64> = first.chain(own).map(|other| other.guid).collect();
            self.config.unspared.extend(all);
        }
        Ok(())
    }

    fn take_out(&mut self, leaf: LeafId, now_us: u64) -> Result<(), ShapeError> {
        self.heed_time(now_us);
        self.disks.detach(leaf)?;
        self.note_leaving(leaf);
        self.allow_spare(leaf);
        self.failures.forget(leaf);
        self.shape_changed();
        Ok(())
    }

    /// Returns the other leaves of the slot, which hold the same data as this leaf for a while.
    pub(super) fn others_in_slot(&self, leaf: LeafId) -> Vec<LeafStatus> {
        let slots = self.top_levels().into_iter().flat_map(|top| top.slots);
        let mut slots = slots.map(|slot| slot.leaves);
        let own = slots.find(|leaves| leaves.iter().any(|one| one.leaf == leaf));
        let mut others = own.unwrap_or_default();
        others.retain(|other| other.leaf != leaf);
        others
    }

    /// Returns all top-level vdevs. Leaves that fail too often show as degraded.
    fn top_levels(&self) -> Vec<TopLevelStatus> {
        let mut tops: Vec<TopLevelStatus> = self.tops().collect();
        self.failures.mark(&mut tops);
        tops
    }

    /// Adds a top-level vdev.
    ///
    /// # Errors
    /// The vdev is invalid.
    pub fn add(&mut self, top: &TopLevelSpec) -> Result<u16, ShapeError> {
        let top = self.with_known_labels(top);
        let vdev = self.disks.add_top_level(&top, self.next_root())?;
        let added = self.tops().nth(vdev.into());
        if let Some(added) = added.filter(|added| added.class == Class::Log) {
            self.logs.add(vdev, added.sectors);
        }
        self.shape_changed();
        Ok(vdev)
    }

    /// Adds top-level vdevs and caches, all or none of them.
    ///
    /// # Errors
    /// One of them cannot be added; then none was.
    pub fn add_all(
        &mut self,
        tops: &[TopLevelSpec],
        caches: &[LeafSpec],
    ) -> Result<(), ShapeError> {
        let slots = tops.iter().flat_map(|top| &top.slots);
        let leaves = slots.map(|slot| slot.leaves.len()).sum::<usize>();
        self.require_label_room(leaves + caches.len())?;
        self.disks.array().check_top_levels(tops)?;
        caches
            .iter()
            .try_for_each(|cache| self.check_cache(cache))?;
        for top in tops {
            self.add(top)?;
        }
        for cache in caches {
            self.add_cache(cache)?;
        }
        Ok(())
    }

    /// Notes the new size of a leaf's device. The vdev grows if all its leaves allow it.
    ///
    /// # Errors
    /// The device is smaller than the part of it in use.
    pub fn resize_leaf(&mut self, leaf: LeafId, vdev: u16, size: u64) -> Result<(), ShapeError> {
        self.disks.resize_leaf(leaf, vdev, size)?;
        self.shape_changed();
        Ok(())
    }

    /// Stores the present paths of devices, by the guids of their leaves. The paths decide nothing;
    /// if a device is missing later, they tell the administrator which one.
    pub fn set_paths(&mut self, paths: BTreeMap<u64, String>) {
        if self.config.paths != paths {
            self.config.paths = paths;
            self.shape_changed();
        }
    }

    /// Resets the error counts of a leaf. Data that could not be rebuilt is tried again.
    ///
    /// # Errors
    /// There is no such leaf.
    pub fn clear(&mut self, leaf: LeafId) -> Result<(), ShapeError> {
        self.failures.forget(leaf);
        self.tending.forget_heard();
        self.rebuild_again();
        // A spare that stood in for the leaf may become available again.
        self.tending.note_change();
        self.disks.clear(leaf)
    }

    pub(super) fn shape_changed(&mut self) {
        self.config_changed();
        self.want_checkpoint();
    }

    /// Takes an event of a device or vdev. Notes whether a leaf fails too often.
    pub(super) fn observe(&mut self, event: &VdevEvent) {
        match event {
            VdevEvent::LeafState { leaf, state, .. } => {
                if !is_used(*state) {
                    self.scan_without(*leaf);
                }
                self.tending.note_change();
                // The labels of the other leaves must say that this leaf is not to be believed.
                self.shape_changed();
            }
            // A leaf that hangs at the same place each time must not keep a resilver going for
            // ever.
            VdevEvent::Answers { leaf } if self.tending.hear(*leaf) => self.rebuild_again(),
            VdevEvent::DeviceError { leaf, .. } | VdevEvent::ChecksumError { leaf, .. }
                if self.failures.count(*leaf, self.now_us()) =>
            {
                self.tending.note_change();
            }
            _ => {}
        }
    }

    /// Lets spares stand in for leaves that failed, and ends replacements that are complete.
    pub(super) fn tend_vdevs(&mut self) {
        if self.is_suspended() {
            return;
        }
        self.remove_logs();
        self.let_spares_leave();
        if !self.tending.begin() {
            return;
        }
        let slots = self.top_levels().into_iter().flat_map(|top| top.slots);
        slots.for_each(|slot| self.tend_slot(&slot.leaves));
    }

    /// Looks after the leaves of one slot. The first was there before the others, which are new
    /// leaves that replace it, and spares. If the first has left, all may be spares.
    fn tend_slot(&mut self, leaves: &[LeafStatus]) {
        let Some(first) = leaves.first() else { return };
        let (spares, own): (Vec<&LeafStatus>, Vec<&LeafStatus>) =
            leaves.iter().partition(|leaf| self.is_spare(leaf.leaf));
        let new = own.iter().filter(|leaf| leaf.leaf != first.leaf);
        // Of several new leaves, the last one attached counts, unless it broke.
        let new = new.rev().find(|new| !is_lost(new.state));
        let is_any_well = leaves.iter().any(is_well);
        let spare = spares.iter().rev().find(|spare| is_well(spare));
        if let [spare] = spares[..]
            && own.is_empty()
        {
            self.config.spares.retain(|of| of.guid != spare.guid);
            self.shape_changed();
        }
        if let Some(new) = new.filter(|new| is_well(new) || is_whole(new) && !is_any_well) {
            self.keep_only(new, leaves.iter());
        } else if is_well(first) && !own.is_empty() {
            // The first leaf is whole again, so the spares become available again.
            self.allow_spare(first.leaf);
            self.keep_only(first, spares.into_iter());
        } else if let Some(spare) = spare {
            let others = spares.iter().copied();
            self.keep_only(spare, others.filter(|of| is_well(of) || own.is_empty()));
            let failing = leaves
                .iter()
                .filter(|leaf| leaf.state == VdevState::Degraded);
            for leaf in failing {
                // Nothing depends on the failing leaf any more. If something does, the call fails
                // and the leaf stays in use.
                let _ = self.disks.fault(leaf.leaf, "too many errors");
            }
        } else if leaves.iter().all(|leaf| is_broken(leaf.state)) {
            self.call_spare(leaves);
        }
    }

    /// Takes all other leaves out of their slot. A leaf that cannot be taken out is tried again
    /// after the next change.
    fn keep_only<'a>(&mut self, kept: &LeafStatus, leaves: impl Iterator<Item = &'a LeafStatus>) {
        for other in leaves.filter(|other| other.leaf != kept.leaf) {
            let _ = self.take_out(other.leaf, self.now_us());
        }
    }
}

/// Reports whether the leaf has all data that it should have.
fn is_whole(leaf: &LeafStatus) -> bool {
    is_used(leaf.state) && !leaf.is_incomplete
}

/// Reports whether the leaf has all data that it should have, and does not fail.
fn is_well(leaf: &LeafStatus) -> bool {
    leaf.state == VdevState::Online && is_whole(leaf)
}

fn is_used(state: VdevState) -> bool {
    matches!(state, VdevState::Online | VdevState::Degraded)
}

fn is_lost(state: VdevState) -> bool {
    matches!(
        state,
        VdevState::Faulted | VdevState::Unavailable | VdevState::Removed
    )
}

/// Reports whether another leaf should stand in for a leaf in this state.
fn is_broken(state: VdevState) -> bool {
    is_lost(state) || state == VdevState::Degraded
}

/// Ranks states: of several, the one with the highest rank is reported for all.
fn severity(state: &VdevState) -> u8 {
    match state {
        VdevState::Online => 0,
        VdevState::Degraded => 1,
        VdevState::Offline => 2,
        VdevState::Removed => 3,
        VdevState::Faulted => 4,
        VdevState::Unavailable => 5,
    }
}
