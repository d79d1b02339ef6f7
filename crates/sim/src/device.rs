//! The device server of `scsi` over memory, behind the task router of `iscsi`. Some commands end at
//! once, others when the simulated disk is ready.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use iscsi::payload::DataOutBuffer;
use iscsi::target::{Admission, Completion, IncomingCommand, TaskId, TaskRouter};
use scsi::alua::{
    AccessState, GroupLayout, SupportedStates, TargetPortGroup, TargetPortGroups, TpgsMode,
};
use scsi::itl_nexus::ItlNexus;
use scsi::logical_unit::{LogicalUnit, UnitConfig};
use scsi::view::{Identity, TargetView};
use scsi::{BlockRange, Command, Extent, Input, Response, Start, Step, TaskAttribute};

use crate::random::Random;

/// Bytes of a block.
pub const BLOCK: usize = 512;
/// Number of blocks of the unit.
pub const BLOCKS: u64 = 1024;

/// Work of a command on blocks once the disk is ready.
#[derive(Debug)]
enum Work {
    Read(BlockRange),
    Write(BlockRange, Vec<u8>),
}

/// A command whose disk is ready: the session, its task, and its result.
pub type Finished = (u64, TaskId, Completion<Arc<[u8]>>);

/// A command that waits for the disk.
#[derive(Debug)]
pub struct Waiting {
    /// Session of the command.
    pub session: u64,
    /// Task of the session.
    pub task: TaskId,
    work: Work,
}

/// A logical unit and its disk.
#[derive(Debug)]
pub struct Device {
    /// Logical unit.
    pub unit: Arc<LogicalUnit>,
    medium: Vec<u8>,
    waiting: BTreeMap<u64, Waiting>,
    /// Commands that became pending, with the times when they are due. The world takes them.
    pub due: Vec<(Duration, u64)>,
    last_waiting: u64,
    random: Random,
    max_delay_ms: u64,
}

impl Device {
    /// Makes a unit of zeros whose disk answers within `max_delay_ms` (0: at once).
    pub fn new(random: Random, max_delay_ms: u64) -> Self {
        let layout = GroupLayout {
            mode: TpgsMode::None,
            groups: vec![TargetPortGroup {
                id: 1,
                preferred: true,
                supported: SupportedStates::ALL,
                state: AccessState::ActiveOptimized,
                ports: vec![1],
            }],
            implicit_transition_s: 0,
        };
        let groups = Arc::new(TargetPortGroups::new(layout).expect("the layout is right"));
        Self {
            unit: LogicalUnit::new(config(), groups),
            medium: vec![0; BLOCKS as usize * BLOCK],
            waiting: BTreeMap::new(),
            due: Vec::new(),
            last_waiting: 0,
            random,
            max_delay_ms,
        }
    }

    /// Returns all bytes of the unit.
    pub fn medium(&self) -> &[u8] {
        &self.medium
    }

    /// Ends a command that waited, since the disk is ready. Returns `None` if its session was lost
    /// meanwhile.
    pub fn finish(&mut self, number: u64) -> Option<Finished> {
        let Waiting {
            session,
            task,
            work,
        } = self.waiting.remove(&number)?;
        Some((session, task, self.carry_out(work)))
    }

    /// Ends a session: each of its writes has happened or never will.
    pub fn lose(&mut self, session: u64) {
        let lost: Vec<u64> = self
            .waiting
            .iter()
            .filter(|(_, waiting)| waiting.session == session)
            .map(|(number, _)| *number)
            .collect();
        for number in lost {
            let waiting = self.waiting.remove(&number);
            if let Some(waiting) = waiting.filter(|_| self.random.per_mille(500)) {
                self.carry_out(waiting.work);
            }
        }
    }

    fn carry_out(&mut self, work: Work) -> Completion<Arc<[u8]>> {
        match work {
            Work::Read(range) => good(Some(self.medium[bytes(range)].into())),
            Work::Write(range, data) => {
                self.medium[bytes(range)].copy_from_slice(&data);
                good(None)
            }
        }
    }

    fn now_or_later(
        &mut self,
        now: Duration,
        session: u64,
        task: TaskId,
        work: Work,
    ) -> Admission<Arc<[u8]>, Collected> {
        let delay_ms = self.random.within(0..self.max_delay_ms + 1);
        if delay_ms == 0 {
            return Admission::Done(self.carry_out(work));
        }
        self.last_waiting += 1;
        let waiting = Waiting {
            session,
            task,
            work,
        };
        self.waiting.insert(self.last_waiting, waiting);
        let due = now + Duration::from_millis(delay_ms);
        self.due.push((due, self.last_waiting));
        Admission::Running
    }

    fn run_task(&mut self, mut task: Box<dyn scsi::Task>, data_out: &[u8]) -> Response {
        let mut step = task.step(Input::Begin { data_out });
        loop {
            step = match step {
                Step::Done(response) => return response,
                Step::Read { range } => task.step(Input::Blocks(&self.medium[bytes(range)])),
                Step::Extents { range } => task.step(Input::Extents(&[Extent {
                    range,
                    mapped: true,
                }])),
                change => {
                    self.change(change, data_out);
                    task.step(Input::Done)
                }
            };
        }
    }

    fn change(&mut self, step: Step, data_out: &[u8]) {
        match step {
            Step::Write { range, data, .. } => self.medium[bytes(range)].copy_from_slice(&data),
            Step::WriteDataOut { range, offset, .. } => {
                let range = bytes(range);
                let data = &data_out[offset as usize..][..range.len()];
                self.medium[range].copy_from_slice(data);
            }
            Step::WriteZeroes { range, .. } => self.medium[bytes(range)].fill(0),
            Step::WritePattern { range, pattern, .. } => {
                let blocks = self.medium[bytes(range)].chunks_mut(BLOCK);
                blocks.for_each(|block| block.copy_from_slice(&pattern));
            }
            Step::Unmap { ranges } => {
                for range in ranges {
                    self.medium[bytes(range)].fill(0);
                }
            }
            // There is one unit, no cache, nothing to save and nobody to abort.
            _ => {}
        }
    }
}

fn bytes(range: BlockRange) -> std::ops::Range<usize> {
    range.start.0 as usize * BLOCK..range.end() as usize * BLOCK
}

fn good(data_in: Option<Arc<[u8]>>) -> Completion<Arc<[u8]>> {
    Completion {
        status: 0,
        sense: Vec::new(),
        data_in,
        data_out_wanted: None,
        receipt: None,
    }
}

fn completion(response: Response) -> Completion<Arc<[u8]>> {
    let data_in = (!response.data_in.is_empty()).then(|| response.data_in.into());
    Completion {
        status: response.status as u8,
        sense: response.sense,
        data_in,
        data_out_wanted: response.would_move,
        receipt: None,
    }
}

/// View of one session: the unit at LUN 0.
#[derive(Debug)]
pub struct View(pub Arc<ItlNexus>);

impl TargetView for View {
    fn luns(&self) -> Vec<u64> {
        vec![0]
    }

    fn identity(&self) -> Identity {
        Identity {
            vendor: "SIM",
            product: "UNIT",
            revision: "1",
        }
    }

    fn itl_nexuses(&self) -> Vec<Arc<ItlNexus>> {
        vec![self.0.clone()]
    }
}

/// Data-out on its way in, with its purpose.
#[derive(Debug)]
pub struct Collected {
    bytes: Vec<u8>,
    intent: Intent,
}

#[derive(Debug)]
enum Intent {
    Write(BlockRange),
    Task(Box<dyn scsi::Task>),
}

impl DataOutBuffer for Collected {
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

/// Way of one session to the device.
#[derive(Debug)]
pub struct Router<'a> {
    /// The device.
    pub device: &'a mut Device,
    /// View of the session.
    pub view: &'a View,
    /// Number of the session.
    pub session: u64,
    /// Simulated time.
    pub now: Duration,
    /// CDBs in the order in which they came.
    pub seen: &'a mut Vec<[u8; 16]>,
}

impl TaskRouter for Router<'_> {
    type Payload = Arc<[u8]>;
    type Buffer = Collected;

    fn command(
        &mut self,
        task: TaskId,
        incoming: &IncomingCommand<'_>,
    ) -> Admission<Arc<[u8]>, Collected> {
        self.seen
            .push(incoming.cdb.try_into().expect("a CDB of 16 bytes"));
        let command = Command {
            cdb: incoming.cdb,
            attribute: TaskAttribute::Simple,
            data_out_len: incoming.data_out_length,
            data_in_len: incoming.data_in_length,
        };
        let collect = |wanted, intent| Admission::Collect {
            buffer: Collected {
                bytes: Vec::new(),
                intent,
            },
            wanted,
        };
        match self.view.0.start(&command, self.view) {
            Start::Respond(response) => Admission::Done(completion(response)),
            Start::Read { range, .. } => {
                let work = Work::Read(range);
                self.device.now_or_later(self.now, self.session, task, work)
            }
            Start::Write { range, wanted, .. } => collect(wanted, Intent::Write(range)),
            Start::Task(run) if run.data_out_len() > 0 => {
                collect(run.data_out_len(), Intent::Task(run))
            }
            Start::Task(run) => Admission::Done(completion(self.device.run_task(run, &[]))),
        }
    }

    fn data_out(
        &mut self,
        task: TaskId,
        collected: Collected,
        length: u32,
    ) -> Admission<Arc<[u8]>, Collected> {
        assert_eq!(collected.bytes.len(), length as usize, "all data-out is in");
        match collected.intent {
            Intent::Write(range) => {
                let work = Work::Write(range, collected.bytes);
                self.device.now_or_later(self.now, self.session, task, work)
            }
            Intent::Task(run) => {
                Admission::Done(completion(self.device.run_task(run, &collected.bytes)))
            }
        }
    }
}

fn config() -> UnitConfig {
    UnitConfig {
        naa: vec![0x60, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        vendor: "SIM".into(),
        product: "UNIT".into(),
        revision: "1".into(),
        serial: "1".into(),
        block_len: BLOCK as u32,
        physical_exponent: 0,
        lowest_aligned: 0,
        blocks: BLOCKS,
        thin: true,
        unmap_granularity: 1,
        unmap_alignment: Some(0),
        max_transfer: BLOCKS as u32,
        optimal_transfer: 64,
        transfer_granularity: 1,
        max_atomic_write: 0,
        sanitize: false,
        write_cache: true,
        write_cache_changeable: true,
        read_only: false,
        rotation_rate: 1,
    }
}
