//! One I/O of a device: its shape, the end of each attempt, and its final result.

use scsi::application_client::sense::Reaction;

use super::path::PathId;

/// The host's number for an I/O. Numbers are small and dense (an index), and are used again after
/// [`Action::Finish`](super::Action::Finish).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IoId(pub u32);

/// Kind of an I/O, as far as the policy must know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The I/O changes nothing.
    Read,
    /// The I/O changes the blocks of its range: WRITE, WRITE SAME.
    Write,
    /// The I/O changes blocks without carrying their data: UNMAP.
    Unmap,
    /// The I/O neither reads nor changes blocks, and may be repeated: SYNCHRONIZE CACHE, GET LBA
    /// STATUS.
    Other,
}

impl Direction {
    /// Reports whether a late duplicate could undo newer data.
    pub fn changes_blocks(self) -> bool {
        matches!(self, Self::Write | Self::Unmap)
    }
}

/// Shape of an I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoShape {
    /// Kind of the I/O.
    pub direction: Direction,
    /// Bytes of payload, for limits by bytes and for the counters.
    pub bytes: u32,
    /// First byte (or block) and length of the range that the I/O touches. All ranges of a device
    /// have one unit. `None`: perhaps everything.
    pub range: Option<(u64, u64)>,
    /// Whether success promises that data is durable: the data of this write (FUA, or a unit
    /// without volatile cache), or all earlier writes (SYNCHRONIZE CACHE). A user with this promise
    /// may hand the blocks over to another host.
    pub durable: bool,
}

impl IoShape {
    /// Reports whether both I/Os may touch the same block.
    pub fn overlaps(&self, other: &Self) -> bool {
        match (self.range, other.range) {
            (Some((a, a_len)), Some((b, b_len))) => {
                a < b.saturating_add(b_len) && b < a.saturating_add(a_len)
            }
            _ => true,
        }
    }
}

/// End of one attempt on one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Status GOOD (or CONDITION MET).
    Good,
    /// Status CHECK CONDITION, read by [`scsi::application_client::sense::SenseCode::reaction`].
    Sense(Reaction),
    /// Status BUSY.
    Busy,
    /// Status TASK SET FULL.
    TaskSetFull,
    /// Status RESERVATION CONFLICT.
    ReservationConflict,
    /// Status TASK ABORTED, or the host aborted the task and the target confirmed it. The target
    /// does nothing more about the task.
    TaskAborted,
    /// The connection failed during the attempt: nobody knows what the target did or will do. From
    /// now on the path counts as dead, with all its I/Os.
    TransportLost,
}

/// Final result of an I/O, for its submitter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The I/O was performed.
    Good,
    /// The I/O failed; writes may or may not have been performed.
    Failed(Failure),
}

/// Reason why an I/O failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The unit refused the I/O, with sense data against which repeating does not help (any more).
    Sense(Reaction),
    /// A different initiator holds a reservation.
    ReservationConflict,
    /// The target was busy, had its task set full or aborted tasks for the whole time limit.
    Busy,
    /// All paths were down (APD) for longer than the timeout.
    AllPathsDown,
    /// The device is permanently lost (PDL): every path says that the unit does not exist.
    DeviceLost,
    /// Paths live, but for the whole time limit none was in a state that serves I/O.
    NoActivePath,
    /// Every path that carried the I/O was lost, again and again for the whole time limit.
    PathsKeepDying,
}

/// Stage of an I/O between submission and end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IoStage {
    /// The number is not in use.
    Free,
    /// The I/O is in the queue.
    Queued,
    /// The I/O is on this path.
    OnPath(PathId),
    /// The I/O waits for a write that may still land.
    Held,
    /// The I/O is repeated at a given time.
    Delayed,
}

/// State that a device keeps about an I/O.
#[derive(Clone, Copy, Debug)]
pub(super) struct Io {
    pub(super) shape: IoShape,
    pub(super) stage: IoStage,
    /// Number of attempts that ended without an answer that counts.
    pub(super) tries: u16,
    /// Number of the latest attempts in a row that failed for the same reason.
    pub(super) repeats: u16,
    /// Number of paths that were lost under the I/O.
    pub(super) losses: u16,
    /// Reason why the last attempt did not count. The I/O fails with this reason if it must fail.
    pub(super) failure: Failure,
    /// Place in the order of submission.
    pub(super) number: u64,
    pub(super) submitted_us: u64,
    /// Time of the first attempt.
    pub(super) first_sent_us: Option<u64>,
    /// Time of the last attempt.
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
        stage: IoStage::Free,
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
