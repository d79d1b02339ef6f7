//! The loop in simulated time: a device of known delay and rate shows exactly these.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use super::*;
use crate::data::DataPattern;
use crate::parameters::Pace;
use crate::random::Random;
use ::iometer::access::{AccessLine, AccessSpecification};

const MS: u64 = 1_000_000;
const MIB: u64 = 1 << 20;

/// A device that takes `latency_ns` for each request and moves at most `rate` bytes per second. Its
/// time passes only while it is waited for.
struct Simulated {
    now_ns: u64,
    latency_ns: u64,
    rate: Option<u64>,
    busy_until_ns: u64,
    /// Period in which no request ends.
    stall: std::ops::Range<u64>,
    pending: BinaryHeap<Reverse<(u64, u64)>>,
    requests: Vec<(u64, u64)>,
    failing: bool,
    store: Vec<u8>,
    /// Flag that the user sets when a given time has passed.
    stop: Arc<AtomicBool>,
    stop_at_ns: u64,
}

impl Simulated {
    fn new(latency_ns: u64, rate: Option<u64>) -> Self {
        Self {
            now_ns: 0,
            latency_ns,
            rate,
            busy_until_ns: 0,
            stall: 0..0,
            pending: BinaryHeap::new(),
            requests: Vec::new(),
            failing: false,
            store: vec![0; 4 << 20],
            stop: Arc::default(),
            stop_at_ns: u64::MAX,
        }
    }
}

impl Environment for Simulated {
    fn now_ns(&mut self) -> u64 {
        self.now_ns
    }

    fn submit(&mut self, request: Request, token: u64) -> Option<Outcome> {
        let (offset, len) = request.range().expect("reads and writes");
        self.requests.push((offset, len));
        let takes_ns = self.rate.map_or(0, |rate| len * SECOND_NS / rate);
        self.busy_until_ns = self.busy_until_ns.max(self.now_ns) + takes_ns;
        let mut end_ns = (self.now_ns + self.latency_ns).max(self.busy_until_ns);
        if self.stall.contains(&end_ns) {
            end_ns = self.stall.end;
        }
        if let Request::Write { offset, data, .. } = &request {
            let at = *offset as usize;
            data.copy_to(&mut self.store[at..at + data.len()]);
        }
        self.pending.push(Reverse((end_ns, token)));
        None
    }

    fn wait(&mut self, until_ns: u64, completions: &mut Vec<(u64, Outcome)>) -> io::Result<()> {
        let next_ns = self.pending.peek().map_or(u64::MAX, |next| next.0.0);
        let wake_ns = until_ns.min(next_ns);
        assert_ne!(wake_ns, u64::MAX, "it sleeps for ever");
        assert!(
            wake_ns > self.now_ns || next_ns <= self.now_ns,
            "it spins at {wake_ns}"
        );
        self.now_ns = self.now_ns.max(wake_ns);
        if self.now_ns >= self.stop_at_ns {
            self.stop.store(true, Ordering::Relaxed);
        }
        while let Some(Reverse((end_ns, token))) = self.pending.peek().copied() {
            if end_ns > self.now_ns {
                break;
            }
            self.pending.pop();
            let outcome = if self.failing {
                Err(BlockError::new(BlockErrorKind::Gone, "simulated"))
            } else {
                Ok(Done::Nothing)
            };
            completions.push((token, outcome));
        }
        Ok(())
    }
}

/// Figures that a run showed.
struct Shown {
    seconds: Vec<Window>,
    ended: Ended,
}

impl Shown {
    fn count(&self) -> u64 {
        self.all().latencies.count()
    }

    fn all(&self) -> crate::measure::window::Direction {
        let mut all = crate::measure::window::Direction::default();
        for window in &self.seconds {
            all.add(&window.read);
            all.add(&window.write);
        }
        all
    }
}

struct Setup {
    line: AccessLine,
    outstanding: u32,
    pace: Pace,
    run_time_ms: u64,
    ramp_up_ms: u64,
    max_io: Option<u32>,
    amount: Option<u64>,
}

impl Setup {
    fn new(line: AccessLine, outstanding: u32) -> Self {
        Self {
            line,
            outstanding,
            pace: Pace::Closed,
            run_time_ms: 10_000,
            ramp_up_ms: 0,
            max_io: None,
            amount: None,
        }
    }

    fn run(self, device: &mut Simulated) -> Shown {
        self.run_with(
            device,
            Content::Plain(DataSource::new(DataPattern::Zeros, 1 << 20, Random::new(1))),
        )
    }

    fn run_with(self, device: &mut Simulated, mut content: Content) -> Shown {
        let specification = AccessSpecification::single("simulated", self.line);
        let part = Part {
            start: 0,
            len: 4 * MIB,
        };
        let generator = Generator::new(&specification, part, 512, 1, Random::new(1));
        let stop = Arc::clone(&device.stop);
        let task = Task {
            operations: Operations::Workload(Box::new(generator)),
            content: &mut content,
            outstanding: self.outstanding,
            pacer: Pacer::new(self.pace, 0, 1),
            max_io: self.max_io,
            record_from_ns: self.ramp_up_ms * MS,
            stop_at_ns: (self.ramp_up_ms + self.run_time_ms) * MS,
            amount: self.amount,
            stop: &stop,
        };
        let mut seconds = Vec::new();
        let ended =
            run(device, task, &mut |window| seconds.push((**window).clone())).expect("it runs");
        Shown { seconds, ended }
    }
}

fn random_read() -> AccessLine {
    AccessLine::all(4096, 100, 100)
}

#[test]
fn a_device_of_known_delay_shows_exactly_that() {
    for (latency_ms, outstanding) in [(1, 1), (2, 8), (5, 32), (10, 7)] {
        let shown =
            Setup::new(random_read(), outstanding).run(&mut Simulated::new(latency_ms * MS, None));
        // 10 seconds of `outstanding` at a time; accesses that end as the time is over are
        // included.
        assert_eq!(shown.count(), 10_000 / latency_ms * u64::from(outstanding));
        let latencies = shown.all().latencies.summary();
        assert_eq!(latencies.mean_ns, (latency_ms * MS) as f64);
        assert_eq!(latencies.max_ns, latency_ms * MS);
        let spread = latencies.distribution.expect("something was counted");
        assert_eq!(spread.min_ns, latency_ms * MS);
        assert_eq!(
            (spread.p50_ns, spread.p99_99_ns),
            (latency_ms * MS, latency_ms * MS)
        );
        assert_eq!(shown.seconds.len(), 10);
        assert_eq!(shown.ended.longest_gap_ns, latency_ms * MS);
    }
}

#[test]
fn a_device_of_known_rate_shows_exactly_that() {
    let line = AccessLine::all(65_536, 0, 0);
    let shown = Setup::new(line, 8).run(&mut Simulated::new(MS, Some(64 * MIB)));
    assert_eq!(shown.all().bytes, 640 * MIB);
    // 64 KiB at 64 MiB/s take 1/1024 s, and eight are in the queue.
    let queued_ns = 8.0 * SECOND_NS as f64 / 1024.0;
    let mean_ns = shown.all().latencies.mean_ns();
    assert!((mean_ns - queued_ns).abs() < queued_ns * 0.01, "{mean_ns}");
}

#[test]
fn the_ramp_up_is_in_no_figure() {
    let mut setup = Setup::new(random_read(), 1);
    setup.ramp_up_ms = 3_000;
    let mut device = Simulated::new(MS, None);
    device.stall = 500 * MS..2_500 * MS;
    let shown = setup.run(&mut device);
    // The access that ends just as recording starts is included.
    assert_eq!((shown.count(), shown.seconds.len()), (10_001, 10));
    assert_eq!(shown.all().latencies.max_ns(), MS);
}

#[test]
fn an_open_pace_below_what_the_device_can_shows_rate_and_delay() {
    let mut setup = Setup::new(random_read(), 32);
    setup.pace = Pace::Open(1000.0);
    let shown = setup.run(&mut Simulated::new(5 * MS, None));
    let latencies = shown.all().latencies.summary();
    assert_eq!(
        (latencies.mean_ns, latencies.max_ns),
        (5.0 * MS as f64, 5 * MS)
    );
    assert_eq!((shown.count(), shown.ended.unstarted), (9_996, 0));
    assert_eq!(
        shown.ended.late.read.latencies.count(),
        4,
        "they were under way"
    );
}

#[test]
fn a_stall_is_not_omitted_by_an_open_pace() {
    let stalled = |pace| {
        let mut setup = Setup::new(random_read(), 1);
        setup.pace = pace;
        let mut device = Simulated::new(MS / 10, None);
        device.stall = 5_000 * MS..6_000 * MS;
        setup.run(&mut device)
    };
    // A closed loop meets the second of silence once, however many accesses would have wanted to
    // start.
    let closed = stalled(Pace::Closed).all().latencies;
    assert!(closed.percentile_ns(99.9) < MS && closed.max_ns() >= 1_000 * MS);
    // At their appointed times, a tenth of all accesses came into the silence and waited half a
    // second on average.
    let open = stalled(Pace::Open(1000.0)).all().latencies;
    assert!(
        open.percentile_ns(90.0) < 150 * MS,
        "{}",
        open.percentile_ns(90.0)
    );
    assert!(
        open.percentile_ns(99.0) > 880 * MS,
        "{}",
        open.percentile_ns(99.0)
    );
    assert!(
        (open.mean_ns() - 55.0 * MS as f64).abs() < 6.0 * MS as f64,
        "{}",
        open.mean_ns()
    );
}

#[test]
fn a_rate_that_was_not_reached_is_said() {
    let mut setup = Setup::new(random_read(), 1);
    setup.pace = Pace::Open(2000.0);
    let shown = setup.run(&mut Simulated::new(MS, None));
    assert_eq!(shown.count(), 10_000);
    assert_eq!(shown.ended.unstarted, 20_000 - 10_000);
}

#[test]
fn a_limit_is_kept_and_latency_is_the_devices() {
    let mut setup = Setup::new(random_read(), 8);
    setup.pace = Pace::Limited(500.0);
    let shown = setup.run(&mut Simulated::new(MS, None));
    assert_eq!(shown.count(), 5_000);
    assert_eq!(shown.all().latencies.max_ns(), MS);
}

#[test]
fn bursts_pause() {
    let line = AccessLine {
        burst: 10,
        delay_ms: 99,
        ..random_read()
    };
    let shown = Setup::new(line, 1).run(&mut Simulated::new(MS, None));
    // There are nine accesses of 1 ms, and the tenth within the pause of 99 ms that follows its
    // start.
    assert!(
        shown.count().abs_diff(10_000 / 108 * 10) <= 10,
        "{}",
        shown.count()
    );
}

#[test]
fn large_accesses_are_split_and_counted_whole() {
    let mut setup = Setup::new(AccessLine::all(100 << 10, 100, 0), 2);
    setup.max_io = Some(32 << 10);
    let mut device = Simulated::new(MS, None);
    let shown = setup.run(&mut device);
    let first: Vec<u64> = device.requests[..8]
        .iter()
        .map(|(_, len)| len >> 10)
        .collect();
    assert_eq!(first, [32, 32, 32, 4, 32, 32, 32, 4]);
    assert_eq!(device.requests[1].0, 32 << 10);
    assert_eq!(
        (shown.count(), shown.all().latencies.max_ns()),
        (20_000, MS)
    );
    assert_eq!(shown.all().bytes, 20_000 * (100 << 10));
}

#[test]
fn an_amount_ends_the_run_and_its_time_is_that_of_the_last() {
    let mut setup = Setup::new(AccessLine::all(65_536, 0, 0), 1);
    setup.amount = Some(3 * MIB);
    let shown = setup.run(&mut Simulated::new(2 * MS, None));
    assert_eq!((shown.count(), shown.all().bytes), (48, 3 * MIB));
    assert_eq!(shown.ended.at_ns, 96 * MS);
    assert_eq!(shown.ended.longest_gap_ns, 2 * MS);
    assert_eq!(shown.seconds.len(), 1);
}

#[test]
fn an_amount_that_its_time_does_not_suffice_for_ends_with_the_time() {
    let mut setup = Setup::new(AccessLine::all(65_536, 0, 0), 1);
    setup.amount = Some(3 * MIB);
    setup.run_time_ms = 51;
    let shown = setup.run(&mut Simulated::new(2 * MS, None));
    assert_eq!((shown.count(), shown.ended.at_ns), (25, 51 * MS));
    assert_eq!(shown.ended.late.write.latencies.count(), 1);
}

#[test]
fn an_amount_whose_last_accesses_are_stuck_ends_with_the_time() {
    let mut setup = Setup::new(AccessLine::all(65_536, 0, 0), 4);
    setup.amount = Some(3 * MIB);
    setup.pace = Pace::Open(2_000.0);
    let mut device = Simulated::new(2 * MS, None);
    device.stall = 24 * MS..15_000 * MS;
    let shown = setup.run(&mut device);
    assert_eq!(shown.ended.at_ns, 10_000 * MS);
    let late = shown.ended.late.write.latencies.count();
    assert_eq!((shown.count(), late), (44, 4));
    assert_eq!(shown.ended.unstarted, 0, "they were stuck, not unstarted");
}

#[test]
fn all_of_an_amount_has_started() {
    let mut setup = Setup::new(random_read(), 32);
    setup.pace = Pace::Open(1000.0);
    setup.amount = Some(100 * 4096);
    let shown = setup.run(&mut Simulated::new(5 * MS, None));
    // The last access starts after 99 ms.
    assert_eq!((shown.count(), shown.ended.at_ns), (100, 104 * MS));
    assert_eq!(shown.ended.unstarted, 0, "nothing more was wanted");
}

#[test]
fn the_time_of_an_amount_has_its_failures_in_it() {
    let mut setup = Setup::new(random_read(), 1);
    setup.amount = Some(50 * 4096);
    let mut device = Simulated::new(MS, None);
    device.failing = true;
    let ended = setup.run(&mut device).ended;
    assert_eq!((ended.at_ns, ended.longest_gap_ns), (50 * MS, 50 * MS));
    assert!(!ended.gave_up);
}

#[test]
fn what_is_stuck_when_the_time_is_over_is_waited_for_and_said() {
    let mut device = Simulated::new(MS, None);
    device.stall = 9_500 * MS..12_000 * MS;
    let shown = Setup::new(random_read(), 4).run(&mut device);
    assert_eq!(shown.ended.at_ns, 10_000 * MS);
    assert_eq!(shown.ended.late.read.latencies.count(), 4);
    assert!(shown.ended.late.read.latencies.max_ns() >= 2_500 * MS);
    assert_eq!(shown.ended.longest_gap_ns, 2_501 * MS);
    assert_eq!(shown.seconds.len(), 10, "the silent seconds are there");
}

/// Runs against a device that hangs. The device hangs from 1.5 s on until `back_ns`, with a run of
/// this time and a user who stops it after 3 s.
fn hung(run_time_ms: u64, back_ns: u64) -> (Simulated, Ended, u64) {
    let mut device = Simulated::new(MS, None);
    device.stall = 1_500 * MS..back_ns;
    device.stop_at_ns = 3_000 * MS;
    let mut setup = Setup::new(random_read(), 4);
    setup.run_time_ms = run_time_ms;
    let shown = setup.run(&mut device);
    let count = shown.count();
    (device, shown.ended, count)
}

#[test]
fn what_hangs_is_given_up_when_the_user_has_had_enough() {
    // The user stops the run while it measures, and while it waits for late accesses.
    for run_time_ms in [10_000, 2_000] {
        let (device, ended, count) = hung(run_time_ms, u64::MAX);
        assert_eq!((ended.abandoned, ended.gave_up), (4, false));
        assert_eq!(count, 4 * 1_499, "what was measured until then is there");
        let latest = 3_000 * MS + PATIENCE_NS + 2 * LOOK_NS;
        assert!((3_000 * MS + PATIENCE_NS..=latest).contains(&device.now_ns));
        let over = device.now_ns.min(run_time_ms * MS);
        assert!(ended.at_ns <= over && ended.longest_gap_ns >= 500 * MS);
    }
}

#[test]
fn what_comes_back_in_time_is_not_given_up() {
    let (device, ended, count) = hung(10_000, 4_000 * MS);
    assert_eq!((ended.abandoned, count), (0, 4 * 1_499));
    assert_eq!(ended.late.read.latencies.count(), 4);
    assert_eq!(device.now_ns, 4_000 * MS, "and nobody waits on");
}

#[test]
fn failures_are_counted_and_too_many_end_the_run() {
    let mut device = Simulated::new(MS, None);
    device.failing = true;
    let shown = Setup::new(random_read(), 1).run(&mut device);
    assert_eq!((shown.count(), shown.all().errors), (0, 100));
    assert!(shown.ended.gave_up);
    let (count, words) = &shown.ended.failures["gone"];
    assert_eq!((*count, words.as_str()), (100, "device is gone: simulated"));
}

#[test]
fn verified_writes_never_overlap_anything_in_flight() {
    let part = Part {
        start: 0,
        len: 4 * MIB,
    };
    let verifier = Verifier::new(part, 512, 1);
    let mut setup = Setup::new(AccessLine::all(65_536, 50, 100), 16);
    setup.run_time_ms = 200;
    let mut device = Simulated::new(MS, None);
    let mut content = Content::Verified(Box::new(verifier));
    // With 64 places and 16 in flight, nearly every access would meet another.
    let specification = AccessSpecification::single("x", setup.line);
    let generator = Generator::new(&specification, part, 512, 1, Random::new(1));
    let stop = AtomicBool::new(false);
    let task = Task {
        operations: Operations::Workload(Box::new(generator)),
        content: &mut content,
        outstanding: 16,
        pacer: Pacer::new(Pace::Closed, 0, 1),
        max_io: None,
        record_from_ns: 0,
        stop_at_ns: 200 * MS,
        amount: None,
        stop: &stop,
    };
    let ended = run(&mut device, task, &mut |_| {}).expect("it runs");
    assert!(ended.failures.is_empty());
    let Content::Verified(mut verifier) = content else {
        panic!("it stays what it is");
    };
    // If two writes of one block had been under way, the store would not hold the last generation.
    for offset in (0..4 * MIB as usize).step_by(65_536) {
        verifier.check(
            offset as u64,
            &Pages::from_bytes(&device.store[offset..offset + 65_536]),
        );
    }
    assert!(verifier.report().checked > 0);
    assert_eq!(verifier.report().mismatches, 0);
}

#[test]
fn a_pass_touches_every_byte_once() {
    let mut content = Content::Plain(DataSource::new(
        DataPattern::Random,
        1 << 20,
        Random::new(1),
    ));
    let stop = AtomicBool::new(false);
    let left = Part {
        start: 512,
        len: 3 * MIB + 1024,
    };
    let task = Task {
        operations: Operations::Pass { left, read: false },
        content: &mut content,
        outstanding: 4,
        pacer: Pacer::new(Pace::Closed, 0, 1),
        max_io: None,
        record_from_ns: 0,
        stop_at_ns: u64::MAX,
        amount: None,
        stop: &stop,
    };
    let mut device = Simulated::new(MS, None);
    run(&mut device, task, &mut |_| {}).expect("it runs");
    let expected = [
        (512, MIB),
        (512 + MIB, MIB),
        (512 + 2 * MIB, MIB),
        (512 + 3 * MIB, 1024),
    ];
    assert_eq!(device.requests, expected);
}
