//! Change of datasets that waits for its turn.

use std::fmt;

use crate::catalog::{Catalog, CatalogError, Operation, Stamp};
use crate::engine::request::RequestId;

/// Function that decides on an operation, given the catalogue at that moment.
pub type Plan = Box<dyn FnOnce(&Catalog, Stamp) -> Result<Operation, CatalogError> + Send>;

/// Change that waits for a checkpoint to be done.
pub(in crate::engine) struct Waiting {
    pub(in crate::engine) id: RequestId,
    pub(super) plan: Plan,
    pub(super) entropy: u64,
}

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Waiting").field(&self.id).finish()
    }
}
