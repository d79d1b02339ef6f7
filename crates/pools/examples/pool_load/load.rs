//! Loads: requests of one kind with a fixed number outstanding, for some time or some number of
//! bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use block::lane::Outcome;
use block::{BlockDevice, Done, Lane, Request, Submitted, Ticket};
use hdrhistogram::Histogram;
use pages::{PAGE_SIZE, Pages, PagesMut};
use pools::Pools;
use serde::{Deserialize, Serialize};

use crate::command::Target;
#[cfg(feature = "counted")]
use crate::counts::Counts;
use crate::processor::ProcessorTime;

/// Bytes from which writes take their data.
const DATA: usize = 64 << 20;

/// Load that is to be run.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Load {
    /// `pool/volume`, or the name of a file.
    pub(crate) target: String,
    /// Whether the load writes; otherwise it reads.
    pub(crate) write: bool,
    /// Whether the requests are scattered; otherwise they follow one another.
    pub(crate) random: bool,
    /// Bytes of a request.
    size: u32,
    /// Number of outstanding requests.
    depth: usize,
    /// Seconds after which the load ends. A load without any limit ends with the other loads.
    seconds: Option<f64>,
    /// Bytes after which the load ends.
    bytes: Option<u64>,
    /// First byte of the part of the target that is used.
    #[serde(default)]
    start: u64,
    /// Bytes of the part that is used, or `None` for all.
    len: Option<u64>,
    /// Condition under which a write counts as done.
    #[serde(default)]
    sync: Sync,
    /// Whether the time of a flush at the end counts.
    #[serde(default)]
    flush: bool,
    /// Whether each byte that was read is looked at, as a user of the data would.
    #[serde(default)]
    look: bool,
    /// Seed of the scattered order.
    #[serde(default)]
    seed: u64,
}

/// Condition under which a write counts as done.
#[derive(Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Sync {
    /// The write is answered.
    #[default]
    None,
    /// The write itself is durable (O_DSYNC).
    Durable,
    /// A flush follows the write (fdatasync). Only one write is outstanding.
    Flush,
}

/// Figures of a load.
#[derive(Serialize)]
pub(crate) struct Figures {
    operations: u64,
    bytes: u64,
    seconds: f64,
    p50_us: f64,
    p99_us: f64,
    max_us: f64,
    /// Times that another thread woke the load's lane.
    lane_wakes: u64,
    /// Processor time of the process, for all loads that ran together.
    #[serde(flatten)]
    processor: Option<ProcessorTime>,
    /// Orders to pools' threads, for all loads that ran together.
    orders: u64,
    /// Times that pools' threads were woken, for all loads that ran together.
    pool_wakes: u64,
    #[cfg(feature = "counted")]
    #[serde(flatten)]
    counts: Option<Counts>,
}

/// Runs loads at one time.
pub(crate) fn run(
    loads: Vec<Load>,
    targets: Vec<Arc<Target>>,
    pools: &Pools,
) -> Result<Vec<Figures>, String> {
    let is_over = AtomicBool::new(false);
    let data = random_data();
    let (before, handed_before) = (ProcessorTime::now()?, pools.handed_over());
    #[cfg(feature = "counted")]
    let counts_before = Counts::now();
    let figures = std::thread::scope(|scope| {
        let threads: Vec<_> = loads
            .iter()
            .zip(&targets)
            .map(|(load, target)| {
                let (data, is_over) = (&data, &is_over);
                scope.spawn(move || {
                    let figures = Runner::new(load, target, data)?.run(is_over);
                    is_over.store(true, Ordering::Relaxed);
                    figures
                })
            })
            .collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined
            .map(|end| end.unwrap_or_else(|_| Err("a load panicked".to_owned())))
            .collect::<Result<Vec<Figures>, String>>()
    })?;
    let spent = ProcessorTime::now()?.since(before);
    let handed = pools.handed_over();
    #[cfg(feature = "counted")]
    let counts = Counts::now().since(counts_before);
    let told = figures.into_iter().map(|of| Figures {
        processor: Some(spent),
        orders: handed.orders - handed_before.orders,
        pool_wakes: handed.wakes - handed_before.wakes,
        #[cfg(feature = "counted")]
        counts: Some(counts),
        ..of
    });
    Ok(told.collect())
}

/// Writes the whole device with zeros that the device does not recognize as zeros.
pub(crate) fn write_all(device: &dyn BlockDevice) -> Result<(), String> {
    const SIZE: u64 = 1 << 20;
    let mut lane = Lane::standing().map_err(|error| error.to_string())?;
    let zeros = Pages::from_bytes(&vec![0; SIZE as usize]);
    let len = device.geometry().len;
    let mut taken = Vec::new();
    for offset in (0..len).step_by(SIZE as usize) {
        let data = zeros.slice(0..SIZE.min(len - offset) as usize);
        let durable = offset + SIZE >= len;
        let request = Request::Write {
            offset,
            data,
            durable,
        };
        // Eight requests are enough to keep a device busy.
        while lane.in_flight() >= 8 {
            turn(&mut lane, &mut taken)?;
        }
        if let Submitted::Ready(outcome) = device.submit(request, Ticket::new(0), &mut lane) {
            outcome.map_err(|error| error.to_string())?;
        }
        check(&mut taken)?;
    }
    while lane.in_flight() > 0 {
        turn(&mut lane, &mut taken)?;
    }
    check(&mut taken)
}

fn check(taken: &mut Vec<(u64, Outcome)>) -> Result<(), String> {
    for (_, outcome) in taken.drain(..) {
        outcome.map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Waits until a request ends.
fn turn(lane: &mut Lane, taken: &mut Vec<(u64, Outcome)>) -> Result<(), String> {
    lane.submit_batch();
    let before = taken.len();
    lane.take_completions(taken);
    if taken.len() == before {
        lane.wait(None).map_err(|error| error.to_string())?;
    }
    Ok(())
}

struct Runner<'a> {
    load: &'a Load,
    target: &'a Target,
    data: &'a Pages,
    lane: Lane,
    /// Number of requests that fit into the part that is used.
    places: u64,
    random: Random,
    started: u64,
    finished: u64,
    /// Start time of each outstanding request, by its place.
    began: Vec<Instant>,
    free: Vec<usize>,
    latencies: Histogram<u64>,
}

impl<'a> Runner<'a> {
    fn new(load: &'a Load, target: &'a Target, data: &'a Pages) -> Result<Self, String> {
        let whole = target.device.geometry().len;
        let len = load.len.unwrap_or(whole.saturating_sub(load.start));
        let places = len.min(whole.saturating_sub(load.start)) / u64::from(load.size.max(1));
        if places == 0 || load.depth == 0 || load.size as usize > DATA {
            return Err("a load needs room, a size and a depth".to_owned());
        }
        Ok(Self {
            load,
            target,
            data,
            lane: Lane::standing().map_err(|error| error.to_string())?,
            places,
            random: Random(load.seed),
            started: 0,
            finished: 0,
            began: vec![Instant::now(); load.depth],
            free: (0..load.depth).rev().collect(),
            latencies: Histogram::new_with_bounds(1, 600_000_000_000, 2)
                .map_err(|error| error.to_string())?,
        })
    }

    fn run(mut self, is_over: &AtomicBool) -> Result<Figures, String> {
        let start = Instant::now();
        let until = self
            .load
            .seconds
            .map(|s| start + Duration::from_secs_f64(s));
        let most = self
            .load
            .bytes
            .map(|bytes| bytes / u64::from(self.load.size));
        let mut taken = Vec::new();
        loop {
            let is_late = until.is_some_and(|until| Instant::now() >= until);
            let is_enough = most.is_some_and(|most| self.started >= most);
            let is_ended = until.is_none() && most.is_none() && is_over.load(Ordering::Relaxed);
            if is_late || is_enough || is_ended {
                break;
            }
            let room = most.map_or(u64::MAX, |most| most - self.started);
            // The number is bounded. So the clock is checked even if requests end at once.
            for _ in 0..room.min(64) {
                let Some(place) = self.free.pop() else { break };
                self.submit(place)?;
            }
            if self.free.is_empty() {
                self.turn(&mut taken)?;
            }
        }
        while self.lane.in_flight() > 0 {
            self.turn(&mut taken)?;
        }
        if self.load.flush {
            self.flush()?;
        }
        let seconds = start.elapsed().as_secs_f64();
        let us = |ns: u64| ns as f64 / 1e3;
        Ok(Figures {
            operations: self.finished,
            bytes: self.finished * u64::from(self.load.size),
            seconds,
            p50_us: us(self.latencies.value_at_quantile(0.5)),
            p99_us: us(self.latencies.value_at_quantile(0.99)),
            max_us: us(self.latencies.max()),
            lane_wakes: self.lane.wakes(),
            processor: None,
            orders: 0,
            pool_wakes: 0,
            #[cfg(feature = "counted")]
            counts: None,
        })
    }

    fn submit(&mut self, place: usize) -> Result<(), String> {
        let size = u64::from(self.load.size);
        let number = match self.load.random {
            true => self.random.below(self.places),
            false => self.started % self.places,
        };
        let offset = self.load.start + number * size;
        self.started += 1;
        let request = if self.load.write {
            let from = choose_data(&mut self.random, size);
            Request::Write {
                offset,
                data: self.data.slice(from..from + size as usize),
                durable: self.load.sync == Sync::Durable,
            }
        } else {
            let len = self.load.size;
            Request::Read { offset, len }
        };
        self.began[place] = Instant::now();
        let ticket = Ticket::new(place as u64);
        let device = &self.target.device;
        if let Submitted::Ready(outcome) = device.submit(request, ticket, &mut self.lane) {
            self.ended(place, outcome)?;
        }
        Ok(())
    }

    fn turn(&mut self, taken: &mut Vec<(u64, Outcome)>) -> Result<(), String> {
        turn(&mut self.lane, taken)?;
        for (place, outcome) in taken.drain(..) {
            self.ended(place as usize, outcome)?;
        }
        Ok(())
    }

    fn ended(&mut self, place: usize, outcome: Outcome) -> Result<(), String> {
        match outcome.map_err(|error| error.to_string())? {
            Done::Pages(data) if data.len() != self.load.size as usize => {
                return Err("fewer bytes were read than asked for".to_owned());
            }
            Done::Pages(data) if self.load.look => {
                std::hint::black_box(sum(&data));
            }
            _ => {}
        }
        if self.load.sync == Sync::Flush {
            self.flush()?;
        }
        let ns = self.began[place].elapsed().as_nanos() as u64;
        self.latencies.saturating_record(ns.max(1));
        self.finished += 1;
        self.free.push(place);
        Ok(())
    }

    /// Makes the written data durable. Nothing else is outstanding.
    fn flush(&mut self) -> Result<(), String> {
        if let Some(file) = &self.target.file {
            return file.sync_data().map_err(|error| error.to_string());
        }
        let ticket = Ticket::new(0);
        let outcome = match self
            .target
            .device
            .submit(Request::Flush, ticket, &mut self.lane)
        {
            Submitted::Ready(outcome) => outcome,
            Submitted::Pending => {
                let mut taken = Vec::new();
                while taken.is_empty() {
                    turn(&mut self.lane, &mut taken)?;
                }
                taken.remove(0).1
            }
        };
        outcome.map(drop).map_err(|error| error.to_string())
    }
}

/// Returns the sum of all words: the least work that touches each byte.
fn sum(data: &Pages) -> u64 {
    let words = data.chunks().flat_map(|chunk| chunk.as_chunks().0);
    words.fold(0, |sum: u64, word| {
        sum.wrapping_add(u64::from_le_bytes(*word))
    })
}

/// Returns the place in the data from which a write takes its bytes.
fn choose_data(random: &mut Random, size: u64) -> usize {
    let at = random.below((DATA as u64 - size) / PAGE_SIZE as u64 + 1);
    at as usize * PAGE_SIZE
}

/// Returns, for each place, the start of the data that a load of scattered writes wrote there last.
/// The load writes `bytes` in total. `None` means that it wrote nothing there.
fn written(load: &Load, places: u64) -> Vec<Option<usize>> {
    let size = u64::from(load.size);
    let mut random = Random(load.seed);
    let mut last = vec![None; places as usize];
    for _ in 0..load.bytes.unwrap_or(0) / size {
        let place = random.below(places) as usize;
        last[place] = Some(choose_data(&mut random, size));
    }
    last
}

/// Reads all places within the range of a load of scattered writes. Returns how many places are
/// right, and how many are wrong.
pub(crate) fn verify(load: &Load, target: &Target) -> Result<(u64, u64), String> {
    let size = load.size;
    let places = target.device.geometry().len / u64::from(size.max(1));
    if !load.random || !load.write || load.start != 0 || load.len.is_some() || places == 0 {
        return Err("only scattered writes to all of a volume are verified".to_owned());
    }
    let data = random_data();
    let zeros = vec![0; size as usize];
    let mut lane = Lane::standing().map_err(|error| error.to_string())?;
    let (mut right, mut wrong) = (0, 0);
    let mut taken = Vec::new();
    for (place, from) in (0..).zip(written(load, places)) {
        let offset = place * u64::from(size);
        let request = Request::Read { offset, len: size };
        let outcome = match target.device.submit(request, Ticket::new(place), &mut lane) {
            Submitted::Ready(outcome) => outcome,
            Submitted::Pending => {
                while taken.is_empty() {
                    turn(&mut lane, &mut taken)?;
                }
                taken.remove(0).1
            }
        };
        let Done::Pages(read) = outcome.map_err(|error| error.to_string())? else {
            return Err("a read was answered with something else".to_owned());
        };
        let expected = from.map(|from| data.slice(from..from + size as usize).to_vec());
        match read.to_vec() == *expected.as_ref().unwrap_or(&zeros) {
            true => right += 1,
            false => wrong += 1,
        }
    }
    Ok((right, wrong))
}

/// Returns bytes that cannot be compressed.
fn random_data() -> Pages {
    let mut random = Random(42);
    let mut buffer = PagesMut::allocate(DATA);
    let mut page = [0; PAGE_SIZE];
    for at in (0..DATA).step_by(PAGE_SIZE) {
        for chunk in page.chunks_exact_mut(8) {
            chunk.copy_from_slice(&random.next().to_le_bytes());
        }
        buffer.copy_from(at, &page);
    }
    buffer.freeze()
}

/// Random numbers by SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}
