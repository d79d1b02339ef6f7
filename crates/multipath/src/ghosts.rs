//! Writes of lost sessions that may still land.
//!
//! When a session is lost, the target may hold writes that it received and has not performed.
//! Suppose that a write is repeated on another path, and its blocks are then written anew. The
//! first copy could still land over the newer data. So each such write becomes a ghost. No request
//! that changes overlapping blocks is sent until the lost session is known to be over
//! ([`Device::path_fenced`](super::Device::path_fenced)), or until the fence timeout has passed.
//! Reads need not wait: the lost write has not been answered, so either content is right.
//!
//! A session that is over should have no task left (RFC 7143 §6.3.5), but not every target waits
//! for the tasks at its disks. So a ghost whose session is over settles for some more time
//! ([`Settings::fence_settle_us`](super::Settings::fence_settle_us)). Meanwhile the lost write
//! itself is repeated and reported. If its first copy lands after that, the copy writes the same
//! data once more, and this device has written nothing else there since. Another host, however, may
//! have written there, once it was told that it may. Hosts hand over blocks when the data is
//! durable. So a write that promises durability is repeated, and a flush is sent, only when all
//! ghosts have settled.

use super::io::IoShape;
use super::path::PathId;

/// A write that may still land.
#[derive(Clone, Copy, Debug)]
struct Ghost {
    path: PathId,
    /// Submission number of the I/O that this ghost copies.
    number: u64,
    shape: IoShape,
    /// Time at which the session was lost.
    since_us: u64,
    /// Time at which the ghost counts as over: without confirmation, or after settling.
    until_us: Option<u64>,
    /// Whether the session is known to be over. Later news then changes the ghost's time no more.
    is_fenced: bool,
    /// Number of the next submission at the time when the original I/O was reported as done.
    reported_before: Option<u64>,
}

/// Longest time that a ghost may last, however often the target answers without confirming its end.
const LONGEST_US: u64 = 15_000_000;

/// Permission that ghosts leave to an I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Permit {
    /// No ghost is in the way.
    Free,
    /// The I/O may be sent if nothing else is writing its blocks. The only ghosts there are copies
    /// of the I/O itself, and their sessions are over, so they would write the same data.
    Alone,
    /// The I/O must wait.
    Wait,
}

/// All ghosts of a device; usually none.
#[derive(Debug, Default)]
pub(super) struct Ghosts(Vec<Ghost>);

impl Ghosts {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds a ghost: a write of `path`, submitted as `number`, has lost its session.
    pub(super) fn add(
        &mut self,
        path: PathId,
        number: u64,
        shape: IoShape,
        since_us: u64,
        until_us: Option<u64>,
    ) {
        self.0.push(Ghost {
            path,
            number,
            shape,
            since_us,
            until_us,
            is_fenced: false,
            reported_before: None,
        });
    }

    /// Lists the ghosts of `path` that wait for confirmation.
    fn unfenced(&mut self, path: PathId) -> impl Iterator<Item = &mut Ghost> {
        let ghosts = self.0.iter_mut();
        ghosts.filter(move |ghost| ghost.path == path && !ghost.is_fenced)
    }

    /// Lets the ghosts of `path` that have a timeout last at least until `until_us`.
    pub(super) fn lengthen(&mut self, path: PathId, until_us: u64) {
        for ghost in self.unfenced(path) {
            let longest_us = ghost.since_us.saturating_add(LONGEST_US);
            ghost.until_us = ghost
                .until_us
                .map(|until| until.max(until_us.min(longest_us)));
        }
    }

    /// Lets the ghosts of `path` that have a timeout last no longer than until `until_us`.
    pub(super) fn shorten(&mut self, path: PathId, until_us: u64) {
        for ghost in self.unfenced(path) {
            ghost.until_us = ghost.until_us.map(|until| until.min(until_us));
        }
    }

    /// Returns the permission to send an I/O of this shape, submitted as `number`.
    #[inline]
    pub(super) fn permit(&self, number: u64, shape: &IoShape) -> Permit {
        if self.0.is_empty() {
            return Permit::Free;
        }
        if !shape.direction.changes_blocks() {
            // A ghost whose write was reported later does not hold this I/O. Otherwise one loss
            // after another could hold it for ever.
            let is_covered =
                |ghost: &Ghost| ghost.reported_before.is_some_and(|next| next <= number);
            return match shape.durable && self.0.iter().any(is_covered) {
                true => Permit::Wait,
                false => Permit::Free,
            };
        }
        let mut permit = Permit::Free;
        for ghost in self.0.iter().filter(|ghost| ghost.shape.overlaps(shape)) {
            if !ghost.is_fenced || ghost.number != number || shape.durable {
                return Permit::Wait;
            }
            permit = Permit::Alone;
        }
        permit
    }

    /// Notes that the I/O submitted as `number` is reported as done. The next submission will have
    /// the number `next`.
    #[inline]
    pub(super) fn reported(&mut self, number: u64, next: u64) {
        for ghost in self.0.iter_mut().filter(|ghost| ghost.number == number) {
            ghost.reported_before = Some(next);
        }
    }

    /// Reports whether some write of `path` may still land.
    pub(super) fn haunt(&self, path: PathId) -> bool {
        self.0.iter().any(|ghost| ghost.path == path)
    }

    /// Reports whether some write of `path` may still land whose session is not known to be over.
    pub(super) fn need_fence(&self, path: PathId) -> bool {
        let mut ghosts = self.0.iter();
        ghosts.any(|ghost| ghost.path == path && !ghost.is_fenced)
    }

    /// Notes that every session which `path` had is over: their remains land until `until_us`, or
    /// never. This time replaces a shorter wait for confirmation too. Reports whether some I/O may
    /// be sent now that might not be sent before.
    pub(super) fn fenced(&mut self, path: PathId, now_us: u64, until_us: u64) -> bool {
        let mut is_news = false;
        for ghost in self.unfenced(path) {
            ghost.is_fenced = true;
            ghost.until_us = Some(until_us);
            is_news = true;
        }
        self.expire(now_us) || is_news
    }

    /// Forgets the ghosts whose time has passed, and reports whether there were any.
    pub(super) fn expire(&mut self, now_us: u64) -> bool {
        let before = self.0.len();
        self.0
            .retain(|ghost| ghost.until_us.is_none_or(|until| until > now_us));
        self.0.len() < before
    }

    /// Returns the time until which an old copy of a write may land that was reported as done;
    /// `None` if there is no such copy.
    pub(super) fn unsettled_until_us(&self) -> Option<u64> {
        let reported = self
            .0
            .iter()
            .filter(|ghost| ghost.reported_before.is_some());
        reported.filter_map(|ghost| ghost.until_us).max()
    }

    /// Returns the time at which the next ghost expires.
    pub(super) fn next_us(&self) -> Option<u64> {
        self.0.iter().filter_map(|ghost| ghost.until_us).min()
    }
}
