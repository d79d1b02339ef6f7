//! Transport for tests of commands between several units. Units lie on byte vectors. Nexuses issue
//! commands and run their tasks to the end, or one step at a time if a test wants to check in
//! between.
#![allow(
    unreachable_pub,
    dead_code,
    reason = "shared by the modules of one test binary"
)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use scsi::alua::{
    AccessState, GroupLayout, SupportedStates, TargetPortGroup, TargetPortGroups, TpgsMode,
};
use scsi::itl_nexus::ItlNexus;
use scsi::logical_unit::{LogicalUnit, UnitConfig};
use scsi::nexus::{InitiatorPort, Nexus, NexusId, TargetPort};
use scsi::view::{Identity, TargetView};
use scsi::{
    AbortScope, BlockError, BlockRange, Command, Extent, Input, Response, Start, Status, Step,
    TaskAttribute, UnitAttention,
};

/// Device with some units, all mapped to every nexus unless hidden.
pub struct Device {
    pub groups: Arc<TargetPortGroups>,
    pub units: Vec<Arc<LogicalUnit>>,
    /// Bytes of each unit, by NAA.
    pub media: Mutex<BTreeMap<Vec<u8>, Vec<u8>>>,
    /// Image that was saved last.
    pub saved: Mutex<Option<Vec<u8>>>,
    /// Every abort that was asked for.
    pub aborts: Mutex<Vec<AbortScope>>,
    /// Whether the next save fails.
    pub fail_save: Mutex<bool>,
    /// Unit, by NAA, to which writes fail, and their error.
    pub fail_writes: Mutex<Option<(Vec<u8>, BlockError)>>,
    /// Hook that is called before every block action.
    pub before_step: Mutex<Option<Hook>>,
}

pub type Hook = Box<dyn FnMut(&Device, &Step) + Send>;

pub const BLOCKS: u64 = 4096;

pub fn config(number: u8) -> UnitConfig {
    UnitConfig {
        naa: vec![0x60, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, number],
        vendor: "TEST".into(),
        product: "UNIT".into(),
        revision: "1".into(),
        serial: format!("serial-{number}"),
        block_len: 512,
        physical_exponent: 3,
        lowest_aligned: 0,
        blocks: BLOCKS,
        thin: true,
        unmap_granularity: 8,
        unmap_alignment: Some(0),
        max_transfer: 2048,
        optimal_transfer: 256,
        transfer_granularity: 8,
        max_atomic_write: 0,
        sanitize: true,
        write_cache: true,
        write_cache_changeable: true,
        read_only: false,
        rotation_rate: 1,
    }
}

pub fn group(id: u16, state: AccessState, ports: &[u16]) -> TargetPortGroup {
    TargetPortGroup {
        id,
        preferred: id == 1,
        supported: SupportedStates::ALL,
        state,
        ports: ports.to_vec(),
    }
}

impl Device {
    pub fn new(configs: &[UnitConfig]) -> Arc<Self> {
        let layout = GroupLayout {
            mode: TpgsMode::Both,
            groups: vec![
                group(1, AccessState::ActiveOptimized, &[1]),
                group(2, AccessState::ActiveNonOptimized, &[2]),
            ],
            implicit_transition_s: 30,
        };
        let groups = Arc::new(TargetPortGroups::new(layout).unwrap());
        let media = configs
            .iter()
            .map(|it| {
                (
                    it.naa.clone(),
                    vec![0; (it.blocks * u64::from(it.block_len)) as usize],
                )
            })
            .collect();
        Arc::new(Self {
            units: configs
                .iter()
                .map(|it| LogicalUnit::new(it.clone(), Arc::clone(&groups)))
                .collect(),
            groups,
            media: Mutex::new(media),
            saved: Mutex::new(None),
            aborts: Mutex::new(Vec::new()),
            fail_save: Mutex::new(false),
            fail_writes: Mutex::new(None),
            before_step: Mutex::new(None),
        })
    }

    /// Logs initiator `number` in through target port `port` and clears its first unit attention.
    pub fn login(self: &Arc<Self>, number: u64, port: u16) -> Initiator {
        let nexus = Nexus {
            id: NexusId(number * 10 + u64::from(port)),
            initiator: Arc::new(InitiatorPort {
                name: format!("iqn.2026-01.test:{number}"),
                isid: [0, 2, 0x3D, 0, 0, number as u8],
            }),
            target_port: Arc::new(TargetPort {
                name: "iqn.2026-01.test:target".into(),
                portal_group_tag: port,
                relative_port_id: port,
                target_port_group: port,
            }),
        };
        let itls: Vec<_> = self
            .units
            .iter()
            .map(|unit| unit.attach(nexus.clone()))
            .collect();
        let initiator = Initiator {
            device: Arc::clone(self),
            itls,
            hidden: Vec::new(),
        };
        for lun in 0..self.units.len() {
            let first = initiator.to(lun, &[0; 6], &[]);
            assert_eq!(first.status, Status::CheckCondition, "power on is told");
        }
        initiator
    }

    fn range_of(unit: &LogicalUnit, range: BlockRange) -> std::ops::Range<usize> {
        let len = u64::from(unit.block_len());
        (range.start.0 * len) as usize..(range.end() * len) as usize
    }

    pub fn read(&self, unit: &LogicalUnit, range: BlockRange) -> Vec<u8> {
        self.media.lock().unwrap()[&unit.config().naa][Self::range_of(unit, range)].to_vec()
    }

    pub fn write(&self, unit: &LogicalUnit, range: BlockRange, data: &[u8]) {
        let mut media = self.media.lock().unwrap();
        let medium = media.get_mut(&unit.config().naa).unwrap();
        medium[Self::range_of(unit, range)].copy_from_slice(data);
    }
}

/// One I_T nexus with all units.
pub struct Initiator {
    pub device: Arc<Device>,
    pub itls: Vec<Arc<ItlNexus>>,
    /// LUNs outside the view of the initiator.
    pub hidden: Vec<usize>,
}

impl TargetView for Initiator {
    fn luns(&self) -> Vec<u64> {
        (0..self.itls.len() as u64).collect()
    }

    fn identity(&self) -> Identity {
        Identity {
            vendor: "VENDOR",
            product: "PRODUCT",
            revision: "REV",
        }
    }

    fn itl_nexuses(&self) -> Vec<Arc<ItlNexus>> {
        let visible = self
            .itls
            .iter()
            .enumerate()
            .filter(|(lun, _)| !self.hidden.contains(lun));
        visible.map(|(_, itl)| Arc::clone(itl)).collect()
    }
}

impl Initiator {
    /// Runs a command to LUN 0.
    pub fn run(&self, cdb: &[u8], data_out: &[u8]) -> Response {
        self.to(0, cdb, data_out)
    }

    /// Runs a command to its end.
    pub fn to(&self, lun: usize, cdb: &[u8], data_out: &[u8]) -> Response {
        let itl = &self.itls[lun];
        let command = Command {
            cdb,
            attribute: TaskAttribute::Simple,
            data_out_len: Some(data_out.len() as u32),
            data_in_len: u32::MAX,
        };
        match itl.start(&command, self) {
            Start::Respond(response) => response,
            Start::Read { range, .. } => Response::data(self.device.read(itl.unit(), range)),
            Start::Write { range, wanted, .. } => {
                self.before_write(itl.unit(), range);
                assert!(wanted <= itl.unit().max_data_out(), "{cdb:02x?}");
                let len = range.count.0 as usize * itl.unit().block_len() as usize;
                self.device.write(itl.unit(), range, &data_out[..len]);
                Response::good()
            }
            Start::Task(mut task) => {
                assert!(
                    task.data_out_len() <= itl.unit().max_data_out(),
                    "{cdb:02x?}"
                );
                let wanted = (task.data_out_len() as usize).min(data_out.len());
                let data_out = &data_out[..wanted];
                let working = task.working_len();
                let mut step = task.step(Input::Begin { data_out });
                loop {
                    let held = held_by(&step, itl.unit());
                    assert!(held <= working, "{held} bytes of {working}: {step:?}");
                    let hook = self.device.before_step.lock().unwrap().take();
                    if let Some(mut hook) = hook {
                        hook(&self.device, &step);
                        let mut slot = self.device.before_step.lock().unwrap();
                        slot.get_or_insert(hook);
                    }
                    step = match step {
                        Step::Done(response) => return response,
                        Step::Save { image } => {
                            if std::mem::take(&mut *self.device.fail_save.lock().unwrap()) {
                                task.step(Input::Failed(BlockError::Gone))
                            } else {
                                *self.device.saved.lock().unwrap() = Some(image);
                                task.step(Input::Done)
                            }
                        }
                        Step::Abort(scope) => {
                            self.device.aborts.lock().unwrap().push(scope);
                            task.step(Input::Done)
                        }
                        Step::On { unit, step } => self.act(&mut *task, &unit, *step, data_out),
                        other => self.act(&mut *task, itl.unit(), other, data_out),
                    };
                }
            }
        }
    }

    fn before_write(&self, unit: &LogicalUnit, range: BlockRange) {
        unit.note_write(range);
    }

    fn act(
        &self,
        task: &mut dyn scsi::Task,
        unit: &Arc<LogicalUnit>,
        step: Step,
        data_out: &[u8],
    ) -> Step {
        let block_len = unit.block_len() as usize;
        let len = |range: BlockRange| range.count.0 as usize * block_len;
        let (range, data) = match step {
            Step::Read { range } => {
                let data = self.device.read(unit, range);
                return task.step(Input::Blocks(&data));
            }
            Step::Extents { range } => {
                let data = self.device.read(unit, range);
                let zeros: Vec<bool> = data
                    .chunks(block_len)
                    .map(|block| block.iter().all(|&byte| byte == 0))
                    .collect();
                let run = zeros.iter().take_while(|&&zero| zero == zeros[0]).count();
                return task.step(Input::Extents(&[Extent {
                    range: BlockRange::new(range.start.0, run as u64).unwrap(),
                    mapped: !zeros[0],
                }]));
            }
            Step::Flush | Step::Prefetch { .. } => return task.step(Input::Done),
            Step::Write { range, data, .. } => (range, data),
            Step::WriteDataOut { range, offset, .. } => {
                let offset = offset as usize;
                (range, data_out[offset..offset + len(range)].to_vec())
            }
            Step::WriteZeroes { range, .. } => (range, vec![0; len(range)]),
            Step::WritePattern { range, pattern, .. } => {
                (range, pattern.repeat(range.count.0 as usize))
            }
            Step::Unmap { ranges } => {
                for range in ranges {
                    self.before_write(unit, range);
                    self.device.write(unit, range, &vec![0; len(range)]);
                }
                return task.step(Input::Done);
            }
            other => panic!("not a block action: {other:?}"),
        };
        let failure = self.device.fail_writes.lock().unwrap().clone();
        if let Some((naa, error)) = failure
            && naa == unit.config().naa
        {
            return task.step(Input::Failed(error));
        }
        self.before_write(unit, range);
        self.device.write(unit, range, &data);
        task.step(Input::Done)
    }

    /// Returns the unit attention that TEST UNIT READY to LUN 0 reports, if any.
    pub fn attention(&self) -> Option<UnitAttention> {
        let response = self.run(&[0; 6], &[]);
        match (response.status, sense(&response)) {
            (Status::Good, _) => None,
            (_, Some((0x6, asc, ascq))) => Some(UnitAttention::new(scsi::Asc(asc, ascq))),
            other => panic!("TEST UNIT READY: {other:?}"),
        }
    }
}

/// Returns key, code and qualifier of fixed format sense data.
pub fn sense(response: &Response) -> Option<(u8, u8, u8)> {
    let bytes = &response.sense;
    (!bytes.is_empty()).then(|| (bytes[2] & 0xF, bytes[12], bytes[13]))
}

/// Asserts GOOD, and returns the data.
#[track_caller]
pub fn good(response: Response) -> Vec<u8> {
    assert_eq!(response.status, Status::Good, "{response:?}");
    response.data_in
}

/// Asserts CHECK CONDITION with this sense.
#[track_caller]
pub fn fails(response: Response, expected: (u8, u8, u8)) {
    assert_eq!(response.status, Status::CheckCondition, "{response:?}");
    assert_eq!(sense(&response), Some(expected), "{response:?}");
}

#[track_caller]
pub fn conflicts(response: Response) {
    assert_eq!(response.status, Status::ReservationConflict, "{response:?}");
}

/// Sense of a command that announces another transfer than its CDB describes.
pub const MISMATCH: (u8, u8, u8) = (5, 0x0e, 3);
pub const INVALID_OPCODE: (u8, u8, u8) = (5, 0x20, 0);
pub const INVALID_IN_CDB: (u8, u8, u8) = (5, 0x24, 0);
pub const INVALID_IN_LIST: (u8, u8, u8) = (5, 0x26, 0);
pub const LIST_LENGTH: (u8, u8, u8) = (5, 0x1A, 0);

/// CDB of a READ(10) of one block.
pub const READ: [u8; 10] = [0x28, 0, 0, 0, 0, 0, 0, 0, 1, 0];
/// CDB of a WRITE(10) of one block.
pub const WRITE: [u8; 10] = [0x2A, 0, 0, 0, 0, 0, 0, 0, 1, 0];

/// Returns the bytes of blocks that a step reads.
fn held_by(step: &Step, unit: &LogicalUnit) -> u64 {
    match step {
        Step::On { unit, step } => held_by(step, unit),
        Step::Read { range } => range.count.0 * u64::from(unit.block_len()),
        _ => 0,
    }
}
