//! Spares: leaves that are available, and stand in for leaves that break.
//!
//! A spare in use is a leaf of the slot of the leaf that it stands in for ([`Pool::tend_vdevs`]
//! looks after slots). It leaves the slot when a user detaches it, when the other leaf is whole
//! again, or with a log vdev that is removed. It is available when the labels say so and its device
//! has answered. A spare whose device is missing is not used.

use std::collections::BTreeSet;

use crate::engine::request::Event;
use crate::engine::state::Pool;
use crate::vdev::{LeafId, LeafSpec, LeafStatus, ShapeError, ShapeErrorKind, SlotKind, VdevState};

impl Pool {
    /// Adds spares, which are available.
    pub fn add_spares(&mut self, spares: impl IntoIterator<Item = LeafSpec>) {
        self.config.spares.extend(spares);
        // A broken leaf may have waited for a spare.
        self.tending.note_change();
        self.shape_changed();
    }

    /// Removes an available spare.
    ///
    /// # Errors
    /// The spare stands in for a leaf, or does not exist.
    pub fn remove_spare(&mut self, guid: u64) -> Result<(), ShapeError> {
        if let Some(leaf) = self.array_leaf(guid) {
            let context = "the spare replaces another device";
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

    /// Sets the spares whose devices are missing, so that they are not used. They are in no slot.
    pub fn set_away_spares(&mut self, away: BTreeSet<u64>) {
        self.tending.set_away(away);
    }

    /// Returns the spares whose devices are missing.
    pub fn away_spares(&self) -> &BTreeSet<u64> {
        self.tending.away()
    }

    /// Lets a spare stand in for a leaf. If the leaf is well, the spare takes its place for good.
    /// The event follows.
    ///
    /// # Errors
    /// The spare does not exist, is in use, or is too small. `Away` if its device is missing.
    /// `Busy` while it leaves another place: until the labels say so, and its device has answered
    /// all requests made there.
    pub fn use_spare(&mut self, leaf: LeafId, guid: u64) -> Result<LeafId, ShapeError> {
        if self.tending.is_leaving(guid) {
            let context = "the spare is still leaving the vdev where it was last used";
            return Err(ShapeError::of_tree(ShapeErrorKind::Busy, context));
        }
        if self.tending.away().contains(&guid) {
            let context = "the device of the spare is missing";
            return Err(ShapeError::of_tree(ShapeErrorKind::Away, context));
        }
        let spare = self.config.spares.iter().find(|spare| spare.guid == guid);
        let spec = spare.cloned().unwrap_or(LeafSpec::new(guid, 0));
        let is_well = self.leaf_statuses().any(|status| {
            status.leaf == leaf && status.state == VdevState::Online && !status.is_incomplete
        });
        let kind = match is_well && !self.failures.failing().any(|failing| failing == leaf) {
            true => SlotKind::Replacing,
            false => SlotKind::Spare,
        };
        let new = self.replace_leaf(leaf, &spec, kind)?;
        if kind == SlotKind::Replacing {
            self.config.spares.retain(|spare| spare.guid != guid);
        }
        self.allow_spare(leaf);
        let event = Event::SpareInUse { leaf: new, guid };
        self.tell(event);
        self.shape_changed();
        Ok(new)
    }

    /// Reports whether a leaf is one of the pool's spares.
    pub(in crate::engine) fn is_spare(&self, leaf: LeafId) -> bool {
        let guid = self.array_guid(leaf);
        self.config
            .spares
            .iter()
            .any(|spare| Some(spare.guid) == guid)
    }

    /// Notes that a leaf leaves its slot. If it is a spare, it becomes available as soon as
    /// possible.
    pub(in crate::engine) fn note_leaving(&mut self, leaf: LeafId) {
        let guid = self.array_guid(leaf);
        let mut spares = self.config.spares.iter().map(|spare| spare.guid);
        if let Some(spare) = spares.find(|spare| Some(*spare) == guid) {
            self.tending.note_leaving(spare);
        }
    }

    /// Makes spares available that left a slot, once the labels say so and their devices have
    /// answered all requests made there.
    ///
    /// Until the labels say so, an opening takes the data on them for parts of blocks that no other
    /// leaf may have. So none of it may be overwritten. And a late write of the former slot would
    /// destroy data written since.
    pub(in crate::engine) fn let_spares_leave(&mut self) {
        let left: Vec<u64> = self.spares_that_left().collect();
        for guid in left {
            self.tending.note_left(guid);
        }
    }

    /// Returns spares that left a slot and will be available as soon as that is noticed.
    pub(in crate::engine) fn spares_that_left(&self) -> impl Iterator<Item = u64> {
        let leaving = self.tending.leaving();
        leaving.filter(|guid| !self.are_labels_due() && !self.is_unanswered(*guid))
    }

    /// Allows spares for the slot of a leaf again, if the leaf breaks later.
    pub(in crate::engine) fn allow_spare(&mut self, leaf: LeafId) {
        let others = self.others_in_slot(leaf).into_iter();
        let guids = others.map(|other| other.guid).chain(self.array_guid(leaf));
        let guids: Vec<u64> = guids.collect();
        let unspared = &mut self.config.unspared;
        let before = unspared.len();
        unspared.retain(|of| !guids.contains(of));
        if self.config.unspared.len() < before {
            self.shape_changed();
        }
    }

    /// Lets an available spare stand in for the leaves of a slot.
    pub(in crate::engine) fn call_spare(&mut self, leaves: &[LeafStatus]) {
        let Some(first) = leaves.first().map(|first| first.leaf) else {
            return;
        };
        let unspared = &self.config.unspared;
        if leaves.iter().any(|leaf| unspared.contains(&leaf.guid)) {
            return;
        }
        let spares = self.config.spares.iter();
        let ready = spares.filter(|spare| self.tending.is_ready(spare.guid));
        let ready: Vec<LeafSpec> = ready.cloned().collect();
        // A spare that is in use is refused, and so is one that is too small for this leaf.
        let called = ready.iter().find_map(|spare| {
            let new = self.replace_leaf(first, spare, SlotKind::Spare).ok()?;
            Some((new, spare.guid))
        });
        if let Some((leaf, guid)) = called {
            self.tell(Event::SpareInUse { leaf, guid });
            self.shape_changed();
        }
    }
}
