//! Verification on a device that lies: every lie is found, and called what it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use iometer::access::{AccessLine, AccessSpecification};
use sandstone::bench::parameters::Parameters;
use sandstone::bench::results::Measurement;
use sandstone::bench::run::measure::{Phase, Watch, measure};
use sandstone::bench::verify::Found;
use sandstone::bench::workload::{Stream, Workload};
use sandstone::block::fault::{Fault, FaultDevice, Rule, When};
use sandstone::block::memory::MemoryDevice;
use sandstone::block::statistics::Kind;
use sandstone::block::{
    BlockDevice, BlockError, BlockErrorKind, Done, Geometry, Lane, Pages, Request, Submitted,
    Ticket, Usage,
};

const MIB: u64 = 1 << 20;
/// Bytes of the device.
const LEN: u64 = 4 * MIB;
const BLOCK: u32 = 4096;
/// Bytes of each write that may be lied about; the writes that fill the device are larger.
const WRITE: u32 = 16 << 10;

/// What a device does instead of what it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lie {
    /// Acknowledges a write and forgets it.
    Drop,
    /// Writes to the place before.
    Misplace,
    /// Writes the first half of each block only.
    Tear,
    /// Writes zeros.
    Zero,
    /// Writes with one bit changed.
    Flip,
    /// Answers a read from the place before.
    MisplaceRead,
}

#[derive(Debug)]
struct LyingDevice {
    inner: MemoryDevice,
    lie: Lie,
    asked: AtomicU64,
    lies: AtomicU64,
}

impl LyingDevice {
    fn new(lie: Lie) -> Arc<Self> {
        Arc::new(Self {
            inner: MemoryDevice::new(LEN, BLOCK, LEN).unwrap(),
            lie,
            asked: AtomicU64::new(0),
            lies: AtomicU64::new(0),
        })
    }

    /// Every tenth time.
    fn lies_now(&self) -> bool {
        let lies = self.asked.fetch_add(1, Ordering::Relaxed) % 10 == 5;
        self.lies.fetch_add(u64::from(lies), Ordering::Relaxed);
        lies
    }

    /// What is there now; memory answers at once.
    fn stored(&self, offset: u64, len: usize, lane: &mut Lane) -> Vec<u8> {
        let request = Request::Read {
            offset,
            len: len as u32,
        };
        match self.inner.submit(request, Ticket::new(0), lane) {
            Submitted::Ready(Ok(Done::Pages(pages))) => pages.to_vec(),
            other => panic!("{other:?}"),
        }
    }

    fn lie_about_write(&self, offset: u64, data: &Pages, lane: &mut Lane) -> Option<(u64, Pages)> {
        let mut bytes = data.to_vec();
        match self.lie {
            Lie::Drop | Lie::MisplaceRead => return None,
            Lie::Misplace => return Some((offset - u64::from(WRITE), data.clone())),
            Lie::Zero => bytes.fill(0),
            Lie::Flip => bytes
                .chunks_mut(BLOCK as usize)
                .for_each(|block| block[1000] ^= 4),
            Lie::Tear => {
                let old = self.stored(offset, bytes.len(), lane);
                let half = BLOCK as usize / 2;
                for (new, old) in bytes
                    .chunks_mut(half)
                    .zip(old.chunks(half))
                    .skip(1)
                    .step_by(2)
                {
                    new.copy_from_slice(old);
                }
            }
        }
        Some((offset, Pages::from_bytes(&bytes)))
    }
}

impl BlockDevice for LyingDevice {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn submit(&self, request: Request, ticket: Ticket, lane: &mut Lane) -> Submitted {
        let request = match request {
            Request::Write {
                offset,
                data,
                durable,
            } if self.lie != Lie::MisplaceRead
                && data.len() == WRITE as usize
                && self.lies_now() =>
            {
                match self.lie_about_write(offset, &data, lane) {
                    None => return Submitted::Ready(Ok(Done::Nothing)),
                    Some((offset, data)) => Request::Write {
                        offset,
                        data,
                        durable,
                    },
                }
            }
            Request::Read { offset, len }
                if self.lie == Lie::MisplaceRead && offset >= u64::from(len) && self.lies_now() =>
            {
                Request::Read {
                    offset: offset - u64::from(len),
                    len,
                }
            }
            other => other,
        };
        self.inner.submit(request, ticket, lane)
    }

    fn usage(&self) -> Result<Usage, BlockError> {
        self.inner.usage()
    }
}

struct Nobody;

impl Watch for Nobody {
    fn phase(&mut self, _: Phase, _: Option<u64>, _: Option<std::time::Duration>) {}
    fn second(&mut self, _: &sandstone::bench::measure::window::Second) {}
}

/// Fills the device, then runs accesses of this kind over it, then reads all back.
fn verified(device: Arc<dyn BlockDevice>, line: AccessLine, parameters: Parameters) -> Measurement {
    let workload = Workload::single(Stream::new(AccessSpecification::single("verified", line)));
    let mut lane = Lane::standing().unwrap();
    let stop = AtomicBool::new(false);
    measure(
        &workload,
        &parameters,
        42,
        (&device, &mut lane),
        &stop,
        &mut Nobody,
    )
    .unwrap()
}

/// Every block once: what is lied about is not written again.
fn once() -> Parameters {
    Parameters {
        run_time_ms: 0,
        amount: Some(LEN),
        outstanding: 1,
        fill: true,
        verify: true,
        ..Parameters::default()
    }
}

const BLOCKS_PER_WRITE: u64 = (WRITE / BLOCK) as u64;

#[test]
fn an_honest_device_passes() {
    let device = Arc::new(MemoryDevice::new(LEN, BLOCK, LEN).unwrap());
    let measurement = verified(device, AccessLine::all(WRITE, 0, 0), once());
    let report = measurement.verify.unwrap();
    assert_eq!(
        (report.mismatches, report.checked, report.unknown),
        (0, LEN / u64::from(BLOCK), 0)
    );
    assert_eq!(
        report.written,
        2 * LEN / u64::from(BLOCK),
        "the fill and the run"
    );
}

#[test]
fn every_lie_about_a_write_is_found_and_called_what_it_is() {
    for lie in [Lie::Drop, Lie::Tear, Lie::Zero, Lie::Flip] {
        let device = LyingDevice::new(lie);
        let measurement = verified(device.clone(), AccessLine::all(WRITE, 0, 0), once());
        let lies = device.lies.load(Ordering::Relaxed);
        assert_eq!(lies, 26, "every tenth of 256 writes");
        let report = measurement.verify.clone().unwrap();
        assert_eq!(report.mismatches, lies * BLOCKS_PER_WRITE, "{lie:?}");
        let expected = match lie {
            Lie::Drop => Found::Stale { generation: 1 },
            Lie::Zero => Found::Zeros,
            _ => Found::Torn,
        };
        assert!(
            report
                .details
                .iter()
                .all(|mismatch| mismatch.found == expected),
            "{lie:?}: {report:?}"
        );
        assert_eq!(report.details[0].lba, 5 * BLOCKS_PER_WRITE);
        assert!(measurement.data_is_wrong());
    }
}

#[test]
fn a_misplaced_write_is_found_where_it_went_and_where_it_is_missing() {
    let device = LyingDevice::new(Lie::Misplace);
    let report = verified(device.clone(), AccessLine::all(WRITE, 0, 0), once())
        .verify
        .unwrap();
    let lies = device.lies.load(Ordering::Relaxed);
    assert_eq!(report.mismatches, 2 * lies * BLOCKS_PER_WRITE);
    let went = |found: &Found| matches!(found, Found::WrongPlace { generation: 2, .. });
    let missing = |found: &Found| *found == Found::Stale { generation: 1 };
    let counted =
        |which: &dyn Fn(&Found) -> bool| report.details.iter().filter(|m| which(&m.found)).count();
    assert_eq!((counted(&went), counted(&missing)), (16, 16), "{report:?}");
}

#[test]
fn a_read_from_the_wrong_place_is_found_while_running() {
    let device = LyingDevice::new(Lie::MisplaceRead);
    let parameters = Parameters {
        amount: Some(2 * MIB),
        ..once()
    };
    let report = verified(device.clone(), AccessLine::all(WRITE, 100, 100), parameters)
        .verify
        .unwrap();
    assert!(report.mismatches >= 4, "{report:?}");
    assert!(
        report
            .details
            .iter()
            .all(|m| matches!(m.found, Found::WrongPlace { .. })),
        "{report:?}"
    );
}

#[test]
fn failures_are_no_lies() {
    let honest = Arc::new(MemoryDevice::new(LEN, 512, LEN).unwrap());
    let device = Arc::new(FaultDevice::new(honest, 7));
    for kind in [Kind::Read, Kind::Write] {
        device.add(Rule {
            kind: Some(kind),
            range: None,
            when: When::PerMillion(20_000),
            fault: Fault::Fail(BlockErrorKind::Medium),
        });
    }
    device.add(Rule {
        kind: Some(Kind::Write),
        range: None,
        when: When::PerMillion(20_000),
        fault: Fault::Torn(2048),
    });
    let parameters = Parameters {
        amount: Some(64 * MIB),
        outstanding: 8,
        workers: 2,
        fill: false,
        ..once()
    };
    let measurement = verified(device, AccessLine::all(4096, 50, 100), parameters);
    let report = measurement.verify.clone().unwrap();
    assert_eq!(report.mismatches, 0, "{report:?}");
    assert!(
        measurement.errors() > 100 && report.checked > 1000,
        "{measurement:?}"
    );
    assert!(!measurement.failures.is_empty());
}
