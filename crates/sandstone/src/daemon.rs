//! The daemon: state folder, data plane and control plane joined, from the start to an orderly end.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::console::{Console, ConsoleOptions};
use access::Access;
use block::budget::Budget;
use config::diff::diff;
use config::history::Note;
use config::placement;
use config::store::Store;
use control::address::SOCKET_NAME;
use control::{Author, ControlAddress, ControlServer, Plane, Snapshots, Transactions};
use https::CertificateView;
use initiator::host_adapter::HostAdapter;
use model::data_plane::DataPlane;
use model::{Config, Error, ErrorKind};
use pools::{Disks, Pools, PoolsOptions};
use process::log::{self, EACH};
use process::notify;
use process::signals::{Asked, StopSignals};
use target::{DaemonLimits, Service, ServiceOptions};

/// Time that I/O of logical units to another machine's disks may take at the end: storage that is
/// gone is not waited for. A pool is, where it lies there: what it has taken is to be written.
const LAST_IO: Duration = Duration::from_secs(10);
/// Most sessions at once, if the memory is enough for them.
const MAX_SESSIONS: usize = 4096;
/// Note in the history of the configuration for changes that the daemon makes by itself.
const FOLLOW: &str = "logical units were matched with their volumes";

/// Returns the default memory for blocks of pools in bytes: a quarter of the machine's memory.
pub fn default_cache() -> usize {
    let memory = rustix::system::sysinfo();
    let bytes = u128::from(memory.totalram) * u128::from(memory.mem_unit.max(1));
    usize::try_from(bytes / 4).unwrap_or(usize::MAX / 4)
}

/// Options of a daemon.
#[derive(Clone, Debug)]
pub struct DaemonOptions {
    /// State folder; made if it does not exist.
    pub state: PathBuf,
    /// Address of the control API.
    pub control: ControlAddress,
    /// Number of event loops; `None` is one for each core.
    pub threads: Option<usize>,
    /// Most memory for data in flight, in bytes.
    pub memory_cap: u64,
    /// Most memory for blocks of pools, in bytes.
    pub cache: usize,
    /// Whether io_uring is used, if the kernel allows it.
    pub io_uring: bool,
    /// Addresses of targets that are made without a portal; empty is every address, port 3260.
    pub default_portals: Vec<SocketAddr>,
    /// The console.
    pub console: ConsoleOptions,
}

/// Stores and returns the configuration with the present names of volumes. If the folder cannot be
/// written, everything is served all the same: the names are found again at the next start.
fn with_names_of_volumes(store: &mut Store, before: Config, pools: &Pools) -> Config {
    let Some(mut config) = placement::followed(&before, pools) else {
        return before;
    };
    config.generation += 1;
    let change = Author::daemon(FOLLOW).noted();
    let change = change.touching(&diff(&before, &config));
    if let Err(error) = store.save(&config, &Note::of(vec![change])) {
        tracing::error!(%error, "the new names of volumes could not be stored");
        config.generation = before.generation;
        // A volume whose number is not stored must not be renamed: its unit would not find it
        // again.
        let stored = before.identity.volumes.iter();
        let stored: HashSet<_> = stored.map(|note| (&note.naa, &note.id)).collect();
        let notes = &mut config.identity.volumes;
        notes.retain(|note| stored.contains(&(&note.naa, &note.id)));
    }
    config
}

/// Reports whether the program's file was replaced since the start.
fn is_replaced() -> bool {
    std::fs::read_link("/proc/self/exe")
        .is_ok_and(|path| path.to_string_lossy().ends_with(" (deleted)"))
}

/// Running daemon.
pub struct Daemon {
    service: Arc<Service>,
    plane: Arc<Plane>,
    pools: Arc<Pools>,
    initiator: Arc<HostAdapter>,
    control: ControlServer,
    /// Control socket beside a loopback address.
    socket: Option<ControlServer>,
    console: Option<Console>,
}

impl Daemon {
    /// Opens the state folder and serves what it holds.
    ///
    /// # Errors
    /// The folder is damaged or in use, or a thread or socket cannot be had.
    pub fn start(options: DaemonOptions) -> Result<Self, Error> {
        let (mut store, config) = Store::open(&options.state)?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        // Pools and logical units may lie on disks that the initiator reaches. Its sessions come up
        // by themselves.
        let initiator = Arc::new(HostAdapter::new());
        initiator.begin(&config.initiator);
        let pools = Pools::start(PoolsOptions {
            state: options.state.clone(),
            installation: config.identity.installation.clone(),
            cache: options.cache,
            io_uring: options.io_uring,
            disks: Disks::with(Arc::clone(&initiator)),
        });
        // This precedes the opening of units by their names: the daemon may have ended between a
        // rename and its note.
        let config = Arc::new(with_names_of_volumes(&mut store, config, &pools));
        let service_options = ServiceOptions {
            state: options.state.clone(),
            threads: options.threads.unwrap_or(cores),
            io_uring: options.io_uring,
            limits: DaemonLimits {
                max_sessions: MAX_SESSIONS.min(Budget::most_sessions(options.memory_cap)),
                max_logins: 4096,
                login_timeout: Duration::from_secs(15),
                stall_timeout: Duration::from_secs(30),
                memory: options.memory_cap,
            },
            layer: None,
            pools: Arc::clone(&pools),
            initiator: Arc::clone(&initiator),
        };
        let service = Service::start(service_options, config.clone()).map_err(|error| {
            Error::new(
                ErrorKind::Unavailable,
                format!("the data plane cannot start: {error}"),
                "raise the limits on threads and descriptors (`ulimit -u`, `ulimit -n`)",
            )
        })?;
        let snapshots = Snapshots::start(service.clone()).map_err(|error| {
            Error::new(
                ErrorKind::Unavailable,
                format!("the thread that counts commands cannot start: {error}"),
                "raise the limit on threads (`ulimit -u`)",
            )
        })?;
        let own_uid = rustix::process::geteuid().as_raw();
        let plane = Arc::new(Plane {
            snapshots,
            access: Arc::new(Access::open(&options.state, own_uid)),
            transactions: Transactions::new(store, config, service.clone()),
            pools: Arc::clone(&pools),
            state_folder: options.state,
            default_portals: options.default_portals,
            since: Instant::now(),
            making: Default::default(),
        });
        let follower = Arc::downgrade(&plane);
        service.follow_volumes_by(move || {
            if let Some(plane) = follower.upgrade() {
                Arc::new(Author::daemon(FOLLOW)).works(|| plane.follow_or_tell());
            }
        });
        let socket = match &options.control {
            ControlAddress::Unix(_) => None,
            // A token has to be made somewhere first.
            ControlAddress::Tcp(_) => {
                let socket = plane.state_folder.join(SOCKET_NAME);
                Some(ControlServer::start(
                    ControlAddress::Unix(socket),
                    plane.clone(),
                )?)
            }
        };
        let control = ControlServer::start(options.control, plane.clone())?;
        let console = Console::start(&options.console, &plane)?;
        Ok(Self {
            service,
            plane,
            pools,
            initiator,
            control,
            socket,
            console,
        })
    }

    /// Returns the configuration and its changes.
    pub fn transactions(&self) -> &Transactions {
        &self.plane.transactions
    }

    /// Returns the plane of all that administrators may ask of the daemon.
    pub fn plane(&self) -> &Arc<Plane> {
        &self.plane
    }

    /// Returns the address of the control API.
    pub fn control(&self) -> &ControlAddress {
        self.control.address()
    }

    /// Returns the address of the console for people, if it is served.
    pub fn console_url(&self) -> Option<String> {
        self.console.as_ref().map(Console::url)
    }

    /// Returns the certificate of the console, if it is served.
    pub fn console_certificate(&self) -> Option<CertificateView> {
        self.console.as_ref().map(Console::certificate)
    }

    /// Waits for SIGINT or SIGTERM, then ends in order. Reloads at each SIGHUP until then.
    pub fn run_until(self, mut signals: StopSignals) {
        let reason = loop {
            match signals.wait_for_next() {
                Asked::Reload => self.reload(),
                Asked::Stop(reason) => break reason,
            }
        };
        tracing::info!(target: EACH, reason, "stopping");
        notify::stopping(reason);
        self.stop();
        log::flush();
        tracing::info!(target: EACH, "stopped");
    }

    /// Looks anew at all that may have changed outside of the daemon. Logs what it looked at, and
    /// what needs a restart. Nothing that is served is interrupted.
    pub fn reload(&self) {
        notify::reloading();
        tracing::info!(target: EACH, reason = "SIGHUP", "reloading");
        let data_plane = self.transactions().data_plane();
        Arc::new(Author::daemon(FOLLOW)).works(|| self.plane.follow_or_tell());
        data_plane.try_again();
        let rescans = data_plane.initiator_rescan(None)
            && !self.transactions().config().initiator.targets.is_empty();
        self.warn_of_an_edited_file();
        let config = self.transactions().config();
        let units = data_plane.units();
        let portals = data_plane.portals();
        tracing::info!(
            target: EACH,
            generation = config.generation,
            units = units.len(),
            faulted = units.iter().filter(|unit| unit.fault.is_some()).count(),
            portals = portals.len(),
            unbound = portals.iter().filter(|portal| portal.error.is_some()).count(),
            "reloaded: pools, disks, logical units and portals that were away were tried again{}; no session ended",
            if rescans { ", and the initiator's targets were scanned" } else { "" },
        );
        tracing::info!(
            target: EACH,
            "not reloaded: commands change the configuration at once (sandstone config apply FILE); options \
             of the command line{} need a restart",
            if is_replaced() { " and the installed new version of the program" } else { "" },
        );
        notify::ready(&self.in_words());
    }

    /// Returns a line with the numbers of served objects.
    pub fn in_words(&self) -> String {
        let config = self.transactions().config();
        let (units, targets) = (config.units.len(), config.targets.len());
        format!("serving {units} logical units at {targets} targets")
    }

    /// Warns if somebody edited the file by hand and expects it to be read.
    fn warn_of_an_edited_file(&self) {
        if let Some(reason) = Store::damage(&self.plane.state_folder) {
            tracing::warn!(
                target: EACH,
                reason,
                "the configuration file in the state folder is not read again, and differs from the \
                 configuration in force: sandstone config show prints that configuration, sandstone config \
                 apply FILE changes it, and the next change overwrites the file"
            );
        }
    }

    /// Ends the daemon in order: no new logins, every initiator told that its session ends, and
    /// every command under way answered.
    pub fn stop(self) {
        self.plane.snapshots.end_feeds();
        self.pools.begin_ending();
        drop(self.control);
        drop(self.socket);
        drop(self.console);
        self.service.shutdown();
        if self.pools.remote_disks().is_empty() {
            self.initiator.end_at(Instant::now() + LAST_IO);
        } else {
            self.initiator.hurry(LAST_IO);
        }
        self.service.join();
        self.pools.close();
        self.initiator.stop();
    }
}
