//! Makes a checkpoint: the changes of the log come into the trees, and the log begins anew.
//!
//! The order that matters:
//! 1. the layers are closed at a group of the log, and the catalogue is noted as it is then;
//! 2. trees, dead lists, space map and manifest are written to free space; nothing that the last
//!    two checkpoints reach is touched;
//! 3. when all of that, and all groups up to that one, are on the devices, they are flushed;
//! 4. the labels say what the vdevs are and what each leaf missed (`../devices/label_writes.rs`);
//! 5. the root is written into the first and third copy of the label ring, and flushed;
//! 6. then it is written into the second and fourth, and flushed;
//! 7. only now may the space be reused that the previous checkpoint dropped.
//!
//! A crash before 5 finds the previous checkpoint and all of the log; a crash in 5 or 6 finds
//! either checkpoint. The log continues meanwhile: its groups come after the group of step 1, in
//! both cases.

mod free_destroyed;
mod merge;
mod persist;
mod root_ring;
mod writer;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use super::manifest::Job;
use super::request::{Event, PoolError};
use super::state::Pool;
use super::tags::Tag;
use crate::catalog::Catalog;
use crate::format::{Address, DatasetId, Epoch, Node, Pointer, Root};
use crate::map::hash::BuildNumberHasher;
use crate::snapshot::deadlist::{Deadlist, Figures};
use crate::vdev::ArrayError;

/// Most nodes that are being written. Each is in memory twice, as itself and as its block, and
/// neither can be thrown out. When a merge did not wait for busy devices, all leaves of a tree were
/// in memory. This many nodes keep devices at work that are quicker than merges.
pub(super) const NODES_IN_FLIGHT: usize = 128;

/// Checkpoint being made.
#[derive(Debug)]
pub(super) struct Making {
    /// Epoch that ended when the checkpoint began.
    pub(super) epoch: Epoch,
    /// Last group in the checkpoint.
    seq: u64,
    /// Place of the record after that group.
    log: Address,
    /// Checksum of that group's record.
    previous: u128,
    /// Datasets at that moment.
    catalog: Arc<Catalog>,
    stage: CheckpointStage,
    /// Layers still to be merged, lower ones first.
    tasks: VecDeque<merge::Task>,
    merging: Option<merge::Running>,
    /// Results of the merged layers.
    merged: Vec<merge::Merged>,
    /// Dead lists of the datasets at that moment.
    pub(super) dead: BTreeMap<DatasetId, Deadlist>,
    /// Figures of these lists when the checkpoint began, as in the last checkpoint. The lists grow
    /// while the checkpoint is made.
    pub(super) dead_before: BTreeMap<DatasetId, Figures>,
    /// Snapshots taken since then, which have the dead list of their volume as of that moment.
    pub(super) heirs: BTreeMap<DatasetId, DatasetId>,
    jobs: VecDeque<Job>,
    /// Blocks that jobs may still free in this checkpoint.
    to_free: usize,
    walking: Option<free_destroyed::Walking>,
    writes: Writes,
    root: Option<Root>,
    /// Operations on labels under way, and those of this round that succeeded.
    labels: (usize, usize),
}

/// Writes under way, and the blocks that they replace.
#[derive(Debug, Default)]
struct Writes {
    count: usize,
    /// Nodes that must not be read from the devices yet, by the write that they wait for.
    held: HashMap<u64, Arc<Node>, BuildNumberHasher>,
    dropped: Vec<Pointer>,
    dropped_nodes: Vec<Pointer>,
    /// Nodes whose places other nodes take in the new trees.
    replaced: Vec<Pointer>,
    /// Blocks that lie once since there was no room for their second copies.
    once: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CheckpointStage {
    /// Merges layers into trees, as fast as devices take their nodes.
    Merge,
    /// Frees blocks of deleted datasets.
    Free,
    /// Writes the rest.
    Persist,
    /// Waits for all writes and for the groups before the checkpoint.
    Settle,
    /// Waits for the flush.
    Flush,
    /// Waits until the labels are true.
    Configuration,
    /// Writes the root into labels: copies 0 and 2 in the first round, then 1 and 3.
    Labels { round: u8, is_flushing: bool },
    /// Waits for a node that was asked for.
    Waiting(&'static CheckpointStage),
}

impl Making {
    /// Reports whether the checkpoint waits only for its turn, given that all groups up to
    /// `written_seq` are on the devices.
    pub(super) fn is_working(&self, written_seq: u64) -> bool {
        match self.stage {
            CheckpointStage::Merge => self.nodes_to_go_on_with() > 0,
            CheckpointStage::Free | CheckpointStage::Persist => true,
            CheckpointStage::Settle => self.is_settled(written_seq),
            CheckpointStage::Flush
            | CheckpointStage::Configuration
            | CheckpointStage::Labels { .. }
            | CheckpointStage::Waiting(_) => false,
        }
    }

    /// Returns the number of nodes that may be written now.
    fn nodes_to_go_on_with(&self) -> usize {
        NODES_IN_FLIGHT.saturating_sub(self.nodes_in_flight())
    }

    /// Returns the number of nodes that are being written.
    pub(super) fn nodes_in_flight(&self) -> usize {
        self.writes.held.len()
    }

    /// Reports whether blocks of deleted datasets are still to be freed.
    pub(super) fn is_freeing(&self) -> bool {
        !self.jobs.is_empty() || self.walking.is_some()
    }

    /// Returns the structures that are being freed, except a tree that is being walked.
    pub(super) fn jobs(&self) -> &VecDeque<Job> {
        &self.jobs
    }

    /// Reports whether a tree is being walked.
    pub(super) fn is_walking(&self) -> bool {
        self.walking.is_some()
    }

    fn is_settled(&self, written_seq: u64) -> bool {
        self.writes.count == 0 && written_seq >= self.seq
    }
}

impl Pool {
    /// Does the next step of a checkpoint, or begins a checkpoint if it is time.
    pub(super) fn checkpoint_go_on(&mut self) {
        if self.suspended.is_some() {
            return;
        }
        if self.checkpoint.is_none() {
            let timed_us = self.timed_checkpoint_us();
            let is_time = timed_us.is_some_and(|timed| timed <= self.now_us);
            if !(self.is_checkpoint_due() || is_time) {
                return;
            }
            self.rest.begin_checkpoint(self.now_us, &self.limits);
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
        if !self.commit.group.is_empty() {
            self.seal();
        }
        if self.suspended.is_some() {
            return;
        }
        self.is_checkpoint_wanted = false;
        self.want_second_copies();
        self.updates = 0;
        self.taken = 0;
        let (epoch, chain) = (self.epoch, &self.commit.chain);
        let (seq, log, previous) = (chain.sealed_seq(), chain.next, chain.previous);
        for contents in self.contents.values_mut() {
            contents.map.layers.close(epoch);
            if cfg!(debug_assertions) {
                // The merge compares its counts with those of the tally, which must be looked up.
                contents.map.closed(&self.nodes).for_each(drop);
            }
        }
        self.begin_epoch(epoch.next());
        // These extents are needed by the log after the previous checkpoint, not by the log after
        // this one.
        while let Some((_, extent)) = self.records.pop_front_if(|(of, _)| *of <= seq) {
            if let Err(fault) = self.space.drop_later(extent) {
                return self.suspend(format!("the space map is wrong: {fault}"));
            }
        }
        self.space.begin_checkpoint();
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
            jobs: std::mem::take(&mut self.jobs),
            to_free: self.limits.freed_blocks,
            walking: None,
            writes: Writes::default(),
            root: None,
            labels: (0, 0),
        };
        self.checkpoint = Some(making);
        self.plan_merges();
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
        if !making.is_settled(self.commit.chain.written_seq) {
            return;
        }
        self.set_stage(CheckpointStage::Flush);
        let tag = self.tag(Tag::CheckpointFlush);
        self.array.flush(tag, self.now_us, &mut self.array_output);
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
        self.space.commit_checkpoint();
        self.unmerged.commit_checkpoint();
        for merged in &making.merged {
            for contents in self.contents.values_mut() {
                if contents.map.replace_tree(merged.tree, &merged.closed) {
                    contents.referenced = merged.referenced;
                }
            }
            for dying in &mut self.dying {
                dying.map.replace_tree(merged.tree, &merged.closed);
            }
        }
        // Readers used these nodes until now.
        let nodes = &mut self.nodes;
        (making.writes.replaced.iter()).for_each(|pointer| nodes.discard(pointer));
        for (id, list) in making.dead {
            let owner = making.heirs.get(&id).copied().unwrap_or(id);
            if let Some(contents) = self.contents.get_mut(&owner) {
                let newer = std::mem::replace(&mut contents.dead, list);
                contents.dead.merge(newer);
            }
        }
        let mut jobs = making.jobs;
        jobs.append(&mut self.jobs);
        self.jobs = jobs;
        self.checkpoints += 1;
        self.note_written_once(making.writes.once);
        self.start_is_reached(making.seq);
        self.begin_epoch(self.epoch);
        self.bury();
        self.rest.commit_checkpoint(self.is_freeing());
        self.last_checkpoint_us = self.now_us;
        let epoch = making.epoch.0;
        self.output.events.push(Event::Checkpoint { epoch });
        self.count_reserved();
        self.count_vain_checkpoint();
        self.answer_syncs();
        self.changes_are_settled();
        self.scan_between_checkpoints();
    }
}
