//! Volume or snapshot of a pool as a block device.
//!
//! A read whose blocks are all in memory is answered on the calling thread, without the engine.
//! Once a write was accepted or its blocks were cleared, the cache holds the new bytes or none
//! ([`store::cache`]). Other reads are made beside the engine where that is possible
//! ([`crate::direct`]). Everything else goes to the pool's thread. Writes are packed and get their
//! checksums on the calling thread: there are several calling threads, and one pool's thread.

mod facts;

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pages::Pages;
use smallvec::SmallVec;
use store::cache::{self, Key, UNCOUNTED_SHARE};
use store::catalog::SyncPolicy;
use store::engine::{self, Recipe};
use store::format::DatasetId;
use store::log::group::{MAX_PAYLOAD, OpenGroup};
use store::volume::blocks::{self, Part};

use self::facts::AskedFacts;
use crate::direct;
use crate::direct::read::{Caller, Fetch, Use, Wanted};
use crate::order::Awaiting;
use crate::pool_thread::PoolThread;
use crate::read_ahead::{Ahead, Passed, Read, Readers};
use block::{
    Asked, BlockDevice, BlockError, BlockErrorKind, Condition, Done, Durability, Foreseen,
    Geometry, Lane, Request, Submitted, Suspension, Ticket, Usage,
};

/// Best size of a request, in bytes: a log group. Linux sends no longer requests than this size, so
/// one block would be too little.
const OPTIMAL: u32 = MAX_PAYLOAD as u32;

/// Length, in bytes, above which the engine prepares a write. The calling thread is an event loop
/// and has other requests to serve.
const LONGEST_PREPARED: usize = 4 << 20;

/// Length, in bytes, from which writers in order are looked for.
const LONG_WRITE: usize = 64 << 10;

/// Number that is no [`Recipe`]: the engine prepares all writes.
const NO_RECIPE: u64 = u64::MAX;

/// Most bytes that are read ahead for one reader.
const MAX_READ_AHEAD: u64 = 8 << 20;
/// Blocks of a range ahead that are looked up in memory before the pool is asked to bring the
/// range.
const SAMPLES: usize = 8;
/// Divisor of the cache that limits the range ahead. The range is so small that its first use does
/// not count as a use for the cache.
const READ_AHEAD_SHARE: u64 = 64;
const _: () = assert!(READ_AHEAD_SHARE > UNCOUNTED_SHARE as u64);

/// Volume, or snapshot, which is read-only.
#[derive(Debug)]
pub struct PoolVolume {
    host: Arc<PoolThread>,
    dataset: DatasetId,
    /// Full name, including the pool's name, as of the last query of the pool.
    name: Mutex<String>,
    len: AtomicU64,
    /// `volblocksize` of the volume.
    block_size: u32,
    /// Size of the unit's logical blocks.
    granularity: u32,
    is_snapshot: bool,
    /// [`Durability`] as of the last query of the pool.
    durability: AtomicU8,
    /// Property `readonly` as of the last query.
    is_readonly: AtomicBool,
    /// Way to prepare the volume's blocks for writing, as of the last query: the bits of a
    /// [`Recipe`], or [`NO_RECIPE`].
    recipe: AtomicU64,
    asked: AskedFacts,
    readers: Readers,
    /// Writers in order, noted as readers are.
    writers: Readers,
}

impl PoolVolume {
    /// Opens the volume or snapshot `name` (without the pool's name), for logical blocks of
    /// `granularity` bytes.
    ///
    /// # Errors
    /// No volume has this name, or the pool does not answer.
    pub fn open(
        host: Arc<PoolThread>,
        name: &str,
        granularity: u32,
    ) -> Result<Self, engine::PoolError> {
        let wanted = name.to_owned();
        let found = host.ask(move |pool| {
            let catalog = pool.catalog();
            let dataset = catalog.find(&wanted)?;
            let full_name = catalog.full_name(dataset.id);
            let geometry = dataset.geometry().ok_or_else(|| {
                let context = format!("{full_name} is a folder");
                engine::PoolError::new(engine::PoolErrorKind::Invalid, context)
            })?;
            let is_snapshot = dataset.as_snapshot().is_some();
            if catalog.receiving(dataset.id).is_some() {
                let context = format!("a stream is being received into {full_name}");
                let kind = engine::PoolErrorKind::Receiving;
                return Err(engine::PoolError::new(kind, context));
            }
            let settings = catalog.settings(dataset.id);
            let recipe = Recipe::of(&settings, geometry.1);
            let told = (settings.sync, settings.is_readonly, recipe);
            Ok::<_, engine::PoolError>((dataset.id, geometry, is_snapshot, told, full_name))
        });
        let (dataset, (size, block_size), is_snapshot, (sync, is_readonly, recipe), name) = found??;
        Ok(Self {
            host,
            dataset,
            name: Mutex::new(name),
            len: AtomicU64::new(size),
            block_size,
            granularity,
            is_snapshot,
            durability: AtomicU8::new(durability(sync) as u8),
            is_readonly: AtomicBool::new(is_readonly),
            recipe: AtomicU64::new(recipe.map_or(NO_RECIPE, Recipe::to_bits)),
            asked: AskedFacts::default(),
            readers: Readers::default(),
            writers: Readers::default(),
        })
    }

    /// Returns the volume's number in the pool.
    pub(super) fn dataset(&self) -> DatasetId {
        self.dataset
    }

    /// Reports whether this is a snapshot.
    pub fn is_snapshot(&self) -> bool {
        self.is_snapshot
    }

    /// Returns the bytes, if all of them are in memory. Otherwise returns the ticket of the cache
    /// for the first block, unless that one is there.
    fn cached(&self, offset: u64, len: u32) -> Result<Pages, Option<cache::Ticket>> {
        let cache = self.host.cache();
        let block_size = self.block_size as usize;
        let volume = self.dataset.0.into();
        let mut parts = blocks::parts(offset, len as usize, block_size);
        let first = parts.next().ok_or(None)?;
        let piece = |part: Part| {
            let key = Key {
                volume,
                block: part.block,
            };
            cache.range_or_ticket(key, part.within)
        };
        let first = piece(first).map_err(Some)?;
        if parts.len() == 0 {
            return Ok(first);
        }
        let mut pieces: SmallVec<[Pages; 8]> = SmallVec::new();
        pieces.push(first);
        for part in parts {
            pieces.push(piece(part).map_err(|_| None)?);
        }
        Ok(blocks::joined(&pieces))
    }

    /// Answers a read from memory, reads beside the engine, or hands the read to the engine.
    fn read(&self, offset: u64, len: u32, ticket: Ticket, lane: &mut Lane) -> Submitted {
        // If this host may no longer own the pool, another host may have written newer bytes than
        // those in memory.
        let cached = match self.host.is_owned() {
            true => self.cached(offset, len),
            false => Err(None),
        };
        let read = Read {
            offset,
            len: len.into(),
            is_miss: cached.is_err(),
        };
        let share = self.host.cache().cap() as u64 / READ_AHEAD_SHARE;
        let noted = self.readers.note(read, share.min(MAX_READ_AHEAD));
        let passed = Passed::by(read, noted.run, self.dataset, self.block_size);
        let use_of = match self.exceeds_cache(noted.run) && len as usize <= direct::LONGEST_AHEAD {
            true => Use::Passed,
            false => Use::Kept,
        };
        let submitted = match cached {
            Ok(data) => {
                if let Some(passed) = passed {
                    passed.leave(self.host.cache());
                }
                Submitted::Ready(Ok(Done::Pages(data)))
            }
            Err(first) => {
                let awaited = self.readers.wait(read.len, &noted, passed);
                let caller = Caller { ticket, awaited };
                let fetch = Fetch {
                    wanted: self.wanted(offset, len),
                    use_of,
                    first,
                };
                direct::read::begin(&self.host, fetch, caller, lane)
            }
        };
        if let Some(ahead) = noted.ahead {
            self.read_ahead(&ahead, use_of, len, lane);
        }
        submitted
    }

    fn wanted(&self, offset: u64, len: u32) -> Wanted {
        Wanted {
            dataset: self.dataset,
            block_size: self.block_size,
            offset,
            len,
        }
    }

    /// Brings the range that a reader will probably ask for next into memory.
    fn read_ahead(&self, ahead: &Ahead, use_of: Use, step: u32, lane: &mut Lane) {
        let range = ahead.range.start..ahead.range.end.min(self.len.load(Ordering::Relaxed));
        let is_to_be_read = ahead.has_missed || !self.seems_cached(&range);
        if !range.is_empty() && is_to_be_read {
            let (offset, len) = (range.start, 0);
            let fetch = Fetch {
                wanted: self.wanted(offset, len),
                use_of,
                first: None,
            };
            direct::read::ahead(&self.host, fetch, range, step, lane);
        }
    }

    /// Reports whether sampled blocks of a range are in memory. Then the others probably are too.
    /// If not, the next read of them shows it.
    fn seems_cached(&self, range: &Range<u64>) -> bool {
        let len = range.end.saturating_sub(range.start) as usize;
        let blocks = blocks::touched(range.start, len, self.block_size as usize);
        let step = ((blocks.end - blocks.start) as usize).div_ceil(SAMPLES);
        let volume = self.dataset.0.into();
        let mut samples = blocks.rev().step_by(step.max(1));
        samples.all(|block| self.host.cache().holds(Key { volume, block }))
    }

    fn submit_one(&self, request: Request, ticket: Ticket, lane: &mut Lane) -> Submitted {
        let dataset = self.dataset;
        let request = match request {
            Request::Read { offset, len } => return self.read(offset, len, ticket, lane),
            Request::Flush => engine::Request::Flush { dataset },
            Request::Extents { offset, len } => engine::Request::Extents {
                dataset,
                offset,
                len,
            },
            _ if self.is_snapshot => return self.refuse_change(),
            Request::Write {
                offset,
                data,
                durable,
            } => self.writing(offset, data, durable),
            Request::Discard { offset, len } => engine::Request::Unmap {
                dataset,
                offset,
                len,
                durable: false,
            },
            // Zeros take no space either way.
            Request::WriteZeroes {
                offset,
                len,
                durable,
                ..
            } => engine::Request::Clear {
                dataset,
                offset,
                len,
                durable,
            },
        };
        self.host.submit(request, None, ticket, lane)
    }

    /// Builds a write request, and prepares the write if that pays.
    fn writing(&self, offset: u64, data: Pages, durable: bool) -> engine::Request {
        let dataset = self.dataset;
        let is_short = data.len() <= LONGEST_PREPARED;
        let recipe = is_short.then(|| self.recipe()).flatten();
        match recipe.and_then(|recipe| recipe.prepare(offset, &data)) {
            Some(prepared) => engine::Request::WritePrepared {
                dataset,
                offset,
                prepared: match self.is_passed(offset, data.len()) {
                    true => prepared.passed(),
                    false => prepared,
                },
                durable,
            },
            None => engine::Request::Write {
                dataset,
                offset,
                data,
                durable,
            },
        }
    }

    /// Reports whether a write belongs to a writer in order that has written more than the cache
    /// holds.
    fn is_passed(&self, offset: u64, len: usize) -> bool {
        if len < LONG_WRITE {
            return false;
        }
        let write = Read {
            offset,
            len: len as u64,
            is_miss: false,
        };
        self.exceeds_cache(self.writers.note(write, 0).run)
    }

    /// Reports whether a run of bytes that were read or written in order is longer than the cache
    /// is large. The cache would forget them before anyone comes back.
    fn exceeds_cache(&self, run: u64) -> bool {
        run > self.host.cache().cap() as u64
    }

    fn recipe(&self) -> Option<Recipe> {
        Recipe::from_bits(self.recipe.load(Ordering::Relaxed))
    }

    fn refuse_change(&self) -> Submitted {
        let context = format!("{} is a snapshot", self.name());
        Submitted::Ready(Err(BlockError::new(BlockErrorKind::ReadOnly, context)))
    }

    fn gone(&self, error: &engine::PoolError) -> BlockError {
        BlockError::new(BlockErrorKind::Gone, format!("{}: {error}", self.name()))
    }

    fn name(&self) -> MutexGuard<'_, String> {
        // Every change is one assignment: a panic leaves nothing half done.
        self.name.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn suspension_for(&self, reason: &str) -> Suspension {
        let pool = self.host.name();
        Suspension {
            reason: format!("pool {pool} takes no changes any more: {reason}"),
            remedy: format!("check its devices, then: sandstone pool clear {pool}"),
            stops_reads: false,
        }
    }

    /// Returns the suspension of a pool that has no engine.
    fn shut(&self) -> Option<Suspension> {
        let shut = self.host.shut()?;
        Some(Suspension {
            reason: shut.reason,
            remedy: shut.next,
            stops_reads: true,
        })
    }

    fn ask_whether_lost(&self) -> Awaiting<bool> {
        let volume = self.dataset;
        self.host
            .begin_handle(move |hands| hands.unflushed.has_lost(volume))
    }
}

fn lost_when_stopped() -> String {
    "its pool stopped before it flushed all writes to the volume".to_owned()
}

/// Converts the property `sync` to a durability.
fn durability(sync: SyncPolicy) -> Durability {
    match sync {
        SyncPolicy::Standard => Durability::AsAsked,
        SyncPolicy::Always => Durability::Always,
        SyncPolicy::Disabled => Durability::Never,
    }
}

/// Returns the size, in bytes, of the largest write that survives a power cut whole or not at all,
/// wherever it begins.
fn atomic_write(block_size: u32, granularity: u32) -> u32 {
    let size = block_size as usize;
    let mut blocks = 0;
    while OpenGroup::holds(blocks + 1, size) {
        blocks += 1;
    }
    // A write that does not begin at a block touches one block more.
    let whole = if block_size > granularity {
        blocks.saturating_sub(1)
    } else {
        blocks
    };
    u32::try_from(whole * size).unwrap_or(u32::MAX)
}

impl BlockDevice for PoolVolume {
    fn geometry(&self) -> Geometry {
        let block = self.block_size.max(self.granularity);
        Geometry {
            len: self.len.load(Ordering::Relaxed),
            granularity: self.granularity,
            physical: block,
            alignment: 0,
            minimum: block,
            optimal: OPTIMAL,
            discard: block,
            discard_alignment: 0,
            atomic_write: atomic_write(self.block_size, self.granularity),
            thin: true,
            volatile_cache: true,
            // Writes go to free space, whatever their order.
            rotation_rate: 1,
        }
    }

    fn has_read_cache(&self) -> bool {
        true
    }

    fn foresees(&self) -> bool {
        true
    }

    fn foresee(&self, accesses: &[Foreseen]) {
        let block_size = u64::from(self.block_size);
        let volume = self.dataset.0.into();
        let reads = accesses.iter().filter(|access| access.is_read);
        self.host.cache().foresee(reads.map(|read| {
            let block = read.offset / block_size;
            (Key { volume, block }, (read.offset % block_size) as usize)
        }));
    }

    fn submit(&self, request: Request, ticket: Ticket, lane: &mut Lane) -> Submitted {
        if let Err(error) = self.geometry().check(&request) {
            return Submitted::Ready(Err(error));
        }
        self.submit_one(request, ticket, lane)
    }

    fn durability(&self) -> Option<Durability> {
        let told = self.durability.load(Ordering::Relaxed);
        let all = [Durability::AsAsked, Durability::Always, Durability::Never];
        all.into_iter().find(|kind| *kind as u8 == told)
    }

    fn is_read_only(&self) -> bool {
        self.is_snapshot || self.host.is_read_only() || self.is_readonly.load(Ordering::Relaxed)
    }

    fn read_only_remedy(&self) -> Option<String> {
        let (pool, volume) = (self.host.name(), self.name());
        match (self.is_snapshot, self.host.is_read_only()) {
            (true, _) => None,
            (false, true) => Some(format!(
                "sandstone pool export {pool} && sandstone pool import {pool}"
            )),
            (false, false) => Some(format!("sandstone volume set readonly=off {volume}")),
        }
    }

    fn suspension(&self) -> Option<Suspension> {
        if let Some(shut) = self.shut() {
            return Some(shut);
        }
        // A pool that no longer answers has ended, and that is reported elsewhere.
        let reason = self
            .host
            .ask(|pool| pool.suspended_because().map(str::to_owned));
        Some(self.suspension_for(&reason.ok()??))
    }

    fn lost_writes(&self) -> Option<String> {
        let is_lost = self.ask_whether_lost().wait().unwrap_or(false);
        is_lost.then(lost_when_stopped)
    }

    fn acknowledge_lost_writes(&self) -> bool {
        let volume = self.dataset;
        let done = self
            .host
            .handle(move |hands| hands.unflushed.forget_volume(volume));
        done.is_ok()
    }

    fn space_remedy(&self) -> Option<String> {
        let pool = self.host.name();
        Some(format!(
            "sandstone pool add {pool} VDEV (sandstone pool disks lists free ones), or destroy datasets that \
             are not needed (sandstone volume list -t all -r -S used {pool})"
        ))
    }

    fn reopenings(&self) -> u64 {
        self.host.reopenings()
    }

    fn is_over(&self) -> bool {
        self.host.is_over()
    }

    fn usage(&self) -> Result<Usage, BlockError> {
        Ok(self.note(self.ask_facts())?.usage())
    }

    fn ask_condition(&self) -> Asked<'_> {
        let shut = self.shut();
        let (facts, is_lost) = (self.ask_facts(), self.ask_whether_lost());
        Box::new(move || {
            let facts = self.note(facts);
            // A pool that no longer answers has ended, and that is reported elsewhere.
            let suspended = facts.as_ref().ok();
            let suspended = suspended.and_then(|facts| facts.suspended.as_deref());
            Condition {
                suspension: shut.or_else(|| Some(self.suspension_for(suspended?))),
                lost_writes: is_lost.wait().unwrap_or(false).then(lost_when_stopped),
                usage: facts.map(|facts| facts.usage()),
            }
        })
    }

    fn refresh(&self) -> Result<Geometry, BlockError> {
        self.note_with_size(self.ask_facts())?;
        Ok(self.geometry())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_promised_to_be_atomic_fits_into_one_group() {
        for block_size in [4096_u32, 16 << 10, 64 << 10, 128 << 10] {
            for granularity in [512, 4096] {
                let bytes = atomic_write(block_size, granularity);
                assert!(bytes >= block_size, "{block_size}");
                // In the worst case the write begins one logical block before the end of a block.
                let start = u64::from(block_size - granularity);
                let touched = blocks::parts(start, bytes as usize, block_size as usize).len();
                assert!(
                    OpenGroup::holds(touched, block_size as usize),
                    "{block_size}"
                );
            }
        }
    }
}
