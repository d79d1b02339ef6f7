//! Bytes of volumes that have no right copy, as found by reads and scrubs of this opening, for
//! `pool status -v`.
//!
//! Adjacent ranges are joined. They stay until `pool clear`, because later writes to a block are
//! not followed.

use std::collections::BTreeMap;

use model::pool::damaged::{DamagedView, LostView};
use store::catalog::Catalog;
use store::engine::{Event, Span};
use store::format::DatasetId;

/// Ranges of a volume or snapshot that are kept. Further ranges are only counted.
const KEPT: usize = 4096;

/// Damage that reads and scrubs met.
#[derive(Debug, Default)]
pub(crate) struct Damaged(BTreeMap<DatasetId, Lost>);

/// Damaged ranges of one dataset: the end of each, by its start. No two ranges touch.
#[derive(Debug, Default)]
struct Lost {
    ranges: BTreeMap<u64, u64>,
    is_more: bool,
}

impl Lost {
    fn add(&mut self, mut start: u64, mut end: u64) {
        let touched = self.ranges.range(..=end).rev();
        let touched = touched.take_while(|(_, other)| **other >= start);
        let touched: Vec<(u64, u64)> = touched.map(|(from, to)| (*from, *to)).collect();
        if touched.is_empty() && self.ranges.len() >= KEPT {
            self.is_more = true;
            return;
        }
        for (from, to) in touched {
            self.ranges.remove(&from);
            (start, end) = (start.min(from), end.max(to));
        }
        self.ranges.insert(start, end);
    }

    fn bytes(&self) -> u64 {
        self.ranges.iter().map(|(start, end)| end - start).sum()
    }
}

impl Damaged {
    /// Notes an event: a read, scrub or resilver may have found no right copy of a block.
    pub(crate) fn heed(&mut self, event: &Event) {
        if let Event::Unrecoverable(Span {
            dataset,
            offset,
            len,
        }) = *event
        {
            let of = self.0.entry(dataset).or_default();
            of.add(offset, offset.saturating_add(len));
        }
    }

    /// Forgets the damage: an administrator has seen it.
    pub(crate) fn forget(&mut self) {
        self.0.clear();
    }

    fn named<'a>(&'a self, catalog: &'a Catalog) -> impl Iterator<Item = (String, &'a Lost)> {
        let is_there = |of: &(&DatasetId, &Lost)| catalog.dataset(*of.0).is_some();
        let all = self.0.iter().filter(is_there);
        all.map(|(dataset, lost)| (catalog.full_name(*dataset), lost))
    }

    /// Returns all damage, with the names of the datasets.
    pub(crate) fn views(&self, catalog: &Catalog) -> Vec<DamagedView> {
        let ranges = self.named(catalog).flat_map(|(name, lost)| {
            lost.ranges.iter().map(move |(start, end)| DamagedView {
                dataset: name.clone(),
                offset: *start,
                len: end - start,
            })
        });
        ranges.collect()
    }

    /// Returns the sums of the damage.
    pub(crate) fn sums(&self, catalog: &Catalog) -> Vec<LostView> {
        let sums = self.named(catalog).map(|(dataset, lost)| LostView {
            dataset,
            bytes: lost.bytes(),
            ranges: lost.ranges.len() as u64,
            is_more: lost.is_more,
        });
        sums.collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ranges_are_the_set_of_their_bytes(spans in prop::collection::vec((0..60_u64, 1..9_u64), 0..30)) {
            let mut lost = Lost::default();
            let mut bytes = std::collections::BTreeSet::new();
            for (start, len) in spans {
                lost.add(start, start + len);
                bytes.extend(start..start + len);
            }
            prop_assert_eq!(lost.bytes(), bytes.len() as u64);
            let ranges: Vec<_> = lost.ranges.iter().collect();
            for pair in ranges.windows(2) {
                prop_assert!(pair[0].1 < pair[1].0, "they touch: {:?}", ranges);
            }
        }
    }

    #[test]
    fn ranges_are_not_kept_without_end() {
        let mut lost = Lost::default();
        for number in 0..2 * KEPT as u64 {
            lost.add(number * 8192, number * 8192 + 4096);
        }
        assert_eq!((lost.ranges.len(), lost.is_more), (KEPT, true));
        // A range that joins known ranges takes no more room.
        lost.add(0, 1 << 30);
        assert_eq!((lost.ranges.len(), lost.bytes()), (1, 1 << 30));
    }
}
