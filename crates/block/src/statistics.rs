//! A wrapper that counts the requests to a device: number, bytes, failures and latency, per kind.
//!
//! Each lane counts in its own cells, so that loops share no cache line; a reader adds them up.
//! Requests that are answered at once count as the smallest latency.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use super::lane::{Observer, Outcome};
use super::layer::Layer;
use super::{BlockDevice, Lane, Request, Submitted, Ticket};

/// Number of cells; lanes beyond it share cells.
const SHARDS: usize = 32;
/// Linear steps per power of two: a latency is known to 12.5 %.
const STEPS: u32 = 8;
/// Exponent of the first bucket. Latencies below 2^6 ns share it; those of 2^36 ns (69 s) and more
/// share the last bucket.
const SMALLEST: u32 = 6;
const LARGEST: u32 = 36;
const BUCKETS: usize = ((LARGEST - SMALLEST) * STEPS) as usize + 1;

/// Kind of a request, for counting and for choosing faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RequestKind {
    /// Kind of [`Request::Read`].
    Read,
    /// Kind of [`Request::Write`].
    Write,
    /// Kind of [`Request::Flush`].
    Flush,
    /// Kind of [`Request::Discard`].
    Discard,
    /// Kind of [`Request::WriteZeroes`].
    WriteZeroes,
    /// Kind of [`Request::Extents`].
    Extents,
}

impl RequestKind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 6] = [
        Self::Read,
        Self::Write,
        Self::Flush,
        Self::Discard,
        Self::WriteZeroes,
        Self::Extents,
    ];

    /// Returns the kind of `request`.
    pub fn of(request: &Request) -> Self {
        match request {
            Request::Read { .. } => Self::Read,
            Request::Write { .. } => Self::Write,
            Request::Flush => Self::Flush,
            Request::Discard { .. } => Self::Discard,
            Request::WriteZeroes { .. } => Self::WriteZeroes,
            Request::Extents { .. } => Self::Extents,
        }
    }
}

/// A device with counters around it.
#[derive(Debug)]
pub struct StatisticsDevice {
    inner: Arc<dyn BlockDevice>,
    counters: Arc<Counters>,
}

/// The counters of one device.
#[derive(Debug)]
pub struct Counters {
    shards: [OnceLock<Box<Shard>>; SHARDS],
    born: Instant,
}

#[derive(Debug)]
#[repr(align(128))]
struct Shard([Cells; RequestKind::ALL.len()]);

#[derive(Debug)]
struct Cells {
    bytes: AtomicU64,
    failures: AtomicU64,
    /// Numbers of finished requests, by latency.
    latency: [AtomicU64; BUCKETS],
}

impl Cells {
    const fn new() -> Self {
        Self {
            bytes: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            latency: [const { AtomicU64::new(0) }; BUCKETS],
        }
    }
}

/// Counters of one kind at one moment.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Requests that finished, successfully or not.
    pub requests: u64,
    /// Requests that failed.
    pub failures: u64,
    /// Bytes of all requests.
    pub bytes: u64,
    latency: Box<[u64; BUCKETS]>,
}

impl StatisticsDevice {
    /// Creates a wrapper that counts the requests to `inner`.
    pub fn new(inner: Arc<dyn BlockDevice>) -> Self {
        let counters = Counters {
            shards: [const { OnceLock::new() }; SHARDS],
            born: Instant::now(),
        };
        Self {
            inner,
            counters: Arc::new(counters),
        }
    }

    /// Returns the counters, which may outlive the device.
    pub fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.counters)
    }
}

impl Layer for StatisticsDevice {
    fn beneath(&self) -> &dyn BlockDevice {
        &*self.inner
    }

    fn submit(&self, request: Request, mut ticket: Ticket, lane: &mut Lane) -> Submitted {
        let (kind, shard) = (RequestKind::of(&request), lane.number() % SHARDS);
        let bytes = request.range().map_or(0, |(_, len)| len);
        let started_ns = self.counters.now_ns();
        let cookie = started_ns << 16 | (shard as u64) << 8 | kind as u64;
        self.counters
            .cells(shard, kind)
            .bytes
            .fetch_add(bytes, Ordering::Relaxed);
        ticket.observe(Arc::clone(&self.counters) as Arc<dyn Observer>, cookie);
        let submitted = self.inner.submit(request, ticket, lane);
        if let Submitted::Ready(outcome) = &submitted {
            // A second look at the clock is not worth its cost.
            self.counters.count(cookie, 0, outcome);
        }
        submitted
    }
}

impl Counters {
    /// Returns the counts for `kind` so far, over all lanes.
    pub fn summary(&self, kind: RequestKind) -> Summary {
        let mut summary = Summary {
            requests: 0,
            failures: 0,
            bytes: 0,
            latency: Box::new([0; BUCKETS]),
        };
        for shard in self.shards.iter().filter_map(OnceLock::get) {
            let cells = &shard.0[kind as usize];
            summary.bytes += cells.bytes.load(Ordering::Relaxed);
            summary.failures += cells.failures.load(Ordering::Relaxed);
            for (sum, cell) in summary.latency.iter_mut().zip(&cells.latency) {
                *sum += cell.load(Ordering::Relaxed);
            }
        }
        summary.requests = summary.latency.iter().sum();
        summary
    }

    fn cells(&self, shard: usize, kind: RequestKind) -> &Cells {
        let shard = self.shards[shard]
            .get_or_init(|| Box::new(Shard([const { Cells::new() }; RequestKind::ALL.len()])));
        &shard.0[kind as usize]
    }

    fn count(&self, cookie: u64, latency_ns: u64, outcome: &Outcome) {
        let kind = RequestKind::ALL[(cookie & 0xFF) as usize];
        let cells = self.cells((cookie >> 8 & 0xFF) as usize, kind);
        cells.latency[bucket(latency_ns)].fetch_add(1, Ordering::Relaxed);
        if outcome.is_err() {
            cells.failures.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn now_ns(&self) -> u64 {
        self.born.elapsed().as_nanos() as u64 & (u64::MAX >> 16)
    }
}

impl Observer for Counters {
    fn completed(&self, cookie: u64, outcome: Outcome) -> Outcome {
        // 48 bits of nanoseconds wrap after three days; the difference is still right.
        let latency_ns = self.now_ns().wrapping_sub(cookie >> 16) & (u64::MAX >> 16);
        self.count(cookie, latency_ns, &outcome);
        outcome
    }
}

impl Summary {
    /// Returns the latency that `share` (0 to 1) of the requests did not exceed, rounded up by at
    /// most 12.5 %. Returns `None` if nothing was counted.
    pub fn latency(&self, share: f64) -> Option<Duration> {
        let wanted = ((self.requests as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        let found = self.latency.iter().position(|count| {
            seen += count;
            seen >= wanted
        })?;
        Some(Duration::from_nanos(bucket_end(found)))
    }
}

fn bucket(latency_ns: u64) -> usize {
    if latency_ns < 1 << SMALLEST {
        return 0;
    }
    let power = latency_ns.ilog2();
    let step = (latency_ns >> (power - STEPS.ilog2())) as u32 - STEPS;
    (((power - SMALLEST) * STEPS + step) as usize + 1).min(BUCKETS - 1)
}

/// Returns the first latency beyond a bucket.
fn bucket_end(bucket: usize) -> u64 {
    let (power, step) = (bucket as u32 / STEPS + SMALLEST, bucket as u32 % STEPS);
    u64::from(STEPS + step) << (power - STEPS.ilog2())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_latency_falls_into_the_bucket_that_names_it() {
        for power in 0..36 {
            for latency in [
                1u64 << power,
                (1 << power) + (1 << power) / 3,
                (2 << power) - 1,
            ] {
                let bucket = bucket(latency);
                assert!(latency < bucket_end(bucket), "{latency} in {bucket}");
                assert!(
                    bucket == 0 || bucket_end(bucket - 1) <= latency,
                    "{latency} in {bucket}"
                );
            }
        }
        assert_eq!(bucket(u64::MAX >> 16), BUCKETS - 1);
    }
}
