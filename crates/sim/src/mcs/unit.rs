//! Two logical units of cells behind a session of several connections. Each command names its
//! attempt, and ends at once or when the simulated disk is ready.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use iscsi::payload::DataOutBuffer;
use iscsi::target::{Admission, Completion, IncomingCommand, TaskId, TaskRouter};

use super::ledger::{AttemptId, JobId, JobKind, Ledger, attempt_of, cdb, pattern};
use crate::random::Random;

/// Number of logical units.
pub const LUNS: u64 = 2;
/// Number of cells of each unit.
pub const CELLS: usize = 64;

/// A command that the disk works on.
#[derive(Debug)]
struct Work {
    session: u64,
    task: TaskId,
    attempt: AttemptId,
}

/// The units and their disk.
#[derive(Debug)]
pub struct Units {
    /// Job that wrote each cell last; 0 for none.
    cells: Vec<Vec<JobId>>,
    waiting: BTreeMap<u64, Work>,
    /// Commands that became pending, with the times when they are due. The world takes them.
    pub due: Vec<(Duration, u64)>,
    last: u64,
    random: Random,
    max_delay_ms: u64,
}

type Answer = Completion<Arc<[u8]>>;

impl Units {
    /// Makes empty cells on a disk that answers within `max_delay_ms` (0: at once).
    pub fn new(random: Random, max_delay_ms: u64) -> Self {
        Self {
            cells: vec![vec![0; CELLS]; LUNS as usize],
            waiting: BTreeMap::new(),
            due: Vec::new(),
            last: 0,
            random,
            max_delay_ms,
        }
    }

    /// Returns the content of a cell.
    pub fn cell(&self, lun: u64, cell: usize) -> JobId {
        self.cells[lun as usize][cell]
    }

    fn perform(&mut self, attempt: AttemptId, ledger: &mut Ledger) -> Answer {
        ledger.perform(attempt);
        let id = ledger.job_of(attempt);
        let job = ledger.job(id);
        let cell = &mut self.cells[job.lun as usize][job.cell];
        match job.kind {
            JobKind::Write => *cell = id,
            JobKind::Read => return good(Some(pattern(*cell, job.length).into())),
            JobKind::Nothing => {}
        }
        good(None)
    }

    fn now_or_later(
        &mut self,
        now: Duration,
        work: Work,
        ledger: &mut Ledger,
    ) -> Admission<Arc<[u8]>, Room> {
        let delay_ms = self.random.within(0..self.max_delay_ms + 1);
        if delay_ms == 0 {
            return Admission::Done(self.perform(work.attempt, ledger));
        }
        self.last += 1;
        self.waiting.insert(self.last, work);
        self.due
            .push((now + Duration::from_millis(delay_ms), self.last));
        Admission::Running
    }

    /// Ends the command with this number, since the disk is ready. Returns `None` if the command
    /// was taken back.
    pub fn finish(&mut self, number: u64, ledger: &mut Ledger) -> Option<(u64, TaskId, Answer)> {
        let work = self.waiting.remove(&number)?;
        let answer = self.perform(work.attempt, ledger);
        Some((work.session, work.task, answer))
    }

    /// Reports whether the disk works on this task.
    pub fn runs(&self, session: u64, task: TaskId) -> bool {
        self.of_session(session).any(|running| running == task)
    }

    /// Returns the tasks of a session that the disk works on.
    pub fn of_session(&self, session: u64) -> impl Iterator<Item = TaskId> {
        let works = self.waiting.values();
        let works = works.filter(move |work| work.session == session);
        works.map(|work| work.task)
    }

    /// Tries to take a task back from the disk, which may have begun with it. Reports whether that
    /// succeeded.
    pub fn take_back(&mut self, session: u64, task: TaskId) -> bool {
        if self.random.per_mille(500) {
            return false;
        }
        let mut works = self.waiting.iter();
        let found = works.find(|(_, work)| work.session == session && work.task == task);
        let number = found.map(|(number, _)| *number);
        number.is_some_and(|number| self.waiting.remove(&number).is_some())
    }
}

/// Makes a good answer, with or without data.
pub fn good(data_in: Option<Arc<[u8]>>) -> Answer {
    Completion {
        status: 0,
        sense: Vec::new(),
        data_in,
        data_out_wanted: None,
        receipt: None,
    }
}

/// Room for data-out on its way in.
#[derive(Debug)]
pub struct Room {
    bytes: Vec<u8>,
    attempt: AttemptId,
}

impl DataOutBuffer for Room {
    fn put(&mut self, offset: usize, bytes: &[u8]) {
        self.bytes.put(offset, bytes);
    }

    fn room(&mut self, offset: usize, len: usize) -> impl Iterator<Item = &mut [u8]> {
        self.bytes.room(offset, len)
    }

    fn mark_filled(&mut self, offset: usize, len: usize) {
        self.bytes.mark_filled(offset, len);
    }
}

/// Way of one session to the units.
#[derive(Debug)]
pub struct Router<'a> {
    /// Logical units.
    pub units: &'a mut Units,
    /// The model.
    pub ledger: &'a mut Ledger,
    /// Number of the session.
    pub session: u64,
    /// Simulated time.
    pub now: Duration,
}

impl TaskRouter for Router<'_> {
    type Payload = Arc<[u8]>;
    type Buffer = Room;

    fn command(
        &mut self,
        task: TaskId,
        incoming: &IncomingCommand<'_>,
    ) -> Admission<Arc<[u8]>, Room> {
        let attempt = attempt_of(incoming.cdb);
        self.ledger.begin(attempt, self.session);
        let job = self.ledger.job(self.ledger.job_of(attempt));
        assert_eq!(incoming.cdb, cdb(attempt, &job), "a CDB was changed");
        assert_eq!(incoming.lun, job.lun << 48, "another unit");
        if job.kind == JobKind::Write {
            let bytes = Vec::new();
            return Admission::Collect {
                buffer: Room { bytes, attempt },
                wanted: job.length as u32,
            };
        }
        let work = Work {
            session: self.session,
            task,
            attempt,
        };
        self.units.now_or_later(self.now, work, self.ledger)
    }

    fn data_out(&mut self, task: TaskId, room: Room, length: u32) -> Admission<Arc<[u8]>, Room> {
        let job = self.ledger.job_of(room.attempt);
        assert!(
            room.bytes == pattern(job, length as usize),
            "attempt {}: its data was changed",
            room.attempt
        );
        let work = Work {
            session: self.session,
            task,
            attempt: room.attempt,
        };
        self.units.now_or_later(self.now, work, self.ledger)
    }
}
