//! The data plane as one thing: starts the threads, applies configurations, answers the control plane.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use mio::{Poll, Waker};
use scsi::WriteThrough;
use scsi::alua::{
    AccessState, GroupLayout, SupportedStates, TargetPortGroup, TargetPortGroups, TpgsMode,
};

use super::deletion::Deletion;
use super::directory::Directory;
use super::event_loop::{EventLoop, WAKER};
use super::gateway;
use super::listener::{self, Acceptor};
use super::made_files::MadeFiles;
use super::message::Message;
use super::opening::{DeviceLayer, Opener};
use super::recurring::Recurring;
use super::second_try;
use super::shared::{DaemonLimits, LoopHandle, Shared};
use super::space_monitor::SpaceMonitor;
use super::transition;
use super::unit::Unit;
use crate::block::{self, BlockDevice};
use crate::config::model::{AluaMode, AluaState, BackendSpec, Config, UnitSpec};
use crate::control::{ApplyError, DataPlane, PortalStatus, SessionInfo, UnitStatus};
use crate::initiator::host::{Host, HostError};
use crate::initiator::view::{InitiatorDevice, InitiatorSession};
use crate::isns::{Announcement, Registrar, Timing};
use crate::pool::Pools;

/// How the data plane is started.
#[derive(Clone, Debug)]
pub struct ServiceOptions {
    /// The state folder.
    pub state: PathBuf,
    /// Event loops; one for each core is best.
    pub threads: usize,
    /// Use io_uring where the kernel allows it.
    pub io_uring: bool,
    /// Limits of the daemon.
    pub limits: DaemonLimits,
    /// What lies between the logical units and their backends: faults and delays, in tests.
    pub layer: Option<DeviceLayer>,
    /// Where volumes come from.
    pub pools: Arc<Pools>,
    /// Reaches other machines' disks; at what the configuration says already.
    pub initiator: Arc<Host>,
}

/// The running data plane.
#[derive(Debug)]
pub struct Service {
    shared: Arc<Shared>,
    acceptor: Acceptor,
    opener: Opener,
    isns: Registrar,
    space_monitor: SpaceMonitor,
    second_try: Arc<Recurring>,
    /// This machine as a client of other storage.
    host: Arc<Host>,
    /// Held by who changes what is in force, for as long as that takes.
    changing: Mutex<()>,
    /// What is in force. Held for moments only: who asks what is so does not wait for a change.
    state: Mutex<Applied>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// What is in force beside the directory.
#[derive(Clone, Debug, Default)]
struct Applied {
    config: Arc<Config>,
    units: BTreeMap<String, Arc<Unit>>,
    /// Why units of the configuration are not served.
    faults: BTreeMap<String, ApplyError>,
    listeners: HashMap<SocketAddr, Arc<TcpListener>>,
    /// Why portals of the configuration are not bound.
    unbound: BTreeMap<SocketAddr, String>,
}

impl Applied {
    /// The portals as they are now, also those that could not be bound.
    fn portals(&self) -> Vec<PortalStatus> {
        let mut portals = Vec::new();
        for target in &self.config.targets {
            for group in &target.portal_groups {
                for address in &group.portals {
                    let bound = self
                        .listeners
                        .get(address)
                        .and_then(|listener| listener.local_addr().ok());
                    portals.push(PortalStatus {
                        address: bound.unwrap_or(*address),
                        target: target.iqn.clone(),
                        tag: group.tag,
                        error: self.unbound.get(address).cloned(),
                    });
                }
            }
        }
        portals
    }
}

impl Service {
    /// Starts the threads and puts `config` in force. A unit that cannot be opened or a portal that
    /// cannot be bound does not keep the others from being served: it is shown with its reason.
    ///
    /// # Errors
    /// The kernel refuses a poller or a thread.
    pub fn start(options: ServiceOptions, config: Arc<Config>) -> io::Result<Arc<Self>> {
        let mut parts = Vec::new();
        let mut handles = Vec::new();
        for _ in 0..options.threads.max(1) {
            let poll = Poll::new()?;
            let (sender, receiver) = std::sync::mpsc::channel();
            handles.push(LoopHandle::new(sender, Waker::new(poll.registry(), WAKER)?));
            parts.push((poll, receiver));
        }
        let shared = Shared::new(handles, options.limits);
        let mut threads = Vec::new();
        for (index, (poll, receiver)) in parts.into_iter().enumerate() {
            let shared = shared.clone();
            let mut event_loop = EventLoop::new(index, poll, receiver, shared, options.io_uring)?;
            let builder = std::thread::Builder::new().name(format!("loop{index}"));
            threads.push(builder.spawn(move || {
                let _whole = WholeOrNothing;
                event_loop.run();
            })?);
        }
        let (acceptor, thread) = Acceptor::start(shared.clone())?;
        threads.push(thread);
        let (space_monitor, thread) = SpaceMonitor::start(shared.clone())?;
        threads.push(thread);
        let groups = TargetPortGroups::new(GroupLayout::default()).map_err(io::Error::other)?;
        let (second_try, orders) = Recurring::new();
        let second_try = Arc::new(second_try);
        let news = Arc::clone(&second_try);
        let host = options.initiator;
        host.listen(Arc::new(move || news.now()));
        let opener = Opener {
            state: options.state,
            layer: options.layer,
            pools: options.pools,
            host: Arc::clone(&host),
            groups: Arc::new(groups),
            wake: shared.wake(),
        };
        let service = Arc::new(Self {
            shared,
            acceptor,
            opener,
            isns: Registrar::new(Timing::default()),
            space_monitor,
            second_try,
            host,
            changing: Mutex::default(),
            state: Mutex::default(),
            threads: Mutex::default(),
        });
        threads.push(second_try::start(orders, Arc::downgrade(&service))?);
        *service
            .threads
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = threads;
        service.start_serving(config);
        Ok(service)
    }

    /// Waits until every thread has ended after [`DataPlane::shutdown`].
    pub fn join(&self) {
        let threads =
            std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
        self.isns.join();
    }

    /// The first configuration: serves what can be served.
    fn start_serving(&self, config: Arc<Config>) {
        let mut applied = Applied {
            config: config.clone(),
            ..Applied::default()
        };
        if let Err(error) = self.opener.groups.replace(group_layout(&config)) {
            tracing::error!(%error, "the target port groups cannot be served");
        }
        // Units over other machines' disks follow when the sessions have come up.
        for spec in &config.units {
            match self
                .opener
                .open(spec, applied.units.values(), Duration::ZERO)
            {
                Ok(unit) => drop(applied.units.insert(spec.name.clone(), unit)),
                Err(error) => {
                    tracing::error!(unit = spec.name, %error, "a logical unit is not served");
                    applied.faults.insert(spec.name.clone(), error);
                }
            }
        }
        for address in portals(&config) {
            match listener::bind(address) {
                Ok(socket) => drop(applied.listeners.insert(address, Arc::new(socket))),
                Err(error) => {
                    // Whoever started the daemon knows whether that is an error.
                    tracing::info!(portal = %address, %error, "a portal cannot be served yet");
                    applied.unbound.insert(address, error.to_string());
                }
            }
        }
        let _changing = self.one_change_at_a_time();
        self.publish(applied);
    }

    /// Serves units no more whose devices will never serve a request again: their pool was exported. When it is
    /// imported they are opened anew, and whoever is logged in is told so as of a unit that was reset.
    fn close_what_is_over(&self) {
        let is_over = |unit: &Arc<Unit>| unit.device.is_over();
        if !self.lock().units.values().any(is_over) {
            return;
        }
        let _changing = self.one_change_at_a_time();
        let mut applied = self.lock().clone();
        let units = applied.units.iter();
        let over = units.filter(|(_, unit)| is_over(unit));
        let over: Vec<String> = over.map(|(name, _)| name.clone()).collect();
        for name in over {
            tracing::warn!(
                unit = name,
                "a logical unit is served no more: its device was taken away"
            );
            applied.units.remove(&name);
            let fault = ApplyError {
                object: format!("lu {name}"),
                message: "its device was taken away".into(),
                next: "import the pool that it lies in".into(),
            };
            applied.faults.insert(name, fault);
        }
        self.publish(applied);
    }

    /// Opens and binds what could not be before, where that is possible now.
    pub(super) fn try_again(&self) {
        self.close_what_is_over();
        let before = self.lock().clone();
        self.host.try_again(&before.config.initiator);
        // First: units may be volumes of them.
        self.opener.pools.try_again();
        self.second_try.set_needed(self.is_waiting(&before));
        let units = before.config.units.iter();
        gateway::follow_devices(
            units.filter_map(|spec| Some((spec, before.units.get(&spec.name)?))),
        );
        let specs = before.config.units.iter();
        let opened: Vec<Arc<Unit>> = specs
            .filter(|spec| before.faults.contains_key(&spec.name))
            // Not under the lock: it may take its time.
            .filter_map(|spec| {
                self.opener
                    .open(spec, before.units.values(), Duration::ZERO)
                    .ok()
            })
            .collect();
        let bound: Vec<(SocketAddr, TcpListener)> = before
            .unbound
            .keys()
            .filter_map(|address| Some((*address, listener::bind(*address).ok()?)))
            .collect();
        let _changing = self.one_change_at_a_time();
        let current = self.lock().clone();
        if (opened.is_empty() && bound.is_empty()) || !Arc::ptr_eq(&before.config, &current.config)
        {
            // A configuration that was put in force meanwhile has looked for itself.
            return;
        }
        let mut applied = current;
        for unit in opened {
            tracing::info!(unit = unit.name, "a logical unit is served now");
            applied.faults.remove(&unit.name);
            applied.units.insert(unit.name.clone(), unit);
        }
        for (address, socket) in bound {
            tracing::info!(portal = %address, "a portal is served now");
            applied.unbound.remove(&address);
            applied.listeners.insert(address, Arc::new(socket));
        }
        self.publish(applied);
    }

    /// Whether something is not served that may be later.
    fn is_waiting(&self, applied: &Applied) -> bool {
        !applied.faults.is_empty()
            || !applied.unbound.is_empty()
            || self.host.is_incomplete()
            || self.opener.pools.waits_for_disks()
    }

    /// Puts it in force; the caller changes alone.
    fn publish(&self, applied: Applied) {
        let directory = Arc::new(Directory {
            config: applied.config.clone(),
            units: applied.units.clone(),
        });
        self.shared.set_directory(directory.clone());
        self.space_monitor.watch(&directory);
        self.second_try.set_needed(self.is_waiting(&applied));
        self.acceptor.listen(applied.listeners.clone());
        let announcement = Announcement::of(&applied.config, &applied.portals());
        self.isns
            .announce(&applied.config.isns_servers, announcement);
        *self.lock() = applied;
    }

    fn one_change_at_a_time(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Applied> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The units of a new configuration: those that stay as they are, others opened.
    fn open_units(
        &self,
        old: &Applied,
        config: &Config,
        made: &mut MadeFiles,
    ) -> Result<BTreeMap<String, Arc<Unit>>, ApplyError> {
        let mut units = BTreeMap::new();
        for spec in &config.units {
            if let Some(unit) = self.open_or_keep(old, spec, &units, made)? {
                units.insert(spec.name.clone(), unit);
            }
        }
        Ok(units)
    }

    fn open_or_keep(
        &self,
        old: &Applied,
        spec: &UnitSpec,
        opened: &BTreeMap<String, Arc<Unit>>,
        made: &mut MadeFiles,
    ) -> Result<Option<Arc<Unit>>, ApplyError> {
        let before = old
            .config
            .units
            .iter()
            .find(|before| before.naa == spec.naa);
        let others = || old.units.values().chain(opened.values());
        let Some(before) = before else {
            gateway::refuse_closed_pool(&self.opener.pools, spec)?;
            made.add(self.opener.create(spec)?);
            let opened = self.opener.open(spec, others(), gateway::PATIENCE);
            return opened.map(Some);
        };
        let Some(unit) = old.units.get(&before.name) else {
            // It could not be opened before. It may be whole again; if not, that is no news.
            return Ok(self.opener.open(spec, others(), Duration::ZERO).ok());
        };
        let same_shape = (
            before.block_size,
            before.physical_block_size,
            before.thin,
            &before.name,
        ) == (
            spec.block_size,
            spec.physical_block_size,
            spec.thin,
            &spec.name,
        );
        if same_shape && same_backend(before, spec) {
            return Ok(Some(unit.clone()));
        }
        Err(ApplyError {
            object: format!("lu {}", spec.name),
            message: "its backend, block size, provisioning or name cannot change while it exists"
                .into(),
            next: "create another logical unit with the new properties and copy the data".into(),
        })
    }

    /// Makes room beneath the units whose size was raised. They are to have that many blocks once nothing can
    /// fail any more.
    fn make_room(
        &self,
        old: &Config,
        config: &Config,
        units: &BTreeMap<String, Arc<Unit>>,
    ) -> Result<Vec<(Arc<Unit>, u64)>, ApplyError> {
        let mut larger = Vec::new();
        for spec in &config.units {
            let (Some(before), Some(unit)) = (old.unit(&spec.name), units.get(&spec.name)) else {
                continue;
            };
            let (Some(was), Some(wanted)) = (size(before), size(spec)) else {
                continue;
            };
            if wanted == was {
                continue;
            }
            let failed = |message: String, next: &str| ApplyError {
                object: format!("lu {}", spec.name),
                message,
                next: next.into(),
            };
            if wanted < was {
                return Err(failed(
                    "it cannot be made smaller".into(),
                    "create a smaller logical unit and copy the data",
                ));
            }
            crate::block::open::extend(&spec.backend, &self.opener.state, wanted)
                .map_err(|error| failed(error.problem(), error.advice()))?;
            let geometry = unit.device.refresh().map_err(|error| {
                failed(
                    error.to_string(),
                    "see the event log; the old size is still served",
                )
            })?;
            let blocks = geometry.len.min(wanted) / u64::from(spec.block_size);
            larger.push((Arc::clone(unit), blocks));
        }
        Ok(larger)
    }

    /// Empties the write caches that are to be switched off. As long as the result is there, nothing goes into them.
    fn empty_caches(
        old: &Config,
        config: &Config,
        units: &BTreeMap<String, Arc<Unit>>,
    ) -> Result<Vec<WriteThrough>, ApplyError> {
        let switched_off = config.units.iter().filter(|spec| {
            let before = old.unit(&spec.name);
            before.is_some_and(|before| before.write_cache && !spec.write_cache)
        });
        let units = switched_off.filter_map(|spec| units.get(&spec.name));
        let emptied = units.map(|unit| {
            unit.empty_cache().map_err(|error| ApplyError {
                object: format!("lu {}", unit.name),
                message: format!("its write cache could not be emptied: {error}"),
                next: "see the event log and what the unit lies on; the write cache is still on"
                    .into(),
            })
        });
        emptied.collect()
    }

    /// What may change in a unit that goes on.
    fn modify_units(old: &Config, config: &Config, units: &BTreeMap<String, Arc<Unit>>) {
        for spec in &config.units {
            let (Some(before), Some(unit)) = (old.unit(&spec.name), units.get(&spec.name)) else {
                continue;
            };
            if before.read_only != spec.read_only {
                unit.logical.set_read_only(spec.read_only);
            }
            if before.offline != spec.offline {
                unit.logical.set_offline(spec.offline);
            }
            if before.threshold_percent != spec.threshold_percent {
                unit.logical.set_soft_threshold(spec.threshold_percent);
            }
            if before.write_cache != spec.write_cache {
                unit.logical.set_write_cache(spec.write_cache);
            }
        }
    }

    /// The listening sockets of a new configuration: those that stay, and new ones.
    fn bind_portals(
        old: &Applied,
        config: &Config,
    ) -> Result<HashMap<SocketAddr, Arc<TcpListener>>, ApplyError> {
        let mut listeners = HashMap::new();
        for address in portals(config) {
            if let Some(listener) = old.listeners.get(&address) {
                listeners.insert(address, listener.clone());
                continue;
            }
            match listener::bind(address) {
                Ok(socket) => drop(listeners.insert(address, Arc::new(socket))),
                // It could not be bound before either: that is no reason to refuse this change.
                Err(_) if old.unbound.contains_key(&address) => {}
                Err(error) => {
                    return Err(ApplyError {
                        object: format!("portal {address}"),
                        message: format!("it cannot be bound: {error}"),
                        next: format!(
                            "see who listens there with `ss -ltnp 'sport = :{}'`",
                            address.port()
                        ),
                    });
                }
            }
        }
        Ok(listeners)
    }

    /// Puts everything but the logins of a configuration in force; all or nothing.
    fn apply_all_but_logins(
        &self,
        current: &Applied,
        config: Arc<Config>,
    ) -> Result<(), ApplyError> {
        let mut made = MadeFiles::default();
        let units = self.open_units(current, &config, &mut made)?;
        let listeners = Self::bind_portals(current, &config)?;
        let emptied = Self::empty_caches(&current.config, &config, &units)?;
        let larger = self.make_room(&current.config, &config, &units)?;
        let layout = group_layout(&config);
        let before = self.opener.groups.layout();
        // Those that are deleted, too: until they are out of the views their commands come as ever.
        let served: Vec<Arc<Unit>> = current.units.values().cloned().collect();
        let gone: Vec<&UnitSpec> = deleted(&current.config, &config).collect();
        let units_gone = gone.iter().filter_map(|gone| current.units.get(&gone.name));
        let deletion = Deletion::begin(units_gone.cloned().collect())?;
        transition::leave_service(&self.shared, &self.opener.groups, &layout, &served)?;
        // From here on nothing can fail.
        made.keep();
        for (unit, blocks) in larger {
            unit.logical.resize(blocks);
        }
        Self::modify_units(&current.config, &config, &units);
        drop(emptied);
        if *before != layout && self.opener.groups.replace(layout).is_ok() {
            units
                .values()
                .for_each(|unit| unit.logical.access_states_changed(None));
        }
        for gone in gone {
            if let Err(error) = super::unit_state::remove(&self.opener.state_file(&gone.naa)) {
                tracing::warn!(unit = gone.name, %error, "the state of a deleted unit could not be removed");
            }
        }
        let faults = current
            .faults
            .iter()
            .filter(|(name, _)| !units.contains_key(*name) && config.unit(name).is_some());
        let faults = faults
            .map(|(name, error)| (name.clone(), error.clone()))
            .collect();
        let unbound = portals(&config)
            .into_iter()
            .filter(|address| !listeners.contains_key(address));
        let unbound = unbound
            .map(|address| {
                (
                    address,
                    current.unbound.get(&address).cloned().unwrap_or_default(),
                )
            })
            .collect();
        let applied = Applied {
            config,
            units,
            faults,
            listeners,
            unbound,
        };
        self.publish(applied);
        deletion.settle(&self.shared);
        Ok(())
    }
}

/// The units of one configuration that are not in the next.
fn deleted<'a>(old: &'a Config, new: &'a Config) -> impl Iterator<Item = &'a UnitSpec> {
    let units = old.units.iter();
    units.filter(|old| !new.units.iter().any(|now| now.naa == old.naa))
}

/// Ends the process if its thread panics: without one of its loops the daemon would go on with sessions
/// that are never answered and ranges that are locked for ever. Started anew, it loses nothing.
struct WholeOrNothing;

impl Drop for WholeOrNothing {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!("an event loop has panicked: the daemon ends, to be started again");
            std::process::abort();
        }
    }
}

impl DataPlane for Service {
    fn try_again(&self) {
        Self::try_again(self);
    }

    fn apply(&self, config: Arc<Config>) -> Result<(), ApplyError> {
        let _changing = self.one_change_at_a_time();
        let current = self.lock().clone();
        gateway::refuse_to_cut(&self.host, &current.config, &config, &self.opener.pools)?;
        self.host.apply(&config.initiator).map_err(host_refused)?;
        let applied = self.apply_all_but_logins(&current, config);
        if applied.is_err() {
            // It was in force before.
            let _ = self.host.apply(&current.config.initiator);
        }
        applied
    }

    fn initiator_sessions(&self) -> Vec<InitiatorSession> {
        self.host.sessions()
    }

    fn initiator_devices(&self) -> Vec<InitiatorDevice> {
        self.host.devices()
    }

    fn initiator_rescan(&self, iqn: Option<&str>) -> bool {
        self.host.rescan(iqn)
    }

    fn physical_block_size(&self, backend: &BackendSpec) -> Option<u32> {
        match backend {
            BackendSpec::Device { path } => block::device::physical_block_size(path),
            BackendSpec::Iscsi { device } => {
                let device = self.host.device(device, gateway::PATIENCE)?;
                let geometry = device.geometry();
                (geometry.len > 0).then_some(geometry.physical)
            }
            BackendSpec::Memory { .. } | BackendSpec::File { .. } | BackendSpec::Volume { .. } => {
                None
            }
        }
    }

    fn sessions(&self) -> Vec<SessionInfo> {
        let (sender, receiver) = std::sync::mpsc::channel();
        self.shared
            .send_to_all(|| Message::Describe(sender.clone()));
        drop(sender);
        let mut sessions = Vec::new();
        // A loop that has ended does not answer.
        for _ in 0..self.shared.loops() {
            match receiver.recv_timeout(Duration::from_secs(2)) {
                Ok(some) => sessions.extend(some),
                Err(_) => break,
            }
        }
        sessions.sort_by_key(|session| session.tsih);
        sessions
    }

    fn kill_session(&self, tsih: u16) -> bool {
        let Some(session) = self.shared.registry().by_tsih(tsih) else {
            return false;
        };
        self.shared.send(
            session.loop_index,
            Message::Dismiss(session.key, "killed by the administrator"),
        );
        true
    }

    fn units(&self) -> Vec<UnitStatus> {
        let current = self.lock();
        let faulty = current.faults.iter().map(|(name, error)| UnitStatus {
            name: name.clone(),
            fault: Some(error.message.clone()),
            ..UnitStatus::default()
        });
        let served = current.units.values().map(|unit| {
            let offline = current
                .config
                .unit(&unit.name)
                .is_some_and(|spec| spec.offline);
            unit_status(unit, offline)
        });
        let mut units: Vec<UnitStatus> = served.chain(faulty).collect();
        units.sort_by(|a, b| a.name.cmp(&b.name));
        units
    }

    fn portals(&self) -> Vec<PortalStatus> {
        self.lock().portals()
    }

    fn shutdown(&self) {
        self.isns.stop();
        self.space_monitor.stop();
        self.second_try.stop();
        self.acceptor.stop();
        self.shared.send_to_all(|| Message::Stop);
    }
}

fn host_refused(error: HostError) -> ApplyError {
    ApplyError {
        object: match error.target.as_str() {
            "" => "the initiator".to_owned(),
            target => format!("login {target}"),
        },
        message: error.message,
        next: "check the portal's name, or write its address".into(),
    }
}

fn unit_status(unit: &Unit, offline: bool) -> UnitStatus {
    let usage = unit.device.usage().ok();
    let fault = unit.device.fault();
    let totals = unit.logical.statistics().totals();
    let block_len = u64::from(unit.logical.block_len());
    UnitStatus {
        name: unit.name.clone(),
        online: !offline && fault.is_none(),
        fault,
        size: unit.logical.blocks() * block_len,
        physical_block_size: Some(unit.logical.physical_block_len()),
        allocated: usage.map(|usage| usage.allocated),
        available: usage
            .and_then(|usage| usage.pool)
            .map(|pool| pool.available),
        write_cache: unit.logical.tells_write_cache(),
        read_only: unit.logical.is_write_protected(),
        reservation: unit.logical.reservation_in_words(),
        reads: totals.read_commands,
        writes: totals.write_commands,
        read_bytes: totals.read_blocks * block_len,
        written_bytes: totals.write_blocks * block_len,
        errors: unit.errors(),
    }
}

fn size(spec: &UnitSpec) -> Option<u64> {
    use crate::config::model::BackendSpec::{Device, File, Iscsi, Memory, Volume};
    match spec.backend {
        Memory { size } | File { size, .. } => Some(size),
        Device { .. } | Iscsi { .. } | Volume { .. } => None,
    }
}

fn same_backend(a: &UnitSpec, b: &UnitSpec) -> bool {
    use crate::config::model::BackendSpec::{Device, File, Iscsi, Memory, Volume};
    match (&a.backend, &b.backend) {
        (Memory { .. }, Memory { .. }) => true,
        (File { path: a, .. }, File { path: b, .. }) | (Device { path: a }, Device { path: b }) => {
            a == b
        }
        (Iscsi { device: a }, Iscsi { device: b }) => a == b,
        (Volume { volume: a }, Volume { volume: b }) => a == b,
        _ => false,
    }
}

/// Every address that targets listen on, once.
fn portals(config: &Config) -> Vec<SocketAddr> {
    let groups = config
        .targets
        .iter()
        .flat_map(|target| &target.portal_groups);
    let mut addresses: Vec<SocketAddr> = groups
        .flat_map(|group| group.portals.iter().copied())
        .collect();
    addresses.sort();
    addresses.dedup();
    addresses
}

/// The target port groups of all targets.
fn group_layout(config: &Config) -> GroupLayout {
    let mut groups: BTreeMap<u16, TargetPortGroup> = BTreeMap::new();
    for spec in config
        .targets
        .iter()
        .flat_map(|target| &target.portal_groups)
    {
        let group = groups
            .entry(spec.target_port_group)
            .or_insert_with(|| TargetPortGroup {
                id: spec.target_port_group,
                preferred: false,
                supported: SupportedStates::ALL,
                state: access_state(spec.alua_state),
                ports: Vec::new(),
            });
        group.ports.push(spec.relative_port_id);
    }
    let mode = config
        .targets
        .iter()
        .map(|target| target.alua)
        .fold(AluaMode::None, widest);
    GroupLayout {
        mode: tpgs_mode(mode),
        groups: groups.into_values().collect(),
        // How long an administrator stays between two states cannot be said.
        implicit_transition_s: 0,
    }
}

/// Units are shared by targets, so the device offers what any of its targets offers.
fn widest(a: AluaMode, b: AluaMode) -> AluaMode {
    match (a, b) {
        (AluaMode::None, other) | (other, AluaMode::None) => other,
        (a, b) if a == b => a,
        _ => AluaMode::Both,
    }
}

fn tpgs_mode(mode: AluaMode) -> TpgsMode {
    match mode {
        AluaMode::None => TpgsMode::None,
        AluaMode::Implicit => TpgsMode::Implicit,
        AluaMode::Explicit => TpgsMode::Explicit,
        AluaMode::Both => TpgsMode::Both,
    }
}

fn access_state(state: AluaState) -> AccessState {
    match state {
        AluaState::ActiveOptimized => AccessState::ActiveOptimized,
        AluaState::ActiveNonOptimized => AccessState::ActiveNonOptimized,
        AluaState::Standby => AccessState::Standby,
        AluaState::Unavailable => AccessState::Unavailable,
        AluaState::Transitioning => AccessState::Transitioning,
    }
}
