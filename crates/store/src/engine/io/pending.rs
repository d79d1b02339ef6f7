//! Requests that wait for blocks or nodes.

use std::collections::HashMap;

use pages::Pages;
use smallvec::SmallVec;

use super::stalled::Ready;
use crate::engine::request::{RequestId, WantedChanges};
use crate::format::{DatasetId, Pointer};
use crate::map::hash::BuildNumberHasher;
use crate::volume::blocks::Part;

/// Request that waits for blocks.
#[derive(Debug)]
pub(in crate::engine) enum Pending {
    Read(PendingRead),
    Write(PendingWrite),
    Extents {
        id: RequestId,
        dataset: DatasetId,
        offset: u64,
        len: u64,
    },
    Changes {
        id: RequestId,
        wanted: WantedChanges,
    },
    Stored {
        id: RequestId,
        dataset: DatasetId,
        block: u64,
        /// Place of the block, once it is known.
        pointer: Pointer,
    },
}

#[derive(Debug)]
pub(in crate::engine) struct PendingRead {
    pub(super) id: RequestId,
    pub(super) parts: SmallVec<[Part; 1]>,
    pub(super) pieces: SmallVec<[Option<Pages>; 1]>,
    pub(super) missing: usize,
}

/// Change that waits for old contents.
#[derive(Debug)]
pub(in crate::engine) struct PendingWrite {
    pub(super) ready: Ready,
    pub(super) missing: usize,
}

impl Pending {
    /// Returns the id of a request that asks for something other than a volume's data.
    pub(in crate::engine) fn questioner(&self) -> Option<RequestId> {
        match self {
            Self::Extents { id, .. } | Self::Changes { id, .. } | Self::Stored { id, .. } => {
                Some(*id)
            }
            Self::Read(_) | Self::Write(_) => None,
        }
    }
}

/// All requests that wait for something, by an internal number.
#[derive(Debug, Default)]
pub(in crate::engine) struct PendingRequests {
    all: HashMap<u64, Pending, BuildNumberHasher>,
    last: u64,
}

impl PendingRequests {
    /// Makes the number of a request that will wait.
    pub(in crate::engine) fn next_number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    pub(in crate::engine) fn insert(&mut self, number: u64, request: Pending) {
        self.all.insert(number, request);
    }

    pub(in crate::engine) fn get(&self, number: u64) -> Option<&Pending> {
        self.all.get(&number)
    }

    pub(in crate::engine) fn get_mut(&mut self, number: u64) -> Option<&mut Pending> {
        self.all.get_mut(&number)
    }

    pub(in crate::engine) fn remove(&mut self, number: u64) -> Option<Pending> {
        self.all.remove(&number)
    }

    pub(in crate::engine) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}
