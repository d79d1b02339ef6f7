//! The journal: events of the whole daemon, numbered, kept over restarts, and bounded.
//!
//! A report takes a lock for a moment and never waits for a disk. A thread writes the events to the
//! state folder. If the folder cannot be written, the events stay in memory until it can.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use model::event::{Event, EventPage, Occurrence, Severity, Teller, Topic};
use shown::is_obeyed;

mod bursts;
mod files;
mod refusals;

use bursts::Bursts;
use files::{Files, Found};
use refusals::Refusals;
pub use refusals::{RefusedLogins, WINDOW_MS};

/// Most events in memory.
const KEPT: usize = 8192;
/// Most events of one page.
pub const MAX_PAGE: usize = 1000;
/// Most requests that wait for new events at once. Others are answered at once.
const MAX_WAITING: usize = 64;
/// Most bytes of the texts of an event: others chose parts of them.
const MAX_TEXT: usize = 2048;
/// Time for which events are gathered before they are written.
const GATHER: Duration = Duration::from_millis(50);
/// Longest time from one look at the events that wait to be written to the next.
const UPKEEP: Duration = Duration::from_secs(1);

/// Events that a reader asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventFilter {
    /// Number behind which events are wanted. `None` asks for the newest page.
    pub after: Option<u64>,
    /// Least severity.
    pub severity: Severity,
    /// Earliest time, in milliseconds since 1970.
    pub since_ms: u64,
    /// Most events.
    pub limit: usize,
}

/// The journal. Dropping it writes what waits, and stops the thread.
#[derive(Debug)]
pub struct Journal {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    book: Mutex<Book>,
    /// Signal that an event came, or that the journal ends.
    news: Condvar,
}

#[derive(Debug, Default)]
struct Book {
    events: VecDeque<Event>,
    /// Number of the last event; 0 before the first.
    last: u64,
    /// Number of the last event that is on the disk.
    stored: u64,
    bursts: Bursts,
    refusals: Refusals,
    waiting: usize,
    is_ending: bool,
    /// Reason why events cannot be written, as a clause.
    trouble: Option<String>,
}

impl Journal {
    /// Opens the journal of a state folder. Damage is an event, and stops nothing.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn start(folder: &Path) -> io::Result<Self> {
        let files = Files::in_folder(folder);
        let found = files.read();
        let shared = Arc::new(Shared::default());
        shared.lock().begin(found);
        let writer = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("journal".into())
            .spawn(move || writer.write_until_end(files))?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Returns a way to report events.
    pub fn teller(&self) -> Teller {
        let shared = Arc::clone(&self.shared);
        Teller::new(move |occurrence| shared.tell(occurrence))
    }

    /// Returns events.
    pub fn page(&self, filter: &EventFilter) -> EventPage {
        self.shared.lock().page(filter)
    }

    /// Returns events, and waits for the first of them if there is none yet. The wait ends early if
    /// the journal ends or too many others wait.
    pub fn page_within(&self, filter: &EventFilter, patience: Duration) -> EventPage {
        let until = Instant::now() + patience;
        let mut book = self.shared.lock();
        book.waiting += 1;
        let is_patient = book.waiting <= MAX_WAITING;
        let mut filter = *filter;
        let page = loop {
            let page = book.page(&filter);
            let left = until.saturating_duration_since(Instant::now());
            if !page.events.is_empty() || left.is_zero() || book.is_ending || !is_patient {
                break page;
            }
            // Events that the filter passes over need not be looked at again.
            filter.after = Some(page.next);
            let waited = self.shared.news.wait_timeout(book, left);
            book = waited.unwrap_or_else(PoisonError::into_inner).0;
        };
        book.waiting -= 1;
        page
    }

    /// Returns the initiators whose logins were refused lately.
    pub fn refused_logins(&self) -> Vec<RefusedLogins> {
        self.shared.lock().refusals.within(now_ms())
    }

    /// Returns the reason why events cannot be written to the state folder, if they cannot.
    pub fn trouble(&self) -> Option<String> {
        self.shared.lock().trouble.clone()
    }

    /// Ends the waits of all readers, now and later.
    pub fn begin_ending(&self) {
        self.shared.lock().is_ending = true;
        self.shared.news.notify_all();
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.begin_ending();
        // A thread that panicked has already said so.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, occurrence: Occurrence) {
        let now_ms = now_ms();
        let mut book = self.lock();
        let is_refusal = occurrence.topic == Topic::Login && occurrence.severity > Severity::Info;
        if is_refusal {
            book.refusals.note(&occurrence, now_ms);
        } else if occurrence.topic == Topic::Login {
            book.refusals.forget(&occurrence.object);
        }
        if let Some(occurrence) = book.bursts.admit(occurrence, now_ms) {
            book.add(occurrence, now_ms);
            self.news.notify_all();
        }
    }

    fn write_until_end(&self, mut files: Files) {
        loop {
            let mut book = self.lock();
            let now_ms = now_ms();
            let ended = book.bursts.ended(now_ms);
            if !ended.is_empty() {
                ended.into_iter().for_each(|told| book.add(told, now_ms));
                self.news.notify_all();
            }
            let is_last = book.is_ending;
            let unwritten = book.unwritten();
            drop(book);
            if let Some(last) = unwritten.last().map(|event| event.number) {
                let written = files.append(&unwritten);
                self.lock().note_written(last, written);
            }
            if is_last {
                return;
            }
            let is_idle = |book: &mut Book| {
                let is_written = book.stored == book.last || book.trouble.is_some();
                !book.is_ending && is_written
            };
            let pause = self.news.wait_timeout_while(self.lock(), UPKEEP, is_idle);
            drop(pause);
            // The events of a storm are written together.
            std::thread::sleep(GATHER);
        }
    }
}

impl Book {
    fn begin(&mut self, found: Found) {
        self.last = found.events.last().map_or(0, |event| event.number);
        self.stored = self.last;
        let skipped = found.events.len().saturating_sub(KEPT);
        self.events = found.events.into_iter().skip(skipped).collect();
        let mut damage = found.unread;
        if found.damaged > 0 {
            let count = found.damaged;
            damage.push(format!("{count} damaged lines were passed over"));
        }
        if !damage.is_empty() {
            let text = format!(
                "the journal of events is not complete: {}",
                damage.join("; ")
            );
            tracing::warn!("{text}");
            let told = Occurrence::new(Severity::Warning, Topic::Daemon, "journal", text);
            let next = "a power cut may have damaged its last line; otherwise check the disk of the state folder";
            self.add(told.next(next), now_ms());
        }
    }

    fn add(&mut self, occurrence: Occurrence, time_ms: u64) {
        self.last += 1;
        self.events.push_back(Event {
            number: self.last,
            time_ms,
            severity: occurrence.severity,
            topic: occurrence.topic,
            object: plain(&occurrence.object),
            text: plain(&occurrence.text),
            next: occurrence.next.as_deref().map(plain),
        });
        if self.events.len() > KEPT {
            self.events.pop_front();
        }
    }

    fn unwritten(&self) -> Vec<Event> {
        let first = self.events.partition_point(|it| it.number <= self.stored);
        self.events.range(first..).cloned().collect()
    }

    fn note_written(&mut self, last: u64, written: io::Result<()>) {
        match written {
            Ok(()) => {
                self.stored = last;
                self.trouble = None;
            }
            Err(error) => {
                if self.trouble.is_none() {
                    tracing::warn!(%error, "events cannot be written to the state folder; they are kept in memory");
                }
                self.trouble = Some(error.to_string());
            }
        }
    }

    fn page(&self, filter: &EventFilter) -> EventPage {
        let limit = filter.limit.clamp(1, MAX_PAGE);
        let is_wanted =
            |it: &&Event| it.severity >= filter.severity && it.time_ms >= filter.since_ms;
        let oldest = self.events.front().map_or(0, |event| event.number);
        let Some(after) = filter.after else {
            let newest = self.events.iter().rev().filter(is_wanted).take(limit);
            let mut events: Vec<Event> = newest.cloned().collect();
            events.reverse();
            return EventPage {
                events,
                next: self.last,
                oldest,
            };
        };
        let first = self.events.partition_point(|event| event.number <= after);
        let wanted = self.events.range(first..).filter(is_wanted).take(limit);
        let events: Vec<Event> = wanted.cloned().collect();
        let next = match events.len() == limit {
            true => events.last().map_or(self.last, |event| event.number),
            false => self.last,
        };
        EventPage {
            events,
            next,
            oldest,
        }
    }
}

/// Returns a text that stays on its line of any listing, and is not longer than an event may be.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        if out.len() >= MAX_TEXT {
            out.push('…');
            break;
        }
        match is_obeyed(letter) {
            true => out.extend(letter.escape_default()),
            false => out.push(letter),
        }
    }
    out
}

/// Returns the time in milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(severity: Severity, text: &str) -> Occurrence {
        Occurrence::new(severity, Topic::Pool, "tank", text)
    }

    fn texts(page: &EventPage) -> Vec<&str> {
        page.events
            .iter()
            .map(|event| event.text.as_str())
            .collect()
    }

    fn all(after: u64) -> EventFilter {
        EventFilter {
            after: Some(after),
            limit: 100,
            ..EventFilter::default()
        }
    }

    #[test]
    fn numbers_go_on_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::start(folder.path()).unwrap();
        journal.teller().tell(told(Severity::Info, "one"));
        journal.teller().tell(told(Severity::Error, "two"));
        drop(journal);
        let journal = Journal::start(folder.path()).unwrap();
        journal.teller().tell(told(Severity::Info, "three"));
        let page = journal.page(&all(0));
        assert_eq!(texts(&page), ["one", "two", "three"]);
        assert_eq!((page.next, page.oldest), (3, 1));
        assert_eq!(texts(&journal.page(&all(2))), ["three"]);
        let grave = EventFilter {
            severity: Severity::Warning,
            ..all(0)
        };
        assert_eq!(texts(&journal.page(&grave)), ["two"]);
        let newest = EventFilter {
            limit: 2,
            ..EventFilter::default()
        };
        assert_eq!(texts(&journal.page(&newest)), ["two", "three"]);
    }

    #[test]
    fn a_page_leads_to_the_next_without_a_gap() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::start(folder.path()).unwrap();
        let teller = journal.teller();
        (0..25).for_each(|at| teller.tell(told(Severity::Info, &at.to_string())));
        let mut filter = EventFilter {
            limit: 10,
            ..all(0)
        };
        let mut seen = Vec::new();
        for expected in [10, 10, 5, 0] {
            let page = journal.page(&filter);
            assert_eq!(page.events.len(), expected);
            filter.after = Some(page.next);
            seen.extend(page.events.into_iter().map(|event| event.number));
        }
        assert_eq!(seen, (1..=25).collect::<Vec<_>>());
    }

    #[test]
    fn a_reader_waits_for_news_and_for_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::start(folder.path()).unwrap();
        let teller = journal.teller();
        let grave = EventFilter {
            severity: Severity::Error,
            ..all(0)
        };
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| journal.page_within(&grave, Duration::from_secs(600)));
            teller.tell(told(Severity::Info, "not this"));
            teller.tell(told(Severity::Error, "this"));
            assert_eq!(texts(&reader.join().unwrap()), ["this"]);
            let reader = scope.spawn(|| journal.page_within(&all(2), Duration::from_secs(600)));
            journal.begin_ending();
            assert!(reader.join().unwrap().events.is_empty());
        });
    }

    #[test]
    fn damage_is_an_event() {
        let folder = tempfile::tempdir().unwrap();
        drop(Journal::start(folder.path()).unwrap());
        std::fs::write(folder.path().join("events.log"), b"{\"numb").unwrap();
        let journal = Journal::start(folder.path()).unwrap();
        let page = journal.page(&all(0));
        assert!(page.events[0].text.contains("1 damaged lines"), "{page:?}");
    }

    #[test]
    fn a_hostile_text_stays_on_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::start(folder.path()).unwrap();
        let text = format!("a\r\nB\u{1b}[2J{}", "x".repeat(10 * MAX_TEXT));
        journal.teller().tell(told(Severity::Info, &text));
        let text = &journal.page(&all(0)).events[0].text;
        assert!(text.starts_with("a\\r\\nB\\u{1b}[2Jxx"), "{text}");
        assert!(text.len() < MAX_TEXT + 16);
    }

    #[test]
    fn refused_logins_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::start(folder.path()).unwrap();
        let teller = journal.teller();
        for _ in 0..6 {
            let refused = Occurrence::new(Severity::Warning, Topic::Login, "iqn.a", "refused");
            teller.tell(refused.from_source("192.0.2.1"));
        }
        assert_eq!(journal.page(&all(0)).events.len(), 1);
        let counted = journal.refused_logins();
        assert_eq!((counted.len(), counted[0].count), (1, 6));
        let other = Occurrence::new(Severity::Info, Topic::Login, "iqn.b", "logged in");
        teller.tell(other);
        assert_eq!(journal.refused_logins().len(), 1, "that is another one");
        let accepted = Occurrence::new(Severity::Info, Topic::Login, "iqn.a", "logged in");
        teller.tell(accepted);
        assert!(journal.refused_logins().is_empty(), "it is mended");
    }
}
