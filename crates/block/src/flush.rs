//! Flushes of one device: one at a time, shared by all waiters, and never forgiving.
//!
//! The kernel reports a lost write to one fdatasync and then forgets it. So flushes never run side
//! by side: the second would succeed for data that the first reported lost. Once one flush failed,
//! all later flushes fail until the device is opened anew, or an administrator has acknowledged the
//! loss. Requests that arrive while a flush runs share the next one.

use std::fmt;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::lane::{Remote, Ticket};
use super::{BlockError, BlockErrorKind, Done};

/// Waiter for the end of a flush.
pub(super) struct Waiter {
    pub(super) lane: Remote,
    pub(super) ticket: Ticket,
}

/// The flushes of one device.
#[derive(Default)]
pub(super) struct Flushes(Mutex<FlushState>);

#[derive(Default)]
struct FlushState {
    running: bool,
    waiting: Vec<Waiter>,
    /// Reason why no flush may succeed any more.
    failed: Option<String>,
}

impl Flushes {
    /// Queues a waiter. Returns `true` if the caller must now call [`Flushes::run`], on a thread
    /// that may block.
    #[must_use]
    pub(super) fn join(&self, waiter: Waiter) -> bool {
        let mut state = self.lock();
        state.waiting.push(waiter);
        !std::mem::replace(&mut state.running, true)
    }

    /// Runs `sync` until nobody waits.
    pub(super) fn run(&self, name: &str, sync: impl Fn() -> io::Result<()>) {
        loop {
            let mut state = self.lock();
            let waiters = std::mem::take(&mut state.waiting);
            if waiters.is_empty() {
                state.running = false;
                return;
            }
            let failed = state.failed.is_some();
            drop(state);
            if !failed && let Err(error) = sync() {
                self.fail(format!("a flush of {name} failed ({error})"));
            }
            // A failure that happened meanwhile counts too: it may have lost these waiters' writes.
            let failed = self.lock().failed.clone();
            for Waiter { lane, ticket } in waiters {
                lane.complete(ticket, failed.clone().map_or(Ok(Done::Nothing), refusal));
            }
        }
    }

    /// Makes all later flushes fail, because acknowledged data may be lost.
    pub(super) fn fail(&self, reason: String) {
        self.lock().failed.get_or_insert(reason);
    }

    /// Returns the reason why no flush succeeds; `None` if flushes may succeed.
    pub(super) fn failure(&self) -> Option<String> {
        self.lock().failed.clone()
    }

    /// Lets flushes be tried again, because an administrator knows of the loss. Returns `false`
    /// while a flush is under way: its waiters must learn of a failure first.
    #[must_use]
    pub(super) fn acknowledge_failure(&self) -> bool {
        let mut state = self.lock();
        if !state.running {
            state.failed = None;
        }
        !state.running
    }

    fn lock(&self) -> MutexGuard<'_, FlushState> {
        // Every change is one assignment, so a panic leaves no half-made change.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn refusal(reason: String) -> Result<Done, BlockError> {
    Err(BlockError::new(
        BlockErrorKind::Write,
        format!(
            "{reason}: acknowledged writes may be lost; check the disk, then reopen the device"
        ),
    ))
}

impl fmt::Debug for Flushes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flushes")
            .field("failed", &self.lock().failed)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::sync::Arc;

    use super::*;
    use crate::{Lane, lane::Outcome};

    fn lane() -> RefCell<Lane> {
        RefCell::new(Lane::without_io_uring(Arc::new(|| {})))
    }

    fn join(flushes: &Flushes, lane: &RefCell<Lane>, token: u64) -> bool {
        let mut lane = lane.borrow_mut();
        lane.count_pending();
        flushes.join(Waiter {
            lane: lane.remote(),
            ticket: Ticket::new(token),
        })
    }

    fn outcomes(lane: &RefCell<Lane>) -> Vec<(u64, Outcome)> {
        let mut taken = Vec::new();
        lane.borrow_mut().take_completions(&mut taken);
        taken
    }

    #[test]
    fn those_who_wait_share_one_flush_and_late_ones_get_another() {
        let (flushes, lane) = (Flushes::default(), lane());
        assert!(join(&flushes, &lane, 1));
        assert!(!join(&flushes, &lane, 2));
        let syncs = Cell::new(0);
        flushes.run("x", || {
            syncs.set(syncs.get() + 1);
            if syncs.get() == 1 {
                // The preceding write may have completed after the flush began.
                assert!(!join(&flushes, &lane, 3));
            }
            Ok(())
        });
        assert_eq!(syncs.get(), 2);
        let outcomes = outcomes(&lane);
        assert_eq!(
            outcomes.iter().map(|(token, _)| *token).collect::<Vec<_>>(),
            [1, 2, 3]
        );
        assert!(outcomes.iter().all(|(_, outcome)| outcome.is_ok()));
        assert!(join(&flushes, &lane, 4), "nobody runs it any more");
        flushes.run("x", || Ok(()));
    }

    #[test]
    fn after_a_failure_none_succeeds_nor_asks_the_kernel_again() {
        let (flushes, lane) = (Flushes::default(), lane());
        assert!(join(&flushes, &lane, 1));
        flushes.run("x", || {
            assert!(!join(&flushes, &lane, 2), "arrives meanwhile");
            Err(io::Error::from_raw_os_error(5))
        });
        assert!(join(&flushes, &lane, 3));
        flushes.run("x", || panic!("the kernel would say yes now"));
        let outcomes = outcomes(&lane);
        assert_eq!(outcomes.len(), 3);
        for (_, outcome) in outcomes {
            let error = outcome.expect_err("never acknowledged");
            assert_eq!(error.kind(), BlockErrorKind::Write);
            assert!(error.to_string().contains("a flush of x failed"), "{error}");
        }
    }

    #[test]
    fn a_loss_that_was_acknowledged_stands_in_nobodys_way_but_of_those_who_wait() {
        let (flushes, lane) = (Flushes::default(), lane());
        assert_eq!(flushes.failure(), None);
        assert!(join(&flushes, &lane, 1));
        flushes.run("x", || Err(io::Error::from_raw_os_error(5)));
        assert!(flushes.failure().unwrap().contains("a flush of x failed"));
        assert!(flushes.acknowledge_failure());
        assert_eq!(flushes.failure(), None);
        assert!(join(&flushes, &lane, 2));
        flushes.run("x", || {
            flushes.fail("a durable write to x failed".into());
            assert!(!flushes.acknowledge_failure(), "one is under way");
            Ok(())
        });
        assert!(flushes.acknowledge_failure());
        assert!(join(&flushes, &lane, 3));
        flushes.run("x", || Ok(()));
        let ended: Vec<bool> = outcomes(&lane).iter().map(|(_, it)| it.is_ok()).collect();
        assert_eq!(ended, [false, false, true]);
    }

    #[test]
    fn what_fails_during_a_flush_fails_it_too() {
        let (flushes, lane) = (Flushes::default(), lane());
        assert!(join(&flushes, &lane, 1));
        flushes.run("x", || {
            flushes.fail("a durable write to x failed".into());
            Ok(())
        });
        assert!(outcomes(&lane)[0].1.is_err());
    }
}
