//! What was done comes into the history.

use crate::catalog::Catalog;
use crate::catalog::error::CatalogError;
use crate::catalog::history::HistoryEntry;
use crate::catalog::operation::Operation;

impl Catalog {
    /// Something was done: control characters in it become blanks, and of what is too long the rest is left out.
    ///
    /// # Errors
    /// InvalidValue (it says nothing).
    pub fn plan_note(&self, entry: HistoryEntry) -> Result<Operation, CatalogError> {
        self.planned(Operation::Note(entry.fitting()))
    }
}
