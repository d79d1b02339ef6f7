//! Reads of one block, as readers at random make them.
//!
//! Their steps are those of [`store::beside`], and they cost little: a read is an
//! entry in a list of its lane. The lane keeps at hand what it needs of the pool, so that a read
//! changes hardly any memory that other lanes use. A cache line that all cores change is slow to
//! reach for all of them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use block::lane::{Continuation, Outcome};
use block::{BlockDevice, Done, Lane, Request, Submitted, Ticket};
use pages::{PAGE_SIZE, Pages};
use slab::Slab;
use store::beside::{Located, Tickets};
use store::cache::Cache;
use store::format::Pointer;
use store::published::Published;
use store::vdev::{Blocks, DirectReads, sector_offset};

use super::Table;
use super::read::{Caller, Fetch, Use, Wanted, ask_engine, gone, hand_over};
use crate::ownership::Ownership;
use crate::pool_thread::PoolThread;

/// Reads of single blocks that a lane has under way.
#[derive(Debug)]
pub(super) struct SingleReads {
    /// Pool, which a device that never answers must not keep.
    host: Weak<PoolThread>,
    /// Number of the lane.
    lane: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Part of the pool that may be read, or `None` if it changed since the last read.
    known: Option<Arc<Known>>,
    reads: Slab<SingleRead>,
}

/// Part of the pool that a lane may read, as the table of [`super::Direct`] has it.
#[derive(Debug)]
pub(super) struct Known {
    published: Arc<Published>,
    /// Leaves with whole copies of the blocks of each top-level vdev.
    copies: Vec<Vec<Copy>>,
    needs: Arc<Needs>,
}

/// Leaf with whole copies of blocks.
#[derive(Debug)]
struct Copy {
    device: Arc<dyn BlockDevice>,
    counts: OwnCounts,
}

/// Counts of a leaf, which all lanes share, behind a reference count of this lane alone. Each read
/// changes that one.
type OwnCounts = Arc<Arc<DirectReads>>;

/// Parts of the pool that a read needs in the end.
#[derive(Debug)]
struct Needs {
    cache: Arc<Cache>,
    ownership: Ownership,
}

#[derive(Debug)]
struct SingleRead {
    wanted: Wanted,
    /// Block, and where it was found.
    located: Located,
    use_of: Use,
    counts: OwnCounts,
    began: Instant,
    /// Caller with what its answer needs, or `None` once the engine has the caller.
    waiting: Option<(Caller, Arc<Needs>)>,
}

impl Known {
    /// Returns the part of the pool that a table describes; `None` while the engine answers all
    /// reads.
    pub(super) fn of(table: &Table, host: &PoolThread) -> Option<Self> {
        // A leaf without a device has no requests under way, so it would always be chosen.
        let copy = |(leaf, counts): &(_, Arc<DirectReads>)| {
            Some(Copy {
                device: Arc::clone(table.devices.get(leaf)?),
                counts: Arc::new(Arc::clone(counts)),
            })
        };
        let copies = table.copies.iter();
        Some(Self {
            published: Arc::clone(table.published.as_ref()?),
            copies: copies
                .map(|of| of.iter().filter_map(copy).collect())
                .collect(),
            needs: Arc::new(Needs {
                cache: Arc::clone(host.cache()),
                ownership: host.ownership().clone(),
            }),
        })
    }

    /// Returns the leaf that is asked for a block: the one that has the fewest requests.
    fn copy(&self, pointer: &Pointer) -> Option<&Copy> {
        match self.copies.get(usize::from(pointer.address.vdev()))? {
            copies if copies.len() == 1 => copies.first(),
            copies => copies.iter().min_by_key(|copy| copy.counts.under_way()),
        }
    }
}

/// Begins a read that wants one block. Returns the caller if the block cannot be read so.
pub(super) fn begin(
    host: &Arc<PoolThread>,
    fetch: Fetch,
    caller: Caller,
    lane: &mut Lane,
) -> Result<Submitted, Caller> {
    let began = Instant::now();
    let of_lane = host.direct().under_way.singles(host, began, lane);
    of_lane.begin(host, fetch, caller, began, lane)
}

impl SingleReads {
    pub(super) fn new(host: &Arc<PoolThread>, lane: &Lane) -> Self {
        Self {
            host: Arc::downgrade(host),
            lane: lane.number(),
            state: Mutex::default(),
        }
    }

    fn begin(
        self: Arc<Self>,
        host: &PoolThread,
        fetch: Fetch,
        caller: Caller,
        began: Instant,
        lane: &mut Lane,
    ) -> Result<Submitted, Caller> {
        let Fetch { wanted, use_of, .. } = fetch;
        let (dataset, blocks) = (wanted.dataset, wanted.blocks());
        let tickets = match use_of {
            Use::Kept => Tickets::take(host.cache(), dataset, blocks, fetch.first),
            Use::Passed => Tickets::none(dataset, blocks),
        };
        let mut state = self.state();
        if state.known.is_none() {
            state.known = host.direct().known(host).map(Arc::new);
        }
        let known = state.known.clone();
        let found = known.as_deref().and_then(|known| {
            let located = tickets.locate(&known.published)?;
            let pointer = *located.pointers().first()?;
            let copy = known.copy(&pointer).filter(|_| !pointer.is_hole())?;
            let is_owned = known.needs.ownership.is_sure();
            is_owned.then_some((known, located, pointer, copy))
        });
        let Some((known, located, pointer, copy)) = found else {
            return Err(caller);
        };
        let slot = state.reads.insert(SingleRead {
            wanted,
            located,
            use_of,
            counts: Arc::clone(&copy.counts),
            began,
            waiting: Some((caller, Arc::clone(&known.needs))),
        });
        drop(state);
        copy.counts.begin(self.lane);
        let request = Request::Read {
            offset: sector_offset(pointer.address.sector()),
            len: u32::from(pointer.sectors) * PAGE_SIZE as u32,
        };
        let ticket = Ticket::serving(Arc::clone(&self) as Arc<dyn Continuation>, slot as u32);
        match copy.device.submit(request, ticket, lane) {
            Submitted::Pending => {
                lane.count_serving();
                lane.count_pending();
                Ok(Submitted::Pending)
            }
            Submitted::Ready(outcome) => Ok(match self.ended(slot, outcome) {
                Some(Ended::Answered(_, data)) => Submitted::Ready(Ok(Done::Pages(data))),
                Some(Ended::Failed(wanted, caller)) => ask_engine(host, wanted, caller, lane),
                // Nobody takes the caller of a read that begins.
                None => Submitted::Ready(Err(gone())),
            }),
        }
    }

    /// Takes what a device answered to a read. Returns nothing if its caller was handed to the
    /// engine.
    fn ended(&self, slot: usize, outcome: Outcome) -> Option<Ended> {
        let read = self.state().reads.try_remove(slot)?;
        let (data, bytes) = match outcome {
            Ok(Done::Pages(bytes)) => {
                let len = bytes.len() as u64;
                let size = read.wanted.block_size as usize;
                (read.located.verify_one(bytes, size), len)
            }
            _ => (None, 0),
        };
        let mut counted = Blocks::default();
        if data.is_some() {
            // All of them are the block's.
            counted.count(bytes);
        }
        let disk_us = read.began.elapsed().as_micros() as u64;
        read.counts.end(self.lane, counted, bytes, disk_us);
        let (caller, needs) = read.waiting?;
        // If this host may no longer own the pool, the bytes may be old, and the engine says so.
        let Some(data) = data.filter(|_| needs.ownership.is_sure()) else {
            return Some(Ended::Failed(read.wanted, caller));
        };
        read.located.fill_one(&needs.cache, &data);
        let within = read.wanted.within_first();
        let data = match within.len() == data.len() {
            true => data,
            false => data.slice(within),
        };
        let ticket = caller.answered(read.use_of, &needs.cache);
        Some(Ended::Answered(ticket, data))
    }

    /// Reports whether no read is under way.
    pub(super) fn is_empty(&self) -> bool {
        self.state().reads.is_empty()
    }

    /// Reports whether a read is under way that began at this time or before.
    pub(super) fn has_begun_by(&self, time: Instant) -> bool {
        let state = self.state();
        state.reads.iter().any(|(_, read)| read.began <= time)
    }

    /// Takes the callers of the reads that began at this time or before. The reads keep nothing of
    /// the pool from then on.
    pub(super) fn give_up(&self, began_by: Instant) -> Vec<(Wanted, Caller)> {
        let mut state = self.state();
        let reads = state.reads.iter_mut().map(|(_, read)| read);
        let late = reads.filter(|read| read.began <= began_by);
        let given_up = late.filter_map(|read| Some((read.wanted, read.waiting.take()?.0)));
        given_up.collect()
    }

    /// Lets the next read look anew for the part of the pool that may be read, and returns what was
    /// known of it.
    pub(super) fn forget(&self) -> Option<Arc<Known>> {
        self.state().known.take()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change is an assignment, an insertion or a removal: a panic leaves nothing half
        // done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// End of a read.
enum Ended {
    /// The caller has these bytes.
    Answered(Ticket, Pages),
    /// The engine must read.
    Failed(Wanted, Caller),
}

impl Continuation for SingleReads {
    fn go_on(self: Arc<Self>, slot: u32, outcome: Outcome, lane: &mut Lane) {
        match self.ended(slot as usize, outcome) {
            Some(Ended::Answered(ticket, data)) => lane.complete(ticket, Ok(Done::Pages(data))),
            Some(Ended::Failed(wanted, caller)) => match self.host.upgrade() {
                Some(host) => hand_over(&host, wanted, caller, lane),
                None => lane.complete(caller.ticket, Err(gone())),
            },
            None => {}
        }
    }
}
