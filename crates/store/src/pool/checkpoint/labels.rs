//! The root comes into the label rings: into one copy of each end first, then into the other.

use pages::Pages;

use super::super::request::{PoolError, PoolErrorKind};
use super::super::state::{Pool, Tag};
use super::Stage;
use crate::format::Label;
use crate::vdev::{ArrayError, LeafId, State};

/// The copies that are written in each round. Never both of one end: a torn write leaves one.
const ROUNDS: [[usize; 2]; 2] = [[0, 2], [1, 3]];

impl Pool {
    /// Begins a round.
    pub(super) fn write_roots(&mut self, round: u8) {
        let Some(root) = self
            .checkpoint
            .as_ref()
            .and_then(|making| making.root.clone())
        else {
            return;
        };
        self.set_stage(Stage::Labels {
            round,
            is_flushing: false,
        });
        if round == 0 {
            self.renew_config();
        }
        let sector = Pages::from_bytes(&root.encode(self.key));
        let mut count = 0;
        for (leaf, guid) in self.labelled_leaves() {
            for copy in ROUNDS[usize::from(round)] {
                let Some(offset) = self.array.label_offset(leaf, copy) else {
                    continue;
                };
                let at = offset + Label::slot_offset(root.epoch.0);
                self.write_label(leaf, at, sector.clone());
                count += 1;
                if let Some(label) = self.new_label(guid) {
                    self.write_label(leaf, offset, label);
                    count += 1;
                }
            }
        }
        self.expect_labels(count);
    }

    fn write_label(&mut self, leaf: LeafId, at: u64, bytes: Pages) {
        let tag = self.tag(Tag::Label(leaf.0));
        let (now, out) = (self.now_us, &mut self.array_output);
        self.array.write_leaf(tag, leaf, at, bytes, now, out);
    }

    /// Where the configuration changed, its next generation goes into the labels with this root.
    fn renew_config(&mut self) {
        if !self.is_config_new {
            return;
        }
        self.config.generation += 1;
        self.config.tree = self.array.tree();
        self.is_config_new = false;
        if let Some(making) = &mut self.checkpoint {
            making.config = Some(self.config.encode());
        }
    }

    fn new_label(&self, leaf: u64) -> Option<Pages> {
        let config = self.checkpoint.as_ref()?.config.clone()?;
        let label = Label {
            pool: self.config.guid,
            leaf,
            generation: self.config.generation,
            config,
        };
        Some(Pages::from_bytes(&label.encode()))
    }

    /// Leaves that are in use, and their guids.
    fn labelled_leaves(&self) -> Vec<(LeafId, u64)> {
        let leaves = self.array.leaves();
        let used = leaves.filter(|leaf| matches!(leaf.state, State::Online | State::Degraded));
        used.map(|leaf| (leaf.leaf, leaf.guid)).collect()
    }

    fn expect_labels(&mut self, count: usize) {
        if let Some(making) = &mut self.checkpoint {
            making.labels = (count, 0);
        }
        if count == 0 {
            let context = "no leaf takes its root";
            self.checkpoint_failed(PoolError::new(PoolErrorKind::Device, context));
        }
    }

    /// A label was written or flushed, or a leaf failed that: it is the array's business then, as long as
    /// another leaf does better.
    pub(in super::super) fn label_done(&mut self, _leaf: u32, result: Result<(), ArrayError>) {
        let Some(making) = &mut self.checkpoint else {
            return;
        };
        let Stage::Labels { round, is_flushing } = making.stage else {
            return;
        };
        making.labels.0 -= 1;
        making.labels.1 += usize::from(result.is_ok());
        let (waiting, good) = making.labels;
        if waiting > 0 {
            return;
        }
        if good == 0 {
            let context = "no leaf took its root";
            return self.checkpoint_failed(PoolError::new(PoolErrorKind::Device, context));
        }
        match (is_flushing, round) {
            (false, _) => self.flush_labels(round),
            (true, 0) => self.write_roots(1),
            (true, _) => self.commit_checkpoint(),
        }
    }

    fn flush_labels(&mut self, round: u8) {
        self.set_stage(Stage::Labels {
            round,
            is_flushing: true,
        });
        let leaves = self.labelled_leaves();
        for (leaf, _) in &leaves {
            let tag = self.tag(Tag::Label(leaf.0));
            let (now, out) = (self.now_us, &mut self.array_output);
            self.array.flush_leaf(tag, *leaf, now, out);
        }
        self.expect_labels(leaves.len());
    }
}
