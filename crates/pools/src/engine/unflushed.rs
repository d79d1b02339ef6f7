//! What volumes were told that is not durable: where a pool is opened anew while its volumes are in use, these writes
//! may be gone, and the flush that would have made them durable must not succeed. Who restarts after a power cut knows
//! that such writes may be lost; who is still there does not.

use std::collections::{BTreeMap, BTreeSet};

use store::format::DatasetId;
use store::pool::Request;

use block::{BlockError, BlockErrorKind};

/// By volume, the group of the log that its last such write is in at the latest; and volumes that lost some.
#[derive(Debug, Default)]
pub(crate) struct Unflushed {
    newest: BTreeMap<DatasetId, u64>,
    lost: BTreeSet<DatasetId>,
}

impl Unflushed {
    /// The volume that a request changes without being durable when it is answered.
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

    /// Such a request was answered as done, and is in this group at the latest.
    pub(crate) fn answered(&mut self, dataset: DatasetId, group: u64) {
        self.newest.insert(dataset, group);
    }

    /// All that is behind this group may be gone.
    pub(crate) fn lose(&mut self, promised: u64) {
        let newest = std::mem::take(&mut self.newest);
        let lost = newest.into_iter().filter(|(_, group)| *group > promised);
        self.lost.extend(lost.map(|(dataset, _)| dataset));
    }

    /// Why a flush must fail.
    pub(crate) fn refusal(&self, request: &Request) -> Option<BlockError> {
        let Request::Flush { dataset } = request else {
            return None;
        };
        let context = "writes that were not flushed were lost when the pool stopped";
        let is_lost = self.lost.contains(dataset);
        is_lost.then(|| BlockError::new(BlockErrorKind::Write, context))
    }

    /// The volumes that lost writes.
    pub(crate) fn lost(&self) -> Vec<DatasetId> {
        self.lost.iter().copied().collect()
    }

    /// An administrator knows of it.
    pub(crate) fn forget(&mut self) {
        self.lost.clear();
    }

    /// An administrator knows of what one volume lost.
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
        // What is written from now on is another matter, and does not undo that.
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
