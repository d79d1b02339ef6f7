//! `pool history`: what administrators asked of a pool, and what it did by itself. It lies in the pool
//! ([`store::catalog::history`]) and goes with it from machine to machine.
//!
//! A change is noted when it is in force and before it is answered: what was answered is in the history. A power cut
//! between the two leaves a change that nobody heard of, without its line.

use serde::{Deserialize, Serialize};
use store::catalog::HistoryEntry;
use utoipa::ToSchema;

use super::dataset::administer;
use super::registry::{Pools, machine};
use model::{Error, ErrorKind};

/// Who asked for a change of a pool, and in which words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deed {
    /// A user of this machine; empty where nobody knows.
    pub user: String,
    /// A command line, or a request of the API.
    pub text: String,
    /// The pool did it by itself.
    pub is_internal: bool,
}

/// What was done to a pool, as far as it keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HistoryView {
    /// The pool.
    pub pool: String,
    /// What was done, oldest first. How it began stays; of the rest the oldest goes when there is too much.
    pub entries: Vec<HistoryLine>,
}

/// Something that was done to a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HistoryLine {
    /// When, in seconds since 1970.
    pub time_s: u64,
    /// The command line, the request of the API, or what happened.
    pub text: String,
    /// Who asked for it; empty where nobody knows.
    pub user: String,
    /// The machine that had the pool then.
    pub host: String,
    /// Whether the pool did it by itself.
    pub is_internal: bool,
}

impl From<&HistoryEntry> for HistoryLine {
    fn from(entry: &HistoryEntry) -> Self {
        Self {
            time_s: entry.time_s,
            text: entry.text.clone(),
            user: entry.user.clone(),
            host: entry.host.clone(),
            is_internal: entry.is_internal,
        }
    }
}

impl Pools {
    /// Notes what was asked of a pool; it outlives a power cut when this returns. A pool that cannot take the note says so
    /// in the log, and the change stays what it is.
    pub fn note(&self, pool: &str, deed: &Deed) {
        let (user, text) = (deed.user.clone(), deed.text.clone());
        let is_internal = deed.is_internal;
        let noted = self.get(pool).and_then(|open| {
            let entry = HistoryEntry {
                text,
                user,
                host: machine(),
                is_internal,
                ..HistoryEntry::default()
            };
            administer(
                &open,
                Box::new(move |catalog, stamp| {
                    let time_s = stamp.time_s;
                    catalog.plan_note(HistoryEntry { time_s, ..entry })
                }),
            )
        });
        if let Err(error) = noted {
            let text = &deed.text;
            tracing::warn!(pool, text, %error, "the history of the pool lacks what was done");
        }
    }

    /// The history of a pool.
    ///
    /// # Errors
    /// There is no such pool, or it is not open.
    pub fn history(&self, name: &str) -> Result<HistoryView, Error> {
        let entries = self.get(name)?.host.ask(|pool| {
            let entries = pool.catalog().history().entries();
            entries.map(HistoryLine::from).collect()
        });
        let entries = entries.map_err(|error| {
            Error::new(
                ErrorKind::Unavailable,
                format!("pool {name} does not tell its history: {error}"),
                format!("see `sandstone pool status {name}`"),
            )
        })?;
        Ok(HistoryView {
            pool: name.to_owned(),
            entries,
        })
    }
}
