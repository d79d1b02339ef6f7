//! The root comes into the label rings: into one copy of each end first, then into the other. What
//! the labels say besides is true by then (`../labels.rs`): a root leads to blocks that a leaf may
//! lack.

use pages::Pages;

use super::super::labels::ALL_ROUNDS;
use super::super::request::{PoolError, PoolErrorKind};
use super::super::state::{Pool, Tag};
use super::{Making, Stage};
use crate::format::{Epoch, Label};
use crate::vdev::ArrayError;

impl Pool {
    /// Everything that the root leads to is durable: it is written as soon as the labels are true.
    pub(super) fn begin_roots(&mut self) {
        self.set_stage(Stage::Configuration);
        if self.are_labels_true() {
            self.roots_go_on();
        }
    }

    /// The labels are true: a root that waited for that is written.
    pub(in super::super) fn roots_go_on(&mut self) {
        let making = self.checkpoint.as_ref();
        if making.is_some_and(|making| making.stage == Stage::Configuration) {
            self.write_roots(0);
        }
    }

    /// The epoch of the first root that a leaf gets which is used from now on, or one before that.
    /// The root of a checkpoint that is being made waits for labels that know the leaf, and what it
    /// leads to may lie there already.
    pub(in super::super) fn next_root(&self) -> Epoch {
        let is_early = |making: &&Making| !matches!(making.stage, Stage::Labels { .. });
        let making = self.checkpoint.as_ref().filter(is_early);
        making.map_or(self.epoch, |making| making.epoch)
    }

    /// Whether the root of `epoch` is in the labels, or a newer one.
    pub(in super::super) fn has_root(&self, epoch: Epoch) -> bool {
        let making = self.checkpoint.as_ref();
        epoch < making.map_or(self.epoch, |making| making.epoch)
    }

    /// Begins a round.
    fn write_roots(&mut self, round: u8) {
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
        let sector = Pages::from_bytes(&root.encode(self.key));
        let mut count = 0;
        for (leaf, _) in self.labelled_leaves() {
            for copy in ALL_ROUNDS[usize::from(round)] {
                let Some(offset) = self.array.label_offset(leaf, copy) else {
                    continue;
                };
                let at = offset + Label::slot_offset(root.epoch.0);
                self.write_label(Tag::Label(leaf.0), leaf, at, sector.clone());
                count += 1;
            }
        }
        self.expect_labels(count);
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

    /// A label was written or flushed, or a leaf failed that: it is the array's business then, as
    /// long as another leaf does better.
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
            self.flush_label(Tag::Label(leaf.0), *leaf);
        }
        self.expect_labels(leaves.len());
    }
}
