//! Changes to the running system, each all or nothing. A change edits a copy of the configuration,
//! validates it, stores it, and puts it into force. If the data plane refuses it, the change is
//! taken back.
//!
//! A change is a function of the newest configuration. Requests that arrive together wait in a
//! queue. The thread that gets the store makes all waiting changes in their order of arrival, and
//! makes them durable at once (`queue.rs`).
//!
//! A change may take long: a target port group that goes out of service waits for its commands.
//! Readers and previews do not wait for a change. They find the configuration in force until the
//! change is over.

mod effect;
mod queue;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use self::queue::{Job, Outcome, Queue, Wanted};
use super::author::{self, Author};
use config::change::Change;
use config::diff::Difference;
use config::history::GenerationView;
use config::placement;
use config::store::Store;
use config::validate::validate;
use model::data_plane::DataPlane;
use model::event::{Occurrence, Severity, Teller, Topic};
use model::{Config, Error, ErrorKind};

/// Most objects of one change that have an event of their own.
const MOST_TOLD: usize = 20;

/// Options for making a change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Commit {
    /// Whether the request only reports what would change.
    #[serde(default)]
    pub dry_run: bool,
    /// Whether objects that depend on a deleted object are removed too.
    #[serde(default)]
    pub cascade: bool,
    /// Generation that must be in force, so that nothing has changed since the caller looked.
    /// Otherwise, the change is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_generation: Option<u64>,
    /// `effect` of a preview. The change is refused if it would do anything else. Changes by others
    /// elsewhere do not matter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_effect: Option<String>,
    /// Whether the change is refused if a session would end, or lose a logical unit.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep_sessions: bool,
}

/// Result of a change, made or only previewed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Committed {
    /// Generation that was in force before.
    pub from_generation: u64,
    /// Generation that is in force now, or would be.
    pub generation: u64,
    /// Whether the request was a dry run, so that nothing was changed.
    pub dry_run: bool,
    /// Objects that changed. The list is empty if the configuration was already as requested.
    pub differences: Vec<Difference>,
    /// Sessions that notice the change.
    pub sessions: Vec<SessionEffect>,
    /// Digest of the changes and of the sessions that lose something, for `if_effect`.
    #[serde(default)]
    pub effect: String,
    /// Further notices for the user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<String>,
}

/// The effect of a change on one session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SessionEffect {
    /// Number of the session.
    pub tsih: u16,
    /// iSCSI name of the initiator that is logged in.
    pub initiator: String,
    /// iSCSI name of the session's target.
    pub target: String,
    /// Description of the effect.
    pub effect: String,
    /// Whether the session ends or loses a LUN.
    pub loses: bool,
}

/// The configuration in force, and the two places that must agree on it: the disk and the data
/// plane.
pub struct Transactions {
    /// Changes that wait for their turn.
    queue: Queue,
    /// Store of configurations. A thread that makes changes locks it before its first look at the
    /// configuration.
    store: Mutex<Store>,
    /// Configuration in force.
    config: RwLock<Arc<Config>>,
    /// Damage to the stored configuration that was found at the start.
    notice: Option<String>,
    data_plane: Arc<dyn DataPlane>,
    /// Way to report changes.
    events: Teller,
}

/// A guard: while it exists, the configuration does not change.
#[derive(Debug)]
pub struct Unchanged<'a>(
    #[expect(dead_code, reason = "it is held, not asked")] MutexGuard<'a, Store>,
);

/// Shows the generation only, because a configuration holds secrets and is long.
impl std::fmt::Debug for Transactions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let generation = self.config().generation;
        f.debug_struct("Transactions")
            .field("generation", &generation)
            .finish_non_exhaustive()
    }
}

impl Transactions {
    /// Takes over an open store. The data plane already serves its `config`.
    pub fn new(store: Store, config: Arc<Config>, data_plane: Arc<dyn DataPlane>) -> Self {
        Self {
            queue: Queue::default(),
            notice: store.notice().map(str::to_owned),
            store: Mutex::new(store),
            config: RwLock::new(config),
            data_plane,
            events: Teller::default(),
        }
    }

    /// Reports each change as an event from now on.
    #[must_use]
    pub fn reporting_to(self, events: Teller) -> Self {
        Self { events, ..self }
    }

    /// Returns the configuration in force.
    pub fn config(&self) -> Arc<Config> {
        Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the configuration in force, with the current names of volumes, even if these could
    /// not be stored. While the configuration is [`Transactions::unchanged`], the result tells
    /// which units serve the pools' volumes.
    pub fn followed(&self) -> Arc<Config> {
        let config = self.config();
        let followed = placement::followed(&config, self.data_plane.volumes());
        followed.map_or(config, Arc::new)
    }

    /// Updates the names of units' volumes to the current ones, and notes volumes that were not
    /// known before.
    ///
    /// # Errors
    /// The names cannot be stored or put into force.
    pub fn follow_volumes(&self) -> Result<(), Error> {
        if placement::followed(&self.config(), self.data_plane.volumes()).is_none() {
            return Ok(());
        }
        self.take_turn(Wanted::Follow, &Commit::default()).map(drop)
    }

    /// Waits for a change under way, and then keeps others waiting. It is for callers whose action
    /// depends on the configuration.
    pub fn unchanged(&self) -> Unchanged<'_> {
        Unchanged(self.lock())
    }

    /// Returns the number of changes that wait for their turn.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Returns the damage to the stored configuration that was found at the start, with its remedy.
    pub fn notice(&self) -> Option<String> {
        self.notice.clone()
    }

    /// Returns the data plane.
    pub fn data_plane(&self) -> &dyn DataPlane {
        &*self.data_plane
    }

    /// Returns the data plane, for threads that may outlive the transactions.
    pub(crate) fn shared_data_plane(&self) -> Arc<dyn DataPlane> {
        Arc::clone(&self.data_plane)
    }

    /// Returns the kept generations with their notes. The last is in force.
    pub fn history(&self) -> Result<Vec<GenerationView>, Error> {
        self.lock().history()
    }

    /// Makes a change. With [`Commit::dry_run`], it only reports the effect.
    pub fn commit(&self, change: &Change, how: &Commit) -> Result<Committed, Error> {
        self.commit_seen(change, how).map(|(told, _)| told)
    }

    /// Makes a change, and returns also the configuration right after it. The configuration in
    /// force may be a later one by then.
    pub fn commit_seen(&self, change: &Change, how: &Commit) -> Outcome {
        if !how.dry_run {
            return self.take_turn(Wanted::Change(change.clone()), how);
        }
        let before = self.config();
        let after = self.completed(&before, Wanted::change(change, &before, how)?)?;
        let told = Committed::checked(&before, &after, &self.data_plane.sessions(), how)?;
        Ok((told, Arc::new(after)))
    }

    /// Restores the configuration of an earlier generation, as a new generation.
    pub fn rollback(&self, generation: u64, how: &Commit) -> Result<Committed, Error> {
        self.replace(Wanted::Generation(generation), how)
    }

    /// Puts a backup into force on a machine that serves nothing yet. Its pools, disks and
    /// addresses may come later.
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

    /// Waits until the change is made, and notes its author.
    fn take_turn(&self, wanted: Wanted, how: &Commit) -> Outcome {
        let done = self.wait_for_turn(wanted, how);
        if let Ok((committed, _)) = &done {
            author::note(committed);
            self.report(committed);
        }
        done
    }

    /// Reports a change as events: one for each object, as far as they are few.
    fn report(&self, committed: &Committed) {
        let author = Author::current();
        let generation = committed.generation;
        let told = |object: String, text: String| {
            let text = format!("{text}, by {author} (generation {generation})");
            let told = Occurrence::new(Severity::Info, Topic::Config, object, text);
            self.events.tell(told);
        };
        for it in committed.differences.iter().take(MOST_TOLD) {
            told(format!("{} {}", it.object, it.name), it.in_words());
        }
        if let Some(more) = committed.differences.len().checked_sub(MOST_TOLD + 1) {
            let more = more + 1;
            told(
                "configuration".to_owned(),
                format!("{more} more objects changed"),
            );
        }
    }

    /// Waits until the change is made, by this thread or by one that had its turn before.
    fn wait_for_turn(&self, wanted: Wanted, how: &Commit) -> Outcome {
        let job = self.queue.add(Job::new(wanted, how.clone()));
        let mut store = self.lock();
        if let Some(done) = job.outcome() {
            return done;
        }
        self.make_all(&mut store, self.queue.take());
        job.outcome().unwrap_or_else(|| {
            // The thread that had taken the job panicked.
            Err(Error::new(
                ErrorKind::Unavailable,
                "the request failed for an unexpected reason",
                "see the daemon's log, and report this as a defect",
            )
            .not_changed("it is not known whether the request was carried out"))
        })
    }

    /// Returns a changed configuration with notes of the volumes on which its units lie.
    fn completed(&self, before: &Config, mut after: Config) -> Result<Config, Error> {
        if after.generation == before.generation {
            return Ok(after);
        }
        // Two units may share a volume once current names are used.
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
        // The configuration in force changes only by one assignment, after everything that can
        // fail. So a panic elsewhere cannot have left it half done.
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
