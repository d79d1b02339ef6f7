//! The ledger: the model to which a session of several connections is compared. It records the
//! commands that were sent, their places in the session's order, and their possible outcomes.
//!
//! A *job* is the work that the initiator wants done. An *attempt* is one command for it. If the
//! target never had an attempt, it is sent again with its own CmdSN. If the attempt was lost with
//! its connection, another attempt follows.

/// Number of a job.
pub type JobId = u64;
/// Number of an attempt. Commands carry it in their CDB.
pub type AttemptId = u64;
/// Place in a session's order: CmdSN counted from the session's first, without wrapping.
pub type Place = i64;

/// Kind of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobKind {
    /// Writes the job's number into its cell.
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
    /// Whether a function was sent that may abort the attempt. Then it need not begin.
    abort_asked: bool,
    /// Whether the initiator knows that the attempt has ended. Then it may have no effect any more.
    over: bool,
}

#[derive(Debug, Default)]
struct Order {
    /// Attempt that was sent at each place; `None` is a request that is not a command.
    places: Vec<Option<AttemptId>>,
    /// Place behind the last command that began.
    next: Place,
}

/// All jobs, attempts and orders of a world.
#[derive(Debug, Default)]
pub struct Ledger {
    jobs: Vec<Job>,
    attempts: Vec<Attempt>,
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

    /// Begins the session of this number. Sessions are numbered from 0 without gaps.
    pub fn begin_session(&mut self, session: u64) {
        assert_eq!(self.orders.len() as u64, session);
        self.orders.push(Order::default());
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
            abort_asked: false,
            over: false,
        });
        let id = self.attempts.len() as AttemptId;
        if !immediate {
            self.take_place(session, place, Some(id));
        }
        id
    }

    /// Adds a request at this place that is not a command.
    pub fn add_request(&mut self, session: u64, place: Place) {
        self.take_place(session, place, None);
    }

    fn take_place(&mut self, session: u64, place: Place, attempt: Option<AttemptId>) {
        let places = &mut self.orders[session as usize].places;
        assert_eq!(places.len() as Place, place, "CmdSNs are used one by one");
        places.push(attempt);
    }

    fn attempt(&mut self, id: AttemptId) -> &mut Attempt {
        &mut self.attempts[id as usize - 1]
    }

    /// Returns the job of an attempt.
    pub fn job_of(&self, id: AttemptId) -> JobId {
        self.attempts[id as usize - 1].job
    }

    /// Notes that a function is about to be sent that may abort the attempt.
    pub fn ask_abort(&mut self, id: AttemptId) {
        self.attempt(id).abort_asked = true;
    }

    /// Notes that the device server is given the attempt.
    pub fn begin(&mut self, id: AttemptId, session: u64) {
        let attempt = self.attempt(id);
        assert_eq!(attempt.session, session, "attempt {id}: another session's");
        assert!(!attempt.over, "attempt {id} began after it was over");
        assert!(!attempt.begun, "attempt {id} began twice");
        attempt.begun = true;
        let (place, immediate) = (attempt.place, attempt.immediate);
        self.begun += 1;
        if immediate {
            return;
        }
        let next = self.orders[session as usize].next;
        assert!(place >= next, "attempt {id} began behind its successors");
        for skipped in next..place {
            let Some(skipped) = self.orders[session as usize].places[skipped as usize] else {
                continue;
            };
            let passed = &self.attempts[skipped as usize - 1];
            assert!(passed.abort_asked, "attempt {skipped} was passed over");
        }
        self.orders[session as usize].next = place + 1;
    }

    /// Notes that the device performs the attempt.
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
        let attempt = self.attempt(id);
        assert!(
            attempt.performed,
            "attempt {id} was answered, not performed"
        );
        self.conclude(id);
    }

    /// Notes that the initiator knows that the attempt is over, unanswered: aborted, or lost with
    /// its connection.
    pub fn conclude(&mut self, id: AttemptId) {
        let attempt = self.attempt(id);
        assert!(!attempt.over, "attempt {id} ended twice");
        attempt.over = true;
    }
}

/// Returns the bytes that a job writes, and that a reader of its cell finds.
pub fn pattern(job: JobId, length: usize) -> Vec<u8> {
    let at = |at: u64| (job.wrapping_mul(0x9e37_79b9) >> (8 * (at % 4))) as u8 ^ (at / 4) as u8;
    (0..length as u64).map(at).collect()
}

/// Returns a command's CDB: its kind, its attempt, its place and its length.
pub fn cdb(attempt: AttemptId, job: &Job) -> [u8; 16] {
    let mut cdb = [0; 16];
    cdb[0] = match job.kind {
        JobKind::Write => 0x8a,
        JobKind::Read => 0x88,
        JobKind::Nothing => 0,
    };
    cdb[1..9].copy_from_slice(&attempt.to_be_bytes());
    cdb[9] = job.cell as u8;
    cdb[10..14].copy_from_slice(&(job.length as u32).to_be_bytes());
    cdb
}

/// Returns the attempt that a CDB is for.
pub fn attempt_of(cdb: &[u8]) -> AttemptId {
    AttemptId::from_be_bytes(cdb[1..9].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_in_a_row() -> Ledger {
        let mut ledger = Ledger::default();
        ledger.begin_session(0);
        for place in 0..2 {
            let job = ledger.add_job(Job {
                kind: JobKind::Write,
                lun: 0,
                cell: place as usize,
                length: 4,
            });
            ledger.add_attempt(job, 0, place, false);
        }
        ledger
    }

    #[test]
    #[should_panic(expected = "attempt 1 was passed over")]
    fn a_gap_is_noticed() {
        two_in_a_row().begin(2, 0);
    }

    #[test]
    fn what_was_aborted_may_be_a_gap() {
        let mut ledger = two_in_a_row();
        ledger.ask_abort(1);
        ledger.begin(2, 0);
    }

    #[test]
    #[should_panic(expected = "began twice")]
    fn a_second_begin_is_noticed() {
        let mut ledger = two_in_a_row();
        ledger.begin(1, 0);
        ledger.begin(1, 0);
    }

    #[test]
    #[should_panic(expected = "performed after it was over")]
    fn what_comes_back_is_noticed() {
        let mut ledger = two_in_a_row();
        ledger.begin(1, 0);
        ledger.conclude(1);
        ledger.perform(1);
    }

    #[test]
    #[should_panic(expected = "answered, not performed")]
    fn an_empty_promise_is_noticed() {
        let mut ledger = two_in_a_row();
        ledger.begin(1, 0);
        ledger.answered(1);
    }
}
