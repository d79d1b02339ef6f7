//! Pools of this daemon: open pools, and known pools that could not be opened.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use store::cache::Cache;

use super::opener_turn::Turns;
use super::volume::PoolVolume;
use crate::devices::disks::Disks;
use crate::devices::known::{KnownPool, PoolList};
use crate::devices::lent::Lent;
use crate::devices::name_watch::NameWatch;
use crate::devices::system::machine;
use crate::engine::attempt::Attempt;
use crate::pool_thread::PoolThread;
use crate::shared::HandedOver;
use block::OpenError;
use model::device_name::is_remote;
use model::event::Teller;
use model::pool::import::WaitView;
use model::volume_id::VolumeId;
use model::{Error, ErrorKind};
use process::watchdog::Round;

/// Options of the set of pools.
#[derive(Clone, Debug)]
pub struct PoolsOptions {
    /// State folder.
    pub state: PathBuf,
    /// Installation that the state folder belongs to. The pools' labels name it as their host.
    pub installation: String,
    /// Bytes of memory for the blocks of all pools.
    pub cache: usize,
    /// Whether io_uring is used, if the kernel allows it.
    pub io_uring: bool,
    /// Source of devices.
    pub disks: Disks,
    /// Way to report events of pools.
    pub events: Teller,
}

/// Set of all pools.
#[derive(Debug)]
pub struct Pools {
    pub(super) options: PoolsOptions,
    state: Mutex<RegistryState>,
    /// List of pools that the next start knows. Its lock is taken before that of `state`.
    list: Mutex<PoolList>,
    lent: Mutex<Lent>,
    /// Paths that were searched for the pools of a lost list, while that search goes on.
    searched: Mutex<Option<BTreeSet<PathBuf>>>,
    /// Damage to files of the state folder that the start found.
    notices: Mutex<Vec<String>>,
    /// Turns of the callers that add or remove a pool.
    pub(super) turns: Turns,
    /// Imports that wait for the proof that no other host has the pool, by pool number.
    waits: Mutex<BTreeMap<u64, WaitView>>,
    /// Whether the daemon is ending. Streams are then not waited for.
    is_ending: AtomicBool,
    /// Names of devices that come and go. `None` if the kernel does not report them.
    names: Option<NameWatch>,
}

#[derive(Debug, Default)]
struct RegistryState {
    open: BTreeMap<String, Arc<OpenPool>>,
    /// Pools that are known and not open.
    absent: BTreeMap<String, AbsentPool>,
}

/// Open pool.
#[derive(Debug)]
pub struct OpenPool {
    /// Host of the pool's engine.
    pub host: Arc<PoolThread>,
    /// Number of the pool.
    pub guid: u64,
    /// Failed attempts, by leaf number, or by pool number if the whole pool was to go on.
    attempts: Mutex<BTreeMap<u64, Attempt>>,
}

impl OpenPool {
    pub(super) fn new(host: PoolThread, guid: u64) -> Self {
        Self {
            host: Arc::new(host),
            guid,
            attempts: Mutex::default(),
        }
    }

    /// # Errors
    /// The pool was imported read-only.
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

    /// Returns the failed attempts.
    pub(super) fn attempts(&self) -> MutexGuard<'_, BTreeMap<u64, Attempt>> {
        // Every change is one assignment: a panic leaves nothing half done.
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Pool that should be open.
#[derive(Clone, Debug)]
pub(super) struct AbsentPool {
    pub(super) known: KnownPool,
    /// Reason why the pool is not open.
    pub(super) reason: String,
    /// Remedy.
    pub(super) next: String,
    /// Attempts to open the pool.
    pub(super) attempt: Attempt,
}

impl Pools {
    /// Returns an empty set, for a state folder that knows no pools.
    pub fn none(state: &Path) -> Arc<Self> {
        let options = PoolsOptions {
            state: state.to_owned(),
            installation: String::new(),
            cache: 0,
            io_uring: true,
            disks: Disks::default(),
            events: Teller::default(),
        };
        Arc::new(Self::new(options, None))
    }

    /// Makes a set without pools that watches the names of devices by `names`.
    pub(super) fn new(options: PoolsOptions, names: Option<NameWatch>) -> Self {
        Self {
            state: Mutex::default(),
            list: Mutex::new(PoolList::of(&options.state)),
            lent: Mutex::new(Lent::of(&options.state)),
            searched: Mutex::default(),
            notices: Mutex::default(),
            turns: Turns::default(),
            waits: Mutex::default(),
            is_ending: AtomicBool::new(false),
            names,
            options,
        }
    }

    /// Keeps a known pool with the reason why it is not open.
    pub(super) fn await_pool(&self, known: KnownPool, error: Error) {
        let (reason, next) = (error.message, error.next);
        let name = known.name.clone();
        let absent = AbsentPool {
            known,
            reason,
            next,
            attempt: Attempt::default(),
        };
        self.lock().absent.insert(name, absent);
    }

    /// Logs a notice about a file of the state folder, and keeps it.
    pub(super) fn note_file(&self, notice: Option<String>) {
        let Some(notice) = notice else { return };
        tracing::error!("{notice}");
        let mut notices = self.notices.lock().unwrap_or_else(PoisonError::into_inner);
        notices.push(notice);
    }

    /// Returns the damage to files of the state folder with its remedy, and the files that cannot
    /// be written now.
    pub fn notices(&self) -> Vec<String> {
        let notices = self.notices.lock().unwrap_or_else(PoisonError::into_inner);
        let mut notices = notices.clone();
        if let Some(failure) = self.list().failure() {
            notices.push(format!(
                "pools.json cannot be written, so after a restart the daemon may not know all pools or the \
                 places of their devices: {failure}. The daemon tries again automatically"
            ));
        }
        notices
    }

    /// Returns the open pool of this name.
    ///
    /// # Errors
    /// The pool does not exist, or is not open; then the error says why.
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
                "see `sandstone pool list`, or `sandstone pool import` for pools that can be imported",
            ),
        })
    }

    /// Returns the open pools by name.
    pub fn all(&self) -> Vec<(String, Arc<OpenPool>)> {
        let state = self.lock();
        let pools = state.open.iter();
        pools
            .map(|(name, pool)| (name.clone(), Arc::clone(pool)))
            .collect()
    }

    /// Returns what callers handed to the threads of the open pools.
    pub fn handed_over(&self) -> HandedOver {
        let all = self
            .all()
            .into_iter()
            .map(|(_, pool)| pool.host.handed_over());
        all.fold(HandedOver::default(), |sum, of| HandedOver {
            orders: sum.orders + of.orders,
            wakes: sum.wakes + of.wakes,
        })
    }

    /// Asks the thread of each open pool for a turn.
    pub fn ask_for_turns(&self, round: &mut Round) {
        for (_, pool) in self.all() {
            pool.host.ask_for_turn(round);
        }
    }

    /// Returns why a known pool is not open, or `None` if it is open or unknown.
    pub(super) fn why_absent(&self, name: &str) -> Option<String> {
        let state = self.lock();
        match state.open.contains_key(name) {
            true => None,
            false => Some(state.absent.get(name)?.reason.clone()),
        }
    }

    /// Returns the known pools that are not open.
    pub(super) fn absent(&self) -> Vec<AbsentPool> {
        self.lock().absent.values().cloned().collect()
    }

    /// Reports whether a pool that is not open should be tried with these disks of other machines.
    /// If so, the attempt is noted.
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

    /// Notes why a pool is not open yet, and reports whether the reason has changed.
    pub(super) fn still_absent(&self, name: &str, error: Error) -> bool {
        let mut state = self.lock();
        let Some(pool) = state.absent.get_mut(name) else {
            return false;
        };
        pool.next = error.next;
        std::mem::replace(&mut pool.reason, error.message) != pool.reason
    }

    /// Opens a volume or snapshot by its full name, for example `tank/vm1`, for logical blocks of
    /// `granularity` bytes.
    ///
    /// # Errors
    /// No volume has this name, or its pool is not open.
    pub fn open_volume(&self, full_name: &str, granularity: u32) -> Result<PoolVolume, OpenError> {
        self.open_noted_volume(full_name, granularity, None)
    }

    /// Opens a volume as [`Pools::open_volume`] does, for a unit whose volume may be noted.
    ///
    /// # Errors
    /// The name is another volume's, or a case of [`Pools::open_volume`].
    pub fn open_noted_volume(
        &self,
        full_name: &str,
        granularity: u32,
        noted: Option<&VolumeId>,
    ) -> Result<PoolVolume, OpenError> {
        let Some((pool, name)) = full_name.split_once('/') else {
            return Err(OpenError::new(
                format!("{full_name} is not a volume"),
                "name a volume with its pool, as in tank/vm1",
            ));
        };
        let pool = self
            .get(pool)
            .map_err(|error| OpenError::new(error.message, error.next))?;
        let volume = PoolVolume::open(Arc::clone(&pool.host), name, granularity);
        let volume = volume.map_err(|error| {
            OpenError::new(
                format!("{full_name} cannot be opened: {error}"),
                "see `sandstone volume list`",
            )
        })?;
        // The opened volume is compared, because a name can pass to another volume at any moment.
        let id = VolumeId::new(pool.guid, volume.dataset().0);
        match noted.is_none_or(|noted| *noted == id) {
            true => Ok(volume),
            false => Err(OpenError::new(
                format!("{full_name} is no longer the volume that the unit uses, but another one"),
                format!(
                    "to serve this volume instead: sandstone lu modify UNIT --volume {full_name}. The unit \
                     follows its own volume as soon as its pool is imported and the state folder can be \
                     written (df -h, the daemon's log)"
                ),
            )),
        }
    }

    /// Announces that the daemon ends: streams under way should end soon.
    pub fn begin_ending(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
    }

    /// Reports whether streams should end.
    pub fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Relaxed)
    }

    /// Refuses changes once the daemon ends.
    ///
    /// # Errors
    pub(super) fn refuse_at_the_end(&self) -> Result<(), Error> {
        match self.is_ending() {
            true => Err(Error::new(
                ErrorKind::Unavailable,
                "the daemon is stopping",
                "try again when it is running",
            )),
            false => Ok(()),
        }
    }

    /// Closes all pools in order. When this returns, all accepted writes are on their devices.
    pub fn close(&self) {
        let _changing = self.changing();
        if self.is_list_behind() {
            self.keep();
        }
        for (name, pool) in self.all() {
            if let Err(error) = pool.host.close(false) {
                tracing::error!(pool = name, %error, "the pool was not closed cleanly");
            }
        }
        // The last labels may be newer than the list.
        self.keep();
        // The threads end after the lock is released.
        let open = std::mem::take(&mut self.lock().open);
        drop(open);
    }

    /// Takes the lock that is held while a pool is added or removed.
    pub(super) fn changing(&self) -> MutexGuard<'_, ()> {
        self.turns.take()
    }

    /// Returns an empty cache for one more pool. From now on all pools have equal shares of the
    /// memory.
    pub(super) fn cache_for_one_more(&self) -> Arc<Cache> {
        let share = self.share_cache(1);
        Arc::new(Cache::new(share, super::random_u64()))
    }

    /// Gives each open pool its share of the memory, `others` more pools included, and returns the
    /// share.
    fn share_cache(&self, others: usize) -> usize {
        let open: Vec<_> = self.lock().open.values().cloned().collect();
        let share = self.options.cache / (open.len() + others).max(1);
        for pool in open {
            pool.host.cache().resize(share);
        }
        share
    }

    /// Adds an open pool. The list of pools lacks it until the list is saved.
    pub(super) fn add(&self, pool: OpenPool) {
        let name = pool.host.name().to_owned();
        let guid = format!("{:016x}", pool.guid);
        let mut state = self.lock();
        // The pool may have had another name.
        state.absent.retain(|_, absent| absent.known.guid != guid);
        state.open.insert(name, Arc::new(pool));
    }

    /// Removes a pool from this daemon: the open pool of this name, or else the known one that is
    /// not open.
    pub(super) fn remove(&self, name: &str) -> Result<(), Error> {
        let mut state = self.lock();
        // Its threads end after the lock is released.
        let gone = state.open.remove(name);
        if gone.is_none() {
            state.absent.remove(name);
        }
        drop(state);
        drop(gone);
        self.share_cache(0);
        self.save()
    }

    /// Starts to watch for this machine's devices that come and go, if a pool uses them.
    pub(super) fn watch_names(&self) {
        let Some(names) = &self.names else { return };
        let state = self.lock();
        let open = state
            .open
            .values()
            .flat_map(|pool| pool.host.places().into_values());
        let absent = state
            .absent
            .values()
            .flat_map(|pool| pool.known.devices.clone());
        let paths = open
            .map(|at| at.path)
            .chain(absent.map(|device| device.path));
        let local: Vec<PathBuf> = paths.filter(|path| !is_remote(path)).collect();
        drop(state);
        names.watch(local.iter().map(PathBuf::as_path));
    }

    /// Makes sure that a change of the pools can be stored, before anything is changed.
    ///
    /// # Errors
    /// The state folder cannot be written.
    pub(super) fn reserve<'a>(
        &self,
        taken: impl IntoIterator<Item = &'a Path>,
    ) -> Result<Reserved<'_>, Error> {
        let reserved = Reserved(self);
        let failed = |error| {
            let folder = self.options.state.display();
            Error::storage(format!("prepare pools.json in {folder}"), error)
        };
        let list = self.list().reserve();
        list.map_err(failed)?;
        self.lent().reserve_to_take_back(taken).map_err(failed)?;
        Ok(reserved)
    }

    /// Saves the list of pools for the next start.
    pub(super) fn save(&self) -> Result<(), Error> {
        self.watch_names();
        let mut list = self.list();
        let state = self.lock();
        let open = state.open.iter();
        let open = open.map(|(name, pool)| self.known(name, pool));
        let absent = state.absent.values().map(|absent| absent.known.clone());
        let mut all: Vec<KnownPool> = open.chain(absent).collect();
        drop(state);
        all.sort_by(|a, b| a.name.cmp(&b.name));
        list.save(&all).map_err(|error| {
            let folder = self.options.state.display();
            Error::storage(format!("write pools.json in {folder}"), error).not_changed(
                "the pools were changed as requested; after a restart the daemon may not know the change, \
                 unless the list can be written until then; the daemon tries again automatically",
            )
        })
    }

    /// Saves the list after a change that no user asked for, as [`Self::save`] does. If the list
    /// cannot be written, this logs the failure and tries again later.
    pub(super) fn keep(&self) {
        let was_told = self.list().failure().is_some();
        if let Err(error) = self.save()
            && !was_told
        {
            tracing::error!(%error, "the list of pools is out of date");
        }
    }

    /// Reports whether the list of pools still has to be written.
    pub(super) fn is_list_behind(&self) -> bool {
        self.list().failure().is_some()
    }

    /// Returns the host that the labels of this daemon's pools name: the machine, and the
    /// installation, which decides.
    pub(super) fn host_id(&self) -> String {
        format!("{}/{}", machine(), self.options.installation)
    }

    /// Returns the imports that wait for the proof that no other host has the pool.
    pub fn waits(&self) -> Vec<WaitView> {
        // Every change is one insertion or removal: a panic leaves nothing half done.
        let waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
        waits.values().cloned().collect()
    }

    /// Notes that an import waits, or no longer waits.
    pub(super) fn note_wait(&self, guid: u64, wait: Option<WaitView>) {
        let mut waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
        match wait {
            Some(wait) => drop(waits.insert(guid, wait)),
            None => drop(waits.remove(&guid)),
        }
    }

    /// Notes that a logical unit has another machine's disk from now on. The note is in the state
    /// folder when this returns. So it precedes the unit's first write, and no crash lets a pool
    /// forget the unit.
    ///
    /// # Errors
    /// The state folder cannot be written.
    pub fn lend(&self, disk: &str, unit: &str) -> Result<(), Error> {
        self.lent().lend(disk, unit)
    }

    /// Returns the disks of other machines that logical units had.
    pub(super) fn lent(&self) -> MutexGuard<'_, Lent> {
        // The value is replaced whole: a panic leaves nothing half done.
        self.lent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the file may no longer hold the current list.
    #[cfg(test)]
    pub(super) fn list_is_to_be_written(&self) {
        self.list().forget();
    }

    /// Returns the list of pools that the next start knows.
    pub(super) fn list(&self) -> MutexGuard<'_, PoolList> {
        // A save that a panic cut short is repeated with the next one.
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the paths that were searched for the pools of a lost list.
    pub(super) fn searched(&self) -> MutexGuard<'_, Option<BTreeSet<PathBuf>>> {
        // A path more or less is merely searched again.
        self.searched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, RegistryState> {
        // Every change is one insertion or removal: a panic leaves nothing half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reserved space for the files that a change of the pools writes. Dropping this frees what is
/// left.
#[derive(Debug)]
pub(super) struct Reserved<'a>(&'a Pools);

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.0.list().release();
        self.0.lent().release();
    }
}
