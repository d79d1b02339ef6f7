//! What the labels say of the pool (who it is, what it is made of, which epochs each leaf missed),
//! made durable before anything relies on it.
//!
//! The order that matters:
//! 1. a leaf is lost, or the vdevs change in another way; from here on [`Pool::are_labels_true`] is
//!    false;
//! 2. the new configuration is written into the first and third label of every leaf in use, which
//!    are flushed, and then into the second and fourth. Never both of one end in one round: a torn
//!    write leaves an intact one at each. And only one that is on every leaf in use comes to the
//!    second round: where something is new by then, it is left, and the next one written. So an
//!    opening knows what was never relied on (`open/configurations.rs`);
//! 3. only then is promised what relies on it: groups that were flushed meanwhile are acknowledged,
//!    the root of a checkpoint may be written, sectors of a new or larger vdev are handed out, and
//!    a spare that left its place stands ready for another one.
//!
//! Otherwise, if the power failed between, a leaf that lacks what was acknowledged would come back
//! as one that lacks nothing. Its place where the log goes on, empty, would be believed to be the
//! end of the log; after a torn configuration beside an intact root even its blocks would be. And a
//! record on a vdev that no label knows could not be found. What a spare had would count as parts
//! of blocks, after something else was written over it. So who opens the pool may rely on this:
//! what was acknowledged lies on every leaf that the newest configuration does not know to have
//! missed it.
//!
//! A change of the configuration costs acknowledgements two rounds of label writes, some
//! milliseconds; it is rare. Which leaf was lost is told by every surviving label, also those of
//! other top-level vdevs.

use pages::Pages;

use super::state::{Pool, Tag};
use crate::format::Label;
use crate::vdev::{ArrayError, Class, LeafId, State, TopLevelStatus};

/// The labels at the ends of a leaf that are written in each round.
pub(super) const ROUNDS: [[usize; 2]; 2] = [[0, 2], [1, 3]];

/// The same with the inner labels, which only writers of a pool need.
pub(super) const ALL_ROUNDS: [[usize; 3]; 2] = [[0, 2, 4], [1, 3, 5]];

/// A configuration on its way into the labels.
#[derive(Debug)]
pub(super) struct Renewal {
    config: Vec<u8>,
    round: usize,
    is_flushing: bool,
    /// Writes or flushes that were not answered yet, and those that ended well.
    waiting: usize,
    good: usize,
}

impl Pool {
    /// Whether the labels say what the vdevs are and what each leaf missed.
    pub(super) fn are_labels_true(&mut self) -> bool {
        self.note_events();
        !self.are_labels_due()
    }

    /// Whether they have to say something new, as far as is known.
    pub(super) fn are_labels_due(&self) -> bool {
        self.is_config_new || self.renewal.is_some()
    }

    /// Takes what the array tells, before any answer of it is taken.
    pub(super) fn note_events(&mut self) {
        for event in std::mem::take(&mut self.array_output.events) {
            self.observe(&event);
            self.note_repair(&event);
            self.output.events.push(super::Event::Vdev(event));
        }
    }

    /// Begins to write the configuration where it is new.
    pub(super) fn labels_go_on(&mut self) {
        self.note_events();
        if !self.is_config_new || self.renewal.is_some() || self.suspended.is_some() {
            return;
        }
        // What lies on log vdevs only is found by what the labels said when it was promised.
        if self.is_log_owing() {
            return;
        }
        self.logs.void_copies();
        self.is_config_new = false;
        self.config.generation += 1;
        self.config.tree = self.array.tree();
        self.config.caches = self.caches.specs();
        let Some(config) = self.config.encode_for_label() else {
            return self.suspend("labels have no room for what its devices missed".into());
        };
        self.renewal = Some(Renewal {
            config,
            round: 0,
            is_flushing: false,
            waiting: 0,
            good: 0,
        });
        self.write_configuration(0);
    }

    fn write_configuration(&mut self, round: usize) {
        let mut count = 0;
        for (leaf, guid) in self.labelled_leaves() {
            let Some(renewal) = &self.renewal else { return };
            let label = Label {
                pool: self.config.guid,
                leaf: guid,
                generation: self.config.generation,
                config: renewal.config.clone(),
            };
            let label = Pages::from_bytes(&label.encode());
            for copy in ALL_ROUNDS[round] {
                if let Some(offset) = self.array.label_offset(leaf, copy) {
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
        if let Some(renewal) = &mut self.renewal {
            (renewal.round, renewal.is_flushing) = (round, is_flushing);
            (renewal.waiting, renewal.good) = (count, 0);
        }
        if count == 0 {
            self.suspend("no leaf takes the pool's configuration".into());
        }
    }

    /// A label was written or flushed. One that failed is the array's business, as long as another
    /// did not.
    pub(super) fn configuration_done(&mut self, result: &Result<(), ArrayError>) {
        let Some(renewal) = &mut self.renewal else {
            return;
        };
        renewal.waiting -= 1;
        renewal.good += usize::from(result.is_ok());
        if renewal.waiting > 0 {
            return;
        }
        if renewal.good == 0 {
            return self.suspend("no leaf took the pool's configuration".into());
        }
        match (renewal.round, renewal.is_flushing) {
            (round, false) => self.flush_configuration(round),
            (0, true) if self.is_config_new => {
                // A leaf that should have it was lost: nobody may come upon it in the second round.
                self.renewal = None;
                self.labels_go_on();
            }
            (0, true) => self.write_configuration(1),
            (_, true) => {
                if let Some(renewal) = self.renewal.take() {
                    self.label_caches(&renewal.config);
                }
                self.labels_are_written();
            }
        }
    }

    /// What waited for the labels goes on, unless they have to say something new already.
    fn labels_are_written(&mut self) {
        if !self.are_labels_true() {
            return;
        }
        self.take_new_space();
        self.use_second_copies();
        self.promise();
        self.roots_go_on();
    }

    /// Sectors of vdevs that were added or grew: the labels know them, so they may be used.
    fn take_new_space(&mut self) {
        let tops: Vec<TopLevelStatus> = self.array.top_levels().collect();
        let sectors = |top: &TopLevelStatus| match top.class {
            Class::Normal => top.sectors,
            // No block ever gets a place there.
            Class::Log => 0,
        };
        let sizes: Vec<(u16, u64)> = tops.iter().map(|top| (top.vdev, sectors(top))).collect();
        for log in tops.iter().filter(|top| top.class == Class::Log) {
            self.logs.grow(log.vdev, log.sectors);
        }
        for (vdev, sectors) in sizes {
            if vdev >= self.space.vdevs() {
                self.space.add_vdev(sectors);
                self.keep_inner_labels();
            } else if sectors > self.space.size(vdev) {
                self.space.grow(vdev, sectors);
            } else {
                continue;
            }
            self.keep_for_metadata();
        }
    }

    pub(super) fn write_label(&mut self, what: Tag, leaf: LeafId, at: u64, bytes: Pages) {
        let tag = self.tag(what);
        let (now, out) = (self.now_us, &mut self.array_output);
        self.array.write_leaf(tag, leaf, at, bytes, now, out);
    }

    pub(super) fn flush_label(&mut self, what: Tag, leaf: LeafId) {
        let tag = self.tag(what);
        let (now, out) = (self.now_us, &mut self.array_output);
        self.array.flush_leaf(tag, leaf, now, out);
    }

    /// Leaves that are in use, and their guids.
    pub(super) fn labelled_leaves(&self) -> Vec<(LeafId, u64)> {
        let leaves = self.array.leaves();
        let used = leaves.filter(|leaf| matches!(leaf.state, State::Online | State::Degraded));
        used.map(|leaf| (leaf.leaf, leaf.guid)).collect()
    }
}
