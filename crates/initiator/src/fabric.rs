//! The whole state of a host adapter: targets, sessions, devices, and the commands between them.
//! One lock guards the state; no operation on it waits.
//!
//! | subject | where |
//! |---|---|
//! | a session is made, kept alive, lost, made again | `fabric/sessions.rs` |
//! | the end of a lost life is confirmed | `fabric/fencing.rs` |
//! | the units that a session shows become devices and paths | `fabric/paths.rs` |
//! | a command is never answered | `fabric/overdue.rs` |
//! | a device is kept from other hosts | `fabric/reservations.rs` |
//! | targets, ways and settings change while it runs | `fabric/changes.rs` |
//! | the administrator's view | `fabric/view.rs` |
//! | a request becomes commands; their ends become its end | `fabric/traffic.rs` |
//!
//! # Invariants
//! - A path is up only after its unit has identified itself in this life of its session. If the
//!   device is reserved for this host, the path must also take part in the reservation first.
//! - A lost session's connection is closed so that the kernel sends no more of its data. Only then
//!   are its commands sent elsewhere.

mod changes;
mod cleared_commands;
mod errands;
mod fencing;
mod overdue;
mod paths;
mod reservations;
mod sessions;
mod traffic;
mod view;

use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::epoll::EventFlags;
use rustix::event::{Timespec, epoll};
use scsi::application_client::probe::Portrait;
use slab::Slab;

use self::errands::{Errand, Purpose};
pub(super) use self::fencing::PortalGroup;
use self::overdue::Abort;
use super::commands::CommandLimits;
use super::lookup::Lookup;
use super::nexus::Nexus;
use super::outside::Outside;
use super::requests::{Finished, Requests};
use block::{Geometry, clock};
use model::initiator::settings::{DeviceSettings, TargetSettings};
use multipath::{self, Actions};

/// Bytes of one read from a socket. One read serves many answers.
const BUFFER: usize = 256 << 10;
/// Reads of one connection in one turn, limited for fairness.
const READS_PER_TURN: usize = 16;
/// Sockets handled in one turn; the others are still ready in the next.
const EVENTS: usize = 64;

/// State behind the lock.
#[derive(Debug)]
pub(super) struct Fabric {
    epoll: Arc<OwnedFd>,
    outside: Arc<dyn Outside>,
    start: Instant,
    pub(super) targets: Vec<Target>,
    pub(super) nexuses: Vec<Nexus>,
    pub(super) devices: Vec<Device>,
    device_settings: DeviceSettings,
    errands: Slab<Errand>,
    aborts: Vec<Abort>,
    next_abort: u64,
    /// Time at which commands were last checked for their age.
    looked_us: u64,
    /// Commands that ended in the bytes being processed.
    endings: Vec<Ending>,
    actions: Actions,
    buffer: Vec<u8>,
    /// Sessions with output.
    dirty: Vec<usize>,
    /// Sessions that may have more input than one turn took.
    ready: Vec<(Readiness, EventFlags)>,
    pub(super) finished: Vec<Finished>,
    /// Names that sessions wait for.
    pub(super) lookups: Vec<Lookup>,
    /// Number of names being looked up.
    pub(super) looking_up: u32,
    /// Whether the last look at the sockets did not show all that are ready.
    is_more_waiting: bool,
    renewals: changes::Renewals,
    /// Number of the paths' errands for reservations so far.
    reservings: u64,
    /// Number of times that devices came, grew, or lost paths.
    changes: u64,
    /// Whether the lane that ran the sockets has ended, so that nothing is ever answered again.
    is_over: bool,
}

/// Target to which the adapter logs in.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) settings: TargetSettings,
    /// Number of the target: the `T` of a runtime name.
    pub(super) number: u32,
    /// Whether the target is not wanted any more, so that its place can be used again.
    pub(super) is_gone: bool,
}

/// Device with all data that its requests need.
#[derive(Debug)]
pub(super) struct Device {
    pub(super) policy: multipath::Device,
    /// Path by which the device was found, for the claim rules.
    pub(super) identity: multipath::PathIdentity,
    pub(super) requests: Requests,
    pub(super) portrait: Portrait,
    pub(super) geometry: Option<Geometry>,
    pub(super) limits: CommandLimits,
    /// Ways, indexed by path number.
    pub(super) paths: Vec<Way>,
    /// Whether writes that were reported as done are lost. Every flush then fails until an
    /// administrator acknowledges the loss, or until a new exclusive user opens the device and so
    /// begins with its present content.
    pub(super) has_lost_writes: bool,
    /// Longest time, in microseconds, for which I/O waits while all paths are down. It is set by a
    /// user that has copies elsewhere.
    pub(super) patience_us: Option<u64>,
    /// Reservation that keeps other hosts from writing, or is about to.
    reservation: Option<reservations::Reservation>,
}

/// Way of a path: the session and unit through which it leads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    /// Index of the session.
    pub(super) nexus: usize,
    pub(super) lun: u64,
    /// Target port group of the path.
    pub(super) group: u16,
}

/// Event of one connection. A connection closed since is not taken for its successor.
#[derive(Clone, Copy, Debug)]
struct Readiness {
    nexus: u32,
    life: u32,
}

impl Readiness {
    fn new(nexus: usize, life: u32) -> Self {
        Self {
            nexus: nexus as u32,
            life,
        }
    }

    fn to_bits(self) -> u64 {
        u64::from(self.life) << 32 | u64::from(self.nexus)
    }

    fn from_bits(bits: u64) -> Self {
        Self {
            nexus: bits as u32,
            life: (bits >> 32) as u32,
        }
    }
}

/// End of a command, as reported by the session.
#[derive(Debug)]
struct Ending {
    cookie: u64,
    /// SCSI status; `None` if the device server never saw the command.
    status: Option<u8>,
    sense: Vec<u8>,
}

/// Bit that marks the cookies of errands.
const ERRAND: u64 = 1 << 63;

/// Returns the microseconds since a time of the clock.
#[inline]
fn us_since(start: Instant) -> u64 {
    clock::now().saturating_duration_since(start).as_micros() as u64
}

impl Fabric {
    pub(super) fn new(
        epoll: Arc<OwnedFd>,
        device_settings: DeviceSettings,
        outside: Arc<dyn Outside>,
    ) -> Self {
        Self {
            epoll,
            outside,
            start: clock::now(),
            targets: Vec::new(),
            nexuses: Vec::new(),
            devices: Vec::new(),
            device_settings,
            errands: Slab::new(),
            aborts: Vec::new(),
            next_abort: 0,
            looked_us: 0,
            endings: Vec::new(),
            actions: Actions::new(),
            buffer: vec![0; BUFFER],
            dirty: Vec::new(),
            ready: Vec::new(),
            finished: Vec::new(),
            lookups: Vec::new(),
            looking_up: 0,
            is_more_waiting: false,
            renewals: changes::Renewals::default(),
            reservings: 0,
            changes: 0,
            is_over: false,
        }
    }

    /// Returns the time of the policy's clock, in microseconds since the fabric was created.
    #[inline]
    pub(super) fn now_us(&self) -> u64 {
        us_since(self.start)
    }

    /// Returns how long old copies may still land of writes that were reported as done, over all
    /// devices.
    pub(super) fn unsettled_for(&self) -> Duration {
        let devices = self.devices.iter();
        let until = devices.filter_map(|device| device.policy.unsettled_until_us());
        let left_us = until.max().map_or(0, |us| us.saturating_sub(self.now_us()));
        Duration::from_micros(left_us)
    }

    /// Converts a time of the policy's clock.
    pub(super) fn instant(&self, us: u64) -> Instant {
        self.start + Duration::from_micros(us)
    }

    /// Logs in to a target. The portals' addresses have the order of its routes.
    pub(super) fn add_target(
        &mut self,
        settings: TargetSettings,
        addresses: &[SocketAddr],
    ) -> usize {
        let target = self.place_target(settings.clone());
        self.set_target(target, settings, addresses, false);
        target
    }

    /// Handles ready sockets and due times.
    pub(super) fn turn(&mut self) -> io::Result<()> {
        let ready = std::mem::take(&mut self.ready);
        let mut events = [const { MaybeUninit::uninit() }; EVENTS];
        let epoll = Arc::clone(&self.epoll);
        let waited = epoll::wait(&*epoll, &mut events[..], Some(&Timespec::default()));
        let (events, failure) = match waited {
            Ok((events, _)) => (&*events, None),
            Err(rustix::io::Errno::INTR) => (&[][..], None),
            Err(error) => (&[][..], Some(error)),
        };
        // The lane sees an event only once, so the rest must not wait for a new event.
        self.is_more_waiting = events.len() == EVENTS;
        for event in events {
            self.socket_ready(Readiness::from_bits(event.data.u64()), event.flags);
        }
        for (nexus, flags) in ready {
            self.socket_ready(nexus, flags);
        }
        self.tick();
        self.flush();
        failure.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Passes all output to the sockets.
    pub(super) fn flush(&mut self) {
        while let Some(nexus) = self.dirty.pop() {
            let Some(link) = self.nexuses[nexus].link() else {
                continue;
            };
            if let Err(error) = link.flush() {
                self.lose(nexus, error);
            }
        }
    }

    fn mark_dirty(&mut self, nexus: usize) {
        if !self.dirty.contains(&nexus) {
            self.dirty.push(nexus);
        }
    }

    /// Returns the latest time at which [`Fabric::turn`] must run.
    pub(super) fn next_deadline_us(&mut self) -> Option<u64> {
        if self.is_more_waiting || !self.ready.is_empty() || !self.finished.is_empty() {
            return Some(0);
        }
        let sessions = (0..self.nexuses.len()).filter_map(|nexus| self.nexus_deadline_us(nexus));
        let sessions = sessions.min();
        let devices = self
            .devices
            .iter()
            .filter_map(|device| device.policy.next_deadline());
        devices
            .chain(sessions)
            .chain(self.overdue_deadline_us())
            .chain(self.renewal_deadline_us())
            .chain(self.reservations_deadline_us())
            .min()
    }

    fn tick(&mut self) {
        let now = self.now_us();
        for nexus in 0..self.nexuses.len() {
            self.tick_nexus(nexus, now);
        }
        self.look_for_overdue(now);
        self.renew_next(now);
        self.reservations_due(now);
        for device in 0..self.devices.len() {
            let policy = &mut self.devices[device].policy;
            if policy.next_deadline().is_some_and(|due| due <= now) {
                policy.tick(now, &mut self.actions);
                self.carry_out(device, now);
            }
        }
    }
}
