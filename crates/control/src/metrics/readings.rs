//! Readings of all states, taken when somebody asks for metrics.
//!
//! A pool or device may fail to answer. An answer to a scrape must not wait for it, so a reading
//! that takes too long is left to itself, and the last one is used with its age.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use model::Config;
use model::alert::AlertView;
use model::data_plane::{PortalStatus, PortalTcp, SessionInfo, UnitStatus};
use model::health::Health;
use model::initiator::view::{InitiatorDevice, InitiatorSession};
use model::pool::status::PoolView;

/// Longest wait for a reading.
const PATIENCE: Duration = Duration::from_secs(2);

/// States of everything at one moment.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    /// Health of the daemon. `None` means that nothing was read yet.
    pub(crate) health: Option<Health>,
    /// Number of notices of the daemon.
    pub(crate) notices: usize,
    /// Alerts that are open.
    pub(crate) alerts: Vec<AlertView>,
    pub(crate) config: Arc<Config>,
    pub(crate) units: Vec<UnitStatus>,
    pub(crate) pools: Vec<PoolView>,
    pub(crate) sessions: Vec<SessionInfo>,
    pub(crate) portals: Vec<PortalStatus>,
    pub(crate) portal_tcp: Vec<PortalTcp>,
    pub(crate) initiator_sessions: Vec<InitiatorSession>,
    pub(crate) initiator_devices: Vec<InitiatorDevice>,
}

/// Keeper of the latest reading.
#[derive(Debug, Default)]
pub struct Readings(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    latest: Option<(Instant, Arc<Reading>)>,
    /// Start of the reading that is under way.
    under_way: Option<Instant>,
}

impl Readings {
    /// Takes a reading, and returns it with the time at which it was begun. If it takes too long,
    /// the last one is returned instead, or `None` if there is none.
    ///
    /// One reading runs at a time. If it never ends, no further one is begun.
    pub(crate) fn take(
        &self,
        read: impl FnOnce() -> Reading + Send + 'static,
    ) -> Option<(Instant, Arc<Reading>)> {
        self.take_within(PATIENCE, read)
    }

    fn take_within(
        &self,
        patience: Duration,
        read: impl FnOnce() -> Reading + Send + 'static,
    ) -> Option<(Instant, Arc<Reading>)> {
        let asked = Instant::now();
        let shared = &self.0;
        let mut state = shared.wait(shared.lock(), patience);
        if state.under_way.is_none() {
            state.under_way = Some(Instant::now());
            drop(state);
            let under_way = UnderWay(Arc::clone(shared));
            let thread = thread::Builder::new().name("readings".into());
            // If no thread can be had, the turn is given up at once.
            let _ = thread.spawn(move || under_way.end(read()));
            state = shared.wait(shared.lock(), patience.saturating_sub(asked.elapsed()));
        }
        state.latest.clone()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no reading is under way, or until the one that is has taken too long.
    fn wait<'a>(
        &self,
        mut state: MutexGuard<'a, State>,
        patience: Duration,
    ) -> MutexGuard<'a, State> {
        while let Some(begun) = state.under_way {
            let left = patience.saturating_sub(begun.elapsed());
            if left.is_zero() {
                break;
            }
            let waited = self.changed.wait_timeout(state, left);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        state
    }
}

/// The one reading under way. Dropping it ends it, also after a panic.
struct UnderWay(Arc<Shared>);

impl UnderWay {
    fn end(self, reading: Reading) {
        let mut state = self.0.lock();
        let begun = state.under_way.unwrap_or_else(Instant::now);
        state.latest = Some((begun, Arc::new(reading)));
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.lock().under_way = None;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    const SHORT: Duration = Duration::from_millis(50);
    const LONG: Duration = Duration::from_secs(60);

    fn reading(notices: usize) -> Reading {
        Reading {
            notices,
            ..Reading::default()
        }
    }

    #[test]
    fn each_request_gets_a_reading_of_its_own() {
        let readings = Readings::default();
        for count in 1..4 {
            let (_, taken) = readings.take_within(LONG, move || reading(count)).unwrap();
            assert_eq!(taken.notices, count);
        }
    }

    #[test]
    fn a_reading_that_hangs_leaves_the_last_one_and_is_not_joined_by_another() {
        let readings = Readings::default();
        let (release, released) = channel::<()>();
        let hangs = readings.take_within(SHORT, move || {
            let _ = released.recv();
            reading(1)
        });
        assert!(hangs.is_none());
        let another = || -> Reading { panic!("a second reading was begun") };
        assert!(readings.take_within(SHORT, another).is_none());
        drop(release);
        // The first one ends now, and the next request begins its own.
        let (_, taken) = readings.take_within(LONG, || reading(2)).unwrap();
        assert_eq!(taken.notices, 2);
    }

    #[test]
    fn a_reading_that_panics_does_not_stop_the_next() {
        let readings = Readings::default();
        let panics = readings.take_within(LONG, || panic!("as the test wants it"));
        assert!(panics.is_none());
        let (_, taken) = readings.take_within(LONG, || reading(3)).unwrap();
        assert_eq!(taken.notices, 3);
    }
}
