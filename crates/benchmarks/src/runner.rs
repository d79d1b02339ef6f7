//! The thread of a benchmark: it makes one measurement after the other, and keeps each.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::files::Record;
use super::order::{Plan, run_ms};
use super::progress::Progress;
use super::rows::{name_of, rows};
use super::view::BenchmarkState;
use bench::measure::window::Second;
use bench::results::{FailedRun, Run};
use bench::run::measure::{Phase, Watch, measure};
use bench::sweep::plan;
use block::{BlockDevice, Lane};

/// Time between two looks at whether the benchmark may go on.
const LOOK: Duration = Duration::from_millis(200);

/// Function that tells why a benchmark must end early, once it must.
pub type Guard = Box<dyn Fn() -> Option<String> + Send + Sync>;

/// A benchmark under way.
#[derive(Debug)]
pub(crate) struct Running {
    stop: AtomicBool,
    /// State at the end and its reason, if it is ended early.
    early: Mutex<Option<(BenchmarkState, String)>>,
    pub(crate) record: Mutex<Record>,
    pub(crate) progress: Mutex<Progress>,
}

/// Returns the value behind a lock. A thread that panicked left it whole: all fields are set at
/// once.
pub(crate) fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Running {
    pub(crate) fn new(record: Record, total: Duration) -> Arc<Self> {
        Arc::new(Self {
            stop: AtomicBool::new(false),
            early: Mutex::default(),
            record: Mutex::new(record),
            progress: Mutex::new(Progress::new(total)),
        })
    }

    /// Ends the benchmark early. The first reason holds.
    pub(crate) fn end(&self, state: BenchmarkState, reason: impl Into<String>) {
        held(&self.early).get_or_insert_with(|| (state, reason.into()));
        self.stop.store(true, Ordering::Relaxed);
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Makes all measurements of a plan. `keep` is called after each. Returns the state at the end,
    /// and the reason if the end came early.
    pub(crate) fn work(
        &self,
        plan: &Plan,
        device: &Arc<dyn BlockDevice>,
        guard: &Guard,
        keep: &dyn Fn(),
    ) -> (BenchmarkState, Option<String>) {
        let (over, is_over) = channel::<()>();
        let ended = thread::scope(|scope| {
            scope.spawn(|| self.watch(guard, is_over));
            let measured = AssertUnwindSafe(|| self.measure_all(plan, device, keep));
            let ended = catch_unwind(measured);
            drop(over);
            ended
        });
        let unexpected = "the measurement failed for an unexpected reason: see the daemon's log";
        match (held(&self.early).take(), ended) {
            (_, Err(_)) => (BenchmarkState::Failed, Some(unexpected.to_owned())),
            (_, Ok(Err(reason))) => (BenchmarkState::Failed, Some(reason)),
            (Some((state, reason)), Ok(Ok(()))) => (state, Some(reason)),
            (None, Ok(Ok(()))) => (BenchmarkState::Finished, None),
        }
    }

    /// Looks at whether the benchmark may go on, until it is over.
    fn watch(&self, guard: &Guard, is_over: Receiver<()>) {
        while let Err(RecvTimeoutError::Timeout) = is_over.recv_timeout(LOOK) {
            if let Some(reason) = guard() {
                return self.end(BenchmarkState::Stopped, reason);
            }
        }
    }

    fn measure_all(
        &self,
        plan: &Plan,
        device: &Arc<dyn BlockDevice>,
        keep: &dyn Fn(),
    ) -> Result<(), String> {
        let system = |error: &dyn fmt::Display| {
            format!("the system did not give what a measurement needs: {error}")
        };
        let mut lane = Lane::standing().map_err(|error| system(&error))?;
        let mut left_ms = plan.total_ms();
        for (round, at) in plan::schedule(plan.settings.len(), plan.rounds, 1) {
            let (settings, setup) = (&plan.settings[at], &plan.setups[at]);
            for workload in &setup.profile.workloads {
                if self.is_stopped() {
                    return Ok(());
                }
                let name = name_of(&workload.name, settings);
                held(&self.progress).next(name.clone(), Duration::from_millis(left_ms));
                left_ms = left_ms.saturating_sub(run_ms(setup, workload));
                let mut parameters = setup.parameters.clone();
                // Each round has other random numbers, and the settings of a round have the same.
                parameters.seed = parameters.seed.wrapping_add(u64::from(round));
                let number = getrandom::u64().map_err(|error| system(&error))?;
                let target = (device, &mut lane);
                let mut reporter = Reporter(&self.progress);
                let measured = measure(
                    workload,
                    &parameters,
                    number,
                    target,
                    &self.stop,
                    &mut reporter,
                );
                let mut record = held(&self.record);
                let mut measurement = match measured {
                    Ok(measurement) => measurement,
                    Err(error) => {
                        record.results.failed.push(FailedRun {
                            round,
                            settings: settings.clone(),
                            workload: Some(workload.name.clone()),
                            reason: error.to_string(),
                            left_out: false,
                        });
                        return Err(format!("{name}: {error}"));
                    }
                };
                // The process serves hosts too, so its processor time is not that of the load.
                measurement.cpu = None;
                record.results.runs.push(Run {
                    round,
                    settings: settings.clone(),
                    workload: workload.clone(),
                    parameters,
                    reached: None,
                    measurement,
                });
                record.view.runs += 1;
                let all = rows(&record.results).into_iter();
                record.view.most = all.max_by(|a, b| a.iops.total_cmp(&b.iops));
                drop(record);
                keep();
            }
        }
        Ok(())
    }
}

/// Reporter of a measurement to whoever looks.
struct Reporter<'a>(&'a Mutex<Progress>);

impl Watch for Reporter<'_> {
    fn phase(&mut self, phase: Phase, _: Option<u64>, time: Option<Duration>) {
        held(self.0).begin(phase, time);
    }

    fn second(&mut self, second: &Second) {
        held(self.0).second(second);
    }
}
