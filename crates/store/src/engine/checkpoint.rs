//! Makes a checkpoint: the changes of the log come into the trees, and the log begins anew.
//!
//! The order that matters:
//! 1. the layers are closed at a group of the log, and the catalogue is noted as it is then;
//! 2. trees, dead lists, space map and manifest are written to free space; nothing that the last
//!    two checkpoints reach is touched;
//! 3. when all of that, and all groups up to that one, are on the devices, they are flushed;
//! 4. the labels say what the vdevs are and what each leaf missed (`devices/label_writes.rs`);
//! 5. the root is written into the first and third copy of the label ring, and flushed;
//! 6. then it is written into the second and fourth, and flushed;
//! 7. only now may the space be reused that the previous checkpoint dropped.
//!
//! A crash before 5 finds the previous checkpoint and all of the log; a crash in 5 or 6 finds
//! either checkpoint. The log continues meanwhile: its groups come after the group of step 1, in
//! both cases.

mod asking;
pub(super) mod destroyed;
mod free_destroyed;
pub(super) mod making;
mod merge;
mod merging;
mod persist;
mod root_ring;
pub(super) mod schedule;
mod writer;

use std::collections::{BTreeMap, VecDeque};

use super::request::{Event, PoolError};
use super::state::Pool;
use super::tags::Tag;
use crate::format::DatasetId;
use crate::snapshot::deadlist::Deadlist;
use crate::vdev::ArrayError;
use making::{CheckpointStage, Making, Writes};

impl Pool {
    /// Does the next step of a checkpoint, or begins a checkpoint if it is time.
    pub(super) fn checkpoint_go_on(&mut self) {
        if self.is_suspended() {
            return;
        }
        if self.checkpoint.is_none() {
            let timed_us = self.timed_checkpoint_us();
            let is_time = timed_us.is_some_and(|timed| timed <= self.now_us());
            if !(self.is_checkpoint_due() || is_time) {
                return;
            }
            self.schedule.note_due(self.now_us(), &self.limits());
            self.begin_checkpoint();
        }
        let Some(making) = &self.checkpoint else {
            return;
        };
        match making.stage {
            CheckpointStage::Merge => self.merge_step(),
            CheckpointStage::Free => self.free_step(),
            CheckpointStage::Persist => self.persist(),
            CheckpointStage::Settle => self.settle_checkpoint(),
            CheckpointStage::Flush
            | CheckpointStage::Configuration
            | CheckpointStage::Labels { .. }
            | CheckpointStage::Waiting(_) => {}
        }
    }

    /// Begins a checkpoint: notes the place of the log and the datasets.
    fn begin_checkpoint(&mut self) {
        if self.has_open_group() {
            self.seal();
        }
        if self.is_suspended() {
            return;
        }
        self.schedule.begin();
        self.want_second_copies();
        let (epoch, chain) = (self.epoch(), self.chain());
        let (seq, log, previous) = (chain.sealed_seq(), chain.next, chain.previous);
        self.close_layers(epoch);
        self.begin_epoch(epoch.next());
        // These extents are needed by the log after the previous checkpoint, not by the log after
        // this one.
        while let Some((_, extent)) = self.records.pop_front_if(|(of, _)| *of <= seq) {
            if !self.drop_extent(extent) {
                return;
            }
        }
        self.begin_drops();
        self.begin_signposts();
        self.keep_tails();
        self.unmerged.begin_checkpoint();
        let contents = self.contents.iter_mut();
        let dead = contents.map(|(id, of)| (*id, std::mem::take(&mut of.dead)));
        let dead: BTreeMap<DatasetId, Deadlist> = dead.collect();
        let lists = dead.iter().filter(|(_, list)| !list.is_empty());
        let dead_before = lists.map(|(id, list)| (*id, list.figures())).collect();
        let making = Making {
            epoch,
            seq,
            log,
            previous,
            catalog: self.catalog.clone(),
            stage: CheckpointStage::Merge,
            tasks: VecDeque::new(),
            merging: None,
            merged: Vec::new(),
            dead,
            dead_before,
            heirs: BTreeMap::new(),
            jobs: self.destroyed.take_jobs(),
            to_free: self.limits().freed_blocks,
            walking: None,
            writes: Writes::default(),
            root: None,
            labels: (0, 0),
        };
        self.checkpoint = Some(making);
        self.plan_merges();
    }

    /// Reports whether changes are being written out as a checkpoint.
    pub fn is_making_checkpoint(&self) -> bool {
        self.checkpoint.is_some()
    }

    /// Reports whether the checkpoint being made waits only for its turn.
    pub(super) fn is_checkpoint_working(&self) -> bool {
        let written_seq = self.written_seq();
        let making = self.making();
        making.is_some_and(|making| making.is_working(written_seq))
    }

    /// Returns the checkpoint being made: the lists that it has taken, and what it still frees.
    pub(super) fn making(&self) -> Option<&Making> {
        self.checkpoint.as_ref()
    }

    /// Notes that a snapshot was taken of a volume, which has the volume's dead list if the
    /// checkpoint being made has taken that.
    pub(super) fn note_heir(&mut self, volume: DatasetId, snapshot: DatasetId) {
        if let Some(making) = &mut self.checkpoint {
            making.heirs.entry(volume).or_insert(snapshot);
        }
    }

    fn set_stage(&mut self, stage: CheckpointStage) {
        if let Some(making) = &mut self.checkpoint {
            making.stage = stage;
        }
    }

    /// Resumes when a node that the checkpoint waited for has come.
    pub(super) fn checkpoint_has_node(&mut self) {
        if let Some(making) = &mut self.checkpoint
            && let CheckpointStage::Waiting(then) = making.stage
        {
            making.stage = *then;
        }
    }

    /// Suspends the pool when the checkpoint cannot be made, since the log would grow without end.
    pub(super) fn checkpoint_failed(&mut self, error: PoolError) {
        self.suspend(format!("no checkpoint can be made: {error}"));
    }

    /// Takes the end of a write of the checkpoint.
    pub(super) fn checkpoint_written(&mut self, write: u64, result: Result<(), ArrayError>) {
        if let Err(error) = result {
            return self.suspend(format!("writing a checkpoint failed: {error}"));
        }
        if let Some(making) = &mut self.checkpoint {
            making.writes.held.remove(&write);
            making.writes.count -= 1;
        }
    }

    /// Flushes when everything before the root is on the devices.
    fn settle_checkpoint(&mut self) {
        let Some(making) = &self.checkpoint else {
            return;
        };
        if !making.is_settled(self.written_seq()) {
            return;
        }
        self.set_stage(CheckpointStage::Flush);
        let tag = self.tag(Tag::CheckpointFlush);
        self.flush_vdevs(tag);
    }

    /// Continues when everything before the root is durable, or fails.
    pub(super) fn checkpoint_flushed(&mut self, result: Result<(), ArrayError>) {
        if let Err(error) = result {
            return self.suspend(format!("a flush failed: {error}"));
        }
        let seq = self.checkpoint.as_ref().map_or(0, |making| making.seq);
        self.groups_flushed(seq);
        self.begin_roots();
    }

    /// Commits the checkpoint, whose root is durable in all labels. From now on an opening begins
    /// with it.
    fn commit_checkpoint(&mut self) {
        let Some(making) = self.checkpoint.take() else {
            return;
        };
        self.commit_drops();
        self.unmerged.commit_checkpoint();
        for merged in &making.merged {
            for contents in self.contents.values_mut() {
                if contents.map.replace_tree(merged.tree, &merged.closed) {
                    contents.referenced = merged.referenced;
                }
            }
            for dying in self.destroyed.dying_mut() {
                dying.map.replace_tree(merged.tree, &merged.closed);
            }
        }
        // Readers used these nodes until now.
        self.discard_nodes(&making.writes.replaced);
        for (id, list) in making.dead {
            let owner = making.heirs.get(&id).copied().unwrap_or(id);
            if let Some(contents) = self.contents.get_mut(&owner) {
                let newer = std::mem::replace(&mut contents.dead, list);
                contents.dead.merge(newer);
            }
        }
        self.destroyed.put_back(making.jobs);
        self.schedule.count_made();
        self.note_written_once(making.writes.once);
        self.start_is_reached(making.seq);
        self.begin_epoch(self.epoch());
        self.bury();
        self.schedule.end(self.is_freeing(), self.now_us());
        let epoch = making.epoch.0;
        self.tell(Event::Checkpoint { epoch });
        self.count_reserved();
        self.count_vain_checkpoint();
        self.answer_syncs();
        self.changes_are_settled();
        self.scan_between_checkpoints();
    }
}
