//! Start of this daemon's pools: those of the list in the state folder, or else of the labels.

use std::sync::Arc;

use crate::administer::rebuilding;
use crate::devices::known::{KnownDevice, KnownPool};
use crate::devices::name_watch::NameWatch;
use crate::opener_turn::Turn;
use crate::registry::{Pools, PoolsOptions};
use model::{Error, ErrorKind};

impl Pools {
    /// Imports the pools that the state folder knows. A pool that cannot be imported is shown with
    /// its reason. Neither that pool nor a damaged file prevents the others from being served.
    pub fn start(options: PoolsOptions) -> Arc<Self> {
        let disks = options.disks.clone();
        let names = NameWatch::start(move || disks.look_again());
        let names = names.inspect_err(|error| {
            tracing::warn!(%error, "device names are not watched: the daemon looks for a missing device \
                                    every two seconds");
        });
        let pools = Self::new(options, names.ok());
        let notice = pools.lent().load();
        pools.note_file(notice);
        let known = pools.load_list();
        let devices = known.iter().flat_map(|pool| &pool.devices);
        let devices: Vec<KnownDevice> = devices.cloned().collect();
        pools.options.disks.settle(&devices);
        // All of them are listed before the first is opened: any save meanwhile names them all.
        for pool in &known {
            let error = Error::new(
                ErrorKind::Unavailable,
                "it is being opened",
                "wait until it is open",
            );
            pools.await_pool(pool.clone(), error);
        }
        for pool in known {
            pools.open_or_await(pool);
        }
        pools.keep();
        pools.watch_names();
        Arc::new(pools)
    }

    /// Returns the pools that the state folder knows. If its list is lost, the devices tell them.
    fn load_list(&self) -> Vec<KnownPool> {
        let found = self.list().load();
        let generation = found.content.as_ref().map(|(generation, _)| *generation);
        let known = found.content.map(|(_, pools)| pools).unwrap_or_default();
        let Some(trouble) = found.trouble else {
            return known;
        };
        let hints = rebuilding::folders_named_in(&trouble.damaged);
        let is_whole = !trouble.is_newest_lost && !trouble.is_newer;
        self.list().put_right(generation.filter(|_| is_whole));
        if is_whole {
            self.note_file(Some(format!(
                "{}; its copy in the history was used, so nothing is lost",
                trouble.reason
            )));
            return known;
        }
        let rebuilt = self.rebuild(&known, hints);
        self.note_file(Some(rebuilding::told(&trouble, &rebuilt)));
        for (pool, error) in rebuilt.twins {
            self.await_pool(pool, error);
        }
        rebuilt.pools
    }

    /// Opens a pool of this daemon, or keeps it with the reason why it cannot be opened.
    pub(super) fn open_or_await(&self, known: KnownPool) {
        if let Err(error) = self.open_known(&known, None, &mut Turn::kept()) {
            tracing::error!(
                pool = known.name,
                reason = error.message,
                "a pool could not be opened"
            );
            self.await_pool(known, error);
        }
    }
}
