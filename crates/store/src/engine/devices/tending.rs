//! Care for leaves: the changes that nobody has looked at yet, and the spares that are not ready.

use std::collections::BTreeSet;

use crate::vdev::LeafId;

/// Changes of leaves that call for care, and spares that cannot stand in yet.
#[derive(Debug)]
pub(in crate::engine) struct Tending {
    /// Number of changes of leaves seen; the next field is the number acted upon.
    seen: u64,
    tended: u64,
    /// Given-up leaves that answered again, since something else last changed.
    heard_again: BTreeSet<LeafId>,
    /// Spares that left a slot and are not available yet.
    leaving: BTreeSet<u64>,
    /// Spares whose devices are missing.
    away: BTreeSet<u64>,
}

impl Tending {
    pub(in crate::engine) fn new() -> Self {
        Self {
            // Faults that exist from the start are looked at, too.
            seen: 1,
            tended: 0,
            heard_again: BTreeSet::new(),
            leaving: BTreeSet::new(),
            away: BTreeSet::new(),
        }
    }

    /// Notes a change that calls for care.
    pub(in crate::engine) fn note_change(&mut self) {
        self.seen += 1;
    }

    /// Reports whether there is a change that nobody has looked at.
    pub(in crate::engine) fn is_due(&self) -> bool {
        self.tended != self.seen
    }

    /// Begins to look at all changes. Returns whether there are any.
    pub(in crate::engine) fn begin(&mut self) -> bool {
        let is_due = self.is_due();
        self.tended = self.seen;
        is_due
    }

    /// Notes that a given-up leaf answered. Returns whether that is news.
    pub(in crate::engine) fn hear(&mut self, leaf: LeafId) -> bool {
        self.heard_again.insert(leaf)
    }

    /// Forgets the answers of given-up leaves, since something else has changed.
    pub(in crate::engine) fn forget_heard(&mut self) {
        self.heard_again.clear();
    }

    /// Notes that a spare left its slot, and is not available yet.
    pub(super) fn note_leaving(&mut self, spare: u64) {
        self.leaving.insert(spare);
    }

    /// Notes that a spare is available that left a slot.
    pub(super) fn note_left(&mut self, spare: u64) {
        self.leaving.remove(&spare);
        // A broken leaf may have waited for a spare.
        self.seen += 1;
    }

    /// Returns the spares that left a slot and are not available yet.
    pub(in crate::engine) fn leaving(&self) -> impl Iterator<Item = u64> {
        self.leaving.iter().copied()
    }

    pub(super) fn is_leaving(&self, spare: u64) -> bool {
        self.leaving.contains(&spare)
    }

    /// Sets the spares whose devices are missing.
    pub(super) fn set_away(&mut self, away: BTreeSet<u64>) {
        // If a spare is back, a broken leaf may have waited for it.
        self.seen += u64::from(!self.away.is_subset(&away));
        self.away = away;
    }

    pub(super) fn away(&self) -> &BTreeSet<u64> {
        &self.away
    }

    /// Reports whether a spare that is in no slot may stand in for a leaf.
    pub(super) fn is_ready(&self, spare: u64) -> bool {
        !self.leaving.contains(&spare) && !self.away.contains(&spare)
    }
}
