//! One read beside the engine.
//!
//! 1. The tickets of the cache come first, then the places of the blocks, then the device. So bytes
//!    that are changed meanwhile never come into the cache ([`store::published`]).
//! 2. Each block is verified. If one is wrong, its place was freed and written anew, or a copy is
//!    bad: the engine reads again, tells the two apart, and mends the copy.
//! 3. If this host may no longer own the pool, the bytes may be old, and the engine says so.
//!
//! A read ahead of a reader has no caller at first. Reads of the same bytes on its lane join it, as
//! long as their blocks still lie where it looks. Other lanes do not depend on this one.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Instant;

use block::lane::{Continuation, Outcome};
use block::{BlockError, BlockErrorKind, Done, Lane, Request, Submitted, Ticket};
use pages::{PAGE_SIZE, Pages};
use smallvec::SmallVec;
use store::cache::{self, Key};
use store::format::{DatasetId, Pointer};
use store::vdev::DirectReads;
use store::volume::blocks;
use store::{checksum, compress, pool};

use super::{LONGEST, Run};
use crate::pool_thread::PoolThread;
use crate::read_ahead::Awaited;

/// Bytes that a lane wants of a volume.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) dataset: DatasetId,
    pub(crate) block_size: u32,
    pub(crate) offset: u64,
    pub(crate) len: u32,
}

/// Caller that waits for a read.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) ticket: Ticket,
    pub(crate) awaited: Awaited,
}

/// Read that a device works on.
#[derive(Debug)]
pub(super) struct DirectRead {
    /// Pool, which a device that never answers must not keep.
    host: Weak<PoolThread>,
    pub(super) wanted: Wanted,
    pointers: SmallVec<[Pointer; 1]>,
    /// Tickets of the cache for the blocks; `None` for a block that was there.
    tickets: SmallVec<[Option<cache::Ticket>; 1]>,
    counts: Arc<DirectReads>,
    pub(super) began: Instant,
    /// Place among the reads of its lane that are under way.
    pub(super) slot: AtomicUsize,
    /// Callers, or `None` once the read is over for them.
    callers: Mutex<Option<SmallVec<[Joined; 1]>>>,
}

/// Caller of a read, with its part of the bytes.
#[derive(Debug)]
struct Joined {
    wanted: Wanted,
    caller: Caller,
}

/// Begins a read beside the engine, joins one that is under way, or hands it to the engine.
pub(crate) fn begin(
    host: &Arc<PoolThread>,
    wanted: Wanted,
    caller: Caller,
    lane: &mut Lane,
) -> Submitted {
    let caller = match join(host, wanted, caller, lane) {
        Ok(()) => return Submitted::Pending,
        Err(caller) => caller,
    };
    let Some((read, run)) = prepared(host, wanted) else {
        return ask_engine(host, wanted, caller, lane);
    };
    match read.start(&run, lane) {
        Submitted::Pending => {
            read.add(wanted, caller, lane);
            host.direct().under_way.add(&read, host, lane);
            Submitted::Pending
        }
        Submitted::Ready(outcome) => match read.ended(outcome, host) {
            Some(blocks) => {
                caller.awaited.answered(host.cache());
                Submitted::Ready(Ok(Done::Pages(read.part(&blocks, wanted))))
            }
            None => ask_engine(host, wanted, caller, lane),
        },
    }
}

/// Brings bytes of a volume into the cache. The reader that will ask for them reads `step` bytes at
/// once.
pub(crate) fn ahead(
    host: &Arc<PoolThread>,
    of: Wanted,
    bytes: Range<u64>,
    step: u32,
    lane: &mut Lane,
) {
    // A request of the reader then needs no more than one of these.
    let steps = (LONGEST / step.max(1) as usize).max(1);
    let chunk = (steps * step as usize)
        .min(LONGEST)
        .max(of.block_size as usize);
    let mut next = bytes.start;
    while next < bytes.end {
        let end = bytes.end.min(next + chunk as u64);
        let wanted = Wanted {
            offset: next,
            len: (end - next) as u32,
            ..of
        };
        match prepared(host, wanted) {
            Some((read, _)) if read.brings_nothing() => {}
            Some((read, run)) => {
                if let Submitted::Ready(outcome) = read.start(&run, lane) {
                    drop(read.ended(outcome, host));
                } else {
                    host.direct().under_way.add_ahead(&read, host, lane);
                }
            }
            None => host.read_ahead(of.dataset, next..end),
        }
        next = end;
    }
}

/// Finds out how bytes are read beside the engine; `None` if they are not.
fn prepared(host: &Arc<PoolThread>, wanted: Wanted) -> Option<(Arc<DirectRead>, Run)> {
    let (volume, cache) = (wanted.dataset.0.into(), host.cache());
    let blocks = wanted.blocks();
    let tickets = blocks.clone();
    let tickets = tickets.map(|block| cache.ticket_of_absent(Key { volume, block }));
    let tickets = tickets.collect();
    let run = host.direct().run(wanted.dataset, blocks)?;
    let read = host.is_owned().then(|| DirectRead {
        host: Arc::downgrade(host),
        wanted,
        pointers: run.pointers.clone(),
        tickets,
        counts: Arc::clone(&run.counts),
        began: Instant::now(),
        slot: AtomicUsize::new(usize::MAX),
        callers: Mutex::new(Some(SmallVec::new())),
    })?;
    Some((Arc::new(read), run))
}

/// Lets a caller wait for a read ahead that brings its bytes. Returns the caller if there is none.
///
/// A block may have changed since that read began. So its blocks must still lie where it looks.
fn join(host: &PoolThread, wanted: Wanted, caller: Caller, lane: &mut Lane) -> Result<(), Caller> {
    let direct = host.direct();
    let read = direct.under_way.ahead_of(wanted, lane);
    let read = read.filter(|read| {
        let at = &read.pointers[read.skipped(wanted)..];
        let blocks = wanted.blocks();
        let count = (blocks.end - blocks.start) as usize;
        direct.lie_there(wanted.dataset, blocks, &at[..count])
    });
    match read {
        Some(read) => read.try_add(wanted, caller, lane),
        None => Err(caller),
    }
}

fn ask_engine(host: &PoolThread, wanted: Wanted, caller: Caller, lane: &mut Lane) -> Submitted {
    let (awaited, ticket) = (Some(caller.awaited), caller.ticket);
    host.submit(wanted.request(), awaited, ticket, lane)
}

impl Wanted {
    fn blocks(self) -> Range<u64> {
        blocks::touched(self.offset, self.len as usize, self.block_size as usize)
    }

    /// Reports whether these bytes have all blocks of others.
    pub(super) fn covers(self, other: Self) -> bool {
        let (own, others) = (self.blocks(), other.blocks());
        self.dataset == other.dataset && own.start <= others.start && others.end <= own.end
    }

    fn request(self) -> pool::Request {
        pool::Request::Read {
            dataset: self.dataset,
            offset: self.offset,
            len: self.len,
        }
    }
}

impl DirectRead {
    fn start(self: &Arc<Self>, run: &Run, lane: &mut Lane) -> Submitted {
        self.counts.begin();
        let request = Request::Read {
            offset: run.offset,
            len: run.len,
        };
        let ticket = Ticket::serving(Arc::clone(self) as Arc<dyn Continuation>);
        let submitted = run.device.submit(request, ticket, lane);
        if matches!(submitted, Submitted::Pending) {
            lane.count_serving();
        }
        submitted
    }

    /// Reports whether the cache had all of the blocks already.
    fn brings_nothing(&self) -> bool {
        self.tickets.iter().all(Option::is_none)
    }

    /// Lets a caller wait for the read, which is under way.
    fn add(&self, wanted: Wanted, caller: Caller, lane: &mut Lane) {
        // The read is under way on this lane, so its answer cannot have been taken.
        let added = self.try_add(wanted, caller, lane);
        debug_assert!(added.is_ok(), "the read is over already");
    }

    /// Lets a caller wait for the read. Returns the caller if the read is over.
    fn try_add(&self, wanted: Wanted, caller: Caller, lane: &mut Lane) -> Result<(), Caller> {
        let mut callers = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(callers) = &mut *callers else {
            return Err(caller);
        };
        lane.count_pending();
        callers.push(Joined { wanted, caller });
        Ok(())
    }

    fn take_callers(&self) -> SmallVec<[Joined; 1]> {
        let mut callers = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
        callers.take().unwrap_or_default()
    }

    /// Takes what the device answered. Returns the blocks; `None` if the engine must read them.
    fn ended(&self, outcome: Outcome, host: &PoolThread) -> Option<SmallVec<[Pages; 1]>> {
        let blocks = self.blocks(outcome);
        let (count, bytes) = match &blocks {
            Some(_) => {
                let sectors: u64 = self.pointers.iter().map(|of| u64::from(of.sectors)).sum();
                (self.pointers.len() as u64, sectors * PAGE_SIZE as u64)
            }
            None => (0, 0),
        };
        let disk_us = self.began.elapsed().as_micros() as u64;
        self.counts.end(count, bytes, disk_us);
        let blocks = blocks.filter(|_| host.is_owned())?;
        let numbers = self.wanted.blocks();
        for ((block, data), ticket) in numbers.zip(&blocks).zip(&self.tickets) {
            if let Some(ticket) = ticket {
                let volume = self.wanted.dataset.0.into();
                let key = Key { volume, block };
                // No cache vdev takes blocks that make room: with one, the engine reads.
                host.cache().fill(key, *ticket, data.clone(), drop);
            }
        }
        Some(blocks)
    }

    /// Returns the blocks, if all of them are right.
    fn blocks(&self, outcome: Outcome) -> Option<SmallVec<[Pages; 1]>> {
        let Ok(Done::Pages(bytes)) = outcome else {
            return None;
        };
        let mut at = 0;
        let blocks = self.pointers.iter().map(|pointer| {
            let end = at + usize::from(pointer.sectors) * PAGE_SIZE;
            let payload = (end <= bytes.len()).then(|| bytes.slice(at..end))?;
            at = end;
            let is_right = checksum::of(pointer.algorithm, &payload) == pointer.checksum;
            let len = self.wanted.block_size as usize;
            is_right.then(|| compress::unpack(pointer.compression, &payload, len))?
        });
        blocks.collect()
    }

    /// Returns the number of blocks before those that a caller wants.
    fn skipped(&self, wanted: Wanted) -> usize {
        (wanted.blocks().start - self.wanted.blocks().start) as usize
    }

    /// Returns a caller's part of the blocks.
    fn part(&self, blocks: &[Pages], wanted: Wanted) -> Pages {
        let block_size = wanted.block_size as usize;
        let parts = blocks::parts(wanted.offset, wanted.len as usize, block_size);
        let pieces = parts.zip(&blocks[self.skipped(wanted)..]);
        let pieces: SmallVec<[Pages; 1]> =
            pieces.map(|(part, data)| data.slice(part.within)).collect();
        blocks::joined(&pieces)
    }

    /// Hands the callers to the engine.
    pub(super) fn give_up(&self, host: &PoolThread, lane: &mut Lane) {
        for joined in self.take_callers() {
            joined.hand_over(host, lane);
        }
    }
}

impl Joined {
    fn hand_over(self, host: &PoolThread, lane: &mut Lane) {
        let (awaited, ticket) = (Some(self.caller.awaited), self.caller.ticket);
        host.submit_pending(self.wanted.request(), awaited, ticket, lane);
    }
}

impl Continuation for DirectRead {
    fn go_on(self: Arc<Self>, outcome: Outcome, lane: &mut Lane) {
        let Some(host) = self.host.upgrade() else {
            for joined in self.take_callers() {
                let error = BlockError::new(BlockErrorKind::Gone, "the pool is not open any more");
                lane.complete(joined.caller.ticket, Err(error));
            }
            return;
        };
        let slot = self.slot.load(Ordering::Relaxed);
        host.direct().under_way.remove(&self, slot, lane);
        let blocks = self.ended(outcome, &host);
        // None are left if it took too long: the engine has them.
        for joined in self.take_callers() {
            let Some(blocks) = &blocks else {
                joined.hand_over(&host, lane);
                continue;
            };
            let outcome = Ok(Done::Pages(self.part(blocks, joined.wanted)));
            joined.caller.awaited.answered(host.cache());
            lane.complete(joined.caller.ticket, outcome);
        }
    }
}
