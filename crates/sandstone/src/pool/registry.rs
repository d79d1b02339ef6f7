//! The pools of this daemon: those that are open, and those that it knows of and could not open.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use store::cache::Cache;

use super::attempt::Attempt;
use super::disks::Disks;
use super::host::PoolHost;
use super::known::{self, KnownDevice, KnownPool};
use super::lent::{self, Lent};
use super::multihost::WaitView;
use super::volume::PoolVolume;
use crate::block::open::OpenError;
use crate::config::{Error, ErrorKind};

/// How pools are kept.
#[derive(Clone, Debug)]
pub struct PoolsOptions {
    /// The state folder.
    pub state: PathBuf,
    /// The installation that the state folder belongs to: who a pool's labels say has it.
    pub installation: String,
    /// Bytes of memory for blocks of all pools.
    pub cache: usize,
    /// Use io_uring where the kernel allows it.
    pub io_uring: bool,
    /// Where devices come from.
    pub disks: Disks,
}

/// All pools.
#[derive(Debug)]
pub struct Pools {
    pub(super) options: PoolsOptions,
    state: Mutex<State>,
    lent: Mutex<Lent>,
    /// Held while a pool comes or goes, so that these happen one after the other.
    changing: Mutex<()>,
    /// Imports that wait for the proof that no other host has the pool, by its number.
    waits: Mutex<BTreeMap<u64, WaitView>>,
    /// The daemon ends: streams are not waited for.
    is_ending: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    open: BTreeMap<String, Arc<OpenPool>>,
    /// Known, and not open.
    absent: BTreeMap<String, AbsentPool>,
}

/// A pool that is open.
#[derive(Debug)]
pub struct OpenPool {
    /// Its engine.
    pub host: Arc<PoolHost>,
    /// Its number.
    pub guid: u64,
    /// What was tried in vain: by the number of a leaf, or by the pool's where that was to go on as a whole.
    attempts: Mutex<BTreeMap<u64, Attempt>>,
}

impl OpenPool {
    pub(super) fn new(host: PoolHost, guid: u64) -> Self {
        Self {
            host: Arc::new(host),
            guid,
            attempts: Mutex::default(),
        }
    }

    /// # Errors
    /// It was imported to be read only.
    pub(super) fn require_writable(&self) -> Result<(), Error> {
        if !self.host.is_read_only() {
            return Ok(());
        }
        let name = self.host.name();
        Err(Error::new(
            ErrorKind::Refused,
            format!("pool {name} was imported to be read only"),
            format!(
                "to change it, use `sandstone pool export {name}`, then `sandstone pool import {name}` without -o \
                 readonly=on"
            ),
        ))
    }

    /// What was tried in vain.
    pub(super) fn attempts(&self) -> MutexGuard<'_, BTreeMap<u64, Attempt>> {
        // Every change is one assignment: a panic leaves nothing halfway.
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A pool that should be open.
#[derive(Clone, Debug)]
pub(super) struct AbsentPool {
    pub(super) known: KnownPool,
    /// Why it is not.
    pub(super) reason: String,
    /// What to do about it.
    pub(super) next: String,
    /// How it was tried.
    pub(super) attempt: Attempt,
}

impl Pools {
    /// Imports the pools that the state folder knows. One that cannot be imported is shown with its
    /// reason, and keeps nothing else from being served.
    ///
    /// # Errors
    /// The list of known pools cannot be read.
    pub fn start(options: PoolsOptions) -> Result<Arc<Self>, Error> {
        let known = known::load(&options.state)
            .map_err(|error| Error::storage("read pools.json of the state folder", error))?;
        let lent = lent::load(&options.state)
            .map_err(|error| Error::storage("read lent.json of the state folder", error))?;
        let pools = Self {
            options,
            state: Mutex::default(),
            lent: Mutex::new(lent),
            changing: Mutex::default(),
            waits: Mutex::default(),
            is_ending: AtomicBool::new(false),
        };
        let devices = known.iter().flat_map(|pool| &pool.devices);
        let devices: Vec<KnownDevice> = devices.cloned().collect();
        pools.options.disks.settle(&devices);
        for pool in known {
            if let Err(error) = pools.open_known(&pool, None) {
                let (reason, next) = (error.message, error.next);
                tracing::error!(pool = pool.name, reason, "a pool is not open");
                let name = pool.name.clone();
                let absent = AbsentPool {
                    known: pool,
                    reason,
                    next,
                    attempt: Attempt::default(),
                };
                pools.lock().absent.insert(name, absent);
            }
        }
        Ok(Arc::new(pools))
    }

    /// No pools, and none that the state folder knows.
    pub fn none(state: &Path) -> Arc<Self> {
        Arc::new(Self {
            options: PoolsOptions {
                state: state.to_owned(),
                installation: String::new(),
                cache: 0,
                io_uring: true,
                disks: Disks::default(),
            },
            state: Mutex::default(),
            lent: Mutex::default(),
            changing: Mutex::default(),
            waits: Mutex::default(),
            is_ending: AtomicBool::new(false),
        })
    }

    /// The open pool of that name.
    ///
    /// # Errors
    /// There is none, or it is not open and why.
    pub fn get(&self, name: &str) -> Result<Arc<OpenPool>, Error> {
        let state = self.lock();
        if let Some(pool) = state.open.get(name) {
            return Ok(Arc::clone(pool));
        }
        Err(match state.absent.get(name) {
            Some(absent) => Error::new(
                ErrorKind::Unavailable,
                format!("pool {name} is not open: {}", absent.reason),
                format!("see `sandstone pool status {name}`"),
            ),
            None => Error::not_found(
                format!("there is no pool {name}"),
                "see `sandstone pool list`, or `sandstone pool import` for pools that could be imported",
            ),
        })
    }

    /// The open pools, by name.
    pub fn all(&self) -> Vec<(String, Arc<OpenPool>)> {
        let state = self.lock();
        let pools = state.open.iter();
        pools
            .map(|(name, pool)| (name.clone(), Arc::clone(pool)))
            .collect()
    }

    /// Why a pool that is known is not open; `None` where it is open, or not known.
    pub(super) fn why_absent(&self, name: &str) -> Option<String> {
        let state = self.lock();
        match state.open.contains_key(name) {
            true => None,
            false => Some(state.absent.get(name)?.reason.clone()),
        }
    }

    /// The known pools that are not open.
    pub(super) fn absent(&self) -> Vec<AbsentPool> {
        self.lock().absent.values().cloned().collect()
    }

    /// Whether a pool that is not open is to be tried with these disks of other machines; then that is noted.
    pub(super) fn is_due(&self, name: &str, there: &[PathBuf]) -> bool {
        let (mut state, now) = (self.lock(), Instant::now());
        let Some(pool) = state.absent.get_mut(name) else {
            return false;
        };
        let is_due = pool.attempt.is_due(there, now);
        if is_due {
            pool.attempt.made(there.to_vec(), now);
        }
        is_due
    }

    /// A pool is not open yet for this reason; whether that is another one than before.
    pub(super) fn still_absent(&self, name: &str, error: Error) -> bool {
        let mut state = self.lock();
        let Some(pool) = state.absent.get_mut(name) else {
            return false;
        };
        pool.next = error.next;
        std::mem::replace(&mut pool.reason, error.message) != pool.reason
    }

    /// A volume or snapshot by its full name, such as `tank/vm1`, for logical blocks of `granularity`.
    ///
    /// # Errors
    /// There is none of that name, or its pool is not open.
    pub fn open_volume(&self, full_name: &str, granularity: u32) -> Result<PoolVolume, OpenError> {
        let Some((pool, name)) = full_name.split_once('/') else {
            return Err(OpenError::new(
                format!("{full_name} is no volume"),
                "name a volume with its pool, as in tank/vm1",
            ));
        };
        let pool = self
            .get(pool)
            .map_err(|error| OpenError::new(error.message, error.next))?;
        PoolVolume::open(Arc::clone(&pool.host), name, granularity).map_err(|error| {
            OpenError::new(
                format!("{full_name} cannot be opened: {error}"),
                "see `sandstone volume list`",
            )
        })
    }

    /// Streams that are under way end soon: the daemon does.
    pub fn begin_ending(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
    }

    /// Whether streams should end.
    pub fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Relaxed)
    }

    /// Closes all pools in order: everything that was taken is on their devices when this returns.
    pub fn close(&self) {
        let _changing = self.changing();
        let open = std::mem::take(&mut self.lock().open);
        for (name, pool) in open {
            if let Err(error) = pool.host.close(false) {
                tracing::error!(pool = name, %error, "the pool was not closed in order");
            }
        }
    }

    /// Held while a pool comes or goes.
    pub(super) fn changing(&self) -> MutexGuard<'_, ()> {
        // It guards nothing that a panic could leave halfway.
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An empty cache for one more pool; all pools have equal shares of the memory from now on.
    pub(super) fn cache_for_one_more(&self) -> Arc<Cache> {
        let share = self.share_cache(1);
        Arc::new(Cache::new(share, super::random_u64()))
    }

    /// Gives each open pool its share of the memory beside `others`; returns the share.
    fn share_cache(&self, others: usize) -> usize {
        let open: Vec<_> = self.lock().open.values().cloned().collect();
        let share = self.options.cache / (open.len() + others).max(1);
        for pool in open {
            pool.host.cache().resize(share);
        }
        share
    }

    /// A pool is open from now on, and to be imported at the next start.
    pub(super) fn add(&self, pool: OpenPool) -> Result<(), Error> {
        super::stream::forget_interrupted(&pool);
        let name = pool.host.name().to_owned();
        let guid = format!("{:016x}", pool.guid);
        let mut state = self.lock();
        // It may have had another name.
        state.absent.retain(|_, absent| absent.known.guid != guid);
        state.open.insert(name, Arc::new(pool));
        drop(state);
        self.save()
    }

    /// A pool is this daemon's no more: the open one of that name, or else the one that is known and not open.
    pub(super) fn remove(&self, name: &str) -> Result<(), Error> {
        let mut state = self.lock();
        // Its threads end after the lock.
        let gone = state.open.remove(name);
        if gone.is_none() {
            state.absent.remove(name);
        }
        drop(state);
        drop(gone);
        self.share_cache(0);
        self.save()
    }

    pub(super) fn save(&self) -> Result<(), Error> {
        let state = self.lock();
        let open = state.open.iter();
        let open = open.map(|(name, pool)| self.known(name, pool));
        let absent = state.absent.values().map(|absent| absent.known.clone());
        let all: Vec<KnownPool> = open.chain(absent).collect();
        drop(state);
        known::save(&self.options.state, &all).map_err(|error| {
            Error::storage("write pools.json in the state folder", error).not_changed(
                "the pools are as they were asked to be, but the next start may not know it",
            )
        })
    }

    /// Who the labels of this daemon's pools say has them: the machine, and the installation that counts.
    pub(super) fn host_id(&self) -> String {
        format!("{}/{}", machine(), self.options.installation)
    }

    /// Imports that wait for the proof that no other host has the pool.
    pub fn waits(&self) -> Vec<WaitView> {
        // Every change is one insertion or removal: a panic leaves nothing halfway.
        let waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
        waits.values().cloned().collect()
    }

    /// An import waits, or does not any more.
    pub(super) fn note_wait(&self, guid: u64, wait: Option<WaitView>) {
        let mut waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
        match wait {
            Some(wait) => drop(waits.insert(guid, wait)),
            None => drop(waits.remove(&guid)),
        }
    }

    /// The disks of other machines that logical units had.
    pub(super) fn lent(&self) -> MutexGuard<'_, Lent> {
        // It is replaced whole: a panic leaves nothing halfway.
        self.lent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change is one insertion or removal: a panic leaves nothing halfway.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The name of this machine.
pub(super) fn machine() -> String {
    let machine = rustix::system::uname();
    machine.nodename().to_string_lossy().into_owned()
}
