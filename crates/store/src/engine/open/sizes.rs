//! Devices whose size differs from the one that the configuration remembers.
//!
//! A device that grew keeps the remembered size until an administrator lets the pool use the rest:
//! its labels lie at the old end. A device that shrank is reported. If everything that its vdev
//! uses is left, with room for labels, the device takes its new size. Labels are then written to
//! the new end. Otherwise the part beyond its end is damaged: it is read from other leaves, and
//! never taken for the end of the log.

use pages::Pages;

use super::super::config::PoolConfig;
use crate::engine::open::leaf_labels::LeafLabels;
use crate::format::label::LABEL_SIZE;
use crate::format::{Label, SECTOR_SIZE};
use crate::vdev::{LeafState, layout};

/// Device that is shorter than it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Short {
    /// Guid of its leaf.
    pub leaf: u64,
    /// Bytes that the device has.
    pub has: u64,
    /// Bytes that the device had.
    pub had: u64,
    /// Whether a part that the vdev uses is missing.
    pub is_cut: bool,
    /// Whether the device continues with its new size.
    pub(super) is_fitted: bool,
}

impl Short {
    /// Returns a text that describes the shorter device.
    pub fn told(&self) -> String {
        let Self { leaf, has, had, .. } = self;
        format!("the device of leaf {leaf:016x} has {has} bytes, but had {had}")
    }

    /// Reports whether the labels at the device's end have no place.
    pub(in crate::engine) fn lacks_labels(&self) -> bool {
        !self.is_fitted
    }
}

/// Finds devices that are shorter than they were, and lets them continue with their new size if
/// they can.
pub(super) fn fit(
    config: &mut PoolConfig,
    leaves: &[Option<u64>],
    devices: &[LeafLabels],
) -> Vec<Short> {
    let size_of = |guid: u64| {
        let device = leaves.iter().position(|leaf| *leaf == Some(guid))?;
        Some(devices[device].size)
    };
    let mut short = Vec::new();
    for top in &mut config.tree.top_levels {
        let used = top.leaf_sectors;
        for spec in top.slots.iter_mut().flat_map(|slot| &mut slot.leaves) {
            let Some(has) = size_of(spec.guid).filter(|has| *has < spec.size) else {
                continue;
            };
            let used = used.or(layout::data_sectors(spec.size)).unwrap_or(0);
            let is_fitted = layout::data_sectors(has).is_some_and(|sectors| sectors >= used);
            short.push(Short {
                leaf: spec.guid,
                has,
                had: spec.size,
                is_cut: layout::sector_offset(used) > has - has % SECTOR_SIZE as u64,
                is_fitted,
            });
            if is_fitted {
                spec.size = has;
            }
        }
    }
    for spare in &mut config.spares {
        // A spare that is too small for a place is not used there.
        spare.size = size_of(spare.guid).unwrap_or(spare.size).min(spare.size);
    }
    for cache in &mut config.caches {
        if size_of(cache.guid).is_some_and(|has| has < cache.size)
            && cache.state == LeafState::Online
        {
            // Nothing depends on a cache.
            cache.state = LeafState::Unavailable;
        }
    }
    short
}

/// Returns the size that a label remembers of its own device.
fn remembered(label: &Label) -> Option<u64> {
    let config = PoolConfig::decode(&label.config).ok()?;
    let slots = config.tree.top_levels.iter().flat_map(|top| &top.slots);
    let leaves = slots.flat_map(|slot| &slot.leaves);
    let mut all = leaves.chain(&config.spares).chain(&config.caches);
    let own = all.find(|spec| spec.guid == label.leaf)?;
    Some(own.size)
}

impl LeafLabels {
    /// Returns the places of the four labels; `None` if the device ends before.
    pub fn offsets(&self) -> [Option<u64>; 4] {
        let [third, fourth] = rear_labels([&self.copies[0], &self.copies[1]], self.size);
        let [first, second] = front_labels(self.size);
        [first, second, third, fourth]
    }
}

/// Returns the places of the first and second label of a device of `size` bytes, even if it is now
/// too short for a leaf.
pub fn front_labels(size: u64) -> [Option<u64>; 2] {
    let places = [0, 1].map(|number| Label::offset(number, size));
    places.map(|offset| (offset + LABEL_SIZE as u64 <= size).then_some(offset))
}

/// Returns the places of the third and fourth label of a device of `size` bytes, by the contents of
/// its first two. `None` if the device ends before.
pub fn rear_labels(front: [&Pages; 2], size: u64) -> [Option<u64>; 2] {
    // The second label was written when the first was durable.
    let known = front
        .into_iter()
        .rev()
        .find_map(|copy| remembered(&Label::read(copy).ok()?));
    [2, 3].map(|number| {
        let offset = layout::label_offset(number, known.unwrap_or(size))?;
        (offset + LABEL_SIZE as u64 <= size).then_some(offset)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_labels_in_front_those_behind_are_looked_for_at_the_end() {
        let nothing = Pages::new();
        let found = rear_labels([&nothing, &nothing], 64 << 20);
        assert_eq!(front_labels(64 << 20), [Some(0), Some(LABEL_SIZE as u64)]);
        assert_eq!(front_labels(300 << 10), [Some(0), None]);
        let at_end = [2, 3].map(|number| layout::label_offset(number, 64 << 20));
        assert_eq!(found, at_end);
    }
}
