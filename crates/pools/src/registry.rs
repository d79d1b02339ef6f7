//! The pools of this daemon: those that are open, and those that it knows of and could not open.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use store::cache::Cache;

use super::host::PoolHost;
use super::turn::Turn;
use super::volume::PoolVolume;
use crate::administer::rebuilding::{self, Search};
use crate::devices::disks::Disks;
use crate::devices::known::{KnownDevice, KnownPool, PoolList};
use crate::devices::lent::Lent;
use crate::devices::name_watch::NameWatch;
use crate::engine::attempt::Attempt;
use block::OpenError;
use model::device_name::is_remote;
use model::pool::import::WaitView;
use model::volume_id::VolumeId;
use model::{Error, ErrorKind};

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
    /// Which pools the next start knows; taken before `state`.
    list: Mutex<PoolList>,
    lent: Mutex<Lent>,
    /// Pools of a list that was lost are still looked for.
    search: Mutex<Option<Search>>,
    /// Damage to files of the state folder that the start found.
    notices: Mutex<Vec<String>>,
    /// Held while a pool comes or goes, so that these happen one after the other.
    changing: Mutex<()>,
    /// Imports that wait for the proof that no other host has the pool, by its number.
    waits: Mutex<BTreeMap<u64, WaitView>>,
    /// The daemon ends: streams are not waited for.
    is_ending: AtomicBool,
    /// Names of devices that go and come; `None` where the kernel does not tell of them.
    names: Option<NameWatch>,
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
    /// reason, and keeps nothing else from being served; nor does a file that is damaged.
    pub fn start(options: PoolsOptions) -> Arc<Self> {
        let disks = options.disks.clone();
        let names = NameWatch::start(move || disks.look_again());
        let names = names.inspect_err(|error| {
            tracing::warn!(%error, "names of devices are not watched: one that is away is looked for every two seconds");
        });
        let pools = Self {
            names: names.ok(),
            ..Self::new(options)
        };
        let notice = pools.lent().load();
        pools.note_file(notice);
        let known = pools.load_list();
        let devices = known.iter().flat_map(|pool| &pool.devices);
        let devices: Vec<KnownDevice> = devices.cloned().collect();
        pools.options.disks.settle(&devices);
        // All of them before the first is opened: whatever is saved meanwhile names them all.
        for pool in &known {
            let error = Error::new(
                ErrorKind::Unavailable,
                "it is being opened",
                "wait for that",
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

    /// No pools, and none that the state folder knows.
    pub fn none(state: &Path) -> Arc<Self> {
        Arc::new(Self::new(PoolsOptions {
            state: state.to_owned(),
            installation: String::new(),
            cache: 0,
            io_uring: true,
            disks: Disks::default(),
        }))
    }

    fn new(options: PoolsOptions) -> Self {
        Self {
            state: Mutex::default(),
            list: Mutex::new(PoolList::of(&options.state)),
            lent: Mutex::new(Lent::of(&options.state)),
            search: Mutex::default(),
            notices: Mutex::default(),
            changing: Mutex::default(),
            waits: Mutex::default(),
            is_ending: AtomicBool::new(false),
            names: None,
            options,
        }
    }

    /// The pools that the state folder knows; where its list is lost, those that devices know.
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
                "{}; its copy in the history is used, so nothing is lost",
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

    /// Opens a pool of this daemon, or keeps it with the reason why that is not possible.
    pub(super) fn open_or_await(&self, known: KnownPool) {
        if let Err(error) = self.open_known(&known, None, &mut Turn::kept()) {
            tracing::error!(
                pool = known.name,
                reason = error.message,
                "a pool is not open"
            );
            self.await_pool(known, error);
        }
    }

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

    fn note_file(&self, notice: Option<String>) {
        let Some(notice) = notice else { return };
        tracing::error!("{notice}");
        let mut notices = self.notices.lock().unwrap_or_else(PoisonError::into_inner);
        notices.push(notice);
    }

    /// Damage to files of the state folder, with its remedy, and files that cannot be written now.
    pub fn notices(&self) -> Vec<String> {
        let notices = self.notices.lock().unwrap_or_else(PoisonError::into_inner);
        let mut notices = notices.clone();
        if let Some(failure) = self.list().failure() {
            notices.push(format!(
                "pools.json cannot be written, so the next start may not know all pools or where their devices are: \
                 {failure}. It is tried again by itself"
            ));
        }
        notices
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
        self.open_noted_volume(full_name, granularity, None)
    }

    /// [`Pools::open_volume`] for a unit whose volume may be noted.
    ///
    /// # Errors
    /// Another volume has that name, too.
    pub fn open_noted_volume(
        &self,
        full_name: &str,
        granularity: u32,
        noted: Option<&VolumeId>,
    ) -> Result<PoolVolume, OpenError> {
        let Some((pool, name)) = full_name.split_once('/') else {
            return Err(OpenError::new(
                format!("{full_name} is no volume"),
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
        // Compare what was opened: a name can pass to another volume at any moment.
        let id = VolumeId::new(pool.guid, volume.dataset().0);
        match noted.is_none_or(|noted| *noted == id) {
            true => Ok(volume),
            false => Err(OpenError::new(
                format!("{full_name} is another volume than the one that the unit is on"),
                format!(
                    "if it is to be served instead: sandstone lu modify UNIT --volume {full_name}. The unit follows its own \
                     volume as soon as its pool is imported and the state folder can be written (df -h, the daemon's log)"
                ),
            )),
        }
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
        if self.is_list_behind() {
            self.keep();
        }
        for (name, pool) in self.all() {
            if let Err(error) = pool.host.close(false) {
                tracing::error!(pool = name, %error, "the pool was not closed in order");
            }
        }
        // The last labels may be newer than the list.
        self.keep();
        // The threads end after the lock.
        let open = std::mem::take(&mut self.lock().open);
        drop(open);
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

    /// A pool is open from now on; the list of pools does not have it before it is saved.
    pub(super) fn add(&self, pool: OpenPool) {
        super::stream::forget_interrupted(&pool);
        let name = pool.host.name().to_owned();
        let guid = format!("{:016x}", pool.guid);
        let mut state = self.lock();
        // It may have had another name.
        state.absent.retain(|_, absent| absent.known.guid != guid);
        state.open.insert(name, Arc::new(pool));
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

    /// From now on it is noticed when a device of this machine comes or goes that a pool lies on.
    fn watch_names(&self) {
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

    /// Makes sure that a change of the pools can be kept, before anything is changed.
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
        self.reserve_to_take_back(taken).map_err(failed)?;
        Ok(reserved)
    }

    /// Has the next start know the pools as they are.
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
                "the pools are as they were asked to be; the next start may not know it, unless the list can be written \
                 until then, which is tried again by itself",
            )
        })
    }

    /// [`Self::save`] for what happens by itself: where the list cannot be written, that is told and tried again.
    pub(super) fn keep(&self) {
        let was_told = self.list().failure().is_some();
        if let Err(error) = self.save()
            && !was_told
        {
            tracing::error!(%error, "the list of pools is not up to date");
        }
    }

    /// Whether the list of pools waits to be written.
    pub(super) fn is_list_behind(&self) -> bool {
        self.list().failure().is_some()
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

    /// The file may hold something else from now on.
    #[cfg(test)]
    pub(super) fn list_is_to_be_written(&self) {
        self.list().forget();
    }

    fn list(&self) -> MutexGuard<'_, PoolList> {
        // A save that a panic cut short is done again with the next.
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The search for pools of a list that was lost.
    pub(super) fn search(&self) -> MutexGuard<'_, Option<Search>> {
        // A path more or less is looked at again.
        self.search.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change is one insertion or removal: a panic leaves nothing halfway.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Space for the files that a change of the pools writes; what is left of it goes with this.
#[derive(Debug)]
pub(super) struct Reserved<'a>(&'a Pools);

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.0.list().release();
        self.0.release_lent();
    }
}

/// The name of this machine.
pub(super) fn machine() -> String {
    let machine = rustix::system::uname();
    machine.nodename().to_string_lossy().into_owned()
}
