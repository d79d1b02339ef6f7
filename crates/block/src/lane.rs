//! A loop's own I/O lane: its io_uring (or threads that may block), its timers, its completion
//! queue.
//!
//! Each event loop owns one lane and passes it to every [`BlockDevice::submit`]. Once per turn the
//! loop calls [`Lane::submit_batch`] and [`Lane::take_completions`]. To sleep, it waits for
//! [`Lane::poll_fd`], the waker and [`Lane::next_deadline`]. A loop without a poller calls
//! [`Lane::wait`].

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use smallvec::SmallVec;

use super::blocking_threads::{self, Share};
use super::transfer::Transfer;
use super::uring::Ring;
use super::{
    BlockDevice, BlockError, BlockErrorKind, Done, Request, Submitted, clock, kernel_file,
};

mod bell;
mod bundle;
mod gathered;
mod resident;
mod standing;

pub use bundle::Bundle;
pub use gathered::Gathered;
pub use resident::Resident;
use resident::Residents;
use standing::Sleep;
pub use standing::ask;

/// Longest wait of a lane that ends for requests that serve nobody any more.
const PATIENCE: Duration = Duration::from_secs(1);

/// Outcome of one request.
pub type Outcome = Result<Done, BlockError>;

/// Function that wakes the loop of a lane; called from other threads.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// Wrapper's view of requests that finish later.
pub trait Observer: Send + Sync + fmt::Debug {
    /// Handles the end of a request that was observed with `cookie`; may change the outcome.
    fn completed(&self, cookie: u64, outcome: Outcome) -> Outcome;
}

/// Request that goes on when others, which serve it, end.
pub trait Continuation: Send + Sync + fmt::Debug {
    /// Takes the outcome of a request that served this one. `part` is its number in
    /// [`Ticket::serving`].
    fn go_on(self: Arc<Self>, part: u32, outcome: Outcome, lane: &mut Lane);
}

/// Work that a lane does at a time that was set for it.
pub trait Alarm: Send + Sync + fmt::Debug {
    /// Does the work.
    fn ring(self: Arc<Self>, lane: &mut Lane);
}

/// Identity of a request: tells whose completion it is, and which wrappers observe it.
#[derive(Debug)]
pub struct Ticket {
    owner: Owner,
    /// Observers, the innermost wrapper last.
    observers: SmallVec<[(Arc<dyn Observer>, u64); 1]>,
}

/// Receiver of a completion.
#[derive(Clone, Debug)]
enum Owner {
    /// The loop, by its name for the request.
    Loop(u64),
    /// Request that this one serves, and the number of this one there.
    Request(Arc<dyn Continuation>, u32),
}

impl Ticket {
    /// Creates a ticket that comes back as `token`.
    #[inline]
    pub fn new(token: u64) -> Self {
        Self::of(Owner::Loop(token))
    }

    /// Creates the ticket of a request that serves another one, as its part of this number. The
    /// other one goes on when it ends. The loop does not see the completion.
    pub fn serving(other: Arc<dyn Continuation>, part: u32) -> Self {
        Self::of(Owner::Request(other, part))
    }

    #[inline]
    fn of(owner: Owner) -> Self {
        Self {
            owner,
            observers: SmallVec::new(),
        }
    }

    /// Lets `observer` see the completion. A wrapper calls this before it passes the ticket on.
    /// [`Submitted::Ready`] reaches the wrapper directly; the observer is then not called.
    pub fn observe(&mut self, observer: Arc<dyn Observer>, cookie: u64) {
        self.observers.push((observer, cookie));
    }
}

/// One event loop's access to block devices.
pub struct Lane {
    number: usize,
    /// Number of pending requests.
    in_flight: usize,
    /// Number of pending requests that pools' threads work on.
    at_pools: usize,
    /// Number of pending requests that serve others.
    serving: usize,
    /// Finished requests that were not taken yet.
    finished: Vec<(u64, Outcome)>,
    timers: BinaryHeap<Reverse<Timer>>,
    timers_made: u64,
    inbox: Arc<Inbox>,
    ring: Option<Ring>,
    /// Answered transfers. The list is kept between turns to spare its allocation.
    answered: Vec<(Transfer, io::Result<usize>)>,
    residents: Residents,
    /// Requests for other threads, which leave with the batch.
    gathered: gathered::All,
    /// Place where a lane without a poller sleeps.
    sleep: Option<Sleep>,
    /// Whether nobody waits for the pending requests.
    is_abandoned: bool,
}

/// Handle that brings outcomes from other threads to a lane.
#[derive(Clone)]
pub struct Remote {
    inbox: Arc<Inbox>,
    /// Whether the handle belongs to a pool's thread.
    is_pools: bool,
}

/// Inbox in which other threads put outcomes.
struct Inbox {
    /// Flag that spares the lock. It also spares the waker if the loop was woken and did not look
    /// yet.
    filled: AtomicBool,
    /// Number of calls of the waker.
    wakes: AtomicU64,
    outcomes: Mutex<Vec<Delivery>>,
    waker: Waker,
}

/// Outcome on its way to a lane.
struct Delivery {
    ticket: Ticket,
    outcome: Outcome,
    is_pools: bool,
}

/// Work that waits for its time.
struct Timer {
    deadline: Instant,
    /// Number that keeps timers with equal deadlines in order.
    number: u64,
    work: Due,
}

/// Work of a timer.
enum Due {
    /// Request that is held back.
    Request(Arc<dyn BlockDevice>, Request, Ticket),
    /// Work that is not a request.
    Alarm(Arc<dyn Alarm>),
}

impl Lane {
    /// Creates a lane for the loop that `waker` wakes. The lane uses io_uring if the kernel allows
    /// it, and otherwise threads that may block.
    pub fn new(waker: Waker) -> Self {
        Self::with(Ring::new().ok(), waker)
    }

    /// Creates a lane that only uses threads that may block.
    pub fn without_io_uring(waker: Waker) -> Self {
        Self::with(None, waker)
    }

    fn with(ring: Option<Ring>, waker: Waker) -> Self {
        static LANES: AtomicUsize = AtomicUsize::new(0);
        Self {
            number: LANES.fetch_add(1, Ordering::Relaxed),
            in_flight: 0,
            at_pools: 0,
            serving: 0,
            finished: Vec::new(),
            timers: BinaryHeap::new(),
            timers_made: 0,
            inbox: Arc::new(Inbox {
                filled: AtomicBool::new(false),
                wakes: AtomicU64::new(0),
                outcomes: Mutex::new(Vec::new()),
                waker,
            }),
            ring,
            answered: Vec::new(),
            residents: Residents::default(),
            gathered: gathered::All::default(),
            sleep: None,
            is_abandoned: false,
        }
    }

    /// Returns the lane's number in this process, counted from 0. It serves counters that lanes
    /// must not share.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Returns how often other threads woke the loop of the lane, or would have if it had slept.
    pub fn wakes(&self) -> u64 {
        self.inbox.wakes.load(Ordering::Relaxed)
    }

    /// Returns a descriptor that is readable while completions wait. Register it in the loop's
    /// poller. `None`: all completions come through the waker.
    ///
    /// The kernel may also end the poll with EINTR to finish I/O. Treat this as an ordinary
    /// wake-up.
    pub fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        let ring = || self.ring.as_ref().map(Ring::poll_fd);
        self.residents.watch().or_else(ring)
    }

    /// Starts the requests submitted since the last call. Call it once per turn of the loop, before
    /// the loop sleeps.
    pub fn submit_batch(&mut self) {
        self.hand_over();
        if let Some(ring) = &mut self.ring {
            ring.submit();
        }
        self.each_resident(|resident, lane| resident.flush(lane));
    }

    /// Appends `(token, outcome)` of every request that finished. Call it once per turn of the
    /// loop, and whenever the loop was woken.
    pub fn take_completions(&mut self, completions: &mut Vec<(u64, Outcome)>) {
        // Requests that a timer passes to a resident leave within this turn.
        self.fire_timers();
        self.each_resident(|resident, lane| resident.turn(lane));
        self.take_finished(completions);
    }

    /// Appends outcomes like [`Lane::take_completions`], but skips the sockets of residents, whose
    /// check costs a system call. It serves loops that call [`Lane::wait`] when no outcome is there
    /// yet.
    pub fn take_finished(&mut self, completions: &mut Vec<(u64, Outcome)>) {
        self.fire_timers();
        self.reap_ring();
        let filled = &self.inbox.filled;
        // A look leaves the flag with the processors of the threads that set it.
        if filled.load(Ordering::Relaxed) && filled.swap(false, Ordering::Acquire) {
            let outcomes = std::mem::take(
                &mut *self
                    .inbox
                    .outcomes
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner),
            );
            for delivery in outcomes {
                self.at_pools -= usize::from(delivery.is_pools);
                self.complete(delivery.ticket, delivery.outcome);
            }
        }
        // Requests that go on must not wait for the loop's next turn.
        self.hand_over();
        self.in_flight -= self.finished.len();
        if !self.finished.is_empty() {
            self.worked();
        }
        completions.append(&mut self.finished);
    }

    /// Returns the latest time at which the loop must call [`Lane::take_completions`]; `None` for
    /// never.
    pub fn next_deadline(&self) -> Option<Instant> {
        if !self.finished.is_empty() || !self.gathered.is_empty() {
            return Some(clock::now());
        }
        let timer = self.timers.peek().map(|timer| timer.0.deadline);
        let residents = self.residents.all.iter();
        timer
            .into_iter()
            .chain(residents.filter_map(|resident| resident.next_deadline()))
            .min()
    }

    /// Returns the number of pending requests, including those finished but not taken.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Passes `request` to `device` at `deadline`. The answer is [`Submitted::Pending`].
    pub fn submit_later(
        &mut self,
        deadline: Instant,
        device: Arc<dyn BlockDevice>,
        request: Request,
        ticket: Ticket,
    ) -> Submitted {
        self.in_flight += 1;
        self.add_timer(deadline, Due::Request(device, request, ticket));
        Submitted::Pending
    }

    /// Rings an alarm at `deadline`, unless the lane ends before.
    pub fn set_alarm(&mut self, deadline: Instant, alarm: Arc<dyn Alarm>) {
        self.add_timer(deadline, Due::Alarm(alarm));
    }

    fn add_timer(&mut self, deadline: Instant, work: Due) {
        self.timers_made += 1;
        self.timers.push(Reverse(Timer {
            deadline,
            number: self.timers_made,
            work,
        }));
    }

    /// Runs `job` on a thread that may block; the result of the job is the outcome. The answer is
    /// [`Submitted::Pending`].
    pub fn run_blocking(
        &mut self,
        ticket: Ticket,
        job: impl FnOnce() -> Outcome + Send + 'static,
    ) -> Submitted {
        blocking_threads::run(self.blocking_job(ticket, job));
        Submitted::Pending
    }

    /// Runs a job that a device may keep for long, on a thread of the device's share.
    pub(super) fn run_blocking_in(
        &mut self,
        share: &Share,
        ticket: Ticket,
        job: impl FnOnce() -> Outcome + Send + 'static,
    ) -> Submitted {
        share.run(self.blocking_job(ticket, job));
        Submitted::Pending
    }

    fn blocking_job(
        &mut self,
        ticket: Ticket,
        job: impl FnOnce() -> Outcome + Send + 'static,
    ) -> Box<dyn FnOnce() + Send> {
        self.in_flight += 1;
        let remote = self.remote();
        Box::new(move || {
            // A request is always answered, even if its job panics.
            let outcome = std::panic::catch_unwind(AssertUnwindSafe(job))
                .unwrap_or_else(|_| Err(BlockError::new(BlockErrorKind::Gone, "a job panicked")));
            remote.complete(ticket, outcome);
        })
    }

    /// Abandons the pending requests: nobody waits for them, not even the code that drops the lane.
    /// It serves a program that ends although a device hangs. The requests' memory leaks, and their
    /// writes may still reach the device.
    pub fn abandon(&mut self) {
        self.is_abandoned = true;
    }

    /// Counts a request that becomes pending. Exactly one completion follows.
    pub fn count_pending(&mut self) {
        self.in_flight += 1;
    }

    /// Counts that a request with [`Ticket::serving`] became pending at a device. The request that
    /// it serves is counted by [`Lane::count_pending`], as long as it is pending.
    pub fn count_serving(&mut self) {
        self.serving += 1;
    }

    /// Takes back [`Lane::count_pending`] for a request that is counted again elsewhere.
    pub fn uncount_pending(&mut self) {
        self.in_flight -= 1;
    }

    /// Returns the handle with which other threads reach this lane.
    pub fn remote(&self) -> Remote {
        Remote {
            inbox: Arc::clone(&self.inbox),
            is_pools: false,
        }
    }

    /// Returns the handle for a pool's thread. Its counterpart is [`Lane::count_at_pool`].
    pub fn remote_of_pool(&self) -> Remote {
        Remote {
            is_pools: true,
            ..self.remote()
        }
    }

    /// Counts a request that a pool's thread took. Exactly one completion follows, by
    /// [`Lane::remote_of_pool`].
    pub fn count_at_pool(&mut self) {
        self.at_pools += 1;
        self.count_pending();
    }

    /// Starts a transfer with the next batch, or on the blocking threads if there is no io_uring.
    pub(super) fn start(&mut self, transfer: Transfer) {
        match &mut self.ring {
            Some(ring) => ring.push(transfer),
            None => kernel_file::run_on_thread(transfer, self.remote()),
        }
    }

    fn reap_ring(&mut self) {
        let Some(ring) = self.ring.as_mut().filter(|ring| ring.in_flight() > 0) else {
            return;
        };
        let mut answered = std::mem::take(&mut self.answered);
        ring.reap(&mut answered);
        for (transfer, moved) in answered.drain(..) {
            kernel_file::answered(transfer, moved, self);
        }
        self.answered = answered;
        // Transfers that go on must not wait for the loop's next turn.
        self.submit_batch();
    }

    /// Queues the outcome of a pending request.
    pub fn complete(&mut self, ticket: Ticket, outcome: Outcome) {
        let Ticket {
            owner,
            mut observers,
        } = ticket;
        let mut outcome = outcome;
        while let Some((observer, cookie)) = observers.pop() {
            outcome = observer.completed(cookie, outcome);
        }
        match owner {
            Owner::Loop(token) => self.finished.push((token, outcome)),
            Owner::Request(other, part) => {
                self.in_flight -= 1;
                self.serving -= 1;
                other.go_on(part, outcome, self);
            }
        }
    }

    fn fire_timers(&mut self) {
        if self.timers.is_empty() {
            return;
        }
        let now = clock::now();
        while self
            .timers
            .peek()
            .is_some_and(|timer| timer.0.deadline <= now)
        {
            let Some(Reverse(timer)) = self.timers.pop() else {
                return;
            };
            let (device, request, ticket) = match timer.work {
                Due::Request(device, request, ticket) => (device, request, ticket),
                Due::Alarm(alarm) => {
                    alarm.ring(self);
                    continue;
                }
            };
            // The device counts the request again while it is pending there.
            self.in_flight -= 1;
            // Wrappers above the delay were told that the request is pending, so they must see its
            // end even if the device answers at once.
            let seen_by = Ticket {
                owner: ticket.owner.clone(),
                observers: ticket.observers.clone(),
            };
            if let Submitted::Ready(outcome) = device.submit(request, ticket, self) {
                self.in_flight += 1;
                self.complete(seen_by, outcome);
            }
        }
    }
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lane")
            .field("number", &self.number)
            .field("in_flight", &self.in_flight)
            .finish_non_exhaustive()
    }
}

impl Drop for Lane {
    /// Waits for the requests in the kernel and in the pool. Their memory must stay, and no write
    /// may reach a device after its requester is gone. Requests held back by a timer are forgotten.
    /// Abandoned requests are not waited for.
    fn drop(&mut self) {
        for Reverse(timer) in std::mem::take(&mut self.timers) {
            match timer.work {
                // A request that is waited for may need it.
                Due::Alarm(_) => self.timers.push(Reverse(timer)),
                Due::Request(_, _, ticket) if matches!(ticket.owner, Owner::Loop(_)) => {
                    self.in_flight -= 1;
                }
                // The request that it serves is waited for.
                Due::Request(_, _, ticket) => {
                    let error = BlockError::new(BlockErrorKind::Gone, "its loop ended");
                    self.complete(ticket, Err(error));
                }
            }
        }
        self.each_resident(|resident, lane| resident.leave(lane));
        self.hand_over();
        if self.is_abandoned {
            // The ring never frees memory to which the kernel may still write.
            return;
        }
        let mut taken = Vec::new();
        let mut only_serving_since = None;
        loop {
            self.take_completions(&mut taken);
            taken.clear();
            if self.in_flight == 0 {
                return;
            }
            if self.in_flight == self.serving {
                // Nobody waits for what they bring. A device that hangs may keep them for ever.
                let since = *only_serving_since.get_or_insert_with(Instant::now);
                if since.elapsed() > PATIENCE {
                    return;
                }
            }
            // Alarms ring meanwhile.
            let may_sleep = self.timers.is_empty() && self.serving == 0;
            let ring = self.ring.as_mut();
            match ring
                .filter(|ring| may_sleep && ring.in_flight() > 0)
                .map(Ring::wait)
            {
                Some(Ok(())) => {}
                // The ring is broken. Its memory leaks, because reuse would be unsafe.
                Some(Err(_)) => return,
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").finish_non_exhaustive()
    }
}

impl Remote {
    /// Reports whether both handles lead to one lane.
    fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inbox, &other.inbox) && self.is_pools == other.is_pools
    }

    /// Queues the outcome of a pending request and wakes the loop.
    pub fn complete(&self, ticket: Ticket, outcome: Outcome) {
        self.deliver(|outcomes| {
            outcomes.push(Delivery {
                ticket,
                outcome,
                is_pools: self.is_pools,
            });
        });
    }

    /// Lets `put` queue outcomes, and wakes the loop.
    fn deliver(&self, put: impl FnOnce(&mut Vec<Delivery>)) {
        let inbox = &self.inbox;
        let outcomes = inbox.outcomes.lock();
        put(&mut outcomes.unwrap_or_else(PoisonError::into_inner));
        if !inbox.filled.swap(true, Ordering::Release) {
            inbox.wakes.fetch_add(1, Ordering::Relaxed);
            (inbox.waker)();
        }
    }
}

impl PartialEq for Timer {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Timer {}

impl PartialOrd for Timer {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timer {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.deadline, self.number).cmp(&(other.deadline, other.number))
    }
}

#[cfg(test)]
mod tests;
