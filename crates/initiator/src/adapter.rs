//! A host adapter: sessions to targets, and the devices behind them. The adapter lives in a lane.
//!
//! Its home lane runs the adapter's sockets. Requests may come from any lane; the home lane sends
//! them, and is woken if it belongs to another thread.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use rustix::event::epoll;

use super::device::MultipathDevice;
use super::fabric::Fabric;
use super::outside::{Kernel, Outside};
use super::requests::Finished;
use block::lane::{Resident, Waker};
use block::{Lane, Request, Submitted, Ticket, clock};
use model::initiator::settings::{DeviceSettings, TargetSettings};

/// Interval at which a program that waits for its sessions checks whether a name was found.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// Longest time that the end of an adapter waits for old writes to settle, whatever the settings
/// say: the user who ends a program must not wait for ever.
const LONGEST_SETTLING: Duration = Duration::from_secs(15);

/// Host adapter.
pub struct Adapter {
    epoll: Arc<OwnedFd>,
    fabric: Mutex<Fabric>,
    /// Number of the adapter's home lane.
    home: usize,
    wake: Waker,
    /// Whether another thread has queued a request, so that the home lane must look.
    is_rung: AtomicBool,
    me: Weak<Self>,
}

impl fmt::Debug for Adapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Adapter")
            .field("home", &self.home)
            .finish_non_exhaustive()
    }
}

/// Reason why a target gave no device.
#[derive(Debug)]
pub enum AdapterError {
    /// A portal's name cannot be looked up.
    Resolve {
        /// The portal.
        portal: String,
        /// Error of the look-up.
        source: io::Error,
    },
    /// The kernel has no descriptor left, or a similar error occurred.
    System(io::Error),
    /// No session was established. The message gives the first portal's reason.
    NoSession {
        /// Portals with their reasons.
        reasons: Vec<(SocketAddr, String)>,
    },
    /// Sessions were established, but none shows the LUN.
    NoUnit {
        /// Name of the target.
        target: String,
        /// LUN that was wanted; `None` for any.
        lun: Option<u16>,
        /// Reason why the units that were found cannot be used, if any was found.
        why: Option<String>,
    },
    /// Sessions were established, but none shows a device of this name.
    NoDevice {
        /// Name of the device.
        name: String,
    },
}

impl fmt::Display for AdapterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resolve { portal, source } => write!(f, "cannot look up {portal}: {source}"),
            Self::System(source) => source.fmt(f),
            Self::NoSession { reasons } => {
                f.write_str("no session could be opened")?;
                for (portal, reason) in reasons {
                    write!(f, "; {portal}: {reason}")?;
                }
                Ok(())
            }
            Self::NoDevice { name } => {
                write!(f, "no configured target shows {name} to this initiator")
            }
            Self::NoUnit { target, lun, why } => {
                write!(f, "{target} shows no disk")?;
                if let Some(lun) = lun {
                    write!(f, " as LUN {lun}")?;
                }
                f.write_str(" to this initiator")?;
                why.as_ref().map_or(Ok(()), |why| write!(f, ": {why}"))
            }
        }
    }
}

impl std::error::Error for AdapterError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Resolve { source, .. } | Self::System(source) => Some(source),
            _ => None,
        }
    }
}

impl Adapter {
    /// Creates an adapter without targets, housed in `lane`.
    ///
    /// # Errors
    /// The kernel has no descriptor left.
    pub fn new(lane: &mut Lane, devices: DeviceSettings) -> Result<Arc<Self>, AdapterError> {
        Self::connected_by(Arc::new(Kernel), lane, devices)
    }

    /// Creates an adapter as [`Adapter::new`] does, with connections and random bytes from
    /// `outside`.
    ///
    /// # Errors
    /// The kernel has no descriptor left.
    pub fn connected_by(
        outside: Arc<dyn Outside>,
        lane: &mut Lane,
        devices: DeviceSettings,
    ) -> Result<Arc<Self>, AdapterError> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC);
        let epoll = Arc::new(epoll.map_err(|error| AdapterError::System(error.into()))?);
        let adapter = Arc::new_cyclic(|me| Self {
            fabric: Mutex::new(Fabric::new(Arc::clone(&epoll), devices, outside)),
            epoll,
            home: lane.number(),
            wake: lane.waker(),
            is_rung: AtomicBool::new(false),
            me: Weak::clone(me),
        });
        let resident = Arc::clone(&adapter) as Arc<dyn Resident>;
        lane.house(resident).map_err(AdapterError::System)?;
        Ok(adapter)
    }

    pub(super) fn fabric(&self) -> MutexGuard<'_, Fabric> {
        self.fabric.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn weak(&self) -> Weak<Self> {
        Weak::clone(&self.me)
    }

    /// Begins to log in to a target, and keeps trying. Looks up names, which may block.
    ///
    /// # Errors
    /// A portal's name cannot be looked up; nothing was begun.
    pub fn log_in(&self, settings: TargetSettings) -> Result<usize, AdapterError> {
        let addresses = addresses(&settings)?;
        let target = self.fabric().add_target(settings, &addresses);
        self.ring();
        Ok(target)
    }

    /// Runs the adapter for programs that begin with a device. Ends when every session of a target
    /// has shown its units, or when some failed once and another succeeded, or after `limit`.
    ///
    /// # Errors
    /// No session was established, or none shows a unit.
    pub fn settle(
        &self,
        target: usize,
        limit: Duration,
        lane: &mut Lane,
    ) -> Result<(), AdapterError> {
        let until = clock::now() + limit;
        loop {
            self.turn(lane);
            let fabric = self.fabric();
            let mine = fabric.nexuses.iter().filter(|nexus| nexus.target == target);
            let is_settled = mine
                .clone()
                .all(|nexus| nexus.has_scanned || nexus.failures > 0);
            let any = mine.clone().any(|nexus| nexus.has_scanned);
            if is_settled || clock::now() >= until {
                if any {
                    return fabric.shows_a_unit(target);
                }
                let reasons = mine.map(|nexus| {
                    let reason = nexus.last_error.as_ref().map(ToString::to_string);
                    (
                        nexus.portal,
                        reason.unwrap_or_else(|| format!("no answer within {limit:?}")),
                    )
                });
                return Err(AdapterError::NoSession {
                    reasons: reasons.collect(),
                });
            }
            drop(fabric);
            self.sleep(until);
        }
    }

    /// Sleeps until a socket or the clock asks for a turn.
    fn sleep(&self, until: Instant) {
        let due = {
            // Both are read at one moment. A name found between two reads would be noticed only
            // when the clock asks again.
            let mut fabric = self.fabric();
            let due = fabric.next_deadline_us();
            let due = due.map_or(until, |due| fabric.instant(due).min(until));
            match fabric.looking_up {
                0 => due,
                // A name that is found wakes the lane, but nobody waits for the lane here.
                _ => due.min(clock::now() + LOOK_AGAIN),
            }
        };
        let left = due.saturating_duration_since(clock::now());
        let timeout = rustix::event::Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: i64::from(left.subsec_nanos()),
        };
        let fd = self.epoll.as_fd();
        let mut fds = [rustix::event::PollFd::new(
            &fd,
            rustix::event::PollFlags::IN,
        )];
        // An early or failed wake-up costs no more than a turn.
        let _ = rustix::event::poll(&mut fds, Some(&timeout));
    }

    /// Returns the device behind a LUN of a target.
    pub fn device(self: &Arc<Self>, target: usize, lun: Option<u16>) -> Option<MultipathDevice> {
        let device = self.fabric().device_of(target, lun)?;
        Some(MultipathDevice::new(Arc::clone(self), device))
    }

    /// Takes a request from any lane.
    #[inline]
    pub(super) fn submit(
        &self,
        device: usize,
        request: Request,
        ticket: Ticket,
        lane: &mut Lane,
    ) -> Submitted {
        let mut fabric = self.fabric();
        if let Some(answer) = fabric.answer_at_once(device, &request) {
            return Submitted::Ready(answer);
        }
        let is_home = lane.number() == self.home;
        let origin = (!is_home).then(|| lane.remote());
        lane.count_pending();
        fabric.submit(device, request, ticket, origin);
        if fabric.is_over() {
            Self::deliver(&mut fabric.finished, lane);
        }
        drop(fabric);
        if !is_home {
            self.ring();
        }
        Submitted::Pending
    }

    /// Makes the home lane look, once for many calls.
    pub(super) fn ring(&self) {
        if !self.is_rung.swap(true, Ordering::AcqRel) {
            (self.wake)();
        }
    }

    /// Passes finished requests to the lanes that submitted them.
    fn deliver(finished: &mut Vec<Finished>, lane: &mut Lane) {
        for Finished {
            ticket,
            origin,
            outcome,
        } in finished.drain(..)
        {
            match origin {
                None => lane.complete(ticket, outcome),
                Some(remote) => remote.complete(ticket, outcome),
            }
        }
    }
}

impl Resident for Adapter {
    fn poll_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    fn flush(&self, lane: &mut Lane) {
        let mut fabric = self.fabric();
        fabric.flush();
        Self::deliver(&mut fabric.finished, lane);
    }

    fn turn(&self, lane: &mut Lane) {
        self.is_rung.store(false, Ordering::Release);
        let mut fabric = self.fabric();
        if let Err(error) = fabric.turn() {
            tracing::error!(%error, "polling the sessions failed");
        }
        Self::deliver(&mut fabric.finished, lane);
        let lookups = std::mem::take(&mut fabric.lookups);
        drop(fabric);
        self.look_up(lookups);
    }

    fn next_deadline(&self) -> Option<Instant> {
        let mut fabric = self.fabric();
        let due = fabric.next_deadline_us()?;
        Some(fabric.instant(due))
    }

    fn leave(&self, lane: &mut Lane) {
        // The next writer of these disks may be another process, which does not know of the
        // settling writes.
        let unsettled = self.fabric().unsettled_for().min(LONGEST_SETTLING);
        if !unsettled.is_zero() {
            tracing::info!(
                ?unsettled,
                "a path was lost recently: the initiator ends when the old writes of the path have settled"
            );
            std::thread::sleep(unsettled);
        }
        let mut fabric = self.fabric();
        fabric.log_out();
        fabric.abandon("the initiator ends");
        Self::deliver(&mut fabric.finished, lane);
    }
}

/// Returns the addresses of a target's portals, in order of its routes. May block.
pub(super) fn addresses(settings: &TargetSettings) -> Result<Vec<SocketAddr>, AdapterError> {
    let routes = settings.routes.iter();
    routes.map(|route| resolve(&route.portal)).collect()
}

/// Returns the first address of a portal.
fn resolve(portal: &str) -> Result<SocketAddr, AdapterError> {
    let failed = |source| AdapterError::Resolve {
        portal: portal.to_owned(),
        source,
    };
    let mut addresses = portal.to_socket_addrs().map_err(failed)?;
    addresses
        .next()
        .ok_or_else(|| failed(io::ErrorKind::NotFound.into()))
}
