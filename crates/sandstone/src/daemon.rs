//! The daemon: state folder, data plane and control plane joined, from start to orderly end.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::block::budget::Budget;
use crate::config::{Error, ErrorKind, store::Store};
use crate::control::{ControlAddress, ControlServer, DataPlane, Plane, Transactions};
use crate::initiator::host::Host;
use crate::pool::{Disks, Pools, PoolsOptions};
use crate::target::{DaemonLimits, Service, ServiceOptions};

/// Bytes in flight where nothing else is said.
pub const DEFAULT_MEMORY_CAP: u64 = 1 << 30;
/// How long I/O of logical units to another machine's disks may take at the end: storage that is gone is not
/// waited for. A pool is, where it lies there: what it has taken is to be written.
const LAST_IO: Duration = Duration::from_secs(10);
/// Sessions at once, where there is memory for as many.
const MAX_SESSIONS: usize = 4096;

/// Bytes of memory for blocks of pools where nothing else is said: a quarter of what the machine has.
pub fn default_cache() -> usize {
    let memory = rustix::system::sysinfo();
    let bytes = u128::from(memory.totalram) * u128::from(memory.mem_unit.max(1));
    usize::try_from(bytes / 4).unwrap_or(usize::MAX / 4)
}

/// How a daemon is started.
#[derive(Clone, Debug)]
pub struct DaemonOptions {
    /// The state folder; made if it does not exist.
    pub state: PathBuf,
    /// Where the control API listens.
    pub control: ControlAddress,
    /// Event loops; `None` is one for each core.
    pub threads: Option<usize>,
    /// Most memory for data in flight, in bytes.
    pub memory_cap: u64,
    /// Most memory for blocks of pools, in bytes.
    pub cache: usize,
    /// Use io_uring where the kernel allows it.
    pub io_uring: bool,
    /// Where targets that are made without a portal listen; empty is every address, port 3260.
    pub default_portals: Vec<SocketAddr>,
}

/// SIGINT and SIGTERM, caught from now on: they end a daemon in order, also one that has just begun to
/// serve.
#[derive(Debug)]
pub struct StopSignals(Signals);

impl StopSignals {
    /// Catches them.
    ///
    /// # Errors
    /// The kernel refuses the signal handlers.
    pub fn catch() -> std::io::Result<Self> {
        Signals::new([SIGINT, SIGTERM]).map(Self)
    }

    /// Waits for the first one.
    pub fn wait(mut self) {
        self.0.forever().next();
    }
}

/// A running daemon.
pub struct Daemon {
    service: Arc<Service>,
    plane: Arc<Plane>,
    pools: Arc<Pools>,
    initiator: Arc<Host>,
    control: ControlServer,
}

impl Daemon {
    /// Opens the state folder and serves what it holds.
    ///
    /// # Errors
    /// The folder is damaged or in use, or a thread or socket cannot be had.
    pub fn start(options: DaemonOptions) -> Result<Self, Error> {
        let (store, config) = Store::open(&options.state)?;
        let config = Arc::new(config);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        // Pools and logical units may lie on what it reaches. Its sessions come up by themselves.
        let initiator = Arc::new(Host::new());
        initiator.begin(&config.initiator);
        let pools = Pools::start(PoolsOptions {
            state: options.state.clone(),
            installation: config.identity.installation.clone(),
            cache: options.cache,
            io_uring: options.io_uring,
            disks: Disks::with(Arc::clone(&initiator)),
        });
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
        let plane = Arc::new(Plane {
            transactions: Transactions::new(store, config, service.clone()),
            pools: Arc::clone(&pools),
            state_folder: options.state,
            default_portals: options.default_portals,
            since: Instant::now(),
            making: Default::default(),
        });
        let control = ControlServer::start(options.control, plane.clone())?;
        Ok(Self {
            service,
            plane,
            pools,
            initiator,
            control,
        })
    }

    /// The configuration and its changes.
    pub fn transactions(&self) -> &Transactions {
        &self.plane.transactions
    }

    /// Everything that administrators may ask of it.
    pub fn plane(&self) -> &Plane {
        &self.plane
    }

    /// Where the control API listens.
    pub fn control(&self) -> &ControlAddress {
        self.control.address()
    }

    /// Waits for SIGINT or SIGTERM, then ends in order.
    pub fn run_until(self, signals: StopSignals) {
        signals.wait();
        self.stop();
    }

    /// No new logins, every initiator told that its session ends, everything answered that was begun.
    pub fn stop(self) {
        self.pools.begin_ending();
        drop(self.control);
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
