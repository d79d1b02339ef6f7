//! The dirty time log: the epochs whose blocks a leaf may lack, because it was away or failed when
//! they were written. Their blocks are read from other leaves until a resilver has rebuilt them.

use crate::format::Epoch;

/// A set of epochs, as ascending ranges with both ends included. The ranges neither touch nor
/// overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dtl(Vec<(Epoch, Epoch)>);

impl Dtl {
    /// Makes a log of no missing epoch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes the log of a new leaf: everything up to `last` is missing.
    pub fn all_until(last: Epoch) -> Self {
        Self(vec![(Epoch(0), last)])
    }

    /// Makes a log from data of a disk. The ranges may be in any order; a range whose ends are
    /// reversed is dropped.
    pub fn from_ranges(ranges: impl IntoIterator<Item = (Epoch, Epoch)>) -> Self {
        let mut dtl = Self::new();
        ranges
            .into_iter()
            .for_each(|(first, last)| dtl.add(first, last));
        dtl
    }

    /// Reports whether nothing is missing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reports whether blocks born in `epoch` may be missing.
    pub fn contains(&self, epoch: Epoch) -> bool {
        let after = self.0.partition_point(|(first, _)| *first <= epoch);
        after > 0 && self.0[after - 1].1 >= epoch
    }

    /// Returns the ranges, ascending, both ends included.
    pub fn ranges(&self) -> &[(Epoch, Epoch)] {
        &self.0
    }

    /// Notes that blocks born in `first..=last` may be missing too.
    pub fn add(&mut self, first: Epoch, last: Epoch) {
        if first > last {
            return;
        }
        let (mut first, mut last) = (first, last);
        self.0.retain(|&(start, end)| {
            let is_apart = end.0.saturating_add(1) < first.0 || last.0.saturating_add(1) < start.0;
            if !is_apart {
                first = first.min(start);
                last = last.max(end);
            }
            is_apart
        });
        let at = self.0.partition_point(|range| range.0 < first);
        self.0.insert(at, (first, last));
    }

    /// Notes that all blocks may be missing that `other` misses.
    pub fn add_all(&mut self, other: &Self) {
        let ranges = other.0.iter();
        ranges.for_each(|(first, last)| self.add(*first, *last));
    }

    /// Notes that all blocks born from `first` on may be missing, without end: until
    /// [`Dtl::end_at`].
    pub fn add_since(&mut self, first: Epoch) {
        self.add(first, Epoch(u64::MAX));
    }

    /// Notes that no block was born after `last`.
    pub fn end_at(&mut self, last: Epoch) {
        self.0.retain(|(first, _)| *first <= last);
        if let Some(range) = self.0.last_mut() {
            range.1 = range.1.min(last);
        }
    }

    /// Notes that no block born up to `last` is missing any more.
    pub fn remove_until(&mut self, last: Epoch) {
        self.0.retain(|(_, end)| *end > last);
        if let Some(range) = self.0.first_mut() {
            range.0 = range.0.max(last.next());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_is_a_set_of_epochs(
            changes in prop::collection::vec((any::<bool>(), 0..40_u64, 0..12_u64), 0..20),
            (since, last) in (0..60_u64, 0..60_u64),
        ) {
            let (mut dtl, mut model) = (Dtl::new(), BTreeSet::new());
            for (is_added, first, len) in changes {
                if is_added {
                    dtl.add(Epoch(first), Epoch(first + len));
                    model.extend(first..=first + len);
                } else {
                    dtl.remove_until(Epoch(first));
                    model.retain(|epoch| *epoch > first);
                }
                for epoch in 0..60 {
                    prop_assert_eq!(dtl.contains(Epoch(epoch)), model.contains(&epoch));
                }
                prop_assert_eq!(dtl.is_empty(), model.is_empty());
                prop_assert!(dtl.ranges().windows(2).all(|pair| pair[0].1.0 + 1 < pair[1].0.0));
                prop_assert_eq!(&Dtl::from_ranges(dtl.ranges().iter().copied().rev()), &dtl);
            }
            dtl.add_since(Epoch(since));
            prop_assert!(dtl.contains(Epoch(u64::MAX)));
            dtl.end_at(Epoch(last));
            for epoch in 0..70 {
                let is_missing = epoch <= last && (epoch >= since || model.contains(&epoch));
                prop_assert_eq!(dtl.contains(Epoch(epoch)), is_missing);
            }
        }
    }
}
