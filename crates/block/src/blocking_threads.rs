//! Threads for blocking system calls: those that io_uring lacks, or all of them if io_uring is
//! forbidden.
//!
//! One set of threads serves the whole process. They start when there is work and end after a quiet
//! time, so an idle daemon has none. Each device has a [`Share`] of them. If one device hangs (a
//! file on a network that is gone), its jobs wait for each other, and the jobs of other devices go
//! on.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::clock;

/// Most threads at once: several devices may hang before others wait for them.
const MAX_THREADS: usize = 64;
/// Most threads for one device: enough to keep its queue busy.
const MAX_OF_A_DEVICE: usize = 8;
/// Time that a thread without work stays.
const IDLE: Duration = Duration::from_secs(10);

type Job = Box<dyn FnOnce() + Send>;

static THREADS: Threads = Threads {
    state: Mutex::new(ThreadsState {
        jobs: VecDeque::new(),
        threads: 0,
        idle: 0,
    }),
    wake: Condvar::new(),
};

struct Threads {
    state: Mutex<ThreadsState>,
    wake: Condvar,
}

struct ThreadsState {
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
    /// Number of jobs given to the threads and not done.
    begun: usize,
    /// Waiting jobs, in the order of arrival.
    waiting: VecDeque<Job>,
}

impl Share {
    /// Calls [`run`], once fewer than [`MAX_OF_A_DEVICE`] jobs of this device are under way.
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

/// Runs a job of a device. Then queues the device's next job behind the jobs of other devices.
fn begin(jobs: Arc<Mutex<Jobs>>, job: Job) {
    run(Box::new(move || {
        // A panic ends the job; other jobs of the device still get their turn.
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

/// Runs `job` soon, on a thread that may block. Jobs must not wait for jobs that were not started.
/// If the system refuses a thread and none is running, the job runs here.
pub(super) fn run(job: Job) {
    if clock::is_simulated() {
        // In a simulation nothing happens beside its thread.
        let _ = catch_unwind(AssertUnwindSafe(job));
        return;
    }
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
            // No other thread can run the job, nor the jobs that follow from it.
            while let Some(job) = state.jobs.pop_front() {
                drop(state);
                let _ = catch_unwind(AssertUnwindSafe(job));
                state = lock();
            }
        }
        state.threads -= 1;
    }
}

/// Runs jobs until the thread ends.
fn work() {
    let mut state = lock();
    loop {
        if let Some(job) = state.jobs.pop_front() {
            drop(state);
            // A panic ends the job, not the thread, which others need.
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

fn lock() -> MutexGuard<'static, ThreadsState> {
    // No job runs under the lock, so a panic cannot leave it half changed.
    THREADS.state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    /// Checks that a hanging device leaves threads for others. Twice as many jobs of one device
    /// hang as there are threads, and jobs of another device end.
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
