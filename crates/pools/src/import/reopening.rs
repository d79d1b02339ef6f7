//! Reopening of a pool that takes no more changes because its devices failed or were missing for
//! too long. The pool is opened from the data on its devices, as after a crash. Its host stays, so
//! the users of its volumes go on. Meanwhile commands are answered with BUSY if the devices are
//! other machines', and with errors if an administrator must act first.
//!
//! The order matters:
//! 1. All requests to the devices are answered. A write that is still under way would hit data
//!    written later;
//! 2. The old engine goes, with all that it held in memory and never promised. Volumes with such
//!    writes fail their flushes from now on (`engine/unflushed.rs`);
//! 3. Only then are the labels read. From here on this is an import like any other: the log is
//!    replayed to its end, and all promised writes are found.

use std::path::PathBuf;
use std::time::Instant;

use store::engine::{PoolStatus, Stop};

use crate::condition::is_troubled;
use crate::devices::known::{KnownDevice, KnownPool};
use crate::opener_turn::Turn;
use crate::registry::{OpenPool, Pools};
use model::device_name::is_remote;
use model::{Error, ErrorKind};

impl Pools {
    /// Reopens a pool that takes no more changes, if its disks are back.
    pub(crate) fn go_on(&self, name: &str, pool: &OpenPool, status: Option<&PoolStatus>) {
        let there = self.troubled_there(pool, status);
        let mut attempts = pool.attempts();
        let attempt = attempts.entry(pool.guid).or_default();
        if !attempt.is_due(&there, Instant::now()) || there.is_empty() {
            return;
        }
        attempt.made(there, Instant::now());
        drop(attempts);
        let _changing = self.changing();
        match self.reopen(name, pool) {
            Ok(()) => tracing::info!(pool = name, "the pool resumed"),
            Err(error) => tracing::info!(pool = name, %error, "the pool cannot resume yet"),
        }
    }

    /// Returns the disks that are present, among those that may have stopped the pool.
    fn troubled_there(&self, pool: &OpenPool, status: Option<&PoolStatus>) -> Vec<PathBuf> {
        // No record could be written. Whichever disk caused that may be back.
        let is_silent = status.is_some_and(|of| matches!(of.stopped, Some(Stop::Silent(_))));
        let is_troubled = |guid: &u64, is_remote: bool| {
            status.is_none_or(|status| {
                let tops = status.top_levels.iter();
                let mut leaves = tops.flat_map(|top| top.slots.iter().flat_map(|of| &of.leaves));
                leaves.any(|leaf| leaf.guid == *guid && (is_silent || is_troubled(leaf, is_remote)))
            })
        };
        let places = pool.host.places().into_iter();
        let troubled = places.filter(|(guid, at)| is_troubled(guid, is_remote(&at.path)));
        let paths = troubled.map(|(_, at)| at.path);
        paths
            .filter(|path| self.options.disks.is_there_now(path))
            .collect()
    }

    /// Reopens a pool that takes no more changes.
    ///
    /// # Errors
    /// The pool is working, a device has not answered, or the pool cannot be opened. In the last
    /// case the pool stays shut, and the reason is kept.
    pub(crate) fn reopen(&self, name: &str, pool: &OpenPool) -> Result<(), Error> {
        pool.host.let_go().map_err(|error| {
            Error::new(
                ErrorKind::Unavailable,
                format!("pool {name} cannot be reopened: {}", error.context),
                format!(
                    "try again when its devices have answered, or were removed from the machine; see \
                     `sandstone pool status {name}`"
                ),
            )
        })?;
        let known = self.known(name, pool);
        let opened = self.open_known(&known, Some(pool), &mut Turn::kept());
        opened.inspect_err(|error| {
            pool.host.stay_shut(&error.message, &error.next);
        })
    }

    /// Returns the entry of an open pool in `pools.json`.
    pub(crate) fn known(&self, name: &str, pool: &OpenPool) -> KnownPool {
        let places = pool.host.places().into_iter();
        let devices = places.map(|(guid, place)| {
            let seen_at = self.options.disks.targets_of(&place.path);
            // A missing device is seen nowhere. It is awaited where it was.
            let targets = match seen_at.is_empty() {
                true => place.targets,
                false => seen_at,
            };
            KnownDevice {
                identity: place.identity,
                generation: pool.host.generation(),
                ..KnownDevice::new(guid, place.path, targets)
            }
        });
        KnownPool {
            name: name.to_owned(),
            guid: format!("{:016x}", pool.guid),
            devices: devices.collect(),
            is_read_only: pool.host.is_read_only(),
        }
    }
}
