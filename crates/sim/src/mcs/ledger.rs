//! The ledger: the model to which a session of several connections is compared. It records the
//! commands that were sent, their places in the session's order, and their possible outcomes.
//!
//! A *job* is the work that the initiator wants done. An *attempt* is one command for it. If the
//! target never had an attempt, it is sent again with its own CmdSN. If the attempt was lost with
//! its connection, another attempt follows.
//!
//! The disks of the target show its work. A read begins there when the device server is given it,
//! so reads show the order of commands. A write begins when all of its data has come.

use std::collections::HashMap;

use super::cells::CELL_BLOCKS;
use crate::drive::BLOCK;

/// Number of a job.
pub type JobId = u64;
/// Number of an attempt. The blocks that it writes begin with it.
pub type AttemptId = u64;
/// Place in a session's order: CmdSN counted from the session's first, without wrapping.
pub type Place = i64;

/// Kind of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobKind {
    /// Writes the attempt's number into its cell.
    Write,
    /// Reads the content of its cell.
    Read,
    /// Moves no data.
    Nothing,
}

/// A job of the initiator.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// Kind of the job.
    pub kind: JobKind,
    /// Logical unit of the job.
    pub lun: u64,
    /// Cell of the logical unit. No other job that has not ended uses the cell.
    pub cell: usize,
    /// Number of bytes that are moved.
    pub length: usize,
}

#[derive(Debug)]
struct Attempt {
    job: JobId,
    session: u64,
    place: Place,
    immediate: bool,
    begun: bool,
    performed: bool,
    /// Whether the initiator knows that the attempt has ended. Then it may have no effect any more.
    over: bool,
}

#[derive(Debug, Default)]
struct Order {
    /// Number of places that were used.
    places: Place,
    /// Place behind the last read that began.
    next: Place,
}

/// All jobs, attempts and orders of a world.
#[derive(Debug, Default)]
pub struct Ledger {
    jobs: Vec<Job>,
    attempts: Vec<Attempt>,
    /// Latest attempt for each cell of each unit.
    latest: HashMap<(u64, usize), AttemptId>,
    orders: Vec<Order>,
    /// Attempts that began, for the report.
    pub begun: u64,
}

impl Ledger {
    /// Adds a new job.
    pub fn add_job(&mut self, job: Job) -> JobId {
        self.jobs.push(job);
        self.jobs.len() as JobId
    }

    /// Returns the job of this number.
    pub fn job(&self, id: JobId) -> Job {
        self.jobs[id as usize - 1]
    }

    /// Begins a session, and returns its number.
    pub fn begin_session(&mut self) -> u64 {
        self.orders.push(Order::default());
        self.orders.len() as u64 - 1
    }

    /// Adds a command for `job` that takes this place or, if it is immediate, stands before it.
    pub fn add_attempt(
        &mut self,
        job: JobId,
        session: u64,
        place: Place,
        immediate: bool,
    ) -> AttemptId {
        self.attempts.push(Attempt {
            job,
            session,
            place,
            immediate,
            begun: false,
            performed: false,
            over: false,
        });
        let id = self.attempts.len() as AttemptId;
        let of = self.job(job);
        self.latest.insert((of.lun, of.cell), id);
        if !immediate {
            self.add_request(session, place);
        }
        id
    }

    /// Adds a request at this place.
    pub fn add_request(&mut self, session: u64, place: Place) {
        let places = &mut self.orders[session as usize].places;
        assert_eq!(*places, place, "CmdSNs are used one by one");
        *places += 1;
    }

    /// Returns the latest attempt for a cell.
    pub fn latest(&self, lun: u64, cell: usize) -> Option<AttemptId> {
        self.latest.get(&(lun, cell)).copied()
    }

    fn attempt(&mut self, id: AttemptId) -> &mut Attempt {
        &mut self.attempts[id as usize - 1]
    }

    /// Returns the job of an attempt.
    pub fn job_of(&self, id: AttemptId) -> JobId {
        self.attempts[id as usize - 1].job
    }

    /// Notes that the disk is given the attempt.
    pub fn begin(&mut self, id: AttemptId) {
        let attempt = self.attempt(id);
        assert!(!attempt.over, "attempt {id} began after it was over");
        assert!(!attempt.begun, "attempt {id} began twice");
        attempt.begun = true;
        let (session, place, immediate) = (attempt.session, attempt.place, attempt.immediate);
        self.begun += 1;
        if immediate || self.job(self.job_of(id)).kind != JobKind::Read {
            return;
        }
        let next = &mut self.orders[session as usize].next;
        assert!(place >= *next, "attempt {id} began behind its successors");
        *next = place + 1;
    }

    /// Notes that the disk has performed the attempt.
    pub fn perform(&mut self, id: AttemptId) {
        let attempt = self.attempt(id);
        assert!(attempt.begun, "attempt {id} was performed unasked");
        assert!(
            !attempt.over,
            "attempt {id} was performed after it was over"
        );
        assert!(!attempt.performed, "attempt {id} was performed twice");
        attempt.performed = true;
    }

    /// Notes that the initiator heard the attempt's status.
    pub fn answered(&mut self, id: AttemptId) {
        // The disk has no part in a command that moves nothing.
        let moves = self.job(self.job_of(id)).kind != JobKind::Nothing;
        let attempt = self.attempt(id);
        assert!(
            attempt.performed || !moves,
            "attempt {id} was answered, not performed"
        );
        self.conclude(id);
    }

    /// Notes that the initiator knows that the attempt is over, unanswered: refused, aborted, or
    /// lost with its connection.
    pub fn conclude(&mut self, id: AttemptId) {
        let attempt = self.attempt(id);
        assert!(!attempt.over, "attempt {id} ended twice");
        attempt.over = true;
    }
}

/// Returns the bytes that an attempt writes, and that a reader of its cell finds. They begin with
/// its number. Those of attempt 0, which was never made, are zeros.
pub fn pattern(attempt: AttemptId, length: usize) -> Vec<u8> {
    if attempt == 0 {
        return vec![0; length];
    }
    let hash = attempt.wrapping_mul(0x9e37_79b9);
    let at = |at: u64| (hash >> (8 * (at % 4))) as u8 ^ (at / 4) as u8;
    let mut bytes: Vec<u8> = (0..length as u64).map(at).collect();
    bytes[..8].copy_from_slice(&attempt.to_le_bytes());
    bytes
}

/// Returns a job's CDB: WRITE(16), READ(16) or TEST UNIT READY.
pub fn cdb(job: &Job) -> [u8; 16] {
    let mut cdb = [0; 16];
    cdb[0] = match job.kind {
        JobKind::Write => 0x8a,
        JobKind::Read => 0x88,
        JobKind::Nothing => return cdb,
    };
    let lba = (job.cell * CELL_BLOCKS) as u64;
    cdb[2..10].copy_from_slice(&lba.to_be_bytes());
    cdb[10..14].copy_from_slice(&((job.length / BLOCK) as u32).to_be_bytes());
    cdb
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_in_a_row(kind: JobKind) -> Ledger {
        let mut ledger = Ledger::default();
        let session = ledger.begin_session();
        for place in 0..2 {
            let job = ledger.add_job(Job {
                kind,
                lun: 0,
                cell: place as usize,
                length: 512,
            });
            ledger.add_attempt(job, session, place, false);
        }
        ledger
    }

    #[test]
    #[should_panic(expected = "attempt 1 began behind its successors")]
    fn a_read_that_comes_too_late_is_noticed() {
        let mut ledger = two_in_a_row(JobKind::Read);
        ledger.begin(2);
        ledger.begin(1);
    }

    #[test]
    fn writes_begin_when_their_data_has_come() {
        let mut ledger = two_in_a_row(JobKind::Write);
        ledger.begin(2);
        ledger.begin(1);
        assert_eq!(ledger.latest(0, 1), Some(2));
    }

    #[test]
    #[should_panic(expected = "began twice")]
    fn a_second_begin_is_noticed() {
        let mut ledger = two_in_a_row(JobKind::Write);
        ledger.begin(1);
        ledger.begin(1);
    }

    #[test]
    #[should_panic(expected = "performed after it was over")]
    fn what_comes_back_is_noticed() {
        let mut ledger = two_in_a_row(JobKind::Write);
        ledger.begin(1);
        ledger.conclude(1);
        ledger.perform(1);
    }

    #[test]
    #[should_panic(expected = "answered, not performed")]
    fn an_empty_promise_is_noticed() {
        let mut ledger = two_in_a_row(JobKind::Write);
        ledger.begin(1);
        ledger.answered(1);
    }

    #[test]
    fn a_pattern_tells_its_attempt() {
        assert_eq!(pattern(0, 512), vec![0; 512]);
        assert_eq!(
            pattern(258, 512)[..9],
            [2, 1, 0, 0, 0, 0, 0, 0, pattern(258, 9)[8]]
        );
        assert_ne!(pattern(1, 512)[8..], pattern(2, 512)[8..]);
    }
}
