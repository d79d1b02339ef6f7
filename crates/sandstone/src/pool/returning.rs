//! Disks of other machines that come back: used again by themselves as soon as a session shows them. A cable that
//! was out for a minute is no reason to call an administrator; what an administrator put aside stays there.

use std::path::{Path, PathBuf};

use store::vdev::State;

use super::administer::VdevChange;
use super::disks::is_remote;
use super::known::KnownPool;
use super::registry::{OpenPool, Pools};

impl Pools {
    /// Opens pools that could not be opened for want of another machine's disk, and uses such disks again that were
    /// away. May block.
    pub fn try_again(&self) {
        let disks = &self.options.disks;
        for pool in self.absent() {
            let remote = remote_of(&pool.known);
            let there = remote.iter().filter(|path| disks.is_there_now(path));
            let there: Vec<PathBuf> = there.map(|path| path.to_path_buf()).collect();
            // Not all of them need come: one may have been dead for long. Whether those that are away may have
            // gone on alone is asked with each try.
            let is_news = there.iter().any(|path| !pool.tried_with.contains(path));
            if remote.is_empty() || !is_news && there.len() < remote.len() {
                continue;
            }
            let _changing = self.changing();
            let is_still_absent = |other: &super::registry::AbsentPool| other.known == pool.known;
            if self.absent().iter().any(is_still_absent) {
                let name = &pool.known.name;
                match self.import_known(&pool.known) {
                    Ok(()) => tracing::info!(pool = name, "the pool is open"),
                    Err(error) => {
                        let reason = error.message.clone();
                        if self.still_absent(name, there, error) {
                            tracing::info!(pool = name, reason, "the pool is not open yet");
                        }
                    }
                }
            }
        }
        for (name, pool) in self.all() {
            for guid in away(&pool) {
                let places = pool.host.places();
                if !places
                    .get(&guid)
                    .is_some_and(|at| disks.is_there_now(&at.path))
                {
                    continue;
                }
                let online = VdevChange::Online {
                    devices: vec![format!("{guid:016x}")],
                    expand: false,
                };
                match self.change_vdevs(&name, &online) {
                    Ok(()) => tracing::info!(pool = name, "another machine's disk is back"),
                    // What it was asked before it went is not answered yet, say.
                    Err(error) => {
                        if pool.host.note_trouble(guid, &error.message) {
                            tracing::info!(pool = name, %error, "another machine's disk cannot be used yet");
                        }
                    }
                }
            }
        }
    }

    /// Whether [`Self::try_again`] may have something to do.
    pub fn waits_for_disks(&self) -> bool {
        let absent = self.absent();
        let is_waiting = |known: &KnownPool| !remote_of(known).is_empty();
        absent.iter().any(|pool| is_waiting(&pool.known))
            || self.all().iter().any(|(_, pool)| !away(pool).is_empty())
    }

    /// The pool that lies on a disk of another machine and is not open: nothing holds the disk for it.
    pub fn waits_for(&self, disk: &str) -> Option<String> {
        let absent = self.absent().into_iter().map(|pool| pool.known);
        let mut on_it = absent.filter(|known| {
            let devices = known.devices.iter();
            devices
                .map(|on| &on.path)
                .any(|path| path.as_os_str() == disk)
        });
        on_it.next().map(|known| known.name)
    }

    /// The disks of other machines that pools lie on, each with the name of its pool.
    pub fn remote_disks(&self) -> Vec<(String, String)> {
        let open = self.all().into_iter().flat_map(|(name, pool)| {
            let places = pool.host.places().into_values();
            places.map(move |place| (name.clone(), place.path))
        });
        let absent = self.absent().into_iter().flat_map(|pool| {
            let devices = pool.known.devices.into_iter();
            devices.map(move |device| (pool.known.name.clone(), device.path))
        });
        let remote = open.chain(absent).filter(|(_, path)| is_remote(path));
        remote
            .map(|(pool, path)| (pool, path.display().to_string()))
            .collect()
    }
}

fn remote_of(known: &KnownPool) -> Vec<&Path> {
    let paths = known.devices.iter().map(|device| device.path.as_path());
    paths.filter(|path| is_remote(path)).collect()
}

/// Disks of other machines that went away or were not found: nobody put them aside, and they did nothing wrong.
fn away(pool: &OpenPool) -> Vec<u64> {
    let places = pool.host.places();
    if !places.values().any(|place| is_remote(&place.path)) {
        return Vec::new();
    }
    // A pool whose engine ended has nothing that could come back.
    let Ok(status) = pool.host.ask(|engine| engine.status()) else {
        return Vec::new();
    };
    let tops = status.top_levels.iter();
    let leaves = tops.flat_map(|top| top.slots.iter().flat_map(|slot| &slot.leaves));
    let leaves = leaves.map(|leaf| (leaf.guid, leaf.state));
    let caches = status.caches.iter().map(|cache| (cache.guid, cache.state));
    let lost = leaves
        .chain(caches)
        .filter(|(_, state)| matches!(state, State::Removed | State::Unavailable));
    lost.map(|(guid, _)| guid)
        .filter(|guid| places.get(guid).is_some_and(|at| is_remote(&at.path)))
        .collect()
}
