//! The store beneath logical units: the product's pool on simulated disks, whose volumes are the
//! units' devices. The disks keep what was flushed when the process ends or the power fails.
//!
//! The pool has a time of its own, which only ever gains on that of the world: the time that it
//! takes to make and to open a pool.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use block::lane::{self, Remote};
use block::{
    BlockDevice, BlockError, BlockErrorKind, Done, Geometry, Lane, Pages, Request, Submitted,
    Ticket, Usage,
};

use crate::disk::{Behaviour, Disk};
use crate::drive::{self, BLOCK};
use crate::laboratory::machine::Machine;
use crate::operation::{BLOCK_SIZE, ChangeKind, Operation, VolumeId};
use crate::pool::{PoolSetup, PoolSubject};
use crate::random::Random;
use crate::subject::{Geometry as PoolGeometry, Outcome, Subject as _, VolumeSpec};

/// Sectors of each disk.
const SECTORS: u64 = 8192;

/// End of a process that has a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The process ends. Disks keep all that they have answered.
    Process,
    /// The power of the machine fails. Disks keep what was flushed, and any part of the rest.
    Power,
}

/// A request for a volume that the pool has not seen.
#[derive(Debug)]
struct Asked {
    volume: VolumeId,
    request: Request,
    ticket: Ticket,
    lane: Remote,
}

/// Requests that reached the volumes of one life of the process.
type Inbox = Arc<Mutex<Vec<Asked>>>;

/// A pool with a volume for each unit.
pub struct Vault {
    setup: PoolSetup,
    geometry: PoolGeometry,
    machine: Machine<PoolSubject>,
    inbox: Inbox,
    waiting: BTreeMap<u64, (Ticket, Remote)>,
    last_tag: u64,
    /// Time by which the pool's clock is ahead of the world's.
    ahead_us: u64,
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vault")
            .field("setup", &self.setup)
            .field("waiting", &self.waiting)
            .finish_non_exhaustive()
    }
}

impl Vault {
    /// Makes a pool with volumes of these sizes in blocks of a unit.
    ///
    /// # Panics
    /// The pool cannot be made.
    pub fn new(setup: PoolSetup, units: &[u64], mut random: Random) -> Self {
        let per_block = (BLOCK_SIZE / BLOCK) as u64;
        let volumes = (0..).zip(units).map(|(id, blocks)| VolumeSpec {
            id: VolumeId(id),
            blocks: blocks.div_ceil(per_block),
            unit: 1,
            is_thick: true,
        });
        let geometry = PoolGeometry {
            disks: setup.all_disks(),
            disk_sectors: SECTORS,
            volumes: volumes.collect(),
            grown: BTreeMap::new(),
        };
        let disk = |_| Disk::new(SECTORS, Behaviour::default(), random.fork());
        let disks = (0..geometry.disks).map(disk).collect();
        let subject = PoolSubject::create(&setup, &geometry, 0);
        let mut vault = Self {
            machine: Machine::new(subject, disks, 0),
            setup,
            geometry,
            inbox: Inbox::default(),
            waiting: BTreeMap::new(),
            last_tag: 0,
            ahead_us: 0,
        };
        vault.open(Duration::ZERO);
        vault
    }

    fn open(&mut self, now: Duration) {
        let opened = self.machine.wait_until_open();
        opened.unwrap_or_else(|why| panic!("the pool does not open: {why}"));
        self.ahead_us = self.machine.now_us - now.as_micros() as u64;
    }

    /// Returns the device of a unit, by its LUN. It lasts as long as the process.
    pub fn volume(&self, lun: usize) -> Arc<Volume> {
        let spec = self.geometry.volumes[lun];
        Arc::new(Volume {
            id: spec.id,
            len: spec.blocks * BLOCK_SIZE as u64,
            inbox: Arc::clone(&self.inbox),
        })
    }

    /// Ends the process and starts it anew: the pool is opened again from what its disks hold.
    /// Requests that were not answered never are.
    ///
    /// # Panics
    /// The pool does not open.
    pub fn restart(&mut self, end: End, now: Duration) {
        self.inbox = Inbox::default();
        self.waiting.clear();
        for disk in &mut self.machine.disks {
            match end {
                End::Process => disk.detach(),
                End::Power => disk.power_cut(),
            }
        }
        let disks = std::mem::take(&mut self.machine.disks);
        let now_us = now.as_micros() as u64 + self.ahead_us;
        let now_us = self.machine.now_us.max(now_us);
        let subject = PoolSubject::open(&self.setup, &self.geometry, now_us);
        self.machine = Machine::new(subject, disks, now_us);
        self.open(now);
    }

    /// Lets the pool do what is due. Returns whether it answered anything, and the time of the next
    /// call.
    pub fn step(&mut self, now: Duration) -> (bool, Option<Duration>) {
        let now_us = now.as_micros() as u64 + self.ahead_us;
        let waiting = self.waiting.len() + self.take_requests(now_us);
        loop {
            self.give_answers();
            match self.machine.next_us() {
                Some(at_us) if at_us <= now_us => drop(self.machine.advance()),
                next => {
                    let next_us = next.map(|at_us| at_us - self.ahead_us);
                    let has_answered = self.waiting.len() < waiting;
                    return (has_answered, next_us.map(Duration::from_micros));
                }
            }
        }
    }

    /// Gives the pool its new requests, and returns their number.
    fn take_requests(&mut self, now_us: u64) -> usize {
        let mut inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = std::mem::take(&mut *inbox);
        drop(inbox);
        let count = asked.len();
        for asked in asked {
            self.machine.now_us = self.machine.now_us.max(now_us);
            self.last_tag += 1;
            let (operation, data) = operation(asked.volume, asked.request);
            self.waiting
                .insert(self.last_tag, (asked.ticket, asked.lane));
            self.machine.submit(self.last_tag, &operation, data);
        }
        count
    }

    fn give_answers(&mut self) {
        for answer in std::mem::take(&mut self.machine.answers) {
            let waiting = self.waiting.remove(&answer.tag);
            let (ticket, lane) = waiting.expect("an answer to a request");
            lane.complete(ticket, outcome(answer.outcome));
        }
    }
}

fn outcome(outcome: Result<Outcome, String>) -> lane::Outcome {
    match outcome {
        Ok(Outcome::Done) => Ok(Done::Nothing),
        Ok(Outcome::Data(pages)) => Ok(Done::Pages(pages)),
        Ok(Outcome::Extents(extents)) => Ok(Done::Extents(extents)),
        Err(why) => Err(BlockError::new(BlockErrorKind::Write, why)),
    }
}

/// Translates a request of a unit.
fn operation(volume: VolumeId, request: Request) -> (Operation, Pages) {
    let (offset, len) = request.range().unwrap_or_default();
    let slices = offset / BLOCK as u64..(offset + len) / BLOCK as u64;
    let change = |slices, kind, durable| Operation::Change {
        volume,
        slices,
        kind,
        durable,
    };
    match request {
        Request::Read { .. } => (Operation::Read { volume, slices }, Pages::default()),
        Request::Write { data, durable, .. } => (change(slices, ChangeKind::Write, durable), data),
        Request::Flush => (Operation::Flush { volume }, Pages::default()),
        Request::Discard { .. } => (change(slices, ChangeKind::Unmap, false), Pages::default()),
        Request::WriteZeroes { durable, .. } => {
            (change(slices, ChangeKind::Zero, durable), Pages::default())
        }
        Request::Extents { .. } => (Operation::Extents { volume, slices }, Pages::default()),
    }
}

/// A volume of the pool, as a unit sees it.
#[derive(Debug)]
pub struct Volume {
    id: VolumeId,
    len: u64,
    inbox: Inbox,
}

impl BlockDevice for Volume {
    fn geometry(&self) -> Geometry {
        drive::geometry(self.len, BLOCK_SIZE as u32)
    }

    fn submit(&self, request: Request, ticket: Ticket, lane: &mut Lane) -> Submitted {
        if let Err(error) = self.geometry().check(&request) {
            return Submitted::Ready(Err(error));
        }
        lane.count_pending();
        let asked = Asked {
            volume: self.id,
            request,
            ticket,
            lane: lane.remote(),
        };
        let mut inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
        inbox.push(asked);
        Submitted::Pending
    }

    fn usage(&self) -> Result<Usage, BlockError> {
        Ok(Usage {
            allocated: self.len,
            pool: None,
        })
    }
}
