//! Lanes: threads that read beside the pool's engine, and prepare writes, as the event loops of a
//! target do. One scheduler steps them all, and the seed decides how long each step takes.
//!
//! Between two steps of a lane, anything may happen: the engine takes changes, answers, makes
//! checkpoints, frees and trims; disks answer, and the power fails. The steps of a reader are those
//! of [`store::beside`].

mod reader;

use std::collections::{BTreeMap, VecDeque};

use pages::Pages;
use store::beside::{Located, Verified};
use store::cache::Cache;
use store::catalog::Settings;
use store::engine::{Pool, Recipe, Request, RequestId};
use store::format::DatasetId;
use store::vdev::DeviceOutcome;

use crate::random::Random;
use crate::subject::{Answer, DiskRequest, Moves, Outcome};
use reader::{Reader, Stage};

/// First number of the requests of readers to disks. Those of the engine lie below.
pub(super) const READING: u64 = 1 << 61;
/// Number of lanes that hand writes to the engine. Each keeps their order.
const LANES: u64 = 3;
/// Most ranges whose bytes wait for a reader.
const HELD: usize = 4;
/// Time after which a read from a disk that does not answer goes to the engine.
const PATIENCE_US: u64 = 60_000;
/// Durations of a step. Many checkpoints are made during the longest.
const STEPS_US: [u64; 8] = [0, 1, 5, 30, 200, 1_000, 8_000, 50_000];
/// Durations of the step from the places of blocks to the disks. Places may be freed, and written
/// anew, meanwhile.
const BEFORE_DISKS_US: [u64; 4] = [0, 30, 20_000, 200_000];

/// Bytes that an operation wants.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) tag: u64,
    pub(super) dataset: DatasetId,
    pub(super) block_size: u32,
    pub(super) offset: u64,
    pub(super) len: u32,
    /// Size of the volume.
    pub(super) size: u64,
}

/// Pool, and all that lanes share with it.
pub(super) struct Bench<'a> {
    pub(super) pool: &'a mut Pool,
    pub(super) cache: &'a Cache,
    /// Disk of each leaf.
    pub(super) disks: &'a BTreeMap<u32, usize>,
    pub(super) requests: &'a mut Vec<DiskRequest>,
    pub(super) answers: &'a mut Vec<Answer>,
    pub(super) moves: &'a mut Moves,
    pub(super) now_us: u64,
}

/// Event of the scheduler.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// A reader takes its next step.
    Reader(u64),
    /// A reader has waited for long.
    Late(u64),
    /// A lane hands its next change to the engine.
    Change(u64),
}

/// Bytes that were read in advance and wait for a reader.
struct Held {
    located: Located,
    blocks: Verified,
    first: u64,
    block_size: u32,
}

/// All lanes of a pool.
pub(super) struct Lanes {
    random: Random,
    /// Events by their times, and the order in which they were added.
    due: BTreeMap<(u64, u64), Event>,
    readers: BTreeMap<u64, Reader>,
    held: VecDeque<Held>,
    /// Changes that wait in a lane, in their order.
    changes: [VecDeque<(RequestId, Request)>; LANES as usize],
    /// Time at which the last change of each lane is handed over.
    last_us: [u64; LANES as usize],
    next: u64,
}

impl Bench<'_> {
    pub(super) fn answer(&mut self, tag: u64, data: Pages) {
        let outcome = Ok(Outcome::Data(data));
        self.answers.push(Answer { tag, outcome });
    }

    /// Hands a read to the engine.
    pub(super) fn ask_engine(&mut self, wanted: &Wanted) {
        let request = Request::Read {
            dataset: wanted.dataset,
            offset: wanted.offset,
            len: wanted.len,
        };
        self.moves.handed_over += 1;
        let id = RequestId(wanted.tag);
        self.pool.submit(id, request, self.now_us);
    }
}

impl Lanes {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            random: Random::new(seed ^ 0x6c61_6e65).fork(),
            due: BTreeMap::new(),
            readers: BTreeMap::new(),
            held: VecDeque::new(),
            changes: Default::default(),
            last_us: [0; LANES as usize],
            next: 0,
        }
    }

    /// Returns the time of the next event.
    pub(super) fn next_us(&self) -> Option<u64> {
        self.due.keys().next().map(|(at_us, _)| *at_us)
    }

    fn add(&mut self, at_us: u64, event: Event) {
        self.next += 1;
        self.due.insert((at_us, self.next), event);
    }

    /// Lets something happen after a step.
    fn add_later(&mut self, now_us: u64, event: Event) {
        let step_us = self.random.one_of(&STEPS_US);
        self.add(now_us + step_us, event);
    }

    /// Begins a read on a lane.
    pub(super) fn read(&mut self, wanted: Wanted, now_us: u64) {
        let is_passed = self.random.per_mille(250);
        let ahead = self.random.within(0..8);
        let reader = Reader::new(wanted, is_passed.then_some(ahead));
        self.next += 1;
        let number = self.next;
        self.readers.insert(number, reader);
        self.add_later(now_us, Event::Reader(number));
    }

    /// Lets a change come by a lane, which prepares its data mostly as the volume's settings are
    /// now. Others prepare it by settings that they knew earlier, or not at all.
    pub(super) fn change(
        &mut self,
        id: RequestId,
        request: Request,
        (settings, block_size): (&Settings, u32),
        now_us: u64,
    ) {
        let recipe = match self.random.within(0..10) {
            0..6 => Recipe::of(settings, block_size),
            6..8 => Recipe::of(&Settings::default(), block_size),
            _ => None,
        };
        let lane = self.random.within(0..LANES);
        let at = lane as usize;
        let request = self.prepared(request, recipe);
        self.changes[at].push_back((id, request));
        let step_us = self.random.one_of(&STEPS_US);
        self.last_us[at] = self.last_us[at].max(now_us + step_us);
        self.add(self.last_us[at], Event::Change(lane));
    }

    fn prepared(&mut self, request: Request, recipe: Option<Recipe>) -> Request {
        let Request::Write {
            dataset,
            offset,
            data,
            durable,
        } = request
        else {
            return request;
        };
        match recipe.and_then(|recipe| recipe.prepare(offset, &data)) {
            Some(prepared) => Request::WritePrepared {
                dataset,
                offset,
                prepared: match self.random.per_mille(300) {
                    true => prepared.passed(),
                    false => prepared,
                },
                durable,
            },
            None => Request::Write {
                dataset,
                offset,
                data,
                durable,
            },
        }
    }

    /// Lets all happen that is due.
    pub(super) fn step(&mut self, bench: &mut Bench<'_>) {
        while let Some(entry) = self.due.first_entry()
            && entry.key().0 <= bench.now_us
        {
            match entry.remove() {
                Event::Reader(number) => self.step_reader(number, bench),
                Event::Late(number) => self.give_up(number, bench),
                Event::Change(lane) => {
                    let change = self.changes[lane as usize].pop_front();
                    if let Some((id, request)) = change {
                        bench.pool.submit(id, request, bench.now_us);
                    }
                }
            }
        }
    }

    /// Takes a disk's answer to a reader.
    pub(super) fn completed(&mut self, id: u64, outcome: DeviceOutcome, now_us: u64) {
        let number = (id - READING) >> 8;
        let row = (id & 0xff) as usize;
        let reader = self.readers.get_mut(&number);
        if reader.is_some_and(|reader| reader.arrived(row, outcome)) {
            self.add_later(now_us, Event::Reader(number));
        }
    }

    fn step_reader(&mut self, number: u64, bench: &mut Bench<'_>) {
        let Some(mut reader) = self.readers.remove(&number) else {
            return;
        };
        let stage = std::mem::replace(&mut reader.stage, Stage::Over);
        reader.stage = match stage {
            Stage::Begins => self.begin(&mut reader, bench),
            Stage::Wants(tickets) => reader.locate(tickets, bench),
            Stage::Located(located) => {
                let sent = reader.send(number, located, &mut self.random, bench);
                if matches!(sent, Stage::Asked(_)) {
                    self.add(bench.now_us + PATIENCE_US, Event::Late(number));
                }
                sent
            }
            Stage::Asked(asked) => {
                self.held.extend(reader.finish(asked, bench));
                if self.held.len() > HELD {
                    self.held.pop_front();
                }
                Stage::Over
            }
            Stage::Over => Stage::Over,
        };
        let steps_us: &[u64] = match &reader.stage {
            Stage::Over => return,
            // The last disk lets it go on.
            Stage::Asked(asked) if !asked.is_complete() => &[],
            Stage::Located(_) => &BEFORE_DISKS_US,
            Stage::Begins | Stage::Wants(_) | Stage::Asked(_) => &STEPS_US,
        };
        self.readers.insert(number, reader);
        if !steps_us.is_empty() {
            let step_us = self.random.one_of(steps_us);
            self.add(bench.now_us + step_us, Event::Reader(number));
        }
    }

    /// Begins a read: from the cache, from bytes that wait, with a read that is under way, or with
    /// its own tickets.
    fn begin(&mut self, reader: &mut Reader, bench: &mut Bench<'_>) -> Stage {
        let wanted = reader.wanted;
        let first = match reader.cached(bench.cache) {
            Ok(data) => {
                bench.moves.from_cache += 1;
                bench.answer(wanted.tag, data);
                return Stage::Over;
            }
            Err(first) => first,
        };
        let published = bench.pool.published();
        let fits = |held: &&Held| {
            let is_same = held.block_size == wanted.block_size;
            is_same && held.located.dataset() == wanted.dataset
        };
        let mut held = self.held.iter().filter(fits);
        let held = held.find(|held| held.located.still_lie(published, wanted.blocks()));
        if let Some(held) = held {
            let data = wanted.part(&held.blocks, held.first);
            bench.moves.waited_for += 1;
            bench.answer(wanted.tag, data);
            return Stage::Over;
        }
        let mut others = self.readers.values_mut();
        if let Some(other) = others.find(|other| other.may_be_joined(&wanted, published)) {
            other.callers.push(wanted);
            return Stage::Over;
        }
        reader.take_tickets(first, bench)
    }

    /// Hands the callers of a read that takes long to the engine.
    fn give_up(&mut self, number: u64, bench: &mut Bench<'_>) {
        if let Some(reader) = self.readers.get_mut(&number) {
            reader.hand_over(bench);
        }
    }
}
