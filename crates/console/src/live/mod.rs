//! Live figures: a moment a second, made of the snapshots that everything shares, and the streams
//! that carry it to the pages.
//!
//! One thread makes the moments, for all viewers. Viewers who watch the same rows share
//! their text.

pub(crate) mod benchmark_points;
pub(crate) mod health;
pub(crate) mod host_names;
pub(crate) mod moment;
pub(crate) mod points;
pub(crate) mod rates;
pub(crate) mod row_events;
pub(crate) mod stream;

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use control::{Door, Plane};
use model::figures::Snapshot;
use model::pool::status::PoolView;
use tokio::sync::{Semaphore, watch};

use crate::past::Pasts;
use health::Health;
use host_names::HostNames;
use moment::{Moment, PoolMoment};
use points::{Point, Points};

/// Most streams at once.
pub(crate) const MOST_VIEWERS: usize = 64;
/// Snapshots over which rates of rows are taken.
const WINDOW: usize = 5;

/// Figures of the last minutes, and the streams that show them.
pub(crate) struct Live {
    latest: watch::Sender<Arc<Moment>>,
    points: Mutex<Points>,
    /// Number of streams that show disks of pools.
    pool_viewers: AtomicUsize,
    /// Places of streams.
    viewers: Arc<Semaphore>,
    /// Health of the machine, as the header of each page tells it.
    pub(crate) health: Health,
    /// Hosts of initiators.
    pub(crate) hosts: HostNames,
    /// Figures of the past, as the overview shows them.
    pub(crate) pasts: Pasts,
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "live figures for {} viewers",
            MOST_VIEWERS - self.viewers.available_permits()
        )
    }
}

impl Live {
    /// Begins to record figures, on a thread of its own. The thread ends with the daemon's feeds.
    pub(crate) fn start(door: &Arc<Door>) -> Arc<Self> {
        let live = Arc::new(Self::resting());
        let keeper = Arc::downgrade(&live);
        let plane = Arc::clone(door.plane());
        let run = move || record(&keeper, &plane);
        if let Err(error) = std::thread::Builder::new()
            .name("console".into())
            .spawn(run)
        {
            // The pages work without live figures, and say that there are none.
            tracing::error!(%error, "the console shows no live figures: its thread cannot start");
        }
        live
    }

    fn resting() -> Self {
        Self {
            latest: watch::Sender::new(Arc::default()),
            points: Mutex::default(),
            pool_viewers: AtomicUsize::new(0),
            viewers: Arc::new(Semaphore::new(MOST_VIEWERS)),
            health: Health::default(),
            hosts: HostNames::default(),
            pasts: Pasts::default(),
        }
    }

    /// Returns the latest moment.
    pub(crate) fn now(&self) -> Arc<Moment> {
        Arc::clone(&self.latest.borrow())
    }

    /// Returns the points of the charts, the oldest first.
    pub(crate) fn points(&self) -> Vec<Point> {
        let points = self.points.lock().unwrap_or_else(PoisonError::into_inner);
        points.all()
    }

    fn add(&self, moment: Moment) {
        let mut points = self.points.lock().unwrap_or_else(PoisonError::into_inner);
        points.add(moment.point);
        drop(points);
        self.latest.send_replace(Arc::new(moment));
    }
}

/// Makes a moment of each snapshot, until the daemon ends or the console is dropped.
fn record(keeper: &Weak<Live>, plane: &Arc<Plane>) {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!(%error, "the console shows no live figures");
            return;
        }
    };
    let mut feed = plane.snapshots.feed();
    let mut recorder = Recorder::default();
    loop {
        let snapshot = runtime.block_on(feed.next());
        let Some(live) = keeper.upgrade() else { return };
        let Some(snapshot) = snapshot else {
            // Streams end with the moment that says so.
            live.latest.send_replace(Arc::new(Moment::end()));
            return;
        };
        let pools = (live.pool_viewers.load(Ordering::Relaxed) > 0).then(|| plane.pools.views());
        live.add(recorder.add(snapshot, pools));
    }
}

/// Maker of moments, which remembers a few snapshots.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    snapshots: VecDeque<Arc<Snapshot>>,
    pools: VecDeque<(u64, Arc<Vec<PoolView>>)>,
    number: u64,
}

impl Recorder {
    /// Makes the moment of a snapshot. Rates of rows are taken over the last seconds, points of
    /// charts over the last one.
    pub(crate) fn add(&mut self, newest: Arc<Snapshot>, pools: Option<Vec<PoolView>>) -> Moment {
        let is_other = |old: &Arc<Snapshot>| old.began_unix_ms != newest.began_unix_ms;
        if self.snapshots.back().is_some_and(is_other) {
            self.snapshots.clear();
        }
        let last = self
            .snapshots
            .back()
            .cloned()
            .unwrap_or_else(|| Arc::clone(&newest));
        let before = self
            .snapshots
            .front()
            .cloned()
            .unwrap_or_else(|| Arc::clone(&newest));
        self.snapshots.push_back(Arc::clone(&newest));
        if self.snapshots.len() > WINDOW {
            self.snapshots.pop_front();
        }
        let pools = match pools {
            None => {
                self.pools.clear();
                None
            }
            Some(views) => {
                let views = Arc::new(views);
                let (since, earlier) = self
                    .pools
                    .front()
                    .cloned()
                    .unwrap_or((newest.at_us, Arc::clone(&views)));
                self.pools.push_back((newest.at_us, Arc::clone(&views)));
                if self.pools.len() > WINDOW {
                    self.pools.pop_front();
                }
                let seconds = newest.at_us.saturating_sub(since) as f64 / 1e6;
                Some(PoolMoment {
                    now: views,
                    before: earlier,
                    seconds,
                })
            }
        };
        self.number += 1;
        Moment::new(
            self.number,
            Point::between(&last, &newest),
            before,
            newest,
            pools,
        )
    }
}
