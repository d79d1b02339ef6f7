//! The history of a pool: the commands of administrators, and the pool's own actions that they
//! would ask about.
//!
//! The history lies in the catalogue and comes there by an operation of the log. So it is as
//! durable as the events in it and goes wherever the pool goes. It is bounded: above [`MAX_BYTES`]
//! the oldest entries go, but never the first one, which tells how the pool began.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::error::{CatalogError, ErrorKind};

/// Most bytes of all entries together, as [`HistoryEntry::bytes`] counts them.
pub const MAX_BYTES: usize = 128 << 10;
/// Length of the longest text of an entry, in bytes. A longer text is cut.
pub const MAX_TEXT: usize = 2048;
/// Length of the longest name of a user or host, in bytes.
const MAX_NAME: usize = 255;
/// Bytes that an entry counts beside its texts.
const OVERHEAD: usize = 64;

/// An action on a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HistoryEntry {
    /// Time of the action, in seconds since 1970.
    pub time_s: u64,
    /// Text of the action: a command line, or an event.
    pub text: String,
    /// User who asked for the action; empty if the user is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub user: String,
    /// Host on which it was done.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub host: String,
    /// Whether the pool did it by itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_internal: bool,
}

impl HistoryEntry {
    /// Returns the entry as it may be kept: cut to the greatest length, and without control
    /// characters, which could do harm to a terminal that prints them.
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

    /// Returns the bytes that the entry counts.
    fn bytes(&self) -> usize {
        OVERHEAD + self.text.len() + self.user.len() + self.host.len()
    }

    /// Checks whether the entry may be kept.
    pub(super) fn check(&self) -> Result<(), CatalogError> {
        let refuse = |fault: &str| {
            let message = format!("an entry of the history {fault}");
            Err(CatalogError::new(ErrorKind::InvalidValue, message, ""))
        };
        let texts = [&self.text, &self.user, &self.host];
        if texts.iter().any(|text| text.contains(char::is_control)) {
            return refuse("has control characters");
        }
        if self.text.is_empty() {
            return refuse("is empty");
        }
        match self.text.len() > MAX_TEXT || self.user.len().max(self.host.len()) > MAX_NAME {
            true => refuse("is too long"),
            false => Ok(()),
        }
    }
}

/// The entries that are kept, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct History {
    entries: VecDeque<HistoryEntry>,
    #[serde(skip)]
    bytes: usize,
}

impl History {
    /// Takes entries from a disk.
    pub(super) fn of_entries(entries: VecDeque<HistoryEntry>) -> Result<Self, CatalogError> {
        entries.iter().try_for_each(HistoryEntry::check)?;
        let bytes = entries.iter().map(HistoryEntry::bytes).sum();
        match bytes > MAX_BYTES {
            true => Err(CatalogError::mismatch("the history is too long")),
            false => Ok(Self { entries, bytes }),
        }
    }

    /// Reports whether the history is empty.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns all entries, oldest first.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = &HistoryEntry> + DoubleEndedIterator {
        self.entries.iter()
    }

    /// Adds an entry that may be kept. Only the history itself decides which entries go for it, so
    /// that replay drops equal ones.
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
