//! Watches of writes that happen while a block is read. A block may be freed and its place used
//! again meanwhile. Then the bytes that the devices return prove nothing, and a repair would put an
//! old block's bytes over a new block.
//!
//! Each block that is read is watched until its read ends, however long that takes and however much
//! is written.

use std::collections::BTreeMap;

use crate::format::Address;

/// A place that is watched.
#[derive(Debug)]
pub(super) struct Watch {
    vdev: u16,
    start: u64,
    number: u64,
}

impl Watch {
    fn place(&self) -> (u16, u64, u64) {
        (self.vdev, self.start, self.number)
    }
}

/// All places that are watched.
#[derive(Debug, Default)]
pub(super) struct Watches {
    /// Sector after the last of each place, by vdev, first sector and number. A write removes the
    /// places that it touches.
    watched: BTreeMap<(u16, u64, u64), u64>,
    /// Sectors of the longest place that was ever watched.
    longest: u64,
    next_number: u64,
}

impl Watches {
    /// Notes that these sectors are written, or given up.
    pub(super) fn note(&mut self, address: Address, sectors: u32) {
        if self.watched.is_empty() {
            return;
        }
        let (vdev, start) = (address.vdev(), address.sector());
        let end = start + u64::from(sectors);
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

    /// Watches these sectors: each write there is noted, until the watch is
    /// [forgotten](Watches::forget).
    pub(super) fn watch(&mut self, address: Address, sectors: u32) -> Watch {
        let watch = Watch {
            vdev: address.vdev(),
            start: address.sector(),
            number: self.next_number,
        };
        let sectors = u64::from(sectors);
        self.next_number += 1;
        self.longest = self.longest.max(sectors);
        self.watched.insert(watch.place(), watch.start + sectors);
        watch
    }

    /// Reports whether nothing was written there since.
    pub(super) fn is_untouched(&self, watch: &Watch) -> bool {
        self.watched.contains_key(&watch.place())
    }

    /// Ends a watch.
    pub(super) fn forget(&mut self, watch: &Watch) {
        self.watched.remove(&watch.place());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_write_touches_what_it_overlaps_and_nothing_else(
            watched in prop::collection::vec((0..2_u16, 0..60_u64, 1..12_u32), 0..12),
            written in prop::collection::vec((0..2_u16, 0..60_u64, 1..12_u32), 0..6),
        ) {
            let mut watches = Watches::default();
            let place = |(vdev, at, _): (u16, u64, u32)| Address::new(vdev, at);
            let begun: Vec<_> = watched.iter().map(|of| watches.watch(place(*of), of.2)).collect();
            written.iter().for_each(|of| watches.note(place(*of), of.2));
            for (watch, (vdev, at, len)) in begun.into_iter().zip(watched) {
                let end = at + u64::from(len);
                let overlaps = |of: &(u16, u64, u32)| {
                    of.0 == vdev && of.1 < end && at < of.1 + u64::from(of.2)
                };
                prop_assert_eq!(watches.is_untouched(&watch), !written.iter().any(overlaps));
                watches.forget(&watch);
            }
            prop_assert!(watches.watched.is_empty());
        }
    }
}
