//! Tests of verification on a device that lies: every lie is found, and named correctly.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bench::parameters::Parameters;
use bench::results::Measurement;
use bench::run::measure::{Phase, Watch, measure};
use bench::verify::WrongContent;
use bench::workload::{Stream, Workload};
use block::fault::{Fault, FaultDevice, Rule, When};
use block::memory::MemoryDevice;
use block::statistics::RequestKind;
use block::{
    BlockDevice, BlockError, BlockErrorKind, Done, Geometry, Lane, Pages, Request, Submitted,
    Ticket, Usage,
};
use iometer::access::{AccessLine, AccessSpecification};

const MIB: u64 = 1 << 20;
/// Bytes of the device.
const LEN: u64 = 4 * MIB;
const BLOCK: u32 = 4096;
/// Bytes of each write that may be lied about; the writes that fill the device are larger.
const WRITE: u32 = 16 << 10;

/// Wrong act of a device, in place of the request.
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
    /// Answers a read with the first half of it, and a bit.
    ShortRead,
    /// Answers a read with nothing but success.
    EmptyRead,
}

impl Lie {
    fn is_about_reads(self) -> bool {
        matches!(self, Self::MisplaceRead | Self::ShortRead | Self::EmptyRead)
    }
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

    /// Reports whether to lie now, which is so every tenth time.
    fn lies_now(&self) -> bool {
        let lies = self.asked.fetch_add(1, Ordering::Relaxed) % 10 == 5;
        self.lies.fetch_add(u64::from(lies), Ordering::Relaxed);
        lies
    }

    /// Returns the stored bytes; memory answers at once.
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
            Lie::Drop | Lie::MisplaceRead | Lie::ShortRead | Lie::EmptyRead => return None,
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
            } if !self.lie.is_about_reads() && data.len() == WRITE as usize && self.lies_now() => {
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
            Request::Read { offset, len } if self.lie == Lie::ShortRead && self.lies_now() => {
                let stored = self.stored(offset, len as usize, lane);
                let half = Pages::from_bytes(&stored[..stored.len() / 2 + 100]);
                return Submitted::Ready(Ok(Done::Pages(half)));
            }
            Request::Read { .. } if self.lie == Lie::EmptyRead && self.lies_now() => {
                return Submitted::Ready(Ok(Done::Nothing));
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
    fn second(&mut self, _: &bench::measure::window::Second) {}
}

/// Fills the device, runs accesses of this kind over it, and then reads all back.
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

/// Returns parameters that access every block once, so that no lie is overwritten.
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
    assert!(report.is_proof(), "{report:?}");
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
            Lie::Drop => WrongContent::Stale { generation: 1 },
            Lie::Zero => WrongContent::Zeros,
            _ => WrongContent::Torn,
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
    let went =
        |found: &WrongContent| matches!(found, WrongContent::WrongPlace { generation: 2, .. });
    let missing = |found: &WrongContent| *found == WrongContent::Stale { generation: 1 };
    let counted = |which: &dyn Fn(&WrongContent) -> bool| {
        report.details.iter().filter(|m| which(&m.found)).count()
    };
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
            .all(|m| matches!(m.found, WrongContent::WrongPlace { .. })),
        "{report:?}"
    );
}

#[test]
fn a_read_that_is_short_while_running_is_no_proof() {
    for lie in [Lie::ShortRead, Lie::EmptyRead] {
        let device = LyingDevice::new(lie);
        let parameters = Parameters {
            amount: Some(2 * MIB),
            ..once()
        };
        let measurement = verified(device.clone(), AccessLine::all(WRITE, 100, 100), parameters);
        let report = measurement.verify.clone().unwrap();
        assert_eq!(
            device.lies.load(Ordering::Relaxed),
            13,
            "of 128 reads, and of none of the last four"
        );
        assert_eq!((report.short_reads, report.unread), (13, 0), "{lie:?}");
        assert_eq!(report.mismatches, 0, "{lie:?}");
        assert!(measurement.is_unproven() && !measurement.data_is_wrong());
    }
}

#[test]
fn what_is_short_at_the_end_is_unread() {
    for lie in [Lie::ShortRead, Lie::EmptyRead] {
        let device = LyingDevice::new(lie);
        let piece = 64 << 10;
        let parameters = Parameters {
            max_io: Some(piece),
            ..once()
        };
        let measurement = verified(device.clone(), AccessLine::all(WRITE, 0, 0), parameters);
        let report = measurement.verify.clone().unwrap();
        assert_eq!((report.short_reads, report.mismatches), (6, 0), "{lie:?}");
        assert_eq!(report.unread, 6 * u64::from(piece / BLOCK), "{lie:?}");
        assert!(measurement.is_unproven());
    }
}

/// Writes a memory of `len` bytes once, 1 MiB at a time, behind a rule.
fn written_once_with(len: u64, rule: Rule) -> Measurement {
    let memory = Arc::new(MemoryDevice::new(len, BLOCK, len).unwrap());
    let device = Arc::new(FaultDevice::new(memory, 1));
    device.add(rule);
    let parameters = Parameters {
        amount: Some(len),
        fill: false,
        ..once()
    };
    verified(device, AccessLine::all(1 << 20, 0, 0), parameters)
}

#[test]
fn what_cannot_be_read_back_is_unread() {
    let rule = Rule {
        kind: Some(RequestKind::Read),
        range: Some(MIB..MIB + 1),
        when: When::Always,
        fault: Fault::Fail(BlockErrorKind::Medium),
    };
    let measurement = written_once_with(LEN, rule);
    let report = measurement.verify.clone().unwrap();
    assert_eq!((report.mismatches, report.short_reads), (0, 0));
    assert_eq!(report.unread, MIB / u64::from(BLOCK), "all of that read");
    assert_eq!(measurement.failures[0].kind, "read-back medium");
    assert!(measurement.is_unproven());
}

#[test]
fn what_is_not_even_tried_because_all_fails_is_unread() {
    let len = 104 * MIB;
    let rule = Rule {
        kind: Some(RequestKind::Read),
        // A hundred failures are enough to give up.
        range: Some(0..100 * MIB),
        when: When::Always,
        fault: Fault::Fail(BlockErrorKind::Gone),
    };
    let measurement = written_once_with(len, rule);
    let report = measurement.verify.clone().unwrap();
    assert_eq!(measurement.failures[0].count, 100);
    assert_eq!((report.checked, report.unread), (0, len / u64::from(BLOCK)));
    assert!(measurement.is_unproven());
}

#[test]
fn a_flush_that_fails_is_no_proof() {
    let rule = Rule {
        kind: Some(RequestKind::Flush),
        range: None,
        when: When::Always,
        fault: Fault::Fail(BlockErrorKind::Write),
    };
    let measurement = written_once_with(LEN, rule);
    let report = measurement.verify.clone().unwrap();
    assert_eq!((report.mismatches, report.unread), (0, 0));
    assert!(report.flush_failed && measurement.is_unproven());
    assert_eq!(measurement.failures[0].kind, "flush");
}

/// Observer that ends the run when the reading back begins.
struct Impatient<'a>(&'a AtomicBool);

impl Watch for Impatient<'_> {
    fn phase(&mut self, phase: Phase, _: Option<u64>, _: Option<std::time::Duration>) {
        self.0.store(phase == Phase::ReadBack, Ordering::Relaxed);
    }
    fn second(&mut self, _: &bench::measure::window::Second) {}
}

#[test]
fn what_nobody_waited_for_is_unread() {
    let line = AccessLine::all(WRITE, 0, 0);
    let workload = Workload::single(Stream::new(AccessSpecification::single("cut", line)));
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(LEN, BLOCK, LEN).unwrap());
    let mut lane = Lane::standing().unwrap();
    let stop = AtomicBool::new(false);
    let target = (&device, &mut lane);
    let mut watch = Impatient(&stop);
    let measurement = measure(&workload, &once(), 42, target, &stop, &mut watch).unwrap();
    let report = measurement.verify.clone().unwrap();
    assert_eq!((report.checked, report.unread), (0, LEN / u64::from(BLOCK)));
    assert!(measurement.interrupted && measurement.is_unproven());
}

#[test]
fn failures_are_no_lies() {
    let honest = Arc::new(MemoryDevice::new(LEN, 512, LEN).unwrap());
    let device = Arc::new(FaultDevice::new(honest, 7));
    for kind in [RequestKind::Read, RequestKind::Write] {
        device.add(Rule {
            kind: Some(kind),
            range: None,
            when: When::PerMillion(20_000),
            fault: Fault::Fail(BlockErrorKind::Medium),
        });
    }
    device.add(Rule {
        kind: Some(RequestKind::Write),
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
