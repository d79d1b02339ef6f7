//! The watchdog of the service manager (`WatchdogSec=` of systemd). The manager ends and restarts a
//! daemon that falls silent.
//!
//! A daemon that answers the manager from one thread proves nothing about its other threads. So
//! every thread that serves is asked for a turn, and the manager is told that the daemon lives only
//! when all have had one. A thread that rests is woken by the question. Without a watchdog nobody
//! asks, and nothing wakes.

use std::io;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::notify;

/// Number of looks at the answers within the time that the manager allows.
const LOOKS: u32 = 4;

/// Question to a thread. The thread answers by dropping it, which it does when its turn comes.
#[derive(Debug)]
pub struct Turn {
    _unanswered: Arc<()>,
}

/// One question to each thread.
#[derive(Debug, Default)]
pub struct Round(Vec<(String, Weak<()>)>);

impl Round {
    /// Returns the question to the thread of this name.
    pub fn ask(&mut self, thread: impl Into<String>) -> Turn {
        let unanswered = Arc::new(());
        self.0.push((thread.into(), Arc::downgrade(&unanswered)));
        Turn {
            _unanswered: unanswered,
        }
    }

    /// Returns the threads that have not had their turn yet.
    pub fn unanswered(&self) -> Vec<&str> {
        let waits = |answer: &Weak<()>| answer.strong_count() > 0;
        let late = self.0.iter().filter(|(_, answer)| waits(answer));
        late.map(|(thread, _)| thread.as_str()).collect()
    }
}

/// Tells the service manager that the daemon lives, each time that every thread has had a turn.
/// `ask` puts the questions to the threads. This goes on to the end of the process. Without a
/// watchdog of the manager, nothing is done.
///
/// # Errors
/// The system has no thread left.
pub fn feed(ask: impl Fn(&mut Round) + Send + 'static) -> io::Result<()> {
    let Some(limit) = limit(
        std::env::var("WATCHDOG_USEC").ok().as_deref(),
        std::env::var("WATCHDOG_PID").ok().as_deref(),
    ) else {
        return Ok(());
    };
    let thread = std::thread::Builder::new().name("watchdog".into());
    thread.spawn(move || {
        let mut watch = Watch::begin(limit, ask);
        loop {
            std::thread::sleep(limit / LOOKS);
            if watch.look(Instant::now()) {
                notify::alive();
            }
        }
    })?;
    Ok(())
}

/// Returns the time that the service manager allows between two signs of life of this process, as
/// its environment gives it.
fn limit(micros: Option<&str>, pid: Option<&str>) -> Option<Duration> {
    let is_for_us = pid.is_none_or(|pid| pid == std::process::id().to_string());
    let micros: u64 = micros.filter(|_| is_for_us)?.parse().ok()?;
    (micros > 0).then(|| Duration::from_micros(micros))
}

/// Round under way, and the way to begin the next.
struct Watch<A> {
    ask: A,
    limit: Duration,
    round: Round,
    begun: Instant,
}

impl<A: Fn(&mut Round)> Watch<A> {
    fn begin(limit: Duration, ask: A) -> Self {
        let mut watch = Self {
            ask,
            limit,
            round: Round::default(),
            begun: Instant::now(),
        };
        (watch.ask)(&mut watch.round);
        watch
    }

    /// Reports whether every thread has had its turn, and begins the next round if so. Threads that
    /// are late are asked nothing more: what hangs must not gather questions.
    fn look(&mut self, now: Instant) -> bool {
        let late = self.round.unanswered();
        if late.is_empty() {
            self.round = Round::default();
            self.begun = now;
            (self.ask)(&mut self.round);
            return true;
        }
        tracing::warn!(
            threads = late.join(", "),
            seconds = now.saturating_duration_since(self.begun).as_secs_f32(),
            allowed_s = self.limit.as_secs_f32(),
            "threads of the daemon had no turn: the service manager restarts the daemon if that goes on"
        );
        false
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn the_manager_is_told_only_when_all_threads_had_their_turn() {
        let inboxes = RefCell::new(Vec::new());
        let ask = |round: &mut Round| {
            inboxes.borrow_mut().push(round.ask("loop0"));
            inboxes.borrow_mut().push(round.ask("loop1"));
        };
        let now = Instant::now();
        let mut watch = Watch::begin(Duration::from_secs(4), ask);
        assert_eq!(watch.round.unanswered(), ["loop0", "loop1"]);
        assert!(!watch.look(now));
        drop(inboxes.borrow_mut().remove(0));
        assert!(!watch.look(now), "one of two is not all");
        assert_eq!(watch.round.unanswered(), ["loop1"]);
        assert_eq!(inboxes.borrow().len(), 1, "a late thread is asked once");
        inboxes.borrow_mut().clear();
        assert!(watch.look(now));
        assert_eq!(inboxes.borrow().len(), 2, "the next round has begun");
        assert!(!watch.look(now), "an earlier answer counts once");
    }

    #[test]
    fn a_thread_that_has_ended_is_not_waited_for() {
        let (inbox, thread) = std::sync::mpsc::channel();
        let mut round = Round::default();
        inbox.send(round.ask("loop0")).expect("it receives");
        drop(thread);
        drop(inbox.send(round.ask("loop0")));
        assert!(round.unanswered().is_empty());
    }

    #[test]
    fn the_limit_is_that_of_this_process() {
        let pid = std::process::id().to_string();
        let two = Some(Duration::from_secs(2));
        assert_eq!(limit(Some("2000000"), None), two);
        assert_eq!(limit(Some("2000000"), Some(&pid)), two);
        assert_eq!(limit(Some("2000000"), Some("1")), None);
        for none in [None, Some("0"), Some(""), Some("soon")] {
            assert_eq!(limit(none, None), None);
        }
    }
}
