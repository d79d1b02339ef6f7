//! Execution of operations for protocols that have no CDBs.
//!
//! An operation is a [`Request`] in bytes of the unit. An operation that changes blocks shares its
//! range with other writers, but atomic SCSI commands exclude it. Once it has the range, it asks
//! the gates: reservations, access states, readiness, write protection. Then it goes to the device.
//! The rules of the write cache are those of SCSI: with the cache off, nothing is acknowledged
//! before it is durable.

use std::sync::Arc;

use scsi::range_lock::Hold;
use scsi::{Access, BlockRange, Refusal};
use slab::Slab;

use super::drain::DrainOrder;
use super::loops::{Seat, Token};
use super::nexus::Nexus;
use super::timing::tally::UnderWay;
use super::timing::{LoopClock, Stopwatch};
use crate::quiet_signal::QuietSignal;
use block::{BlockError, Done, Lane, Request, Submitted, Ticket, clock, lane};
use model::figures::CommandStage;

/// Outcome of an operation.
#[derive(Debug)]
pub enum Outcome {
    /// The device carried out the operation.
    Done(Done),
    /// A gate forbids it, and nothing was done.
    Refused(Refusal),
    /// The device failed.
    Failed(BlockError),
}

/// Data of a protocol for an operation whose time is counted.
pub trait Timed {
    /// Returns the stopwatch of the operation.
    fn stopwatch(&mut self) -> &mut Stopwatch;
}

/// Executor of one event loop. `T` is the protocol's data for each operation.
#[derive(Debug)]
pub struct Executor<T> {
    /// Access to block devices. It is dropped first, and waits until devices have finished. Only
    /// then are ranges given back.
    pub lane: Lane,
    /// Clock of the loop.
    pub clock: LoopClock,
    operations: Operations<T>,
}

/// Operations that wait for their range or for a device.
#[derive(Debug)]
struct Operations<T> {
    slots: Slab<Operation<T>>,
    seat: Seat,
}

/// Operation in progress.
#[derive(Debug)]
struct Operation<T> {
    nexus: Arc<Nexus>,
    /// Data that belongs to the protocol.
    context: T,
    /// Range of blocks that the operation changes. The operation shares the range or waits for it.
    changes: Option<BlockRange>,
    /// Request that waits for the range; `None` once the device has it.
    waiting: Option<Request>,
    transfer: Transfer,
    /// Whether the operation needs no flush, whatever happens to the write cache.
    durable: bool,
    /// Signals that wait for the end of the operation.
    observers: Vec<Arc<QuietSignal>>,
    /// Place of the operation among those of its unit that are under way.
    _under_way: UnderWay,
}

/// Blocks moved, for the statistics. As for SCSI, only READ and WRITE count.
#[derive(Clone, Copy, Debug)]
enum Transfer {
    Read(u64),
    Write(u64),
    Neither,
}

impl<T: Timed> Executor<T> {
    /// Makes the executor of an event loop.
    pub fn new(lane: Lane, seat: Seat) -> Self {
        let slots = Slab::new();
        Self {
            lane,
            clock: LoopClock::new(clock::now()),
            operations: Operations { slots, seat },
        }
    }

    /// Returns the number of the loop among those that serve the units.
    pub fn loop_index(&self) -> usize {
        self.operations.seat.index()
    }

    /// Starts an operation. Returns its outcome if it has already ended. Otherwise,
    /// [`Self::granted`] or [`Self::completed`] returns the outcome later.
    #[inline]
    pub fn submit(
        &mut self,
        nexus: &Arc<Nexus>,
        request: Request,
        context: T,
    ) -> Option<(T, Outcome)> {
        let unit = &nexus.unit;
        let mut operation = Operation {
            nexus: Arc::clone(nexus),
            context,
            changes: unit.changed_by(&request),
            waiting: None,
            transfer: match &request {
                Request::Read { len, .. } => Transfer::Read(unit.blocks(u64::from(*len))),
                Request::Write { data, .. } => Transfer::Write(unit.blocks(data.len() as u64)),
                _ => Transfer::Neither,
            },
            durable: false,
            observers: Vec::new(),
            _under_way: unit.tally.operation(),
        };
        let stopwatch = operation.context.stopwatch();
        stopwatch.turn_to(CommandStage::Queue, self.clock.now());
        if let Some(range) = operation.changes {
            let token = self.operations.next_token();
            if !unit.range_lock.lock(range, Hold::Shared, token.0) {
                operation.waiting = Some(request);
                self.operations.slots.insert(operation);
                return None;
            }
        }
        self.admit(operation, request)
    }

    /// Continues an operation that was granted its range.
    pub fn granted(&mut self, token: Token) -> Option<(T, Outcome)> {
        let operation = self.operations.slots.get_mut(token.index())?;
        let request = operation.waiting.take()?;
        let operation = self.operations.slots.remove(token.index());
        self.admit(operation, request)
    }

    /// Takes the outcome of a device's request. `token` is that of the request's ticket.
    pub fn completed(&mut self, token: u64, outcome: lane::Outcome) -> Option<(T, Outcome)> {
        let operation = self.operations.slots.try_remove(Token(token).index())?;
        self.answered(operation, outcome)
    }

    /// Makes an order wait for those operations under way that it includes.
    pub fn drain(&mut self, order: &DrainOrder) {
        for (_, operation) in &mut self.operations.slots {
            let nexus = &operation.nexus;
            order.wait_for_other(&nexus.unit, nexus.itl.nexus(), &mut operation.observers);
        }
    }

    /// Asks the gates, and then gives the request to the device.
    fn admit(&mut self, mut operation: Operation<T>, request: Request) -> Option<(T, Outcome)> {
        let unit = &operation.nexus.unit;
        if let Err(refusal) = operation.nexus.itl.admits(access(&request)) {
            return Some(operation.end(Outcome::Refused(refusal)));
        }
        unit.note_request(&request);
        let (request, durable) = durably(request, !unit.logical.write_cache_enabled());
        operation.durable = durable;
        self.send(operation, request)
    }

    fn send(&mut self, mut operation: Operation<T>, request: Request) -> Option<(T, Outcome)> {
        let stopwatch = operation.context.stopwatch();
        stopwatch.turn_to(CommandStage::Device, self.clock.now());
        let ticket = Ticket::new(self.operations.next_token().0);
        let device = &operation.nexus.unit.device;
        match device.submit(request, ticket, &mut self.lane) {
            Submitted::Ready(outcome) => self.answered(operation, outcome),
            Submitted::Pending => {
                self.operations.slots.insert(operation);
                None
            }
        }
    }

    /// Ends an operation. If its blocks went into a write cache that was switched off meanwhile, a
    /// flush comes first.
    fn answered(
        &mut self,
        mut operation: Operation<T>,
        outcome: lane::Outcome,
    ) -> Option<(T, Outcome)> {
        let unit = &operation.nexus.unit;
        let changed = operation.changes.is_some() && outcome.is_ok();
        if changed && unit.is_late(operation.durable) {
            operation.durable = true;
            return self.send(operation, Request::Flush);
        }
        let outcome = match outcome {
            Ok(done) => {
                let (statistics, seat) = (unit.logical.statistics(), &self.operations.seat);
                match operation.transfer {
                    Transfer::Read(blocks) => statistics.add_read(seat.index(), blocks),
                    Transfer::Write(blocks) => statistics.add_write(seat.index(), blocks),
                    Transfer::Neither => {}
                }
                Outcome::Done(done)
            }
            Err(error) => {
                let initiator = &operation.nexus.itl.nexus().initiator.name;
                unit.note_error(&error, Some(initiator));
                Outcome::Failed(error)
            }
        };
        Some(operation.end(outcome))
    }
}

impl<T> Operations<T> {
    /// Returns the token that the next insertion gives.
    #[inline]
    fn next_token(&self) -> Token {
        self.token(self.slots.vacant_key())
    }

    fn token(&self, key: usize) -> Token {
        // No one wakes an operation that has ended, so tokens need no generation.
        Token::new(self.seat.index(), 0, key as u32)
    }
}

impl<T> Drop for Operations<T> {
    fn drop(&mut self) {
        for (key, operation) in &self.slots {
            let Some(range) = operation.changes else {
                continue;
            };
            let lock = &operation.nexus.unit.range_lock;
            let waits = operation.waiting.is_some();
            if !(waits && lock.cancel(self.token(key).0)) {
                lock.unlock(range, Hold::Shared);
            }
        }
    }
}

impl<T> Operation<T> {
    fn end(self, outcome: Outcome) -> (T, Outcome) {
        if let Some(range) = self.changes {
            self.nexus.unit.range_lock.unlock(range, Hold::Shared);
        }
        (self.context, outcome)
    }
}

/// Returns the kind of access that a request is, for the gates.
pub(crate) fn access(request: &Request) -> Access {
    match request {
        Request::Read { .. } | Request::Extents { .. } => Access::Read,
        Request::Flush => Access::Flush,
        Request::Write { .. } | Request::WriteZeroes { .. } | Request::Discard { .. } => {
            Access::Write
        }
    }
}

/// Returns the request, and whether it is durable. If it `must` be durable and has a durable form,
/// it is made durable.
pub(crate) fn durably(mut request: Request, must: bool) -> (Request, bool) {
    let is_durable = match &mut request {
        Request::Write { durable, .. } | Request::WriteZeroes { durable, .. } => {
            *durable |= must;
            *durable
        }
        Request::Read { .. }
        | Request::Flush
        | Request::Discard { .. }
        | Request::Extents { .. } => false,
    };
    (request, is_durable)
}

#[cfg(test)]
mod tests;
