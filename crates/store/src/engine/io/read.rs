//! Reads volumes: from a range of bytes to its blocks, from a block to its pointer, from there to
//! the devices, and back.
//!
//! A block is looked for in this order: open group, map, blocks being written, cache, devices. In
//! the map, one look-up covers the layers and then the tree, so at no moment is a block in neither.
//! If a node of the map is missing, the node is read first, and the look-up is made again.

use std::ops::Range;

use pages::Pages;
use smallvec::{SmallVec, smallvec};

use super::block_reads::{Reading, Waiters};
use super::pending::{Pending, PendingRead};
use super::wanted::{NodeWaiter, Wanted};
use crate::cache::{EvictedBlocks, Ticket};
use crate::catalog::CachePolicy;
use crate::compress;
use crate::engine::contents::Contents;
use crate::engine::request::{Answer, Event, PoolError, PoolErrorKind, RequestId, Span};
use crate::engine::state::Pool;
use crate::engine::tags::Tag;
use crate::format::node::FAN_OUT;
use crate::format::{DatasetId, Pointer};
use crate::log::group::Held;
use crate::map::{Missing, Tree};
use crate::vdev::{ArrayError, ArrayErrorKind, Block, Priority};
use crate::volume::blocks::{self, Part};

/// Most blocks that one answer about extents covers.
const EXTENT_BLOCKS: u64 = 4096;

/// Most blocks that are looked up together. A leaf of a map has a multiple of this number.
const RUN: u64 = 64;
const _: () = assert!(FAN_OUT.is_multiple_of(RUN as usize));

/// Place where a block was found, or its data.
pub(in crate::engine) enum BlockSource {
    Data(Pages),
    Zeros,
    At(Pointer),
}

impl Pool {
    pub(in crate::engine) fn begin_read(
        &mut self,
        id: RequestId,
        dataset: DatasetId,
        offset: u64,
        len: u32,
    ) {
        let block_size = match self.in_range(dataset, offset, len.into()) {
            Ok(of) if of.attempt.is_some() => {
                let error = crate::engine::receive::out_of_turn(of.attempt);
                return self.answer(id, Err(error));
            }
            Ok(of) => of.block_size as usize,
            Err(error) => return self.answer(id, Err(error)),
        };
        let parts: SmallVec<[Part; 1]> = blocks::parts(offset, len as usize, block_size).collect();
        let pending = self.pending.next_number();
        let touched = blocks::touched(offset, len as usize, block_size);
        let read = PendingRead {
            id,
            pieces: smallvec![None; parts.len()],
            missing: parts.len(),
            parts,
        };
        self.pending.insert(pending, Pending::Read(read));
        let first = touched.start;
        let wanted = |block: u64| Wanted {
            dataset,
            block,
            pending,
            part: (block - first) as usize,
        };
        for run in runs(touched) {
            match self.look_up_run(dataset, &run) {
                Ok(pointers) => {
                    self.publish(dataset, run.start);
                    for (block, pointer) in run.zip(pointers) {
                        let found = self.held(dataset, block);
                        let found = found.unwrap_or_else(|| self.found_at(pointer));
                        self.want_found(wanted(block), found);
                    }
                }
                Err(_) => run.map(wanted).for_each(|wanted| self.want(wanted)),
            }
        }
    }

    /// Returns the volblocksize; fails if the range does not lie in the dataset.
    pub(in crate::engine) fn check_range(
        &self,
        dataset: DatasetId,
        offset: u64,
        len: u64,
    ) -> Result<u32, PoolError> {
        self.in_range(dataset, offset, len).map(|of| of.block_size)
    }

    fn in_range(&self, dataset: DatasetId, offset: u64, len: u64) -> Result<&Contents, PoolError> {
        let contents = self.contents_of(dataset).ok_or_else(|| {
            PoolError::new(
                PoolErrorKind::NotFound,
                format!("dataset {} does not exist", dataset.0),
            )
        })?;
        let end = offset.checked_add(len);
        if len == 0 || end.is_none_or(|end| end > contents.size) {
            let context = format!(
                "{len} bytes at offset {offset} are outside the dataset of {} bytes",
                contents.size
            );
            return Err(PoolError::new(PoolErrorKind::OutOfRange, context));
        }
        Ok(contents)
    }

    /// Gets a block for a pending request, at once or when it is read.
    pub(in crate::engine) fn want(&mut self, wanted: Wanted) {
        match self.find_outside_cache(wanted.dataset, wanted.block) {
            Ok(found) => self.want_found(wanted, found),
            Err(missing) => self.read_node(missing, NodeWaiter::Block(wanted)),
        }
    }

    fn want_found(&mut self, wanted: Wanted, found: BlockSource) {
        match found {
            BlockSource::Data(data) => self.arrived(wanted, Ok(data)),
            BlockSource::Zeros => {
                let len = self
                    .contents_of(wanted.dataset)
                    .map_or(0, |of| of.block_size);
                self.arrived(wanted, Ok(Pages::zeroes(len)));
            }
            BlockSource::At(pointer) => {
                if self.wait_for_reading(&pointer, wanted) {
                    return;
                }
                match self.cache.get_or_ticket(wanted.cache_key()) {
                    Ok(data) => self.arrived(wanted, Ok(data)),
                    Err(ticket) => self.read_block(pointer, wanted, ticket),
                }
            }
        }
    }

    /// Finds a block without the cache. The cache comes last, since it knows nothing more.
    pub(in crate::engine) fn find_outside_cache(
        &mut self,
        dataset: DatasetId,
        block: u64,
    ) -> Result<BlockSource, Missing> {
        if let Some(held) = self.held(dataset, block) {
            return Ok(held);
        }
        match self.look_up(dataset, block) {
            None => Ok(BlockSource::Zeros),
            Some(found) => found.map(|pointer| self.found_at(pointer)),
        }
    }

    /// Returns the open group's data for a block. It is newer than the map.
    pub(in crate::engine) fn held(&self, dataset: DatasetId, block: u64) -> Option<BlockSource> {
        Some(match self.commit.group.look_up(dataset, block)? {
            Held::Data(placed) => BlockSource::Data(placed.data.clone()),
            Held::Zeros => BlockSource::Zeros,
        })
    }

    /// Follows the map's pointer of a block.
    pub(in crate::engine) fn found_at(&self, pointer: Pointer) -> BlockSource {
        if pointer.is_hole() {
            return BlockSource::Zeros;
        }
        let in_flight = self.in_flight(pointer.address).cloned();
        in_flight.map_or(BlockSource::At(pointer), BlockSource::Data)
    }

    /// Waits with others for a block that is being read. Returns whether it is being read.
    fn wait_for_reading(&mut self, pointer: &Pointer, wanted: Wanted) -> bool {
        let Some(reading) = self.reads.blocks.get_mut(pointer) else {
            return false;
        };
        let key = wanted.cache_key();
        match reading.waiters.iter_mut().find(|of| of.key == key) {
            Some(waiters) => waiters.all.push(wanted),
            None => {
                let ticket = self.cache.ticket(key);
                reading.waiters.push(Waiters::new(wanted, ticket));
            }
        }
        true
    }

    /// Starts the read of a block that is not being read yet.
    pub(in crate::engine) fn read_block(
        &mut self,
        pointer: Pointer,
        wanted: Wanted,
        ticket: Ticket,
    ) {
        let cached = self.read_cached(wanted.cache_key(), &pointer);
        let reading = Reading {
            is_cached: cached.is_some(),
            is_ahead: wanted.is_ahead(),
            waiters: smallvec![Waiters::new(wanted, ticket)],
        };
        self.reads.began(pointer, reading);
        match cached {
            None => self.read_from_pool(&pointer),
            Some(None) => {}
            Some(data) => self.cached_block_read(&pointer, data),
        }
    }

    fn read_from_pool(&mut self, pointer: &Pointer) {
        let tag = self.tag(Tag::Block(*pointer));
        let block = Block::from(pointer);
        self.fetch_block(tag, block, Priority::SyncRead);
    }

    /// Takes the answer of a cache vdev. If it has no data, the block is read from the pool.
    pub(in crate::engine) fn cached_block_read(&mut self, pointer: &Pointer, data: Option<Pages>) {
        let reading = self.reads.blocks.get_mut(pointer);
        let Some(reading) = reading.filter(|of| of.is_cached) else {
            return;
        };
        let Some(data) = data else {
            reading.is_cached = false;
            return self.read_from_pool(pointer);
        };
        let waiters = std::mem::take(&mut reading.waiters);
        self.reads.ended(pointer);
        for waiters in waiters {
            self.unpacked(waiters, &Ok(data.clone()));
        }
    }

    /// Takes a block that was read, or the error.
    pub(in crate::engine) fn block_read(
        &mut self,
        pointer: &Pointer,
        result: Result<Pages, ArrayError>,
    ) {
        let Some(reading) = self.reads.ended(pointer) else {
            return;
        };
        let is_overwritten = is_overwritten(&result);
        for waiters in reading.waiters {
            let Some(&wanted) = waiters.all.first() else {
                continue;
            };
            let unpacked = match &result {
                Ok(payload) => self.unpack(pointer, payload, wanted),
                Err(error) => {
                    let context = format!("block {} cannot be read", wanted.block);
                    Err(PoolError::of_array(error.clone(), context))
                }
            };
            if is_overwritten || unpacked.is_err() && self.has_moved(pointer, wanted) {
                // The block lies elsewhere by now, or is in memory.
                waiters.all.into_iter().for_each(|wanted| self.want(wanted));
            } else {
                self.unpacked(waiters, &unpacked);
            }
        }
    }

    /// Gives a block to all that wait for it, or tells them that it cannot be read.
    fn unpacked(&mut self, waiters: Waiters, data: &Result<Pages, PoolError>) {
        if let (Ok(data), Some(wanted)) = (data, waiters.all.first()) {
            self.keep(*wanted, waiters.ticket, data);
        }
        for wanted in waiters.all {
            self.arrived(wanted, data.clone());
        }
    }

    fn unpack(
        &self,
        pointer: &Pointer,
        payload: &Pages,
        wanted: Wanted,
    ) -> Result<Pages, PoolError> {
        let len = self
            .contents_of(wanted.dataset)
            .map_or(0, |of| of.block_size as usize);
        compress::unpack(pointer.compression, payload, len).ok_or_else(|| {
            let context = format!("block {} cannot be decompressed", wanted.block);
            PoolError::new(PoolErrorKind::Damaged, context)
        })
    }

    /// Reports whether a block lies elsewhere by now, as far as is known without a read.
    fn has_moved(&mut self, pointer: &Pointer, wanted: Wanted) -> bool {
        let found = self.find_outside_cache(wanted.dataset, wanted.block);
        let is_there = matches!(found, Ok(BlockSource::At(now)) if now == *pointer);
        !is_there || self.cache.holds(wanted.cache_key())
    }

    /// Reports whether blocks of a dataset are kept in memory. They are not while a stream is
    /// received into the dataset: the cache answers any reader, and no reader may see a
    /// half-received volume.
    pub(in crate::engine) fn is_cached(&self, dataset: DatasetId) -> bool {
        let contents = self.contents_of(dataset);
        contents
            .is_some_and(|of| of.attempt.is_none() && of.settings.primary_cache == CachePolicy::All)
    }

    fn keep(&mut self, wanted: Wanted, ticket: Ticket, data: &Pages) {
        let mut evicted = EvictedBlocks::new();
        if self.is_cached(wanted.dataset) {
            let key = wanted.cache_key();
            self.cache
                .fill(key, ticket, data.clone(), |of| evicted.push(of));
        } else if let Some(of) = self.contents_of(wanted.dataset)
            && of.settings.primary_cache == CachePolicy::None
        {
            self.forget_leaf(wanted.dataset, wanted.block);
        }
        self.keep_evicted(evicted);
    }

    /// Reads a node of a map for a waiter.
    pub(in crate::engine) fn read_node(&mut self, missing: Missing, waiter: NodeWaiter) {
        if let Some(waiters) = self.reads.nodes.get_mut(&missing) {
            return waiters.push(waiter);
        }
        self.reads.nodes.insert(missing, vec![waiter]);
        let tag = self.tag(Tag::Node(missing));
        let block = Block::from(&missing.pointer);
        self.fetch_block(tag, block, Priority::SyncRead);
    }

    /// Takes a node that was read, or the error.
    pub(in crate::engine) fn node_read(
        &mut self,
        missing: &Missing,
        result: Result<Pages, ArrayError>,
    ) {
        let Some(waiters) = self.reads.nodes.remove(missing) else {
            return;
        };
        let is_overwritten = is_overwritten(&result);
        let result = match result {
            Ok(block) => {
                let filled = self.fill_node(missing, &block);
                filled.map_err(|fault| PoolError::new(PoolErrorKind::Damaged, fault.to_string()))
            }
            // The waiters look up the node again, since another one may have replaced it.
            Err(_) if is_overwritten => Ok(()),
            Err(error) => {
                let context = format!("{} cannot be read", missing.id);
                Err(PoolError::of_array(error, context))
            }
        };
        let below = Tree::<FAN_OUT>::blocks_of(missing.id);
        let result = result.map_err(|error| error.with_lost(below));
        for waiter in waiters {
            match (waiter, &result) {
                (NodeWaiter::Block(wanted), Ok(())) => self.want(wanted),
                (NodeWaiter::Block(wanted), Err(error)) => self.arrived(wanted, Err(error.clone())),
                (NodeWaiter::Extents(pending), Ok(())) => self.tell_extents(pending),
                (NodeWaiter::Changes(pending), Ok(())) => self.tell_changes(pending),
                (NodeWaiter::Stored(pending), Ok(())) => self.find_stored(pending),
                (
                    NodeWaiter::Extents(pending)
                    | NodeWaiter::Changes(pending)
                    | NodeWaiter::Stored(pending),
                    Err(error),
                ) => {
                    let waiting = self.pending.remove(pending);
                    if let Some(id) = waiting.and_then(|waiting| waiting.questioner()) {
                        self.answer(id, Err(error.clone()));
                    }
                }
                (NodeWaiter::Scan(scan), result) => {
                    self.scan_has_read(scan, result.is_ok());
                }
                (NodeWaiter::Ahead(ahead), Ok(())) => self.go_ahead(ahead),
                (NodeWaiter::Leaves(ahead), Ok(())) => self.bring_leaves(ahead),
                (NodeWaiter::Nobody | NodeWaiter::Ahead(_) | NodeWaiter::Leaves(_), _) => {}
                (NodeWaiter::Checkpoint, Ok(())) => self.checkpoint_has_node(),
                (NodeWaiter::Checkpoint, Err(error)) => self.checkpoint_failed(error.clone()),
            }
        }
    }

    /// Reports which bytes of a volume or snapshot cannot be read.
    pub(in crate::engine) fn tell_lost_blocks(
        &mut self,
        dataset: DatasetId,
        blocks: Option<Range<u64>>,
    ) {
        let Some((of, blocks)) = self.contents_of(dataset).zip(blocks) else {
            return;
        };
        let at = |block: u64| block.saturating_mul(of.block_size.into()).min(of.size);
        let (offset, end) = (at(blocks.start), at(blocks.end));
        if offset < end {
            self.tell(Event::Unrecoverable(Span {
                dataset,
                offset,
                len: end - offset,
            }));
        }
    }

    /// Takes a wanted block that came, or the error.
    fn arrived(&mut self, wanted: Wanted, result: Result<Pages, PoolError>) {
        let result = result.map_err(|error| match &error.lost {
            None => error.with_lost(wanted.block..wanted.block + 1),
            Some(_) => error,
        });
        if let Err(error) = &result
            && error.kind == PoolErrorKind::Damaged
        {
            self.tell_lost_blocks(wanted.dataset, error.lost.clone());
        }
        match self.pending.get_mut(wanted.pending) {
            None
            | Some(Pending::Extents { .. } | Pending::Changes { .. } | Pending::Stored { .. }) => {}
            Some(Pending::Write(_)) => self.old_arrived(wanted, result),
            Some(Pending::Read(read)) => match result {
                Err(error) => {
                    let id = read.id;
                    self.pending.remove(wanted.pending);
                    self.answer(id, Err(error));
                }
                Ok(data) => {
                    let within = read.parts[wanted.part].within.clone();
                    read.pieces[wanted.part] = Some(data.slice(within));
                    read.missing -= 1;
                    if read.missing == 0 {
                        let pieces: SmallVec<[Pages; 1]> =
                            read.pieces.drain(..).flatten().collect();
                        let id = read.id;
                        self.pending.remove(wanted.pending);
                        self.answer(id, Ok(Answer::Data(blocks::joined(&pieces))));
                    }
                }
            },
        }
    }

    pub(in crate::engine) fn begin_extents(
        &mut self,
        id: RequestId,
        dataset: DatasetId,
        offset: u64,
        len: u64,
    ) {
        if let Err(error) = self.check_range(dataset, offset, len) {
            return self.answer(id, Err(error));
        }
        let pending = self.pending.next_number();
        let extents = Pending::Extents {
            id,
            dataset,
            offset,
            len,
        };
        self.pending.insert(pending, extents);
        self.tell_extents(pending);
    }

    /// Answers which blocks hold data, once all nodes that say so are in memory.
    fn tell_extents(&mut self, pending: u64) {
        let Some(Pending::Extents {
            id,
            dataset,
            offset,
            len,
        }) = self.pending.get(pending)
        else {
            return;
        };
        let (id, dataset, offset, len) = (*id, *dataset, *offset, *len);
        let Some(contents) = self.contents_of(dataset) else {
            self.pending.remove(pending);
            return self.fail(id, PoolErrorKind::NotFound, "the dataset was destroyed");
        };
        let size = u64::from(contents.block_size);
        let first = offset / size;
        let count = ((offset + len).div_ceil(size) - first).min(EXTENT_BLOCKS);
        let found = match self.look_up_run(dataset, &(first..first + count)) {
            Ok(found) => found,
            Err(missing) => return self.read_node(missing, NodeWaiter::Extents(pending)),
        };
        self.pending.remove(pending);
        let mut runs: Vec<(u64, bool)> = Vec::new();
        for (number, pointer) in found.iter().enumerate() {
            let block = first + number as u64;
            let held = self.commit.group.look_up(dataset, block);
            let has_data = held.map_or(!pointer.is_hole(), |held| matches!(held, Held::Data(_)));
            let start = offset.max(block * size);
            let bytes = (offset + len).min((block + 1) * size) - start;
            match runs.last_mut() {
                Some((len, data)) if *data == has_data => *len += bytes,
                _ => runs.push((bytes, has_data)),
            }
        }
        self.answer(id, Ok(Answer::Extents(runs)));
    }
}

/// Splits neighbouring blocks into runs of at most [`RUN`], each below one node.
pub(in crate::engine) fn runs(blocks: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let mut next = blocks.start;
    std::iter::from_fn(move || {
        let end = (next / RUN + 1).saturating_mul(RUN).min(blocks.end);
        let run = next..end;
        next = end;
        (!run.is_empty()).then_some(run)
    })
}

/// Reports whether a block was freed, and its place reused, while it was read.
pub(in crate::engine) fn is_overwritten(result: &Result<Pages, ArrayError>) -> bool {
    matches!(result, Err(error) if error.kind == ArrayErrorKind::Overwritten)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_blocks_lie_below_one_node_each() {
        let all: Vec<_> = runs(60..200).collect();
        assert_eq!(all, [60..64, 64..128, 128..192, 192..200]);
        assert_eq!(runs(64..65).next(), Some(64..65));
        assert_eq!(runs(64..65).count(), 1);
        assert_eq!(runs(7..7).count(), 0);
        assert_eq!(runs(u64::MAX - 2..u64::MAX).count(), 1);
    }
}
