//! The daemon: state folder, data plane and control plane joined, from the start to an orderly end.

use std::collections::HashSet;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::console::{Console, ConsoleOptions};
use access::Access;
use alert::run_mark::Unclean;
use alert::{Alerts, Journal, RunMark};
use benchmarks::Benchmarks;
use block::BlockDevice;
use block::budget::Budget;
use config::diff::diff;
use config::history::Note;
use config::placement;
use config::store::Store;
use control::address::SOCKET_NAME;
use control::{
    Author, ControlAddress, ControlServer, HistoryKeeper, MetricsListener, MetricsServer, Plane,
    Snapshots, Transactions, WatchThread,
};
use history::{Clock, History};
use https::CertificateView;
use initiator::host_adapter::HostAdapter;
use model::data_plane::DataPlane;
use model::event::{Occurrence, Severity, Teller, Topic};
use model::{Config, Error, ErrorKind};
use pools::{Disks, Pools, PoolsOptions};
use process::log::{self, EACH};
use process::notify;
use process::signals::{Asked, StopSignals};
use process::watchdog;
use target::{DaemonLimits, Service, ServiceOptions};
use unit::unit_device::UnitDevice;

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
    /// Clock of the history of figures. A test gives its own, and then records each minute by hand
    /// ([`Plane::record_history`]). `None` is the system's clock: each minute is recorded.
    pub history_clock: Option<Clock>,
    /// Address at which metrics are served, beside the control API.
    pub metrics: Option<SocketAddr>,
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

/// Lets the configuration follow volumes that are renamed or destroyed.
fn follow_volumes(service: &Service, plane: &Arc<Plane>) {
    let follower = Arc::downgrade(plane);
    service.follow_volumes_by(move || {
        if let Some(plane) = follower.upgrade() {
            Arc::new(Author::daemon(FOLLOW)).works(|| plane.follow_or_tell());
        }
    });
}

/// Reads the kept benchmarks. A benchmark measures a unit as it is served, past the network.
fn benchmarks(state: &Path, events: Teller, service: &Arc<Service>) -> Benchmarks {
    let service = Arc::downgrade(service);
    Benchmarks::open(state, events, move |name| {
        let unit = service.upgrade()?.unit_at_work(name)?;
        Some(UnitDevice::join(unit, "a benchmark of the daemon")? as Arc<dyn BlockDevice>)
    })
}

fn keep_history(plane: &Arc<Plane>) -> Result<HistoryKeeper, Error> {
    HistoryKeeper::start(Arc::clone(plane)).map_err(no_thread)
}

fn no_thread(error: std::io::Error) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!("a thread of the daemon cannot start: {error}"),
        "raise the limit on threads (`ulimit -u`)",
    )
}

/// Marks that the daemon runs. Reports the start, and an end out of order before it.
fn mark_run(folder: &Path, events: &Teller) -> Option<RunMark> {
    let mark = RunMark::set(folder)
        .inspect_err(|error| {
            tracing::warn!(%error, "a kill of this daemon could not be told by the next start");
        })
        .ok();
    if let Some(before) = mark.as_ref().and_then(RunMark::before) {
        let words = before.in_words();
        let told = Occurrence::new(Severity::Error, Topic::Daemon, "daemon", words);
        events.tell(told.next(
            "see the log of the system for what ended it: journalctl -b -1 -u sandstone, dmesg",
        ));
    }
    let text = format!("the daemon starts, version {}", env!("CARGO_PKG_VERSION"));
    events.tell(Occurrence::new(
        Severity::Info,
        Topic::Daemon,
        "daemon",
        text,
    ));
    mark
}

/// Serves the API at a socket too, if it is asked for at a loopback address. That address takes
/// tokens, and a token has to be made somewhere first.
fn socket_beside(
    control: &ControlAddress,
    plane: &Arc<Plane>,
) -> Result<Option<ControlServer>, Error> {
    if matches!(control, ControlAddress::Unix(_)) {
        return Ok(None);
    }
    let socket = ControlAddress::Unix(plane.state_folder.join(SOCKET_NAME));
    ControlServer::start(socket, Arc::clone(plane)).map(Some)
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
    /// Thread that records the history of figures.
    history: Option<HistoryKeeper>,
    metrics: Option<MetricsServer>,
    journal: Arc<Journal>,
    run_mark: Option<RunMark>,
    watch: WatchThread,
}

impl Daemon {
    /// Opens the state folder and serves what it holds.
    ///
    /// # Errors
    /// The folder is damaged or in use, or a thread or socket cannot be had.
    pub fn start(options: DaemonOptions) -> Result<Self, Error> {
        // An address that is taken is told before anything is served.
        let metrics = options.metrics.map(MetricsListener::bind).transpose()?;
        let (mut store, config) = Store::open(&options.state)?;
        let journal = Arc::new(Journal::start(&options.state).map_err(no_thread)?);
        let events = journal.teller();
        let run_mark = mark_run(&options.state, &events);
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
            events: events.clone(),
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
            events: events.clone(),
        };
        let service = Service::start(service_options, config.clone()).map_err(|error| {
            Error::new(
                ErrorKind::Unavailable,
                format!("the data plane cannot start: {error}"),
                "raise the limits on threads and descriptors (`ulimit -u`, `ulimit -n`)",
            )
        })?;
        let snapshots = Snapshots::start(service.clone()).map_err(no_thread)?;
        let secret_key = store.secret_key();
        let transactions = Transactions::new(store, config, service.clone());
        let alerts = Alerts::start(&options.state, events.clone()).map_err(no_thread)?;
        let benchmarks = benchmarks(&options.state, events.clone(), &service);
        let own_uid = rustix::process::geteuid().as_raw();
        let is_by_hand = options.history_clock.is_some();
        let clock = options.history_clock.unwrap_or_else(Clock::system);
        let plane = Arc::new(Plane {
            alerts,
            history: History::new(&options.state, clock),
            snapshots,
            access: Arc::new(Access::open(&options.state, own_uid, secret_key)),
            transactions: transactions.reporting_to(events),
            pools: Arc::clone(&pools),
            state_folder: options.state,
            default_portals: options.default_portals,
            since: Instant::now(),
            console: Default::default(),
            readings: Default::default(),
            journal: Arc::clone(&journal),
            benchmarks,
            making: Default::default(),
            disk_health: Default::default(),
        });
        follow_volumes(&service, &plane);
        let socket = socket_beside(&options.control, &plane)?;
        let history = match is_by_hand {
            true => None,
            false => Some(keep_history(&plane)?),
        };
        let metrics = metrics.map(|listener| listener.serve(plane.clone()));
        let metrics = metrics.transpose()?;
        let killed = run_mark.as_ref().and_then(RunMark::before);
        let killed = killed.map(Unclean::in_words);
        let watch = WatchThread::start(&plane, killed).map_err(no_thread)?;
        let control = ControlServer::start(options.control, plane.clone())?;
        let console = Console::start(&options.console, &plane)?;
        Ok(Self {
            history,
            service,
            plane,
            pools,
            initiator,
            control,
            socket,
            console,
            metrics,
            journal,
            run_mark,
            watch,
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

    /// Returns a link that logs in at the console as admin, if it is served. It works until the
    /// daemon ends.
    pub fn console_link(&self) -> Option<String> {
        let secret = self.plane.access.demo_link()?;
        Some(format!("{}/enter/{secret}", self.console_url()?))
    }

    /// Returns the certificate of the console, if it is served.
    pub fn console_certificate(&self) -> Option<CertificateView> {
        self.console.as_ref().map(Console::certificate)
    }

    /// Feeds the service manager's watchdog, if it has one, as long as all threads that serve have
    /// their turns.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn watch(&self) -> io::Result<()> {
        // The watchdog goes on to the end of the process, and must not keep its parts alive.
        let (service, pools) = (Arc::downgrade(&self.service), Arc::downgrade(&self.pools));
        let control = self.control.asker();
        watchdog::feed(move |round| {
            if let Some(service) = service.upgrade() {
                service.ask_for_turns(round);
            }
            if let Some(pools) = pools.upgrade() {
                pools.ask_for_turns(round);
            }
            control(round);
        })
    }

    /// Returns the address at which metrics are served, beside the control API.
    pub fn metrics(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().map(MetricsServer::address)
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
        // What ends now is no alert.
        drop(self.watch);
        self.plane.snapshots.end_feeds();
        self.pools.begin_ending();
        let stopped = Occurrence::new(Severity::Info, Topic::Daemon, "daemon", "the daemon stops");
        self.journal.teller().tell(stopped);
        self.journal.begin_ending();
        drop(self.control);
        drop(self.socket);
        drop(self.console);
        drop(self.history);
        drop(self.metrics);
        self.plane.benchmarks.end();
        self.service.shutdown();
        if self.pools.remote_disks().is_empty() {
            self.initiator.end_at(Instant::now() + LAST_IO);
        } else {
            self.initiator.hurry(LAST_IO);
        }
        self.service.join();
        self.pools.close();
        self.initiator.stop();
        if let Some(mark) = self.run_mark {
            mark.clear();
        }
    }
}
