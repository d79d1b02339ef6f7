//! A disk beneath a logical unit. It answers late and in any order, as the seed says, and fails now
//! and then. It tells the world what begins and what lands.
//!
//! A write lands as a whole, at the time of its answer. So a write that nobody waits for any more
//! can land long after its session.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use block::lane::{Outcome, Remote};
use block::{
    BlockDevice, BlockError, BlockErrorKind, Done, Geometry, Lane, Pages, Request, Submitted,
    Ticket, Usage,
};

use crate::random::Random;

/// Bytes of a block.
pub const BLOCK: usize = 512;

/// Habits of a disk.
#[derive(Clone, Copy, Debug, Default)]
pub struct Temper {
    /// Longest time that most requests take, in milliseconds. A disk of 0 answers at once.
    pub usual_ms: u64,
    /// Requests of a thousand that take longer.
    pub slow_per_mille: u64,
    /// Longest time that those take, in milliseconds.
    pub slow_ms: u64,
    /// Requests of a thousand that fail.
    pub failures_per_mille: u64,
}

/// Kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Reads blocks.
    Read,
    /// Writes blocks.
    Write,
    /// Zeroes or frees blocks.
    Clear,
    /// Moves no blocks.
    Other,
}

/// A request as the world sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touch {
    /// Kind of the request.
    pub kind: Kind,
    /// First byte.
    pub offset: usize,
    /// Length of the range in bytes.
    pub len: usize,
    /// Bytes of a write.
    pub data: Vec<u8>,
}

/// News of a disk, in the order in which it came about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// The disk was given a request.
    Began(Touch),
    /// A change of blocks took place. The bytes that were there before are told with it.
    Landed(Touch, Vec<u8>),
}

/// News of several disks, each with the disk's number, in the order in which they came about.
#[derive(Clone, Debug, Default)]
pub struct Journal(Arc<Mutex<Vec<(usize, News)>>>);

impl Journal {
    fn note(&self, drive: usize, news: News) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.push((drive, news));
    }

    /// Takes what happened since the last call.
    pub fn take(&self) -> Vec<(usize, News)> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *all)
    }
}

/// A disk of zeros.
#[derive(Debug)]
pub struct Drive {
    number: usize,
    journal: Journal,
    len: usize,
    home: ThreadId,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    medium: Vec<u8>,
    waiting: BTreeMap<u64, Waiting>,
    last: u64,
    due: Vec<(Duration, u64)>,
    temper: Temper,
    random: Random,
}

#[derive(Debug)]
struct Waiting {
    request: Request,
    ticket: Ticket,
    /// Loop that waits for the answer, if its process lives.
    lane: Option<Remote>,
}

impl Drive {
    /// Makes a disk of this many blocks, for loops that turn on this thread. It tells its news
    /// under its number.
    pub fn new(
        (number, journal): (usize, &Journal),
        blocks: u64,
        temper: Temper,
        random: Random,
    ) -> Arc<Self> {
        let len = blocks as usize * BLOCK;
        Arc::new(Self {
            number,
            journal: journal.clone(),
            len,
            home: thread::current().id(),
            state: Mutex::new(State {
                medium: vec![0; len],
                waiting: BTreeMap::new(),
                last: 0,
                due: Vec::new(),
                temper,
                random,
            }),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns bytes of the disk.
    pub fn bytes(&self, offset: usize, len: usize) -> Vec<u8> {
        self.state().medium[offset..offset + len].to_vec()
    }

    /// Returns the number of requests that the disk has not answered.
    pub fn waiting(&self) -> usize {
        self.state().waiting.len()
    }

    /// Notes that the process that uses the disk has ended. Each pending request has happened, or
    /// never will. A disk that `goes_on` carries out some of them later, when it would have
    /// answered.
    pub fn abandon(&self, goes_on: bool) {
        let mut state = self.state();
        for (number, mut waiting) in std::mem::take(&mut state.waiting) {
            if !state.random.per_mille(500) {
                continue;
            }
            if goes_on {
                waiting.lane = None;
                state.waiting.insert(number, waiting);
            } else {
                // Nobody is there to be told.
                let _ = self.carry_out(&mut state, &waiting.request);
            }
        }
    }

    /// Takes the requests that became pending, each with the time until its answer.
    pub fn take_due(&self) -> Vec<(Duration, u64)> {
        std::mem::take(&mut self.state().due)
    }

    /// Answers a pending request.
    pub fn answer(&self, number: u64) {
        let mut state = self.state();
        let Some(waiting) = state.waiting.remove(&number) else {
            return;
        };
        let outcome = self.carry_out(&mut state, &waiting.request);
        drop(state);
        if let Some(lane) = waiting.lane {
            lane.complete(waiting.ticket, outcome);
        }
    }
}

impl State {
    fn delay(&mut self) -> Duration {
        let temper = self.temper;
        let most = match self.random.per_mille(temper.slow_per_mille) {
            true => temper.slow_ms,
            false => temper.usual_ms,
        };
        Duration::from_millis(self.random.within(0..most + 1))
    }
}

impl Drive {
    fn carry_out(&self, state: &mut State, request: &Request) -> Outcome {
        let touch = touch(request);
        let fails = state.random.per_mille(state.temper.failures_per_mille);
        // A change that fails may have taken place all the same.
        let lands = !fails || state.random.per_mille(500);
        let range = touch.offset..touch.offset + touch.len;
        if lands && matches!(touch.kind, Kind::Write | Kind::Clear) {
            let before = state.medium[range.clone()].to_vec();
            match touch.kind {
                Kind::Write => state.medium[range.clone()].copy_from_slice(&touch.data),
                _ => state.medium[range.clone()].fill(0),
            }
            self.journal
                .note(self.number, News::Landed(touch.clone(), before));
        }
        match (request, fails) {
            (Request::Read { .. }, true) => Err(BlockError::new(BlockErrorKind::Medium, "a fault")),
            (_, true) if touch.kind != Kind::Other => {
                Err(BlockError::new(BlockErrorKind::Write, "a fault"))
            }
            (Request::Read { .. }, false) => {
                Ok(Done::Pages(Pages::from_bytes(&state.medium[range])))
            }
            (Request::Extents { len, .. }, _) => Ok(Done::Extents(vec![(*len, true)])),
            // A flush that fails once fails for ever. There is no cache that could lose anything.
            _ => Ok(Done::Nothing),
        }
    }
}

fn touch(request: &Request) -> Touch {
    let (offset, len) = request.range().unwrap_or_default();
    let (kind, data) = match request {
        Request::Read { .. } => (Kind::Read, Vec::new()),
        Request::Write { data, .. } => (Kind::Write, data.to_vec()),
        Request::Discard { .. } | Request::WriteZeroes { .. } => (Kind::Clear, Vec::new()),
        Request::Flush | Request::Extents { .. } => (Kind::Other, Vec::new()),
    };
    Touch {
        kind,
        offset: offset as usize,
        len: len as usize,
        data,
    }
}

/// Returns the geometry of a simulated device that has a volatile cache.
pub(crate) fn geometry(len: u64, physical: u32) -> Geometry {
    let block = BLOCK as u32;
    Geometry {
        len,
        granularity: block,
        physical,
        alignment: 0,
        minimum: physical,
        optimal: 64 * block,
        discard: block,
        discard_alignment: 0,
        atomic_write: 0,
        thin: true,
        volatile_cache: true,
        rotation_rate: 1,
    }
}

impl BlockDevice for Drive {
    fn geometry(&self) -> Geometry {
        geometry(self.len as u64, BLOCK as u32)
    }

    fn submit(&self, request: Request, ticket: Ticket, lane: &mut Lane) -> Submitted {
        if let Err(error) = self.geometry().check(&request) {
            return Submitted::Ready(Err(error));
        }
        let mut state = self.state();
        let state = &mut *state;
        if thread::current().id() != self.home {
            // The emptying of a cache has its own thread, which waits in real time.
            return Submitted::Ready(self.carry_out(state, &request));
        }
        self.journal.note(self.number, News::Began(touch(&request)));
        let delay = state.delay();
        if delay.is_zero() {
            return Submitted::Ready(self.carry_out(state, &request));
        }
        lane.count_pending();
        state.last += 1;
        state.due.push((delay, state.last));
        let lane = Some(lane.remote());
        let waiting = Waiting {
            request,
            ticket,
            lane,
        };
        state.waiting.insert(state.last, waiting);
        Submitted::Pending
    }

    fn usage(&self) -> Result<Usage, BlockError> {
        Ok(Usage {
            allocated: self.len as u64,
            pool: None,
        })
    }
}
