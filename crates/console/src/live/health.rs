//! Health of the machine in one sentence, and what to do about it. Each page shows the sentence, so
//! the status behind it is asked at most every two seconds, for all readers together.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use control::Asker;
use control::answer::Status;
use control::endpoint::status;
use model::health::Health as Level;

use crate::format::number_of;
use crate::mark::State;
use crate::state::Console;
use crate::visit::Visit;

/// Age at which the status is asked again.
const AGE: Duration = Duration::from_secs(2);

/// Health as pages show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    /// Health in one sentence.
    pub(crate) sentence: String,
    state: State,
}

impl Shown {
    /// Returns the class of the colour.
    pub(crate) fn class(&self) -> &'static str {
        self.state.class()
    }

    /// Returns the shape.
    pub(crate) fn mark(&self) -> &'static str {
        self.state.mark()
    }
}

/// A thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Task {
    /// Urgency of the task.
    pub(crate) state: State,
    /// Finding in one sentence.
    pub(crate) what: String,
    /// Remedy.
    pub(crate) next: Option<String>,
    /// Page where the remedy is.
    pub(crate) path: String,
}

/// Latest status, with its time.
#[derive(Debug, Default)]
pub(crate) struct Health {
    latest: Mutex<Option<(Instant, Arc<Status>)>>,
}

impl Health {
    /// Returns the health for a page. A reader who is limited to a folder is not told.
    pub(crate) fn shown(&self, visit: &Visit) -> Option<Shown> {
        visit.reader().filter(|reader| reader.grant.is_none())?;
        let status = self.status(&visit.console, &visit.asker)?;
        Some(shown(&status))
    }

    /// Returns the status, if the asker may know it. It is at most two seconds old.
    pub(crate) fn status(&self, console: &Console, asker: &Asker) -> Option<Arc<Status>> {
        console.door.admit(asker, &status::STATUS).ok()?;
        let latest = self
            .latest
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        if let Some((at, status)) = latest
            && at.elapsed() < AGE
        {
            return Some(status);
        }
        let status = Arc::new(console.door.call(asker, &status::STATUS, &[]).ok()?);
        let mut place = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        *place = Some((Instant::now(), Arc::clone(&status)));
        Some(status)
    }
}

/// Tells a status in one sentence.
pub(crate) fn shown(status: &Status) -> Shown {
    let state = match status.health {
        Level::Healthy => State::Good,
        Level::Attention => State::Warn,
        Level::Impaired => State::Bad,
    };
    let tasks = tasks(status);
    let sentence = match (tasks.first(), status.units, status.sessions) {
        (Some(first), ..) if tasks.len() > 1 => {
            format!(
                "{} There are {} more findings.",
                first.what,
                tasks.len() - 1
            )
        }
        (Some(first), ..) => first.what.clone(),
        (None, 0, _) => "All is well. Nothing is served yet.".to_owned(),
        (None, units, sessions) => format!(
            "All is well: {} in {}.",
            number_of(units, "unit"),
            number_of(sessions, "session")
        ),
    };
    let sentence = sentence.replace("There are 1 more findings.", "There is 1 more finding.");
    Shown { sentence, state }
}

/// Lists what an administrator should do, the most urgent first.
pub(crate) fn tasks(status: &Status) -> Vec<Task> {
    let mut tasks = Vec::new();
    for pool in status
        .pools
        .iter()
        .filter(|pool| pool.health != Level::Healthy)
    {
        let what = match pool.state.as_str() {
            "ONLINE" => format!("Pool {} needs a look.", pool.name),
            state => format!("Pool {} is {state}.", pool.name),
        };
        let words = [pool.status.clone(), pool.action.clone()];
        let words: Vec<String> = words.into_iter().flatten().collect();
        tasks.push(Task {
            state: of_level(pool.health),
            what,
            next: Some(words.join(" ")).filter(|words| !words.is_empty()),
            path: crate::format::at("/pools", &[&pool.name]),
        });
    }
    for portal in &status.portals {
        if let Some(error) = &portal.error {
            tasks.push(Task {
                state: State::Bad,
                what: format!("The portal {} is not served.", portal.address),
                next: Some(error.clone()),
                path: "/targets".to_owned(),
            });
        }
    }
    for unit in &status.hindrances {
        for hindrance in &unit.hindrances {
            if hindrance.kind.health() == Level::Healthy {
                continue;
            }
            tasks.push(Task {
                state: of_level(hindrance.kind.health()),
                what: format!(
                    "Unit {}: {}.",
                    unit.unit,
                    hindrance.finding.trim_end_matches('.')
                ),
                next: hindrance.end.clone(),
                path: crate::format::at("/units", &[&unit.unit]),
            });
        }
    }
    tasks.extend(status.notices.iter().map(|notice| Task {
        state: State::Warn,
        what: crate::form::sentence(notice),
        next: None,
        path: "/#to-do".to_owned(),
    }));
    tasks.sort_by_key(|task| std::cmp::Reverse(task.state));
    tasks
}

fn of_level(level: Level) -> State {
    match level {
        Level::Healthy => State::Good,
        Level::Attention => State::Warn,
        Level::Impaired => State::Bad,
    }
}
