//! Reads of blocks and nodes that are under way, and the requests that wait for them.

use std::collections::HashMap;

use smallvec::{SmallVec, smallvec};

use super::wanted::{NodeWaiter, Wanted};
use crate::cache::{Key, Ticket};
use crate::format::{Pointer, SECTOR_SIZE};
use crate::map::Missing;
use crate::map::hash::BuildNumberHasher;

/// Reads under way, and the requests that wait for them. The key is the pointer, not the place.
/// During a long read its place may be reused, and the new block there may be read as well.
#[derive(Debug, Default)]
pub(in crate::engine) struct BlockReads {
    pub(super) blocks: HashMap<Pointer, Reading, BuildNumberHasher>,
    /// Stored bytes of the blocks that are being read ahead.
    pub(super) bytes_ahead: usize,
    pub(super) nodes: HashMap<Missing, Vec<NodeWaiter>, BuildNumberHasher>,
}

impl BlockReads {
    /// Returns the stored bytes of the blocks that are being read ahead.
    pub(in crate::engine) fn bytes_ahead(&self) -> usize {
        self.bytes_ahead
    }

    /// Reports whether the block is being read.
    pub(in crate::engine) fn is_reading(&self, pointer: &Pointer) -> bool {
        self.blocks.contains_key(pointer)
    }

    pub(super) fn began(&mut self, pointer: Pointer, reading: Reading) {
        if reading.is_ahead {
            self.bytes_ahead += stored_len(&pointer);
        }
        self.blocks.insert(pointer, reading);
    }

    pub(super) fn ended(&mut self, pointer: &Pointer) -> Option<Reading> {
        let reading = self.blocks.remove(pointer)?;
        if reading.is_ahead {
            self.bytes_ahead -= stored_len(pointer);
        }
        Some(reading)
    }
}

#[derive(Debug)]
pub(super) struct Reading {
    /// Whether a cache vdev was asked, not the pool's devices.
    pub(super) is_cached: bool,
    /// Whether no request waited for the block when the read began.
    pub(super) is_ahead: bool,
    pub(super) waiters: SmallVec<[Waiters; 1]>,
}

/// All waiters for one block of one dataset.
#[derive(Debug)]
pub(super) struct Waiters {
    pub(super) key: Key,
    /// Ticket of the cache from the time when the block was first wanted.
    pub(super) ticket: Ticket,
    pub(super) all: SmallVec<[Wanted; 2]>,
}

impl Waiters {
    pub(super) fn new(wanted: Wanted, ticket: Ticket) -> Self {
        let (key, all) = (wanted.cache_key(), smallvec![wanted]);
        Self { key, ticket, all }
    }
}

/// Returns the bytes of a block as it lies on devices, parity not counted.
pub(super) fn stored_len(pointer: &Pointer) -> usize {
    usize::from(pointer.sectors) * SECTOR_SIZE
}
