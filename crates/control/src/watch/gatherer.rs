//! A thread that asks one part of the daemon for facts, again and again, and keeps the last answer.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Shortest pause between two questions.
const PAUSE: Duration = Duration::from_millis(900);
/// Factor between the time of an answer and the pause after it: asking takes at most a fiftieth of
/// a core.
const PAUSE_FACTOR: u32 = 50;
/// Longest pause between two questions.
const LONGEST_PAUSE: Duration = Duration::from_secs(15);
/// Longest wait at the end for an answer that is under way.
const LAST_ANSWER: Duration = Duration::from_secs(5);

/// Thread with its last answer. Dropping it stops the thread, unless that waits for a device.
#[derive(Debug)]
pub(super) struct Gatherer<T> {
    state: Arc<Mutex<State<T>>>,
    stop: Option<Sender<()>>,
    /// Signal that the thread has ended: its other side is gone.
    ended: Receiver<()>,
}

#[derive(Debug)]
struct State<T> {
    last: Arc<T>,
    has_answered: bool,
    /// Time of the question that is under way.
    asked: Option<Instant>,
}

impl<T: Default + Send + Sync + 'static> Gatherer<T> {
    /// Starts to ask.
    ///
    /// # Errors
    /// The system has no thread left.
    pub(super) fn start(
        name: &str,
        mut ask: impl FnMut() -> T + Send + 'static,
    ) -> io::Result<Self> {
        let state = Arc::new(Mutex::new(State {
            last: Arc::default(),
            has_answered: false,
            asked: Some(Instant::now()),
        }));
        let (stop, stopped) = channel::<()>();
        let (living, ended) = channel::<()>();
        let place = Arc::clone(&state);
        let run = move || {
            let _living = living;
            loop {
                let begun = Instant::now();
                lock(&place).asked = Some(begun);
                let answer = Arc::new(ask());
                let took = begun.elapsed();
                let mut state = lock(&place);
                state.last = answer;
                state.has_answered = true;
                state.asked = None;
                drop(state);
                let pause = (took * PAUSE_FACTOR).clamp(PAUSE, LONGEST_PAUSE);
                if let Err(RecvTimeoutError::Disconnected) = stopped.recv_timeout(pause) {
                    return;
                }
            }
        };
        std::thread::Builder::new().name(name.into()).spawn(run)?;
        Ok(Self {
            state,
            stop: Some(stop),
            ended,
        })
    }

    /// Returns the last answer, or the default before the first.
    pub(super) fn last(&self) -> Arc<T> {
        Arc::clone(&lock(&self.state).last)
    }

    /// Reports whether there was an answer.
    pub(super) fn has_answered(&self) -> bool {
        lock(&self.state).has_answered
    }

    /// Returns the time for which the question under way has been waiting.
    pub(super) fn waits_for(&self) -> Duration {
        let asked = lock(&self.state).asked;
        asked.map_or(Duration::ZERO, |asked| asked.elapsed())
    }
}

impl<T> Drop for Gatherer<T> {
    fn drop(&mut self) {
        drop(self.stop.take());
        // A thread that waits for a device is left behind: it holds nothing that the end needs.
        let _ = self.ended.recv_timeout(LAST_ANSWER);
    }
}

fn lock<T>(state: &Mutex<State<T>>) -> MutexGuard<'_, State<T>> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_hangs_keeps_its_last_answer() {
        let (hang, hung) = channel::<()>();
        let mut answers = 0;
        let gatherer = Gatherer::start("test", move || {
            answers += 1;
            if answers == 2 {
                // Nobody sends; the end of the test lets go.
                let _ = hung.recv();
            }
            answers
        })
        .unwrap();
        let until = |is_so: &dyn Fn() -> bool| {
            let begun = Instant::now();
            while !is_so() {
                assert!(begun.elapsed() < Duration::from_secs(60));
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        until(&|| gatherer.has_answered());
        until(&|| gatherer.waits_for() > Duration::from_millis(100));
        assert_eq!(*gatherer.last(), 1);
        drop(hang);
        until(&|| *gatherer.last() >= 2);
    }
}
