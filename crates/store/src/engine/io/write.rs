//! Takes changes: writes and clearings are cut into blocks and put into the open group.
//!
//! A block that is written in part is read first. A change that finds no room in memory or on the
//! devices waits, and all changes after it wait too, in their order. While a change waits for old
//! contents or for room, its blocks are locked. No other change may alter them or read them, since
//! it would keep contents from before the waiting change.

use std::ops::Range;

use pages::Pages;
use smallvec::SmallVec;

use super::change::{Content, Write};
use super::pending::{Pending, PendingWrite};
use super::prepared::{Prepared, PreparedBlock, Recipe, written_with};
use super::stalled::Ready;
use super::wanted::{Wanted, cache_key};
use crate::cache::EvictedBlocks;
use crate::catalog::{Settings, SyncPolicy};
use crate::checksum;
use crate::compress::{self, Payload};
use crate::engine::request::{Answer, PoolError, PoolErrorKind, RequestId};
use crate::engine::state::Pool;
use crate::format::pointer::Second;
use crate::format::{Compression, DatasetId, Pointer, SECTOR_SIZE};
use crate::log::group::{OpenGroup, Placed};
use crate::space::Claim;
use crate::volume::blocks;

/// Outcome of an attempt to place a change.
enum Put {
    Done,
    /// Enough sectors are free, but not in a row. Nothing was done of a change that must not be
    /// seen in part.
    Unplaced,
}

impl Pool {
    pub(in crate::engine) fn begin_write(&mut self, id: RequestId, write: Write) {
        if let Err(error) = self.check_write(&write) {
            return self.answer(id, Err(error));
        }
        let Some(contents) = self.contents_of(write.dataset) else {
            return;
        };
        let (dataset, size) = (write.dataset, u64::from(contents.block_size));
        let touched = write.touched(size);
        if let Some(lock) = self.stalled.lock_on(dataset, &touched) {
            return lock.make_wait(id, write);
        }
        let partial: Vec<u64> = write.partial(size).collect();
        let ready = Ready::new(id, write);
        if partial.is_empty() {
            return self.take(ready);
        }
        self.stalled.lock(dataset, touched);
        let pending = self.pending.next_number();
        let missing = partial.len();
        let waiting = Pending::Write(PendingWrite { ready, missing });
        self.pending.insert(pending, waiting);
        for (part, block) in partial.into_iter().enumerate() {
            self.want(Wanted {
                dataset,
                block,
                pending,
                part,
            });
        }
    }

    fn check_write(&self, write: &Write) -> Result<(), PoolError> {
        if let Some(error) = self.suspension() {
            return Err(error);
        }
        let block_size = self.check_range(write.dataset, write.offset, write.len())?;
        let contents = self.contents_of(write.dataset);
        let attempt = contents.and_then(|of| of.attempt);
        if attempt != write.attempt {
            return Err(crate::engine::receive::out_of_turn(attempt));
        }
        if attempt.is_some() {
            let size = u64::from(block_size);
            return match write.offset.is_multiple_of(size) && write.len().is_multiple_of(size) {
                // The volume is read-only for other writers.
                true => Ok(()),
                false => Err(PoolError::new(
                    PoolErrorKind::Invalid,
                    "streams bring whole blocks",
                )),
            };
        }
        let settings = contents.map(|of| of.settings);
        if settings.is_some_and(|settings| settings.is_readonly) {
            let context = "the dataset is read-only".to_owned();
            return Err(PoolError::new(PoolErrorKind::ReadOnly, context));
        }
        Ok(())
    }

    /// Takes the old contents of a block that is written in part, or the error.
    pub(in crate::engine) fn old_arrived(
        &mut self,
        wanted: Wanted,
        result: Result<Pages, PoolError>,
    ) {
        let Some(Pending::Write(waiting)) = self.pending.get_mut(wanted.pending) else {
            return;
        };
        match result {
            Ok(data) => {
                waiting.ready.olds.push((wanted.block, data));
                waiting.missing -= 1;
                if waiting.missing > 0 {
                    return;
                }
                if let Some(Pending::Write(waiting)) = self.pending.remove(wanted.pending) {
                    self.take(waiting.ready);
                }
            }
            Err(error) => {
                if let Some(Pending::Write(waiting)) = self.pending.remove(wanted.pending) {
                    let id = waiting.ready.id;
                    self.let_go_on(&waiting.ready);
                    self.answer(id, Err(error));
                }
            }
        }
    }

    /// Takes a change that has all old contents: it takes effect, or waits.
    fn take(&mut self, mut ready: Ready) {
        if self.stalled.is_empty() && self.may_take(&mut ready.write) {
            match self.carry_out(ready) {
                None => return,
                Some(unplaced) => ready = unplaced,
            }
        }
        let dataset = ready.write.dataset;
        let size = self.contents_of(dataset).map(|of| of.block_size.into());
        let touched = size.map(|size| ready.write.touched(size));
        if let Some(touched) = touched.filter(|_| ready.olds.is_empty()) {
            self.stalled.lock(dataset, touched);
        }
        self.stalled.stall(ready, self.limits().dirty_bytes);
    }

    /// Takes changes that waited for room.
    pub(in crate::engine) fn resume_stalled(&mut self) {
        while let Some(mut ready) = self.stalled.next() {
            let scattered = ready.scattered;
            // If enough sectors are free but scattered, only a checkpoint makes room.
            let is_news = scattered.is_none_or(|epoch| epoch < self.checkpoint_epoch());
            if is_news && self.may_take(&mut ready.write) {
                if let Some(unplaced) = self.carry_out(ready) {
                    self.stalled.put_back(unplaced);
                }
            } else if let Some(context) = self.why_hopeless(&mut ready.write, scattered.is_some()) {
                self.fail(ready.id, PoolErrorKind::NoSpace, context);
                self.let_go_on(&ready);
            } else {
                return self.stalled.put_back(ready);
            }
        }
    }

    /// Makes a change take effect: every reader sees it from here on. Returns the change if no
    /// place was found for it.
    fn carry_out(&mut self, mut ready: Ready) -> Option<Ready> {
        let mut done = self.put(&ready.write, &ready.olds);
        if matches!(done, Ok(Put::Unplaced)) && ready.write.keep_edges() {
            done = self.put(&ready.write, &ready.olds);
        }
        if matches!(done, Ok(Put::Unplaced)) {
            ready.write.zero_edges();
            ready.scattered = Some(self.checkpoint_epoch());
            self.want_checkpoint();
            return Some(ready);
        }
        self.let_go_on(&ready);
        let Ready { id, write, .. } = ready;
        if let Err(error) = done {
            self.answer(id, Err(error));
            return None;
        }
        let of = self.contents_of(write.dataset);
        let sync = of.map(|of| of.settings.sync);
        if !of.is_some_and(|of| write.is_nothing(of.block_size.into())) {
            self.note_taken(&write);
            self.stalled.hope();
        }
        let is_durable = match sync {
            Some(SyncPolicy::Always) => true,
            Some(SyncPolicy::Disabled) => false,
            _ => write.is_durable,
        };
        if is_durable {
            self.wait_for(self.newest_seq(), id);
        } else {
            self.answer(id, Ok(Answer::Done));
        }
        None
    }

    /// Puts the blocks of a change into the open group. If one group can hold them, all go into
    /// one, so all have their places before the first is seen.
    fn put(&mut self, write: &Write, olds: &[(u64, Pages)]) -> Result<Put, PoolError> {
        let Some(contents) = self.contents_of(write.dataset) else {
            return Err(PoolError::new(
                PoolErrorKind::NotFound,
                "the dataset was destroyed",
            ));
        };
        let size = contents.block_size as usize;
        let recipe = Recipe::of(&contents.settings, contents.block_size);
        let prepared = write.prepared.as_ref();
        let made = prepared.and_then(|of| of.made_by(recipe, write.offset));
        let is_kept = !prepared.is_some_and(Prepared::is_passed) && self.is_cached(write.dataset);
        let blocks = write.blocks(size as u64) as usize;
        let group = &self.commit.group;
        if !group.is_empty() && OpenGroup::holds(blocks, size) && !group.has_room_for(blocks, size)
        {
            self.seal();
        }
        let old = |block| {
            olds.iter()
                .find(|(of, _)| *of == block)
                .map(|(_, data)| data)
        };
        let bytes_of = |block: u64| {
            let start = write.offset.max(block * size as u64);
            let end = write.end().min((block + 1) * size as u64);
            let bytes = write.bytes(start, (end - start) as usize);
            match old(block) {
                Some(old) => {
                    let within = (start - block * size as u64) as usize;
                    blocks::overwritten(old, within, &bytes)
                }
                None => blocks::aligned(bytes),
            }
        };
        let (first, end) = (
            write.offset / size as u64,
            write.end().div_ceil(size as u64),
        );
        let partial: SmallVec<[u64; 1]> = match &write.content {
            Content::Data(_) => (first..end).collect(),
            Content::Zeros(..) => write.partial(size as u64).collect(),
        };
        let at_once = match OpenGroup::holds(blocks, size) {
            true => partial.len().max(1),
            false => 1,
        };
        for some in partial.chunks(at_once) {
            let some = some.iter().map(|block| {
                let made = made.and_then(|made| made.get((block - first) as usize));
                (*block, bytes_of(*block), made)
            });
            if let Put::Unplaced = self.put_blocks(write.dataset, some, is_kept)? {
                return Ok(Put::Unplaced);
            }
        }
        if let Content::Data(_) = &write.content {
            return Ok(Put::Done);
        }
        let whole = write.whole(size as u64);
        if !whole.is_empty() {
            self.clear_blocks(write.dataset, whole.start, whole.end - whole.start);
        }
        Ok(Put::Done)
    }

    /// Gives new bytes to all these blocks, or to none if one finds no place. The cache keeps them
    /// with `is_kept`.
    fn put_blocks<'a>(
        &mut self,
        dataset: DatasetId,
        blocks: impl Iterator<Item = (u64, Pages, Option<&'a PreparedBlock>)>,
        is_kept: bool,
    ) -> Result<Put, PoolError> {
        let mut placed: SmallVec<[(u64, Option<Placed>); 1]> = SmallVec::new();
        for (block, data, made) in blocks {
            let is_zero = match made {
                None => compress::is_zero(&data),
                Some(made) => matches!(made, PreparedBlock::Zeros),
            };
            if is_zero {
                placed.push((block, None));
                continue;
            }
            let place = self.place_block(dataset, data, made);
            if let Ok(Some(place)) = place {
                placed.push((block, Some(place)));
                continue;
            }
            for (_, place) in placed {
                if let Some(place) = place {
                    self.give_back(&place.pointer);
                }
            }
            return place.map(|_| Put::Unplaced);
        }
        for (block, place) in placed {
            match place {
                None => self.clear_blocks(dataset, block, 1),
                Some(place) => self.enter_block(dataset, block, place, is_kept),
            }
        }
        Ok(Put::Done)
    }

    /// Finds a place for a block that is written; `None` if there is none.
    fn place_block(
        &mut self,
        dataset: DatasetId,
        data: Pages,
        made: Option<&PreparedBlock>,
    ) -> Result<Option<Placed>, PoolError> {
        let Some(contents) = self.contents_of(dataset) else {
            return Err(PoolError::new(
                PoolErrorKind::NotFound,
                "the dataset was destroyed",
            ));
        };
        let settings = contents.settings;
        let choice = settings.compression;
        let method = choice.method();
        let Payload { packed, checksum } = match made {
            Some(PreparedBlock::Payload(made)) => made.clone(),
            Some(PreparedBlock::Zeros) | None => {
                let algorithm = written_with(settings.checksum.algorithm());
                compress::pack(method, choice.level().into(), algorithm, &data)
            }
        };
        let plain_checksum = packed.is_none().then_some(checksum);
        // Reserved volumes keep runs for blocks of full length. A shorter block must not cut a run
        // up. If the unreserved space is too small for the short block, or only whole runs are
        // left, the block is not compressed.
        let packed = packed.filter(|payload| {
            let vdev = self.commit.chain.next.vdev();
            let sectors = payload.len().div_ceil(SECTOR_SIZE) as u16;
            let footprint = self.footprint(vdev, sectors) * u32::from(settings.copies);
            self.may_pack(&settings, footprint)
        });
        if let Some(payload) = packed {
            let payload = (method, payload);
            let checksum = Some(checksum);
            let placed = self.place_payload(&settings, payload, checksum, Claim::Pieces, &data);
            if placed.is_some() || settings.refreservation == 0 {
                return Ok(placed);
            }
        }
        let claim = match settings.refreservation {
            0 => Claim::Pieces,
            _ => Claim::Kept,
        };
        let payload = (Compression::Off, data.clone());
        Ok(self.place_payload(&settings, payload, plain_checksum, claim, &data))
    }

    /// Finds a place for the bytes that are written of a block; `None` if there is none.
    fn place_payload(
        &mut self,
        settings: &Settings,
        (compression, payload): (Compression, Pages),
        checksum: Option<u128>,
        claim: Claim,
        data: &Pages,
    ) -> Option<Placed> {
        if !self.commit.group.has_room(payload.len()) {
            self.seal();
        }
        let sectors = payload.len().div_ceil(SECTOR_SIZE) as u16;
        let algorithm = settings.checksum.algorithm();
        let of_payload = || checksum::of(written_with(algorithm), &payload);
        debug_assert!(checksum.is_none_or(|made| made == of_payload()));
        let checksum = checksum.unwrap_or_else(of_payload);
        let vdev = self.commit.chain.next.vdev();
        let extent = self.place_data(claim, vdev, sectors)?;
        self.note_data(extent.sectors);
        let second = match settings.copies {
            2 if self.second_copies.are_allowed() => {
                match self.place_second(extent, sectors, claim) {
                    Some(second) => {
                        self.note_data(second.sectors);
                        Some(second)
                    }
                    None => {
                        self.give_back_extent(extent);
                        return None;
                    }
                }
            }
            _ => None,
        };
        let once = Pointer {
            address: extent.address(),
            second: Second::NONE,
            birth: self.epoch(),
            sectors,
            compression,
            algorithm,
            checksum,
        };
        Some(Placed {
            pointer: second.map_or(once, |second| once.doubled(second.address())),
            payload,
            data: data.clone(),
        })
    }

    /// Enters a block into the open group: it has its new bytes from here on. The cache keeps them
    /// with `is_kept`.
    fn enter_block(&mut self, dataset: DatasetId, block: u64, placed: Placed, is_kept: bool) {
        self.open_group();
        self.published.note_change(dataset, block..block + 1);
        let mut evicted = EvictedBlocks::new();
        if is_kept {
            let key = cache_key(dataset, block);
            let data = placed.data.clone();
            self.cache.insert(key, data, |of| evicted.push(of));
        } else {
            // The block may be in the cache from an earlier time.
            self.cache.invalidate(cache_key(dataset, block));
        }
        if let Some(void) = self.commit.group.write(dataset, block, placed) {
            self.give_back(&void);
        }
        self.keep_evicted(evicted);
    }

    /// Turns blocks into zeros from now on.
    fn clear_blocks(&mut self, dataset: DatasetId, block: u64, count: u64) {
        if !self.commit.group.has_room(0) {
            self.seal();
        }
        self.open_group();
        let all = block..block.saturating_add(count);
        self.published.note_change(dataset, all.clone());
        for void in self.commit.group.clear(dataset, block, count) {
            self.give_back(&void);
        }
        self.cache.invalidate_range(dataset.0.into(), all);
    }

    /// Forgets the blocks of a dataset that are in memory.
    pub(in crate::engine) fn forget_cached(&mut self, dataset: DatasetId) {
        self.cache.invalidate_volume(dataset.0.into());
    }

    /// Forgets those of these blocks that are in memory.
    pub(in crate::engine) fn forget_cached_range(
        &mut self,
        dataset: DatasetId,
        blocks: Range<u64>,
    ) {
        self.cache.invalidate_range(dataset.0.into(), blocks);
    }

    /// Reports whether changes wait for others that touch the same blocks.
    pub(in crate::engine) fn has_locks(&self) -> bool {
        self.stalled.has_locks()
    }

    fn open_group(&mut self) {
        if self.commit.group.is_empty() {
            let now_us = self.now_us();
            self.commit.group.since_us = now_us;
            self.note_unrest();
        }
    }

    /// Resumes the changes that waited for blocks which a change wrote, or failed to write.
    pub(in crate::engine) fn let_go_on(&mut self, ready: &Ready) {
        self.stalled.forget_packed(ready);
        if !self.stalled.has_locks() {
            return;
        }
        let write = &ready.write;
        let waiting = match self.contents_of(write.dataset) {
            Some(contents) => {
                let touched = write.touched(contents.block_size.into());
                self.stalled.unlock(write.dataset, touched.start)
            }
            // The volume was destroyed meanwhile, and the waiting changes will be told so.
            None => self.stalled.unlock_all(write.dataset),
        };
        for (id, next) in waiting {
            self.begin_write(id, next);
        }
    }
}
