//! Volumes into which a stream is received: decides whose changes count, and whether a receive may
//! begin.

use crate::catalog::Operation;
use crate::engine::request::{PoolError, PoolErrorKind};
use crate::engine::state::Pool;
use crate::format::DatasetId;

impl Pool {
    /// Refuses to receive changes into a volume that differs from its newest snapshot. A resumed
    /// receive may find the data that it wrote before.
    pub(in crate::engine) fn check_receivable(
        &mut self,
        operation: &Operation,
    ) -> Result<(), PoolError> {
        let Operation::BeginReceive { volume, .. } = operation else {
            return Ok(());
        };
        let volume = *volume;
        if self.catalog().receiving(volume).is_some() {
            return Ok(());
        }
        if self.has_open_group() {
            self.seal();
        }
        if !self.is_modified(volume) {
            return Ok(());
        }
        let name = self.catalog().full_name(volume);
        let context = format!("{name} was modified since its newest snapshot");
        Err(PoolError::new(PoolErrorKind::Modified, context))
    }

    /// Reports whether a volume differs from its newest snapshot. Until the volume is written, both
    /// share tree and layers, and are merged together.
    fn is_modified(&self, volume: DatasetId) -> bool {
        let newest = self.catalog().dataset(volume).and_then(|of| of.previous());
        let snapshot = newest.and_then(|id| self.contents_of(id));
        let Some((of, snapshot)) = self.contents_of(volume).zip(snapshot) else {
            return true;
        };
        let (own, its) = (of.map.layers.closed(), snapshot.map.layers.closed());
        let is_shared = own.len() == its.len()
            && own
                .iter()
                .zip(its)
                .all(|(own, its)| std::sync::Arc::ptr_eq(own, its));
        of.size != snapshot.size
            || of.map.tree != snapshot.map.tree
            || !of.map.layers.top().is_empty()
            || !is_shared
    }
}

/// Makes the error for a change that does not belong to the receiving `attempt`, or to any.
pub(in crate::engine) fn out_of_turn(attempt: Option<u64>) -> PoolError {
    match attempt {
        Some(_) => incomplete(),
        None => PoolError::new(PoolErrorKind::Receiving, "the receive was discarded"),
    }
}

fn incomplete() -> PoolError {
    PoolError::new(
        PoolErrorKind::Receiving,
        "the volume is not complete: a stream is being received into it",
    )
}
