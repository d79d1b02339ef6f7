//! The daemon's events on their way to stderr. What reads them may be slow or stopped (a terminal on hold, a
//! full pipe), and an event loop that waited for it would serve nobody. So a thread of its own writes, and
//! what it cannot keep up with is counted and left out.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use tracing_subscriber::fmt::MakeWriter;

/// Most events that wait to be written.
const CAPACITY: usize = 4096;
/// How long the end of the process waits for its last events to be written.
const LAST_EVENTS: Duration = Duration::from_secs(1);

enum Message {
    Event(Vec<u8>),
    /// Answered once everything before has been written.
    Flush(SyncSender<()>),
}

/// Takes events and never blocks.
#[derive(Clone, Debug)]
pub(super) struct EventLog {
    sender: SyncSender<Message>,
    /// Events left out since the last that was written.
    lost: Arc<AtomicU64>,
}

/// Waits a moment for the last events when it is dropped.
#[derive(Debug)]
#[must_use]
pub(super) struct LastEvents(EventLog);

impl EventLog {
    /// A log whose thread writes to `output`.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub(super) fn start(output: impl Write + Send + 'static) -> io::Result<(Self, LastEvents)> {
        let (sender, receiver) = sync_channel(CAPACITY);
        let lost = Arc::new(AtomicU64::new(0));
        let log = Self {
            sender,
            lost: lost.clone(),
        };
        let builder = std::thread::Builder::new().name("events".into());
        builder.spawn(move || write_events(output, &receiver, &lost))?;
        Ok((log.clone(), LastEvents(log)))
    }
}

/// Where nobody takes an event, nobody can be told of it either.
fn write_events(mut output: impl Write, events: &Receiver<Message>, lost: &AtomicU64) {
    while let Ok(message) = events.recv() {
        match message {
            Message::Event(line) => {
                let _ = output.write_all(&line);
                let lost = lost.swap(0, Ordering::Relaxed);
                if lost > 0 {
                    let _ = writeln!(output, "{lost} events were left out: they were not read");
                }
            }
            Message::Flush(done) => {
                let _ = output.flush();
                // Whoever asked may have stopped waiting.
                let _ = done.try_send(());
            }
        }
    }
}

impl Write for EventLog {
    /// One event; the subscriber writes each in one piece.
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        if self
            .sender
            .try_send(Message::Event(event.to_vec()))
            .is_err()
        {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for EventLog {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

impl Drop for LastEvents {
    fn drop(&mut self) {
        let give_up = Instant::now() + LAST_EVENTS;
        let (sender, done) = sync_channel(1);
        let mut flush = Message::Flush(sender);
        while let Err(TrySendError::Full(again)) = self.0.sender.try_send(flush) {
            if Instant::now() > give_up {
                return;
            }
            flush = again;
            std::thread::sleep(Duration::from_millis(1));
        }
        // In vain where nobody reads.
        let _ = done.recv_timeout(give_up.saturating_duration_since(Instant::now()));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Condvar, Mutex};

    use super::*;

    /// Takes nothing until it is opened.
    #[derive(Clone, Default)]
    struct Shut(Arc<Gate>);

    #[derive(Default)]
    struct Gate {
        /// Whether it is open, and what it took.
        state: Mutex<(bool, Vec<u8>)>,
        opened: Condvar,
    }

    impl Write for Shut {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let state = self.0.state.lock().unwrap();
            let mut state = self.0.opened.wait_while(state, |state| !state.0).unwrap();
            state.1.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn nobody_waits_and_what_was_left_out_is_told() {
        const EVENTS: usize = 3 * CAPACITY;
        let output = Shut::default();
        let (mut log, last) = EventLog::start(output.clone()).unwrap();
        for number in 0..EVENTS {
            log.write_all(format!("event {number}\n").as_bytes())
                .unwrap();
        }
        output.0.state.lock().unwrap().0 = true;
        output.0.opened.notify_all();
        drop(last);
        let written = String::from_utf8(output.0.state.lock().unwrap().1.clone()).unwrap();
        let mut lines = written.lines();
        assert_eq!(lines.next(), Some("event 0"));
        let told = lines.next().and_then(|line| line.split(' ').next());
        let left_out: usize = told.unwrap().parse().unwrap();
        let number = |line: &str| {
            line.strip_prefix("event ")
                .unwrap()
                .parse::<usize>()
                .unwrap()
        };
        let rest: Vec<_> = lines.map(number).collect();
        assert_eq!(1 + rest.len() + left_out, EVENTS);
        assert!(rest.is_sorted_by(|one, next| one < next), "{rest:?}");
    }

    #[test]
    fn an_output_that_takes_nothing_does_not_keep_the_process() {
        let (mut log, last) = EventLog::start(Shut::default()).unwrap();
        log.write_all(b"event\n").unwrap();
        let before = Instant::now();
        drop(last);
        assert!(before.elapsed() < 5 * LAST_EVENTS);
    }
}
