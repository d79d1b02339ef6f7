//! Which bytes of which volumes have no right copy: as reads and scrubs of this opening met them, for
//! `pool status -v`.
//!
//! Only so many are kept. They stay until `pool clear`: that a block was written anew is not followed.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use store::catalog::Catalog;
use store::pool::{Event, PoolError, PoolErrorKind, Request, Span};
use utoipa::ToSchema;

/// Spans that are kept.
const KEPT: usize = 200;

/// Bytes of a volume or snapshot that could not be read with right bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DamagedView {
    /// Its name.
    pub dataset: String,
    /// Where the read began that met it, or the block that a scrub met, in bytes.
    pub offset: u64,
    /// How many bytes it was to bring; at least one block of these is lost, or what leads to one.
    pub len: u64,
}

/// What a request reads.
pub(super) fn reading(request: &Request) -> Option<Span> {
    match *request {
        Request::Read {
            dataset,
            offset,
            len,
        } => Some(Span {
            dataset,
            offset,
            len: len.into(),
        }),
        _ => None,
    }
}

/// What a request reads for a stream.
pub(super) fn sending(request: &Request, catalog: &Catalog) -> Option<Span> {
    let Request::Stored { dataset, block } = *request else {
        return None;
    };
    let (_, block_size) = catalog.dataset(dataset)?.geometry()?;
    let len = u64::from(block_size);
    Some(Span {
        dataset,
        offset: block.saturating_mul(len),
        len,
    })
}

/// What reads and scrubs met.
#[derive(Debug, Default)]
pub(super) struct Damaged(BTreeSet<Span>);

impl Damaged {
    /// A request was answered.
    pub(super) fn answered<T>(&mut self, reading: Option<Span>, result: &Result<T, PoolError>) {
        if let (Some(reading), Err(error)) = (reading, result)
            && error.kind == PoolErrorKind::Damaged
        {
            self.found(reading);
        }
    }

    /// A scrub or resilver may have found no right copy of something.
    pub(super) fn heed(&mut self, event: &Event) {
        if let Event::Unrecoverable(span) = event {
            self.found(*span);
        }
    }

    fn found(&mut self, span: Span) {
        if self.0.len() < KEPT {
            self.0.insert(span);
        }
    }

    /// An administrator has seen them.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }

    /// All of them, with the names that people gave.
    pub(super) fn views(&self, catalog: &Catalog) -> Vec<DamagedView> {
        let is_there = |span: &&Span| catalog.dataset(span.dataset).is_some();
        let view = |span: &Span| DamagedView {
            dataset: catalog.full_name(span.dataset),
            offset: span.offset,
            len: span.len,
        };
        self.0.iter().filter(is_there).map(view).collect()
    }
}

#[cfg(test)]
mod tests {
    use store::format::DatasetId;

    use super::*;

    #[test]
    fn only_reads_of_lost_blocks_are_kept_and_not_without_end() {
        let mut damaged = Damaged::default();
        let read = |offset| {
            let (dataset, len) = (DatasetId(1), 4096);
            reading(&Request::Read {
                dataset,
                offset,
                len,
            })
        };
        let failed = |kind| Err::<(), _>(PoolError::new(kind, "so it is"));
        damaged.answered(read(0), &Ok(()));
        damaged.answered(read(0), &failed(PoolErrorKind::Device));
        damaged.answered(None, &failed(PoolErrorKind::Damaged));
        assert!(damaged.0.is_empty());
        for offset in 0..2 * KEPT as u64 {
            damaged.answered(read(offset / 2 * 4096), &failed(PoolErrorKind::Damaged));
        }
        assert_eq!(damaged.0.len(), KEPT);
        damaged.forget();
        assert!(damaged.0.is_empty());
    }
}
