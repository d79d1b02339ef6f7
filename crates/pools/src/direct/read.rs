//! One read beside the engine.
//!
//! Its steps are those of [`store::beside`]. If this host may no longer own the pool, the bytes may
//! be old, and the engine says so.
//!
//! A read ahead of a reader has no caller at first. Reads of its bytes join it, while it is under
//! way or when its bytes wait, as long as their blocks still lie where it looks.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use block::lane::{Continuation, Outcome};
use block::{BlockError, BlockErrorKind, Done, Lane, Request, Submitted, Ticket};
use pages::{PAGE_SIZE, Pages};
use smallvec::SmallVec;
use store::beside::{Located, Tickets, Verified};
use store::cache::{self, Cache};
use store::engine;
use store::format::{DatasetId, FAN_OUT};
use store::published::LEAVES_TOGETHER;
#[cfg(test)]
use store::published::Published;
use store::vdev::{Blocks, DirectReads};
use store::volume::blocks;

use super::plan::{DeviceReads, Plan};
use super::{LONGEST_AHEAD, single};
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

/// Bytes that are to be read, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fetch {
    pub(crate) wanted: Wanted,
    pub(crate) use_of: Use,
    /// Ticket of the cache for the first block, if the caller has it.
    pub(crate) first: Option<cache::Ticket>,
}

/// Caller that waits for a read.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) ticket: Ticket,
    pub(crate) awaited: Awaited,
}

/// Read that devices work on, or that brought bytes which wait for their reader.
#[derive(Debug)]
pub(super) struct DirectRead {
    /// Pool, which a device that never answers must not keep.
    host: Weak<PoolThread>,
    pub(super) wanted: Wanted,
    use_of: Use,
    /// Blocks, and where they were found.
    located: Located,
    /// Requests to devices.
    parts: SmallVec<[Part; 1]>,
    pub(super) began: Instant,
    /// Place among the reads of its lane that are under way.
    slot: AtomicUsize,
    /// Whether the bytes wait for the reader that will pass them.
    is_waiting: AtomicBool,
    progress: Mutex<Progress>,
}

/// Use of the blocks of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// The blocks come into the cache.
    Kept,
    /// The blocks do not come into the cache from here, since their reader passes them.
    Passed,
}

/// Request of a read to a device.
#[derive(Debug)]
struct Part {
    counts: Arc<DirectReads>,
    /// Blocks that it brings, by their indexes.
    blocks: Range<usize>,
}

/// Progress of a read.
#[derive(Debug)]
struct Progress {
    /// Requests to devices that have no answer yet.
    missing: usize,
    /// Blocks that came; `None` if some are wrong, or could not be read.
    blocks: Option<Verified>,
    /// Callers, or `None` once the read is over for them.
    callers: Option<SmallVec<[Joined; 1]>>,
    /// Bytes that no caller has had yet.
    left: usize,
}

/// Caller of a read, with its part of the bytes.
#[derive(Debug)]
struct Joined {
    wanted: Wanted,
    caller: Caller,
}

/// Attempt to join a read.
enum Join {
    /// The caller waits for the read.
    Waits,
    /// The bytes are there.
    Has(Pages),
    /// The read is over for callers.
    Refused(Caller),
}

/// Begins a read beside the engine, joins one that is under way, or hands it to the engine.
pub(crate) fn begin(
    host: &Arc<PoolThread>,
    fetch: Fetch,
    caller: Caller,
    lane: &mut Lane,
) -> Submitted {
    let wanted = fetch.wanted;
    let caller = match join(host, wanted, caller, lane) {
        Join::Waits => return Submitted::Pending,
        Join::Has(data) => return Submitted::Ready(Ok(Done::Pages(data))),
        Join::Refused(caller) => caller,
    };
    let caller = match wanted.blocks() {
        Range { start, end } if end - start == 1 => {
            match single::begin(host, fetch, caller, lane) {
                Ok(submitted) => return submitted,
                Err(caller) => caller,
            }
        }
        _ => caller,
    };
    let Some((read, requests)) = prepared(host, fetch) else {
        return ask_engine(host, wanted, caller, lane);
    };
    if read.start(requests, lane) {
        read.add(wanted, caller, lane);
        let slot = host.direct().under_way.add(&read, host, lane);
        read.slot.store(slot, Ordering::Relaxed);
        return Submitted::Pending;
    }
    match read.ended(host) {
        Some(blocks) => {
            caller.answered(fetch.use_of, host.cache());
            Submitted::Ready(Ok(Done::Pages(read.part(&blocks, wanted))))
        }
        None => ask_engine(host, wanted, caller, lane),
    }
}

/// Brings bytes of a volume into memory. The reader that will ask for them reads `step` bytes at
/// once.
pub(crate) fn ahead(
    host: &Arc<PoolThread>,
    fetch: Fetch,
    bytes: Range<u64>,
    step: u32,
    lane: &mut Lane,
) {
    // A request of the reader then needs no more than one of these.
    let steps = (LONGEST_AHEAD / step.max(1) as usize).max(1);
    let chunk = (steps * step as usize)
        .min(LONGEST_AHEAD)
        .max(fetch.wanted.block_size as usize);
    let (of, direct) = (fetch.wanted, host.direct());
    let mut next = bytes.start;
    while next < bytes.end {
        let end = bytes.end.min(next + chunk as u64);
        let wanted = Wanted {
            offset: next,
            len: (end - next) as u32,
            ..of
        };
        if fetch.use_of == Use::Passed {
            let (bytes, cap) = (wanted.len as usize, host.cache().cap());
            if !direct.ahead.has_room(bytes, cap, Instant::now()) {
                break;
            }
        }
        match prepared(host, Fetch { wanted, ..fetch }) {
            Some((read, _)) if read.brings_nothing() => {}
            Some((read, requests)) => {
                let is_under_way = read.start(requests, lane);
                if is_under_way || fetch.use_of == Use::Passed {
                    direct.ahead.add(&read, lane);
                }
                if is_under_way {
                    let slot = direct.under_way.add(&read, host, lane);
                    read.slot.store(slot, Ordering::Relaxed);
                } else {
                    read.landed(host, lane);
                }
            }
            None => host.read_ahead(of.dataset, next..end),
        }
        next = end;
    }
    publish_behind(host, of, &bytes);
}

/// Lets the engine publish the leaves behind those that a reader will come to next, so that they
/// are known in time.
fn publish_behind(host: &PoolThread, of: Wanted, bytes: &Range<u64>) {
    let group = LEAVES_TOGETHER * FAN_OUT as u64;
    let [now, then] = [bytes.start, bytes.end].map(|at| at.div_ceil(of.block_size.into()) / group);
    if now != then {
        host.publish(of.dataset, (then + 1) * group..(then + 2) * group);
    }
}

/// Finds out how bytes are read beside the engine; `None` if they are not.
fn prepared(host: &Arc<PoolThread>, fetch: Fetch) -> Option<(Arc<DirectRead>, DeviceReads)> {
    let Fetch {
        wanted,
        use_of,
        first,
    } = fetch;
    let (dataset, blocks) = (wanted.dataset, wanted.blocks());
    let tickets = match use_of {
        Use::Kept => Tickets::take(host.cache(), dataset, blocks, first),
        Use::Passed => Tickets::none(dataset, blocks),
    };
    let Plan { located, requests } = host.direct().plan(tickets)?;
    host.is_owned().then_some(())?;
    let parts = requests.iter().map(|request| Part {
        counts: Arc::clone(&request.counts),
        blocks: request.blocks.clone(),
    });
    let read = Arc::new(DirectRead {
        host: Arc::downgrade(host),
        wanted,
        use_of,
        parts: parts.collect(),
        began: Instant::now(),
        slot: AtomicUsize::new(usize::MAX),
        is_waiting: AtomicBool::new(false),
        progress: Mutex::new(Progress {
            missing: requests.len(),
            blocks: Some(located.holes(wanted.block_size as usize)),
            callers: Some(SmallVec::new()),
            left: wanted.len as usize,
        }),
        located,
    });
    Some((read, requests))
}

/// Lets a caller have its bytes from a read ahead, at once or when they come.
///
/// A block may have changed since that read began. So its blocks must still lie where it looks.
fn join(host: &PoolThread, wanted: Wanted, caller: Caller, lane: &mut Lane) -> Join {
    let direct = host.direct();
    let read = direct.ahead.find(wanted, lane);
    let read =
        read.filter(|read| host.is_owned() && direct.still_lie(&read.located, wanted.blocks()));
    let Some(read) = read else {
        return Join::Refused(caller);
    };
    let joined = read.join(wanted, caller, lane);
    if matches!(joined, Join::Has(_)) && !read.is_waiting() {
        direct.ahead.remove(&read);
    }
    joined
}

/// Lets the engine answer a read.
pub(super) fn ask_engine(
    host: &PoolThread,
    wanted: Wanted,
    caller: Caller,
    lane: &mut Lane,
) -> Submitted {
    let (awaited, ticket) = (Some(caller.awaited), caller.ticket);
    host.submit(wanted.request(), awaited, ticket, lane)
}

/// Lets the engine answer a read that a lane waits for already.
pub(super) fn hand_over(host: &PoolThread, wanted: Wanted, caller: Caller, lane: &mut Lane) {
    let (awaited, ticket) = (Some(caller.awaited), caller.ticket);
    host.submit_pending(wanted.request(), awaited, ticket, lane);
}

/// Returns the error of a read whose pool is gone.
pub(super) fn gone() -> BlockError {
    BlockError::new(BlockErrorKind::Gone, "the pool is not open any more")
}

impl Wanted {
    /// Returns the blocks that have the bytes.
    pub(super) fn blocks(self) -> Range<u64> {
        blocks::touched(self.offset, self.len as usize, self.block_size as usize)
    }

    /// Returns the place of the bytes, counted from the start of their first block.
    pub(super) fn within_first(self) -> Range<usize> {
        let start = (self.offset % u64::from(self.block_size)) as usize;
        start..start + self.len as usize
    }

    /// Reports whether these bytes have all blocks of others.
    pub(super) fn covers(self, other: Self) -> bool {
        let (own, others) = (self.blocks(), other.blocks());
        self.dataset == other.dataset && own.start <= others.start && others.end <= own.end
    }

    fn request(self) -> engine::Request {
        engine::Request::Read {
            dataset: self.dataset,
            offset: self.offset,
            len: self.len,
        }
    }
}

impl Caller {
    /// Ends the wait of a caller that has its bytes.
    pub(super) fn answered(self, use_of: Use, cache: &Cache) -> Ticket {
        // Blocks that did not come into the cache need not leave it.
        if use_of == Use::Kept {
            self.awaited.answered(cache);
        }
        self.ticket
    }
}

impl DirectRead {
    /// Sends the requests to the devices. Reports whether at least one is under way.
    fn start(self: &Arc<Self>, requests: DeviceReads, lane: &mut Lane) -> bool {
        for (number, of) in (0..).zip(requests) {
            of.counts.begin(lane.number());
            let (offset, len) = (of.offset, of.len);
            let ticket = Ticket::serving(Arc::clone(self) as Arc<dyn Continuation>, number);
            match of
                .device
                .submit(Request::Read { offset, len }, ticket, lane)
            {
                Submitted::Pending => lane.count_serving(),
                Submitted::Ready(outcome) => drop(self.arrived(number, outcome, lane)),
            }
        }
        self.progress().missing > 0
    }

    /// Takes what a device answered. Reports whether it was the last one.
    fn arrived(&self, number: u32, outcome: Outcome, lane: &Lane) -> bool {
        let part = &self.parts[number as usize];
        let block_size = self.wanted.block_size as usize;
        let (blocks, bytes) = match outcome {
            Ok(Done::Pages(bytes)) => {
                let blocks = part.blocks.clone();
                let verified = self.located.verify(blocks, &bytes, block_size);
                (verified, bytes.len() as u64)
            }
            _ => (None, 0),
        };
        let mut counted = Blocks::default();
        if blocks.is_some() {
            let pointers = self.located.pointers()[part.blocks.clone()].iter();
            pointers
                .filter(|of| !of.is_hole())
                .for_each(|of| counted.count(u64::from(of.sectors) * PAGE_SIZE as u64));
        }
        let disk_us = self.began.elapsed().as_micros() as u64;
        part.counts.end(lane.number(), counted, bytes, disk_us);
        let mut progress = self.progress();
        progress.missing -= 1;
        let all = progress.blocks.take().zip(blocks);
        progress.blocks = all.map(|(mut all, some)| {
            all.add(some);
            all
        });
        progress.missing == 0
    }

    /// Takes the blocks once all devices have answered, and puts them into the cache. Returns
    /// `None` if the engine must read them.
    fn ended(&self, host: &PoolThread) -> Option<Verified> {
        let blocks = self.progress().blocks.take();
        let blocks = blocks.filter(|_| host.is_owned())?;
        let block_size = self.wanted.block_size as usize;
        self.located.fill(host.cache(), &blocks, block_size);
        Some(blocks)
    }

    /// Reports whether the cache had all of the blocks already.
    fn brings_nothing(&self) -> bool {
        self.located.brings_nothing()
    }

    /// Reports whether the bytes wait for the reader that will pass them.
    pub(super) fn is_waiting(&self) -> bool {
        self.is_waiting.load(Ordering::Acquire)
    }

    /// Returns the bytes that are kept, or will be, for the reader that will pass them.
    pub(super) fn passed_bytes(&self) -> usize {
        match self.use_of {
            Use::Passed => self.wanted.len as usize,
            Use::Kept => 0,
        }
    }

    /// Lets a caller wait for the read, which is under way.
    fn add(&self, wanted: Wanted, caller: Caller, lane: &mut Lane) {
        // The read is under way on this lane, so its answer cannot have been taken.
        let joined = self.join(wanted, caller, lane);
        debug_assert!(matches!(joined, Join::Waits), "the read is over already");
    }

    /// Lets a caller have its bytes, at once or when they come.
    fn join(&self, wanted: Wanted, caller: Caller, lane: &mut Lane) -> Join {
        let mut progress = self.progress();
        if let Some(callers) = &mut progress.callers {
            lane.count_pending();
            callers.push(Joined { wanted, caller });
            return Join::Waits;
        }
        // Of a read that was given up, some blocks may have come.
        let Some(blocks) = progress.blocks.as_ref().filter(|_| self.is_waiting()) else {
            return Join::Refused(caller);
        };
        let data = self.part(blocks, wanted);
        progress.left = progress.left.saturating_sub(wanted.len as usize);
        if progress.left == 0 {
            progress.blocks = None;
            self.is_waiting.store(false, Ordering::Release);
        }
        Join::Has(data)
    }

    fn take_callers(&self) -> SmallVec<[Joined; 1]> {
        self.progress().callers.take().unwrap_or_default()
    }

    /// Returns a caller's part of the blocks.
    fn part(&self, blocks: &Verified, wanted: Wanted) -> Pages {
        let block_size = self.wanted.block_size;
        let first = self.wanted.blocks().start * u64::from(block_size);
        let from = (wanted.offset - first) as usize;
        blocks.part(from..from + wanted.len as usize, block_size as usize)
    }

    /// Hands the callers to the engine.
    pub(super) fn give_up(&self, host: &PoolThread, lane: &mut Lane) {
        for joined in self.take_callers() {
            joined.hand_over(host, lane);
        }
    }

    /// Answers the callers, since the pool is gone.
    pub(super) fn end(&self, lane: &mut Lane) {
        for joined in self.take_callers() {
            lane.complete(joined.caller.ticket, Err(gone()));
        }
    }

    /// Answers the callers once all devices have answered. Bytes that a reader will pass wait for
    /// it.
    fn landed(self: &Arc<Self>, host: &PoolThread, lane: &mut Lane) {
        let blocks = self.ended(host);
        // None are left if it took too long: the engine has them.
        let callers = self.take_callers();
        let had: usize = callers.iter().map(|of| of.wanted.len as usize).sum();
        for joined in callers {
            let Some(blocks) = &blocks else {
                joined.hand_over(host, lane);
                continue;
            };
            let outcome = Ok(Done::Pages(self.part(blocks, joined.wanted)));
            let ticket = joined.caller.answered(self.use_of, host.cache());
            lane.complete(ticket, outcome);
        }
        let left = (self.wanted.len as usize).saturating_sub(had);
        if self.use_of == Use::Passed && blocks.is_some() && left > 0 {
            let mut progress = self.progress();
            (progress.blocks, progress.left) = (blocks, left);
            self.is_waiting.store(true, Ordering::Release);
        } else {
            host.direct().ahead.remove(self);
        }
    }

    /// Makes a read of which nobody has asked for bytes yet.
    #[cfg(test)]
    pub(super) fn that_landed(wanted: Wanted, use_of: Use) -> Arc<Self> {
        Arc::new(Self {
            host: Weak::new(),
            wanted,
            use_of,
            parts: SmallVec::new(),
            began: Instant::now(),
            slot: AtomicUsize::new(usize::MAX),
            is_waiting: AtomicBool::new(use_of == Use::Passed),
            progress: Mutex::new(Progress {
                missing: 0,
                blocks: Some(Verified::default()),
                callers: None,
                left: wanted.len as usize,
            }),
            located: Tickets::none(wanted.dataset, 0..0)
                .locate(&Published::default())
                .expect("nothing is found at once"),
        })
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        // Every change is one assignment or push: a panic leaves nothing half done.
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Joined {
    fn hand_over(self, host: &PoolThread, lane: &mut Lane) {
        hand_over(host, self.wanted, self.caller, lane);
    }
}

impl Continuation for DirectRead {
    fn go_on(self: Arc<Self>, part: u32, outcome: Outcome, lane: &mut Lane) {
        if !self.arrived(part, outcome, lane) {
            return;
        }
        let Some(host) = self.host.upgrade() else {
            return self.end(lane);
        };
        let slot = self.slot.load(Ordering::Relaxed);
        host.direct().under_way.remove(slot, lane);
        self.landed(&host, lane);
    }
}
