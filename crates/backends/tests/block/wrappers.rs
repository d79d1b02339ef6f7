//! The suite over the wrappers, with tests of the behaviour that each adds.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use block::delay::DelayDevice;
use block::fault::{Fault, FaultDevice, Rule, When};
use block::file::{FileDevice, FileOptions};
use block::memory::MemoryDevice;
use block::statistics::{RequestKind, StatisticsDevice};
use block::{
    BlockDevice, BlockError, BlockErrorKind, Durability, Foreseen, Geometry, Lane, LatencySplit,
    Request, Submitted, Ticket, Usage,
};

use crate::driver::{Driver, Path};
use crate::suite;

const LEN: u64 = 8 << 20;

fn memory() -> Arc<dyn BlockDevice> {
    Arc::new(MemoryDevice::new(LEN, 512, LEN).expect("a sound size"))
}

/// Makes a device that answers asynchronously, in a folder that must outlive the device.
fn file() -> (tempfile::TempDir, Arc<dyn BlockDevice>) {
    let options = FileOptions {
        block_size: 512,
        preallocate: false,
        direct: true,
    };
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let name = folder.path().join("lun");
    FileDevice::create(&name, LEN, options).expect("a new file");
    (
        folder,
        Arc::new(FileDevice::open(&name, options).expect("opens")),
    )
}

/// Function that puts a wrapper on a device.
type Wrap = fn(Arc<dyn BlockDevice>) -> Arc<dyn BlockDevice>;

/// A device whose every property differs from the defaults.
#[derive(Debug)]
struct Unusual {
    memory: Arc<dyn BlockDevice>,
    foreseen: AtomicUsize,
}

impl BlockDevice for Unusual {
    fn geometry(&self) -> Geometry {
        self.memory.geometry()
    }

    fn submit(&self, request: Request, ticket: Ticket, lane: &mut Lane) -> Submitted {
        self.memory.submit(request, ticket, lane)
    }

    fn reads_in_place(&self) -> bool {
        true
    }

    fn has_read_cache(&self) -> bool {
        true
    }

    fn foresees(&self) -> bool {
        true
    }

    fn foresee(&self, accesses: &[Foreseen]) {
        self.foreseen.fetch_add(accesses.len(), Ordering::SeqCst);
    }

    fn latency_split(&self) -> Option<LatencySplit> {
        Some(LatencySplit {
            commands: 7,
            ..LatencySplit::default()
        })
    }

    fn durability(&self) -> Option<Durability> {
        Some(Durability::Never)
    }

    fn is_read_only(&self) -> bool {
        true
    }

    fn usage(&self) -> Result<Usage, BlockError> {
        Err(BlockError::new(BlockErrorKind::Gone, "of the usage"))
    }

    fn reopenings(&self) -> u64 {
        7
    }

    fn is_over(&self) -> bool {
        true
    }

    fn fault(&self) -> Option<String> {
        Some("a fault".into())
    }

    fn refresh(&self) -> Result<Geometry, BlockError> {
        Err(BlockError::new(BlockErrorKind::Gone, "of the refresh"))
    }
}

#[test]
fn what_a_device_says_of_itself_passes_through_every_wrapper() {
    let wrap: [Wrap; 3] = [
        |inner| Arc::new(DelayDevice::new(inner, Duration::ZERO, None)),
        |inner| Arc::new(FaultDevice::new(inner, 1)),
        |inner| Arc::new(StatisticsDevice::new(inner)),
    ];
    for wrap in wrap {
        let unusual = Arc::new(Unusual {
            memory: memory(),
            foreseen: AtomicUsize::new(0),
        });
        let device = wrap(unusual.clone());
        assert_eq!(device.geometry(), unusual.geometry());
        assert!(device.reads_in_place() && device.has_read_cache() && device.foresees());
        device.foresee(&[Foreseen {
            offset: 0,
            is_read: true,
        }]);
        assert_eq!(unusual.foreseen.load(Ordering::SeqCst), 1);
        assert_eq!(device.latency_split().map(|split| split.commands), Some(7));
        assert_eq!(device.durability(), Some(Durability::Never));
        assert!(device.is_read_only() && device.is_over());
        assert_eq!(device.reopenings(), 7);
        assert_eq!(device.fault().as_deref(), Some("a fault"));
        let said = |error: BlockError| error.to_string();
        assert!(said(device.usage().expect_err("it says so")).contains("of the usage"));
        assert!(said(device.refresh().expect_err("it says so")).contains("of the refresh"));
    }
}

#[test]
fn wrappers_change_nothing_by_themselves() {
    let delayed = DelayDevice::new(memory(), Duration::from_micros(10), None);
    let faulty = FaultDevice::new(Arc::new(delayed), 1);
    let device: Arc<dyn BlockDevice> = Arc::new(StatisticsDevice::new(Arc::new(faulty)));
    suite::run(&device, Path::Uring, 10);

    let (_folder, file) = file();
    let faulty = FaultDevice::new(Arc::new(StatisticsDevice::new(file)), 1);
    let device: Arc<dyn BlockDevice> = Arc::new(StatisticsDevice::new(Arc::new(faulty)));
    suite::run(&device, Path::Uring, 5);
}

#[test]
fn statistics_count_what_passes() {
    let (_folder, file) = file();
    for (inner, path) in [
        (memory(), Path::Uring),
        (Arc::clone(&file), Path::Uring),
        (file, Path::Pool),
    ] {
        let device = Arc::new(StatisticsDevice::new(inner));
        let counters = device.counters();
        let mut driver = Driver::new(device, path);
        driver.write(0, &[1; 4096]);
        driver.write(4096, &[1; 8192]);
        driver.read(0, 4096);
        driver
            .run(Request::Read {
                offset: LEN,
                len: 512,
            })
            .expect_err("outside");
        let (reads, writes) = (
            counters.summary(RequestKind::Read),
            counters.summary(RequestKind::Write),
        );
        assert_eq!(
            (writes.requests, writes.bytes, writes.failures),
            (2, 12288, 0)
        );
        assert_eq!((reads.requests, reads.bytes, reads.failures), (2, 4608, 1));
        assert!(writes.latency(1.0) >= writes.latency(0.5));
        assert!(writes.latency(0.5).expect("counted") < Duration::from_secs(10));
        assert_eq!(counters.summary(RequestKind::Flush).latency(0.5), None);
    }
}

#[test]
fn a_delay_holds_requests_back() {
    let latency = Duration::from_millis(20);
    let mut driver = Driver::new(
        Arc::new(DelayDevice::new(memory(), latency, None)),
        Path::Pool,
    );
    let start = Instant::now();
    let tokens = [0, 4096, 8192].map(|offset| driver.start(Request::Read { offset, len: 4096 }));
    for token in tokens {
        driver.wait(token).expect("a read succeeds");
    }
    assert!(start.elapsed() >= latency);
    assert_eq!(driver.lane.in_flight(), 0);

    let slow = DelayDevice::new(memory(), Duration::ZERO, Some(1 << 20));
    let mut driver = Driver::new(Arc::new(slow), Path::Pool);
    let start = Instant::now();
    driver.read(0, 65536);
    driver.read(0, 65536);
    assert!(start.elapsed() >= Duration::from_millis(125));
}

fn rule(kind: RequestKind, when: When, fault: Fault) -> Rule {
    Rule {
        kind: Some(kind),
        range: None,
        when,
        fault,
    }
}

#[test]
fn a_failed_flush_is_never_acknowledged_later() {
    for inner in [memory(), file().1] {
        let device = Arc::new(FaultDevice::new(inner, 1));
        device.add(rule(
            RequestKind::Flush,
            When::Nth(2),
            Fault::Fail(BlockErrorKind::Write),
        ));
        let mut driver = Driver::new(Arc::clone(&device) as Arc<dyn BlockDevice>, Path::Uring);
        driver.flush().expect("the first succeeds");
        for _ in 0..3 {
            let error = driver.flush().expect_err("this and all that follow fail");
            assert_eq!(error.kind(), BlockErrorKind::Write);
        }
        device.clear();
        driver.flush().expect_err("without the rule too");
        device.reopen();
        driver.flush().expect("works again");
    }
}

#[test]
fn a_lost_write_fails_the_flush() {
    let device = Arc::new(FaultDevice::new(memory(), 1));
    device.add(rule(RequestKind::Write, When::Nth(2), Fault::Lost));
    let mut driver = Driver::new(Arc::clone(&device) as Arc<dyn BlockDevice>, Path::Uring);
    driver.write(0, &[1; 512]);
    driver.write(512, &[1; 512]);
    assert_eq!(driver.read(512, 512), [0; 512]);
    driver.flush().expect_err("the second write is lost");
    device.add(rule(RequestKind::Write, When::Always, Fault::Lost));
    driver
        .try_write(0, &[2; 512], true)
        .expect_err("a durable write is not lost silently");
}

#[test]
fn a_torn_write_keeps_its_first_blocks_and_fails() {
    for inner in [memory(), file().1] {
        let device = Arc::new(FaultDevice::new(inner, 1));
        device.add(Rule {
            kind: Some(RequestKind::Write),
            range: Some(8192..8704),
            when: When::Always,
            fault: Fault::Torn(1300),
        });
        let mut driver = Driver::new(device, Path::Uring);
        driver.write(0, &[1; 8192]);
        let error = driver.try_write(8192, &[1; 4096], false).expect_err("torn");
        assert_eq!(
            (error.kind(), error.offset()),
            (BlockErrorKind::Write, Some(9216))
        );
        let mut expected = [0; 4096];
        expected[..1024].fill(1);
        assert_eq!(driver.read(8192, 4096), expected);
    }
}

#[test]
fn chance_is_reproducible() {
    let failures = |seed| {
        let device = FaultDevice::new(memory(), seed);
        device.add(rule(
            RequestKind::Read,
            When::PerMillion(300_000),
            Fault::Fail(BlockErrorKind::Medium),
        ));
        let mut driver = Driver::new(Arc::new(device), Path::Pool);
        (0..100)
            .map(|_| {
                driver
                    .run(Request::Read {
                        offset: 0,
                        len: 512,
                    })
                    .is_err()
            })
            .collect::<Vec<bool>>()
    };
    assert_eq!(failures(7), failures(7));
    assert_ne!(failures(7), failures(8));
    let count = failures(7).into_iter().filter(|failed| *failed).count();
    assert!((10..60).contains(&count), "{count}");
}
