//! Return of missing disks: a pool uses a disk again on its own once the disk's name or a session
//! shows it. A cable that was out for a minute is no reason to call an administrator. A disk that
//! an administrator took offline stays offline.
//!
//! | event | shown by |
//! |---|---|
//! | a disk of another machine is back | its session |
//! | a local disk or file is back | its path exists, and its labels name the leaf |
//! | a disk is gone | its requests fail; or its name goes while others hold its data |
//!
//! A failed disk whose name then goes was pulled. It counts as missing, and returns like any other.
//! A failed disk that keeps its name stays as it is until an administrator clears it.

use std::path::PathBuf;
use std::time::Instant;

use store::engine::{PoolError, PoolStatus, Stop};
use store::vdev::VdevState;

use super::unasked::expands;
use crate::devices::known::KnownPool;
use crate::opener_turn::Turn;
use crate::order::Hands;
use crate::registry::{OpenPool, Pools};
use model::device_name::is_remote;
use model::pool::vdev_change::VdevChange;

impl Pools {
    /// Opens pools that lacked a disk, reopens pools that stopped for want of a disk, and uses
    /// returned disks again. May block.
    pub fn try_again(&self) {
        if self.is_list_behind() {
            let _changing = self.changing();
            self.keep();
        }
        self.search_on();
        for pool in self.absent() {
            self.try_to_open(&pool.known);
        }
        for (name, pool) in self.all() {
            if pool.host.is_read_only() {
                continue;
            }
            self.notice_pulled(&name, &pool);
            match asked(&pool) {
                // Another host has the pool. An administrator decides whether this host takes it
                // back.
                Ok((status, _)) if is_anothers(&status) => {}
                Ok((status, _)) if status.suspended.is_some() => {
                    self.go_on(&name, &pool, Some(&status));
                }
                Ok((status, ready)) => {
                    let away = away(&pool, &status, &ready);
                    self.use_again(&name, &pool, away);
                    self.expand_grown(&name, &pool);
                }
                Err(_) if is_to_be_reopened(&pool) => self.go_on(&name, &pool, None),
                // A pool whose engine ended has nothing that could return.
                Err(_) => {}
            }
        }
    }

    /// Opens a pool if some of its disks are there. It does not need all: a disk may have been dead
    /// for long. Each attempt checks whether the missing disks may have gone on alone.
    fn try_to_open(&self, known: &KnownPool) {
        let paths = known.devices.iter().map(|device| &device.path);
        let there = paths.filter(|path| self.options.disks.is_there_now(path));
        let there: Vec<PathBuf> = there.cloned().collect();
        let name = &known.name;
        if there.is_empty() || !self.is_due(name, &there) {
            return;
        }
        let mut turn = Turn::of(&self.turns);
        if !self.is_absent(known) {
            return;
        }
        match self.open_known(known, None, &mut turn) {
            Ok(()) => tracing::info!(pool = name, "the pool is open"),
            Err(error) => {
                let reason = error.message.clone();
                if self.still_absent(name, error) {
                    tracing::info!(pool = name, reason, "the pool is not open yet");
                }
            }
        }
    }

    /// Reports whether a pool is known under this name and number, and not open.
    pub(crate) fn is_absent(&self, known: &KnownPool) -> bool {
        self.absent().iter().any(|other| other.known == *known)
    }

    /// Uses returned disks again.
    fn use_again(&self, name: &str, pool: &OpenPool, away: Vec<(u64, PathBuf)>) {
        for (guid, path) in away {
            let is_there = self.options.disks.is_there_now(&path);
            let at = path.clone();
            let there = is_there.then_some(path);
            let now = Instant::now();
            let is_due = {
                let mut attempts = pool.attempts();
                let attempt = attempts.entry(guid).or_default();
                let is_due = attempt.is_due(there.as_slice(), now);
                if is_due && is_there {
                    attempt.made(there.into_iter().collect(), now);
                }
                is_due
            };
            if !is_there || !is_due {
                continue;
            }
            let done = match self.replaces_itself(pool, &at) {
                true => self.autoreplace(name, guid, &at),
                false => self.change_vdevs(
                    name,
                    &VdevChange::Online {
                        devices: vec![format!("{guid:016x}")],
                        expand: false,
                    },
                ),
            };
            let device = at.display();
            match done {
                Ok(()) => {
                    pool.attempts().remove(&guid);
                    tracing::info!(pool = name, %device, "a disk is back");
                }
                // For example, its requests from before the loss are not answered yet.
                Err(error) => {
                    if pool.host.note_trouble(guid, &error.message) {
                        tracing::info!(pool = name, %device, %error, "a disk is back but cannot be used yet");
                    }
                }
            }
        }
    }

    /// Reports whether [`Self::try_again`] may have work.
    pub fn waits_for_disks(&self) -> bool {
        let absent = self.absent();
        let is_short = |pool: &OpenPool| match asked(pool) {
            Ok((status, _)) if is_anothers(&status) => false,
            Ok((status, ready)) => {
                status.suspended.is_some() || !away(pool, &status, &ready).is_empty()
            }
            Err(_) => is_to_be_reopened(pool),
        };
        let mut open = self.all().into_iter();
        self.is_list_behind()
            || !absent.is_empty()
            || open
                .any(|(_, pool)| !pool.host.is_read_only() && (is_short(&pool) || expands(&pool)))
    }

    /// Returns the pool that lies on another machine's disk and is not open, so that nothing holds
    /// the disk for it.
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

    /// Returns the disks of other machines that pools lie on, each with the name of its pool.
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

/// Reports whether another host was found to have the pool.
fn is_anothers(status: &PoolStatus) -> bool {
    status.stopped.as_ref().is_some_and(Stop::is_anothers)
}

fn is_to_be_reopened(pool: &OpenPool) -> bool {
    pool.host.shut().is_some_and(|shut| shut.is_to_be_reopened)
}

/// Returns the state of a pool, and the spares that have a device.
fn asked(pool: &OpenPool) -> Result<(PoolStatus, Vec<u64>), PoolError> {
    let asked = |hands: &mut Hands<'_>| (hands.pool.status(), hands.devices.ready_spares());
    pool.host.handle(asked)
}

/// Returns the disks that went away or were not found, with their last places. No administrator
/// took them offline, and they did not fail. `ready` are the spares that have a device.
fn away(pool: &OpenPool, status: &PoolStatus, ready: &[u64]) -> Vec<(u64, PathBuf)> {
    let tops = status.top_levels.iter();
    let leaves = tops.flat_map(|top| top.slots.iter().flat_map(|slot| &slot.leaves));
    let leaves = leaves.map(|leaf| (leaf.guid, leaf.state));
    let caches = status.caches.iter().map(|cache| (cache.guid, cache.state));
    let lost = leaves
        .chain(caches)
        .filter(|(_, state)| matches!(state, VdevState::Removed | VdevState::Unavailable));
    let lost = lost.map(|(guid, _)| guid);
    let spares = status.spares.iter().copied();
    let lost = lost.chain(spares.filter(|guid| !ready.contains(guid)));
    let places = pool.host.places();
    let lost = lost.filter_map(|guid| Some((guid, places.get(&guid)?.path.clone())));
    lost.collect()
}
