//! Threads for system calls that block: what no io_uring can do, or all of it where io_uring is
//! forbidden.
//!
//! One small pool serves the whole process. Threads start when there is work and end after a quiet
//! time, so an idle daemon has none.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Most threads at once: enough to keep one disk's queue busy.
const MAX_THREADS: usize = 16;
/// How long a thread without work stays.
const IDLE: Duration = Duration::from_secs(10);

type Job = Box<dyn FnOnce() + Send>;

static POOL: Pool = Pool {
    state: Mutex::new(State {
        jobs: VecDeque::new(),
        threads: 0,
        idle: 0,
    }),
    wake: Condvar::new(),
};

struct Pool {
    state: Mutex<State>,
    wake: Condvar,
}

struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
}

/// Runs `job` on a thread that may block, soon. Jobs must not wait for jobs that were not started.
/// Where the system refuses a thread and none is running, the job runs here.
pub(super) fn run(job: Job) {
    let mut state = lock();
    state.jobs.push_back(job);
    if state.idle >= state.jobs.len() {
        drop(state);
        POOL.wake.notify_one();
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
        state.threads -= 1;
        let orphan = if state.threads == 0 {
            state.jobs.pop_front()
        } else {
            None
        };
        drop(state);
        if let Some(job) = orphan {
            job();
        }
    }
}

/// A thread's life.
fn work() {
    let mut state = lock();
    loop {
        if let Some(job) = state.jobs.pop_front() {
            drop(state);
            // A panic ends the job, not the thread that others wait for.
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
            state = lock();
            continue;
        }
        state.idle += 1;
        let (woken, timeout) = POOL
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
    POOL.state.lock().unwrap_or_else(PoisonError::into_inner)
}
