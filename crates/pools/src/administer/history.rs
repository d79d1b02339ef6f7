//! `pool history`: what administrators asked of a pool, and what it did by itself. It lies in the pool
//! ([`store::catalog::history`]) and goes with it from machine to machine.
//!
//! A change is noted when it is in force and before it is answered: what was answered is in the history. A power cut
//! between the two leaves a change that nobody heard of, without its line.

use store::catalog::HistoryEntry;

use crate::dataset::administer;
use crate::registry::{Pools, machine};
use model::pool::history::{Deed, HistoryLine, HistoryView};
use model::{Error, ErrorKind};

fn line(entry: &HistoryEntry) -> HistoryLine {
    HistoryLine {
        time_s: entry.time_s,
        text: entry.text.clone(),
        user: entry.user.clone(),
        host: entry.host.clone(),
        is_internal: entry.is_internal,
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
            entries.map(line).collect()
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
