//! Layer between the program's events and the lines of the log. It holds back lines that
//! [`Gathering`] counts, and writes the sums.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use super::EACH;
use super::gathering::{Gathering, Sum};
use super::line::Line;

/// Gatherer that writes this process's log.
static LOG: OnceLock<Arc<Gatherer>> = OnceLock::new();

/// Lines that are held back, and the clock that says for how long.
#[derive(Debug)]
struct Gatherer {
    since: Instant,
    /// Function that returns the time since `since`.
    clock: fn(&Instant) -> Duration,
    gathering: Mutex<Gathering>,
    /// Signal that a line began a new group, whose sum will be due.
    begun: Condvar,
}

/// Layer that holds back repeated lines.
#[derive(Debug)]
pub(super) struct GatheringLayer(Arc<Gatherer>);

impl GatheringLayer {
    /// Starts the layer, with a thread that writes sums when they are due.
    pub(super) fn start() -> Self {
        let gatherer = Arc::new(Gatherer {
            since: Instant::now(),
            clock: Instant::elapsed,
            gathering: Mutex::default(),
            begun: Condvar::new(),
        });
        let _ = LOG.set(Arc::clone(&gatherer));
        let writer = Arc::clone(&gatherer);
        let thread = std::thread::Builder::new().name("log".into());
        if let Err(error) = thread.spawn(move || writer.write_sums()) {
            // Without the thread, sums are written only when the daemon ends.
            eprintln!("sandstone: the thread of the log could not be started: {error}");
        }
        Self(gatherer)
    }
}

impl<S: Subscriber> Layer<S> for GatheringLayer {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        event.metadata().target() == EACH || self.0.note(Line::of(event))
    }
}

impl Gatherer {
    fn now(&self) -> Duration {
        (self.clock)(&self.since)
    }

    fn lock(&self) -> MutexGuard<'_, Gathering> {
        self.gathering
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, line: Line) -> bool {
        let mut gathering = self.lock();
        let is_first = gathering.note(self.now(), line);
        if is_first {
            // The sum of this group may be due before those the thread waits for.
            self.begun.notify_all();
        }
        is_first
    }

    /// Sleeps until sums are due, then writes them. Sleeps without a limit while no line is held
    /// back.
    fn write_sums(&self) {
        loop {
            let mut gathering = self.lock();
            gathering = match gathering.due() {
                None => self
                    .begun
                    .wait(gathering)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(due) => {
                    let left = due.saturating_sub(self.now());
                    let waited = self.begun.wait_timeout(gathering, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
            let sums = gathering.sums(self.now());
            drop(gathering);
            sums.iter().for_each(write);
        }
    }
}

/// Writes the sums of all lines held back, when the program ends.
pub fn flush() {
    let Some(log) = LOG.get() else {
        return;
    };
    let sums = log.lock().finish(log.now());
    sums.iter().for_each(write);
}

/// Writes a sum. The level of a tracing event is fixed at compile time, so each level has a call of
/// its own.
fn write(sum: &Sum) {
    let Sum { line, count } = sum;
    let text = &line.text;
    match line.level {
        Level::ERROR => tracing::error!(target: EACH, "{text} ({count})"),
        Level::WARN => tracing::warn!(target: EACH, "{text} ({count})"),
        Level::INFO => tracing::info!(target: EACH, "{text} ({count})"),
        _ => tracing::debug!(target: EACH, "{text} ({count})"),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("whole").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Reproduces a client on a full pool that wrote 101 lines in 0.2 s.
    #[test]
    fn a_client_that_repeats_itself_has_one_line_and_changes_have_one_each() {
        let lines = Lines::default();
        let gatherer = Arc::new(Gatherer {
            since: Instant::now(),
            clock: |_| Duration::ZERO,
            gathering: Mutex::default(),
            begun: Condvar::new(),
        });
        let written = lines.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(move || written.clone())
            .with_ansi(false)
            .without_time()
            .with_target(false)
            .finish()
            .with(GatheringLayer(Arc::clone(&gatherer)));
        tracing::subscriber::with_default(subscriber, || {
            for number in 0..101 {
                let error = format!("no space for 4096 bytes at {number}");
                tracing::warn!(unit = "vm1", %error, "block request failed");
                tracing::info!(peer = %format!("10.0.0.1:{number}"), "logged in");
            }
            tracing::warn!(
                unit = "vm2",
                error = "no space for 4096 bytes at 7",
                "block request failed"
            );
            for _ in 0..2 {
                tracing::info!(target: EACH, "lu vm1 offline");
            }
            let sums = gatherer.lock().finish(Duration::from_secs(3));
            sums.iter().for_each(write);
        });
        let text = String::from_utf8(lines.0.lock().expect("whole").clone()).expect("text");
        let mut told: Vec<&str> = text.lines().map(str::trim).collect();
        told[5..].sort_unstable();
        let expected = [
            r#"WARN block request failed unit="vm1" error=no space for 4096 bytes at 0"#,
            "INFO logged in peer=10.0.0.1:0",
            r#"WARN block request failed unit="vm2" error="no space for 4096 bytes at 7""#,
            "INFO lu vm1 offline",
            "INFO lu vm1 offline",
            "INFO logged in peer=10.0.0.1:100 (100 more in 3 s)",
            r#"WARN block request failed unit="vm1" error=no space for 4096 bytes at 100 (100 more in 3 s)"#,
        ];
        assert_eq!(told, expected);
    }
}
