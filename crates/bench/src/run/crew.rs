//! Threads of one phase of a run. Each worker has a thread and a lane of its own. The caller's
//! thread collects their seconds.
//!
//! Worker 0 uses the caller's lane, because the device may have sockets that live there. It keeps
//! turning this lane until the last worker is done.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Barrier, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use super::environment::{Environment as _, LaneEnvironment};
use super::worker::{self, Ended, Task};
use crate::measure::window::Window;
use block::{BlockDevice, Lane};

/// Interval at which worker 0 turns its lane for others, and the collector looks at the clock.
const TURN: Duration = Duration::from_millis(10);

/// A worker's second, with the worker's place in the crew.
pub struct Told {
    /// Place of the worker in the crew.
    pub worker: usize,
    /// Second of the worker.
    pub window: Box<Window>,
}

/// Collector: the caller's part while the crew works.
pub trait Collector {
    /// Takes a second of a worker that is over.
    fn window(&mut self, worker: usize, window: &Window);

    /// Notes the passing of time, every few milliseconds. `elapsed` is the time since the crew
    /// began.
    fn tick(&mut self, elapsed: Duration);
}

/// Runs one task for each worker on the device. All tasks begin at the same time.
///
/// # Errors
/// A lane cannot be made, or the system refuses to wait.
///
/// # Panics
/// A worker panics; the panic continues once the others are done.
pub fn work(
    device: &Arc<dyn BlockDevice>,
    lane: &mut Lane,
    tasks: Vec<Task<'_>>,
    collector: &mut dyn Collector,
) -> io::Result<Vec<Ended>> {
    let count = tasks.len();
    let mut lanes = (1..count)
        .map(|_| Lane::standing())
        .collect::<io::Result<Vec<Lane>>>()?;
    let (told, listen) = channel();
    let shared = Shared {
        device,
        start: Barrier::new(count),
        began: OnceLock::new(),
        active: AtomicUsize::new(count),
    };
    thread::scope(|scope| {
        let all_lanes = std::iter::once(lane).chain(lanes.iter_mut());
        let mut spares = Vec::with_capacity(count);
        let mut threads = Vec::with_capacity(count);
        for (worker, (task, lane)) in tasks.into_iter().zip(all_lanes).enumerate() {
            let (spare, take_spare) = channel();
            spares.push(spare);
            let (told, shared) = (told.clone(), &shared);
            threads
                .push(scope.spawn(move || shared.worker(worker, task, lane, &told, &take_spare)));
        }
        drop(told);
        collect(&listen, &spares, collector);
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
            .collect()
    })
}

struct Shared<'a> {
    device: &'a Arc<dyn BlockDevice>,
    start: Barrier,
    began: OnceLock<Instant>,
    /// Number of workers that are not done.
    active: AtomicUsize,
}

impl Shared<'_> {
    fn worker(
        &self,
        worker: usize,
        task: Task<'_>,
        lane: &mut Lane,
        told: &Sender<Told>,
        spares: &Receiver<Box<Window>>,
    ) -> io::Result<Ended> {
        self.start.wait();
        let began = *self.began.get_or_init(Instant::now);
        let mut environment = LaneEnvironment::new(Arc::clone(self.device), lane, began);
        let mut exchange = |window: &mut Box<Window>| {
            let empty = spares.try_recv().unwrap_or_default();
            let window = std::mem::replace(window, empty);
            // The collector listens until every worker is done.
            let _ = told.send(Told { worker, window });
        };
        // A worker that panics is done as well. Its remains are not looked at any more. But worker
        // 0 must neither wait for it nor leave the others without its lane.
        let run = AssertUnwindSafe(|| worker::run(&mut environment, task, &mut exchange));
        let ended = catch_unwind(run);
        self.active.fetch_sub(1, Ordering::AcqRel);
        let mut nothing = Vec::new();
        while worker == 0 && self.active.load(Ordering::Acquire) > 0 {
            let until_ns = environment.now_ns() + TURN.as_nanos() as u64;
            environment.wait(until_ns, &mut nothing)?;
            nothing.clear();
        }
        if matches!(&ended, Ok(Ok(ended)) if ended.abandoned > 0) {
            lane.abandon();
        }
        ended.unwrap_or_else(|panic| resume_unwind(panic))
    }
}

/// Collects seconds until every worker has hung up.
fn collect(listen: &Receiver<Told>, spares: &[Sender<Box<Window>>], collector: &mut dyn Collector) {
    let began = Instant::now();
    loop {
        match listen.recv_timeout(TURN) {
            Ok(Told { worker, window }) => {
                collector.window(worker, &window);
                // A worker that is done needs no more spare windows.
                let _ = spares[worker].send(window);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        collector.tick(began.elapsed());
    }
}
