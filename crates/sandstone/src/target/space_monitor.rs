//! Watches the space of thin units: asks their backends how much is left and tells the device server,
//! which warns initiators when the soft threshold is reached.
//!
//! A thread of its own, for asking may block (a network file system that hangs). It sleeps without end
//! while no unit is thin.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use scsi::thin_provisioning::Space;

use super::shared::Shared;
use super::unit::Unit;

/// Time between looks. A threshold is crossed long before the pool is full, so it need not be noticed
/// in the same moment.
const INTERVAL: Duration = Duration::from_secs(1);

/// The monitor's control.
#[derive(Debug)]
pub(super) struct SpaceMonitor {
    orders: Mutex<Sender<Order>>,
}

#[derive(Debug)]
enum Order {
    /// The units changed.
    Look,
    Stop,
}

impl SpaceMonitor {
    /// Starts the thread.
    ///
    /// # Errors
    /// The kernel refuses a thread.
    pub(super) fn start(shared: Arc<Shared>) -> io::Result<(Self, JoinHandle<()>)> {
        let (orders, receiver) = channel();
        let thread = std::thread::Builder::new()
            .name("space".into())
            .spawn(move || run(&shared, &receiver))?;
        Ok((
            Self {
                orders: Mutex::new(orders),
            },
            thread,
        ))
    }

    /// Looks now: the units changed.
    pub(super) fn look(&self) {
        self.send(Order::Look);
    }

    /// Ends the thread.
    pub(super) fn stop(&self) {
        self.send(Order::Stop);
    }

    fn send(&self, order: Order) {
        // A thread that has ended needs no orders.
        let _ = self
            .orders
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .send(order);
    }
}

fn run(shared: &Shared, orders: &Receiver<Order>) {
    let mut watching = false;
    loop {
        let order = if watching {
            orders.recv_timeout(INTERVAL)
        } else {
            orders.recv().map_err(|_| RecvTimeoutError::Disconnected)
        };
        if matches!(order, Ok(Order::Stop) | Err(RecvTimeoutError::Disconnected)) {
            return;
        }
        // Not kept while sleeping: units that were deleted let go of their files.
        let directory = shared.directory();
        let thin = |unit: &&Arc<Unit>| unit.logical.is_thin();
        watching = false;
        for unit in directory.units.values().filter(thin) {
            watching = true;
            look_at(unit);
        }
    }
}

fn look_at(unit: &Unit) {
    let usage = match unit.device.usage() {
        Ok(usage) => usage,
        Err(error) => {
            tracing::debug!(unit = unit.name, %error, "the backend does not tell its space");
            return;
        }
    };
    let Some(pool) = usage.pool else {
        return;
    };
    let reached = unit.logical.note_space(Space {
        available: unit.blocks(pool.available),
        used: unit.blocks(usage.allocated),
        capacity: unit.blocks(pool.capacity),
    });
    if reached {
        tracing::warn!(
            unit = unit.name,
            available_bytes = pool.available,
            capacity_bytes = pool.capacity,
            "the thin-provisioning soft threshold is reached; initiators are told"
        );
    }
}
