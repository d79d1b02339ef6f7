//! Serves later what could not be served at the start: an address that was not there yet, a file that a
//! daemon before us still held, a disk that came late. A restart must not leave a unit out for good.
//!
//! A thread of its own, for opening may block. It sleeps without end while nothing is missing.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use super::service::Service;

/// Time between two tries.
const INTERVAL: Duration = Duration::from_secs(2);

/// The thread's control.
#[derive(Debug)]
pub(super) struct SecondTry {
    orders: Mutex<Sender<Order>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// Something is missing, or nothing is.
    Missing(bool),
    Stop,
}

/// What the thread will listen to.
#[derive(Debug)]
pub(super) struct Orders(Receiver<Order>);

impl SecondTry {
    /// The control, and what [`Orders::start`] starts the thread with.
    pub(super) fn new() -> (Self, Orders) {
        let (orders, receiver) = channel();
        let orders = Mutex::new(orders);
        (Self { orders }, Orders(receiver))
    }

    /// Says whether something is missing.
    pub(super) fn set_missing(&self, missing: bool) {
        self.send(Order::Missing(missing));
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

impl Orders {
    /// Starts the thread.
    ///
    /// # Errors
    /// The kernel refuses a thread.
    pub(super) fn start(self, service: Weak<Service>) -> io::Result<JoinHandle<()>> {
        std::thread::Builder::new()
            .name("second-try".into())
            .spawn(move || run(&self.0, &service))
    }
}

fn run(orders: &Receiver<Order>, service: &Weak<Service>) {
    let mut missing = false;
    loop {
        let order = if missing {
            orders.recv_timeout(INTERVAL)
        } else {
            orders.recv().map_err(|_| RecvTimeoutError::Disconnected)
        };
        match order {
            Ok(Order::Missing(now)) => missing = now,
            Ok(Order::Stop) | Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                let Some(service) = service.upgrade() else {
                    return;
                };
                service.try_again();
            }
        }
    }
}
