//! A host: the program's adapter, lane and multipath device, run step by step.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use block::fence::{Fence, FenceOrder, Fencing, ReservationKey};
use block::lane::Outcome;
use block::{BlockDevice as _, Lane, Request, Submitted, Ticket};
use initiator::adapter::Adapter;
use initiator::device::MultipathDevice;
use initiator::outside::Outside;
use iscsi::chap::Entropy as _;
use model::initiator::settings::{
    Bind, DeviceSettings, Route, SessionSettings, TargetSettings, TcpOptions,
};

use super::wires;
use crate::random::Random;
use crate::served::{TARGET, portal_address};

/// Most turns of a lane at one moment. An adapter that has more to do spins.
const TURNS: usize = 10_000;

/// The network as the adapter sees it.
#[derive(Debug)]
struct Dialer(Mutex<DialerState>);

#[derive(Debug)]
struct DialerState {
    random: Random,
    dialed: Vec<(usize, UnixStream)>,
    /// Portals to which this host has no way.
    unreachable: Vec<usize>,
}

impl Dialer {
    fn lock(&self) -> MutexGuard<'_, DialerState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Outside for Dialer {
    fn connect(
        &self,
        address: SocketAddr,
        _: Option<&Bind>,
        _: &TcpOptions,
    ) -> io::Result<TcpStream> {
        let portal = (0..).find(|portal| portal_address(*portal) == address);
        let portal = portal.expect("a portal of the world");
        let mut state = self.lock();
        if state.unreachable.contains(&portal) {
            return Err(io::ErrorKind::NetworkUnreachable.into());
        }
        let (theirs, near) = wires::dialed()?;
        state.dialed.push((portal, near));
        Ok(OwnedFd::from(theirs).into())
    }

    fn fill(&self, bytes: &mut [u8]) {
        self.lock().random.fill(bytes);
    }
}

/// Number of the host that owns the data, by other proof than reservations.
#[derive(Clone, Debug, Default)]
pub(super) struct Owner(Arc<AtomicUsize>);

impl Owner {
    pub(super) fn set(&self, host: usize) {
        self.0.store(host, Ordering::Relaxed);
    }
}

/// A host.
#[derive(Debug)]
pub(super) struct Host {
    number: usize,
    owner: Owner,
    lane: Lane,
    adapter: Arc<Adapter>,
    dialer: Arc<Dialer>,
    target: usize,
    device: Option<Arc<MultipathDevice>>,
    completions: Vec<(u64, Outcome)>,
}

impl Host {
    /// Makes a host with `sessions` sessions over each of `portals` portals.
    pub(super) fn new(
        (number, owner): (usize, &Owner),
        (portals, sessions): (usize, u32),
        session: SessionSettings,
        devices: DeviceSettings,
        random: Random,
    ) -> Self {
        let dialer = Arc::new(Dialer(Mutex::new(DialerState {
            random,
            dialed: Vec::new(),
            unreachable: Vec::new(),
        })));
        // Nobody sleeps, so nobody has to be woken.
        let mut lane = Lane::without_io_uring(Arc::new(|| {}));
        let outside = Arc::clone(&dialer) as Arc<dyn Outside>;
        let adapter = Adapter::connected_by(outside, &mut lane, devices).expect("a descriptor");
        let route = |portal| Route {
            portal: portal_address(portal).to_string(),
            bind: None,
        };
        let settings = TargetSettings {
            name: TARGET.to_owned(),
            routes: (0..portals).map(route).collect(),
            sessions,
            lun: None,
            session,
        };
        let target = adapter.log_in(settings).expect("portals are addresses");
        Self {
            number,
            owner: owner.clone(),
            lane,
            adapter,
            dialer,
            target,
            device: None,
            completions: Vec::new(),
        }
    }

    /// Makes a portal reachable from this host, or not.
    pub(super) fn set_reachable(&self, portal: usize, is_reachable: bool) {
        let mut state = self.dialer.lock();
        state.unreachable.retain(|other| *other != portal);
        if !is_reachable {
            state.unreachable.push(portal);
        }
    }

    /// Does all that can be done now.
    pub(super) fn step(&mut self, now: Instant) {
        for _ in 0..TURNS {
            self.lane.submit_batch();
            self.lane.take_completions(&mut self.completions);
            if self.lane.next_deadline().is_none_or(|due| due > now) {
                return;
            }
        }
        panic!("an adapter always has something to do");
    }

    /// Returns the time of the next step.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.lane.next_deadline()
    }

    /// Takes the connections that were begun, with their portals.
    pub(super) fn take_dialed(&mut self) -> Vec<(usize, UnixStream)> {
        std::mem::take(&mut self.dialer.lock().dialed)
    }

    /// Takes the requests that ended.
    pub(super) fn take_completions(&mut self) -> Vec<(u64, Outcome)> {
        std::mem::take(&mut self.completions)
    }

    /// Returns the multipath device, once every session has logged in for the first time.
    pub(super) fn device(&mut self) -> Option<Arc<MultipathDevice>> {
        if self.device.is_none() {
            let sessions = self.adapter.sessions();
            if sessions.iter().all(|session| session.is_scanned) {
                let device = self.adapter.device(self.target, None);
                self.device = device.map(Arc::new);
            }
        }
        self.device.clone()
    }

    /// Submits a request. Its end comes with the completions.
    pub(super) fn submit(&mut self, token: u64, request: Request) {
        let device = self.device().expect("the device is there");
        if let Submitted::Ready(outcome) =
            device.submit(request, Ticket::new(token), &mut self.lane)
        {
            self.completions.push((token, outcome));
        }
    }

    /// Returns the host's claim to the device, under the key of an opening.
    pub(super) fn fence(&self, opening: u64) -> Fence {
        let (number, owner) = (self.number, Arc::clone(&self.owner.0));
        Fence {
            key: ReservationKey::new(&format!("host-{number}"), opening),
            is_owner: Arc::new(move || owner.load(Ordering::Relaxed) == number),
        }
    }

    /// Gives an order about the reservation of the device.
    pub(super) fn order(&mut self, order: FenceOrder) -> Fencing {
        let device = self.device().expect("the device is there");
        device.fence(order).expect("it is at the end of a wire")
    }

    /// Returns the number of logins of all sessions.
    pub(super) fn logins(&self) -> u64 {
        let sessions = self.adapter.sessions();
        sessions.iter().map(|session| session.logins).sum()
    }

    /// Says in words how the sessions and the device are.
    pub(super) fn describe(&self) -> String {
        format!(
            "{:#?}\n{:#?}",
            self.adapter.sessions(),
            self.adapter.devices()
        )
    }
}
