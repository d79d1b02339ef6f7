//! What a pool is made of, changed while it is in use: devices put aside and used again, attached,
//! detached and replaced, vdevs added and grown, spares that stand in.
//!
//! A change takes effect at once and lies in the labels with the next checkpoint, which is asked for;
//! [`Pool::sync`] tells when. Rebuilding begins by itself (`scan.rs`).

use super::config::PoolConfig;
use super::request::{Answer, Event, PoolError, PoolErrorKind, RequestId};
use super::scan::ScanStatus;
use super::state::Pool;
use crate::space::Counts;
use crate::vdev::{LeafId, LeafSpec, ShapeError, SlotKind, State, TopLevelSpec, TopLevelStatus};

/// How a pool is.
#[derive(Clone, Debug)]
pub struct PoolStatus {
    /// Its name.
    pub name: String,
    /// Its number.
    pub guid: u64,
    /// Its worst top-level vdev's; suspended or not.
    pub state: State,
    /// Why it takes no changes; `None` where it does.
    pub suspended: Option<String>,
    /// Its top-level vdevs.
    pub top_levels: Vec<TopLevelStatus>,
    /// The guids of spares that stand ready.
    pub spares: Vec<u64>,
    /// The scan under way, or the last one.
    pub scan: Option<ScanStatus>,
    /// Sectors, parity included.
    pub counts: Counts,
    /// Sectors that data may still take.
    pub available: u64,
    /// zpool's FRAG, per cent: that of the worst vdev.
    pub fragmentation: u8,
}

impl From<ShapeError> for PoolError {
    fn from(error: ShapeError) -> Self {
        Self::new(PoolErrorKind::Refused, error.to_string())
    }
}

impl Pool {
    /// How it is now.
    pub fn status(&self) -> PoolStatus {
        let top_levels: Vec<TopLevelStatus> = self.array.top_levels().collect();
        let state = top_levels.iter().map(|top| top.state).max_by_key(severity);
        let fragmentation = (0..self.space.vdevs()).map(|vdev| self.space.fragmentation(vdev));
        let available = self.space.counts().available.saturating_sub(self.slop());
        PoolStatus {
            name: self.config.name.clone(),
            guid: self.config.guid,
            state: state.unwrap_or(State::Online),
            suspended: self.suspended.clone(),
            top_levels,
            spares: self.config.spares.iter().map(|spare| spare.guid).collect(),
            scan: self.scan_status(),
            counts: self.space.counts(),
            available,
            fragmentation: fragmentation.max().unwrap_or(0),
        }
    }

    /// Who it is and what it is made of, as its labels say or will say.
    pub fn config(&self) -> &PoolConfig {
        &self.config
    }

    /// The position of a leaf in the array.
    pub fn leaf(&self, guid: u64) -> Option<LeafId> {
        self.array.find(guid)
    }

    /// Answers when a checkpoint that began after this is durable: with it all changes of vdevs.
    pub fn sync(&mut self, id: RequestId, now_us: u64) {
        self.now_us = now_us;
        if let Some(error) = self.suspension() {
            return self.answer(id, Err(error));
        }
        let under_way = u64::from(self.checkpoint.is_some());
        self.syncs.push((self.checkpoints + 1 + under_way, id));
        self.is_checkpoint_wanted = true;
        self.go_on();
    }

    /// Notes that the pool is given up by this host, or taken by it; [`Pool::sync`] makes it durable.
    pub fn set_exported(&mut self, is_exported: bool, host: &str) {
        self.config.is_exported = is_exported;
        self.config.host = host.to_owned();
        self.shape_changed();
    }

    pub(super) fn answer_syncs(&mut self) {
        let done = self.checkpoints;
        let (over, waiting) = std::mem::take(&mut self.syncs)
            .into_iter()
            .partition(|(wanted, _)| *wanted <= done);
        self.syncs = waiting;
        let over: Vec<(u64, RequestId)> = over;
        for (_, id) in over {
            self.answer(id, Ok(Answer::Done));
        }
    }

    /// Puts a leaf aside; it keeps what it has, and misses what is written from now on.
    ///
    /// # Errors
    /// The others do not hold all that it holds.
    pub fn offline(&mut self, leaf: LeafId, now_us: u64) -> Result<(), PoolError> {
        self.now_us = now_us;
        self.array.offline(leaf, now_us, &mut self.array_output)?;
        self.shape_changed();
        Ok(())
    }

    /// Uses a leaf again, which was put aside, failed or was away; what it misses is rebuilt.
    ///
    /// # Errors
    /// Its device has not answered yet all that it was asked.
    pub fn online(&mut self, leaf: LeafId, now_us: u64) -> Result<(), PoolError> {
        self.now_us = now_us;
        self.array.online(leaf, &mut self.array_output)?;
        self.shape_changed();
        Ok(())
    }

    /// A device is gone.
    ///
    /// # Errors
    /// There is no such leaf.
    pub fn removed(&mut self, leaf: LeafId, now_us: u64) -> Result<(), PoolError> {
        self.now_us = now_us;
        self.array.remove(leaf, now_us, &mut self.array_output)?;
        self.shape_changed();
        Ok(())
    }

    /// Makes a mirror of a leaf and a new one, or adds the new one to its mirror.
    ///
    /// # Errors
    /// The new one is too small, or the vdev takes none.
    pub fn attach(&mut self, beside: LeafId, new: &LeafSpec) -> Result<LeafId, PoolError> {
        let leaf = self.array.attach(beside, new)?;
        self.shape_changed();
        Ok(leaf)
    }

    /// Rebuilds what a leaf holds on a new one, which then takes its place.
    ///
    /// # Errors
    /// The new one is too small.
    pub fn replace(&mut self, old: LeafId, new: &LeafSpec) -> Result<LeafId, PoolError> {
        let leaf = self.array.replace(old, new, SlotKind::Replacing)?;
        self.shape_changed();
        Ok(leaf)
    }

    /// Takes a leaf out of its mirror, or out of a replacement.
    ///
    /// # Errors
    /// The others do not hold all that it holds.
    pub fn detach(&mut self, leaf: LeafId, now_us: u64) -> Result<(), PoolError> {
        self.now_us = now_us;
        self.array.detach(leaf, now_us, &mut self.array_output)?;
        self.shape_changed();
        Ok(())
    }

    /// Adds a top-level vdev.
    ///
    /// # Errors
    /// It is none.
    pub fn add(&mut self, top: &TopLevelSpec) -> Result<u16, PoolError> {
        let vdev = self.array.add_top_level(top)?;
        let sectors = self
            .array
            .top_levels()
            .nth(vdev.into())
            .map(|top| top.sectors);
        self.space.add_vdev(sectors.unwrap_or(0));
        self.keep_for_metadata();
        self.shape_changed();
        Ok(vdev)
    }

    /// A leaf's device has another size; its vdev grows where all its leaves allow it.
    ///
    /// # Errors
    /// The device is smaller than what is used of it.
    pub fn resize_leaf(&mut self, leaf: LeafId, vdev: u16, size: u64) -> Result<(), PoolError> {
        self.array.resize_leaf(leaf, size)?;
        self.array.grow(vdev)?;
        let sectors = self
            .array
            .top_levels()
            .nth(vdev.into())
            .map(|top| top.sectors);
        self.space.grow(vdev, sectors.unwrap_or(0));
        self.keep_for_metadata();
        self.shape_changed();
        Ok(())
    }

    /// Sets the leaves that stand ready.
    pub fn set_spares(&mut self, spares: Vec<LeafSpec>) {
        self.config.spares = spares;
        self.shape_changed();
    }

    /// Forgets counts of errors, and what failed; takes changes again where nothing was lost.
    ///
    /// # Errors
    /// There is no such leaf.
    pub fn clear(&mut self, leaf: LeafId) -> Result<(), PoolError> {
        self.array.clear(leaf)?;
        Ok(())
    }

    fn shape_changed(&mut self) {
        self.is_config_new = true;
        self.is_checkpoint_wanted = true;
    }

    /// Lets spares stand in for leaves that failed, and ends replacements that are complete.
    pub(super) fn tend_vdevs(&mut self) {
        if self.suspended.is_some() || self.tended_events == self.seen_events {
            return;
        }
        self.tended_events = self.seen_events;
        let tops: Vec<TopLevelStatus> = self.array.top_levels().collect();
        for slot in tops.iter().flat_map(|top| &top.slots) {
            let is_good = |state: State| matches!(state, State::Online | State::Degraded);
            let good = slot.leaves.iter().filter(|leaf| is_good(leaf.state));
            let complete = good.clone().filter(|leaf| !leaf.is_incomplete);
            match (slot.kind, &slot.leaves[..]) {
                (SlotKind::Single, [leaf]) if is_broken(leaf.state) => {
                    self.call_spare(leaf.leaf);
                }
                (SlotKind::Replacing, [old, .., new])
                    if complete.clone().any(|leaf| leaf.leaf == new.leaf) =>
                {
                    let _ = self.detach(old.leaf, self.now_us);
                }
                (SlotKind::Spare, [old, .., spare])
                    if complete.clone().any(|leaf| leaf.leaf == old.leaf) =>
                {
                    // The one that it stood in for is whole again: the spare stands ready once more.
                    let spec = LeafSpec::new(spare.guid, spare.size);
                    if self.detach(spare.leaf, self.now_us).is_ok() {
                        self.config.spares.push(spec);
                    }
                }
                _ => {}
            }
        }
    }

    fn call_spare(&mut self, leaf: LeafId) {
        let mut spares = std::mem::take(&mut self.config.spares).into_iter();
        let mut kept = Vec::new();
        for spare in spares.by_ref() {
            match self.array.replace(leaf, &spare, SlotKind::Spare) {
                Ok(new) => {
                    let guid = spare.guid;
                    self.output
                        .events
                        .push(Event::SpareInUse { leaf: new, guid });
                    break;
                }
                // Too small for this one; it may do for another.
                Err(_) => kept.push(spare),
            }
        }
        kept.extend(spares);
        self.config.spares = kept;
        self.shape_changed();
    }
}

fn is_broken(state: State) -> bool {
    matches!(state, State::Faulted | State::Unavailable | State::Removed)
}

/// Which of several states is told for all.
fn severity(state: &State) -> u8 {
    match state {
        State::Online => 0,
        State::Degraded => 1,
        State::Offline => 2,
        State::Removed => 3,
        State::Faulted => 4,
        State::Unavailable => 5,
    }
}
