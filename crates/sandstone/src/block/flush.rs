//! Flushes of one device: one at a time, shared by all that wait, and never forgiving.
//!
//! The kernel reports a lost write to one fdatasync and then forgets it. So flushes never run side
//! by side (the second would succeed for data that the first reported lost), and once one failed,
//! all that follow fail until the device is opened anew. Requests that arrive while one runs share
//! the next one.

use std::fmt;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::lane::{Remote, Ticket};
use super::{BlockError, BlockErrorKind, Done};

/// Whom to tell when a flush is done.
pub(super) struct Waiter {
    pub(super) lane: Remote,
    pub(super) ticket: Ticket,
}

/// The flushes of one device.
#[derive(Default)]
pub(super) struct Flushes(Mutex<State>);

#[derive(Default)]
struct State {
    running: bool,
    waiting: Vec<Waiter>,
    /// Why no flush may succeed any more.
    failed: Option<String>,
}

impl Flushes {
    /// Queues a waiter. Returns true where the caller must call [`Flushes::run`] now, on a thread
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
            // What failed meanwhile counts too: it may have lost what these waiters wrote.
            let failed = self.lock().failed.clone();
            for Waiter { lane, ticket } in waiters {
                lane.complete(ticket, failed.clone().map_or(Ok(Done::Nothing), refusal));
            }
        }
    }

    /// From now on no flush succeeds: acknowledged data may be lost.
    pub(super) fn fail(&self, reason: String) {
        self.lock().failed.get_or_insert(reason);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change is one assignment: a panic leaves nothing halfway.
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
