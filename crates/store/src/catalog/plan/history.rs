//! Plans for entries of the history.

use crate::catalog::Catalog;
use crate::catalog::error::CatalogError;
use crate::catalog::history::HistoryEntry;
use crate::catalog::operation::Operation;

impl Catalog {
    /// Plans an entry of the history. Control characters in it become blanks, and a text that is
    /// too long is cut.
    ///
    /// # Errors
    /// InvalidValue (the entry is empty).
    pub fn plan_note(&self, entry: HistoryEntry) -> Result<Operation, CatalogError> {
        self.planned(Operation::Note(entry.fitting()))
    }
}
