//! The history of a pool: what administrators asked of it, and what it did by itself that they would ask about.
//!
//! It lies in the catalogue and comes there by an operation of the log, so it is as durable as what it tells of and
//! goes wherever the pool goes. It is bounded: of what is more than [`MAX_BYTES`] the oldest goes, but never the first
//! entry, which tells how the pool began.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::error::{CatalogError, ErrorKind};

/// Bytes of all entries together, as [`HistoryEntry::bytes`] counts them.
pub const MAX_BYTES: usize = 128 << 10;
/// The longest text of an entry, in bytes; of a longer one the rest is left out.
pub const MAX_TEXT: usize = 2048;
/// The longest name of a user or host, in bytes.
const MAX_NAME: usize = 255;
/// What an entry counts beside its texts.
const OVERHEAD: usize = 64;

/// Something that was done to a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HistoryEntry {
    /// When, in seconds since 1970.
    pub time_s: u64,
    /// What: a command line, or an event.
    pub text: String,
    /// Who asked for it; empty where nobody knows.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub user: String,
    /// On which host.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub host: String,
    /// Whether the pool did it by itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_internal: bool,
}

impl HistoryEntry {
    /// The same as it may be kept: without control characters, which would do something to whoever prints it, and no
    /// longer than it may be.
    pub fn fitting(mut self) -> Self {
        for (text, most) in [
            (&mut self.text, MAX_TEXT),
            (&mut self.user, MAX_NAME),
            (&mut self.host, MAX_NAME),
        ] {
            *text = text.replace(char::is_control, " ");
            if text.len() > most {
                let end = text.floor_char_boundary(most - '…'.len_utf8());
                text.truncate(end);
                text.push('…');
            }
        }
        self
    }

    /// What it counts.
    fn bytes(&self) -> usize {
        OVERHEAD + self.text.len() + self.user.len() + self.host.len()
    }

    /// Whether it may be kept.
    pub(super) fn check(&self) -> Result<(), CatalogError> {
        let refuse = |problem: &str| {
            let problem = format!("an entry of the history {problem}");
            Err(CatalogError::new(ErrorKind::InvalidValue, problem, ""))
        };
        let texts = [&self.text, &self.user, &self.host];
        if texts.iter().any(|text| text.contains(char::is_control)) {
            return refuse("has control characters");
        }
        if self.text.is_empty() {
            return refuse("says nothing");
        }
        match self.text.len() > MAX_TEXT || self.user.len().max(self.host.len()) > MAX_NAME {
            true => refuse("is too long"),
            false => Ok(()),
        }
    }
}

/// All that is kept, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct History {
    entries: VecDeque<HistoryEntry>,
    #[serde(skip)]
    bytes: usize,
}

impl History {
    /// From a disk.
    pub(super) fn of_entries(entries: VecDeque<HistoryEntry>) -> Result<Self, CatalogError> {
        entries.iter().try_for_each(HistoryEntry::check)?;
        let bytes = entries.iter().map(HistoryEntry::bytes).sum();
        match bytes > MAX_BYTES {
            true => Err(CatalogError::mismatch("the history is too long")),
            false => Ok(Self { entries, bytes }),
        }
    }

    /// Whether nothing was ever done.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All entries, oldest first.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = &HistoryEntry> + DoubleEndedIterator {
        self.entries.iter()
    }

    /// Adds an entry that may be kept. Which go for it depends on nothing but what is there, so that replay does the
    /// same.
    pub(super) fn push(&mut self, entry: HistoryEntry) {
        self.bytes += entry.bytes();
        self.entries.push_back(entry);
        while self.bytes > MAX_BYTES
            && let Some(gone) = self.entries.remove(1)
        {
            self.bytes -= gone.bytes();
        }
    }
}
