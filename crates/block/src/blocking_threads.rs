//! Threads for system calls that block: what no io_uring can do, or all of it where io_uring is
//! forbidden.
//!
//! One set of threads serves the whole process. They start when there is work and end after a quiet
//! time, so an idle daemon has none. A device has a [`Share`] of them: where one hangs (a file on a
//! network that is gone), its jobs wait for each other, and those of other devices go on.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Most threads at once: several devices may hang before others wait for them.
const MAX_THREADS: usize = 64;
/// Most of them for one device: enough to keep its queue busy.
const MAX_OF_A_DEVICE: usize = 8;
/// How long a thread without work stays.
const IDLE: Duration = Duration::from_secs(10);

type Job = Box<dyn FnOnce() + Send>;

static THREADS: Threads = Threads {
    state: Mutex::new(State {
        jobs: VecDeque::new(),
        threads: 0,
        idle: 0,
    }),
    wake: Condvar::new(),
};

struct Threads {
    state: Mutex<State>,
    wake: Condvar,
}

struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
}

/// One device's share of the threads.
#[derive(Default)]
pub(super) struct Share(Arc<Mutex<Jobs>>);

/// The jobs of one device.
#[derive(Default)]
struct Jobs {
    /// Given to the threads and not done.
    begun: usize,
    /// In the order in which they came.
    waiting: VecDeque<Job>,
}

impl Share {
    /// [`run`], once fewer than [`MAX_OF_A_DEVICE`] jobs of this device are under way.
    pub(super) fn run(&self, job: Job) {
        let mut jobs = lock_jobs(&self.0);
        if jobs.begun == MAX_OF_A_DEVICE {
            jobs.waiting.push_back(job);
            return;
        }
        jobs.begun += 1;
        drop(jobs);
        begin(Arc::clone(&self.0), job);
    }
}

/// Runs a job of a device, then has the next one of it wait behind those of others.
fn begin(jobs: Arc<Mutex<Jobs>>, job: Job) {
    run(Box::new(move || {
        // A panic ends the job; the device's others still have their turn.
        let _ = catch_unwind(AssertUnwindSafe(job));
        let mut of_device = lock_jobs(&jobs);
        let Some(next) = of_device.waiting.pop_front() else {
            of_device.begun -= 1;
            return;
        };
        drop(of_device);
        begin(jobs, next);
    }));
}

fn lock_jobs(jobs: &Mutex<Jobs>) -> MutexGuard<'_, Jobs> {
    // No job runs under the lock, so a panic cannot leave it half changed.
    jobs.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `job` on a thread that may block, soon. Jobs must not wait for jobs that were not started.
/// Where the system refuses a thread and none is running, the job runs here.
pub(super) fn run(job: Job) {
    let mut state = lock();
    state.jobs.push_back(job);
    if state.idle >= state.jobs.len() {
        drop(state);
        THREADS.wake.notify_one();
        return;
    }
    if state.threads == MAX_THREADS {
        return;
    }
    state.threads += 1;
    drop(state);
    let spawned = std::thread::Builder::new().name("block".into()).spawn(work);
    if spawned.is_err() {
        let mut state = lock();
        if state.threads == 1 {
            // Nobody else is there to do it: neither this job nor what comes of it.
            while let Some(job) = state.jobs.pop_front() {
                drop(state);
                let _ = catch_unwind(AssertUnwindSafe(job));
                state = lock();
            }
        }
        state.threads -= 1;
    }
}

/// A thread's life.
fn work() {
    let mut state = lock();
    loop {
        if let Some(job) = state.jobs.pop_front() {
            drop(state);
            // A panic ends the job, not the thread that others wait for.
            let _ = catch_unwind(AssertUnwindSafe(job));
            state = lock();
            continue;
        }
        state.idle += 1;
        let (woken, timeout) = THREADS
            .wake
            .wait_timeout(state, IDLE)
            .unwrap_or_else(PoisonError::into_inner);
        state = woken;
        state.idle -= 1;
        if timeout.timed_out() && state.jobs.is_empty() {
            state.threads -= 1;
            return;
        }
    }
}

fn lock() -> MutexGuard<'static, State> {
    // No job runs under the lock, so a panic cannot leave it half changed.
    THREADS.state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    /// Twice as many jobs of a device hang as there are threads: those of another one end.
    #[test]
    fn a_device_that_hangs_leaves_threads_for_the_others() {
        let (hung, healthy) = (Share::default(), Share::default());
        let gate = Arc::new((Mutex::new(false), Condvar::new()));
        let (ended, ends) = channel();
        for number in 0..2 * MAX_THREADS {
            let (gate, ended) = (Arc::clone(&gate), ended.clone());
            hung.run(Box::new(move || {
                let is_open = gate.0.lock().expect("whole");
                drop(gate.1.wait_while(is_open, |is_open| !*is_open));
                ended.send(number).expect("somebody waits");
            }));
        }
        let (done, answer) = channel();
        for number in 0..100 {
            let done = done.clone();
            healthy.run(Box::new(move || {
                done.send(number).expect("somebody waits");
            }));
        }
        let patience = Duration::from_secs(30);
        let mut answered: Vec<usize> = (0..100)
            .map(|_| answer.recv_timeout(patience).expect("they do not wait"))
            .collect();
        answered.sort_unstable();
        assert_eq!(answered, (0..100).collect::<Vec<_>>());
        assert!(ends.try_recv().is_err(), "the others still hang");
        *gate.0.lock().expect("whole") = true;
        gate.1.notify_all();
        let mut ended: Vec<usize> = (0..2 * MAX_THREADS)
            .map(|_| ends.recv_timeout(patience).expect("each has its turn"))
            .collect();
        ended.sort_unstable();
        assert_eq!(ended, (0..2 * MAX_THREADS).collect::<Vec<_>>());
    }

    #[test]
    fn a_job_that_panics_leaves_its_place_to_the_next() {
        let share = Share::default();
        let (done, answer) = channel();
        for number in 0..4 * MAX_OF_A_DEVICE {
            let done = done.clone();
            share.run(Box::new(move || {
                assert!(number % 2 == 1, "this job panics for the test");
                done.send(()).expect("somebody waits");
            }));
        }
        for _ in 0..2 * MAX_OF_A_DEVICE {
            let answered = answer.recv_timeout(Duration::from_secs(30));
            answered.expect("each has its turn");
        }
    }
}
