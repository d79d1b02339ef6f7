//! The alerts of a running daemon: the watch and the book, joined to their file and to the journal.

use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::book::{Book, News, Notice};
use crate::changes::Changes;
use crate::facts::Facts;
use crate::journal::now_ms;
use crate::keeper::{Keeper, Kept};
use crate::watch::{Moment, Watch};
use crate::ways::Ways;
use model::alert::AlertView;
use model::event::{Occurrence, Severity, Teller, Topic};
use model::{Error, ErrorKind};

/// Longest wait for the disk of the state folder when somebody acknowledges an alert.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time after which known paths are saved, if nothing else was to be saved, in milliseconds.
const PATHS_MS: u64 = 600_000;

/// Alerts of a daemon.
#[derive(Debug)]
pub struct Alerts {
    state: Mutex<State>,
    keeper: Keeper,
    ways: Ways,
    events: Teller,
    since: Instant,
}

#[derive(Debug)]
struct State {
    watch: Watch,
    book: Book,
    changes: Changes,
    /// Number of changes of the book that were saved, and the time of the last save.
    saved: u64,
    saved_run_ms: u64,
}

impl Alerts {
    /// Takes over the alerts that an earlier run left in the state folder.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn start(folder: &Path, events: Teller) -> io::Result<Self> {
        let (keeper, Kept { book, paths }) = Keeper::start(folder)?;
        let since = Instant::now();
        let state = State {
            watch: Watch::restored(paths),
            book: Book::restored(book, moment(since)),
            changes: Changes::default(),
            saved: 0,
            saved_run_ms: 0,
        };
        Ok(Self {
            state: Mutex::new(state),
            keeper,
            ways: Ways::start(folder, events.clone())?,
            events,
            since,
        })
    }

    /// Judges the facts of this moment. It never waits for a disk.
    pub fn judge(&self, facts: &Facts) {
        self.judge_at(facts, moment(self.since));
    }

    /// Judges facts of a given moment.
    fn judge_at(&self, facts: &Facts, now: Moment) {
        let mut state = self.lock();
        let State {
            watch,
            book,
            changes,
            ..
        } = &mut *state;
        let changed = changes.since(facts);
        let news = book.take(watch.findings(facts, now), now);
        changed.into_iter().for_each(|told| self.events.tell(told));
        for notice in news {
            self.tell(&notice);
            self.ways.post(notice);
        }
        self.ways.note_judgement();
        let age_ms = now.run_ms.saturating_sub(state.saved_run_ms);
        let is_due = age_ms >= PATHS_MS && !state.watch.known_paths().is_empty();
        if state.book.changes() != state.saved || is_due {
            self.save(&mut state, now);
        }
    }

    /// Returns the open alerts, the gravest first.
    pub fn open(&self) -> Vec<AlertView> {
        self.lock().book.open()
    }

    /// Returns the alerts that ended, the latest first.
    pub fn ended(&self) -> Vec<AlertView> {
        self.lock().book.ended()
    }

    /// Notes who knows of an alert.
    ///
    /// # Errors
    /// No alert of this number is open, or the state folder cannot be written.
    pub fn acknowledge(&self, number: u64, by: &str) -> Result<AlertView, Error> {
        let now = moment(self.since);
        let change = |book: &mut Book| book.acknowledge(number, by, now);
        self.change(number, now, change, &format!("{by} knows of"))
    }

    /// Takes back that somebody knows of an alert: it is told each day again.
    ///
    /// # Errors
    /// No alert of this number is open, or the state folder cannot be written.
    pub fn unacknowledge(&self, number: u64, by: &str) -> Result<AlertView, Error> {
        let change = |book: &mut Book| book.unacknowledge(number);
        let words = format!("{by} took back the acknowledgement of");
        self.change(number, moment(self.since), change, &words)
    }

    /// Changes an open alert, tells it as an event, and waits until the change is stored.
    fn change(
        &self,
        number: u64,
        now: Moment,
        change: impl FnOnce(&mut Book) -> Option<AlertView>,
        words: &str,
    ) -> Result<AlertView, Error> {
        let mut state = self.lock();
        let Some(alert) = change(&mut state.book) else {
            return Err(Error::not_found(
                format!("no alert {number} is open"),
                "sandstone alert list shows the open alerts",
            ));
        };
        let order = self.save(&mut state, now);
        drop(state);
        let text = format!(
            "{words} alert {number}, {} of {}",
            alert.condition, alert.object
        );
        let told = Occurrence::new(Severity::Info, Topic::Alert, &alert.object, text);
        self.events.tell(told);
        self.keeper.wait(order, PATIENCE).map_err(|trouble| {
            Error::new(
                ErrorKind::Storage,
                format!("what was said about alert {number} could not be stored: {trouble}"),
                "make the state folder writable",
            )
            .not_changed("the change is in force until the daemon ends")
        })?;
        Ok(alert)
    }

    /// Returns the ways out.
    pub fn ways(&self) -> &Ways {
        &self.ways
    }

    /// Returns the reason why alerts cannot be saved, if they cannot.
    pub fn trouble(&self) -> Option<String> {
        self.keeper.trouble()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn save(&self, state: &mut State, now: Moment) -> u64 {
        state.saved = state.book.changes();
        state.saved_run_ms = now.run_ms;
        self.keeper.save(Kept {
            book: state.book.kept(),
            paths: state.watch.known_paths().clone(),
        })
    }

    /// Tells news of an alert as an event.
    fn tell(&self, notice: &Notice) {
        let alert = &notice.alert;
        let (severity, words) = match notice.news {
            News::Opened => (alert.severity, "opened"),
            News::StillOpen => (alert.severity, "is still open"),
            News::Ended => (Severity::Info, "ended"),
            News::Test => return,
        };
        let text = format!(
            "alert {} {words}: {}: {}",
            alert.number, alert.condition, alert.text
        );
        let told = Occurrence::new(severity, Topic::Alert, &alert.object, text);
        self.events.tell(match notice.news {
            News::Ended => told,
            _ => told.next(&alert.next),
        });
    }
}

/// Returns the present moment of a run that began at `since`.
fn moment(since: Instant) -> Moment {
    Moment {
        wall_ms: now_ms(),
        run_ms: u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX),
    }
}
