//! The queue of changes. Changes that arrive together are made one after another, and become
//! durable together.
//!
//! # Order
//! 1. Each change is applied to the result of the changes before it. A change that fails here
//!    changes nothing.
//! 2. The last generation is stored and becomes durable. The generations between would only be in
//!    force for a moment, and are not kept.
//! 3. All generations are put into force, one at a time and in order. If the data plane refuses
//!    one, it is taken out of the store, with all generations after it. The changes after it are
//!    applied anew to the configuration in force. If the store no longer takes the generations
//!    before the refused one, they are taken out of force and made anew as well.
//! 4. Only then are the requests answered. An answer, even a refusal, may rest on an earlier
//!    change, which must not be undone any more.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Commit, Committed, Transactions};
use crate::author::Author;
use config::change::Change;
use config::history::Note;
use config::identity::{self, Seed};
use config::placement;
use config::store::Store;
use config::validate::validate;
use model::data_plane::{ApplyError, SessionInfo};
use model::volume_id::Volumes;
use model::{Config, Error, ErrorKind};

/// A request for the next configuration.
#[derive(Debug)]
pub(super) enum Wanted {
    Change(Change),
    /// Update of units to the current names of their volumes, after a rename, or an import of a
    /// pool under another name. The names are read during the request's turn, so that no change of
    /// an administrator comes between.
    Follow,
    /// Configuration of an earlier generation.
    Generation(u64),
    /// Configuration of a backup, on a machine that serves nothing yet.
    Backup(Box<Config>),
}

/// A change that waits, and its outcome.
#[derive(Debug)]
pub(super) struct Job {
    wanted: Wanted,
    how: Commit,
    author: Arc<Author>,
    outcome: Mutex<Option<Outcome>>,
}

/// Effect of a change and the configuration right after it, or the error.
pub(super) type Outcome = Result<(Committed, Arc<Config>), Error>;

/// Waiting changes, in their order of arrival.
#[derive(Debug, Default)]
pub(super) struct Queue(Mutex<VecDeque<Arc<Job>>>);

/// A change that was applied to the result of the changes before it.
struct Planned {
    job: Arc<Job>,
    outcome: Outcome,
}

impl Wanted {
    /// Returns the configuration after the change.
    pub(super) fn applied(
        &self,
        before: &Config,
        store: &Store,
        volumes: &dyn Volumes,
        how: &Commit,
    ) -> Result<Config, Error> {
        match self {
            Self::Change(change) => Self::change(change, before, how),
            Self::Follow => follow(before, volumes),
            Self::Generation(generation) => {
                check_generation(before, how)?;
                let earlier = Box::new(store.generation(*generation)?);
                Change::Replace(earlier).applied(before, Seed::random()?, false)
            }
            Self::Backup(config) => {
                check_generation(before, how)?;
                restored(before, config, store.folder())
            }
        }
    }

    /// Returns the configuration after a change that needs no store.
    pub(super) fn change(change: &Change, before: &Config, how: &Commit) -> Result<Config, Error> {
        check_generation(before, how)?;
        change.applied(before, Seed::random()?, how.cascade)
    }
}

impl Job {
    /// Returns a job for the author of this thread. Another thread may do the job.
    pub(super) fn new(wanted: Wanted, how: Commit) -> Self {
        Self {
            wanted,
            how,
            author: Author::current(),
            outcome: Mutex::default(),
        }
    }

    /// Returns the outcome of the job, once.
    pub(super) fn outcome(&self) -> Option<Outcome> {
        self.slot().take()
    }

    fn end(&self, outcome: Outcome) {
        *self.slot() = Some(outcome);
    }

    fn slot(&self) -> MutexGuard<'_, Option<Outcome>> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    pub(super) fn add(&self, job: Job) -> Arc<Job> {
        let job = Arc::new(job);
        self.lock().push_back(Arc::clone(&job));
        job
    }

    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }

    pub(super) fn take(&self) -> VecDeque<Arc<Job>> {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<Job>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Transactions {
    /// Makes these changes in their order, and answers all of them.
    pub(super) fn make_all(&self, store: &mut Store, mut jobs: VecDeque<Arc<Job>>) {
        // Number of changes that are stored at once. After a failure, each change is tried alone.
        let mut at_once = jobs.len();
        while !jobs.is_empty() {
            let batch: Vec<Arc<Job>> = jobs.drain(..at_once.min(jobs.len())).collect();
            let left = self.make(store, batch);
            if !left.is_empty() {
                at_once = 1;
            }
            left.into_iter().rev().for_each(|job| jobs.push_front(job));
        }
    }

    /// Makes these changes. Returns the changes that must be made anew, because one before them
    /// failed.
    fn make(&self, store: &mut Store, jobs: Vec<Arc<Job>>) -> Vec<Arc<Job>> {
        let sessions = self.data_plane.sessions();
        let mut in_force = self.config();
        let mut planned = self.plan(store, jobs, &sessions);
        let last = planned.iter().filter_map(Planned::new_config).next_back();
        if let Some(Err(error)) = last.map(|last| store.save(last, &noted(&planned))) {
            // Each change may succeed alone, because another one may have made the configuration
            // too large. But if any of them may be stored, the error goes to all.
            if planned.len() > 1 && !store.is_broken() {
                return planned.into_iter().map(|planned| planned.job).collect();
            }
            for planned in planned {
                planned.job.end(Err(error.clone()));
            }
            return Vec::new();
        }
        let stored_before = Arc::clone(&in_force);
        let refused = planned.iter().enumerate().find_map(|(at, planned)| {
            let after = planned.new_config()?;
            if let Err(refused) = self.put_in_force(&planned.job.wanted, after) {
                return Some((at, refused));
            }
            in_force = Arc::clone(after);
            self.set(Arc::clone(after));
            None
        });
        let Some((at, refused)) = refused else {
            planned.into_iter().for_each(Planned::answer);
            return Vec::new();
        };
        let mut again = planned.split_off(at + 1);
        let note = noted(&planned[..at]);
        let error = match taken_back(store, &stored_before, &in_force, &note) {
            Ok(()) => refusal(refused),
            Err(second) => {
                // The changes that were put into force are not stored. No request was answered yet,
                // so they are made anew.
                again.splice(0..0, planned.drain(..at));
                self.put_back(&stored_before);
                let in_force = stored_before.generation;
                refusal(refused).not_changed(format!(
                    "the running configuration is generation {in_force}, but the stored configuration may be \
                     another generation: {second}"
                ))
            }
        };
        if let Some(refused) = planned.pop() {
            refused.job.end(Err(error));
        }
        planned.into_iter().for_each(Planned::answer);
        again.into_iter().map(|planned| planned.job).collect()
    }

    fn put_in_force(&self, wanted: &Wanted, config: &Arc<Config>) -> Result<(), ApplyError> {
        match wanted {
            Wanted::Change(_) | Wanted::Follow | Wanted::Generation(_) => {
                self.data_plane.apply(Arc::clone(config))
            }
            Wanted::Backup(_) => self.data_plane.restore(Arc::clone(config)),
        }
    }

    /// Puts a configuration into force again that was in force a moment ago.
    fn put_back(&self, config: &Arc<Config>) {
        match self.data_plane.apply(Arc::clone(config)) {
            Ok(()) => self.set(Arc::clone(config)),
            Err(error) => {
                tracing::error!(%error, "a configuration that is not stored stays in force")
            }
        }
    }

    /// Applies each change to the result of the changes before it.
    fn plan(&self, store: &Store, jobs: Vec<Arc<Job>>, sessions: &[SessionInfo]) -> Vec<Planned> {
        let mut newest = self.config();
        let plan_one = |job: Arc<Job>| {
            let volumes = self.data_plane.volumes();
            let applied = job.wanted.applied(&newest, store, volumes, &job.how);
            let outcome = applied.and_then(|after| {
                let after = self.completed(&newest, after)?;
                let told = Committed::checked(&newest, &after, sessions, &job.how)?;
                Ok((told, Arc::new(after)))
            });
            if let Ok((_, after)) = &outcome {
                newest = Arc::clone(after);
            }
            Planned { job, outcome }
        };
        jobs.into_iter().map(plan_one).collect()
    }
}

impl Planned {
    /// Returns the configuration to put into force, or `None` if nothing changes.
    fn new_config(&self) -> Option<&Arc<Config>> {
        let (told, after) = self.outcome.as_ref().ok()?;
        (told.generation != told.from_generation).then_some(after)
    }

    fn answer(self) {
        self.job.end(self.outcome);
    }
}

/// Takes a refused configuration out of the store, with all configurations after it. The store
/// first goes back to the configuration stored before, then on to the one in force.
fn taken_back(
    store: &mut Store,
    stored_before: &Config,
    in_force: &Config,
    note: &Note,
) -> Result<(), Error> {
    store.revert(stored_before)?;
    match in_force == stored_before {
        true => Ok(()),
        false => store.save(in_force, note),
    }
}

/// Returns the note on these changes for the history.
fn noted(planned: &[Planned]) -> Note {
    let changes = planned.iter().filter_map(|planned| {
        planned.new_config()?;
        let (told, _) = planned.outcome.as_ref().ok()?;
        Some(planned.job.author.noted().touching(&told.differences))
    });
    Note::of(changes.collect())
}

fn refusal(refused: ApplyError) -> Error {
    let next = refused.next.clone();
    Error::new(ErrorKind::Refused, refused.to_string(), next)
        .not_changed(
            "the change was undone; the previous configuration is in force, and every session continues",
        )
        .caused_by(refused)
}

fn follow(before: &Config, volumes: &dyn Volumes) -> Result<Config, Error> {
    let Some(mut after) = placement::followed(before, volumes) else {
        return Ok(before.clone());
    };
    after.generation += 1;
    validate(&after)?;
    Ok(after)
}

/// Returns the configuration of a backup for this machine. The machine has to be bare, because
/// everything that it serves would vanish without notice.
fn restored(before: &Config, backup: &Config, folder: &Path) -> Result<Config, Error> {
    let nothing = Config {
        generation: before.generation,
        identity: before.identity.clone(),
        ..Config::default()
    };
    if *before != nothing {
        return Err(Error::new(
            ErrorKind::InUse,
            "this machine has a configuration of its own, and a backup replaces all of it",
            format!(
                "stop the daemon, then repeat the command with --state {}: it shows what is removed, and asks \
                 for confirmation",
                folder.display()
            ),
        ));
    }
    let mut after = backup.clone();
    identity::carry_over(&before.identity, &mut after);
    after.generation = before.generation + 1;
    validate(&after)?;
    Ok(after)
}

fn check_generation(config: &Config, how: &Commit) -> Result<(), Error> {
    match how.if_generation {
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

#[cfg(test)]
mod tests;
