//! Writes the root into the label rings: into one copy of each end first, then into the other.
//!
//! The rest of the labels is true by then (`../devices/label_writes.rs`), since a root leads to
//! blocks that a leaf may lack.

use pages::Pages;

use super::super::request::{PoolError, PoolErrorKind};
use super::super::state::Pool;
use super::making::{CheckpointStage, Making};
use crate::engine::devices::label_rounds::ALL_ROUNDS;
use crate::engine::tags::Tag;
use crate::format::{Epoch, Label};
use crate::vdev::ArrayError;

impl Pool {
    /// Begins to write the root, now that everything that it leads to is durable. It waits until
    /// the labels are true.
    pub(super) fn begin_roots(&mut self) {
        self.set_stage(CheckpointStage::Configuration);
        if self.are_labels_true() {
            self.roots_go_on();
        }
    }

    /// Writes a root that waited for the labels, now that they are true.
    pub(in super::super) fn roots_go_on(&mut self) {
        let making = self.checkpoint.as_ref();
        if making.is_some_and(|making| making.stage == CheckpointStage::Configuration) {
            self.write_roots(0);
        }
    }

    /// Returns the epoch of the first root that a leaf gets which is used from now on, or an
    /// earlier epoch. The root of a checkpoint being made waits for labels that know the leaf, and
    /// the leaf may already hold blocks of that checkpoint.
    pub(in super::super) fn next_root(&self) -> Epoch {
        let is_early = |making: &&Making| !matches!(making.stage, CheckpointStage::Labels { .. });
        let making = self.checkpoint.as_ref().filter(is_early);
        making.map_or(self.epoch(), |making| making.epoch)
    }

    /// Reports whether the root of `epoch`, or a newer one, is in the labels.
    pub(in super::super) fn has_root(&self, epoch: Epoch) -> bool {
        let making = self.checkpoint.as_ref();
        epoch < making.map_or(self.epoch(), |making| making.epoch)
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
        self.set_stage(CheckpointStage::Labels {
            round,
            is_flushing: false,
        });
        let sector = Pages::from_bytes(&root.encode(self.key()));
        let mut count = 0;
        for (leaf, _) in self.labelled_leaves() {
            for copy in ALL_ROUNDS[usize::from(round)] {
                let Some(offset) = self.label_offset(leaf, copy) else {
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
            let context = "no device can take the root of the checkpoint";
            self.checkpoint_failed(PoolError::new(PoolErrorKind::Device, context));
        }
    }

    /// Takes the end of a label's write or flush. If a leaf failed it, the array notes that, as
    /// long as another leaf succeeds.
    pub(in super::super) fn label_done(&mut self, _leaf: u32, result: Result<(), ArrayError>) {
        let Some(making) = &mut self.checkpoint else {
            return;
        };
        let CheckpointStage::Labels { round, is_flushing } = making.stage else {
            return;
        };
        making.labels.0 -= 1;
        making.labels.1 += usize::from(result.is_ok());
        let (waiting, good) = making.labels;
        if waiting > 0 {
            return;
        }
        if good == 0 {
            let context = "no device took the root of the checkpoint";
            return self.checkpoint_failed(PoolError::new(PoolErrorKind::Device, context));
        }
        match (is_flushing, round) {
            (false, _) => self.flush_labels(round),
            (true, 0) => self.write_roots(1),
            (true, _) => self.commit_checkpoint(),
        }
    }

    fn flush_labels(&mut self, round: u8) {
        self.set_stage(CheckpointStage::Labels {
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
