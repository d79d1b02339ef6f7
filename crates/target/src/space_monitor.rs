//! Watches what backends tell besides answers to requests. Of thin units the space: the device server warns
//! initiators when the soft threshold is reached. Of volumes the properties `sync` and `readonly`: they decide
//! what initiators are told of a write cache and of write protection.
//!
//! A thread of its own, for asking may block (a network file system that hangs). It sleeps without end
//! while no unit needs it.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use scsi::medium::thin_provisioning::Space;

use super::directory::Directory;
use super::recurring::Recurring;
use super::shared::Shared;
use unit::unit::Unit;

/// Time between looks. A threshold is crossed long before the pool is full, so it need not be noticed
/// in the same moment.
const INTERVAL: Duration = Duration::from_secs(1);

/// The monitor.
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
        let look = move || watched(&shared.directory()).for_each(|unit| look_at(unit));
        let thread = orders.start("space", INTERVAL, look)?;
        Ok((Self(control), thread))
    }

    /// These are the units from now on. Nobody looks at once: each verb would ask all units for their space, and a new
    /// one was looked at when it was opened.
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
    let there = units.filter(|unit| !unit.logical.stands_in());
    there.filter(|unit| unit.logical.is_thin() || unit.device.durability().is_some())
}

fn look_at(unit: &Unit) {
    let usage = match unit.device.usage() {
        Ok(usage) => usage,
        Err(error) => {
            tracing::debug!(unit = unit.name, %error, "the backend does not tell its space");
            return;
        }
    };
    unit.follow_device();
    let Some(pool) = usage.pool.filter(|_| unit.logical.is_thin()) else {
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
