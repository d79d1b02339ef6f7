//! The measuring loop: one thread, one device, a number of accesses in flight.
//!
//! An access costs its operation from the generator, a reference to existing bytes, two looks at
//! the clock, and a step in a histogram. The clock is read when the access is submitted, and when
//! completions are taken (shared by all that came together). There is no allocation, no lock, and
//! no system call of its own.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use super::environment::Environment;
use super::pace::{Pacer, Turn};
use super::slots::{InFlight, Slots};
use crate::data::DataSource;
use crate::generator::{Generator, Operation, Part};
use crate::measure::window::Window;
use crate::verify::Verifier;
use block::lane::Outcome;
use block::{BlockError, BlockErrorKind, Done, Pages, Request};

/// Number of failures in a row after which a worker gives up. A device that is gone fails a million
/// times a second, which is no measurement.
const MAX_FAILURES_IN_A_ROW: u32 = 100;

/// A second, in nanoseconds.
pub const SECOND_NS: u64 = 1_000_000_000;

/// Time for which accesses in flight are waited for once the user wants to stop. A hanging device
/// must not withhold the measurements from a user who has lost patience.
pub(super) const PATIENCE_NS: u64 = 2 * SECOND_NS;

/// Longest time for which a worker waits before it checks whether the user wants to stop.
pub(super) const LOOK_NS: u64 = SECOND_NS / 5;

/// Bytes of each access of a pass over a whole part.
const PASS_LEN: u32 = 1 << 20;

/// Operations of a worker.
#[derive(Debug)]
pub enum Operations {
    /// Workload without end.
    Workload(Box<Generator>),
    /// Pass over every byte of a part, in order.
    Pass {
        /// Bytes that are left.
        left: Part,
        /// Whether the pass reads; otherwise it writes.
        read: bool,
    },
}

impl Operations {
    fn are_over(&self) -> bool {
        match self {
            Self::Workload(_) => false,
            Self::Pass { left, .. } => left.len == 0,
        }
    }

    /// Returns the next operation. A pass must not be over.
    fn next(&mut self) -> Operation {
        match self {
            Self::Workload(generator) => generator.next_operation(),
            Self::Pass { left, read } => {
                let len = left.len.min(u64::from(PASS_LEN)) as u32;
                let operation = Operation {
                    offset: left.start,
                    len,
                    read: *read,
                    pause_ms: 0,
                };
                left.start += u64::from(len);
                left.len -= u64::from(len);
                operation
            }
        }
    }
}

/// Bytes of a worker's writes, and the treatment of its reads.
#[derive(Debug)]
pub enum Content {
    /// Bytes of a pattern; read data is ignored.
    Plain(DataSource),
    /// Blocks that carry their identity, and that are checked when read.
    Verified(Box<Verifier>),
}

/// Task of a worker.
#[derive(Debug)]
pub struct Task<'a> {
    /// Operations of the worker.
    pub operations: Operations,
    /// Content of the blocks.
    pub content: &'a mut Content,
    /// Most accesses in flight.
    pub outstanding: u32,
    /// Pace at which accesses start.
    pub pacer: Pacer,
    /// Size of the pieces into which larger accesses are split.
    pub max_io: Option<u32>,
    /// Time at which recording starts.
    pub record_from_ns: u64,
    /// Time from which no access starts, if any are still left.
    pub stop_at_ns: u64,
    /// Number of bytes after which no access starts.
    pub amount: Option<u64>,
    /// Flag that is set when the user wants to stop.
    pub stop: &'a AtomicBool,
}

/// Final report of a worker, beside its seconds.
#[derive(Debug, Default)]
pub struct Ended {
    /// Time at which the measured time was over: the end of the last access if none was left to
    /// start, otherwise the time from which no access started.
    pub at_ns: u64,
    /// Accesses that were still in flight when the time was over. Their latencies are recorded,
    /// because a stuck command must not vanish; they are in no rate.
    pub late: Window,
    /// Accesses of an open pace that never started. The rate was not reached then.
    pub unstarted: u64,
    /// Longest time between the ends of two accesses, including late ones.
    pub longest_gap_ns: u64,
    /// Failures by kind: their number, and the words of the first.
    pub failures: BTreeMap<&'static str, (u64, String)>,
    /// Whether the worker gave up because everything failed.
    pub gave_up: bool,
    /// Accesses without an answer that were given up some time after the user wanted to stop. They
    /// are in no figure, and may still reach the device.
    pub abandoned: u64,
}

/// Function that takes a second that is over, and leaves an empty one in its place.
pub type Exchange<'a> = dyn FnMut(&mut Box<Window>) + 'a;

/// Runs a task to its end; `full` takes each second that is over.
///
/// # Errors
/// The system refuses to wait for completions.
pub fn run<E: Environment>(
    environment: &mut E,
    task: Task<'_>,
    full: &mut Exchange<'_>,
) -> io::Result<Ended> {
    let mut worker = Worker {
        environment,
        slots: Slots::new(task.outstanding.max(1)),
        window: Box::default(),
        window_end_ns: task.record_from_ns.saturating_add(SECOND_NS),
        prepared: None,
        begun_bytes: 0,
        pause_until_ns: 0,
        last_success_ns: task.record_from_ns,
        last_over_ns: task.record_from_ns,
        failures_in_a_row: 0,
        time_over_ns: task.stop_at_ns,
        stopping: false,
        abandon_at_ns: u64::MAX,
        ended: Ended::default(),
        task,
        full,
    };
    worker.run()?;
    worker.finish();
    Ok(worker.ended)
}

/// Operation that has not started.
struct Prepared {
    operation: Operation,
    /// Data of a write, once no access in flight conflicts with it.
    data: Option<Pages>,
}

struct Worker<'t, 'r, E> {
    environment: &'r mut E,
    task: Task<'t>,
    slots: Slots,
    window: Box<Window>,
    window_end_ns: u64,
    full: &'r mut Exchange<'r>,
    /// Operation that waits for its time, or for an overlapping access in flight.
    prepared: Option<Prepared>,
    begun_bytes: u64,
    pause_until_ns: u64,
    /// Time at which the last access succeeded.
    last_success_ns: u64,
    /// Time at which the last access ended, successfully or not.
    last_over_ns: u64,
    failures_in_a_row: u32,
    /// Time after which an access that ends is late: the task's time to stop, or an earlier stop of
    /// the worker.
    time_over_ns: u64,
    /// Whether nothing starts any more, for any reason.
    stopping: bool,
    /// Time at which accesses in flight are given up; never, unless the user wants to stop.
    abandon_at_ns: u64,
    ended: Ended,
}

impl<E: Environment> Worker<'_, '_, E> {
    fn run(&mut self) -> io::Result<()> {
        let mut completions = Vec::with_capacity(self.task.outstanding as usize);
        let mut now_ns = self.environment.now_ns();
        loop {
            let next_start_ns = self.start_what_may();
            if self.stopping && self.slots.in_flight() == 0 {
                return Ok(());
            }
            if now_ns >= self.abandon_at_ns {
                self.ended.abandoned = self.slots.in_flight() as u64;
                return Ok(());
            }
            let until_ns = if self.stopping {
                self.abandon_at_ns
            } else {
                next_start_ns.min(self.window_end_ns).min(self.time_over_ns)
            };
            let until_ns = until_ns.min(now_ns.saturating_add(LOOK_NS));
            self.environment.wait(until_ns, &mut completions)?;
            now_ns = self.environment.now_ns();
            for (token, outcome) in completions.drain(..) {
                self.piece_back(token, outcome, now_ns);
            }
            self.roll(now_ns);
            self.stop_if_over(now_ns);
        }
    }

    /// Starts accesses until there is no room, no turn or no more work. Returns the time at which
    /// the next may start, if it waits for time only.
    fn start_what_may(&mut self) -> u64 {
        while !self.stopping && self.slots.has_room() {
            let Some(mut next) = self.prepared.take().or_else(|| self.next_operation()) else {
                self.stopping = true;
                break;
            };
            if self.must_wait(&next.operation) {
                self.prepared = Some(next);
                break;
            }
            if next.data.is_none() && !next.operation.read {
                next.data = Some(match &mut *self.task.content {
                    Content::Plain(source) => source.next_bytes(next.operation.len),
                    Content::Verified(verifier) => verifier.stamp(&next.operation),
                });
            }
            let now_ns = self.environment.now_ns();
            if self.stop_if_over(now_ns) {
                self.prepared = Some(next);
                break;
            }
            let turn = if now_ns < self.pause_until_ns {
                Turn::Wait(self.pause_until_ns)
            } else {
                self.task.pacer.turn(now_ns)
            };
            match turn {
                Turn::Start(start_ns) => self.start(next, start_ns),
                Turn::Wait(until_ns) => {
                    self.prepared = Some(next);
                    return until_ns;
                }
            }
        }
        u64::MAX
    }

    fn next_operation(&mut self) -> Option<Prepared> {
        if self.nothing_is_left() {
            return None;
        }
        let operation = self.task.operations.next();
        self.begun_bytes += u64::from(operation.len);
        Some(Prepared {
            operation,
            data: None,
        })
    }

    /// Reports whether every operation of the task has been taken.
    fn nothing_is_left(&self) -> bool {
        let amount = self.task.amount;
        amount.is_some_and(|amount| self.begun_bytes >= amount) || self.task.operations.are_over()
    }

    /// Reports whether an operation must wait. With verification no write may overlap anything in
    /// flight: otherwise the right content would be unknown.
    fn must_wait(&self, operation: &Operation) -> bool {
        matches!(self.task.content, Content::Verified(_)) && self.slots.conflicts(operation)
    }

    /// Stops starting accesses if the time is over or the user wants to stop.
    fn stop_if_over(&mut self, now_ns: u64) -> bool {
        let is_enough = self.task.stop.load(Ordering::Relaxed);
        if now_ns >= self.time_over_ns || is_enough {
            self.stop_at(now_ns);
        }
        if is_enough {
            let patient_until_ns = now_ns.saturating_add(PATIENCE_NS);
            self.abandon_at_ns = self.abandon_at_ns.min(patient_until_ns);
        }
        self.stopping
    }

    fn stop_at(&mut self, now_ns: u64) {
        self.stopping = true;
        self.time_over_ns = self.time_over_ns.min(now_ns);
    }

    fn start(&mut self, Prepared { operation, data }: Prepared, start_ns: u64) {
        if operation.pause_ms > 0 {
            self.pause_until_ns = start_ns + u64::from(operation.pause_ms) * 1_000_000;
        }
        let piece_len = self.task.max_io.unwrap_or(operation.len).min(operation.len);
        let pieces = operation.len.div_ceil(piece_len);
        let place = self.slots.put(InFlight {
            operation,
            start_ns,
            pieces_left: pieces,
            failed: false,
        });
        for piece in 0..pieces {
            let at = piece * piece_len;
            let len = piece_len.min(operation.len - at);
            let request = request(&operation, data.as_ref(), at, len);
            let token = u64::from(piece) << 32 | u64::from(place);
            if let Some(outcome) = self.environment.submit(request, token) {
                let now_ns = self.environment.now_ns();
                self.piece_back(token, outcome, now_ns);
            }
        }
    }

    #[inline]
    fn piece_back(&mut self, token: u64, outcome: Outcome, now_ns: u64) {
        let place = token as u32;
        let failed = match outcome {
            Ok(done) => {
                self.check(place, (token >> 32) as u32, done);
                false
            }
            Err(error) => {
                self.note_failure(&error);
                true
            }
        };
        if let Some(access) = self.slots.piece_back(place, failed) {
            self.over(&access, now_ns);
        }
    }

    /// Passes bytes that were read to the verifier.
    #[inline]
    fn check(&mut self, place: u32, piece: u32, done: Done) {
        let (Content::Verified(verifier), Some(access)) =
            (&mut *self.task.content, self.slots.get(place))
        else {
            return;
        };
        let operation = access.operation;
        if !operation.read {
            return;
        }
        let piece_len = self.task.max_io.unwrap_or(operation.len);
        let at = u64::from(piece) * u64::from(piece_len);
        let asked = u64::from(piece_len).min(u64::from(operation.len) - at);
        match done {
            Done::Pages(pages) if pages.len() as u64 == asked => {
                verifier.check(operation.offset + at, &pages);
            }
            _ => verifier.read_short(),
        }
    }

    /// Handles an access that has ended.
    #[inline]
    fn over(&mut self, access: &InFlight, now_ns: u64) {
        if let (Content::Verified(verifier), false) =
            (&mut *self.task.content, access.operation.read)
        {
            verifier.written(&access.operation, !access.failed);
        }
        if access.failed {
            self.failures_in_a_row += 1;
            if self.failures_in_a_row >= MAX_FAILURES_IN_A_ROW && !self.stopping {
                self.ended.gave_up = true;
                self.stop_at(now_ns);
            }
        } else {
            self.failures_in_a_row = 0;
        }
        if now_ns < self.task.record_from_ns {
            return;
        }
        self.roll(now_ns);
        self.last_over_ns = now_ns;
        let late = now_ns > self.time_over_ns;
        let window = if late {
            &mut self.ended.late
        } else {
            &mut *self.window
        };
        let direction = if access.operation.read {
            &mut window.read
        } else {
            &mut window.write
        };
        if access.failed {
            direction.errors += 1;
            return;
        }
        direction
            .latencies
            .record(now_ns.saturating_sub(access.start_ns));
        direction.bytes += u64::from(access.operation.len);
        self.ended.longest_gap_ns = self
            .ended
            .longest_gap_ns
            .max(now_ns.saturating_sub(self.last_success_ns));
        self.last_success_ns = now_ns;
    }

    #[cold]
    fn note_failure(&mut self, error: &BlockError) {
        let kind = kind_name(error.kind());
        let entry = self.ended.failures.entry(kind);
        entry.or_insert_with(|| (0, error.to_string())).0 += 1;
    }

    /// Passes on the seconds that are over.
    #[inline]
    fn roll(&mut self, now_ns: u64) {
        while now_ns >= self.window_end_ns && self.window_end_ns < self.time_over_ns {
            self.hand_out();
            self.window_end_ns = self.window_end_ns.saturating_add(SECOND_NS);
        }
    }

    fn hand_out(&mut self) {
        let second = self.window.second;
        (self.full)(&mut self.window);
        self.window.restart(second + 1);
    }

    fn finish(&mut self) {
        // The time to stop and the end are two things. A run that has done all its work is over
        // with its last access, however much time was left.
        let all_started = self.prepared.is_none() && self.nothing_is_left();
        self.ended.at_ns = if all_started {
            self.last_over_ns.min(self.time_over_ns)
        } else {
            self.time_over_ns
        };
        let gap_ns = self.ended.at_ns.saturating_sub(self.last_success_ns);
        self.ended.longest_gap_ns = self.ended.longest_gap_ns.max(gap_ns);
        if !all_started {
            self.ended.unstarted = self.task.pacer.unstarted(self.ended.at_ns);
        }
        (self.full)(&mut self.window);
    }
}

fn request(operation: &Operation, data: Option<&Pages>, at: u32, len: u32) -> Request {
    let offset = operation.offset + u64::from(at);
    match data {
        None => Request::Read { offset, len },
        Some(data) => Request::Write {
            offset,
            data: data.slice(at as usize..(at + len) as usize),
            durable: false,
        },
    }
}

/// Returns the stable word for a kind of failure.
fn kind_name(kind: BlockErrorKind) -> &'static str {
    match kind {
        BlockErrorKind::Medium => "medium",
        BlockErrorKind::Write => "write",
        BlockErrorKind::NoSpace => "no-space",
        BlockErrorKind::ReadOnly => "read-only",
        BlockErrorKind::Reserved => "reserved",
        BlockErrorKind::Gone => "gone",
        BlockErrorKind::Away => "away",
        BlockErrorKind::OutOfRange => "out of range",
        BlockErrorKind::Invalid => "invalid",
    }
}

#[cfg(test)]
mod tests;
