//! Changes to the running system, one at a time and all or nothing: edit a copy, validate it,
//! store it, put it in force; taken back where the data plane refuses.
//!
//! A change may take long: a target port group that goes out of service waits for its commands. Who only looks, or asks what
//! a change would do, does not wait for it, and finds what is in force until it is over.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::data_plane::{ApplyError, DataPlane};
use crate::config::change::Change;
use crate::config::diff::{self, Difference, ViewChange};
use crate::config::identity::Seed;
use crate::config::store::Store;
use crate::config::{Config, Error, ErrorKind};

/// How a change is to be made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
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
    /// Held by who makes a change, from its first look at the configuration on.
    store: Mutex<Store>,
    /// The configuration in force.
    config: RwLock<Arc<Config>>,
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
            store: Mutex::new(store),
            config: RwLock::new(config),
            data_plane,
        }
    }

    /// The configuration in force.
    pub fn config(&self) -> Arc<Config> {
        Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits for a change that is under way, and keeps others waiting: for who does what the configuration has to
    /// allow.
    pub fn unchanged(&self) -> Unchanged<'_> {
        Unchanged(self.lock())
    }

    /// The data plane.
    pub fn data_plane(&self) -> &dyn DataPlane {
        &*self.data_plane
    }

    /// The earlier generations that can be gone back to.
    pub fn generations(&self) -> Result<Vec<u64>, Error> {
        self.lock().generations()
    }

    /// Makes a change, or with [`Commit::dry_run`] tells what it would do.
    pub fn commit(&self, change: &Change, how: Commit) -> Result<Committed, Error> {
        let changed = |before: &Config| change.applied(before, Seed::random()?, how.cascade);
        if how.dry_run {
            let before = self.config();
            check_generation(&before, how.if_generation)?;
            return Ok(self.told(&before, &changed(&before)?, how));
        }
        let mut store = self.lock();
        let before = self.config();
        check_generation(&before, how.if_generation)?;
        let after = changed(&before)?;
        self.put_in_force(&mut store, &before, after, how)
    }

    /// Goes back to what an earlier generation said, as a new generation.
    pub fn rollback(&self, generation: u64, how: Commit) -> Result<Committed, Error> {
        let mut store = self.lock();
        let before = self.config();
        check_generation(&before, how.if_generation)?;
        let earlier = store.generation(generation)?;
        let after = Change::Replace(Box::new(earlier)).applied(&before, Seed::random()?, false)?;
        self.put_in_force(&mut store, &before, after, how)
    }

    fn told(&self, before: &Config, after: &Config, how: Commit) -> Committed {
        Committed {
            from_generation: before.generation,
            generation: after.generation,
            dry_run: how.dry_run,
            differences: diff::diff(before, after),
            sessions: self.effects(before, after),
            notices: Vec::new(),
        }
    }

    fn put_in_force(
        &self,
        store: &mut Store,
        before: &Arc<Config>,
        after: Config,
        how: Commit,
    ) -> Result<Committed, Error> {
        let committed = self.told(before, &after, how);
        if how.dry_run || after == **before {
            return Ok(committed);
        }
        store.save(&after)?;
        let after = Arc::new(after);
        if let Err(refused) = self.data_plane.apply(Arc::clone(&after)) {
            let error = refusal(refused);
            // Where even taking it back fails, the store refuses further changes; say both.
            return Err(match store.revert(before) {
                Ok(()) => error,
                Err(second) => error.not_changed(format!(
                    "the running configuration is generation {}, but the stored one may be the refused one: {second}",
                    before.generation
                )),
            });
        }
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = after;
        Ok(committed)
    }

    fn effects(&self, before: &Config, after: &Config) -> Vec<SessionEffect> {
        let sessions = self.data_plane.sessions().into_iter();
        sessions
            .filter_map(|session| {
                let target = session.target?;
                let (effect, loses) =
                    match diff::view_change(before, after, &session.initiator, &target) {
                        ViewChange::Same => return None,
                        ViewChange::End(reason) => (format!("ends: {reason}"), true),
                        ViewChange::Luns {
                            added,
                            removed,
                            protection,
                        } => {
                            let mut parts = Vec::new();
                            for (word, luns) in [
                                ("gains", &added),
                                ("loses", &removed),
                                ("other write protection of", &protection),
                            ] {
                                if !luns.is_empty() {
                                    parts.push(format!("{word} {}", lun_list(luns)));
                                }
                            }
                            (parts.join(", "), !removed.is_empty())
                        }
                    };
                Some(SessionEffect {
                    tsih: session.tsih,
                    initiator: session.initiator,
                    target,
                    effect,
                    loses,
                })
            })
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, Store> {
        // What is in force changes only by one assignment after everything that can fail, so a panic
        // elsewhere cannot have left it half-done.
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn lun_list(luns: &[u16]) -> String {
    let list: Vec<_> = luns.iter().map(u16::to_string).collect();
    format!("LUN {}", list.join(", "))
}

fn check_generation(config: &Config, wanted: Option<u64>) -> Result<(), Error> {
    match wanted {
        Some(wanted) if wanted != config.generation => Err(Error::new(
            ErrorKind::Stale,
            format!(
                "the configuration changed meanwhile: generation {} is in force, not {wanted}",
                config.generation
            ),
            "look at the preview again, then repeat the command",
        )),
        _ => Ok(()),
    }
}

fn refusal(refused: ApplyError) -> Error {
    let next = refused.next.clone();
    Error::new(ErrorKind::Refused, refused.to_string(), next)
        .not_changed("the change was taken back, the configuration before is in force and every session goes on")
        .caused_by(refused)
}
