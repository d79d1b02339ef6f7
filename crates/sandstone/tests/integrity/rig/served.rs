//! The target's runtime inside the test, on devices of the test's choice.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use block::BlockDevice;
use model::config::{BackendSpec, Config, MapSpec, UnitSpec};
use model::data_plane::{ApplyError, DataPlane};
use target::{DaemonLimits, DeviceLayer, Service, ServiceOptions};

use super::process;

/// Service with one portal for each of its target's portal groups.
pub(crate) struct Served {
    /// First portal.
    pub(crate) portal: SocketAddr,
    service: Arc<Service>,
    options: ServiceOptions,
    config: Config,
    state: tempfile::TempDir,
}

/// Returns limits under which no test suffers by accident.
pub(crate) fn limits() -> DaemonLimits {
    DaemonLimits {
        max_sessions: 64,
        max_logins: 64,
        login_timeout: Duration::from_secs(15),
        stall_timeout: Duration::from_secs(30),
        memory: 64 << 20,
    }
}

/// Returns a unit in memory, whose device the layer makes, and its map to every initiator.
pub(crate) fn unit(
    lun: u16,
    blocks: u64,
    block_size: u32,
    write_cache: bool,
) -> (UnitSpec, MapSpec) {
    let (unit, map) = process::file_unit(lun, blocks, block_size, write_cache);
    let size = blocks * u64::from(block_size);
    let backend = BackendSpec::Memory { size };
    (UnitSpec { backend, ..unit }, map)
}

impl Served {
    /// Serves units; `devices` are theirs, in order of their LUNs.
    pub(crate) fn start(
        portals: &[SocketAddr],
        units: Vec<(UnitSpec, MapSpec)>,
        devices: Vec<Arc<dyn BlockDevice>>,
        limits: DaemonLimits,
    ) -> Self {
        let names: Vec<String> = units.iter().map(|(unit, _)| unit.name.clone()).collect();
        let layer = DeviceLayer::new(move |spec, backend| {
            let place = names.iter().position(|name| *name == spec.name);
            place
                .and_then(|at| devices.get(at))
                .cloned()
                .unwrap_or(backend)
        });
        Self::start_with(portals, units, layer, limits)
    }

    /// Serves units on the devices that `layer` makes of their backends.
    pub(crate) fn start_with(
        portals: &[SocketAddr],
        units: Vec<(UnitSpec, MapSpec)>,
        layer: DeviceLayer,
        limits: DaemonLimits,
    ) -> Self {
        let mut config = Config::default();
        config.targets.push(process::target(portals));
        for (unit, map) in units {
            config.units.push(unit);
            config.maps.push(map);
        }
        let state = tempfile::tempdir().unwrap();
        let options = ServiceOptions {
            state: state.path().to_owned(),
            threads: 2,
            io_uring: false,
            limits,
            layer: Some(layer),
            pools: pools::Pools::none(state.path()),
            initiator: std::sync::Arc::default(),
            events: Default::default(),
        };
        Self {
            portal: portals[0],
            service: Service::start(options.clone(), Arc::new(config.clone())).unwrap(),
            options,
            config,
            state,
        }
    }

    /// Puts a changed configuration in force. The loops take it over a moment later.
    pub(crate) fn change(&mut self, change: impl FnOnce(&mut Config)) {
        self.try_change(change).unwrap();
    }

    /// Puts a changed configuration in force, which may be refused.
    pub(crate) fn try_change(
        &mut self,
        change: impl FnOnce(&mut Config),
    ) -> Result<(), ApplyError> {
        let mut changed = self.config.clone();
        change(&mut changed);
        changed.generation += 1;
        self.service.apply(Arc::new(changed.clone()))?;
        self.config = changed;
        Ok(())
    }

    /// Returns the state folder.
    pub(crate) fn folder(&self) -> &std::path::Path {
        self.state.path()
    }

    /// Returns the runtime, for threads that ask it while it is being changed.
    pub(crate) fn service(&self) -> Arc<Service> {
        self.service.clone()
    }

    /// Returns the file with the persistent state of the unit with this LUN.
    pub(crate) fn state_file(&self, lun: u16) -> PathBuf {
        let naa = process::file_unit(lun, 1, 512, false).0.naa;
        let units = self.state.path().join("units");
        units.join(format!("{naa}.state"))
    }

    /// Asks all initiators to log out.
    pub(crate) fn ask_to_log_out(&self, within_s: u16) {
        for session in self.service.sessions() {
            assert!(self.service.ask_to_log_out(session.tsih, within_s));
        }
    }

    /// Ends all sessions, as an administrator does.
    pub(crate) fn kill_sessions(&self) {
        for session in self.service.sessions() {
            assert!(self.service.kill_session(session.tsih));
        }
    }

    /// Returns the number of sessions.
    pub(crate) fn sessions(&self) -> usize {
        self.service.sessions().len()
    }

    /// Returns the number of connections, over all sessions.
    pub(crate) fn connections(&self) -> usize {
        let sessions = self.service.sessions();
        sessions
            .iter()
            .map(|session| session.connections.len())
            .sum()
    }

    /// Ends the service, and starts it with its stored state.
    pub(crate) fn restart(mut self) -> Self {
        self.service.shutdown();
        self.service.join();
        let config = Arc::new(self.config.clone());
        self.service = Service::start(self.options.clone(), config).unwrap();
        self
    }

    /// Ends the service; its portals are free again.
    pub(crate) fn stop(self) {
        self.service.shutdown();
        self.service.join();
    }
}
