//! Finds out which data a device lacks that is used again as a leaf.
//!
//! The device may be older than the pool remembers: an image of last week, or a disk that a lower
//! layer rolled back. The device's own labels tell what it lacks, as when a pool is opened
//! (`open/leaves_behind.rs`).

use super::open::error::OpenError;
use super::open::leaf_labels::LeafLabels;
use super::open::leaves_behind::{Behind, Claim};
use super::open::sizes::Short;
use super::request::Event;
use super::state::Pool;
use crate::engine::devices::label_rounds::ROUNDS;
use crate::format::label::{RING_OFFSET, RING_SLOTS};
use crate::format::{Epoch, Label, PoolKey, Root, SECTOR_SIZE};
use crate::vdev::{LeafId, LeafSpec};

/// Returns the newest root in a device's labels that surely was durable on all leaves when it was
/// written there. This is a root of the second round, or a root of the first round that has a newer
/// one after it. A newer root may have been given up since.
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
    /// Reads the labels of a device that is about to be used again as a leaf ([`Pool::online`]). If
    /// the labels show that it lacks data, the data is rebuilt, beside the data that the pool knows
    /// to be missing.
    pub fn take_back(&mut self, leaf: LeafId, labels: &LeafLabels) {
        let tree = self.vdev_tree();
        let guid = self.array_guid(leaf);
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
        // No other leaf can have the data that a lone leaf lacks.
        if leaves().count() < 2 {
            return;
        }
        self.note_claims(leaf, spec, labels);
    }

    fn note_claims(&mut self, leaf: LeafId, spec: &LeafSpec, labels: &LeafLabels) {
        let newest = self.checkpoint_epoch();
        let root = settled_root(labels, self.key());
        let own = labels
            .copies
            .iter()
            .filter_map(|copy| Label::read(copy).ok());
        let own: Vec<Label> = own
            .filter(|label| (label.pool, label.leaf) == (self.config().guid, spec.guid))
            .collect();
        let mut lacks = Claim {
            root,
            old_label: None,
        }
        .lacks(spec, newest);
        for label in own
            .iter()
            .filter(|label| label.generation < self.config().generation)
        {
            let old_label = Some(label);
            lacks.add_all(&Claim { root, old_label }.lacks(spec, newest));
        }
        if self.note_lacking(leaf, &lacks) {
            let behind = Behind::of_returned(spec.guid, root, newest);
            self.old_devices.note_behind(behind.clone());
            self.tell(Event::Behind { behind });
            self.shape_changed();
        }
    }

    /// Notes devices that shrank, so that no request goes past their ends.
    pub(super) fn note_short(&mut self, short: &[Short]) {
        self.old_devices.set_short(short);
        for of in short.iter().filter(|of| of.lacks_labels()) {
            if let Some(leaf) = self.array_leaf(of.leaf) {
                self.set_reach(leaf, of.has);
            }
        }
    }

    /// Returns the devices that shrank and are still used as leaves.
    pub(super) fn short_devices(&self) -> Vec<Short> {
        let short = self.old_devices.short().iter();
        let there = short.filter(|of| {
            self.leaf_statuses()
                .any(|leaf| leaf.guid == of.leaf && leaf.size > of.has)
        });
        there.copied().collect()
    }

    /// Adds the devices that shrank to an error of the opening, since they may be its cause.
    pub(super) fn named_short(&self, mut error: OpenError) -> OpenError {
        for short in self.old_devices.short() {
            error.context = format!("{}; {}", error.context, short.told());
        }
        error
    }

    /// Notes that a leaf is rebuilt, or has left the pool: it is no longer behind.
    pub(super) fn is_current(&mut self, leaf: LeafId) {
        if let Some(guid) = self.array_guid(leaf) {
            self.old_devices.forget_behind(guid);
        }
    }
}
