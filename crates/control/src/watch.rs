//! The watch over the daemon: it collects facts and has them judged once a second.
//!
//! Pools, units and sessions are asked by threads of their own, since an answer may wait for a
//! device. The judging thread takes the last answers, and never waits. A part that does not answer
//! for long is an alert itself.

use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::plane::Plane;
use alert::facts::{Certificate, Facts, Forecast, StateFolder};

mod gatherer;
mod scrubs;

use gatherer::Gatherer;
use model::data_plane::{DataPlane, PortalStatus, PortalTcp, SessionInfo, UnitStatus};
use model::initiator::view::InitiatorDevice;
use model::pool::status::PoolView;
use pools::Pools;
use smart::{Program, Rounds};

/// Time from one judgement to the next.
const INTERVAL: Duration = Duration::from_secs(1);
/// Time without an answer after which a part counts as silent.
const SILENT: Duration = Duration::from_secs(30);

/// Running watch. Dropping it stops its threads.
#[derive(Debug)]
pub struct WatchThread {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// State of pools.
#[derive(Debug, Default)]
struct PoolFacts {
    pools: Arc<Vec<PoolView>>,
    scrubbed_s: Arc<Vec<(String, u64)>>,
}

/// State of units, portals, and disks of other machines.
#[derive(Debug, Default)]
struct UnitFacts {
    units: Arc<Vec<UnitStatus>>,
    portals: Arc<Vec<PortalStatus>>,
    devices: Arc<Vec<InitiatorDevice>>,
}

/// Sessions, and what TCP sent to them.
#[derive(Debug, Default)]
struct SessionFacts {
    sessions: Arc<Vec<SessionInfo>>,
    portal_tcp: Arc<Vec<PortalTcp>>,
}

/// Space of the state folder's file system, in bytes; zeros if it is not known.
#[derive(Clone, Copy, Debug, Default)]
struct Space {
    size: u64,
    available: u64,
}

impl Space {
    fn of(folder: &Path) -> Self {
        rustix::fs::statvfs(folder).map_or(Self::default(), |it| Self {
            size: it.f_blocks.saturating_mul(it.f_frsize),
            available: it.f_bavail.saturating_mul(it.f_frsize),
        })
    }
}

/// Threads that ask for facts.
struct Sources {
    pools: Gatherer<PoolFacts>,
    units: Gatherer<UnitFacts>,
    sessions: Gatherer<SessionFacts>,
    folder: Gatherer<Space>,
}

impl WatchThread {
    /// Starts to watch. `killed` describes the end of the last run, if it did not end in order.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn start(plane: &Arc<Plane>, killed: Option<&'static str>) -> io::Result<Self> {
        let data_plane = plane.transactions.shared_data_plane();
        let sources = Sources::start(&plane.pools, &data_plane, &plane.state_folder)?;
        let rounds = Rounds::start(&plane.state_folder, Program::default(), disks)?;
        // A plane is watched by one thread, so none was set before.
        let _ = plane.disk_health.set(rounds);
        let (stop, stopped) = channel();
        let plane = Arc::downgrade(plane);
        let thread = std::thread::Builder::new()
            .name("watch".into())
            .spawn(move || run(&plane, &sources, killed, &stopped))?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for WatchThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        // A thread that panicked has already said so.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Sources {
    fn start(
        pools: &Arc<Pools>,
        data_plane: &Arc<dyn DataPlane>,
        folder: &Path,
    ) -> io::Result<Self> {
        let of_pools = {
            let pools = Arc::clone(pools);
            let mut scrubs = scrubs::Scrubs::default();
            move || {
                let views = pools.views();
                PoolFacts {
                    scrubbed_s: scrubs.look(&pools, &views),
                    pools: Arc::new(views),
                }
            }
        };
        let of_units = {
            let data_plane = Arc::clone(data_plane);
            move || UnitFacts {
                units: Arc::new(data_plane.units()),
                portals: Arc::new(data_plane.portals()),
                devices: Arc::new(data_plane.initiator_devices()),
            }
        };
        let of_sessions = {
            let data_plane = Arc::clone(data_plane);
            move || SessionFacts {
                sessions: Arc::new(data_plane.sessions()),
                portal_tcp: Arc::new(data_plane.portal_tcp()),
            }
        };
        let of_folder = {
            let folder = folder.to_owned();
            move || Space::of(&folder)
        };
        Ok(Self {
            pools: Gatherer::start("watch-pools", of_pools)?,
            units: Gatherer::start("watch-units", of_units)?,
            sessions: Gatherer::start("watch-sessions", of_sessions)?,
            folder: Gatherer::start("watch-folder", of_folder)?,
        })
    }

    /// Reports whether each part has answered at least once.
    fn have_answered(&self) -> bool {
        self.pools.has_answered() && self.units.has_answered() && self.sessions.has_answered()
    }

    /// Returns the parts that do not answer, with the milliseconds for which they have not.
    fn silent(&self) -> Vec<(&'static str, u64)> {
        let all = [
            ("pools", self.pools.waits_for()),
            ("units", self.units.waits_for()),
            ("sessions", self.sessions.waits_for()),
            ("the state folder", self.folder.waits_for()),
        ];
        let silent = all.into_iter().filter(|(_, waits)| *waits >= SILENT);
        silent
            .map(|(part, waits)| (part, u64::try_from(waits.as_millis()).unwrap_or(u64::MAX)))
            .collect()
    }
}

fn run(
    plane: &Weak<Plane>,
    sources: &Sources,
    killed: Option<&'static str>,
    stopped: &Receiver<()>,
) {
    loop {
        let begun = Instant::now();
        let Some(plane) = plane.upgrade() else {
            return;
        };
        // What an earlier run found must not end because nothing was looked at yet.
        if sources.have_answered() || plane.since.elapsed() > SILENT {
            let ways = &plane.transactions.config().alert_ways;
            plane.alerts.ways().configure(ways);
            plane.alerts.judge(&facts(&plane, sources, killed));
        }
        drop(plane);
        let wait = INTERVAL.saturating_sub(begun.elapsed());
        if let Err(RecvTimeoutError::Disconnected) = stopped.recv_timeout(wait) {
            return;
        }
    }
}

/// Lists the disks that are asked for their health.
fn disks() -> Vec<smart::Disk> {
    let paths = pools::disk_paths().into_iter();
    paths
        .map(|(path, node)| smart::Disk {
            identity: path,
            node,
        })
        .collect()
}

fn facts(plane: &Plane, sources: &Sources, killed: Option<&'static str>) -> Facts {
    let (pools, units) = (sources.pools.last(), sources.units.last());
    let sessions = sources.sessions.last();
    Facts {
        pools: Arc::clone(&pools.pools),
        scrubbed_s: Arc::clone(&pools.scrubbed_s),
        forecasts: forecasts(plane, &pools.pools),
        units: Arc::clone(&units.units),
        portals: Arc::clone(&units.portals),
        devices: Arc::clone(&units.devices),
        sessions: Arc::clone(&sessions.sessions),
        portal_tcp: Arc::clone(&sessions.portal_tcp),
        snapshot: plane.snapshots.latest(),
        disks: plane
            .disk_health
            .get()
            .map(Rounds::health)
            .unwrap_or_default(),
        refused: plane.journal.refused_logins(),
        state_folder: state_folder(plane, *sources.folder.last()),
        notices: plane.notices(),
        killed,
        uptime_ms: u64::try_from(plane.since.elapsed().as_millis()).unwrap_or(u64::MAX),
        silent: sources.silent(),
        clock_error_ms: process::clock::max_error()
            .map(|error| u64::try_from(error.as_millis()).unwrap_or(u64::MAX)),
        certificate: plane.console.get().map(|told| {
            let console = told();
            Certificate {
                ends_s: console.ends,
                is_own: console.is_own,
            }
        }),
        unreached: plane.alerts.ways().unreached(),
    }
}

/// Returns when each pool that fills is full, as far as its history tells.
fn forecasts(plane: &Plane, pools: &[PoolView]) -> Vec<Forecast> {
    let days = |seconds: u64| seconds / 86_400;
    let each = pools.iter().filter_map(|pool| {
        let outlook = plane.history.outlook(&pool.guid, pool.available)?;
        Some(Forecast {
            pool: pool.name.clone(),
            soonest_days: days(outlook.earliest_s?),
            latest_days: outlook.latest_s.map(days),
        })
    });
    each.collect()
}

/// Returns the state of the state folder.
fn state_folder(plane: &Plane, space: Space) -> StateFolder {
    StateFolder {
        path: plane.state_folder.display().to_string(),
        size: space.size,
        available: space.available,
        trouble: plane.alerts.trouble().or_else(|| plane.journal.trouble()),
    }
}
