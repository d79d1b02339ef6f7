//! A pool that takes no changes any more, since its devices were away for too long or failed: opened anew from what is
//! on them, as after a crash. Its host stays, so whoever uses its volumes goes on; commands meanwhile are answered with
//! BUSY where the devices are other machines', and as errors where somebody has to see to them first.
//!
//! The order that matters:
//! 1. all that the devices were asked is answered. A write that is still on its way would land on what comes next;
//! 2. the old engine goes, with what it held in memory and was never promised; volumes that were told of such writes
//!    fail their flushes from now on (`unflushed.rs`);
//! 3. only then the labels are read. From here on it is an import like any other: the log is followed to its end,
//!    and what was promised is found.

use std::path::PathBuf;
use std::time::Instant;

use store::pool::{PoolStatus, Stop};
use store::vdev::{LeafStatus, State};

use crate::devices::known::{KnownDevice, KnownPool};
use crate::registry::{OpenPool, Pools};
use crate::turn::Turn;
use model::device_name::is_remote;
use model::{Error, ErrorKind};

/// Whether a leaf may be why its pool stopped.
pub(crate) fn is_troubled(leaf: &LeafStatus, is_suspended: bool) -> bool {
    let is_away = matches!(leaf.state, State::Removed | State::Unavailable);
    is_away || is_suspended && (leaf.state == State::Faulted || leaf.errors.write > 0)
}

impl Pools {
    /// Opens a pool anew that takes no changes any more, where its disks are back.
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
            Ok(()) => tracing::info!(pool = name, "the pool goes on"),
            Err(error) => tracing::info!(pool = name, %error, "the pool does not go on yet"),
        }
    }

    /// The disks that are there, of those that may be why the pool stopped.
    fn troubled_there(&self, pool: &OpenPool, status: Option<&PoolStatus>) -> Vec<PathBuf> {
        // No record could be written: whichever disk that was, it may be back.
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

    /// Opens a pool anew that takes no changes any more.
    ///
    /// # Errors
    /// It is at work, a device has not answered, or it cannot be opened; then it stays shut, and the reason is kept.
    pub(crate) fn reopen(&self, name: &str, pool: &OpenPool) -> Result<(), Error> {
        pool.host.let_go().map_err(|error| {
            Error::new(
                ErrorKind::Unavailable,
                format!("pool {name} cannot be opened anew: {}", error.context),
                format!(
                    "try again when they have answered, or have been taken away from the machine; see `sandstone pool \
                     status {name}`"
                ),
            )
        })?;
        let known = self.known(name, pool);
        let opened = self.open_known(&known, Some(pool), &mut Turn::kept());
        opened.inspect_err(|error| {
            pool.host.stay_shut(&error.message, &error.next);
        })
    }

    /// What `pools.json` says of an open pool.
    pub(crate) fn known(&self, name: &str, pool: &OpenPool) -> KnownPool {
        let places = pool.host.places().into_iter();
        let devices = places.map(|(guid, place)| {
            let seen_at = self.options.disks.targets_of(&place.path);
            // One that is away is seen nowhere, and is waited for where it was.
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
