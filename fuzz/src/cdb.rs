//! Commands to logical units over a small memory. Whatever the CDB and its data-out, every step
//! stays inside the medium, tasks end, and saved state can be restored.
//!
//! Input: one byte that chooses the units' shape, then commands. Each is a byte (bit 0: LUN, bit 1:
//! nexus, bit 2: the next step fails), length of the CDB, two bytes of data-out length, CDB,
//! data-out.

use std::cell::RefCell;
use std::sync::Arc;

use scsi::alua::{
    AccessState, GroupLayout, SupportedStates, TargetPortGroup, TargetPortGroups, TpgsMode,
};
use scsi::itl_nexus::ItlNexus;
use scsi::logical_unit::{LogicalUnit, UnitConfig};
use scsi::nexus::{InitiatorPort, Nexus, NexusId, TargetPort};
use scsi::view::{Identity, TargetView};
use scsi::{
    BlockError, BlockRange, Command, Extent, Input, Response, Start, Status, Step, TaskAttribute,
};

use crate::input::Bytes;

/// Number of blocks of each unit.
const BLOCKS: u64 = 256;
/// Number of steps after which a task is taken for endless. It is above the number of blocks, so
/// that one by one is allowed.
const MAX_STEPS: u32 = 20_000;
/// Length of the longest data-out of one command.
const MAX_DATA_OUT: usize = 16 << 10;

/// Units with their bytes, seen by two initiators through two ports.
struct Device {
    groups: Arc<TargetPortGroups>,
    units: Vec<Arc<LogicalUnit>>,
    media: Vec<RefCell<Vec<u8>>>,
    views: Vec<View>,
}

/// View of one initiator: both units, or the first only.
struct View {
    nexuses: Vec<Arc<ItlNexus>>,
}

impl TargetView for View {
    fn luns(&self) -> Vec<u64> {
        (0..self.nexuses.len() as u64)
            .map(|lun| lun << 48)
            .collect()
    }

    fn identity(&self) -> Identity {
        Identity {
            vendor: "FUZZ",
            product: "UNIT",
            revision: "1",
        }
    }

    fn itl_nexuses(&self) -> Vec<Arc<ItlNexus>> {
        self.nexuses.clone()
    }
}

/// Runs one input of the fuzzer.
pub fn run(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let device = Device::new(bytes.u8());
    while !bytes.is_empty() {
        let choice = bytes.u8();
        let cdb_len = usize::from(bytes.u8()).clamp(6, 260);
        let data_out_len = usize::from(bytes.u16()).min(MAX_DATA_OUT);
        let mut cdb = bytes.take(cdb_len).to_vec();
        cdb.resize(cdb_len, 0);
        let data_out = bytes.take(data_out_len);
        let view = &device.views[usize::from(choice >> 1 & 1)];
        let lun = usize::from(choice & 1).min(view.nexuses.len() - 1);
        let response = device.command(view, lun, &cdb, data_out, choice & 4 != 0);
        check(&response);
    }
}

fn check(response: &Response) {
    let has_sense = !response.sense.is_empty();
    assert!(
        !has_sense || response.status == Status::CheckCondition,
        "sense with {:?}",
        response.status
    );
    if response.status == Status::CheckCondition {
        assert!(
            (8..=252).contains(&response.sense.len()),
            "sense of {} bytes",
            response.sense.len()
        );
        assert!(matches!(response.sense[0] & 0x7f, 0x70..=0x73));
    }
    assert!(
        response.data_in.len() <= 1 << 20,
        "{} bytes of data-in",
        response.data_in.len()
    );
}

impl Device {
    fn new(shape: u8) -> Self {
        let layout = GroupLayout {
            mode: TpgsMode::Both,
            groups: [
                (1, AccessState::ActiveOptimized),
                (2, AccessState::ActiveNonOptimized),
            ]
            .map(|(id, state)| TargetPortGroup {
                id,
                preferred: id == 1,
                supported: SupportedStates::ALL,
                state,
                ports: vec![id],
            })
            .to_vec(),
            implicit_transition_s: 30,
        };
        let Ok(groups) = TargetPortGroups::new(layout).map(Arc::new) else {
            panic!("the layout is refused")
        };
        let configs = [config(1, shape), config(2, shape >> 4)];
        let units: Vec<_> = configs
            .iter()
            .map(|c| LogicalUnit::new(c.clone(), Arc::clone(&groups)))
            .collect();
        let media = configs
            .iter()
            .map(|c| RefCell::new(vec![0; (c.blocks * u64::from(c.block_len)) as usize]))
            .collect();
        let views = [1_u16, 2]
            .map(|port| {
                let seen = if port == 1 { &units[..] } else { &units[..1] };
                View {
                    nexuses: seen.iter().map(|unit| unit.attach(nexus(port))).collect(),
                }
            })
            .into_iter()
            .collect();
        Self {
            groups,
            units,
            media,
            views,
        }
    }

    fn command(
        &self,
        view: &View,
        lun: usize,
        cdb: &[u8],
        data_out: &[u8],
        fails: bool,
    ) -> Response {
        let itl = &view.nexuses[lun];
        let command = Command {
            cdb,
            attribute: TaskAttribute::Simple,
            data_out_len: Some(data_out.len() as u32),
            data_in_len: u32::MAX,
        };
        match itl.start(&command, view) {
            Start::Respond(response) => response,
            Start::Read { range, .. } => {
                self.inside(itl.unit(), range);
                Response::good()
            }
            Start::Write { range, .. } => {
                let bytes = self.inside(itl.unit(), range);
                self.medium(itl.unit()).borrow_mut()[bytes.clone()]
                    .copy_from_slice(&data_out[..bytes.len()]);
                Response::good()
            }
            Start::Task(task) => self.run_task(itl, task, data_out, fails),
        }
    }

    fn run_task(
        &self,
        itl: &ItlNexus,
        mut task: Box<dyn scsi::Task>,
        data_out: &[u8],
        mut fails: bool,
    ) -> Response {
        assert!(task.data_out_len() <= itl.unit().max_data_out());
        let data_out = &data_out[..data_out.len().min(task.data_out_len() as usize)];
        let mut step = task.step(Input::Begin { data_out });
        for _ in 0..MAX_STEPS {
            if let Step::Done(response) = step {
                return response;
            }
            if std::mem::take(&mut fails) {
                step = task.step(Input::Failed(BlockError::NoSpace));
                continue;
            }
            step = match step {
                Step::Done(_) => unreachable!("handled above"),
                Step::Save { image } => {
                    self.restores(itl.unit(), &image);
                    task.step(Input::Done)
                }
                Step::Abort(_) => task.step(Input::Done),
                Step::On { unit, step } => {
                    assert!(
                        !matches!(
                            *step,
                            Step::On { .. } | Step::Save { .. } | Step::Abort(_) | Step::Done(_)
                        ),
                        "a step on another unit must be a block action"
                    );
                    self.act(&mut *task, &unit, *step, data_out)
                }
                action => self.act(&mut *task, itl.unit(), action, data_out),
            };
        }
        panic!("a task of more than {MAX_STEPS} steps: {task:?}");
    }

    /// Does one block action, as a backend that trusts no one would.
    fn act(
        &self,
        task: &mut dyn scsi::Task,
        unit: &Arc<LogicalUnit>,
        step: Step,
        data_out: &[u8],
    ) -> Step {
        let block_len = unit.block_len() as usize;
        let put = |range: BlockRange, data: &mut dyn Iterator<Item = u8>| {
            let bytes = self.inside(unit, range);
            for byte in &mut self.medium(unit).borrow_mut()[bytes] {
                *byte = data
                    .next()
                    .unwrap_or_else(|| panic!("fewer bytes than the range has"));
            }
        };
        match step {
            Step::Read { range } => {
                let data = self.medium(unit).borrow()[self.inside(unit, range)].to_vec();
                return task.step(Input::Blocks(&data));
            }
            Step::Extents { range } => {
                self.inside(unit, range);
                return task.step(Input::Extents(&[Extent {
                    range,
                    mapped: true,
                }]));
            }
            Step::Flush => {}
            Step::Prefetch { range } => drop(self.inside(unit, range)),
            Step::Write { range, data, .. } => {
                assert_eq!(data.len(), range.count.0 as usize * block_len);
                put(range, &mut data.into_iter());
            }
            Step::WriteDataOut { range, offset, .. } => {
                let len = range.count.0 as usize * block_len;
                put(
                    range,
                    &mut data_out[offset as usize..offset as usize + len]
                        .iter()
                        .copied(),
                );
            }
            Step::WriteZeroes { range, .. } => put(range, &mut std::iter::repeat(0)),
            Step::WritePattern { range, pattern, .. } => {
                assert_eq!(pattern.len(), block_len);
                put(range, &mut pattern.iter().copied().cycle());
            }
            Step::Unmap { ranges } => ranges
                .iter()
                .for_each(|range| put(*range, &mut std::iter::repeat(0))),
            Step::On { .. } | Step::Save { .. } | Step::Abort(_) | Step::Done(_) => {
                unreachable!("not block actions")
            }
        }
        task.step(Input::Done)
    }

    /// Returns the bytes of a range, which must lie in the medium.
    fn inside(&self, unit: &LogicalUnit, range: BlockRange) -> std::ops::Range<usize> {
        assert!(
            range.end() <= unit.blocks(),
            "{range:?} of a unit of {} blocks",
            unit.blocks()
        );
        let block_len = u64::from(unit.block_len());
        (range.start.0 * block_len) as usize..(range.end() * block_len) as usize
    }

    fn medium(&self, unit: &LogicalUnit) -> &RefCell<Vec<u8>> {
        let naa = unit.config().naa;
        let Some(index) = self
            .units
            .iter()
            .position(|known| known.config().naa == naa)
        else {
            panic!("a unit from nowhere");
        };
        &self.media[index]
    }

    /// Checks that a unit takes back an image that it saved, after a restart.
    fn restores(&self, unit: &LogicalUnit, image: &[u8]) {
        let after_restart = LogicalUnit::new(unit.config(), Arc::clone(&self.groups));
        if let Err(e) = after_restart.restore(image) {
            panic!("an image that was saved cannot be restored: {e:?}");
        }
    }
}

/// Builds a configuration. Bit 0: 4 KiB blocks; bit 1: thin; bit 2: read-only; bit 3: write cache.
fn config(number: u8, shape: u8) -> UnitConfig {
    UnitConfig {
        naa: vec![0x60, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, number],
        vendor: "FUZZ".into(),
        product: "UNIT".into(),
        revision: "1".into(),
        serial: format!("serial-{number}"),
        block_len: if shape & 1 != 0 { 4096 } else { 512 },
        physical_exponent: if shape & 1 != 0 { 0 } else { 3 },
        lowest_aligned: 0,
        blocks: BLOCKS,
        thin: shape & 2 != 0,
        unmap_granularity: 8,
        unmap_alignment: Some(0),
        max_transfer: 64,
        optimal_transfer: 16,
        transfer_granularity: 8,
        max_atomic_write: 8,
        sanitize: shape & 2 == 0,
        write_cache: shape & 8 != 0,
        write_cache_changeable: true,
        read_only: shape & 4 != 0,
        rotation_rate: 1,
    }
}

fn nexus(port: u16) -> Nexus {
    Nexus {
        id: NexusId(u64::from(port)),
        initiator: Arc::new(InitiatorPort {
            name: format!("iqn.2026-01.org.example:host-{port}"),
            isid: [0x80, 0, 0, 0, 0, port as u8],
        }),
        target_port: Arc::new(TargetPort {
            name: "iqn.2026-01.org.example:disk".into(),
            portal_group_tag: port,
            relative_port_id: port,
            target_port_group: port,
        }),
    }
}
