//! Ways out: who is told of alerts, outside of this machine.
//!
//! News wait in a queue on the disk until the other side has taken them, for a day at most. A
//! thread keeps the queue; each way sends on a thread of its own, so that a server that hangs
//! delays no other, and nothing else in the daemon.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::book::{News, Notice};
use crate::facts::Unreached;
use crate::journal::now_ms;
use model::alert::AlertView;
use model::event::{Occurrence, Severity, Teller, Topic};
use model::way::{WaySpec, WayTested, WayView};
use model::{Error, ErrorKind};

mod http;
mod mail;
mod message;
mod queue;
mod trust;

pub use message::Message;
use queue::Folder;

/// Most messages that wait for one way. Of more, the oldest are dropped.
const MAX_QUEUED: usize = 500;
/// Time for which a message is tried, in milliseconds.
const TRIED_MS: u64 = 86_400_000;
/// Number of failures after which the next message is tried first.
const ATTEMPTS: u32 = 4;
/// Pause after the first failure. It doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
/// Longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(900);
/// Time from one look at the queue to the next.
const LOOK: Duration = Duration::from_millis(500);
/// Time without a judgement of alerts after which the heart stops.
const ALIVE: Duration = Duration::from_secs(60);

/// Ways out of a daemon. Dropping them stops the thread; what waits is on the disk.
#[derive(Debug)]
pub struct Ways {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    news: Condvar,
    events: Teller,
    machine: String,
}

#[derive(Debug, Default)]
struct State {
    ways: BTreeMap<String, Way>,
    /// News that are not yet on the disk.
    inbox: VecDeque<Notice>,
    last_id: u64,
    /// Time of the last judgement of alerts.
    judged: Option<Instant>,
    is_ending: bool,
}

/// A way, and what waits for it.
#[derive(Debug, Default)]
struct Way {
    spec: WaySpec,
    queue: VecDeque<Queued>,
    /// Whether a thread sends now.
    is_busy: bool,
    failing: Option<Failing>,
    reached_ms: Option<u64>,
    /// Time of the last heartbeat.
    beaten: Option<Instant>,
}

#[derive(Clone, Debug)]
struct Queued {
    /// File of the message; `None` if it could not be written.
    file: Option<PathBuf>,
    message: Message,
}

#[derive(Debug)]
struct Failing {
    since_ms: u64,
    /// Number of attempts that failed one after the other.
    count: u32,
    error: String,
    pause: Duration,
    again: Instant,
}

impl Ways {
    /// Takes over the messages that an earlier run left in the state folder.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn start(state_folder: &Path, events: Teller) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            news: Condvar::new(),
            events,
            machine: machine(),
        });
        let folder = Folder::of(state_folder);
        {
            let mut state = shared.lock();
            for (file, message) in folder.read() {
                state.last_id = state.last_id.max(message.id);
                let way = state.ways.entry(message.way.clone()).or_default();
                let file = Some(file);
                way.queue.push_back(Queued { file, message });
            }
        }
        let worker = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("ways".into())
            .spawn(move || worker.run(&folder))?;
        let thread = Some(thread);
        Ok(Self { shared, thread })
    }

    /// Puts the configured ways in force. What waits for a way that is gone is dropped.
    pub fn configure(&self, specs: &[WaySpec]) {
        let mut state = self.shared.lock();
        let is_same = state.ways.len() == specs.len()
            && specs.iter().all(|spec| {
                let way = state.ways.get(&spec.name);
                way.is_some_and(|way| way.spec == *spec)
            });
        if is_same {
            return;
        }
        state.ways.retain(|name, way| {
            let stays = specs.iter().any(|spec| spec.name == *name);
            if !stays {
                way.queue.iter().for_each(Queued::forget);
            }
            stays
        });
        for spec in specs {
            let way = state.ways.entry(spec.name.clone()).or_default();
            if way.spec != *spec {
                way.spec = spec.clone();
                // The new address may work where the old one failed.
                way.failing = None;
            }
        }
        self.shared.news.notify_all();
    }

    /// Tells news through all ways that want them. It never waits.
    pub fn post(&self, notice: Notice) {
        let mut state = self.shared.lock();
        if state.inbox.len() >= MAX_QUEUED {
            state.inbox.pop_front();
        }
        state.inbox.push_back(notice);
        self.shared.news.notify_all();
    }

    /// Notes that alerts were judged just now: the heart goes on beating.
    pub fn note_judgement(&self) {
        self.shared.lock().judged = Some(Instant::now());
    }

    /// Sends a test message now, and waits until the other side has taken it.
    ///
    /// # Errors
    /// The way does not exist, or the message was not taken: in the words of the other side.
    pub fn test(&self, name: &str) -> Result<WayTested, Error> {
        let spec = self
            .shared
            .lock()
            .ways
            .get(name)
            .map(|way| way.spec.clone());
        let spec = spec.ok_or_else(|| {
            Error::not_found(
                format!("way {name} does not exist"),
                "sandstone alert way list shows the ways",
            )
        })?;
        let notice = Notice {
            news: News::Test,
            alert: AlertView::default(),
        };
        let message = self.shared.message(name, 0, notice);
        let begun = Instant::now();
        let place = spec.place();
        let sent = send(&spec, &message);
        self.shared.note_attempt(name, &sent);
        sent.map_err(|error| {
            Error::new(
                ErrorKind::Unavailable,
                format!("way {name} does not reach {place}: {error}"),
                format!("correct it with sandstone alert way modify {name}"),
            )
            .not_changed("queued alerts still wait")
        })?;
        Ok(WayTested {
            way: name.to_owned(),
            place,
            took_ms: u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
        })
    }

    /// Returns all ways with their states. Secrets are still in `spec`.
    pub fn views(&self) -> Vec<WayView> {
        let state = self.shared.lock();
        let views = state.ways.values().map(|way| WayView {
            kind: way.spec.kind().to_owned(),
            place: way.spec.place(),
            spec: way.spec.clone(),
            queued: way.queue.len(),
            reached_ms: way.reached_ms,
            failing_since_ms: way.failing.as_ref().map(|it| it.since_ms),
            error: way.failing.as_ref().map(|it| it.error.clone()),
        });
        views.collect()
    }

    /// Returns the ways that cannot be reached.
    pub fn unreached(&self) -> Vec<Unreached> {
        let state = self.shared.lock();
        let failing = state.ways.iter().filter_map(|(name, way)| {
            Some(Unreached {
                way: name.clone(),
                is_mail: way.spec.mail.is_some(),
                error: way.failing.as_ref()?.error.clone(),
                queued: way.queue.len(),
            })
        });
        failing.collect()
    }
}

impl Drop for Ways {
    fn drop(&mut self) {
        self.shared.lock().is_ending = true;
        self.shared.news.notify_all();
        // A thread that panicked has already said so.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Queued {
    /// Removes the file of the message.
    fn forget(&self) {
        if let Some(file) = &self.file {
            // If it stays, the next start finds it and sends it once more.
            let _ = std::fs::remove_file(file);
        }
    }
}

impl Way {
    /// Reports whether there is something to send now.
    fn is_due(&self, is_alive: bool) -> bool {
        let is_pausing = self
            .failing
            .as_ref()
            .is_some_and(|it| it.again > Instant::now());
        !self.is_busy && !is_pausing && (!self.queue.is_empty() || self.is_beat_due(is_alive))
    }

    fn is_beat_due(&self, is_alive: bool) -> bool {
        let Some(heartbeat) = self.spec.heartbeat.as_ref().filter(|_| is_alive) else {
            return false;
        };
        let pause = Duration::from_secs(heartbeat.every_s.into());
        self.beaten.is_none_or(|beaten| beaten.elapsed() >= pause)
    }

    /// Notes the end of an attempt.
    fn note(&mut self, sent: &Result<(), String>) {
        let Err(error) = sent else {
            self.failing = None;
            self.reached_ms = Some(now_ms());
            return;
        };
        let before = self.failing.take();
        let count = before.as_ref().map_or(1, |it| it.count.saturating_add(1));
        // A message that the other side will never take must not hold up the others.
        if count.is_multiple_of(ATTEMPTS) && !self.queue.is_empty() {
            self.queue.rotate_left(1);
        }
        let pause = before
            .as_ref()
            .map_or(FIRST_PAUSE, |it| (it.pause * 2).min(LONGEST_PAUSE));
        self.failing = Some(Failing {
            since_ms: before.map_or_else(now_ms, |it| it.since_ms),
            count,
            error: error.clone(),
            pause,
            again: Instant::now() + pause,
        });
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn message(&self, way: &str, id: u64, notice: Notice) -> Message {
        Message {
            id,
            way: way.to_owned(),
            machine: self.machine.clone(),
            made_ms: now_ms(),
            notice,
        }
    }

    fn note_attempt(&self, name: &str, sent: &Result<(), String>) {
        if let Some(way) = self.lock().ways.get_mut(name) {
            way.note(sent);
        }
    }

    /// Keeps the queue until the end.
    fn run(self: &Arc<Self>, folder: &Folder) {
        loop {
            self.take_in(folder);
            self.give_up_old_ones();
            self.send_what_is_due();
            let state = self.lock();
            if state.is_ending && state.inbox.is_empty() {
                return;
            }
            if state.inbox.is_empty() {
                let waited = self.news.wait_timeout(state, LOOK);
                drop(waited);
            }
        }
    }

    /// Puts news into the queues of the ways that want them, first on the disk.
    fn take_in(&self, folder: &Folder) {
        let mut state = self.lock();
        let Some(notice) = state.inbox.pop_front() else {
            return;
        };
        let severity = notice.alert.severity;
        let wanting = state.ways.values().filter(|way| {
            way.spec.heartbeat.is_none() && way.spec.least <= severity && !way.spec.name.is_empty()
        });
        let names: Vec<String> = wanting.map(|way| way.spec.name.clone()).collect();
        for name in names {
            state.last_id += 1;
            let message = self.message(&name, state.last_id, notice.clone());
            drop(state);
            let file = folder.add(&message).inspect_err(|error| {
                tracing::warn!(%error, "a message about an alert is not kept over a restart");
            });
            state = self.lock();
            let queued = Queued {
                file: file.ok(),
                message,
            };
            let Some(way) = state.ways.get_mut(&name) else {
                queued.forget();
                continue;
            };
            way.queue.push_back(queued);
            // The first may be under way.
            if way.queue.len() > MAX_QUEUED
                && let Some(oldest) = way.queue.remove(usize::from(way.is_busy))
            {
                oldest.forget();
                let text = format!("more than {MAX_QUEUED} messages wait: the oldest is dropped");
                let told = Occurrence::new(Severity::Warning, Topic::Alert, &name, text);
                self.events.tell(told.from_source(name.clone()));
            }
        }
    }

    /// Drops messages that were tried for a day.
    fn give_up_old_ones(&self) {
        let now_ms = now_ms();
        let mut state = self.lock();
        for (name, way) in state.ways.iter_mut().filter(|(_, way)| !way.is_busy) {
            let is_old = |queued: &Queued| queued.message.made_ms.saturating_add(TRIED_MS) < now_ms;
            while way.queue.front().is_some_and(is_old) {
                let Some(queued) = way.queue.pop_front() else {
                    break;
                };
                queued.forget();
                let error = way.failing.as_ref().map(|it| it.error.as_str());
                let text = format!(
                    "{:?} was not taken for a day, and is given up: {}",
                    queued.message.title(),
                    error.unwrap_or("the daemon was not running")
                );
                let told = Occurrence::new(Severity::Error, Topic::Alert, name, text);
                self.events.tell(told.from_source(name.clone()));
            }
        }
    }

    fn send_what_is_due(self: &Arc<Self>) {
        let mut state = self.lock();
        if state.is_ending {
            return;
        }
        let is_alive = state.judged.is_some_and(|judged| judged.elapsed() < ALIVE);
        for (name, way) in &mut state.ways {
            if !way.is_due(is_alive) {
                continue;
            }
            let (shared, name) = (Arc::clone(self), name.clone());
            let spawned = std::thread::Builder::new()
                .name(format!("way-{name}"))
                .spawn(move || shared.send_all(&name));
            match spawned {
                Ok(_) => way.is_busy = true,
                Err(error) => way.note(&Err(format!("no thread can be had: {error}"))),
            }
        }
    }

    /// Sends what waits for a way, until nothing does or an attempt fails.
    fn send_all(&self, name: &str) {
        loop {
            let mut state = self.lock();
            let is_ending = state.is_ending;
            let is_alive = state.judged.is_some_and(|judged| judged.elapsed() < ALIVE);
            let Some(way) = state.ways.get_mut(name) else {
                return;
            };
            let first = way.queue.front().cloned();
            let is_beat = first.is_none() && way.is_beat_due(is_alive);
            if is_ending || (first.is_none() && !is_beat) {
                way.is_busy = false;
                return;
            }
            if is_beat {
                way.beaten = Some(Instant::now());
            }
            let spec = way.spec.clone();
            drop(state);
            let sent = match &first {
                Some(queued) => send(&spec, &queued.message),
                None => beat(&spec),
            };
            let mut state = self.lock();
            let Some(way) = state.ways.get_mut(name) else {
                return;
            };
            way.note(&sent);
            match (&sent, first) {
                (Ok(()), Some(queued)) => {
                    queued.forget();
                    way.queue.retain(|it| it.message.id != queued.message.id);
                }
                (Ok(()), None) => {}
                (Err(error), _) => {
                    tracing::info!(way = name, error, "an alert could not be sent yet");
                    way.is_busy = false;
                    return;
                }
            }
        }
    }
}

/// Sends a message, and returns once the other side has taken it.
fn send(spec: &WaySpec, message: &Message) -> Result<(), String> {
    if let Some(webhook) = &spec.webhook {
        return http::post(webhook, message.request(webhook));
    }
    match &spec.mail {
        Some(mail) => mail::send(mail, message),
        None => beat(spec),
    }
}

fn beat(spec: &WaySpec) -> Result<(), String> {
    match &spec.heartbeat {
        Some(heartbeat) => http::beat(heartbeat),
        None => Err("the way is not configured".to_owned()),
    }
}

/// Returns the name of this machine.
fn machine() -> String {
    let name = rustix::system::uname();
    let name = name.nodename().to_string_lossy();
    name.chars().filter(|letter| !letter.is_control()).collect()
}
