//! The ends of an engine: another host has its pool, the pool is let go or closed, or a defect is found. Whoever waits is
//! answered in each of them.

use store::pool::{PoolError, PoolErrorKind};

use super::super::host::{Order, Shut};
use super::{Absence, Closing, Engine, PATIENCE, Waiter};
use crate::engine::answer::block_error;

impl Engine {
    /// Another host has the pool, or may have it: whoever waits is told, and nothing is served any more.
    pub(super) fn stop(&mut self) {
        let Some(pool) = self.pool.as_ref().filter(|_| !self.has_stopped) else {
            return;
        };
        self.has_stopped = true;
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

    /// Lets a pool that takes no changes any more go, with its devices, so that it can be opened anew: as after a
    /// crash, by what is on them.
    ///
    /// # Errors
    /// It is at work. Or a device has not answered all that it was asked: a write that is still on its way would
    /// land on what the next opening wrote there.
    pub(super) fn let_go(&mut self) -> Result<(), PoolError> {
        let refused = |why: &str| Err(PoolError::new(PoolErrorKind::Refused, why));
        if !self.answers.is_empty() || !self.devices.is_idle() {
            return refused("its devices have not answered yet all that they were asked before");
        }
        let Some(pool) = &self.pool else {
            return Ok(());
        };
        let Some(reason) = pool.suspended_because() else {
            return refused("it is at work");
        };
        if !self.has_stopped {
            // Volumes whose writes are not all promised may have lost them; what was promised, the opening finds.
            self.unflushed.lose(pool.promised_seq());
            self.shared.count_reopening();
            let shut = Shut::suspended(self.shared.name(), reason);
            self.shared.shut(Some(shut));
        }
        self.pool = None;
        self.batch.clear();
        self.give_up(&self.shared.ended());
        self.devices.let_go();
        // It holds bytes that the pool may not have any more.
        self.shared.empty_cache();
        Ok(())
    }

    pub(super) fn close_when_at_rest(&mut self) {
        let (Some(pool), Some(closing)) = (&self.pool, &self.closing) else {
            return;
        };
        let result = match pool.suspended_because() {
            Some(reason) => Err(PoolError::new(PoolErrorKind::Suspended, reason)),
            // It left nothing to be written.
            None if pool.is_read_only() => Ok(()),
            None if pool.is_settled() && self.devices.is_idle() => Ok(()),
            // A device that was given up may never answer; what it is asked is not needed.
            None if pool.is_settled() && closing.since.elapsed() > PATIENCE => Ok(()),
            None => return,
        };
        if let Some(Closing {
            is_exported, reply, ..
        }) = self.closing.take()
        {
            self.is_over = result.is_ok() || !is_exported;
            // Nobody may wait any more.
            let _ = reply.send(result);
        }
    }

    /// A defect ended the engine. What is on the devices stays; what is owed is answered.
    pub(super) fn fail(&mut self, reason: &str) {
        let pool = self.shared.name();
        tracing::error!(
            pool,
            reason,
            "the engine failed: this is a defect, report it"
        );
        self.pool = None;
        self.batch.clear();
        self.absence = Absence::default();
        self.shared.shut(Some(Shut::defect(pool)));
        self.give_up(&self.shared.ended());
    }

    pub(super) fn give_up(&mut self, error: &PoolError) {
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

/// Whether the thread ends with this, whatever became of the pool.
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

/// What may be asked of a pool that is not served any more: how it is, and to let go of it.
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
        Order::Serve { ticket, lane, .. } => {
            lane.complete(ticket, Err(block_error(error, is_waiting)));
        }
        Order::Stream { reply, .. } => drop(reply.send(Err(error.clone()))),
        Order::Administer { reply, .. }
        | Order::Close { reply, .. }
        | Order::RemoveLog { reply, .. }
        | Order::LetGo { reply }
        | Order::Sync { reply } => {
            // Nobody may wait any more.
            let _ = reply.send(Err(error.clone()));
        }
        // Who asked sees that nobody will answer.
        Order::Reopen { .. }
        | Order::Ask(_)
        | Order::Handle(_)
        | Order::Abandon
        | Order::ReadAhead { .. } => {}
    }
}

pub(super) fn closed(name: &str) -> PoolError {
    let context = format!("pool {name} is closed");
    PoolError::new(PoolErrorKind::Suspended, context)
}
