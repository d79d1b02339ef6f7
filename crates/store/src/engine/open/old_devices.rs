//! Devices that are not what the pool remembers: older than it, or shorter than they were.

use std::collections::BTreeMap;

use super::leaves_behind::Behind;
use super::sizes::Short;

/// Devices that do not hold all that the pool believed.
#[derive(Debug, Default)]
pub(in crate::engine) struct OldDevices {
    /// Leaves that came back older than the pool and are not rebuilt yet, by guid.
    behind: BTreeMap<u64, Behind>,
    /// Devices that were shorter than remembered when the pool was opened.
    short: Vec<Short>,
}

impl OldDevices {
    /// Notes that a leaf is older than the pool.
    pub(in crate::engine) fn note_behind(&mut self, behind: Behind) {
        self.behind.insert(behind.leaf, behind);
    }

    /// Notes that a leaf is rebuilt, or has left the pool.
    pub(in crate::engine) fn forget_behind(&mut self, leaf: u64) {
        self.behind.remove(&leaf);
    }

    /// Returns the leaves that are older than the pool.
    pub(in crate::engine) fn behind(&self) -> impl Iterator<Item = &Behind> {
        self.behind.values()
    }

    pub(super) fn is_behind(&self, leaf: u64) -> bool {
        self.behind.contains_key(&leaf)
    }

    /// Sets the devices that are shorter than remembered.
    pub(in crate::engine) fn set_short(&mut self, short: &[Short]) {
        self.short = short.to_vec();
    }

    /// Returns the devices that are shorter than remembered.
    pub(in crate::engine) fn short(&self) -> &[Short] {
        &self.short
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Epoch;

    fn behind(leaf: u64, root: u64) -> Behind {
        Behind::of_returned(leaf, Some(Epoch(root)), Epoch(9))
    }

    #[test]
    fn leaves_are_told_by_guid_and_each_once_as_it_is_now() {
        let mut devices = OldDevices::default();
        for (leaf, root) in [(7, 3), (5, 4), (7, 6)] {
            devices.note_behind(behind(leaf, root));
        }
        let told: Vec<&Behind> = devices.behind().collect();
        assert_eq!(told, [&behind(5, 4), &behind(7, 6)]);
    }

    #[test]
    fn only_the_leaf_that_is_rebuilt_is_forgotten() {
        let mut devices = OldDevices::default();
        devices.note_behind(behind(5, 4));
        devices.note_behind(behind(7, 3));
        devices.forget_behind(5);
        devices.forget_behind(6);
        let known = [5, 6, 7].map(|leaf| devices.is_behind(leaf));
        assert_eq!(known, [false, false, true]);
    }

    #[test]
    fn devices_that_are_shorter_are_those_of_the_last_look() {
        let short = |leaf| Short {
            leaf,
            has: 1 << 30,
            had: 2 << 30,
            is_cut: false,
            is_fitted: true,
        };
        let mut devices = OldDevices::default();
        assert_eq!(devices.short(), []);
        devices.set_short(&[short(5), short(7)]);
        devices.set_short(&[short(7)]);
        assert_eq!(devices.short(), [short(7)]);
        assert_eq!(devices.behind().count(), 0);
    }
}
