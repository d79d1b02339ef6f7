//! A set of block numbers as ranges: the unmapped blocks. A terabyte is one entry.

use std::collections::BTreeMap;
use std::ops::Range;

/// Disjoint ranges that do not touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeSet {
    /// Ends of the ranges by their starts.
    ranges: BTreeMap<u64, u64>,
}

impl RangeSet {
    /// Makes the empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds all of `range`.
    pub fn insert(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let (mut start, mut end) = (range.start, range.end);
        while let Some((&other_start, &other_end)) = self.ranges.range(..=end).next_back() {
            if other_end < start {
                break;
            }
            if other_start <= start && end <= other_end {
                return;
            }
            self.ranges.remove(&other_start);
            start = start.min(other_start);
            end = end.max(other_end);
        }
        self.ranges.insert(start, end);
    }

    /// Reports whether `index` is in the set.
    #[inline]
    pub fn contains(&self, index: u64) -> bool {
        !self.ranges.is_empty()
            && self
                .ranges
                .range(..=index)
                .next_back()
                .is_some_and(|(_, &end)| index < end)
    }

    /// Reports whether all of `range` is in the set.
    pub fn covers(&self, range: &Range<u64>) -> bool {
        let reach = self.ranges.range(..=range.start).next_back();
        range.is_empty() || reach.is_some_and(|(_, &end)| range.end <= end)
    }

    /// Returns the first member from `index` on.
    pub fn next(&self, index: u64) -> Option<u64> {
        if self.contains(index) {
            return Some(index);
        }
        self.ranges.range(index..).next().map(|(&start, _)| start)
    }

    /// Returns the members within `range`, as ranges in order.
    pub fn within(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let before = self.ranges.range(..range.start).next_back();
        let reaching = before.filter(move |&(_, &end)| end > range.start);
        let inside = self.ranges.range(range.start..range.end.max(range.start));
        reaching
            .into_iter()
            .chain(inside)
            .map(move |(&start, &end)| start.max(range.start)..end.min(range.end))
    }

    /// Returns all ranges in order.
    pub fn iter(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.ranges.iter().map(|(&start, &end)| start..end)
    }

    /// Returns the range from the first member to the last.
    pub fn span(&self) -> Option<Range<u64>> {
        let (first, last) = (self.ranges.first_key_value(), self.ranges.last_key_value());
        first.zip(last).map(|((start, _), (_, end))| *start..*end)
    }

    /// Returns the number of ranges.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Reports whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
}

#[cfg(test)]
mod tests;
