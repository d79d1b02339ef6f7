//! Tests of a device of known delay or rate on real lanes. A loaded machine can only make it
//! slower, so the tests only assert that it is not faster. Tests in simulated time show that the
//! figures are exact.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bench::measure::window::Second;
use bench::parameters::{Pace, Parameters};
use bench::results::Measurement;
use bench::run::measure::{Phase, Watch, measure};
use bench::workload::{Stream, Workload};
use block::delay::DelayDevice;
use block::memory::MemoryDevice;
use block::{BlockDevice, Lane};
use iometer::access::{AccessLine, AccessSpecification};

const MIB: u64 = 1 << 20;

/// Observer that stops the run after its given number of seconds.
struct StopAfter<'a>(u32, &'a AtomicBool);

impl Watch for StopAfter<'_> {
    fn phase(&mut self, _: Phase, _: Option<u64>, _: Option<Duration>) {}
    fn second(&mut self, second: &Second) {
        if second.second + 1 >= self.0 {
            self.1.store(true, Ordering::Relaxed);
        }
    }
}

fn run(
    latency_ms: u64,
    rate: Option<u64>,
    line: AccessLine,
    parameters: Parameters,
) -> Measurement {
    let memory = Arc::new(MemoryDevice::new(16 * MIB, 512, 16 * MIB).unwrap());
    let device: Arc<dyn BlockDevice> = Arc::new(DelayDevice::new(
        memory,
        Duration::from_millis(latency_ms),
        rate,
    ));
    let workload = Workload::single(Stream::new(AccessSpecification::single("slow", line)));
    let mut lane = Lane::standing().unwrap();
    let stop = AtomicBool::new(false);
    let mut watch = StopAfter(3, &stop);
    measure(
        &workload,
        &parameters,
        1,
        (&device, &mut lane),
        &stop,
        &mut watch,
    )
    .unwrap()
}

fn parameters(run_time_ms: u64) -> Parameters {
    Parameters {
        run_time_ms,
        ramp_up_ms: 100,
        outstanding: 4,
        workers: 2,
        ..Parameters::default()
    }
}

#[test]
fn a_delay_is_the_least_latency_and_bounds_the_rate() {
    let measurement = run(5, None, AccessLine::all(4096, 70, 100), parameters(600));
    let spread = measurement.latency.distribution.clone().unwrap();
    assert!(spread.min_ns >= 5_000_000, "{spread:?}");
    assert!(
        measurement.iops() <= 8.0 / 0.005 * 1.02,
        "{}",
        measurement.iops()
    );
    assert!(measurement.read.accesses > 0 && measurement.write.accesses > 0);
    assert_eq!((measurement.workers, measurement.outstanding), (2, 8));
    assert!(!measurement.interrupted && measurement.errors() == 0);
    assert_eq!(measurement.elapsed_ns, 600_000_000);
}

#[test]
fn a_rate_is_not_exceeded() {
    let rate = 32 * MIB;
    let measurement = run(
        0,
        Some(rate),
        AccessLine::all(65_536, 0, 0),
        parameters(600),
    );
    // Accesses under way when recording began end in the recorded time.
    let most = rate as f64 * 0.6 + 8.0 * 65_536.0;
    assert!(measurement.write.bytes as f64 <= most, "{measurement:?}");
    assert!(measurement.write.bytes > 0);
}

#[test]
fn cpu_time_is_small_where_the_device_is_slow() {
    let measurement = run(20, None, AccessLine::all(4096, 100, 100), parameters(500));
    let cpu = measurement.cpu.unwrap();
    assert!(cpu.elapsed_ns >= 400_000_000, "{cpu:?}");
    assert!(measurement.cpu_ns_per_access().unwrap() > 0.0);
}

#[test]
fn an_interrupted_run_says_what_it_measured_until_then() {
    let measurement = run(1, None, AccessLine::all(4096, 100, 0), parameters(600_000));
    assert!(measurement.interrupted);
    assert!((3_000_000_000..60_000_000_000).contains(&measurement.elapsed_ns));
    assert!(measurement.series.len() >= 3 && measurement.read.accesses > 0);
}

#[test]
fn an_open_pace_keeps_its_rate() {
    let parameters = Parameters {
        pace: Pace::Open(500.0),
        outstanding: 64,
        ..parameters(1000)
    };
    let measurement = run(1, None, AccessLine::all(4096, 100, 100), parameters);
    let started = measurement.read.accesses + measurement.late + measurement.unstarted;
    // Accesses of the ramp-up that ended in the measured time count too.
    assert!((495..=560).contains(&started), "{started}");
}

#[test]
fn an_amount_is_divided_by_the_time_that_it_took() {
    let rate = 32 * MIB;
    let defaults = Parameters::default();
    assert!(defaults.run_time_ms >= 30_000, "far more than it takes");
    let parameters = Parameters {
        amount: Some(8 * MIB),
        workers: 2,
        ..defaults
    };
    let line = AccessLine::all(65_536, 0, 0);
    let began = std::time::Instant::now();
    let measurement = run(0, Some(rate), line, parameters);
    let took_ns = began.elapsed().as_nanos() as u64;
    assert_eq!(measurement.write.bytes, 8 * MIB);
    let least_ns = 8 * MIB * 1_000_000_000 / rate;
    assert!(
        (least_ns / 2..=took_ns).contains(&measurement.elapsed_ns),
        "{} of {took_ns}",
        measurement.elapsed_ns
    );
    assert!(measurement.longest_gap_ns <= took_ns, "{measurement:?}");
    assert!(!measurement.interrupted && measurement.unstarted == 0);
}
