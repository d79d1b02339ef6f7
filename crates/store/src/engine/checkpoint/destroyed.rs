//! Destroyed datasets whose blocks are still to be freed, and the structures being freed.

use std::collections::{BTreeMap, VecDeque};

use crate::engine::contents::Dying;
use crate::engine::manifest::Job;
use crate::format::Address;
use crate::format::list::Chunk;

/// Rest of destroyed datasets.
#[derive(Debug, Default)]
pub(in crate::engine) struct Destroyed {
    /// Datasets whose layers are not all merged.
    dying: Vec<Dying>,
    /// Structures that are being freed, a part with each checkpoint.
    jobs: VecDeque<Job>,
    /// Chunks of dead lists that were read for the jobs.
    chunks: BTreeMap<u64, Chunk>,
}

impl Destroyed {
    /// Restores the structures that the last checkpoint did not free.
    pub(in crate::engine) fn open(&mut self, jobs: VecDeque<Job>) {
        self.jobs = jobs;
    }

    /// Adds a dataset that was destroyed.
    pub(super) fn add(&mut self, dying: Dying) {
        self.dying.push(dying);
    }

    /// Adds a structure that is to be freed.
    pub(in crate::engine) fn add_job(&mut self, job: Job) {
        self.jobs.push_back(job);
    }

    /// Turns datasets whose layers are all merged into jobs. Returns whether there are any jobs.
    pub(super) fn bury(&mut self) -> bool {
        let (merged, waiting): (Vec<Dying>, Vec<Dying>) = std::mem::take(&mut self.dying)
            .into_iter()
            .partition(|dying| dying.map.layers.closed().is_empty());
        self.dying = waiting;
        for Dying { map, after } in merged {
            self.jobs.push_back(Job::Tree {
                tree: map.tree,
                after,
                position: 0,
            });
        }
        self.has_jobs()
    }

    /// Takes all jobs for the checkpoint that begins.
    pub(super) fn take_jobs(&mut self) -> VecDeque<Job> {
        std::mem::take(&mut self.jobs)
    }

    /// Puts the jobs that a checkpoint left before those added since.
    pub(super) fn put_back(&mut self, mut jobs: VecDeque<Job>) {
        jobs.append(&mut self.jobs);
        self.jobs = jobs;
    }

    /// Returns the datasets whose layers are not all merged.
    pub(in crate::engine) fn dying(&self) -> &[Dying] {
        &self.dying
    }

    pub(super) fn dying_mut(&mut self) -> &mut [Dying] {
        &mut self.dying
    }

    /// Returns the structures to be freed, except those that the checkpoint being made has.
    pub(in crate::engine) fn jobs(&self) -> &VecDeque<Job> {
        &self.jobs
    }

    pub(in crate::engine) fn has_jobs(&self) -> bool {
        !self.jobs.is_empty()
    }

    /// Reports whether nothing is left.
    pub(in crate::engine) fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.dying.is_empty()
    }

    /// Keeps a chunk of a dead list that was read.
    pub(super) fn keep_chunk(&mut self, at: Address, chunk: Chunk) {
        self.chunks.insert(at.to_bits(), chunk);
    }

    /// Takes a chunk of a dead list, if it was read.
    pub(super) fn take_chunk(&mut self, at: Address) -> Option<Chunk> {
        self.chunks.remove(&at.to_bits())
    }
}
