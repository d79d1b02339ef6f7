//! Ends of an engine: another host has its pool, the pool is let go or closed, or a defect is
//! found. In each case all waiting callers get an answer.

use store::engine::{PoolError, PoolErrorKind};

use super::{Absence, Closing, Engine, PATIENCE, Waiter};
use crate::engine::answer::block_error;
use crate::order::Order;
use crate::shared::Shut;

impl Engine {
    /// Stops the pool because another host has it, or may have it. All waiting callers are told,
    /// and nothing is served any more.
    pub(super) fn stop(&mut self) {
        let Some(pool) = self.pool.as_ref().filter(|_| !self.has_stopped) else {
            return;
        };
        self.has_stopped = true;
        self.devices.direct().stop();
        let reason = pool.suspended_because().unwrap_or_default();
        tracing::error!(
            pool = self.shared.name(),
            reason,
            "the pool is not served any more"
        );
        self.unflushed.lose(pool.promised_seq());
        self.shared.count_reopening();
        self.shared
            .shut(Some(Shut::stopped(self.shared.name(), reason)));
        self.batch.clear();
        self.ahead.clear();
        self.give_up(&self.shared.ended());
        self.shared.empty_cache();
    }

    /// Lets go of a pool that takes no more changes, together with its devices. The pool can then
    /// be reopened as after a crash, from the data on its devices.
    ///
    /// # Errors
    /// The pool is working, or a device still owes answers. A write that is still under way would
    /// hit data that the next opening wrote there.
    pub(super) fn let_go(&mut self) -> Result<(), PoolError> {
        let refused = |why: &str| Err(PoolError::new(PoolErrorKind::Refused, why));
        self.devices.direct().stop();
        if !self.answers.is_empty() || !self.devices.is_idle() {
            self.serve_directly();
            return refused("its devices have not answered all earlier requests yet");
        }
        let Some(pool) = &self.pool else {
            return Ok(());
        };
        let Some(reason) = pool.suspended_because() else {
            self.serve_directly();
            return refused("the pool is in use");
        };
        if !self.has_stopped {
            // Volumes with writes that are not all promised may have lost them. The opening finds
            // all promised writes.
            self.unflushed.lose(pool.promised_seq());
            self.shared.count_reopening();
            let shut = Shut::suspended(self.shared.name(), reason);
            self.shared.shut(Some(shut));
        }
        self.pool = None;
        self.batch.clear();
        self.give_up(&self.shared.ended());
        self.devices.let_go();
        // The cache holds bytes that the pool may no longer have.
        self.shared.empty_cache();
        Ok(())
    }

    pub(super) fn close_when_at_rest(&mut self) {
        let (Some(pool), Some(closing)) = (&self.pool, &self.closing) else {
            return;
        };
        let result = match pool.suspended_because() {
            Some(reason) => Err(PoolError::new(PoolErrorKind::Suspended, reason)),
            // A read-only pool has nothing to write.
            None if pool.is_read_only() => Ok(()),
            None if pool.is_settled() && self.devices.is_idle() => Ok(()),
            // A device that was given up may never answer, and its answers are not needed.
            None if pool.is_settled() && closing.since.elapsed() > PATIENCE => Ok(()),
            None => return,
        };
        if let Some(Closing {
            is_exported, reply, ..
        }) = self.closing.take()
        {
            self.is_over = result.is_ok() || !is_exported;
            // The requester may have stopped waiting.
            let _ = reply.send(result);
        }
    }

    /// Ends the engine after a defect. The data on the devices stays, and all outstanding requests
    /// are answered.
    pub(super) fn fail(&mut self, reason: &str) {
        let pool = self.shared.name();
        tracing::error!(
            pool,
            reason,
            "the engine failed: this is a defect, report it"
        );
        self.devices.direct().stop();
        self.pool = None;
        self.batch.clear();
        self.absence = Absence::default();
        self.shared.shut(Some(Shut::defect(pool)));
        self.give_up(&self.shared.ended());
    }

    pub(super) fn give_up(&mut self, error: &PoolError) {
        // The bundle holds answers that were given before the defect.
        self.bundle.send();
        for (_, waiter) in self.waiting.drain() {
            match waiter {
                Waiter::Lane { ticket, lane, .. } => {
                    lane.complete(ticket, Err(block_error(error, self.absence.is_needed)));
                }
                Waiter::Administrator(reply) => drop(reply.send(Err(error.clone()))),
                Waiter::Stream(reply) => drop(reply.send(Err(error.clone()))),
                Waiter::Farewell(farewell) => farewell.end(false),
                Waiter::Nobody => {}
            }
        }
        for order in self.orders.drain(..) {
            refuse(order, error, self.absence.is_needed);
        }
        if let Some(closing) = self.closing.take() {
            self.is_over |= !closing.is_exported;
            drop(closing.reply.send(Err(error.clone())));
        }
    }
}

/// Reports whether the order ends the thread, whatever happened to the pool.
pub(super) fn asks_for_the_end(order: &Order) -> bool {
    matches!(
        order,
        Order::Abandon
            | Order::Close {
                is_exported: false,
                ..
            }
    )
}

/// Reports whether the order is allowed for a pool that is no longer served: queries, letting go,
/// reopening, and the end.
pub(super) fn is_for_a_stopped_pool(order: &Order) -> bool {
    matches!(
        order,
        Order::Ask(_)
            | Order::Handle(_)
            | Order::LetGo { .. }
            | Order::Reopen { .. }
            | Order::Abandon
    )
}

pub(super) fn refuse(order: Order, error: &PoolError, is_waiting: bool) {
    match order {
        Order::Serve { requests, lane } => {
            for asked in requests {
                lane.complete(asked.ticket, Err(block_error(error, is_waiting)));
            }
        }
        Order::Stream { reply, .. } => drop(reply.send(Err(error.clone()))),
        Order::Administer { reply, .. }
        | Order::Close { reply, .. }
        | Order::RemoveLog { reply, .. }
        | Order::LetGo { reply }
        | Order::Sync { reply } => {
            // The requester may have stopped waiting.
            let _ = reply.send(Err(error.clone()));
        }
        // Their requesters see that no answer will come.
        Order::Reopen { .. }
        | Order::Ask(_)
        | Order::Handle(_)
        | Order::Abandon
        | Order::ReadAhead { .. }
        | Order::Publish { .. } => {}
    }
}

pub(super) fn closed(name: &str) -> PoolError {
    let context = format!("pool {name} is closed");
    PoolError::new(PoolErrorKind::Suspended, context)
}
