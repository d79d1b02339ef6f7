//! Keeper of all histories: it records minutes, answers charts, and tells what is wrong with its
//! files.
//!
//! A chart may wait for a file. Notices and outlooks never do, because the status shows them.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use model::history::{HistoryKind, HistoryObject, HistoryView, Series, Span};
use model::pool::outlook::FillOutlook;
use model::{Error, ErrorKind};

use super::book::{Book, Sample};
use super::fields::{fields, pool, told};
use super::file::{self, FileStorage};
use super::gauge::{Gauge, Readings};
use super::ring::Ring;
use super::trend::Trend;

/// Source of the time in seconds since 1970.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> u64 + Send + Sync>);

impl Clock {
    /// Returns the system's clock.
    pub fn system() -> Self {
        Self::of(|| {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            // A clock that stands before 1970 has no minutes to record.
            now.map_or(0, |now| now.as_secs())
        })
    }

    /// Returns a clock that a test turns.
    pub fn of(unix_s: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self(Arc::new(unix_s))
    }

    /// Returns the present time.
    pub fn unix_s(&self) -> u64 {
        (self.0)()
    }

    /// Returns the last minute that is over, if there is one.
    fn last_minute(&self) -> Option<u32> {
        let minute = (self.unix_s() / 60).checked_sub(1)?;
        u32::try_from(minute).ok()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Clock({})", self.unix_s())
    }
}

/// Histories of all kinds.
#[derive(Debug)]
pub struct History {
    folder: PathBuf,
    clock: Clock,
    gauge: Mutex<Gauge>,
    books: [Mutex<Option<Book<FileStorage>>>; HistoryKind::ALL.len()],
    /// Everything that is told without looking at a file.
    told: Mutex<Told>,
}

/// Everything that is told without looking at a file.
#[derive(Debug, Default)]
struct Told {
    /// Damage that was found, as notices.
    damage: HashMap<HistoryKind, String>,
    /// Reason why the last minute could not be recorded.
    failures: HashMap<HistoryKind, String>,
    /// Trends of pools, by number.
    trends: HashMap<String, Trend>,
    /// Window in which the trends were computed.
    trends_of: Option<u32>,
    /// Kinds of which more objects are there than have room.
    crowded: HashMap<HistoryKind, usize>,
}

impl History {
    /// Returns the histories in the state folder. Their files are opened with the first minute, or
    /// with the first question.
    pub fn new(state: &Path, clock: Clock) -> Self {
        Self {
            folder: state.join("history").join("figures"),
            clock,
            gauge: Mutex::default(),
            books: Default::default(),
            told: Mutex::default(),
        }
    }

    /// Returns the clock that the histories go by.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Records the figures since the last readings, as those of the last minute. A failure is told
    /// by [`Self::notices`], and affects no other kind.
    pub fn record(&self, readings: &Readings<'_>) {
        // The lock also keeps one record after the other.
        let mut gauge = self.gauge.lock().unwrap_or_else(PoisonError::into_inner);
        let samples = gauge.samples(readings);
        let Some(minute) = self.clock.last_minute() else {
            return;
        };
        let mut is_new = false;
        for kind in HistoryKind::ALL {
            let samples = samples.get(&kind).map_or(&[][..], Vec::as_slice);
            let recorded = self.record_kind(kind, minute, samples);
            is_new |= self.note_outcome(kind, recorded);
        }
        if is_new {
            let notices = self.failures(&self.told());
            notices
                .iter()
                .for_each(|notice| tracing::error!("{notice}"));
        }
    }

    fn record_kind(
        &self,
        kind: HistoryKind,
        minute: u32,
        samples: &[Sample],
    ) -> std::io::Result<usize> {
        let mut book = self.book(kind);
        let book = self.opened(kind, &mut book)?;
        let left_out = book.record(minute, samples)?;
        if kind == HistoryKind::Pool && !samples.is_empty() {
            self.follow_trends(book, minute, samples)?;
        }
        Ok(left_out)
    }

    /// Computes the trends of pools, once for each step of the ring that they rest on.
    fn follow_trends(
        &self,
        book: &Book<FileStorage>,
        minute: u32,
        samples: &[Sample],
    ) -> std::io::Result<()> {
        let window = Some(Ring::of(Span::FourteenDays).window(minute));
        if self.told().trends_of == window {
            return Ok(());
        }
        let mut trends = HashMap::new();
        for sample in samples {
            if let Some(trend) = trend(book, &sample.key, minute)? {
                trends.insert(sample.key.clone(), trend);
            }
        }
        let mut told = self.told();
        told.trends = trends;
        told.trends_of = window;
        Ok(())
    }

    /// Notes what became of a record, and reports whether a failure has begun.
    fn note_outcome(&self, kind: HistoryKind, recorded: std::io::Result<usize>) -> bool {
        let mut told = self.told();
        match recorded {
            Ok(left_out) => {
                told.failures.remove(&kind);
                if told.crowded.insert(kind, left_out).unwrap_or(0) == 0 && left_out > 0 {
                    tracing::warn!(
                        kind = kind.as_str(),
                        left_out,
                        "there are more objects than the history has room for; the newest have none"
                    );
                }
            }
            Err(error) => return told.failures.insert(kind, error.to_string()).is_none(),
        }
        false
    }

    /// Returns the damage that was found, and the files that cannot be written now.
    pub fn notices(&self) -> Vec<String> {
        let told = self.told();
        let damage = HistoryKind::ALL
            .iter()
            .filter_map(|kind| told.damage.get(kind));
        damage.cloned().chain(self.failures(&told)).collect()
    }

    /// Returns the files that cannot be written, one notice for each reason.
    fn failures(&self, told: &Told) -> Vec<String> {
        let mut files: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for kind in HistoryKind::ALL {
            if let Some(reason) = told.failures.get(&kind) {
                let path = file::path(&self.folder, kind);
                let name = path.file_name().unwrap_or_default();
                let name = name.to_string_lossy().into_owned();
                files.entry(reason).or_default().push(name);
            }
        }
        let notice = |(reason, names): (&str, Vec<String>)| {
            format!(
                "{} in {} cannot be written, so the history of figures has a gap: {reason}. Nothing else is \
                 affected, and the daemon tries again every minute (df -h, the daemon's log)",
                names.join(", "),
                self.folder.display()
            )
        };
        files.into_iter().map(notice).collect()
    }

    /// Returns when a pool of this number is full, if at least two days of it are known. The pool
    /// has this many free bytes now.
    pub fn outlook(&self, guid: &str, available: u64) -> Option<FillOutlook> {
        let trend = self.told().trends.get(guid).copied()?;
        Some(FillOutlook::new(
            trend.bytes_per_day,
            available,
            trend.data_s,
        ))
    }

    /// Lists the objects of a kind that have a history, by name.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn objects(&self, kind: HistoryKind) -> Result<Vec<HistoryObject>, Error> {
        let mut book = self.book(kind);
        let book = self.opened(kind, &mut book);
        Ok(book
            .map_err(|error| self.unreadable(kind, &error))?
            .objects())
    }

    /// Returns the history of an object, given by its name or its identity, over a span until now.
    ///
    /// # Errors
    /// No object of the kind has this name, or the file cannot be read.
    pub fn view(&self, kind: HistoryKind, name: &str, span: Span) -> Result<HistoryView, Error> {
        let mut book = self.book(kind);
        let book = self.opened(kind, &mut book);
        let book = book.map_err(|error| self.unreadable(kind, &error))?;
        let Some((place, name, key)) = book.find(name) else {
            let kind = kind.as_str();
            return Err(Error::not_found(
                format!("there is no history of a {kind} {name:?}"),
                format!(
                    "sandstone history {kind} lists those that have one; a new {kind} follows with its first \
                     whole minute"
                ),
            ));
        };
        let last = self.clock.last_minute().unwrap_or(0);
        let points = book.points(place, span, last);
        let points = points.map_err(|error| self.unreadable(kind, &error))?;
        let trend = match kind {
            HistoryKind::Pool => trend(book, key, last),
            _ => Ok(None),
        };
        let trend = trend.map_err(|error| self.unreadable(kind, &error))?;
        let known = points.values.iter().rev().flatten();
        let available = known.filter_map(|of| of[pool::AVAILABLE]).next();
        let outlook = trend.zip(available).map(|(trend, available)| {
            FillOutlook::new(trend.bytes_per_day, available as u64, trend.data_s)
        });
        let series = told(kind).into_iter().map(|at| Series {
            name: fields(kind)[at].name.to_owned(),
            unit: fields(kind)[at].unit,
            values: points.values.iter().map(|of| of.as_ref()?[at]).collect(),
        });
        Ok(HistoryView {
            kind,
            name: name.to_owned(),
            key: key.to_owned(),
            span,
            step_s: u64::from(Ring::of(span).period) * 60,
            unix_s: points
                .minutes
                .iter()
                .map(|of| u64::from(*of) * 60)
                .collect(),
            series: series.collect(),
            outlook,
        })
    }

    fn unreadable(&self, kind: HistoryKind, error: &std::io::Error) -> Error {
        let file = file::path(&self.folder, kind);
        Error::new(
            ErrorKind::Unavailable,
            format!("the history in {} cannot be read: {error}", file.display()),
            "check the file system of the state folder (df -h, the daemon's log)",
        )
    }

    /// Returns the book of a kind, opened if it is not open yet.
    fn opened<'a>(
        &self,
        kind: HistoryKind,
        book: &'a mut Option<Book<FileStorage>>,
    ) -> std::io::Result<&'a mut Book<FileStorage>> {
        if let Some(book) = book {
            return Ok(book);
        }
        let (opened, damage) = file::open(&self.folder, kind)?;
        if let Some(damage) = damage {
            tracing::error!("{damage}");
            self.told().damage.insert(kind, damage);
        }
        Ok(book.insert(opened))
    }

    fn book(&self, kind: HistoryKind) -> MutexGuard<'_, Option<Book<FileStorage>>> {
        let book = &self.books[kind as usize];
        book.lock().unwrap_or_else(|poisoned| {
            // A panic may have left the book's numbers behind its file. Opening it again puts them
            // right.
            let mut found = poisoned.into_inner();
            *found = None;
            book.clear_poison();
            found
        })
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        // Every change is one insertion or removal: a panic leaves nothing half done.
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the trend of a pool.
fn trend(book: &Book<FileStorage>, key: &str, minute: u32) -> std::io::Result<Option<Trend>> {
    let Some((place, ..)) = book.find(key) else {
        return Ok(None);
    };
    let points = book.points(place, Span::FourteenDays, minute)?;
    let points = points.minutes.iter().zip(&points.values);
    // A pool that gets another disk is no emptier for that, so size counts too.
    Ok(Trend::of(points.filter_map(|(minute, values)| {
        let values = values.as_ref()?;
        let used = values[pool::SIZE]? - values[pool::AVAILABLE]?;
        Some((u64::from(*minute) * 60, used))
    })))
}
