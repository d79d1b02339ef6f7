//! A watch on state that backends report besides answers to requests. For thin units this is the
//! space: the device server warns initiators when the soft threshold is reached. For volumes it is
//! the properties `sync` and `readonly`, which decide what initiators are told of a write cache and
//! of write protection.
//!
//! The watch has its own thread, because a question may block (a network file system that hangs).
//! The thread sleeps without end while no unit needs it.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use super::directory::Directory;
use super::recurring::Recurring;
use super::shared::Shared;
use unit::unit::Unit;

/// Time between two looks. A threshold is crossed long before the pool is full, so it need not be
/// noticed at once.
const INTERVAL: Duration = Duration::from_secs(1);

/// Monitor of backends.
#[derive(Debug)]
pub(super) struct SpaceMonitor(Recurring);

impl SpaceMonitor {
    /// Starts the thread.
    ///
    /// # Errors
    /// The kernel refuses a thread.
    pub(super) fn start(shared: Arc<Shared>) -> io::Result<(Self, JoinHandle<()>)> {
        let (control, orders) = Recurring::new();
        // The directory is not kept while sleeping: units that were deleted let go of their files.
        let look = move || watched(&shared.directory()).for_each(|unit| unit.look_at_space());
        let thread = orders.start("space", INTERVAL, look)?;
        Ok((Self(control), thread))
    }

    /// Sets the units to watch. It does not look at once: otherwise each verb would ask all units
    /// for their space, and a new unit was looked at when it was opened.
    pub(super) fn watch(&self, directory: &Directory) {
        self.0.set_needed(watched(directory).next().is_some());
    }

    /// Ends the thread.
    pub(super) fn stop(&self) {
        self.0.stop();
    }
}

fn watched(directory: &Directory) -> impl Iterator<Item = &Arc<Unit>> {
    let units = directory.units.values();
    units.filter(|unit| unit.is_watched())
}
