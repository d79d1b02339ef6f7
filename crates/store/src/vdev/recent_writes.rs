//! What is written while a block is read, so that a repair never puts an old block's bytes over a new block.
//!
//! Nearly all reads repair nothing. For them the last writes of all are remembered: where that does not reach back far
//! enough, the repair is left to the next read or scrub. Of a block that is scrubbed or rebuilt each write is known, for
//! as long as it may take: what was not rebuilt without need would be missing for good.

use std::collections::{BTreeMap, VecDeque};

use crate::format::Address;

/// A place that is watched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watch {
    vdev: u16,
    start: u64,
    number: u64,
}

/// The writes that were begun last, and those of places that are watched.
#[derive(Debug, Default)]
pub(super) struct RecentWrites {
    /// Vdev, first sector and the one after the last.
    ranges: VecDeque<(u16, u64, u64)>,
    /// How many there were ever.
    seen: u64,
    /// By vdev, first sector and number: the sector after the last. A write takes away those that it touches.
    watched: BTreeMap<(u16, u64, u64), u64>,
    /// Sectors of the longest that was ever watched.
    longest: u64,
    next_number: u64,
}

impl RecentWrites {
    /// How many are remembered.
    pub(super) const KEPT: usize = 8192;

    /// How many writes there were.
    pub(super) fn seen(&self) -> u64 {
        self.seen
    }

    /// Something is written there, or given up.
    pub(super) fn note(&mut self, address: Address, sectors: u32) {
        let (vdev, start) = (address.vdev(), address.sector());
        let end = start + u64::from(sectors);
        if self.ranges.len() == Self::KEPT {
            self.ranges.pop_front();
        }
        self.ranges.push_back((vdev, start, end));
        self.seen += 1;
        if !self.watched.is_empty() {
            self.touch(vdev, start, end);
        }
    }

    fn touch(&mut self, vdev: u16, start: u64, end: u64) {
        let first = (vdev, start.saturating_sub(self.longest), 0);
        let near = self.watched.range(first..(vdev, end, 0));
        let touched: Vec<_> = near
            .filter(|(_, watched_end)| **watched_end > start)
            .map(|(place, _)| *place)
            .collect();
        for place in touched {
            self.watched.remove(&place);
        }
    }

    /// Whether certainly nothing was written there after `seen` writes.
    pub(super) fn is_untouched_since(&self, seen: u64, address: Address, sectors: u32) -> bool {
        let since = (self.seen - seen) as usize;
        let (vdev, start) = (address.vdev(), address.sector());
        let end = start + u64::from(sectors);
        since <= self.ranges.len()
            && !self
                .ranges
                .iter()
                .rev()
                .take(since)
                .any(|range| range.0 == vdev && range.1 < end && start < range.2)
    }

    /// From now on it is known of each write there, until [`RecentWrites::is_untouched`] is asked.
    pub(super) fn watch(&mut self, address: Address, sectors: u32) -> Watch {
        let watch = Watch {
            vdev: address.vdev(),
            start: address.sector(),
            number: self.next_number,
        };
        let sectors = u64::from(sectors);
        self.next_number += 1;
        self.longest = self.longest.max(sectors);
        let place = (watch.vdev, watch.start, watch.number);
        self.watched.insert(place, watch.start + sectors);
        watch
    }

    /// Whether nothing was written there since; it is not watched any more.
    pub(super) fn is_untouched(&mut self, watch: Watch) -> bool {
        let place = (watch.vdev, watch.start, watch.number);
        self.watched.remove(&place).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn of_what_is_watched_each_write_is_known_however_many_there_are() {
        let mut writes = RecentWrites::default();
        let [touched, untouched] = [100, 200].map(|at| writes.watch(Address::new(1, at), 8));
        writes.note(Address::new(1, 107), 1);
        (0..=RecentWrites::KEPT as u64).for_each(|at| writes.note(Address::new(1, 1000 + at), 1));
        assert!(!writes.is_untouched_since(0, Address::new(1, 200), 8));
        assert!(!writes.is_untouched(touched));
        assert!(writes.is_untouched(untouched));
        assert!(writes.watched.is_empty());
    }

    proptest! {
        #[test]
        fn a_write_touches_what_it_overlaps_and_nothing_else(
            watched in prop::collection::vec((0..2_u16, 0..60_u64, 1..12_u32), 0..12),
            written in prop::collection::vec((0..2_u16, 0..60_u64, 1..12_u32), 0..6),
        ) {
            let mut writes = RecentWrites::default();
            let place = |(vdev, at, _): (u16, u64, u32)| Address::new(vdev, at);
            let watches: Vec<_> = watched.iter().map(|of| writes.watch(place(*of), of.2)).collect();
            written.iter().for_each(|of| writes.note(place(*of), of.2));
            for (watch, (vdev, at, len)) in watches.into_iter().zip(watched) {
                let end = at + u64::from(len);
                let overlaps = |of: &(u16, u64, u32)| {
                    of.0 == vdev && of.1 < end && at < of.1 + u64::from(of.2)
                };
                prop_assert_eq!(writes.is_untouched(watch), !written.iter().any(overlaps));
            }
        }
    }
}
