//! Serves later what could not be served at the start: an address that was not there yet, a file that a
//! daemon before us still held, a disk that came late. A restart must not leave a unit out for good.
//!
//! A thread of its own, for opening may block. It sleeps without end while nothing is missing.

use std::io;
use std::sync::Weak;
use std::thread::JoinHandle;
use std::time::Duration;

use super::recurring::Orders;
use super::service::Service;

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
