//! Makes the pool's labels durable before anything relies on them: its identity, its vdevs, and the
//! epochs that each leaf missed.
//!
//! The order that matters:
//! 1. a leaf is lost, or the vdevs change in another way; from here on [`Pool::are_labels_true`] is
//!    false;
//! 2. the new configuration is written into the first and third label of every leaf in use. These
//!    are flushed, and then it is written into the second and fourth. Both labels of one end are
//!    never written in one round, so a torn write leaves an intact label at each end. Only a
//!    configuration that is on every leaf in use comes to the second round. If there is a newer one
//!    by then, the newer one is written instead. So an opening knows which configuration was never
//!    relied on (`engine/open/configurations.rs`);
//! 3. only then does anything rely on it. Groups that were flushed meanwhile are acknowledged, and
//!    the root of a checkpoint may be written. Sectors of a new or larger vdev are handed out, and
//!    a spare that left its place is available for another one.
//!
//! Otherwise, if the power failed between, a leaf that lacks acknowledged data would come back as
//! one that lacks nothing. Its place where the log continues is empty, and would be believed to be
//! the end of the log. After a torn configuration beside an intact root, even its blocks would be
//! believed. A record on a vdev that no label knows could not be found. A spare's former data would
//! count as parts of blocks, after other data was written over it. So an opening may rely on this:
//! acknowledged data lies on every leaf that the newest configuration does not know to have missed
//! it.
//!
//! A change of the configuration delays acknowledgements by two rounds of label writes, some
//! milliseconds; it is rare. Every surviving label says which leaf was lost, even on other
//! top-level vdevs.

use pages::Pages;

use super::label_rounds::ALL_ROUNDS;
use crate::engine::request::Event;
use crate::engine::state::Pool;
use crate::engine::tags::Tag;
use crate::format::Label;
use crate::vdev::{ArrayError, Class, LeafId, TopLevelStatus, VdevState};

impl Pool {
    /// Reports whether the labels describe the vdevs and the epochs that each leaf missed.
    pub(in crate::engine) fn are_labels_true(&mut self) -> bool {
        self.note_events();
        !self.are_labels_due()
    }

    /// Reports whether the labels have to be rewritten, as far as is known.
    pub(in crate::engine) fn are_labels_due(&self) -> bool {
        self.labels.is_new() || self.labels.round().is_some()
    }

    /// Notes that the labels do not have the present configuration.
    pub(in crate::engine) fn config_changed(&mut self) {
        self.labels.note_change();
    }

    /// Reports whether the configuration changed, and no write into the labels that began has it.
    pub(in crate::engine) fn is_config_new(&self) -> bool {
        self.labels.is_new()
    }

    /// Reports whether a configuration is being written into the labels.
    pub(in crate::engine) fn is_labelling(&self) -> bool {
        self.labels.round().is_some()
    }

    /// Lets the labels say that any host may import the pool.
    pub(in crate::engine) fn label_as_exported(&mut self) {
        self.config.is_exported = true;
        self.labels.note_change();
    }

    /// Notes which caches the labels are to name.
    pub(in crate::engine) fn note_caches(&mut self) {
        self.config.caches = self.caches.specs();
    }

    /// Takes the array's events, before any of its answers is taken.
    pub(in crate::engine) fn note_events(&mut self) {
        for event in self.take_disk_events() {
            self.observe(&event);
            self.note_repair(&event);
            self.tell(Event::Vdev(event));
        }
    }

    /// Begins to write the configuration into labels if it is new.
    pub(in crate::engine) fn labels_go_on(&mut self) {
        self.note_events();
        if !self.labels.is_new() || self.labels.round().is_some() || self.is_suspended() {
            return;
        }
        // Data that is only on log vdevs is found by the labels of the time when it was promised.
        if self.is_log_owing() {
            return;
        }
        self.logs.void_copies();
        self.labels.take_change();
        self.config.generation += 1;
        self.config.tree = self.vdev_tree();
        self.note_caches();
        let Some(config) = self.config.encode_for_label() else {
            return self.suspend(
                "labels have no room for the list of writes that the pool's devices missed".into(),
            );
        };
        self.labels.begin(config);
        self.write_configuration(0);
    }

    fn write_configuration(&mut self, round: usize) {
        let mut count = 0;
        for (leaf, guid) in self.labelled_leaves() {
            let Some(config) = self.labels.config() else {
                return;
            };
            let label = Label {
                pool: self.config.guid,
                leaf: guid,
                generation: self.config.generation,
                config: config.clone(),
            };
            let label = Pages::from_bytes(&label.encode());
            for copy in ALL_ROUNDS[round] {
                if let Some(offset) = self.label_offset(leaf, copy) {
                    self.write_label(Tag::Configuration, leaf, offset, label.clone());
                    count += 1;
                }
            }
        }
        self.expect_configuration(round, false, count);
    }

    fn flush_configuration(&mut self, round: usize) {
        let leaves = self.labelled_leaves();
        for (leaf, _) in &leaves {
            self.flush_label(Tag::Configuration, *leaf);
        }
        self.expect_configuration(round, true, leaves.len());
    }

    fn expect_configuration(&mut self, round: usize, is_flushing: bool, count: usize) {
        self.labels.expect(round, is_flushing, count);
        if count == 0 {
            self.suspend("no device can take the pool's configuration".into());
        }
    }

    /// Takes the end of a label's write or flush. If it failed, the array notes that, as long as
    /// another label succeeded.
    pub(in crate::engine) fn configuration_done(&mut self, result: &Result<(), ArrayError>) {
        let Some(answered) = self.labels.answered(result.is_ok()) else {
            return;
        };
        if answered.good == 0 {
            return self.suspend("no device took the pool's configuration".into());
        }
        match (answered.round, answered.is_flushing) {
            (round, false) => self.flush_configuration(round),
            (0, true) if self.labels.is_new() => {
                // A leaf that should have the configuration was lost, so no second round may show
                // it.
                self.labels.end();
                self.labels_go_on();
            }
            (0, true) => self.write_configuration(1),
            (_, true) => {
                if let Some(config) = self.labels.end() {
                    self.label_caches(&config);
                }
                self.labels_are_written();
            }
        }
    }

    /// Resumes work that waited for the labels, unless they have to be rewritten already.
    fn labels_are_written(&mut self) {
        if !self.are_labels_true() {
            return;
        }
        self.take_new_space();
        self.use_second_copies();
        self.promise();
        self.roots_go_on();
    }

    /// Uses the sectors of vdevs that were added or grew, since the labels know them.
    fn take_new_space(&mut self) {
        let tops: Vec<TopLevelStatus> = self.tops().collect();
        let sectors = |top: &TopLevelStatus| match top.class {
            Class::Normal => top.sectors,
            // No block is ever placed on a log vdev.
            Class::Log => 0,
        };
        let sizes: Vec<(u16, u64)> = tops.iter().map(|top| (top.vdev, sectors(top))).collect();
        for log in tops.iter().filter(|top| top.class == Class::Log) {
            self.logs.grow(log.vdev, log.sectors);
        }
        for (vdev, sectors) in sizes {
            if vdev >= self.space_vdevs() {
                self.add_space(sectors);
                self.keep_inner_labels();
            } else if sectors > self.space_of(vdev) {
                self.grow_space(vdev, sectors);
            } else {
                continue;
            }
            self.keep_for_metadata();
        }
    }

    pub(in crate::engine) fn write_label(
        &mut self,
        what: Tag,
        leaf: LeafId,
        at: u64,
        bytes: Pages,
    ) {
        let tag = self.tag(what);
        self.write_leaf(tag, leaf, at, bytes);
    }

    pub(in crate::engine) fn flush_label(&mut self, what: Tag, leaf: LeafId) {
        let tag = self.tag(what);
        self.flush_leaf(tag, leaf);
    }

    /// Returns the leaves that are in use, and their guids.
    pub(in crate::engine) fn labelled_leaves(&self) -> Vec<(LeafId, u64)> {
        let leaves = self.leaf_statuses();
        let used =
            leaves.filter(|leaf| matches!(leaf.state, VdevState::Online | VdevState::Degraded));
        used.map(|leaf| (leaf.leaf, leaf.guid)).collect()
    }
}
