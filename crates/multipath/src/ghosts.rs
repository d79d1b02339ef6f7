//! Writes of lost sessions that may still land.
//!
//! When a session is lost, the target may hold writes of it that it received and has not performed.
//! Were such a write repeated on another path, and the same blocks then written anew, the first
//! copy could still land over the newer data. So each becomes a ghost: until the lost session is
//! known to be over ([`Device::path_fenced`](super::Device::path_fenced)) or the fence timeout has
//! passed, nothing that changes overlapping blocks is sent. Reads need not wait: the lost write has
//! not been answered, so either content is right.
//!
//! A session that is over should have no task left (RFC 7143 §6.3.5), but not every target waits
//! for those that its disks are at. So a ghost whose session is over settles for some time more
//! ([`Settings::fence_settle_us`](super::Settings::fence_settle_us)). Meanwhile the lost write
//! itself is repeated and reported: when its first copy lands after that, it writes the same data
//! once more, and nothing that this device was given has been written there since. But another host
//! may have written there, once it was told that it may. Hosts tell each other so when the data is
//! durable: so a write that promises this is repeated, and a flush is sent, when all has settled.

use super::io::IoShape;
use super::path::PathId;

/// A write that may still land.
#[derive(Clone, Copy, Debug)]
struct Ghost {
    path: PathId,
    /// Which I/O it is a copy of, by its order of submission.
    number: u64,
    shape: IoShape,
    /// When its session was lost.
    since_us: u64,
    /// When it counts as over: without confirmation, or once it has settled after one.
    until_us: Option<u64>,
    /// Its session is known to be over. Nothing that is learned later makes it last longer or
    /// shorter.
    is_fenced: bool,
    /// The I/O that it is a copy of was reported as done, before the one of this number was
    /// submitted.
    reported_before: Option<u64>,
}

/// The longest that a ghost is made to last, however often the target answers without confirming
/// its end.
const LONGEST_US: u64 = 15_000_000;

/// What ghosts let an I/O do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Permit {
    /// None is in its way.
    Free,
    /// Only copies of itself, whose session is over, may still land on its blocks: it may be sent
    /// if nothing else is writing them, so that what it leaves there is what they would write.
    Alone,
    /// It must wait.
    Wait,
}

/// All ghosts of a device; none, mostly.
#[derive(Debug, Default)]
pub(super) struct Ghosts(Vec<Ghost>);

impl Ghosts {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// A write of `path`, submitted as `number`, has lost its session.
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

    /// Those of `path` that wait for confirmation.
    fn unfenced(&mut self, path: PathId) -> impl Iterator<Item = &mut Ghost> {
        let ghosts = self.0.iter_mut();
        ghosts.filter(move |ghost| ghost.path == path && !ghost.is_fenced)
    }

    /// Those of `path` that have a timeout last at least until then.
    pub(super) fn lengthen(&mut self, path: PathId, until_us: u64) {
        for ghost in self.unfenced(path) {
            let longest_us = ghost.since_us.saturating_add(LONGEST_US);
            ghost.until_us = ghost
                .until_us
                .map(|until| until.max(until_us.min(longest_us)));
        }
    }

    /// Those of `path` that have a timeout last no longer than that.
    pub(super) fn shorten(&mut self, path: PathId, until_us: u64) {
        for ghost in self.unfenced(path) {
            ghost.until_us = ghost.until_us.map(|until| until.min(until_us));
        }
    }

    /// Whether an I/O of this shape, submitted as `number`, may be sent.
    #[inline]
    pub(super) fn permit(&self, number: u64, shape: &IoShape) -> Permit {
        if self.0.is_empty() {
            return Permit::Free;
        }
        if !shape.direction.changes_blocks() {
            // What was reported later is no business of it: else one loss after the other could
            // hold it for ever.
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

    /// The I/O submitted as `number` is reported as done; `next` is submitted next.
    #[inline]
    pub(super) fn reported(&mut self, number: u64, next: u64) {
        for ghost in self.0.iter_mut().filter(|ghost| ghost.number == number) {
            ghost.reported_before = Some(next);
        }
    }

    /// Whether some write of `path` may still land.
    pub(super) fn haunt(&self, path: PathId) -> bool {
        self.0.iter().any(|ghost| ghost.path == path)
    }

    /// Whether some write of `path` may still land whose session is not known to be over.
    pub(super) fn need_fence(&self, path: PathId) -> bool {
        let mut ghosts = self.0.iter();
        ghosts.any(|ghost| ghost.path == path && !ghost.is_fenced)
    }

    /// Every session that `path` had is over: what they left lands until `until_us`, or never. That
    /// time is theirs also where nobody would have waited as long for the confirmation. Whether
    /// anything may be sent now that might not before.
    pub(super) fn fenced(&mut self, path: PathId, now_us: u64, until_us: u64) -> bool {
        let mut is_news = false;
        for ghost in self.unfenced(path) {
            ghost.is_fenced = true;
            ghost.until_us = Some(until_us);
            is_news = true;
        }
        self.expire(now_us) || is_news
    }

    /// Forgets those whose time has passed. Whether there were any.
    pub(super) fn expire(&mut self, now_us: u64) -> bool {
        let before = self.0.len();
        self.0
            .retain(|ghost| ghost.until_us.is_none_or(|until| until > now_us));
        self.0.len() < before
    }

    /// Until when an old copy may land of what was reported as done; `None` where none may.
    pub(super) fn unsettled_until_us(&self) -> Option<u64> {
        let reported = self
            .0
            .iter()
            .filter(|ghost| ghost.reported_before.is_some());
        reported.filter_map(|ghost| ghost.until_us).max()
    }

    /// When the next one expires.
    pub(super) fn next_us(&self) -> Option<u64> {
        self.0.iter().filter_map(|ghost| ghost.until_us).min()
    }
}
