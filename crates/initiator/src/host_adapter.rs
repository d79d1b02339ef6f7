//! The daemon's host adapter. It runs in a thread of its own, and follows the configuration.
//!
//! The thread exists from the first target on. Users of a device submit requests from any lane.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::adapter::{Adapter, AdapterError};
use super::claims::Claims;
use super::device::MultipathDevice;
use super::own_name;
use block::lane::Waker;
use block::{Lane, clock};
use model::figures::initiator::DeviceFigures;
use model::initiator::InitiatorSpec;
use model::initiator::configured::{
    device_settings, needs_new_sessions, same_ways, target_settings,
};
use model::initiator::settings::DeviceSettings;
use model::initiator::view::{InitiatorDevice, InitiatorSession};

/// Callback for changes: a device came, grew or lost a session. It runs on the adapter's thread and
/// must not wait.
pub type OnChange = Arc<dyn Fn() + Send + Sync>;

/// Callbacks for changes.
type Listeners = Arc<Mutex<Vec<OnChange>>>;

/// Host adapter of a daemon.
#[derive(Default)]
pub struct HostAdapter {
    listeners: Listeners,
    claims: Claims,
    state: Mutex<HostAdapterState>,
}

impl fmt::Debug for HostAdapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").finish_non_exhaustive()
    }
}

#[derive(Default)]
struct HostAdapterState {
    running: Option<Running>,
    applied: InitiatorSpec,
    /// Number of each target in the adapter, by name.
    targets: BTreeMap<String, usize>,
    /// Targets without a login, because a portal's name could not be looked up.
    unresolved: BTreeMap<String, String>,
}

struct Running {
    adapter: Arc<Adapter>,
    end: Arc<Mutex<Option<Instant>>>,
    wake: Waker,
    thread: JoinHandle<()>,
}

/// Reason why a configuration could not be put in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostError {
    /// Target that the error concerns; empty if it concerns none.
    pub target: String,
    /// Problem, as a clause without a full stop.
    pub message: String,
}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for HostError {}

/// Reason why a device cannot be had exclusively.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotHad {
    /// No session shows the device.
    NotShown {
        /// Probable reason, as a clause.
        why: Option<String>,
    },
    /// The device is in use.
    InUse {
        /// User of the device, a noun phrase.
        by: String,
    },
}

impl fmt::Display for NotHad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotShown { why: None } => f.write_str("no session shows it"),
            Self::NotShown { why: Some(why) } => write!(f, "no session shows it; {why}"),
            Self::InUse { by } => write!(f, "{by} uses it"),
        }
    }
}

impl std::error::Error for NotHad {}

impl NotHad {
    /// Returns the step to try next, as a clause without a full stop.
    pub fn next(&self) -> &'static str {
        match self {
            Self::NotShown { .. } => {
                "log in to its target with sandstone initiator login; sandstone initiator session list shows why a \
                 session is down"
            }
            Self::InUse { .. } => {
                "name another disk (sandstone initiator device list shows them): two users of one disk would \
                 destroy each other's data"
            }
        }
    }
}

impl HostAdapter {
    /// Creates an adapter without targets.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a callback for changes.
    pub fn listen(&self, on_change: OnChange) {
        let mut listeners = self
            .listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        listeners.push(on_change);
    }

    /// Calls all callbacks after a user gave up a device, which may be used again.
    pub fn given_up(&self) {
        let listeners = self
            .listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        listeners.iter().for_each(|on_change| on_change());
    }

    /// Brings the adapter to the state of `spec`, without dropping sessions that stay. Looks up
    /// names, which may block. Applies all of `spec`, or nothing.
    ///
    /// # Errors
    /// A portal's name cannot be looked up, or the kernel refuses a thread.
    pub fn apply(&self, spec: &InitiatorSpec) -> Result<(), HostError> {
        let mut state = self.lock();
        let before = state.applied.clone();
        let result = self.bring_to(&mut state, spec);
        if result.is_err() {
            // The names of the old configuration could be looked up before.
            let _ = self.bring_to(&mut state, &before);
        }
        result
    }

    /// Logs in, when the daemon starts, to all targets that can be looked up. [`Self::try_again`]
    /// tries the rest.
    pub fn begin(&self, spec: &InitiatorSpec) {
        let mut state = self.lock();
        let mut rest = spec.clone();
        rest.targets.clear();
        for target in &spec.targets {
            let mut with = rest.clone();
            with.targets.push(target.clone());
            match self.bring_to(&mut state, &with) {
                Ok(()) => rest = with,
                Err(error) => {
                    tracing::error!(target = target.iqn, %error, "the login to a target failed");
                    state.unresolved.insert(target.iqn.clone(), error.message);
                }
            }
        }
        state.applied = rest;
    }

    /// Reports whether [`Self::try_again`] has anything to do.
    pub fn is_incomplete(&self) -> bool {
        !self.lock().unresolved.is_empty()
    }

    /// Logs in to targets that could not be looked up before, if that is possible now. `spec` is in
    /// force.
    pub fn try_again(&self, spec: &InitiatorSpec) {
        let mut state = self.lock();
        for target in &spec.targets {
            if !state.unresolved.contains_key(&target.iqn) {
                continue;
            }
            let mut with = state.applied.clone();
            with.targets.push(target.clone());
            if self.bring_to(&mut state, &with).is_ok() {
                state.unresolved.remove(&target.iqn);
            }
        }
    }

    fn bring_to(
        &self,
        state: &mut HostAdapterState,
        spec: &InitiatorSpec,
    ) -> Result<(), HostError> {
        let name = own_name::in_force(spec);
        let before = std::mem::replace(&mut state.applied, spec.clone());
        if state.running.is_none() {
            if spec.targets.is_empty() {
                return Ok(());
            }
            let running = start(device_settings(spec), Arc::clone(&self.listeners));
            state.running = Some(running.map_err(|error| HostError {
                target: String::new(),
                message: format!("the initiator cannot start: {error}"),
            })?);
        }
        let Some(running) = &state.running else {
            return Ok(());
        };
        let adapter = &running.adapter;
        adapter.set_devices(device_settings(spec));
        let renamed = own_name::in_force(&before) != name;
        let retimed = before.times != spec.times;
        for target in &spec.targets {
            let settings = target_settings(&name, &spec.times, target);
            let old = before.targets.iter().find(|old| old.iqn == target.iqn);
            let failed = |error: AdapterError| HostError {
                target: target.iqn.clone(),
                message: error.to_string(),
            };
            match (state.targets.get(&target.iqn), old) {
                (Some(_), Some(old)) if old == target && !renamed && !retimed => {}
                // This change needs no look-up, so it works even while names cannot be looked up.
                (Some(number), Some(old))
                    if !renamed && same_ways(old, target) && !needs_new_sessions(old, target) =>
                {
                    adapter.set_session(*number, settings.session);
                }
                (Some(number), old) => {
                    let renew = renamed || old.is_none_or(|old| needs_new_sessions(old, target));
                    adapter.modify(*number, settings, renew).map_err(failed)?;
                }
                (None, _) => match adapter.log_in(settings) {
                    Ok(number) => drop(state.targets.insert(target.iqn.clone(), number)),
                    // The look-up failed before the change too, so it is no reason to refuse the
                    // change.
                    Err(_) if state.unresolved.contains_key(&target.iqn) => {}
                    Err(error) => return Err(failed(error)),
                },
            }
        }
        state.targets.retain(|iqn, number| {
            let stays = spec.targets.iter().any(|target| target.iqn == *iqn);
            if !stays {
                adapter.log_out(*number);
            }
            stays
        });
        let unresolved = &mut state.unresolved;
        unresolved.retain(|iqn, _| {
            spec.targets.iter().any(|target| target.iqn == *iqn) && !state.targets.contains_key(iqn)
        });
        Ok(())
    }

    /// Returns the devices that would be cut off by leaving these targets.
    pub fn devices_only_behind(&self, iqns: &[&str]) -> Vec<String> {
        let state = self.lock();
        let numbers = iqns
            .iter()
            .filter_map(|iqn| state.targets.get(*iqn).copied());
        let numbers: Vec<usize> = numbers.collect();
        match &state.running {
            Some(running) => running.adapter.devices_only_behind(&numbers),
            None => Vec::new(),
        }
    }

    /// Returns the present sessions, and a line for each target without a login.
    pub fn sessions(&self) -> Vec<InitiatorSession> {
        let state = self.lock();
        let running = state.running.as_ref();
        let mut sessions = running.map_or_else(Vec::new, |running| running.adapter.sessions());
        let unresolved = state.unresolved.iter();
        sessions.extend(unresolved.map(|(iqn, error)| InitiatorSession {
            target: iqn.clone(),
            last_error: Some(error.clone()),
            ..InitiatorSession::default()
        }));
        sessions
    }

    /// Returns the present devices.
    pub fn devices(&self) -> Vec<InitiatorDevice> {
        match &self.lock().running {
            Some(running) => running.adapter.devices(),
            None => Vec::new(),
        }
    }

    /// Returns the figures of the present devices. Returns `None` if a change of the adapter is
    /// under way, which may wait for a name server.
    pub fn figures(&self) -> Option<Vec<DeviceFigures>> {
        let state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        let running = state.running.as_ref();
        Some(running.map_or_else(Vec::new, |running| running.adapter.figures()))
    }

    /// Returns the device of this name. Waits up to `limit` while sessions are still coming up.
    pub fn device(&self, name: &str, limit: Duration) -> Option<MultipathDevice> {
        self.settle(&[name], |_| true, limit);
        self.adapter()?.device_called(name)
    }

    /// Waits up to `limit` for the devices of these names. The wait ends when no session is still
    /// coming up to a target that may show them.
    pub fn settle(&self, names: &[&str], may_show: impl Fn(&str) -> bool, limit: Duration) {
        let until = clock::now() + limit;
        let undecided = |session: &InitiatorSession| {
            session.failures == 0 && !session.is_scanned && may_show(&session.target)
        };
        while let Some(adapter) = self.adapter() {
            let mut names = names.iter();
            if names.all(|name| adapter.device_called(name).is_some())
                || clock::now() >= until
                || !adapter.sessions().iter().any(undecided)
            {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn adapter(&self) -> Option<Arc<Adapter>> {
        let state = self.lock();
        let running = state.running.as_ref();
        running.map(|running| Arc::clone(&running.adapter))
    }

    /// Returns the device of this name for the exclusive use of `user`, a noun phrase such as `a
    /// pool`. Waits like [`Self::device`].
    ///
    /// # Errors
    /// No session shows the device, or it is in use.
    pub fn device_for(
        &self,
        user: &str,
        name: &str,
        limit: Duration,
    ) -> Result<MultipathDevice, NotHad> {
        let Some(device) = self.device(name, limit) else {
            let sessions = self.sessions();
            let down = sessions.iter().find_map(|session| {
                let error = session.last_error.as_ref()?;
                Some(format!("{} at {}: {error}", session.target, session.portal))
            });
            let why = match sessions.is_empty() {
                true => Some("there is no login to a target".to_owned()),
                false => down,
            };
            return Err(NotHad::NotShown { why });
        };
        match self.claims.claim(name, user) {
            Ok(claim) => Ok(device.held_by(claim)),
            Err(by) => Err(NotHad::InUse { by }),
        }
    }

    /// Looks again at the units of one target, or of all targets. Reports whether the target
    /// exists.
    pub fn rescan(&self, iqn: Option<&str>) -> bool {
        let state = self.lock();
        let number = iqn.map(|iqn| state.targets.get(iqn).copied());
        match (number, &state.running) {
            (Some(None), _) => false,
            (Some(Some(number)), Some(running)) => {
                running.adapter.rescan(Some(number));
                true
            }
            (None, Some(running)) => {
                running.adapter.rescan(None);
                true
            }
            (_, None) => iqn.is_none(),
        }
    }

    /// Sets the latest time at which the adapter ends, whatever is under way. A daemon that ends
    /// does not wait for storage that is gone.
    pub fn end_at(&self, time: Instant) {
        if let Some(running) = &self.lock().running {
            *running.end.lock().unwrap_or_else(PoisonError::into_inner) = Some(time);
            (running.wake)();
        }
    }

    /// Lets I/O fail when all paths have been down for `limit`, whatever the settings say.
    pub fn hurry(&self, limit: Duration) {
        if let Some(running) = &self.lock().running {
            running.adapter.hurry(limit);
        }
    }

    /// Logs out of all targets, and ends the thread.
    pub fn stop(&self) {
        self.end_at(clock::now());
        let running = self.lock().running.take();
        if let Some(running) = running {
            // A thread that panicked has already reported it.
            let _ = running.thread.join();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HostAdapterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for HostAdapter {
    fn drop(&mut self) {
        self.stop();
    }
}

fn start(devices: DeviceSettings, listeners: Listeners) -> io::Result<Running> {
    let end = Arc::new(Mutex::new(None));
    let theirs = Arc::clone(&end);
    let (sender, receiver) = std::sync::mpsc::channel();
    // A lane is created by the thread that runs it.
    let thread = std::thread::Builder::new()
        .name("initiator".into())
        .spawn(move || {
            let made = Lane::standing().and_then(|mut lane| {
                let adapter = Adapter::new(&mut lane, devices).map_err(io::Error::other)?;
                Ok((lane, adapter))
            });
            match made {
                Ok((lane, adapter)) => {
                    // The starter of this thread waits for this message.
                    let _ = sender.send(Ok((Arc::clone(&adapter), lane.waker())));
                    run(lane, &adapter, &theirs, &listeners);
                }
                Err(error) => drop(sender.send(Err(error))),
            }
        })?;
    let (adapter, wake) = receiver.recv().map_err(io::Error::other)??;
    Ok(Running {
        adapter,
        end,
        wake,
        thread,
    })
}

fn run(mut lane: Lane, adapter: &Adapter, end: &Mutex<Option<Instant>>, listeners: &Listeners) {
    let mut completions = Vec::new();
    let mut seen = adapter.changes();
    loop {
        lane.submit_batch();
        lane.take_completions(&mut completions);
        completions.clear();
        let changes = adapter.changes();
        if changes != seen {
            seen = changes;
            let listeners = listeners.lock().unwrap_or_else(PoisonError::into_inner);
            listeners.iter().for_each(|on_change| on_change());
        }
        let until = *end.lock().unwrap_or_else(PoisonError::into_inner);
        if until.is_some_and(|until| until <= clock::now()) {
            // A dropped lane logs out and answers every request.
            return;
        }
        if let Err(error) = lane.wait(until) {
            tracing::error!(%error, "the initiator cannot wait for its sockets");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}
