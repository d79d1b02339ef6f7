//! Tests of a device that hangs: an impatient user gets the measurements so far, and nothing waits
//! for the device. No test here looks at a clock, because a hanging run would hang the test.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use bench::measure::window::Second;
use bench::parameters::Parameters;
use bench::results::Measurement;
use bench::run::measure::{Phase, Watch, measure};
use bench::workload::{Stream, Workload};
use block::memory::MemoryDevice;
use block::{BlockDevice, BlockError, Done, Geometry, Lane, Request, Submitted, Ticket, Usage};
use iometer::access::{AccessLine, AccessSpecification};

const MIB: u64 = 1 << 20;

/// Gate that keeps callers waiting until it is opened.
#[derive(Debug, Default)]
struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn pass(&self) {
        let mut is_open = self.is_open.lock().unwrap();
        while !*is_open {
            is_open = self.opened.wait(is_open).unwrap();
        }
    }
}

/// Memory that answers a number of requests and then none. At that moment it interrupts the
/// measurement.
#[derive(Debug)]
struct Hanging {
    inner: MemoryDevice,
    answers: AtomicU32,
    /// Whether only flushes hang.
    flushes: bool,
    gate: Arc<Gate>,
    stop: Arc<AtomicBool>,
}

impl BlockDevice for Hanging {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn submit(&self, request: Request, ticket: Ticket, lane: &mut Lane) -> Submitted {
        let hangs = match self.flushes {
            true => matches!(request, Request::Flush),
            false => {
                let left =
                    self.answers
                        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                            left.checked_sub(1)
                        });
                left.is_err()
            }
        };
        if !hangs {
            return self.inner.submit(request, ticket, lane);
        }
        self.stop.store(true, Ordering::Relaxed);
        let gate = Arc::clone(&self.gate);
        lane.run_blocking(ticket, move || {
            gate.pass();
            Ok(Done::Nothing)
        })
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

/// Measures a device that hangs after a number of answers, or one whose flushes hang if `answers`
/// is `None`.
fn measured(answers: Option<u32>, parameters: Parameters) -> Measurement {
    let stop = Arc::new(AtomicBool::new(false));
    let gate = Arc::new(Gate::default());
    let device: Arc<dyn BlockDevice> = Arc::new(Hanging {
        inner: MemoryDevice::new(MIB, 512, MIB).unwrap(),
        answers: AtomicU32::new(answers.unwrap_or(0)),
        flushes: answers.is_none(),
        gate: Arc::clone(&gate),
        stop: Arc::clone(&stop),
    });
    let line = AccessLine::all(4096, 0, 0);
    let workload = Workload::single(Stream::new(AccessSpecification::single("hangs", line)));
    let mut lane = Lane::standing().unwrap();
    let target = (&device, &mut lane);
    let measurement = measure(&workload, &parameters, 1, target, &stop, &mut Nobody).unwrap();
    // Dropping the lane does not wait for requests that are still there.
    drop(lane);
    // Frees the threads for other tests.
    *gate.is_open.lock().unwrap() = true;
    gate.opened.notify_all();
    measurement
}

fn parameters(verify: bool) -> Parameters {
    Parameters {
        workers: 2,
        outstanding: 2,
        ramp_up_ms: 0,
        run_time_ms: 3_600_000,
        verify,
        ..Parameters::default()
    }
}

#[test]
fn what_was_measured_before_a_device_hung_is_given_out() {
    let measurement = measured(Some(100), parameters(false));
    assert!(measurement.interrupted);
    let done = measurement.write.accesses + measurement.late;
    assert_eq!(done, 100, "{measurement:?}");
    assert!((1..=4).contains(&measurement.abandoned), "{measurement:?}");
}

#[test]
fn verification_of_a_device_that_hung_proves_nothing() {
    let measurement = measured(Some(100), parameters(true));
    assert!(measurement.abandoned > 0 && measurement.is_unproven());
}

#[test]
fn a_fill_that_hangs_is_given_up() {
    let filled = Parameters {
        fill: true,
        ..parameters(false)
    };
    let measurement = measured(Some(1), filled);
    assert!(measurement.abandoned > 0 && measurement.interrupted);
    assert_eq!(measurement.write.accesses, 0);
}

#[test]
fn a_flush_that_hangs_is_given_up() {
    let amount = Parameters {
        amount: Some(64 << 10),
        ..parameters(true)
    };
    let measurement = measured(None, amount);
    assert_eq!(measurement.abandoned, 1);
    assert!(measurement.is_unproven());
}
