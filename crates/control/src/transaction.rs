//! Changes to the running system, each all or nothing: edit a copy, validate it, store it, put it in force; taken back
//! where the data plane refuses.
//!
//! A change is a function of the newest configuration. Verbs that come together wait in a queue; whoever gets the store
//! does all that wait, in the order in which they came, and makes them durable at once (`queue.rs`).
//!
//! A change may take long: a target port group that goes out of service waits for its commands. Who only looks, or asks what
//! a change would do, does not wait for it, and finds what is in force until it is over.

mod effect;
mod queue;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use self::queue::{Job, Outcome, Queue, Wanted};
use super::author;
use config::change::Change;
use config::diff::Difference;
use config::history::GenerationView;
use config::placement;
use config::store::Store;
use config::validate::validate;
use model::data_plane::DataPlane;
use model::{Config, Error, ErrorKind};

/// How a change is to be made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Commit {
    /// Only say what would change.
    #[serde(default)]
    pub dry_run: bool,
    /// Remove what depends on a deleted object too.
    #[serde(default)]
    pub cascade: bool,
    /// Refuse unless this generation is in force: nothing changed since the caller looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_generation: Option<u64>,
    /// Refuse unless the change does what it did in a preview, which told this as its `effect`. What others changed
    /// meanwhile elsewhere does not matter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_effect: Option<String>,
    /// Refuse where a session would end, or lose a logical unit.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep_sessions: bool,
}

/// What a change did, or would do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Committed {
    /// The generation in force before.
    pub from_generation: u64,
    /// The generation that is in force now, or would be.
    pub generation: u64,
    /// Whether nothing was done because the caller only asked.
    pub dry_run: bool,
    /// What changed; empty where everything was so already.
    pub differences: Vec<Difference>,
    /// Sessions that notice.
    pub sessions: Vec<SessionEffect>,
    /// A digest of what changes and of which sessions lose something by it, for `if_effect`.
    #[serde(default)]
    pub effect: String,
    /// What else whoever asked for it should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<String>,
}

/// What a change means for one session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SessionEffect {
    /// The session's number.
    pub tsih: u16,
    /// Who is logged in.
    pub initiator: String,
    /// At which target.
    pub target: String,
    /// What happens, in words.
    pub effect: String,
    /// Whether the session ends or loses a LUN.
    pub loses: bool,
}

/// The configuration in force and the two places that must agree on it: the disk and the data
/// plane.
pub struct Transactions {
    /// Changes that wait for their turn.
    queue: Queue,
    /// Held by who makes changes, from the first look at the configuration on.
    store: Mutex<Store>,
    /// The configuration in force.
    config: RwLock<Arc<Config>>,
    /// Damage to the stored configuration that the start found.
    notice: Option<String>,
    data_plane: Arc<dyn DataPlane>,
}

/// While it is there the configuration stays as it is.
#[derive(Debug)]
pub struct Unchanged<'a>(
    #[expect(dead_code, reason = "it is held, not asked")] MutexGuard<'a, Store>,
);

/// Tells the generation only: a configuration holds secrets and is long.
impl std::fmt::Debug for Transactions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let generation = self.config().generation;
        f.debug_struct("Transactions")
            .field("generation", &generation)
            .finish_non_exhaustive()
    }
}

impl Transactions {
    /// Takes over an open store whose `config` the data plane already serves.
    pub fn new(store: Store, config: Arc<Config>, data_plane: Arc<dyn DataPlane>) -> Self {
        Self {
            queue: Queue::default(),
            notice: store.notice().map(str::to_owned),
            store: Mutex::new(store),
            config: RwLock::new(config),
            data_plane,
        }
    }

    /// The configuration in force.
    pub fn config(&self) -> Arc<Config> {
        Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The configuration in force, with the names that volumes have now: it may not have been possible to store them. Asked
    /// while the configuration is [`Transactions::unchanged`], it tells who serves what of the pools.
    pub fn followed(&self) -> Arc<Config> {
        let config = self.config();
        let followed = placement::followed(&config, self.data_plane.volumes());
        followed.map_or(config, Arc::new)
    }

    /// Has units use the names that their volumes have now, and notes volumes that were not known before.
    ///
    /// # Errors
    /// The names cannot be stored or put in force.
    pub fn follow_volumes(&self) -> Result<(), Error> {
        if placement::followed(&self.config(), self.data_plane.volumes()).is_none() {
            return Ok(());
        }
        self.take_turn(Wanted::Follow, &Commit::default()).map(drop)
    }

    /// Waits for a change that is under way, and keeps others waiting: for who does what the configuration has to
    /// allow.
    pub fn unchanged(&self) -> Unchanged<'_> {
        Unchanged(self.lock())
    }

    /// How many changes wait for their turn.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Damage to the stored configuration that the start found, and its remedy.
    pub fn notice(&self) -> Option<String> {
        self.notice.clone()
    }

    /// The data plane.
    pub fn data_plane(&self) -> &dyn DataPlane {
        &*self.data_plane
    }

    /// The generations that are kept, with what is noted of them; the last is in force.
    pub fn history(&self) -> Result<Vec<GenerationView>, Error> {
        self.lock().history()
    }

    /// Makes a change, or with [`Commit::dry_run`] tells what it would do.
    pub fn commit(&self, change: &Change, how: &Commit) -> Result<Committed, Error> {
        self.commit_seen(change, how).map(|(told, _)| told)
    }

    /// The same, with the configuration right after it: the one in force may be a later one by then.
    pub fn commit_seen(&self, change: &Change, how: &Commit) -> Outcome {
        if !how.dry_run {
            return self.take_turn(Wanted::Change(change.clone()), how);
        }
        let before = self.config();
        let after = self.completed(&before, Wanted::change(change, &before, how)?)?;
        let told = Committed::checked(&before, &after, &self.data_plane.sessions(), how)?;
        Ok((told, Arc::new(after)))
    }

    /// Goes back to what an earlier generation said, as a new generation.
    pub fn rollback(&self, generation: u64, how: &Commit) -> Result<Committed, Error> {
        self.replace(Wanted::Generation(generation), how)
    }

    /// Puts a backup in force on a machine that serves nothing yet. Its pools, disks and addresses may come later.
    pub fn restore(&self, config: Config, how: &Commit) -> Result<Committed, Error> {
        self.replace(Wanted::Backup(Box::new(config)), how)
    }

    fn replace(&self, wanted: Wanted, how: &Commit) -> Result<Committed, Error> {
        if !how.dry_run {
            return self.take_turn(wanted, how).map(|(told, _)| told);
        }
        let store = self.lock();
        let before = self.config();
        let volumes = self.data_plane.volumes();
        let after = wanted.applied(&before, &store, volumes, how)?;
        let after = self.completed(&before, after)?;
        let told = Committed::checked(&before, &after, &self.data_plane.sessions(), how)?;
        Ok(told)
    }

    /// Waits until it was done, and notes who did it.
    fn take_turn(&self, wanted: Wanted, how: &Commit) -> Outcome {
        let done = self.wait_for_turn(wanted, how);
        if let Ok((committed, _)) = &done {
            author::note(committed);
        }
        done
    }

    /// Waits until it was done, by this thread or by one that had its turn before.
    fn wait_for_turn(&self, wanted: Wanted, how: &Commit) -> Outcome {
        let job = self.queue.add(Job::new(wanted, how.clone()));
        let mut store = self.lock();
        if let Some(done) = job.outcome() {
            return done;
        }
        self.make_all(&mut store, self.queue.take());
        job.outcome().unwrap_or_else(|| {
            // Whoever had taken it panicked.
            Err(Error::new(
                ErrorKind::Unavailable,
                "the request failed in a way that nobody foresaw",
                "see the daemon's log, and report this",
            )
            .not_changed("it is not known whether the request was carried out"))
        })
    }

    /// A changed configuration with notes of the volumes that its units lie on.
    fn completed(&self, before: &Config, mut after: Config) -> Result<Config, Error> {
        if after.generation == before.generation {
            return Ok(after);
        }
        // Under their current names two units may share a volume.
        if placement::complete(before, &mut after, self.data_plane.volumes()) {
            validate(&after)?;
        }
        placement::refuse_shared(&after)?;
        let is_same = Config {
            generation: before.generation,
            ..after.clone()
        };
        Ok(match is_same == *before {
            true => is_same,
            false => after,
        })
    }

    fn set(&self, config: Arc<Config>) {
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = config;
    }

    fn lock(&self) -> MutexGuard<'_, Store> {
        // What is in force changes only by one assignment after everything that can fail, so a panic
        // elsewhere cannot have left it half-done.
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
