//! The thread of an open pool: orders in, requests to devices out, answers back, time in between.

use std::any::Any;
use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use store::pool::{Answer, Event, Pool, PoolError, PoolErrorKind, RequestId};
use store::vdev::{DeviceOutcome, IoId};

use super::devices::Devices;
use super::host::{Order, Reply, Shared};
use super::opening::{Clock, wall_clock_s};
use crate::block::lane::{Outcome, Remote};
use crate::block::{BlockError, BlockErrorKind, Done, Ticket};

/// So often in a row the clock may bring nothing before the thread sleeps a little: a defect shall cost
/// some wake-ups, not a core.
const VAIN_TICKS: u32 = 1000;
const NAP: Duration = Duration::from_millis(1);

/// A pool's thread.
pub(super) struct Engine {
    /// `None` after it failed.
    pool: Option<Box<Pool>>,
    devices: Devices,
    clock: Clock,
    shared: Arc<Shared>,
    /// Who waits for which request.
    waiting: HashMap<u64, Waiter>,
    next_id: u64,
    closing: Option<Closing>,
    is_over: bool,
    /// Taken from the inbox, and not obeyed yet.
    orders: VecDeque<Order>,
    /// Kept between turns to spare its allocation.
    answers: Vec<(IoId, DeviceOutcome)>,
    vain_ticks: u32,
}

enum Waiter {
    Lane { ticket: Ticket, lane: Remote },
    Administrator(Reply),
    Stream(Sender<Result<Answer, PoolError>>),
}

struct Closing {
    is_exported: bool,
    reply: Reply,
}

impl Engine {
    pub(super) fn new(pool: Pool, devices: Devices, clock: Clock, shared: Arc<Shared>) -> Self {
        Self {
            pool: Some(Box::new(pool)),
            devices,
            clock,
            shared,
            waiting: HashMap::new(),
            next_id: 0,
            closing: None,
            is_over: false,
            orders: VecDeque::new(),
            answers: Vec::new(),
            vain_ticks: 0,
        }
    }

    /// Works until the pool is closed or abandoned.
    pub(super) fn run(mut self) {
        while !self.is_over {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.turn())) {
                self.fail(&said(&*panic));
            }
        }
        for order in self.shared.end() {
            refuse(order, &closed(self.shared.name()));
        }
        self.give_up(&closed(self.shared.name()));
    }

    fn turn(&mut self) {
        self.shared.take(&mut self.orders);
        let mut answers = std::mem::take(&mut self.answers);
        self.devices.take(&mut answers);
        let is_quiet = self.orders.is_empty() && answers.is_empty();
        for (io, outcome) in answers.drain(..) {
            if let Some(pool) = &mut self.pool {
                pool.completed(io, outcome, self.clock.now_us());
            }
        }
        self.answers = answers;
        while let Some(order) = self.orders.pop_front() {
            self.obey(order);
        }
        let is_late = self.tick();
        let has_output = self.hand_out();
        self.devices.start_batch();
        self.close_when_at_rest();
        if is_quiet && !has_output && !self.is_over {
            self.sleep(is_late);
        } else {
            self.vain_ticks = 0;
        }
    }

    fn obey(&mut self, order: Order) {
        let now_us = self.clock.now_us();
        if self.closing.is_some() && !matches!(order, Order::Ask(_) | Order::Abandon) {
            return refuse(order, &closed(self.shared.name()));
        }
        let Some(pool) = &mut self.pool else {
            // What asks for the end gets it.
            self.is_over |= matches!(
                order,
                Order::Abandon
                    | Order::Close {
                        is_exported: false,
                        ..
                    }
            );
            return refuse(order, &broken(self.shared.name()));
        };
        match order {
            Order::Serve {
                request,
                ticket,
                lane,
            } => {
                self.next_id += 1;
                let waiter = Waiter::Lane { ticket, lane };
                self.waiting.insert(self.next_id, waiter);
                pool.submit(RequestId(self.next_id), request, now_us);
            }
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
                // The time of what is made is that of its making.
                pool.tick(now_us, wall_clock_s());
                pool.administer(id, plan, super::random_u64(), now_us);
            }
            Order::Ask(question) => question(pool),
            Order::Close { is_exported, reply } => {
                pool.begin_closing(is_exported, now_us);
                self.closing = Some(Closing { is_exported, reply });
            }
            Order::Abandon => self.is_over = true,
        }
    }

    /// Tells the engine the time where it waits for it; whether it did.
    fn tick(&mut self) -> bool {
        let now_us = self.clock.now_us();
        let Some(pool) = &mut self.pool else {
            return false;
        };
        let is_late = pool.deadline_us().is_some_and(|at| at <= now_us);
        if is_late {
            pool.tick(now_us, wall_clock_s());
        }
        is_late
    }

    /// Brings what the engine said to where it belongs; whether it said anything.
    fn hand_out(&mut self) -> bool {
        let Some(pool) = &mut self.pool else {
            return false;
        };
        let output = pool.take_output();
        let has_output = !output.requests.is_empty() || !output.answers.is_empty();
        for request in output.requests {
            self.devices.submit(request);
        }
        for (RequestId(id), result) in output.answers {
            match self.waiting.remove(&id) {
                Some(Waiter::Lane { ticket, lane }) => lane.complete(ticket, outcome(result)),
                // Nobody may wait any more.
                Some(Waiter::Stream(reply)) => drop(reply.send(result)),
                Some(Waiter::Administrator(reply)) => drop(reply.send(result.map(drop))),
                None => debug_assert!(false, "request {id} was answered twice"),
            }
        }
        for event in output.events {
            self.log(&event);
        }
        has_output
    }

    fn close_when_at_rest(&mut self) {
        let Some(pool) = self.pool.as_ref().filter(|_| self.closing.is_some()) else {
            return;
        };
        let result = match pool.suspended_because() {
            Some(reason) => Err(PoolError::new(PoolErrorKind::Suspended, reason)),
            None if pool.is_settled() && self.devices.is_idle() => Ok(()),
            None => return,
        };
        if let Some(Closing { is_exported, reply }) = self.closing.take() {
            self.is_over = result.is_ok() || !is_exported;
            // Nobody may wait any more.
            let _ = reply.send(result);
        }
    }

    fn sleep(&mut self, is_late: bool) {
        self.vain_ticks = if is_late { self.vain_ticks + 1 } else { 0 };
        let deadline = self.pool.as_ref().and_then(|pool| pool.deadline_us());
        let until = deadline.and_then(|at| self.clock.at(at));
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

    fn log(&self, event: &Event) {
        let pool = self.shared.name();
        match event {
            Event::Checkpoint { epoch } => tracing::debug!(pool, epoch, "checkpoint"),
            Event::Suspended { reason } => {
                tracing::error!(pool, reason, "the pool takes no changes any more");
            }
            Event::SpareInUse { guid, .. } => {
                let guid = format!("{guid:016x}");
                tracing::warn!(pool, guid, "a spare stands in");
            }
            Event::Vdev(event) => tracing::warn!(pool, ?event, "device"),
        }
    }

    /// A defect ended the engine. What is on the devices stays; what is owed is answered.
    fn fail(&mut self, reason: &str) {
        let pool = self.shared.name();
        tracing::error!(
            pool,
            reason,
            "the engine failed: this is a defect, report it"
        );
        self.pool = None;
        let error = broken(self.shared.name());
        self.give_up(&error);
    }

    fn give_up(&mut self, error: &PoolError) {
        for (_, waiter) in self.waiting.drain() {
            match waiter {
                Waiter::Lane { ticket, lane } => lane.complete(ticket, Err(block_error(error))),
                Waiter::Administrator(reply) => drop(reply.send(Err(error.clone()))),
                Waiter::Stream(reply) => drop(reply.send(Err(error.clone()))),
            }
        }
        for order in self.orders.drain(..) {
            refuse(order, error);
        }
        if let Some(closing) = self.closing.take() {
            self.is_over |= !closing.is_exported;
            drop(closing.reply.send(Err(error.clone())));
        }
    }
}

fn refuse(order: Order, error: &PoolError) {
    match order {
        Order::Serve { ticket, lane, .. } => lane.complete(ticket, Err(block_error(error))),
        Order::Stream { reply, .. } => drop(reply.send(Err(error.clone()))),
        Order::Administer { reply, .. } | Order::Close { reply, .. } => {
            // Nobody may wait any more.
            let _ = reply.send(Err(error.clone()));
        }
        // Who asked sees that nobody will answer.
        Order::Ask(_) | Order::Abandon => {}
    }
}

fn closed(name: &str) -> PoolError {
    let context = format!("pool {name} is closed");
    PoolError::new(PoolErrorKind::Suspended, context)
}

fn broken(name: &str) -> PoolError {
    let context = format!("the engine of pool {name} failed (a defect; the log says where)");
    PoolError::new(PoolErrorKind::Suspended, context)
}

fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic").to_owned()
}

fn outcome(result: Result<Answer, PoolError>) -> Outcome {
    match result {
        // No lane asks what only streams ask.
        Ok(Answer::Done | Answer::Changes(_) | Answer::Stored(_)) => Ok(Done::Nothing),
        Ok(Answer::Data(data)) => Ok(Done::Pages(data)),
        Ok(Answer::Extents(runs)) => Ok(Done::Extents(runs)),
        Err(error) => Err(block_error(&error)),
    }
}

/// A pool's error in the words of block devices.
fn block_error(error: &PoolError) -> BlockError {
    let kind = match error.kind {
        PoolErrorKind::Invalid | PoolErrorKind::Refused => BlockErrorKind::Invalid,
        PoolErrorKind::NotFound => BlockErrorKind::Gone,
        PoolErrorKind::ReadOnly | PoolErrorKind::Receiving | PoolErrorKind::Modified => {
            BlockErrorKind::ReadOnly
        }
        PoolErrorKind::NoSpace => BlockErrorKind::NoSpace,
        PoolErrorKind::Damaged => BlockErrorKind::Medium,
        PoolErrorKind::Device | PoolErrorKind::Suspended => BlockErrorKind::Gone,
    };
    BlockError::new(kind, error.to_string())
}
