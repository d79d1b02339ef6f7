//! The keeper of benchmarks: it starts one at a time, knows how far it is, and keeps the results.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::comparison::{BenchmarkComparison, comparison};
use super::files::{Files, Kept, Record};
use super::order::{BenchmarkKind, Plan, StartBenchmark};
use super::rows::{remarks, rows};
use super::runner::{Guard, Running, held};
use super::sweep_table::table;
use super::view::{BenchmarkDetail, BenchmarkState, BenchmarkView};
use bench::machine::this_machine;
use bench::results::{FORMAT, Results, Target};
use block::BlockDevice;
use model::event::{Occurrence, Severity, Teller, Topic};
use model::{Error, ErrorKind};

/// Most benchmarks that are kept.
pub const MOST_KEPT: usize = 50;
/// Most bytes of their files.
const MOST_BYTES: u64 = 64 << 20;
/// Time between two writes of a benchmark under way.
const WRITE_EVERY: Duration = Duration::from_secs(5);
/// Time that a benchmark has to end with the daemon. A device that hangs is not waited for.
const END: Duration = Duration::from_secs(5);

/// Logical unit that is to be measured.
#[derive(Debug)]
pub struct Subject {
    /// Name of the unit.
    pub unit: String,
    /// NAA designator of the unit.
    pub naa: String,
    /// The unit as a device.
    pub device: Arc<dyn BlockDevice>,
}

/// Function that opens a unit at work; `None` if it is not served.
type Open = dyn Fn(&str) -> Option<Arc<dyn BlockDevice>> + Send + Sync;

/// Benchmarks of a daemon.
pub struct Benchmarks {
    open: Box<Open>,
    keeper: Arc<Keeper>,
}

impl std::fmt::Debug for Benchmarks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} benchmarks", self.keeper.state().kept.len())
    }
}

#[derive(Debug)]
struct Keeper {
    files: Files,
    events: Teller,
    state: Mutex<State>,
    /// Signal that a benchmark is over.
    is_over: Condvar,
}

#[derive(Debug)]
struct State {
    kept: BTreeMap<u64, Kept>,
    /// Benchmark under way, with its number.
    running: Option<(u64, Arc<Running>)>,
    /// Number of the last benchmark.
    last: u64,
    is_ending: bool,
    notices: Vec<String>,
}

impl Benchmarks {
    /// Reads the kept benchmarks of a state folder. One that was under way when the daemon ended is
    /// marked as interrupted. `open` opens units at work.
    pub fn open(
        state: &Path,
        events: Teller,
        open: impl Fn(&str) -> Option<Arc<dyn BlockDevice>> + Send + Sync + 'static,
    ) -> Self {
        let (files, mut kept, mut notices) = Files::open(state);
        for Kept { view, bytes } in kept.values_mut() {
            if view.state == BenchmarkState::Running {
                match interrupt(&files, view.id) {
                    Ok((now, size)) => (*view, *bytes) = (now, size),
                    Err(error) => notices.push(not_kept(view.id, &error)),
                }
            }
        }
        let last = kept.keys().next_back().copied().unwrap_or(0);
        let state = State {
            kept,
            running: None,
            last,
            is_ending: false,
            notices,
        };
        Self {
            open: Box::new(open),
            keeper: Arc::new(Keeper {
                files,
                events,
                state: Mutex::new(state),
                is_over: Condvar::new(),
            }),
        }
    }

    /// Opens a unit at work; `None` if it is not served.
    pub fn device(&self, unit: &str) -> Option<Arc<dyn BlockDevice>> {
        (self.open)(unit)
    }

    /// Lists all benchmarks, the newest first.
    pub fn list(&self) -> Vec<BenchmarkView> {
        let state = self.keeper.state();
        let running = state.running.iter().map(|(_, running)| view_of(running));
        let kept = state.kept.values().rev().map(|kept| kept.view.clone());
        running.chain(kept).collect()
    }

    /// Returns a benchmark as it stands in the list.
    ///
    /// # Errors
    /// There is no such benchmark.
    pub fn view(&self, id: u64) -> Result<BenchmarkView, Error> {
        let state = self.keeper.state();
        match &state.running {
            Some((number, running)) if *number == id => Ok(view_of(running)),
            _ => state
                .kept
                .get(&id)
                .map(|kept| kept.view.clone())
                .ok_or_else(|| missing(id)),
        }
    }

    /// Returns a benchmark with its results.
    ///
    /// # Errors
    /// There is no such benchmark, or its file is damaged.
    pub fn show(&self, id: u64) -> Result<BenchmarkDetail, Error> {
        let view = self.view(id)?;
        let (record, seconds) = self.keeper.record(id)?;
        let results = record.results;
        let is_sweep = view.kind == BenchmarkKind::Sweep;
        Ok(BenchmarkDetail {
            order: record.order,
            rows: rows(&results),
            sweep: is_sweep.then(|| table(&results)),
            remarks: remarks(&results),
            seconds,
            benchmark: view,
            results: Some(results),
        })
    }

    /// Compares two benchmarks; the second one is judged.
    ///
    /// # Errors
    /// One of them does not exist, or its file is damaged.
    pub fn compare(&self, a: u64, b: u64) -> Result<BenchmarkComparison, Error> {
        let of = |id| Ok::<_, Error>((self.view(id)?, self.keeper.record(id)?.0.results));
        let ((a, results_a), (b, results_b)) = (of(a)?, of(b)?);
        Ok(comparison((a, &results_a), (b, &results_b)))
    }

    /// Refuses if a benchmark runs: two would measure each other.
    ///
    /// # Errors
    /// A benchmark runs, or the daemon ends.
    pub fn require_idle(&self) -> Result<(), Error> {
        self.keeper.state().require_idle()
    }

    /// Starts a benchmark, and returns its number. It ends early once `guard` tells why. The caller
    /// has checked the order.
    ///
    /// # Errors
    /// Another one runs, the result cannot be kept, or there is no thread for it.
    pub fn start(
        &self,
        order: StartBenchmark,
        plan: Plan,
        subject: Subject,
        by: &str,
        guard: Guard,
    ) -> Result<u64, Error> {
        let keeper = Arc::clone(&self.keeper);
        let mut state = keeper.state();
        state.require_idle()?;
        keeper.make_room(&mut state, MOST_KEPT - 1);
        let id = state.last + 1;
        let view = BenchmarkView {
            id,
            unit: subject.unit.clone(),
            naa: subject.naa.clone(),
            kind: plan.kind,
            about: plan.about.clone(),
            comment: order.comment.clone(),
            writes: plan.writes(),
            by: by.to_owned(),
            started_unix_s: now_unix_s(),
            of_runs: plan.runs(),
            ..BenchmarkView::default()
        };
        let results = Results {
            plan: match plan.kind {
                BenchmarkKind::Run => Vec::new(),
                BenchmarkKind::Sweep => plan.settings.clone(),
            },
            ..empty_results(&subject)
        };
        let record = Record::new(view, order, results);
        // Time is spent only if the result can be kept.
        keeper
            .files
            .write(&record)
            .map_err(|error| Error::storage("keep a benchmark in the state folder", error))?;
        let running = Running::new(record, Duration::from_millis(plan.total_ms()));
        let (own, ran) = (Arc::clone(&running), Arc::clone(&keeper));
        let work = move || ran.run(id, &own, &plan, &subject.device, &guard);
        let thread = thread::Builder::new().name("bench".into()).spawn(work);
        if let Err(error) = thread {
            let _ = keeper.files.remove(id);
            return Err(Error::new(
                ErrorKind::Unavailable,
                format!("a thread of the daemon cannot start: {error}"),
                "raise the limit on threads (`ulimit -u`)",
            ));
        }
        state.last = id;
        keeper.tell(&view_of(&running), "began");
        state.running = Some((id, running));
        Ok(id)
    }

    /// Stops a benchmark that runs. The measurements until then are kept.
    ///
    /// # Errors
    /// There is no such benchmark, or it is over.
    pub fn stop(&self, id: u64, by: &str) -> Result<BenchmarkView, Error> {
        let state = self.keeper.state();
        match &state.running {
            Some((number, running)) if *number == id => {
                running.end(BenchmarkState::Stopped, format!("stopped by {by}"));
                Ok(view_of(running))
            }
            _ if state.kept.contains_key(&id) => Err(Error::new(
                ErrorKind::Refused,
                format!("benchmark {id} is over already"),
                "see its results",
            )),
            _ => Err(missing(id)),
        }
    }

    /// Removes a benchmark and its results.
    ///
    /// # Errors
    /// There is no such benchmark, it runs, or its file cannot be removed.
    pub fn remove(&self, id: u64) -> Result<(), Error> {
        let mut state = self.keeper.state();
        if state.running.as_ref().is_some_and(|(of, _)| *of == id) {
            return Err(Error::new(
                ErrorKind::InUse,
                format!("benchmark {id} runs"),
                "stop it first",
            ));
        }
        if !state.kept.contains_key(&id) {
            return Err(missing(id));
        }
        let removed = self.keeper.files.remove(id);
        removed.map_err(|error| Error::storage("remove a benchmark", error))?;
        state.kept.remove(&id);
        Ok(())
    }

    /// Returns what could not be kept or read, in words.
    pub fn notices(&self) -> Vec<String> {
        self.keeper.state().notices.clone()
    }

    /// Ends the benchmark under way, because the daemon ends, and starts no other.
    pub fn end(&self) {
        let mut state = self.keeper.state();
        state.is_ending = true;
        if let Some((_, running)) = &state.running {
            running.end(BenchmarkState::Interrupted, "the daemon ended");
        }
        let until = Instant::now() + END;
        while state.running.is_some() && Instant::now() < until {
            let left = until.saturating_duration_since(Instant::now());
            let waited = self.keeper.is_over.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl State {
    fn require_idle(&self) -> Result<(), Error> {
        if self.is_ending {
            return Err(Error::new(
                ErrorKind::Unavailable,
                "the daemon ends",
                "try again when it runs",
            ));
        }
        let Some((id, running)) = &self.running else {
            return Ok(());
        };
        let view = view_of(running);
        let left_s = view.progress.map_or(0, |progress| progress.left_s);
        Err(Error::new(
            ErrorKind::InUse,
            format!(
                "benchmark {id} runs on lu {} ({}), for about {left_s} s more: two at a time would \
                 measure each other",
                view.unit, view.about
            ),
            format!("wait for its end, or stop benchmark {id}"),
        ))
    }
}

impl Keeper {
    fn state(&self) -> MutexGuard<'_, State> {
        held(&self.state)
    }

    /// Returns the record of a benchmark, and the seconds of the measurement under way.
    fn record(&self, id: u64) -> Result<(Record, Vec<bench::measure::window::Second>), Error> {
        let running = match &self.state().running {
            Some((number, running)) if *number == id => Some(Arc::clone(running)),
            _ => None,
        };
        if let Some(running) = running {
            let seconds = held(&running.progress).seconds.clone();
            return Ok((held(&running.record).clone(), seconds));
        }
        let record = self.files.read(id);
        let record = record.map_err(|error| {
            Error::new(
                ErrorKind::Storage,
                format!("the results of benchmark {id} cannot be read: {error}"),
                "measure again",
            )
        })?;
        Ok((record, Vec::new()))
    }

    /// Runs a benchmark to its end, on its own thread.
    fn run(
        &self,
        id: u64,
        running: &Running,
        plan: &Plan,
        device: &Arc<dyn BlockDevice>,
        guard: &Guard,
    ) {
        let last = Mutex::new(Instant::now());
        let keep = || {
            let mut last = held(&last);
            if last.elapsed() >= WRITE_EVERY {
                // If the write fails here, the end tells it.
                let _ = self.files.write(&held(&running.record));
                *last = Instant::now();
            }
        };
        let (end, reason) = running.work(plan, device, guard, &keep);
        let mut record = held(&running.record).clone();
        record.view.state = end;
        record.view.reason = reason;
        record.view.ended_unix_s = Some(now_unix_s());
        let written = self.files.write(&record);
        let view = record.view;
        self.tell(&view, end.as_str());
        let mut state = self.state();
        let bytes = written.unwrap_or_else(|error| {
            tracing::warn!(benchmark = id, %error, "the results of a benchmark could not be kept");
            state.notices.push(not_kept(id, &error));
            0
        });
        state.kept.insert(id, Kept { view, bytes });
        state.running = None;
        self.make_room(&mut state, MOST_KEPT);
        self.is_over.notify_all();
    }

    /// Removes the oldest benchmarks until at most `most` are left, and their files are within
    /// their bound. The newest one stays.
    fn make_room(&self, state: &mut State, most: usize) {
        let bytes = |state: &State| state.kept.values().map(|kept| kept.bytes).sum::<u64>();
        while state.kept.len() > most || (bytes(state) > MOST_BYTES && state.kept.len() > 1) {
            let Some((id, _)) = state.kept.pop_first() else {
                return;
            };
            if let Err(error) = self.files.remove(id) {
                tracing::warn!(benchmark = id, %error, "an old benchmark could not be removed");
            }
        }
    }

    /// Tells the journal of a benchmark's begin or end.
    fn tell(&self, view: &BenchmarkView, what: &str) {
        let reason = view.reason.as_ref().map(|reason| format!(": {reason}"));
        let text = format!(
            "benchmark {} {what}{} ({}{}, by {})",
            view.id,
            reason.unwrap_or_default(),
            view.about,
            if view.writes { ", writes" } else { "" },
            view.by
        );
        let told = Occurrence::new(Severity::Info, Topic::Unit, view.unit.as_str(), text);
        self.events.tell(told);
    }
}

/// Returns the view of a benchmark under way.
fn view_of(running: &Running) -> BenchmarkView {
    let progress = held(&running.progress).view();
    BenchmarkView {
        progress: Some(progress),
        ..held(&running.record).view.clone()
    }
}

/// Marks a benchmark as interrupted, and returns it with the size of its file.
fn interrupt(files: &Files, id: u64) -> std::io::Result<(BenchmarkView, u64)> {
    let mut record = files.read(id)?;
    record.view.state = BenchmarkState::Interrupted;
    record.view.reason = Some("the daemon ended without an orderly stop".to_owned());
    let bytes = files.write(&record)?;
    Ok((record.view, bytes))
}

fn not_kept(id: u64, error: &std::io::Error) -> String {
    format!(
        "the results of benchmark {id} could not be kept: {error}; make room for the state folder"
    )
}

fn missing(id: u64) -> Error {
    Error::not_found(
        format!("there is no benchmark {id}"),
        "list the benchmarks; the oldest ones are removed by themselves",
    )
}

fn empty_results(subject: &Subject) -> Results {
    let geometry = subject.device.geometry();
    Results {
        format: FORMAT,
        tool: concat!("sandstone ", env!("CARGO_PKG_VERSION")).to_owned(),
        started_unix_s: now_unix_s(),
        machine: this_machine(),
        target: Target {
            name: format!("lu {}, within the daemon", subject.unit),
            len: geometry.len,
            granularity: geometry.granularity,
            physical: geometry.physical,
            thin: geometry.thin,
            volatile_cache: geometry.volatile_cache,
            ..Target::default()
        },
        plan: Vec::new(),
        runs: Vec::new(),
        failed: Vec::new(),
    }
}

/// Returns the seconds since 1970, or 0 if the clock stands before that.
fn now_unix_s() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests;
