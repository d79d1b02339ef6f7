//! Residents of a lane: things with sockets and timers of their own, such as a host adapter, that
//! live beside the lane's requests.
//!
//! A resident runs on the thread of the lane's loop, within [`Lane::submit_batch`] and
//! [`Lane::take_completions`], so that a request costs no switch of threads. The loop need not
//! know: it watches the lane's one descriptor and one deadline, as always.

use std::fmt;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use rustix::event::epoll;

use super::Lane;

/// Object with sockets and timers that lives in a lane.
pub trait Resident: Send + Sync + fmt::Debug {
    /// Returns a descriptor that is readable while [`Resident::turn`] has something to do. It never
    /// changes.
    fn poll_fd(&self) -> BorrowedFd<'_>;

    /// Sends the requests queued since the last batch.
    fn flush(&self, lane: &mut Lane);

    /// Receives data and fires timers; finished requests go to the lane.
    fn turn(&self, lane: &mut Lane);

    /// Returns the latest time at which [`Resident::turn`] must be called; `None` for never.
    fn next_deadline(&self) -> Option<Instant>;

    /// Answers every request that came through any lane, because the lane ends.
    fn leave(&self, lane: &mut Lane);
}

/// Residents of one lane, and the descriptor that watches them together with the ring.
#[derive(Debug, Default)]
pub(super) struct Residents {
    pub(super) all: Vec<Arc<dyn Resident>>,
    watch: Option<OwnedFd>,
}

impl Residents {
    pub(super) fn watch(&self) -> Option<BorrowedFd<'_>> {
        self.watch.as_ref().map(|fd| fd.as_fd())
    }
}

impl Lane {
    /// Adds a resident. The call must come before the loop asks for [`Lane::poll_fd`].
    ///
    /// # Errors
    /// The kernel has no descriptor left.
    pub fn house(&mut self, resident: Arc<dyn Resident>) -> io::Result<()> {
        if self.residents.watch.is_none() {
            let watch = epoll::create(epoll::CreateFlags::CLOEXEC)?;
            if let Some(ring) = &self.ring {
                add(&watch, ring.poll_fd())?;
            }
            self.residents.watch = Some(watch);
        }
        if let Some(watch) = &self.residents.watch {
            add(watch, resident.poll_fd())?;
        }
        self.residents.all.push(resident);
        Ok(())
    }

    /// Calls `work` with each resident and the lane.
    #[inline]
    pub(super) fn each_resident(&mut self, work: impl Fn(&dyn Resident, &mut Lane)) {
        if self.residents.all.is_empty() {
            return;
        }
        let all = std::mem::take(&mut self.residents.all);
        for resident in &all {
            work(&**resident, self);
        }
        self.residents.all = all;
    }
}

fn add(watch: &OwnedFd, fd: BorrowedFd<'_>) -> io::Result<()> {
    let data = epoll::EventData::new_u64(0);
    Ok(epoll::add(watch, fd, data, epoll::EventFlags::IN)?)
}
