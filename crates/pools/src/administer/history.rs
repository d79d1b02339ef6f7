//! `pool history`: past commands of administrators, and actions of the pool itself. The history
//! lies in the pool ([`store::catalog::history`]) and moves with it from machine to machine.
//!
//! A change is noted once it is in force, and before it is answered. So every answered change is in
//! the history. A power cut between the two leaves an unanswered change without its line.

use store::catalog::HistoryEntry;

use crate::dataset::administer;
use crate::devices::system::machine;
use crate::registry::Pools;
use model::pool::history::{Deed, HistoryLine, PoolHistoryView};
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
    /// Notes a request in the pool's history. The note is durable when this function returns. If
    /// the pool cannot take the note, the log says so, and the change stays in force.
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
            tracing::warn!(pool, text, %error, "the change could not be added to the pool's history");
        }
    }

    /// Returns the history of a pool.
    ///
    /// # Errors
    /// The pool does not exist, or is not open.
    pub fn history(&self, name: &str) -> Result<PoolHistoryView, Error> {
        let entries = self.get(name)?.host.ask(|pool| {
            let entries = pool.catalog().history().entries();
            entries.map(line).collect()
        });
        let entries = entries.map_err(|error| {
            Error::new(
                ErrorKind::Unavailable,
                format!("the history of pool {name} cannot be read: {error}"),
                format!("see `sandstone pool status {name}`"),
            )
        })?;
        Ok(PoolHistoryView {
            pool: name.to_owned(),
            entries,
        })
    }
}
