//! Devices that the pool no longer uses. They are let go, and wiped if they left the pool for good.

use std::path::PathBuf;
use std::sync::Arc;

use store::engine::RequestId;

use super::super::fence::Named;
use super::{Engine, Waiter};
use crate::import::opening::paths;
use block::BlockDevice;

/// Device that left the pool.
pub(super) struct Farewell {
    guid: u64,
    path: Option<PathBuf>,
    device: Option<Arc<dyn BlockDevice>>,
}

impl Engine {
    /// Lets go of devices that the pool no longer uses. A device that left for good is wiped once
    /// the labels say so: otherwise it could be taken for a part of the pool.
    pub(super) fn unused(&mut self) {
        let Some(pool) = &mut self.pool else { return };
        for (leaf, device) in self.devices.unused(pool) {
            let guid = pool.guid(leaf).unwrap_or(0);
            let is_spare = pool.config().spares.iter().any(|spare| spare.guid == guid);
            if is_spare && !pool.is_removed(leaf) {
                // This also holds for a spare that is in a slot and offline. From there the spare
                // may leave and stand ready.
                self.devices.keep_spare(guid, device);
                continue;
            }
            if pool.leaf(guid).is_some() {
                Farewell::of(guid, device).end(false);
                continue;
            }
            let path = self.shared.places().get(&guid).map(|at| at.path.clone());
            self.next_id += 1;
            let farewell = Farewell {
                guid,
                path,
                device: Some(device),
            };
            self.waiting
                .insert(self.next_id, Waiter::Farewell(farewell));
            pool.sync(RequestId(self.next_id), self.clock.now_us());
        }
        // Spares that took a place for good while they were offline.
        for (guid, device) in self.devices.no_spares(pool) {
            Farewell::of(guid, device).end(false);
        }
        self.devices.tell_away_spares(pool);
        let mut places = self.shared.places();
        let before = places.len();
        places.retain(|guid, _| {
            let is_spare = || pool.config().spares.iter().any(|spare| spare.guid == *guid);
            pool.leaf(*guid).is_some() || is_spare()
        });
        if places.len() != before {
            pool.set_paths(paths(&places));
        }
    }

    /// Lets other hosts write to the devices, because the pool is let go.
    pub(super) fn release_devices(&self) {
        let Some(fence) = self.shared.fence() else {
            return;
        };
        let places = self.shared.places();
        let guid = |leaf| self.pool.as_ref().and_then(|pool| pool.guid(leaf));
        let all = self.devices.all(guid).into_iter();
        let named: Vec<Named> = all
            .map(|(guid, device)| {
                let path = places.get(&guid).map(|at| at.path.clone());
                (path.unwrap_or_default(), device)
            })
            .collect();
        drop(places);
        fence.release(&named);
    }
}

impl Farewell {
    /// Describes a device that may be used again and is reopened then.
    fn of(guid: u64, device: Arc<dyn BlockDevice>) -> Self {
        Self {
            guid,
            path: None,
            device: Some(device),
        }
    }

    /// Closes the device, and wipes it first if it left for good. This runs on a thread of its own,
    /// because a failed device may block its caller for long.
    pub(super) fn end(self, is_wiped: bool) {
        let work = move || {
            if let (Some(path), Some(device)) = (self.path.filter(|_| is_wiped), &self.device)
                && let Err(error) = crate::devices::label::wipe_leaf(&**device, self.guid)
            {
                let path = path.display();
                tracing::warn!(%path, %error, "the labels of a device that left its pool could not be wiped");
            }
            drop(self.device);
        };
        // Without a thread the device is closed here. Its labels stay, but they are older than the
        // pool's.
        let _ = std::thread::Builder::new()
            .name("farewell".to_owned())
            .spawn(work);
    }
}
