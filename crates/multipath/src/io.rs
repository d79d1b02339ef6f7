//! One I/O of a device: its shape, how an attempt ended, how the whole ended.

use scsi::application_client::sense::Reaction;

use super::path::PathId;

/// The host's number for an I/O: small and dense (an index), used again after
/// [`Action::Finish`](super::Action::Finish).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IoId(pub u32);

/// What an I/O does; only what policy must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Changes nothing.
    Read,
    /// Changes the blocks of its range: WRITE, WRITE SAME.
    Write,
    /// Changes blocks without carrying them: UNMAP.
    Unmap,
    /// Neither reads nor changes blocks and may be repeated: SYNCHRONIZE CACHE, GET LBA STATUS.
    Other,
}

impl Direction {
    /// Whether a late duplicate could undo newer data.
    pub fn changes_blocks(self) -> bool {
        matches!(self, Self::Write | Self::Unmap)
    }
}

/// What an I/O looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoShape {
    /// What it does.
    pub direction: Direction,
    /// Payload, for limits by bytes and for the counters.
    pub bytes: u32,
    /// First byte (or block) and length of what it touches, all ranges of a device in one unit.
    /// `None`: perhaps everything.
    pub range: Option<(u64, u64)>,
    /// Its good end promises that something is durable: what it writes (FUA, or a unit without
    /// volatile cache), or all that was written before (SYNCHRONIZE CACHE). Whoever is told so may
    /// hand the blocks over to another host.
    pub durable: bool,
}

impl IoShape {
    /// Whether both may touch the same block.
    pub fn overlaps(&self, other: &Self) -> bool {
        match (self.range, other.range) {
            (Some((a, a_len)), Some((b, b_len))) => {
                a < b.saturating_add(b_len) && b < a.saturating_add(a_len)
            }
            _ => true,
        }
    }
}

/// How one attempt on one path ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Status GOOD (or CONDITION MET).
    Good,
    /// CHECK CONDITION, read by [`scsi::application_client::sense::SenseCode::reaction`].
    Sense(Reaction),
    /// Status BUSY.
    Busy,
    /// Status TASK SET FULL.
    TaskSetFull,
    /// Status RESERVATION CONFLICT.
    ReservationConflict,
    /// Status TASK ABORTED, or the host aborted the task and the target confirmed it: the target
    /// does nothing more about it.
    TaskAborted,
    /// The connection failed under it: nobody knows what the target did or will do. The path counts
    /// as dead from here, with all that is on it.
    TransportLost,
}

/// How an I/O ended for who submitted it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was performed.
    Good,
    /// It failed; writes may or may not have been performed.
    Failed(Failure),
}

/// Why an I/O failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The unit refused it, with sense data that repeating does not help (or no longer).
    Sense(Reaction),
    /// Another initiator holds a reservation.
    ReservationConflict,
    /// The target was busy, had its task set full or aborted tasks for the whole time limit.
    Busy,
    /// All paths down (APD) for longer than the timeout.
    AllPathsDown,
    /// Permanent device loss (PDL): every path says that the unit does not exist.
    DeviceLost,
    /// Paths live, but none in a state that serves I/O, for the whole time limit.
    NoActivePath,
    /// Every path that it was sent down was lost under it, again and again for the whole time
    /// limit.
    PathsKeepDying,
}

/// Where an I/O is between submission and end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The number is not in use.
    Free,
    /// In the queue.
    Queued,
    /// On this path.
    OnPath(PathId),
    /// Behind a write that may still land.
    Held,
    /// To be repeated at a given time.
    Delayed,
}

/// An I/O in the books.
#[derive(Clone, Copy, Debug)]
pub(super) struct Io {
    pub(super) shape: IoShape,
    pub(super) stage: Stage,
    /// How many attempts ended without an answer that counts.
    pub(super) tries: u16,
    /// How many of them in a row for the same reason.
    pub(super) repeats: u16,
    /// Paths that were lost under it.
    pub(super) losses: u16,
    /// Why it fails, should it have to: why the last attempt did not count.
    pub(super) failure: Failure,
    /// Order of submission.
    pub(super) number: u64,
    pub(super) submitted_us: u64,
    /// First attempt.
    pub(super) first_sent_us: Option<u64>,
    /// Last attempt.
    pub(super) sent_us: u64,
}

impl Io {
    pub(super) const FREE: Self = Self {
        shape: IoShape {
            direction: Direction::Other,
            bytes: 0,
            range: None,
            durable: false,
        },
        stage: Stage::Free,
        tries: 0,
        repeats: 0,
        losses: 0,
        failure: Failure::NoActivePath,
        number: 0,
        submitted_us: 0,
        first_sent_us: None,
        sent_us: 0,
    };
}
