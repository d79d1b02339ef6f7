//! Benchmarks of memory, from their start to their end and beyond.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use block::memory::MemoryDevice;

/// Returns the keeper of a state folder whose only unit is in memory.
fn benchmarks(folder: &Path) -> Benchmarks {
    let device = MemoryDevice::new(16 << 20, 512, 1 << 20).expect("memory");
    let device: Arc<dyn BlockDevice> = Arc::new(device);
    let open = move |name: &str| (name == "db").then(|| Arc::clone(&device));
    Benchmarks::open(folder, Teller::default(), open)
}

fn order(time_ms: u64) -> StartBenchmark {
    StartBenchmark {
        unit: "db".to_owned(),
        block: Some(4096),
        time_ms: Some(time_ms),
        ramp_up_ms: Some(0),
        rounds: Some(2),
        ..StartBenchmark::default()
    }
}

fn start_guarded(of: &Benchmarks, order: StartBenchmark, guard: Guard) -> Result<u64, Error> {
    let plan = Plan::of(&order).expect("an order");
    let subject = Subject {
        unit: "db".to_owned(),
        naa: "6e1".to_owned(),
        device: of.device("db").expect("it is served"),
    };
    of.start(order, plan, subject, "ann", guard)
}

fn start(of: &Benchmarks, order: StartBenchmark) -> Result<u64, Error> {
    start_guarded(of, order, Box::new(|| None))
}

/// Waits for the end of the benchmark under way.
fn wait(of: &Benchmarks) {
    let mut state = of.keeper.state();
    while state.running.is_some() {
        let waited = of
            .keeper
            .is_over
            .wait_timeout(state, Duration::from_secs(60));
        let (next, timeout) = waited.expect("whole");
        assert!(!timeout.timed_out(), "the benchmark does not end");
        state = next;
    }
}

#[test]
fn a_benchmark_runs_to_its_end_and_outlives_the_daemon() {
    let folder = tempfile::tempdir().expect("a folder");
    let of = benchmarks(folder.path());
    assert!(of.list().is_empty());
    let id = start(&of, order(100)).expect("it starts");
    let view = of.view(id).expect("it is listed");
    assert_eq!(
        (view.id, view.unit.as_str(), view.by.as_str()),
        (1, "db", "ann")
    );
    wait(&of);
    let detail = of.show(id).expect("it is kept");
    let view = &detail.benchmark;
    assert_eq!(
        (view.state, view.runs, view.of_runs),
        (BenchmarkState::Finished, 2, 2)
    );
    assert!(view.ended_unix_s.is_some() && view.progress.is_none());
    let [row] = &detail.rows[..] else {
        panic!("{:?}", detail.rows)
    };
    assert!(
        row.iops > 0.0 && row.p99_ms.is_some() && row.errors == 0,
        "{row:?}"
    );
    let most = view.most.as_ref().expect("the fastest row");
    assert_eq!((row.rounds, most.name()), (2, row.name()));
    let results = detail.results.as_ref().expect("results");
    assert!(results.runs.iter().all(|run| run.measurement.cpu.is_none()));
    drop(of);
    let of = benchmarks(folder.path());
    let kept = of.show(id).expect("it is still there");
    assert_eq!((kept.results, kept.rows), (detail.results, detail.rows));
    assert_eq!(kept.benchmark.state, BenchmarkState::Finished);
    assert_eq!(start(&of, order(100)).expect("it starts"), 2);
    wait(&of);
    let ids: Vec<u64> = of.list().iter().map(|view| view.id).collect();
    assert_eq!(ids, [2, 1]);
    let compared = of.compare(1, 2).expect("both are there");
    assert_eq!((compared.a.id, compared.b.id), (1, 2));
    assert!(
        compared.rows.iter().any(|row| row.figure == "iops"),
        "{compared:?}"
    );
    of.remove(1).expect("removed");
    assert_eq!(of.show(1).expect_err("gone").kind, ErrorKind::NotFound);
    assert_eq!(benchmarks(folder.path()).list().len(), 1);
}

#[test]
fn one_runs_at_a_time_until_it_is_stopped() {
    let folder = tempfile::tempdir().expect("a folder");
    let of = benchmarks(folder.path());
    let id = start(&of, order(600_000)).expect("it starts");
    let busy = start(&of, order(100)).expect_err("one runs");
    assert_eq!(busy.kind, ErrorKind::InUse);
    assert!(busy.message.contains("benchmark 1 runs on lu db"), "{busy}");
    assert_eq!(of.remove(id).expect_err("it runs").kind, ErrorKind::InUse);
    let progress = loop {
        let view = of.view(id).expect("it runs");
        match view.progress.expect("progress") {
            // The thread has not come to its first measurement.
            progress if progress.run == 0 => thread::yield_now(),
            progress => break progress,
        }
    };
    assert!(progress.left_s > 600, "{progress:?}");
    of.stop(id, "bob").expect("it runs");
    wait(&of);
    let view = of.view(id).expect("it is kept");
    assert_eq!(view.state, BenchmarkState::Stopped);
    assert_eq!(view.reason.as_deref(), Some("stopped by bob"));
    assert_eq!(view.runs, 1, "the figures until then are kept");
    assert_eq!(
        of.stop(id, "bob").expect_err("it is over").kind,
        ErrorKind::Refused
    );
    assert_eq!(
        of.stop(9, "bob").expect_err("none").kind,
        ErrorKind::NotFound
    );
    start(&of, order(100)).expect("the next one may run");
    wait(&of);
}

#[test]
fn a_benchmark_ends_when_its_guard_says_why() {
    let folder = tempfile::tempdir().expect("a folder");
    let of = benchmarks(folder.path());
    let is_due = Arc::new(AtomicBool::new(false));
    let looked = Arc::clone(&is_due);
    let guard = move || {
        looked
            .load(Ordering::SeqCst)
            .then(|| "a host has logged in".to_owned())
    };
    let id = start_guarded(&of, order(600_000), Box::new(guard)).expect("it starts");
    is_due.store(true, Ordering::SeqCst);
    wait(&of);
    let view = of.view(id).expect("it is kept");
    let told = (view.state, view.reason.as_deref());
    assert_eq!(
        told,
        (BenchmarkState::Stopped, Some("a host has logged in"))
    );
}

#[test]
fn a_benchmark_ends_with_the_daemon_and_none_starts_after_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let of = benchmarks(folder.path());
    let id = start(&of, order(600_000)).expect("it starts");
    of.end();
    let view = benchmarks(folder.path()).view(id).expect("it is kept");
    assert_eq!(view.state, BenchmarkState::Interrupted);
    assert_eq!(view.reason.as_deref(), Some("the daemon ended"));
    let late = start(&of, order(100)).expect_err("the daemon ends");
    assert_eq!(late.kind, ErrorKind::Unavailable);
}

#[test]
fn one_that_a_kill_cut_off_is_marked_as_interrupted() {
    let folder = tempfile::tempdir().expect("a folder");
    let of = benchmarks(folder.path());
    let id = start(&of, order(600_000)).expect("it starts");
    // The file is that of a benchmark under way.
    let after = benchmarks(folder.path());
    let view = after.view(id).expect("it is kept");
    assert_eq!(view.state, BenchmarkState::Interrupted);
    assert!(after.require_idle().is_ok());
    of.end();
}

#[test]
fn the_oldest_ones_make_room() {
    let folder = tempfile::tempdir().expect("a folder");
    let of = benchmarks(folder.path());
    let mut state = of.keeper.state();
    for id in 1..=MOST_KEPT as u64 {
        let view = BenchmarkView {
            id,
            state: BenchmarkState::Finished,
            ..BenchmarkView::default()
        };
        state.kept.insert(id, Kept { view, bytes: 1 });
        state.last = id;
    }
    drop(state);
    let id = start(&of, order(100)).expect("it starts");
    wait(&of);
    let ids: Vec<u64> = of.list().iter().map(|view| view.id).collect();
    assert_eq!((ids.len(), ids[0], ids[MOST_KEPT - 1]), (MOST_KEPT, id, 2));
}

#[test]
fn a_sweep_has_its_table() {
    let folder = tempfile::tempdir().expect("a folder");
    let of = benchmarks(folder.path());
    let order = StartBenchmark {
        block: None,
        sweep: Some(super::super::SweepOrder {
            blocks: vec![4096, 65_536],
            outstanding: vec![1, 4],
        }),
        ..order(100)
    };
    let id = start(&of, order).expect("it starts");
    wait(&of);
    let detail = of.show(id).expect("it is kept");
    let sweep = detail.sweep.expect("a table");
    assert_eq!(
        (sweep.blocks, sweep.outstanding.len()),
        (vec!["4K".to_owned(), "64K".to_owned()], 2)
    );
    assert!(sweep.cells.iter().flatten().all(Option::is_some));
    assert!(
        sweep.best.iter().all(Option::is_some) && sweep.words.len() >= 4,
        "{:?}",
        sweep.words
    );
    assert_eq!(detail.benchmark.runs, 8);
}
