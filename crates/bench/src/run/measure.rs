//! One workload, run once: fill, ramp up, measure. With verification, also flush and read
//! everything back.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::crew::{self, Collector};
use super::environment::{Environment as _, LaneEnvironment};
use super::pace::Pacer;
use super::region::{self, Assignment, RegionError};
use super::worker::{Content, Ended, LOOK_NS, Operations, PATIENCE_NS, Task};
use crate::data::DataSource;
use crate::esxtop_queue::{EsxtopQueue, QueueReadings};
use crate::generator::Generator;
use crate::machine::cpu_time;
use crate::measure::record::Record;
use crate::measure::window::{Direction, Second, Window};
use crate::parameters::{Pace, Parameters};
use crate::random::Random;
use crate::results::{
    CpuTime, DirectionResult, EsxtopLatency, Failures, Measurement, StreamResult, together,
};
use crate::verify::{Verifier, VerifyReport, memory_needed};
use crate::workload::Workload;
use ::iometer::access::SpecificationError;
use block::lane::Outcome;
use block::{BlockDevice, Lane, LatencySplit, Request};
use model::quantity::format_size;

/// Most memory with which verification may remember the written blocks.
pub const VERIFY_MEMORY: u64 = 1 << 30;

/// Accesses in flight during a pass over the whole working set.
const PASS_OUTSTANDING: u32 = 8;

/// Time below which nobody notices a wait for the end.
const NOTICED: Duration = Duration::from_millis(400);

/// Phase of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Write every byte of the working set once.
    Fill,
    /// Run the workload without recording.
    RampUp,
    /// Run the workload and record it.
    Measure,
    /// Read and compare every byte.
    ReadBack,
}

/// Observer of a run.
pub trait Watch {
    /// Notes that a phase begins. It will move this many bytes or last this long, whichever comes
    /// first.
    fn phase(&mut self, phase: Phase, bytes: Option<u64>, time: Option<Duration>);

    /// Notes that the user wants to stop, but accesses in flight keep the run from ending. Called
    /// once in a phase.
    fn waits_to_end(&mut self) {}

    /// Notes that a second of the phase is over.
    fn second(&mut self, second: &Second);

    /// Notes the present state of the device's queue, for a device at the end of a wire. Called
    /// before each second of measuring.
    fn queue(&mut self, queue: EsxtopQueue) {
        let _ = queue;
    }
}

/// Reason why a run cannot begin or go on.
#[derive(Debug)]
pub enum RunError {
    /// The workload is wrong, or its accesses do not fit the device's blocks.
    Specification(SpecificationError),
    /// The workload does not fit the device.
    Region(RegionError),
    /// A parameter is out of bounds.
    Parameter(String),
    /// The working set could not be filled.
    Fill(String),
    /// The system reports an error.
    System(io::Error),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Specification(error) => error.fmt(f),
            Self::Region(error) => error.fmt(f),
            Self::Parameter(reason) => f.write_str(reason),
            Self::Fill(reason) => write!(f, "the working set could not be filled: {reason}"),
            Self::System(error) => write!(
                f,
                "the operating system cannot wait for completions: {error}"
            ),
        }
    }
}

impl std::error::Error for RunError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Specification(error) => Some(error),
            Self::Region(error) => Some(error),
            Self::System(error) => Some(error),
            Self::Parameter(_) | Self::Fill(_) => None,
        }
    }
}

impl From<SpecificationError> for RunError {
    fn from(error: SpecificationError) -> Self {
        Self::Specification(error)
    }
}

impl From<RegionError> for RunError {
    fn from(error: RegionError) -> Self {
        Self::Region(error)
    }
}

impl From<io::Error> for RunError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

/// Checks whether a workload can be run with these parameters, without running it.
pub fn check(
    workload: &Workload,
    parameters: &Parameters,
    device: &dyn BlockDevice,
) -> Result<Vec<Assignment>, RunError> {
    let geometry = device.geometry();
    workload.check(geometry.granularity)?;
    let set = region::working_set(parameters, geometry.len, geometry.granularity)?;
    let assignments = region::assign(workload, parameters, set, geometry.granularity)?;
    let parameter = |reason: String| Err(RunError::Parameter(reason));
    if let Pace::Limited(iops) | Pace::Open(iops) = parameters.pace
        && !(iops > 0.0 && iops.is_finite())
    {
        return parameter(format!("{iops} is not a rate"));
    }
    if parameters
        .max_io
        .is_some_and(|max| max == 0 || !max.is_multiple_of(geometry.granularity))
    {
        return parameter(format!(
            "the largest I/O must be a multiple of {}",
            geometry.granularity
        ));
    }
    if parameters.run_time_ms == 0 && amount(workload, parameters).is_none() {
        return parameter("a run without a time or an amount measures nothing".into());
    }
    let memory = memory_needed(set.len, geometry.granularity);
    if parameters.verify && memory > VERIFY_MEMORY {
        let most = VERIFY_MEMORY / 4 * u64::from(geometry.granularity);
        return parameter(format!(
            "verifying {} would take {} of memory; choose a working set of at most {}",
            format_size(set.len),
            format_size(memory),
            format_size(most)
        ));
    }
    Ok(assignments)
}

fn amount(workload: &Workload, parameters: &Parameters) -> Option<u64> {
    parameters.amount.or(workload.amount)
}

/// Runs a workload once. `run` tells this run's blocks from those of other runs. `stop` ends the
/// run early; the measurements until then are returned.
///
/// # Errors
/// The run cannot begin, or the system fails. Failures of the device are part of the measurement.
pub fn measure(
    workload: &Workload,
    parameters: &Parameters,
    run: u64,
    (device, lane): (&Arc<dyn BlockDevice>, &mut Lane),
    stop: &AtomicBool,
    watch: &mut dyn Watch,
) -> Result<Measurement, RunError> {
    let assignments = check(workload, parameters, &**device)?;
    let contents = contents(
        workload,
        parameters,
        run,
        &assignments,
        device.geometry().granularity,
    );
    let mut run = Running {
        abandoned: 0,
        workload,
        parameters,
        assignments,
        contents,
        device,
        stop,
        watch,
    };
    if parameters.fill {
        run.fill(lane)?;
    }
    let mut measurement = run.measure(lane)?;
    if parameters.verify {
        let flush_failed = run.read_back(lane, &mut measurement)?;
        measurement.verify = Some(VerifyReport {
            flush_failed,
            ..run.verify_report()
        });
    }
    measurement.abandoned = run.abandoned;
    measurement.interrupted = stop.load(Ordering::Relaxed);
    Ok(measurement)
}

fn contents(
    workload: &Workload,
    parameters: &Parameters,
    run: u64,
    assignments: &[Assignment],
    block: u32,
) -> Vec<Content> {
    let pattern = workload.data.unwrap_or(parameters.data);
    // Passes write pieces of up to 1 MiB.
    let largest = workload.largest().max(1 << 20);
    let content = |(index, assignment): (usize, &Assignment)| {
        if parameters.verify {
            return Content::Verified(Box::new(Verifier::new(assignment.part, block, run)));
        }
        let random = Random::stream(parameters.seed, 2 * index as u64 + 1);
        Content::Plain(DataSource::new(pattern, largest, random))
    };
    assignments.iter().enumerate().map(content).collect()
}

struct Running<'a> {
    /// Number of accesses for which nobody waited any more.
    abandoned: u64,
    workload: &'a Workload,
    parameters: &'a Parameters,
    assignments: Vec<Assignment>,
    contents: Vec<Content>,
    device: &'a Arc<dyn BlockDevice>,
    stop: &'a AtomicBool,
    watch: &'a mut dyn Watch,
}

impl Running<'_> {
    fn fill(&mut self, lane: &mut Lane) -> Result<(), RunError> {
        self.watch.phase(Phase::Fill, Some(self.bytes()), None);
        let ended = self.pass(lane, false)?;
        let failure = ended
            .iter()
            .flat_map(|ended| ended.failures.values())
            .next();
        match failure {
            Some((_, words)) => Err(RunError::Fill(words.clone())),
            None => Ok(()),
        }
    }

    fn bytes(&self) -> u64 {
        self.assignments
            .iter()
            .map(|assignment| assignment.part.len)
            .sum()
    }

    /// Makes one pass over all parts.
    fn pass(&mut self, lane: &mut Lane, read: bool) -> io::Result<Vec<Ended>> {
        let stop = self.stop;
        let max_io = self.parameters.max_io;
        let tasks = self
            .assignments
            .iter()
            .zip(&mut self.contents)
            .map(|(assignment, content)| Task {
                operations: Operations::Pass {
                    left: assignment.part,
                    read,
                },
                content,
                outstanding: PASS_OUTSTANDING,
                pacer: Pacer::new(Pace::Closed, 0, 1),
                max_io,
                record_from_ns: 0,
                stop_at_ns: u64::MAX,
                amount: None,
                stop,
            });
        let tasks = tasks.collect::<Vec<_>>();
        let mut collecting = Collecting::new(tasks.len(), Vec::new(), stop, self.watch);
        let ended = crew::work(self.device, lane, tasks, &mut collecting)?;
        self.abandoned += abandoned(&ended);
        Ok(ended)
    }

    fn measure(&mut self, lane: &mut Lane) -> Result<Measurement, RunError> {
        let (workload, parameters) = (self.workload, self.parameters);
        let amount = amount(workload, parameters);
        let ramp_up = match amount {
            // Bytes written before recording would be missing from the amount.
            Some(_) => Duration::ZERO,
            None => Duration::from_millis(parameters.ramp_up_ms),
        };
        let run_time = match parameters.run_time_ms {
            0 => None,
            ms => Some(Duration::from_millis(ms)),
        };
        let workers = self.assignments.len() as u64;
        let granularity = self.device.geometry().granularity;
        let stop = self.stop;
        let task = |(index, (assignment, content)): (usize, (&Assignment, _))| {
            let stream = &workload.streams[assignment.stream];
            let random = Random::stream(parameters.seed, 2 * index as u64);
            let (part, sequences) = (assignment.part, stream.sequences);
            let generator =
                Generator::new(&stream.specification, part, granularity, sequences, random);
            Task {
                operations: Operations::Workload(Box::new(generator)),
                content,
                outstanding: assignment.outstanding,
                pacer: Pacer::new(parameters.pace, index as u32, workers as u32),
                max_io: parameters.max_io,
                record_from_ns: ramp_up.as_nanos() as u64,
                stop_at_ns: run_time.map_or(u64::MAX, |time| (ramp_up + time).as_nanos() as u64),
                amount: amount.map(|amount| amount.div_ceil(workers)),
                stop,
            }
        };
        let tasks: Vec<Task<'_>> = self
            .assignments
            .iter()
            .zip(&mut self.contents)
            .enumerate()
            .map(task)
            .collect();
        let streams = self
            .assignments
            .iter()
            .map(|assignment| assignment.stream)
            .collect();
        if !ramp_up.is_zero() {
            self.watch.phase(Phase::RampUp, None, Some(ramp_up));
        }
        let mut collecting = Collecting::new(tasks.len(), streams, stop, self.watch);
        collecting.measures = Some(Measured::new(self.device, ramp_up, run_time, amount));
        let ended = crew::work(self.device, lane, tasks, &mut collecting)?;
        let counted = collecting.counted();
        self.abandoned += abandoned(&ended);
        Ok(summarize(
            workload,
            &self.assignments,
            counted,
            &ended,
            ramp_up,
        ))
    }

    /// Flushes, and reads everything once more. Reports whether the flush failed. If the user wants
    /// to stop, all written blocks stay unread.
    fn read_back(
        &mut self,
        lane: &mut Lane,
        measurement: &mut Measurement,
    ) -> Result<bool, RunError> {
        if self.stop.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let Some(flushed) = flush(self.device, lane, self.stop)? else {
            self.abandoned += 1;
            return Ok(true);
        };
        if let Err(error) = &flushed {
            measurement.failures.push(Failures {
                kind: "flush".to_owned(),
                count: 1,
                first: error.to_string(),
            });
        }
        for content in &mut self.contents {
            if let Content::Verified(verifier) = content {
                verifier.begin_read_back();
            }
        }
        self.watch.phase(Phase::ReadBack, Some(self.bytes()), None);
        let ended = self.pass(lane, true)?;
        measurement
            .failures
            .extend(failures(&ended).into_iter().map(|failure| Failures {
                kind: format!("read-back {}", failure.kind),
                ..failure
            }));
        Ok(flushed.is_err())
    }

    fn verify_report(&self) -> VerifyReport {
        let mut all = VerifyReport::default();
        for content in &self.contents {
            if let Content::Verified(verifier) = content {
                all.add(verifier.report().clone());
            }
        }
        all
    }
}

/// Counts the accesses for which nobody waited any more.
fn abandoned(ended: &[Ended]) -> u64 {
    ended.iter().map(|ended| ended.abandoned).sum()
}

/// Makes the written data durable; `None` if the user ran out of patience.
fn flush(
    device: &Arc<dyn BlockDevice>,
    lane: &mut Lane,
    stop: &AtomicBool,
) -> io::Result<Option<Outcome>> {
    let mut environment = LaneEnvironment::new(Arc::clone(device), lane, std::time::Instant::now());
    if let Some(outcome) = environment.submit(Request::Flush, 0) {
        return Ok(Some(outcome));
    }
    let mut completions = Vec::new();
    let mut abandon_at_ns = u64::MAX;
    loop {
        let now_ns = environment.now_ns();
        if stop.load(Ordering::Relaxed) {
            abandon_at_ns = abandon_at_ns.min(now_ns + PATIENCE_NS);
        }
        if now_ns >= abandon_at_ns {
            lane.abandon();
            return Ok(None);
        }
        environment.wait(now_ns + LOOK_NS, &mut completions)?;
        if let Some((_, outcome)) = completions.pop() {
            return Ok(Some(outcome));
        }
    }
}

/// State of a phase's collector.
struct Collecting<'w> {
    watch: &'w mut dyn Watch,
    all: Record,
    /// Stream of each worker.
    stream_of: Vec<usize>,
    streams: Vec<(Direction, Direction)>,
    measures: Option<Measured>,
    stop: &'w AtomicBool,
    /// Time at which the user's wish to stop was first seen, and whether the wait was reported.
    stop_seen: Option<(Duration, bool)>,
}

/// Times of a measuring phase, with the readings at its begin and end.
struct Measured {
    device: Arc<dyn BlockDevice>,
    ramp_up: Duration,
    run_time: Option<Duration>,
    amount: Option<u64>,
    begun: Option<Reading>,
    ended: Option<Reading>,
    last_tick: Duration,
    queue: QueueReadings,
}

/// Readings, at one time, of counters that run by themselves.
#[derive(Clone, Copy)]
struct Reading {
    at: Duration,
    cpu: CpuTime,
    split: Option<LatencySplit>,
}

/// Counts of a measuring phase.
struct Counted {
    all: Record,
    streams: Vec<(Direction, Direction)>,
    cpu: Option<CpuTime>,
    esxtop: Option<EsxtopLatency>,
    queue: Option<EsxtopQueue>,
}

impl<'w> Collecting<'w> {
    fn new(
        workers: usize,
        stream_of: Vec<usize>,
        stop: &'w AtomicBool,
        watch: &'w mut dyn Watch,
    ) -> Self {
        let streams = stream_of.iter().max().map_or(0, |last| last + 1);
        Self {
            watch,
            all: Record::new(workers),
            stream_of,
            streams: (0..streams).map(|_| Default::default()).collect(),
            measures: None,
            stop,
            stop_seen: None,
        }
    }

    /// Reports the wait for the end, if it takes long enough for the user to notice.
    fn tell_wait(&mut self, elapsed: Duration) {
        if !self.stop.load(Ordering::Relaxed) {
            return;
        }
        let (since, is_told) = self.stop_seen.get_or_insert((elapsed, false));
        if !*is_told && elapsed.saturating_sub(*since) >= NOTICED {
            *is_told = true;
            self.watch.waits_to_end();
        }
    }

    fn counted(self) -> Counted {
        let queue = self.measures.as_ref().and_then(|all| all.queue.mean());
        let readings = self.measures.and_then(|measured| measured.readings());
        Counted {
            all: self.all,
            streams: self.streams,
            cpu: readings.map(|(begun, ended)| CpuTime {
                user_ns: ended.cpu.user_ns - begun.cpu.user_ns,
                system_ns: ended.cpu.system_ns - begun.cpu.system_ns,
                elapsed_ns: ended.at.saturating_sub(begun.at).as_nanos() as u64,
            }),
            esxtop: readings
                .and_then(|(begun, ended)| EsxtopLatency::between(begun.split?, ended.split?)),
            queue,
        }
    }
}

impl Collector for Collecting<'_> {
    fn window(&mut self, worker: usize, window: &Window) {
        if let Some(&stream) = self.stream_of.get(worker) {
            let (read, write) = &mut self.streams[stream];
            read.add(&window.read);
            write.add(&window.write);
        }
        let measured = self.measures.as_ref();
        if let Some(split) = measured.and_then(|measured| measured.device.latency_split()) {
            self.watch.queue(EsxtopQueue::at(split));
        }
        for second in self.all.add(window) {
            self.watch.second(second);
        }
    }

    fn tick(&mut self, elapsed: Duration) {
        self.tell_wait(elapsed);
        let Some(measured) = &mut self.measures else {
            return;
        };
        if measured.begun.is_none() && elapsed >= measured.ramp_up {
            measured.begun = Some(measured.read(elapsed));
            self.watch
                .phase(Phase::Measure, measured.amount, measured.run_time);
        }
        let is_measured = measured.begun.is_some() && measured.ended.is_none();
        if is_measured && let Some(split) = measured.device.latency_split() {
            measured.queue.add(split);
        }
        let end = measured.run_time.map(|time| measured.ramp_up + time);
        if measured.ended.is_none() && end.is_some_and(|end| elapsed >= end) {
            measured.ended = Some(measured.read(elapsed));
        }
        measured.last_tick = elapsed;
    }
}

impl Measured {
    fn new(
        device: &Arc<dyn BlockDevice>,
        ramp_up: Duration,
        run_time: Option<Duration>,
        amount: Option<u64>,
    ) -> Self {
        Self {
            device: Arc::clone(device),
            ramp_up,
            run_time,
            amount,
            begun: None,
            ended: None,
            last_tick: Duration::ZERO,
            queue: QueueReadings::default(),
        }
    }

    fn read(&self, at: Duration) -> Reading {
        Reading {
            at,
            cpu: cpu_time(),
            split: self.device.latency_split(),
        }
    }

    /// Returns the readings of the begin and the end. The end is now, if it came before its time.
    fn readings(&self) -> Option<(Reading, Reading)> {
        let ended = self.ended.unwrap_or_else(|| self.read(self.last_tick));
        Some((self.begun?, ended))
    }
}

fn summarize(
    workload: &Workload,
    assignments: &[Assignment],
    mut counted: Counted,
    ended: &[Ended],
    ramp_up: Duration,
) -> Measurement {
    let mut late: Vec<Window> = workload.streams.iter().map(|_| Window::default()).collect();
    let mut all_late = Window::default();
    for (assignment, ended) in assignments.iter().zip(ended) {
        for window in [&mut late[assignment.stream], &mut all_late] {
            window.read.add(&ended.late.read);
            window.write.add(&ended.late.write);
        }
    }
    let streams = workload.streams.iter().zip(&counted.streams).zip(&late);
    let streams = streams.map(|((stream, (read, write)), late)| StreamResult {
        name: stream.specification.name.clone(),
        read: DirectionResult::of(read, &late.read),
        write: DirectionResult::of(write, &late.write),
    });
    let streams: Vec<StreamResult> = streams.collect();
    let (read, write) = (&counted.all.read, &counted.all.write);
    let end_ns = ended.iter().map(|ended| ended.at_ns).max().unwrap_or(0);
    Measurement {
        elapsed_ns: end_ns.saturating_sub(ramp_up.as_nanos() as u64),
        workers: assignments.len() as u32,
        outstanding: assignments
            .iter()
            .map(|assignment| assignment.outstanding)
            .sum(),
        latency: together([read, write, &all_late.read, &all_late.write]),
        read: DirectionResult::of(read, &all_late.read),
        write: DirectionResult::of(write, &all_late.write),
        streams: if streams.len() > 1 {
            streams
        } else {
            Vec::new()
        },
        cpu: counted.cpu,
        esxtop: counted.esxtop,
        queue: counted.queue,
        longest_gap_ns: ended
            .iter()
            .map(|ended| ended.longest_gap_ns)
            .max()
            .unwrap_or(0),
        late: all_late.read.latencies.count() + all_late.write.latencies.count(),
        unstarted: ended.iter().map(|ended| ended.unstarted).sum(),
        failures: failures(ended),
        gave_up: ended.iter().any(|ended| ended.gave_up),
        series: counted.all.series(),
        interrupted: false,
        abandoned: 0,
        verify: None,
    }
}

fn failures(ended: &[Ended]) -> Vec<Failures> {
    let mut by_kind: BTreeMap<&str, (u64, &str)> = BTreeMap::new();
    for (kind, (count, words)) in ended.iter().flat_map(|ended| &ended.failures) {
        by_kind.entry(kind).or_insert((0, words)).0 += count;
    }
    let failures = by_kind.into_iter().map(|(kind, (count, first))| Failures {
        kind: kind.to_owned(),
        count,
        first: first.to_owned(),
    });
    failures.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Told(u32);

    impl Watch for Told {
        fn phase(&mut self, _: Phase, _: Option<u64>, _: Option<Duration>) {}
        fn second(&mut self, _: &Second) {}
        fn waits_to_end(&mut self) {
            self.0 += 1;
        }
    }

    #[test]
    fn a_wait_for_the_end_is_told_once_where_it_is_noticed() {
        // Each row has ticks after the user's wish to stop, in milliseconds, and how often the wait
        // is reported.
        for (ticks, times) in [(&[][..], 0), (&[0, 399], 0), (&[0, 400, 410, 2_000], 1)] {
            let (mut told, stop) = (Told::default(), AtomicBool::new(false));
            let mut collecting = Collecting::new(1, vec![0], &stop, &mut told);
            collecting.tick(Duration::from_secs(9));
            stop.store(true, Ordering::Relaxed);
            for ms in ticks {
                collecting.tick(Duration::from_millis(10_000 + ms));
            }
            assert_eq!(told.0, times, "{ticks:?}");
        }
    }
}
