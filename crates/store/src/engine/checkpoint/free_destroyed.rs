//! Frees blocks of deleted datasets, a part of them in each checkpoint.

use std::collections::VecDeque;

use super::super::contents::{Contents, Dying};
use super::super::manifest::Job;
use super::super::request::{PoolError, PoolErrorKind};
use super::super::state::Pool;
use super::making::{CheckpointStage, Making, Walking};
use crate::engine::io::wanted::NodeWaiter;
use crate::engine::tags::Tag;
use crate::format::list::Chunk;
use crate::format::{Epoch, Pointer};
use crate::map::walk::{Progress, Visit, Walk};
use crate::snapshot::deadlist::{Deadlist, Unread};
use crate::vdev::{ArrayError, Block, Priority};

impl Pool {
    /// Deletes a volume or snapshot that nothing builds on: its blocks born after `after` are
    /// freed.
    pub(in super::super) fn free_contents(&mut self, contents: Contents, after: Epoch) {
        self.destroyed.add(Dying {
            map: contents.map,
            after,
        });
        if !contents.dead.is_empty() {
            self.destroyed.add_job(Job::Chunks(contents.dead));
        }
        self.want_checkpoint();
    }

    /// Reports whether blocks of deleted datasets are still to be freed. While a checkpoint is
    /// made, it has a part of them.
    pub fn is_freeing(&self) -> bool {
        let making = self.checkpoint.as_ref();
        !self.destroyed.is_empty() || making.is_some_and(Making::is_freeing)
    }

    /// Frees the blocks on a dead list, from the next checkpoint on.
    pub(in crate::engine) fn free_list_of_dead(&mut self, list: Deadlist) {
        self.destroyed.add_job(Job::Dead(list));
        self.want_checkpoint();
    }

    /// Restores the structures that the last checkpoint did not free.
    pub(in crate::engine) fn open_jobs(&mut self, jobs: VecDeque<Job>) {
        self.destroyed.open(jobs);
    }

    /// Returns the structures being freed, of the checkpoint being made and after it.
    pub(in crate::engine) fn jobs_being_freed(&self) -> impl Iterator<Item = &Job> {
        let making = self.checkpoint.iter();
        let own = making.flat_map(|making| making.jobs());
        own.chain(self.destroyed.jobs())
    }

    /// Returns the number of trees that will be freed but are no jobs, or none that can be listed.
    pub(in crate::engine) fn trees_being_freed(&self) -> usize {
        let making = self.checkpoint.as_ref();
        let is_walking = making.is_some_and(|making| making.is_walking());
        self.destroyed.dying().len() + usize::from(is_walking)
    }

    /// Turns deleted datasets whose layers are all merged into jobs.
    pub(super) fn bury(&mut self) {
        if self.destroyed.bury() {
            self.want_checkpoint();
        }
    }

    /// Does the next step of freeing.
    pub(super) fn free_step(&mut self) {
        let mut budget = self.limits().budget;
        while budget > 0 {
            let Some(making) = &mut self.checkpoint else {
                return;
            };
            if making.to_free == 0 {
                return self.end_freeing();
            }
            if making.walking.is_some() {
                if self.walk_some(&mut budget) {
                    return;
                }
                continue;
            }
            match making.jobs.pop_front() {
                None => return self.end_freeing(),
                Some(Job::Tree {
                    tree,
                    after,
                    position,
                }) => {
                    let walk = Walk::new(&tree, position, Some(after));
                    making.walking = Some(Walking { tree, after, walk });
                }
                Some(Job::Dead(list)) => self.free_list(list, Job::Dead, &mut budget),
                Some(Job::Chunks(list)) => self.free_list(list, Job::Chunks, &mut budget),
            }
        }
    }

    /// Frees a chunk of a list, and for a [`Job::Dead`] also the blocks on it.
    fn free_list(&mut self, mut list: Deadlist, job: fn(Deadlist) -> Job, budget: &mut usize) {
        let Some(making) = &mut self.checkpoint else {
            return;
        };
        let destroyed = &mut self.destroyed;
        match list.take_next(|at| destroyed.take_chunk(at.address)) {
            Ok(None) => {}
            Ok(Some(taken)) => {
                let mut freed = taken.chunks;
                let job = job(list);
                if matches!(job, Job::Dead(_)) {
                    freed.extend(taken.blocks);
                }
                making.jobs.push_front(job);
                making.to_free = making.to_free.saturating_sub(freed.len().max(1));
                *budget = budget.saturating_sub(freed.len().max(1));
                for pointer in freed {
                    self.drop_block(&pointer);
                }
            }
            Err(Unread::Missing(pointer)) => {
                making.jobs.push_front(job(list));
                *budget = 0;
                self.read_chunk(pointer);
            }
            Err(fault @ Unread::Damaged(_)) => {
                *budget = 0;
                let error = PoolError::new(PoolErrorKind::Damaged, fault.to_string());
                self.checkpoint_failed(error);
            }
        }
    }

    /// Frees a part of a tree. Returns whether it has to wait for a node.
    fn walk_some(&mut self, budget: &mut usize) -> bool {
        let Some(making) = &mut self.checkpoint else {
            return true;
        };
        let Some(mut walking) = making.walking.take() else {
            return false;
        };
        let mut found: Vec<Pointer> = Vec::new();
        // The walk takes one leaf at a time, since one checkpoint frees only a bounded number of
        // blocks.
        let mut one = 1;
        let progress = self.walk_on(&mut walking.walk, &mut one, |visit| {
            let (Visit::Block { pointer, .. } | Visit::Node { pointer, .. }) = visit;
            found.push(pointer);
        });
        *budget = budget.saturating_sub(1 + found.len() / 16);
        let Some(making) = &mut self.checkpoint else {
            return true;
        };
        making.to_free = making.to_free.saturating_sub(found.len());
        if !matches!(progress, Ok(Progress::Done)) {
            making.walking = Some(walking);
        }
        for pointer in found {
            self.drop_block(&pointer);
        }
        match progress {
            Ok(_) => false,
            Err(missing) => {
                self.set_stage(CheckpointStage::Waiting(&CheckpointStage::Free));
                self.read_node(missing, NodeWaiter::Checkpoint);
                true
            }
        }
    }

    fn end_freeing(&mut self) {
        if let Some(making) = &mut self.checkpoint {
            if let Some(Walking { tree, after, walk }) = making.walking.take() {
                making.jobs.push_front(Job::Tree {
                    tree,
                    after,
                    position: walk.position(),
                });
            }
            making.stage = CheckpointStage::Persist;
        }
    }

    fn read_chunk(&mut self, pointer: Pointer) {
        self.set_stage(CheckpointStage::Waiting(&CheckpointStage::Free));
        let tag = self.tag(Tag::Chunk(pointer.address));
        let block = Block::from(&pointer);
        self.fetch_block(tag, block, Priority::Background);
    }

    /// Takes a chunk of a dead list that was read, or the error.
    pub(in super::super) fn chunk_read(
        &mut self,
        address: crate::format::Address,
        result: Result<pages::Pages, ArrayError>,
    ) {
        let chunk = match result {
            Ok(block) => Chunk::decode(&block),
            Err(error) => {
                let error = PoolError::of_array(error, "a dead list cannot be read");
                return self.checkpoint_failed(error);
            }
        };
        let Some(chunk) = chunk else {
            let context = format!("the block at {address} is not a part of a dead list");
            return self.checkpoint_failed(PoolError::new(PoolErrorKind::Damaged, context));
        };
        self.destroyed.keep_chunk(address, chunk);
        self.checkpoint_has_node();
    }
}
