//! Later tries to serve what could not be served at the start: an address that did not exist yet, a
//! file that an earlier daemon still held, a disk that came late. A restart must not leave a unit
//! out for good.
//!
//! The tries have their own thread, because opening may block. The thread sleeps without end while
//! nothing is missing.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use super::Service;
use super::applied::Applied;
use crate::connection::listener;
use crate::gateway;
use crate::recurring::Orders;
use config::placement;
use model::data_plane::ApplyError;
use unit::retirement::Retirement;
use unit::unit::Unit;

/// Time between two tries.
const INTERVAL: Duration = Duration::from_secs(2);

/// Starts the thread.
///
/// # Errors
/// The kernel refuses a thread.
pub(super) fn start(orders: Orders, service: Weak<Service>) -> io::Result<JoinHandle<()>> {
    orders.start("second-try", INTERVAL, move || {
        if let Some(service) = service.upgrade() {
            service.try_again();
        }
    })
}

impl Service {
    /// Opens units and binds portals that failed before, if they succeed now.
    pub(super) fn try_again(&self) {
        // Tries run one after another: two that opened one unit would serve it twice.
        let _trying = self.trying.lock().unwrap_or_else(PoisonError::into_inner);
        self.close_what_is_over();
        let config = Arc::clone(&self.lock().config);
        self.host.try_again(&config.initiator);
        // First: units may be volumes of them.
        self.opener.backends.pools.try_again();
        self.follow_volumes();
        let before = self.lock().clone();
        self.second_try.set_needed(self.is_waiting(&before));
        let units = before.config.units.iter();
        gateway::follow_devices(
            &self.opener.backends,
            units.filter_map(|spec| Some((spec, before.units.get(&spec.name)?))),
        );
        let (mut opened, mut faults): (Vec<Arc<Unit>>, _) = (Vec::new(), Vec::new());
        for unit in placement::placed(&before.config) {
            let name = &unit.spec.name;
            if !before.faults.contains_key(name) {
                continue;
            }
            // This runs outside the lock, because it may take its time.
            match self
                .opener
                .open(unit, before.units.values(), Duration::ZERO)
            {
                Ok(unit) => opened.push(unit),
                Err(fault) => faults.push((name.clone(), fault)),
            }
        }
        let bound: Vec<(SocketAddr, TcpListener)> = before
            .unbound
            .keys()
            .filter_map(|address| Some((*address, listener::bind(*address).ok()?)))
            .collect();
        let _changing = self.one_change_at_a_time();
        for (name, fault) in faults {
            // The reason why it is not served may have changed.
            if let Some(known) = self.lock().faults.get_mut(&name) {
                *known = fault;
            }
        }
        let mut applied = self.lock().clone();
        if (opened.is_empty() && bound.is_empty()) || !Arc::ptr_eq(&before.config, &applied.config)
        {
            // A configuration that was put in force meanwhile has made its own tries.
            return;
        }
        for unit in opened {
            // It never replaces a unit that is served, which has reservations, and commands under
            // way.
            if applied.units.contains_key(&unit.name) || applied.faults.remove(&unit.name).is_none()
            {
                continue;
            }
            tracing::info!(unit = unit.name, "a logical unit is served now");
            applied.units.insert(unit.name.clone(), unit);
        }
        for (address, socket) in bound {
            tracing::info!(portal = %address, "a portal is served now");
            applied.unbound.remove(&address);
            applied.listeners.insert(address, Arc::new(socket));
        }
        self.publish(applied);
    }

    /// Lets units that are not served follow their volumes. A pool may have opened in which these
    /// have other names.
    fn follow_volumes(&self) {
        let is_faulty = !self.lock().faults.is_empty();
        if let Some(follow) = self.follow.get().filter(|_| is_faulty) {
            follow.0();
        }
    }

    /// Replaces units whose devices will never serve a request again, because their pool was
    /// exported, by stand-ins. When the pool is imported, the units are opened anew. Initiators
    /// that are logged in are told so as of a unit that was reset.
    fn close_what_is_over(&self) {
        let is_over = |unit: &Arc<Unit>| unit.device.is_over();
        if !self.lock().units.values().any(is_over) {
            return;
        }
        let _changing = self.one_change_at_a_time();
        let mut applied = self.lock().clone();
        let over: Vec<_> = applied
            .units
            .values()
            .filter(|unit| is_over(unit))
            .cloned()
            .collect();
        // The units are opened anew at once, with their stored state. A unit whose state is not
        // final waits for the next try.
        let retirement = Retirement::begin_where_possible(&*self.shared, over);
        for unit in retirement.units() {
            let name = unit.name.clone();
            tracing::warn!(
                unit = name,
                "a logical unit is no longer ready: its device was taken away"
            );
            applied.units.remove(&name);
            let spec = applied.config.unit(&name);
            let stand_in = spec.and_then(|spec| self.opener.stand_in(spec, unit.device.geometry()));
            applied
                .stand_ins
                .extend(stand_in.map(|stand_in| (name.clone(), stand_in)));
            let fault = ApplyError {
                object: format!("lu {name}"),
                message: "its device was taken away".into(),
                next: "import the pool of the device".into(),
            };
            applied.faults.insert(name, fault);
        }
        self.publish(applied);
        drop(retirement.complete());
    }

    /// Reports whether a unit or portal is not served that may be later.
    pub(super) fn is_waiting(&self, applied: &Applied) -> bool {
        let is_over = |unit: &Arc<Unit>| unit.device.is_over();
        !applied.faults.is_empty()
            || applied.units.values().any(is_over)
            || !applied.unbound.is_empty()
            || self.host.is_incomplete()
            || self.opener.backends.pools.waits_for_disks()
    }
}
