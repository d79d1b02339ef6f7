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
