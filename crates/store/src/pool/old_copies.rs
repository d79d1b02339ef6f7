//! A device that is used again may be older than the pool remembers: an image of last week, or a disk below us that was
//! rolled back. What it lacks is judged by its own labels, as when a pool is opened (`open/behind.rs`).

use super::open::{Behind, Claim, LeafLabels, OpenError, Short};
use super::request::Event;
use super::state::Pool;
use crate::format::label::{RING_OFFSET, RING_SLOTS};
use crate::format::{Epoch, Label, PoolKey, Root, SECTOR_SIZE};
use crate::vdev::{LeafId, LeafSpec};

use super::labels::ROUNDS;

/// The newest root that surely was durable on all leaves when it came into the labels of a device: one of the second
/// round, or of the first round with a newer one behind it. A newer one may have been given up since.
fn settled_root(labels: &LeafLabels, key: PoolKey) -> Option<Epoch> {
    let roots = |round: usize| {
        let copies = ROUNDS[round].iter().map(|copy| &labels.copies[*copy]);
        let slots = copies.flat_map(|copy| {
            let slots = (0..RING_SLOTS as usize).map(|slot| RING_OFFSET + slot * SECTOR_SIZE);
            let there = slots.filter(|start| copy.len() >= start + SECTOR_SIZE);
            there.map(|start| copy.slice(start..start + SECTOR_SIZE).to_vec())
        });
        let mut epochs: Vec<Epoch> = slots
            .filter_map(|sector| Root::decode(&sector, key))
            .map(|root| root.epoch)
            .collect();
        epochs.sort_unstable();
        epochs.dedup();
        epochs
    };
    let first = roots(0);
    let before_last = first.len().checked_sub(2).map(|at| first[at]);
    roots(1).last().copied().max(before_last)
}

impl Pool {
    /// Looks at the labels of a device that is about to be used again as a leaf ([`Pool::online`]): what it lacks by
    /// them, beside what the pool knows, is rebuilt too.
    pub fn take_back(&mut self, leaf: LeafId, labels: &LeafLabels) {
        let tree = self.array.tree();
        let guid = self.array.guid(leaf);
        let mut tops = tree.top_levels.iter();
        let top = tops.find(|top| {
            top.slots
                .iter()
                .any(|slot| slot.leaves.iter().any(|of| Some(of.guid) == guid))
        });
        let leaves = || {
            top.iter()
                .flat_map(|top| top.slots.iter().flat_map(|slot| &slot.leaves))
        };
        let Some(spec) = leaves().find(|of| Some(of.guid) == guid) else {
            return;
        };
        // Nobody else can have what a lone leaf lacks.
        if leaves().count() < 2 {
            return;
        }
        self.note_claims(leaf, spec, labels);
    }

    fn note_claims(&mut self, leaf: LeafId, spec: &LeafSpec, labels: &LeafLabels) {
        let newest = self.persisted.epoch;
        let root = settled_root(labels, self.key);
        let own = labels
            .copies
            .iter()
            .filter_map(|copy| Label::read(copy).ok());
        let own: Vec<Label> = own
            .filter(|label| (label.pool, label.leaf) == (self.config.guid, spec.guid))
            .collect();
        let mut lacks = Claim {
            root,
            old_label: None,
        }
        .lacks(spec, newest);
        for label in own
            .iter()
            .filter(|label| label.generation < self.config.generation)
        {
            let old_label = Some(label);
            lacks.add_all(&Claim { root, old_label }.lacks(spec, newest));
        }
        let known = self.array.missing(leaf).unwrap_or_default();
        self.array.note_lacking(leaf, &lacks);
        if self
            .array
            .missing(leaf)
            .is_some_and(|missing| missing != known)
        {
            let behind = Behind::of_returned(spec.guid, root, newest);
            self.behind.insert(spec.guid, behind.clone());
            self.output.events.push(Event::Behind { behind });
            self.shape_changed();
        }
    }

    /// Nothing is asked of devices behind their ends.
    pub(super) fn note_short(&mut self, short: &[Short]) {
        self.short = short.to_vec();
        for of in short.iter().filter(|of| of.lacks_labels()) {
            if let Some(leaf) = self.array.find(of.leaf) {
                self.array.set_reach(leaf, of.has);
            }
        }
    }

    /// Devices that shrank and are still used as leaves.
    pub(super) fn short_devices(&self) -> Vec<Short> {
        let short = self.short.iter();
        let there = short.filter(|of| {
            self.array
                .leaves()
                .any(|leaf| leaf.guid == of.leaf && leaf.size > of.has)
        });
        there.copied().collect()
    }

    /// Why the pool does not open, with devices named that shrank: they may be the cause.
    pub(super) fn named_short(&self, mut error: OpenError) -> OpenError {
        for short in &self.short {
            error.context = format!("{}; {}", error.context, short.told());
        }
        error
    }

    /// A leaf is rebuilt, or left: nothing is behind any more.
    pub(super) fn is_current(&mut self, leaf: LeafId) {
        if let Some(guid) = self.array.guid(leaf) {
            self.behind.remove(&guid);
        }
    }
}
