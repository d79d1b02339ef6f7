//! Transport and backend in memory. They run commands against logical units as the real runtime
//! does, so that tests use CDBs, data and sense.
#![allow(dead_code, unreachable_pub, reason = "each test uses its part")]

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use scsi::alua::{GroupLayout, TargetPortGroups};
use scsi::itl_nexus::ItlNexus;
use scsi::logical_unit::{LogicalUnit, UnitConfig};
use scsi::nexus::{InitiatorPort, Nexus, NexusId, TargetPort};
use scsi::view::{Identity, TargetView};
use scsi::{
    AbortScope, Asc, BlockError, BlockRange, Command, Extent, Input, Response, SenseKey, Start,
    Status, Step, Task, TaskAttribute,
};

/// Returns the configuration of a unit of 2048 blocks of 512 bytes, thin, write-back.
pub fn config() -> UnitConfig {
    UnitConfig {
        naa: vec![0x60, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        vendor: "SANDSTNE".into(),
        product: "Test unit".into(),
        revision: "0001".into(),
        serial: "S0001".into(),
        block_len: 512,
        physical_exponent: 3,
        lowest_aligned: 0,
        blocks: 2048,
        thin: true,
        unmap_granularity: 8,
        unmap_alignment: Some(0),
        max_transfer: 512,
        optimal_transfer: 128,
        transfer_granularity: 8,
        max_atomic_write: 256,
        sanitize: true,
        write_cache: true,
        write_cache_changeable: true,
        read_only: false,
        rotation_rate: 1,
    }
}

/// Blocks behind a unit.
pub struct Disk {
    pub bytes: RefCell<Vec<u8>>,
    pub mapped: RefCell<Vec<bool>>,
    pub flushes: Cell<u32>,
    /// Error with which the next step that touches blocks or state fails.
    pub fail: Cell<Option<BlockError>>,
    block_len: usize,
}

impl Disk {
    fn new(config: &UnitConfig) -> Self {
        let block_len = config.block_len as usize;
        Self {
            bytes: RefCell::new(vec![0; config.blocks as usize * block_len]),
            mapped: RefCell::new(vec![false; config.blocks as usize]),
            flushes: Cell::new(0),
            fail: Cell::new(None),
            block_len,
        }
    }

    fn span(&self, range: BlockRange) -> std::ops::Range<usize> {
        range.start.0 as usize * self.block_len..range.end() as usize * self.block_len
    }

    pub fn read(&self, range: BlockRange) -> Vec<u8> {
        self.bytes.borrow()[self.span(range)].to_vec()
    }

    pub fn write(&self, range: BlockRange, data: &[u8]) {
        self.bytes.borrow_mut()[self.span(range)].copy_from_slice(data);
        self.mapped.borrow_mut()[range.start.0 as usize..range.end() as usize].fill(true);
    }

    fn zero(&self, range: BlockRange, unmap: bool) {
        self.bytes.borrow_mut()[self.span(range)].fill(0);
        self.mapped.borrow_mut()[range.start.0 as usize..range.end() as usize].fill(!unmap);
    }
}

/// Units with their disks, and the images and aborts for which they asked.
pub struct Harness {
    pub units: Vec<(Arc<LogicalUnit>, Disk)>,
    pub saved: RefCell<Option<Vec<u8>>>,
    pub aborted: RefCell<Vec<AbortScope>>,
    next_nexus: Cell<u64>,
}

/// Report of the transport about one command.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    pub response: Response,
    /// Residual against the length that the initiator offered or accepted. Positive is overflow,
    /// negative is underflow.
    pub residual: i64,
}

impl Harness {
    pub fn new(config: UnitConfig) -> Self {
        Self::with_groups(vec![config], GroupLayout::default())
    }

    pub fn with_groups(configs: Vec<UnitConfig>, layout: GroupLayout) -> Self {
        let groups = Arc::new(TargetPortGroups::new(layout).expect("a consistent layout"));
        let units = configs
            .into_iter()
            .map(|config| {
                let disk = Disk::new(&config);
                (LogicalUnit::new(config, Arc::clone(&groups)), disk)
            })
            .collect();
        Self {
            units,
            saved: RefCell::default(),
            aborted: RefCell::default(),
            next_nexus: Cell::new(1),
        }
    }

    pub fn unit(&self) -> &Arc<LogicalUnit> {
        &self.units[0].0
    }

    pub fn disk(&self) -> &Disk {
        &self.units[0].1
    }

    /// Makes a new nexus of `initiator` to unit 0, whose power-on unit attention was already
    /// reported.
    pub fn login(&self, initiator: u8) -> Arc<ItlNexus> {
        let nexus = self.login_fresh(initiator, 1);
        let response = self.run(&nexus, &[0; 6], &[]);
        assert_eq!(
            sense_of(&response),
            (SenseKey::UnitAttention as u8, Asc(0x29, 0x00))
        );
        nexus
    }

    /// Makes a new nexus with its power-on unit attention pending, through a port of group `group`.
    pub fn login_fresh(&self, initiator: u8, group: u16) -> Arc<ItlNexus> {
        self.login_to(0, initiator, group)
    }

    pub fn login_to(&self, unit: usize, initiator: u8, group: u16) -> Arc<ItlNexus> {
        let id = self.next_nexus.get();
        self.next_nexus.set(id + 1);
        self.units[unit].0.attach(Nexus {
            id: NexusId(id),
            initiator: Arc::new(InitiatorPort {
                name: format!("iqn.2026-01.test:host-{initiator}"),
                isid: [0x80, 0, 0, 0, 0, initiator],
            }),
            target_port: Arc::new(TargetPort {
                name: "iqn.2026-01.test:target".into(),
                portal_group_tag: 1,
                relative_port_id: group,
                target_port_group: group,
            }),
        })
    }

    /// Runs a command that accepts any amount of data-in.
    pub fn run(&self, nexus: &Arc<ItlNexus>, cdb: &[u8], data_out: &[u8]) -> Response {
        self.run_offering(nexus, cdb, data_out, u32::MAX).response
    }

    /// Runs a command as an initiator that accepts `data_in_len` bytes.
    pub fn run_offering(
        &self,
        nexus: &Arc<ItlNexus>,
        cdb: &[u8],
        data_out: &[u8],
        data_in_len: u32,
    ) -> Outcome {
        let mut padded = cdb.to_vec();
        padded.resize(cdb.len().max(16), 0);
        let command = Command {
            cdb: &padded,
            attribute: TaskAttribute::Simple,
            data_out_len: Some(data_out.len() as u32),
            data_in_len,
        };
        match nexus.start(&command, &View(self)) {
            Start::Respond(response) => outcome(response, 0, &command),
            Start::Read { range, .. } => {
                let data = self.disk_of(nexus.unit()).read(range);
                outcome(Response::data(data), 0, &command)
            }
            Start::Write { range, wanted, .. } => {
                self.write(nexus, range, wanted, data_out, &command)
            }
            Start::Task(mut task) => {
                let wanted = task.data_out_len();
                let part = &data_out[..data_out.len().min(wanted as usize)];
                let response = self.drive(nexus, task.as_mut(), part);
                outcome(response, wanted, &command)
            }
        }
    }

    fn write(
        &self,
        nexus: &Arc<ItlNexus>,
        range: BlockRange,
        wanted: u32,
        data_out: &[u8],
        command: &Command<'_>,
    ) -> Outcome {
        let unit = nexus.unit();
        let bytes = range.count.0 as usize * unit.block_len() as usize;
        let response = if let Err(response) = nexus.may_still_run(true) {
            response
        } else {
            let disk = self.disk_of(unit);
            match disk.fail.take() {
                Some(error) => unit.sense_for(error),
                None => {
                    disk.write(range, &data_out[..bytes]);
                    Response::good()
                }
            }
        };
        outcome(response, wanted, command)
    }

    /// Steps a task to its end.
    pub fn drive(&self, nexus: &Arc<ItlNexus>, task: &mut dyn Task, data_out: &[u8]) -> Response {
        let mut step = task.step(Input::Begin { data_out });
        loop {
            let (unit, inner) = match step {
                Step::Done(response) => return response,
                Step::On { unit, step } => (unit, *step),
                other => (Arc::clone(nexus.unit()), other),
            };
            step = self.perform(&unit, inner, task, data_out);
        }
    }

    /// Performs one step, and feeds the task its result.
    pub fn perform(
        &self,
        unit: &Arc<LogicalUnit>,
        step: Step,
        task: &mut dyn Task,
        data_out: &[u8],
    ) -> Step {
        let disk = self.disk_of(unit);
        if let Some(error) = disk.fail.take() {
            return task.step(Input::Failed(error));
        }
        let block_len = unit.block_len() as usize;
        match step {
            Step::Read { range } => {
                let bytes = disk.read(range);
                return task.step(Input::Blocks(&bytes));
            }
            Step::Extents { range } => {
                let extents = extents(&disk.mapped.borrow(), range);
                return task.step(Input::Extents(&extents));
            }
            Step::Write { range, data, .. } => disk.write(range, &data),
            Step::WriteDataOut { range, offset, .. } => {
                let from = offset as usize;
                let len = range.count.0 as usize * block_len;
                disk.write(range, &data_out[from..from + len]);
            }
            Step::WriteZeroes { range, unmap, .. } => disk.zero(range, unmap),
            Step::WritePattern { range, pattern, .. } => {
                assert_eq!(pattern.len(), block_len);
                disk.write(range, &pattern.repeat(range.count.0 as usize));
            }
            Step::Unmap { ranges } => ranges.iter().for_each(|&range| disk.zero(range, true)),
            Step::Flush => disk.flushes.set(disk.flushes.get() + 1),
            Step::Prefetch { range } => assert!(range.end() <= unit.blocks()),
            Step::Save { image } => *self.saved.borrow_mut() = Some(image),
            Step::Abort(scope) => self.aborted.borrow_mut().push(scope),
            Step::Done(_) | Step::On { .. } => unreachable!("drive() takes these apart"),
        }
        task.step(Input::Done)
    }

    fn disk_of(&self, unit: &Arc<LogicalUnit>) -> &Disk {
        let found = self
            .units
            .iter()
            .find(|(known, _)| Arc::ptr_eq(known, unit));
        &found.expect("a unit of this harness").1
    }
}

/// Computes residuals as RFC 7143 11.4.5 does.
fn outcome(mut response: Response, wanted_out: u32, command: &Command<'_>) -> Outcome {
    let data_out_len = command.data_out_len.unwrap_or(0);
    let wanted_out = response.would_move.unwrap_or(wanted_out);
    let residual = if data_out_len > 0 || wanted_out > 0 {
        i64::from(wanted_out) - i64::from(data_out_len)
    } else if command.data_in_len == u32::MAX {
        0
    } else {
        response.data_in.len() as i64 - i64::from(command.data_in_len)
    };
    response.data_in.truncate(command.data_in_len as usize);
    Outcome { response, residual }
}

/// Returns runs of equal blocks, at most three at a time, so that callers must ask again.
fn extents(mapped: &[bool], range: BlockRange) -> Vec<Extent> {
    let mut out: Vec<Extent> = Vec::new();
    for lba in range.start.0..range.end() {
        let mapped = mapped[lba as usize];
        let full = out.len() == 3;
        match out.last_mut() {
            Some(last) if last.mapped == mapped => last.range.count.0 += 1,
            _ if full => break,
            _ => out.push(Extent {
                range: BlockRange::new(lba, 1).expect("small numbers"),
                mapped,
            }),
        }
    }
    out
}

/// View that maps unit N of the harness at LUN N, and attaches a nexus for third-party copies.
pub struct View<'a>(pub &'a Harness);

impl TargetView for View<'_> {
    fn luns(&self) -> Vec<u64> {
        (0..self.0.units.len() as u64)
            .map(|lun| lun << 48)
            .collect()
    }

    fn identity(&self) -> Identity {
        Identity {
            vendor: "VENDOR",
            product: "PRODUCT",
            revision: "REV",
        }
    }

    fn itl_nexuses(&self) -> Vec<Arc<ItlNexus>> {
        (0..self.0.units.len())
            .map(|unit| self.0.login_to(unit, 0xee, 1))
            .collect()
    }
}

/// Returns sense key and code of CHECK CONDITION, in either format.
pub fn sense_of(response: &Response) -> (u8, Asc) {
    assert_eq!(response.status, Status::CheckCondition, "{response:?}");
    let sense = &response.sense;
    match sense[0] & 0x7f {
        0x70 => (sense[2], Asc(sense[12], sense[13])),
        0x72 => (sense[1], Asc(sense[2], sense[3])),
        other => panic!("sense response code {other:#x}"),
    }
}

/// Asserts CHECK CONDITION with exactly this sense key, code and qualifier.
#[track_caller]
pub fn assert_sense(response: &Response, key: u8, asc: u8, ascq: u8) {
    assert_eq!(sense_of(response), (key, Asc(asc, ascq)), "{response:?}");
}

/// Asserts GOOD, and returns the data-in.
#[track_caller]
pub fn assert_good(response: Response) -> Vec<u8> {
    assert_eq!(response.status, Status::Good, "{response:?}");
    response.data_in
}

/// Builds a CDB of 10 bytes with an LBA and a 16-bit length in the usual places.
pub fn cdb_10(opcode: u8, flags: u8, lba: u32, count: u16) -> Vec<u8> {
    let mut cdb = vec![opcode, flags];
    cdb.extend_from_slice(&lba.to_be_bytes());
    cdb.push(0);
    cdb.extend_from_slice(&count.to_be_bytes());
    cdb.push(0);
    cdb
}

/// Builds a CDB of 12 bytes with an LBA and a 32-bit length in the usual places.
pub fn cdb_12(opcode: u8, flags: u8, lba: u32, count: u32) -> Vec<u8> {
    let mut cdb = vec![opcode, flags];
    cdb.extend_from_slice(&lba.to_be_bytes());
    cdb.extend_from_slice(&count.to_be_bytes());
    cdb.extend_from_slice(&[0, 0]);
    cdb
}

/// Builds a CDB of 16 bytes with an LBA and a 32-bit length in the usual places.
pub fn cdb_16(opcode: u8, flags: u8, lba: u64, count: u32) -> Vec<u8> {
    let mut cdb = vec![opcode, flags];
    cdb.extend_from_slice(&lba.to_be_bytes());
    cdb.extend_from_slice(&count.to_be_bytes());
    cdb.extend_from_slice(&[0, 0]);
    cdb
}
