//! Thread of an open pool. It takes orders, sends requests to devices, returns answers and tells
//! the engine the time.

mod absence;
pub(super) mod ahead_queue;
pub(super) mod answer;
pub(super) mod attempt;
mod ending;
mod farewell;
pub(super) mod spare_time;
pub(super) mod unflushed;

use std::any::Any;
use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use store::catalog::HistoryEntry;
use store::engine::{
    Answer, Event, Output, Plan, Pool, PoolError, Request, RequestId, ScanKind, ScanState,
};
use store::format::DatasetId;
use store::map::hash::BuildNumberHasher;
use store::vdev::{DeviceOutcome, IoId, VdevEvent, VdevState};

use self::absence::Absence;
use self::ending::{asks_for_the_end, closed, is_for_a_stopped_pool, refuse};
use self::farewell::Farewell;
use super::events::{tell, tell_scan, tell_trim, tell_unaccounted};
use crate::clock::{Clock, wall_clock_s};
use crate::devices::system::machine;
use crate::engine::ahead_queue::AheadQueue;
use crate::engine::answer::outcome;
use crate::engine::spare_time::SpareTime;
use crate::engine::unflushed::Unflushed;
use crate::import::damaged::Damaged;
use crate::import::opened_devices::Devices;
use crate::import::opening::{self, NotOpen, Opened};
use crate::order::{Asked, Hands, Order, Reply};
use crate::read_ahead::Awaited;
use crate::setup::Setup;
use crate::shared::Shared;
use block::Ticket;
use block::lane::{Bundle, Remote};
use block::spin::{self, Spin};
use model::event::Severity;

/// Number of clock ticks in a row that may bring nothing before the thread naps. A defect then
/// costs some wake-ups, not a core.
const VAIN_TICKS: u32 = 1000;
const NAP: Duration = Duration::from_millis(1);
/// Least number of device answers that one turn handles. The results are then handed on, so that
/// devices and waiting callers have work while the rest is handled.
///
/// Devices answer in bursts. With 16, all requests of a deep queue went around together, and the
/// device was idle while the processor worked. Measured with 32 reads outstanding: 15 % fewer with
/// 16 than with 4, and 3 % fewer with 4 than with 2.
const ANSWERS_AT_ONCE: usize = 2;
/// Divisor of the waiting device answers that a turn handles at once. The parts of one long read
/// arrive together. One turn for each part would cost more than the parts wait.
const SHARE_AT_ONCE: usize = 16;
/// Time for which a closing pool waits for a device that was given up, once all other data is on
/// the devices.
const PATIENCE: Duration = Duration::from_secs(2);

/// Thread of a pool.
pub(super) struct Engine {
    /// Pool, or `None` while it is shut ([`Shared::shut`] holds the reason): after a defect, or
    /// until the pool is reopened.
    pool: Option<Box<Pool>>,
    devices: Devices,
    clock: Clock,
    shared: Arc<Shared>,
    /// Waiter of each request.
    waiting: HashMap<u64, Waiter, BuildNumberHasher>,
    next_id: u64,
    closing: Option<Closing>,
    is_over: bool,
    /// Writes that were answered but are not durable yet, by volume.
    unflushed: Unflushed,
    damaged: Damaged,
    /// Missing devices that will be used again without a request.
    absence: Absence,
    /// Orders taken from the inbox that are not obeyed yet.
    orders: VecDeque<Order>,
    /// Ranges to read ahead when devices have little to read.
    ahead: AheadQueue,
    /// Requests of this turn. The buffer is kept between turns, to save allocations.
    batch: Vec<(RequestId, Request)>,
    answers: Vec<(IoId, DeviceOutcome)>,
    output: Output,
    /// Answers to lanes, which leave together.
    bundle: Bundle,
    vain_ticks: u32,
    spare_time: SpareTime,
    spin: Spin,
    /// [`Pool::given_up`] when lanes were last told which devices they may read.
    given_up: u64,
    /// Kind and state of the scan when the engine was last asked.
    scan: Option<(ScanKind, ScanState)>,
    /// Whether the waiting callers were told that another host has the pool, or may have it.
    has_stopped: bool,
}

enum Waiter {
    Lane {
        ticket: Ticket,
        /// Lane of all requests that came with this one. The lane's own count of handles changes
        /// once for all of them.
        lane: Arc<Remote>,
        /// Volume that the request changes, if the change is not durable when the request is
        /// answered.
        volatile: Option<DatasetId>,
        /// Range that the request reads, for the read-ahead.
        awaited: Option<Awaited>,
    },
    Administrator(Reply),
    Stream(Sender<Result<Answer, PoolError>>),
    /// Device that the pool no longer needs once the labels say so.
    Farewell(Farewell),
    /// No waiter: the request is a history line that the pool wrote on its own.
    Nobody,
}

struct Closing {
    is_exported: bool,
    reply: Reply,
    since: Instant,
}

impl Engine {
    pub(super) fn new(opened: Opened, devices: Devices, shared: Arc<Shared>) -> Self {
        let mut engine = Self {
            pool: None,
            devices,
            clock: opened.clock,
            shared,
            waiting: HashMap::default(),
            next_id: 0,
            closing: None,
            is_over: false,
            unflushed: Unflushed::default(),
            damaged: Damaged::default(),
            absence: Absence::default(),
            orders: VecDeque::new(),
            ahead: AheadQueue::default(),
            batch: Vec::new(),
            answers: Vec::new(),
            output: Output::default(),
            bundle: Bundle::default(),
            vain_ticks: 0,
            spare_time: SpareTime::default(),
            spin: Spin::new(spin::FOR_A_POOL, Instant::now()),
            given_up: 0,
            scan: None,
            has_stopped: false,
        };
        engine.adopt(opened);
        engine
    }

    /// Starts to work with an opened pool.
    fn adopt(&mut self, opened: Opened) {
        for event in &opened.events {
            self.damaged.heed(event);
            tell(event, &opened.pool, &self.shared);
        }
        if !opened.unaccounted.is_empty() {
            tell_unaccounted(&opened.unaccounted, &opened.pool, &self.shared);
        }
        self.clock = opened.clock;
        (self.scan, self.has_stopped) = (None, false);
        self.absence = Absence::default();
        let until_us = opened.pool.owned_until_us();
        self.pool = Some(Box::new(opened.pool));
        self.own_until(until_us);
        self.serve_directly();
        // A device that is offline is let go until the user asks for it.
        self.unused();
    }

    /// Works until the pool is closed or abandoned.
    pub(super) fn run(mut self) {
        while !self.is_over {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.turn())) {
                self.fail(&said(&*panic));
            }
        }
        self.devices.direct().stop();
        self.release_devices();
        for order in self.shared.end() {
            refuse(order, &closed(self.shared.name()), true);
        }
        self.give_up(&closed(self.shared.name()));
    }

    fn turn(&mut self) {
        self.shared.take(&mut self.orders);
        let mut answers = std::mem::take(&mut self.answers);
        self.devices.take(&mut answers);
        // This comes first: the devices have work while their answers are handled.
        let mut handed = self.read_ahead();
        let is_quiet = self.orders.is_empty() && answers.is_empty();
        let count = ANSWERS_AT_ONCE.max(answers.len() / SHARE_AT_ONCE);
        let some = answers.drain(..answers.len().min(count));
        if let Some(pool) = &mut self.pool {
            pool.completed_all(some, self.clock.now_us());
        } else {
            drop(some);
        }
        self.answers = answers;
        while let Some(order) = self.orders.pop_front() {
            self.obey(order);
        }
        self.submit_batch();
        // This comes before work that nobody waits for.
        handed = handed.and(self.hand_out()).and(self.read_ahead());
        let is_late = self.tick(&handed);
        if is_late {
            handed = handed.and(self.hand_out());
        }
        // Starts requests that the engine began on its own meanwhile, and reads that are repeated
        // in parts.
        self.devices.start_batch();
        self.close_when_at_rest();
        if !is_quiet || handed.is_any {
            self.vain_ticks = 0;
            self.spin.worked(Instant::now());
        } else if self.spin.go_on(Instant::now()) {
            // The callers and the devices may need this very processor. Entering the kernel also
            // brings completions.
            std::thread::yield_now();
        } else if !self.is_over {
            self.sleep(is_late);
            self.spin.slept(Instant::now());
        }
    }

    /// Lets devices read ahead while they have little to read, and returns the results.
    fn read_ahead(&mut self) -> Handed {
        let mut handed = Handed::default();
        while !self.ahead.is_empty()
            && self.devices.have_little_to_read()
            && let Some(pool) = &mut self.pool
            && let Some((dataset, bytes)) = self.ahead.pop()
        {
            pool.read_ahead(dataset, bytes, self.clock.now_us());
            handed = handed.and(self.hand_out());
        }
        handed
    }

    /// Gives the engine all requests that arrived together.
    fn submit_batch(&mut self) {
        if let Some(pool) = self.pool.as_mut().filter(|_| !self.batch.is_empty()) {
            pool.submit_all(self.batch.drain(..), self.clock.now_us());
        }
    }

    fn obey(&mut self, order: Order) {
        if !matches!(order, Order::Serve { .. }) {
            self.submit_batch();
        }
        let now_us = self.clock.now_us();
        if self.is_stopped() && !is_for_a_stopped_pool(&order) {
            self.stop();
            // An order to end ends the thread.
            self.is_over |= asks_for_the_end(&order);
            return refuse(order, &self.shared.ended(), self.absence.is_needed);
        }
        let is_allowed = matches!(order, Order::Ask(_) | Order::Abandon);
        if self.closing.is_some() && !is_allowed {
            // Another unit at once stands in for each logical unit on this pool: initiators repeat
            // their commands.
            return refuse(order, &closed(self.shared.name()), true);
        }
        let order = match order {
            // The requester may have stopped waiting.
            Order::LetGo { reply } => return drop(reply.send(self.let_go())),
            Order::Reopen { setup, reply } => {
                let reopened = self.reopen(*setup);
                self.shared.end_opening();
                return drop(reply.send(reopened));
            }
            Order::Serve { requests, lane } if self.pool.is_some() => {
                let lane = Arc::new(lane);
                let each = requests.into_iter();
                return each.for_each(|asked| self.serve(asked, &lane));
            }
            order => order,
        };
        let Some(pool) = &mut self.pool else {
            // An order to end ends the thread.
            self.is_over |= asks_for_the_end(&order);
            return refuse(order, &self.shared.ended(), self.absence.is_needed);
        };
        match order {
            Order::ReadAhead { dataset, bytes } => self.ahead.push(dataset, bytes),
            Order::Publish { dataset, blocks } => pool.publish_ahead(dataset, blocks, now_us),
            Order::Stream { request, reply } => {
                self.next_id += 1;
                self.waiting.insert(self.next_id, Waiter::Stream(reply));
                pool.submit(RequestId(self.next_id), request, now_us);
            }
            Order::Administer { plan, reply } => {
                self.next_id += 1;
                let waiter = Waiter::Administrator(reply);
                self.waiting.insert(self.next_id, waiter);
                let id = RequestId(self.next_id);
                // New datasets get the time of their creation.
                pool.tick(now_us, wall_clock_s());
                pool.administer(id, plan, super::random_u64(), now_us);
            }
            Order::Ask(question) => question(pool),
            Order::Handle(work) => {
                let mut hands = Hands {
                    pool,
                    devices: &mut self.devices,
                    unflushed: &mut self.unflushed,
                    damaged: &mut self.damaged,
                    shared: &self.shared,
                    now_us,
                };
                work(&mut hands);
            }
            Order::Sync { reply } => {
                self.next_id += 1;
                let waiter = Waiter::Administrator(reply);
                self.waiting.insert(self.next_id, waiter);
                pool.sync(RequestId(self.next_id), now_us);
            }
            Order::RemoveLog { vdev, reply } => {
                self.next_id += 1;
                let waiter = Waiter::Administrator(reply);
                self.waiting.insert(self.next_id, waiter);
                pool.remove_log(RequestId(self.next_id), vdev, now_us);
            }
            Order::Close { is_exported, reply } => {
                self.ahead.clear();
                pool.begin_closing(is_exported, now_us);
                let since = Instant::now();
                self.closing = Some(Closing {
                    is_exported,
                    reply,
                    since,
                });
                self.devices.direct().stop();
            }
            Order::Abandon => self.is_over = true,
            // These orders were obeyed above.
            Order::Serve { .. } | Order::LetGo { .. } | Order::Reopen { .. } => {}
        }
    }

    /// Reports whether the pool stopped because another host has it, or may have it.
    fn is_stopped(&self) -> bool {
        let pool = self.pool.as_ref();
        pool.is_some_and(|pool| pool.stopped().is_some())
    }

    /// Checks the clock before anything leaves the engine. A machine that was paused learns first
    /// that another host may own its pool.
    fn look_at_clock(&mut self) {
        let Some(pool) = &mut self.pool else { return };
        let until_us = pool.owned_until_us();
        if until_us < u64::MAX && pool.stopped().is_none() {
            let now_us = self.clock.now_us();
            if now_us >= until_us {
                pool.tick(now_us, wall_clock_s());
            }
        }
        let until_us = pool.owned_until_us();
        self.own_until(until_us);
    }

    /// Lets lanes read beside the engine while the pool is served.
    fn serve_directly(&mut self) {
        self.given_up = self.pool.as_ref().map_or(0, |pool| pool.given_up());
        match &self.pool {
            Some(pool) if self.closing.is_none() && pool.stopped().is_none() => {
                self.devices.serve_directly(pool);
            }
            _ => self.devices.direct().stop(),
        }
    }

    /// Tells the threads that answer from memory until when they may do so.
    fn own_until(&self, until_us: u64) {
        self.shared.own_until(match until_us {
            u64::MAX => u64::MAX,
            until_us => self.clock.since_boot_us(until_us),
        });
    }

    /// Takes a volume's request. It goes to the engine together with the other requests of the
    /// turn.
    fn serve(&mut self, asked: Asked, lane: &Arc<Remote>) {
        let Asked {
            request,
            awaited,
            ticket,
        } = asked;
        if let Some(error) = self.unflushed.refusal(&request) {
            return lane.complete(ticket, Err(error));
        }
        if let Request::Read {
            dataset,
            offset,
            len,
        } = request
        {
            self.ahead
                .overtaken(dataset, &(offset..offset + u64::from(len)));
        }
        self.next_id += 1;
        let waiter = Waiter::Lane {
            ticket,
            lane: Arc::clone(lane),
            volatile: Unflushed::volatile(&request),
            awaited,
        };
        self.waiting.insert(self.next_id, waiter);
        self.batch.push((RequestId(self.next_id), request));
    }

    /// Reopens the pool after it was let go.
    fn reopen(&mut self, setup: Setup) -> Result<(), NotOpen> {
        if self.pool.is_some() || !self.devices.is_idle() {
            return Err("the pool was not closed before".to_owned().into());
        }
        let places = setup.places.clone();
        let fence = setup.fence.clone();
        let opened = opening::open(setup, &mut self.devices).inspect_err(|_| {
            self.devices.let_go();
            self.shared.empty_cache();
        })?;
        *self.shared.places() = places;
        self.shared.keep_fence(fence);
        self.shared.shut(None);
        self.shared.note(Severity::Info, "the pool was reopened");
        tracing::info!(pool = self.shared.name(), "the pool was reopened");
        self.adopt(opened);
        Ok(())
    }

    /// Tells the engine the time if the engine waits for it, and reports whether it did.
    fn tick(&mut self, handed: &Handed) -> bool {
        let now_us = self.clock.now_us();
        let Some(pool) = &mut self.pool else {
            return false;
        };
        (self.spare_time).heed(handed.has_requests, handed.has_answers, now_us);
        let is_due = pool.service_due_us().is_some_and(|at| at <= now_us);
        let may_work = |at| self.spare_time.is_now(at, now_us);
        let is_late = is_due || pool.work_due_us().is_some_and(may_work);
        if is_late {
            pool.tick(now_us, wall_clock_s());
        }
        is_late
    }

    /// Hands on the engine's output, and returns what was handed on.
    fn hand_out(&mut self) -> Handed {
        self.look_at_clock();
        let Some(pool) = &mut self.pool else {
            return Handed::default();
        };
        let mut output = std::mem::take(&mut self.output);
        pool.take_output_into(&mut output);
        // This comes before the answers: a caller that waited for the labels notes their
        // generation.
        self.shared.note_generation(pool);
        let has_requests = !output.requests.is_empty();
        let has_answers = !output.answers.is_empty();
        // This comes first: a spare that stands in gets requests at once.
        let is_any = !output.events.is_empty();
        for event in &output.events {
            self.devices.heed(event, pool);
            self.damaged.heed(event);
            tell(event, pool, &self.shared);
        }
        if is_any {
            // The absence must be known before requests that fail because of it are answered.
            let absence = Absence::of(pool, &self.shared);
            let before = std::mem::replace(&mut self.absence, absence);
            if absence.is_any && !before.is_any {
                self.shared.disks().look_again();
            }
        }
        for request in output.requests.drain(..) {
            self.devices.submit(request);
        }
        // This comes before the answers: to wake one waiting caller takes as long as many requests.
        if has_requests {
            self.devices.start_batch();
        }
        let scan = pool.scan_state();
        let is_news = std::mem::replace(&mut self.scan, scan) != scan;
        let news = is_news.then(|| tell_scan(pool, &self.shared)).flatten();
        let trims = output.events.iter();
        let mut notes: Vec<String> = trims.filter_map(|of| tell_trim(of, &self.shared)).collect();
        notes.extend(news);
        for (RequestId(id), result) in output.answers.drain(..) {
            match self.waiting.remove(&id) {
                Some(Waiter::Lane {
                    ticket,
                    lane,
                    volatile,
                    awaited,
                }) => {
                    if let Some(awaited) = awaited {
                        awaited.answered(self.shared.cache());
                    }
                    if let (Some(dataset), Ok(_)) = (volatile, &result) {
                        self.unflushed.answered(dataset, pool.newest_seq());
                    }
                    let outcome = outcome(result, self.absence.is_needed);
                    self.bundle.add(&lane, ticket, outcome);
                }
                // The requester may have stopped waiting.
                Some(Waiter::Stream(reply)) => drop(reply.send(result)),
                Some(Waiter::Administrator(reply)) => drop(reply.send(result.map(drop))),
                Some(Waiter::Farewell(farewell)) => farewell.end(result.is_ok()),
                Some(Waiter::Nobody) => {}
                None => debug_assert!(false, "request {id} was answered twice"),
            }
        }
        self.bundle.send();
        if self.is_stopped() {
            self.stop();
        } else if is_any {
            self.note_troubles(&output.events);
            self.unused();
        }
        let given_up = self.pool.as_ref().map_or(0, |pool| pool.given_up());
        if is_any || given_up != self.given_up {
            self.serve_directly();
        }
        self.output = output;
        let mut is_noted = false;
        for text in notes {
            is_noted |= self.note(text);
        }
        Handed {
            is_any: has_requests || has_answers || is_noted,
            has_requests,
            has_answers,
        }
    }

    /// Writes an action of the pool itself into its history, and reports whether it may. Nobody
    /// waits for the line.
    fn note(&mut self, text: String) -> bool {
        let pool = self.pool.as_mut().filter(|_| self.closing.is_none());
        let Some(pool) = pool.filter(|pool| pool.takes_changes()) else {
            return false;
        };
        self.next_id += 1;
        self.waiting.insert(self.next_id, Waiter::Nobody);
        let plan: Plan = Box::new(move |catalog, stamp| {
            catalog.plan_note(HistoryEntry {
                time_s: stamp.time_s,
                text,
                host: machine(),
                is_internal: true,
                ..HistoryEntry::default()
            })
        });
        let now_us = self.clock.now_us();
        pool.tick(now_us, wall_clock_s());
        pool.administer(RequestId(self.next_id), plan, super::random_u64(), now_us);
        true
    }

    fn sleep(&mut self, is_late: bool) {
        self.vain_ticks = if is_late { self.vain_ticks + 1 } else { 0 };
        let deadline = self.pool.as_ref().and_then(|pool| pool.deadline_us());
        let until = deadline.and_then(|at| self.clock.at(at));
        let closing = self.closing.as_ref();
        let patience = closing.map(|closing| closing.since.max(Instant::now()) + PATIENCE);
        let until = until.into_iter().chain(patience).min();
        let until = if self.vain_ticks > VAIN_TICKS {
            until.map(|until| until.max(Instant::now() + NAP))
        } else {
            until
        };
        if let Err(error) = self.devices.wait(until) {
            tracing::error!(pool = self.shared.name(), %error, "waiting for devices failed");
            std::thread::sleep(NAP);
        }
    }

    /// Keeps the reason why a device is no longer used, for the pool's status.
    fn note_troubles(&self, events: &[Event]) {
        let Some(pool) = &self.pool else { return };
        for event in events {
            let Event::Vdev(VdevEvent::LeafState {
                leaf,
                state,
                reason,
            }) = event
            else {
                continue;
            };
            let guid = pool.guid(*leaf).unwrap_or(0);
            if let Some(place) = self.shared.places().get_mut(&guid) {
                place.trouble = match state {
                    // The spare left its place, and stands ready again.
                    _ if pool.leaf(guid).is_none() => None,
                    VdevState::Faulted | VdevState::Removed => Some(reason.clone()),
                    VdevState::Unavailable => place.trouble.take().or_else(|| Some(reason.clone())),
                    _ => None,
                };
            }
        }
    }
}

fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic").to_owned()
}

/// Output that was handed on.
#[derive(Clone, Copy, Debug, Default)]
struct Handed {
    is_any: bool,
    /// Whether devices got requests.
    has_requests: bool,
    /// Whether callers got answers.
    has_answers: bool,
}

impl Handed {
    fn and(self, other: Self) -> Self {
        Self {
            is_any: self.is_any || other.is_any,
            has_requests: self.has_requests || other.has_requests,
            has_answers: self.has_answers || other.has_answers,
        }
    }
}
