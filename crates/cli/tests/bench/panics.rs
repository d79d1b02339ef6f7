//! Tests of a device that panics. It ends the run that meets it, whichever worker panicked: nobody
//! waits for ever for a dead thread.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::channel;
use std::time::Duration;

use bench::measure::window::Second;
use bench::parameters::Parameters;
use bench::run::measure::{Phase, Watch, measure};
use bench::workload::{Stream, Workload};
use block::memory::MemoryDevice;
use block::{BlockDevice, BlockError, Geometry, Lane, Request, Submitted, Ticket, Usage};
use iometer::access::{AccessLine, AccessSpecification};

const MIB: u64 = 1 << 20;
const WORDS: &str = "the device has lost its mind";

/// Device that panics for requests on the caller's lane, or for all others.
#[derive(Debug)]
struct PanickingDevice {
    inner: MemoryDevice,
    callers_lane: usize,
    for_caller: bool,
}

impl BlockDevice for PanickingDevice {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn submit(&self, request: Request, ticket: Ticket, lane: &mut Lane) -> Submitted {
        assert!(
            (lane.number() == self.callers_lane) != self.for_caller,
            "{WORDS}"
        );
        self.inner.submit(request, ticket, lane)
    }

    fn usage(&self) -> Result<Usage, BlockError> {
        self.inner.usage()
    }
}

struct Nobody;

impl Watch for Nobody {
    fn phase(&mut self, _: Phase, _: Option<u64>, _: Option<Duration>) {}
    fn second(&mut self, _: &Second) {}
}

/// Returns the message of a run's panic.
fn panic_of_run(for_caller: bool) -> String {
    let mut lane = Lane::standing().unwrap();
    let device: Arc<dyn BlockDevice> = Arc::new(PanickingDevice {
        inner: MemoryDevice::new(MIB, 512, MIB).unwrap(),
        callers_lane: lane.number(),
        for_caller,
    });
    let line = AccessLine::all(4096, 100, 100);
    let workload = Workload::single(Stream::new(AccessSpecification::single("panics", line)));
    let parameters = Parameters {
        run_time_ms: 200,
        ramp_up_ms: 0,
        workers: 2,
        ..Parameters::default()
    };
    let stop = AtomicBool::new(false);
    let target = (&device, &mut lane);
    let run = || measure(&workload, &parameters, 1, target, &stop, &mut Nobody);
    let panic = catch_unwind(AssertUnwindSafe(run)).expect_err("a worker panicked");
    match panic.downcast::<String>() {
        Ok(words) => *words,
        Err(_) => "something else".to_owned(),
    }
}

#[test]
fn a_worker_that_panics_ends_the_run() {
    for for_caller in [false, true] {
        // The run has its own thread, so that a run without end fails and does not hang the test.
        let (tell, listen) = channel();
        std::thread::spawn(move || tell.send(panic_of_run(for_caller)));
        let words = listen.recv_timeout(Duration::from_secs(60));
        assert_eq!(words.as_deref(), Ok(WORDS), "caller's lane: {for_caller}");
    }
}
