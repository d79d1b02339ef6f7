//! The data plane as one object: it starts the threads, applies configurations, and answers the
//! control plane.
//!
//! | what | where |
//! |---|---|
//! | the state in force | `applied.rs` |
//! | a configuration is put in force | `change.rs` |
//! | units that a change points to other data | `retarget.rs` |
//! | a unit or portal is served on a later try | `second_try.rs` |
//! | the control plane's questions | `data_plane.rs` |
//! | portals and port groups of a configuration | `layout.rs` |

mod applied;
mod change;
mod data_plane;
mod layout;
mod retarget;
mod second_try;

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use mio::{Poll, Waker};
use scsi::alua::{GroupLayout, TargetPortGroups};

pub(super) use self::applied::Applied;
pub(super) use self::layout::group_layout;
use self::layout::portals;
use super::directory::Directory;
use super::event_loop::{EventLoop, WAKER};
use super::message::Message;
use super::opening::{DeviceLayer, Opener};
use super::recurring::Recurring;
use super::shared::{DaemonLimits, LoopHandle, Shared};
use super::space_monitor::SpaceMonitor;
use crate::connection::listener::{self, Acceptor};
use backends::Backends;
use config::placement;
use hint::Place;
use initiator::host_adapter::HostAdapter;
use isns::{Announcement, Registrar, Timing};
use model::config::Config;
use model::event::Teller;
use pools::Pools;
use process::watchdog::Round;
use unit::unit::Unit;

/// Options with which the data plane is started.
#[derive(Clone, Debug)]
pub struct ServiceOptions {
    /// State folder.
    pub state: PathBuf,
    /// Number of event loops; one for each core is best.
    pub threads: usize,
    /// Whether io_uring is used, if the kernel allows it.
    pub io_uring: bool,
    /// Limits of the daemon.
    pub limits: DaemonLimits,
    /// Layer between the logical units and their backends: faults and delays, in tests.
    pub layer: Option<DeviceLayer>,
    /// Pools that volumes come from.
    pub pools: Arc<Pools>,
    /// Initiator that reaches other machines' disks. It follows the configuration already.
    pub initiator: Arc<HostAdapter>,
    /// Way to report logins and ends of sessions.
    pub events: Teller,
}

/// Function that gives units the present names of their volumes.
struct Follow(Box<dyn Fn() + Send + Sync>);

impl std::fmt::Debug for Follow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Follow")
    }
}

/// Running data plane.
#[derive(Debug)]
pub struct Service {
    shared: Arc<Shared>,
    acceptor: Acceptor,
    opener: Opener,
    isns: Registrar,
    space_monitor: SpaceMonitor,
    second_try: Arc<Recurring>,
    /// Client of other storage.
    host: Arc<HostAdapter>,
    /// Lock of a try to serve units that could not be served before. It is taken before `changing`.
    trying: Mutex<()>,
    follow: OnceLock<Follow>,
    /// Lock of a change of what is in force, for as long as the change takes.
    changing: Mutex<()>,
    /// State in force. The lock is held for moments only: a question about the state does not wait
    /// for a change.
    state: Mutex<Applied>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Service {
    /// Starts the threads and puts `config` in force. A unit that cannot be opened or a portal that
    /// cannot be bound does not block the others: it is shown with its reason.
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
        let shared = Shared::new(handles, options.limits, options.events)?;
        let mut threads = Vec::new();
        for (index, (poll, receiver)) in parts.into_iter().enumerate() {
            let shared = shared.clone();
            let mut event_loop = EventLoop::new(index, poll, receiver, shared, options.io_uring)?;
            let builder = std::thread::Builder::new().name(loop_name(index));
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
            backends: Backends {
                state: options.state,
                host: Arc::clone(&host),
                pools: options.pools,
            },
            layer: options.layer,
            groups: Arc::new(groups),
            loops: Arc::clone(&shared.serving),
            notices: Arc::default(),
        };
        let service = Arc::new(Self {
            shared,
            acceptor,
            opener,
            isns: Registrar::new(Timing::default()),
            space_monitor,
            second_try,
            host,
            trying: Mutex::default(),
            follow: OnceLock::new(),
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

    /// Sets the function by which units that wait for their pools follow their volumes, once the
    /// pools open. It may change the configuration. It is called while nobody else looks for units
    /// that could not be served. A caller that keeps the configuration unchanged must call neither
    /// this nor [`DataPlane::try_again`].
    pub fn follow_volumes_by(&self, follow: impl Fn() + Send + Sync + 'static) {
        // This is set once, at the start.
        let _ = self.follow.set(Follow(Box::new(follow)));
    }

    /// Asks each thread that initiators depend on for a turn: the event loops, and the thread that
    /// accepts connections.
    pub fn ask_for_turns(&self, round: &mut Round) {
        for index in 0..self.shared.loops() {
            let turn = round.ask(loop_name(index));
            self.shared.send(index, Message::Turn(turn));
        }
        self.acceptor.ask(round.ask("accept"));
    }

    /// Returns a unit that is in force, for another protocol to serve beside iSCSI.
    pub fn unit_at_work(&self, name: &str) -> Option<Arc<Unit>> {
        self.lock().units.get(name).cloned()
    }

    /// Waits until every thread has ended after [`DataPlane::shutdown`].
    pub fn join(&self) {
        let threads =
            std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            // A thread that panicked has reported it.
            let _ = thread.join();
        }
        self.isns.join();
    }

    /// Puts the first configuration in force: serves what can be served.
    fn start_serving(&self, config: Arc<Config>) {
        let mut applied = Applied {
            config: config.clone(),
            ..Applied::default()
        };
        if let Err(error) = self.opener.groups.replace(group_layout(&config)) {
            tracing::error!(%error, "the target port groups cannot be served");
        }
        // Units over other machines' disks follow when the sessions have come up.
        for unit in placement::placed(&config) {
            let spec = unit.spec;
            match self
                .opener
                .open(unit, applied.units.values(), Duration::ZERO)
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
                    // The user who started the daemon knows whether this is an error.
                    tracing::info!(portal = %address, %error, "a portal cannot be served yet");
                    let next = Place::Address(address).next(&error);
                    applied.unbound.insert(address, format!("{error}; {next}"));
                }
            }
        }
        let _changing = self.one_change_at_a_time();
        self.publish(applied);
    }

    /// Puts a state in force. The caller holds the lock of changes.
    fn publish(&self, mut applied: Applied) {
        self.opener.add_stand_ins(&mut applied);
        let mut units = applied.units.clone();
        let stand_ins = applied.stand_ins.iter();
        units.extend(stand_ins.map(|(name, stand_in)| (name.clone(), Arc::clone(&stand_in.unit))));
        let directory = Arc::new(Directory {
            config: applied.config.clone(),
            units,
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
}

/// Returns the name of an event loop's thread.
fn loop_name(index: usize) -> String {
    format!("loop{index}")
}

/// Guard that ends the process if its thread panics. Without one of its loops, the daemon would go
/// on with sessions that are never answered and ranges that are locked for ever. A new start loses
/// nothing.
struct WholeOrNothing;

impl Drop for WholeOrNothing {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!("an event loop panicked: the daemon ends and must be started again");
            std::process::abort();
        }
    }
}
