//! Devices that the pool does not use any more are let go, and wiped where they left it for good.

use std::path::PathBuf;
use std::sync::Arc;

use store::pool::RequestId;

use super::super::fence::Named;
use super::{Engine, Waiter};
use crate::import::opening::paths;
use block::BlockDevice;

/// A device that left the pool.
pub(super) struct Farewell {
    guid: u64,
    path: Option<PathBuf>,
    device: Option<Arc<dyn BlockDevice>>,
}

impl Engine {
    /// Lets devices go that the pool does not use any more. Those that left it for good are wiped when its
    /// labels say so: they must not be taken for a part of it.
    pub(super) fn unused(&mut self) {
        let Some(pool) = &mut self.pool else { return };
        for (leaf, device) in self.devices.unused(pool) {
            let guid = pool.guid(leaf).unwrap_or(0);
            let is_spare = pool.config().spares.iter().any(|spare| spare.guid == guid);
            if is_spare && !pool.is_removed(leaf) {
                // Also while it is in a slot, put aside: from there it may leave and stand ready.
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
        // Those that took a place for good while they were put aside.
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

    /// The pool is let go: other hosts may write to its devices.
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
    /// Of what may be used again: then it is opened again.
    fn of(guid: u64, device: Arc<dyn BlockDevice>) -> Self {
        Self {
            guid,
            path: None,
            device: Some(device),
        }
    }

    /// Closes the device, wiped where it left for good. On a thread of its own: a device that failed may
    /// keep who talks to it waiting for long.
    pub(super) fn end(self, is_wiped: bool) {
        let work = move || {
            if let (Some(path), Some(device)) = (self.path.filter(|_| is_wiped), &self.device)
                && let Err(error) = crate::devices::label::wipe_leaf(&**device, self.guid)
            {
                let path = path.display();
                tracing::warn!(%path, %error, "the labels of a device that left its pool are not wiped");
            }
            drop(self.device);
        };
        // Without a thread the device is closed here, and its labels stay: they are older than the pool's.
        let _ = std::thread::Builder::new()
            .name("farewell".to_owned())
            .spawn(work);
    }
}
