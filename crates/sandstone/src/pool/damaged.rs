//! Which bytes of which volumes have no right copy: as reads of this opening met them, for `pool status -v`.
//!
//! Only so many are kept. They stay until `pool clear`: that a block was written anew is not followed.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use store::catalog::Catalog;
use store::format::DatasetId;
use store::pool::{PoolError, PoolErrorKind, Request};
use utoipa::ToSchema;

/// Reads that are kept.
const KEPT: usize = 200;

/// Bytes of a volume or snapshot that could not be read with right bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DamagedView {
    /// Its name.
    pub dataset: String,
    /// Where the read began, in bytes.
    pub offset: u64,
    /// How many bytes it was to bring; at least one block of these is lost.
    pub len: u64,
}

/// What a request reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Reading {
    dataset: DatasetId,
    offset: u64,
    len: u32,
}

impl Reading {
    pub(super) fn of(request: &Request) -> Option<Self> {
        match *request {
            Request::Read {
                dataset,
                offset,
                len,
            } => Some(Self {
                dataset,
                offset,
                len,
            }),
            _ => None,
        }
    }
}

/// What reads met.
#[derive(Debug, Default)]
pub(super) struct Damaged(BTreeSet<Reading>);

impl Damaged {
    /// A request was answered.
    pub(super) fn answered<T>(&mut self, reading: Option<Reading>, result: &Result<T, PoolError>) {
        if let (Some(reading), Err(error)) = (reading, result)
            && error.kind == PoolErrorKind::Damaged
            && self.0.len() < KEPT
        {
            self.0.insert(reading);
        }
    }

    /// An administrator has seen them.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }

    /// All of them, with the names that people gave.
    pub(super) fn views(&self, catalog: &Catalog) -> Vec<DamagedView> {
        let view = |reading: &Reading| DamagedView {
            dataset: catalog.full_name(reading.dataset),
            offset: reading.offset,
            len: reading.len.into(),
        };
        self.0.iter().map(view).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_reads_of_lost_blocks_are_kept_and_not_without_end() {
        let mut damaged = Damaged::default();
        let reading = |offset| {
            let (dataset, len) = (DatasetId(1), 4096);
            Reading::of(&Request::Read {
                dataset,
                offset,
                len,
            })
        };
        let failed = |kind| Err::<(), _>(PoolError::new(kind, "so it is"));
        damaged.answered(reading(0), &Ok(()));
        damaged.answered(reading(0), &failed(PoolErrorKind::Device));
        damaged.answered(None, &failed(PoolErrorKind::Damaged));
        assert!(damaged.0.is_empty());
        for offset in 0..2 * KEPT as u64 {
            damaged.answered(reading(offset / 2 * 4096), &failed(PoolErrorKind::Damaged));
        }
        assert_eq!(damaged.0.len(), KEPT);
        damaged.forget();
        assert!(damaged.0.is_empty());
    }
}
