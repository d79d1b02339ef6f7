//! Thread that records the history of figures, once a minute.
//!
//! The figures of commands come from the latest snapshot, which is there at once. Pools are asked
//! by another thread. If they do not answer soon, their minute is a gap, and all else is recorded.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use config::access::HostIndex;
use history::{PoolReading, Readings};
use model::pool::dataset::Selection;
use pools::Pools;

use super::plane::Plane;

/// Time that pools have for their answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time after the end of a minute, so that a slow clock cannot be short of it.
const AFTER_THE_MINUTE: Duration = Duration::from_millis(200);

/// Thread that records the history. Dropping this ends it.
#[derive(Debug)]
pub struct HistoryKeeper {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl HistoryKeeper {
    /// Starts to record each minute as it ends.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn start(plane: Arc<Plane>) -> io::Result<Self> {
        let mut reader = PoolReader::start(Arc::clone(&plane.pools))?;
        let (stop, stopped) = channel::<()>();
        let keep = move || {
            loop {
                let second = plane.history.clock().unix_s() % 60;
                let wait = Duration::from_secs(60 - second) + AFTER_THE_MINUTE;
                if let Err(RecvTimeoutError::Disconnected) = stopped.recv_timeout(wait) {
                    return;
                }
                let pools = reader.read();
                plane.record(pools);
            }
        };
        let thread = std::thread::Builder::new()
            .name("history".into())
            .spawn(keep)?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for HistoryKeeper {
    fn drop(&mut self) {
        drop(self.stop.take());
        // A thread that panicked has already said so.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Plane {
    /// Records the figures since the last record as those of the last minute, and waits for the
    /// pools. Tests call this in place of the thread.
    pub fn record_history(&self) {
        self.record(Some(read(&self.pools)));
    }

    fn record(&self, pools: Option<Vec<PoolReading>>) {
        let config = self.transactions.config();
        let index = HostIndex::new(&config);
        let host_of = |initiator: &str| {
            let hosts = index.hosts(initiator);
            let host = hosts.first().map(|host| host.name.as_str());
            host.unwrap_or(initiator).to_owned()
        };
        self.history.record(&Readings {
            snapshot: self.snapshots.latest(),
            pools,
            host_of: &host_of,
        });
    }
}

/// Thread that asks the pools. It is not waited for at the end, because a pool may never answer.
struct PoolReader {
    questions: Sender<()>,
    answers: Receiver<Vec<PoolReading>>,
    /// Whether the last question was not answered in time.
    is_waiting: bool,
}

impl PoolReader {
    fn start(pools: Arc<Pools>) -> io::Result<Self> {
        let (questions, asked) = channel::<()>();
        let (answer, answers) = channel();
        let ask = move || {
            while asked.recv().is_ok() {
                if answer.send(read(&pools)).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new()
            .name("history-pools".into())
            .spawn(ask)?;
        Ok(Self {
            questions,
            answers,
            is_waiting: false,
        })
    }

    /// Returns the pools, or `None` if they do not answer in time.
    fn read(&mut self) -> Option<Vec<PoolReading>> {
        if self.is_waiting {
            // A late answer tells of another minute.
            self.answers.try_recv().ok()?;
            self.is_waiting = false;
        }
        self.questions.send(()).ok()?;
        let answer = self.answers.recv_timeout(PATIENCE).ok();
        self.is_waiting = answer.is_none();
        answer
    }
}

/// Reads the pools, with the sizes of their volumes.
fn read(pools: &Pools) -> Vec<PoolReading> {
    let volumes = Selection {
        kinds: Some(vec!["volume".to_owned()]),
        properties: Some(Vec::new()),
        ..Selection::default()
    };
    let promised = |name: &str| {
        let listings = pools.listings(Some(name), &volumes).ok()?.into_iter();
        let volumes = listings.flat_map(|of| of.into_views(volumes.clone()));
        Some(volumes.filter_map(|volume| volume.size).sum())
    };
    let views = pools.views().into_iter();
    views
        .map(|view| PoolReading {
            promised: view.open_for_us.and_then(|_| promised(&view.name)),
            view,
        })
        .collect()
}
