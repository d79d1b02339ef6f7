//! Spares: leaves that stand ready, and stand in for others that break.
//!
//! A spare in use is a leaf of the slot of the one that it stands in for ([`Pool::tend_vdevs`]
//! looks after slots). From there it may leave: by hand, since the other is whole again, or with a
//! log that is removed. It stands ready when the labels say so and its device has answered; one
//! whose device is not there is not called.

use std::collections::BTreeSet;

use super::request::Event;
use super::state::Pool;
use crate::vdev::{LeafId, LeafSpec, LeafStatus, ShapeError, ShapeErrorKind, SlotKind, State};

impl Pool {
    /// Adds spares: they stand ready.
    pub fn add_spares(&mut self, spares: impl IntoIterator<Item = LeafSpec>) {
        self.config.spares.extend(spares);
        // One that is broken may have waited for it.
        self.seen_events += 1;
        self.shape_changed();
    }

    /// Takes a spare away that stands ready.
    ///
    /// # Errors
    /// It stands in for a leaf, or there is no such spare.
    pub fn remove_spare(&mut self, guid: u64) -> Result<(), ShapeError> {
        if let Some(leaf) = self.array.find(guid) {
            let context = "the spare stands in for another device";
            return Err(ShapeError::new(ShapeErrorKind::InUse, leaf, context));
        }
        let before = self.config.spares.len();
        self.config.spares.retain(|spare| spare.guid != guid);
        if self.config.spares.len() == before {
            let context = format!("spare {guid:016x}");
            return Err(ShapeError::of_tree(ShapeErrorKind::NoSuchLeaf, context));
        }
        self.shape_changed();
        Ok(())
    }

    /// Sets the spares whose devices are not there: they are not called. They are in no slot.
    pub fn set_away_spares(&mut self, away: BTreeSet<u64>) {
        // Where one is back, a broken leaf may have waited for it.
        self.seen_events += u64::from(!self.away_spares.is_subset(&away));
        self.away_spares = away;
    }

    /// The spares whose devices are not there.
    pub fn away_spares(&self) -> &BTreeSet<u64> {
        &self.away_spares
    }

    /// Lets a spare stand in for a leaf; where that is well, the spare takes its place for good.
    /// The event of it follows.
    ///
    /// # Errors
    /// There is no such spare, it is in use, or it is too small. `Away` where its device is. `Busy`
    /// while it leaves another place: until the labels say so, and its device has answered all that
    /// it was asked there.
    pub fn use_spare(&mut self, leaf: LeafId, guid: u64) -> Result<LeafId, ShapeError> {
        if self.leaving_spares.contains(&guid) {
            let context = "the spare is still leaving its last place";
            return Err(ShapeError::of_tree(ShapeErrorKind::Busy, context));
        }
        if self.away_spares.contains(&guid) {
            let context = "the device of the spare is not there";
            return Err(ShapeError::of_tree(ShapeErrorKind::Away, context));
        }
        let spare = self.config.spares.iter().find(|spare| spare.guid == guid);
        let spec = spare.cloned().unwrap_or(LeafSpec::new(guid, 0));
        let is_well = self.array.leaves().any(|status| {
            status.leaf == leaf && status.state == State::Online && !status.is_incomplete
        });
        let kind = match is_well && !self.failures.failing().any(|failing| failing == leaf) {
            true => SlotKind::Replacing,
            false => SlotKind::Spare,
        };
        let new = self.array.replace(leaf, &spec, kind)?;
        if kind == SlotKind::Replacing {
            self.config.spares.retain(|spare| spare.guid != guid);
        }
        self.allow_spare(leaf);
        let event = Event::SpareInUse { leaf: new, guid };
        self.output.events.push(event);
        self.shape_changed();
        Ok(new)
    }

    /// Whether a leaf is one of the pool's spares.
    pub(super) fn is_spare(&self, leaf: LeafId) -> bool {
        let guid = self.array.guid(leaf);
        self.config
            .spares
            .iter()
            .any(|spare| Some(spare.guid) == guid)
    }

    /// A leaf leaves its slot. If it is a spare it stands ready again, as soon as that may be.
    pub(super) fn note_leaving(&mut self, leaf: LeafId) {
        let guid = self.array.guid(leaf);
        let mut spares = self.config.spares.iter().map(|spare| spare.guid);
        self.leaving_spares
            .extend(spares.find(|spare| Some(*spare) == guid));
    }

    /// Spares that were taken out of a slot stand ready when the labels say that they left it, and
    /// their devices have answered all that they were asked there.
    ///
    /// Until the labels say so an opening takes what is on them for parts of blocks, that nobody
    /// else may have: none of it may be written over. And a write of before that comes late would
    /// destroy what was written since.
    pub(super) fn let_spares_leave(&mut self) {
        let left: Vec<u64> = self.spares_that_left().collect();
        for guid in left {
            self.leaving_spares.remove(&guid);
            // A broken leaf may have waited for it.
            self.seen_events += 1;
        }
    }

    /// Spares that stand ready as soon as that is noticed.
    pub(super) fn spares_that_left(&self) -> impl Iterator<Item = u64> {
        let leaving = self.leaving_spares.iter().copied();
        leaving.filter(|guid| !self.are_labels_due() && !self.array.is_unanswered(*guid))
    }

    /// A spare may be called for the slot of a leaf again when that breaks.
    pub(super) fn allow_spare(&mut self, leaf: LeafId) {
        let others = self.others_in_slot(leaf).into_iter();
        let guids = others.map(|other| other.guid).chain(self.array.guid(leaf));
        let guids: Vec<u64> = guids.collect();
        let unspared = &mut self.config.unspared;
        let before = unspared.len();
        unspared.retain(|of| !guids.contains(of));
        if self.config.unspared.len() < before {
            self.shape_changed();
        }
    }

    /// Lets a spare stand in for the leaves of a slot, if one is ready.
    pub(super) fn call_spare(&mut self, leaves: &[LeafStatus]) {
        let Some(first) = leaves.first().map(|first| first.leaf) else {
            return;
        };
        let unspared = &self.config.unspared;
        if leaves.iter().any(|leaf| unspared.contains(&leaf.guid)) {
            return;
        }
        let is_ready =
            |guid| !self.leaving_spares.contains(guid) && !self.away_spares.contains(guid);
        let spares = self.config.spares.iter();
        let mut ready = spares.filter(|spare| is_ready(&spare.guid));
        // One that is in use is refused, and so is one that is too small for this leaf.
        let called = ready.find_map(|spare| {
            let new = self.array.replace(first, spare, SlotKind::Spare).ok()?;
            Some((new, spare.guid))
        });
        if let Some((leaf, guid)) = called {
            self.output.events.push(Event::SpareInUse { leaf, guid });
            self.shape_changed();
        }
    }
}
