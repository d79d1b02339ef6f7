//! Writes that a volume's users count as done, but that are not yet durable.
//!
//! If a pool is reopened while its volumes are in use, these writes may be lost. The flush that
//! would have made them durable must then fail. A host that restarts after a power cut expects such
//! losses; a host that stays connected does not.

use std::collections::{BTreeMap, BTreeSet};

use store::engine::Request;
use store::format::DatasetId;

use block::{BlockError, BlockErrorKind};

/// Last log group that may hold an unflushed write, by volume, and the volumes that lost writes.
#[derive(Debug, Default)]
pub(crate) struct Unflushed {
    newest: BTreeMap<DatasetId, u64>,
    lost: BTreeSet<DatasetId>,
}

impl Unflushed {
    /// Returns the volume that the request changes, if the change is not durable when the request
    /// is answered.
    pub(crate) fn volatile(request: &Request) -> Option<DatasetId> {
        match request {
            Request::Write {
                dataset,
                durable: false,
                ..
            }
            | Request::WritePrepared {
                dataset,
                durable: false,
                ..
            }
            | Request::Unmap {
                dataset,
                durable: false,
                ..
            }
            | Request::Clear {
                dataset,
                durable: false,
                ..
            } => Some(*dataset),
            _ => None,
        }
    }

    /// Notes a volatile request that was answered as done. Its write is at the latest in log group
    /// `group`.
    pub(crate) fn answered(&mut self, dataset: DatasetId, group: u64) {
        self.newest.insert(dataset, group);
    }

    /// Marks the volumes with writes in groups after `promised`: these writes may be lost.
    pub(crate) fn lose(&mut self, promised: u64) {
        let newest = std::mem::take(&mut self.newest);
        let lost = newest.into_iter().filter(|(_, group)| *group > promised);
        self.lost.extend(lost.map(|(dataset, _)| dataset));
    }

    /// Returns the error with which a flush must fail, or `None`.
    pub(crate) fn refusal(&self, request: &Request) -> Option<BlockError> {
        let Request::Flush { dataset } = request else {
            return None;
        };
        let context = "unflushed writes were lost when the pool stopped";
        let is_lost = self.lost.contains(dataset);
        is_lost.then(|| BlockError::new(BlockErrorKind::Write, context))
    }

    /// Reports whether a volume lost writes.
    pub(crate) fn has_lost(&self, volume: DatasetId) -> bool {
        self.lost.contains(&volume)
    }

    /// Returns the volumes that lost writes.
    pub(crate) fn lost(&self) -> Vec<DatasetId> {
        self.lost.iter().copied().collect()
    }

    /// Forgets all losses: an administrator knows of them.
    pub(crate) fn forget(&mut self) {
        self.lost.clear();
    }

    /// Forgets the losses of one volume: an administrator knows of them.
    pub(crate) fn forget_volume(&mut self, volume: DatasetId) {
        self.lost.remove(&volume);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_flushes_of_volumes_that_lost_writes_fail() {
        let mut unflushed = Unflushed::default();
        let flush = |dataset| Request::Flush { dataset };
        for (dataset, group) in [(1, 7), (2, 8), (3, 9), (3, 7)] {
            unflushed.answered(DatasetId(dataset), group);
        }
        unflushed.answered(DatasetId(3), 9);
        unflushed.lose(8);
        let fails = |unflushed: &Unflushed, of| unflushed.refusal(&flush(DatasetId(of))).is_some();
        assert_eq!(
            [1, 2, 3].map(|of| fails(&unflushed, of)),
            [false, false, true]
        );
        // Later writes do not undo the loss.
        unflushed.answered(DatasetId(1), 9);
        unflushed.lose(9);
        assert_eq!(unflushed.lost(), [DatasetId(3)]);
        unflushed.forget_volume(DatasetId(1));
        assert!(fails(&unflushed, 3), "another's");
        unflushed.forget_volume(DatasetId(3));
        assert!(!fails(&unflushed, 3));
        unflushed.answered(DatasetId(3), 10);
        unflushed.lose(9);
        assert!(fails(&unflushed, 3));
        unflushed.forget();
        assert!(!fails(&unflushed, 3));
    }
}
