//! Places of signposts: those kept for future ones, and the records that an opening knows.

use std::collections::BTreeMap;

use crate::format::Address;
use crate::log::replay;
use crate::space::Extent;

/// Places of the log on each top-level vdev, as far as signposts need them.
#[derive(Debug, Default)]
pub(in crate::engine) struct Signposts {
    /// Place of the last record on each vdev since the last checkpoint began. An opening knows
    /// these places.
    known: BTreeMap<u16, Address>,
    /// Places for future signposts. On each vdev the place is near the last place that the log got
    /// there.
    kept: BTreeMap<u16, Extent>,
}

impl Signposts {
    /// Notes the place of a record, which leads to its vdev from now on.
    pub(super) fn note_record(&mut self, record: Address) {
        self.known.insert(record.vdev(), record);
    }

    /// Forgets the records so far, since an opening from the checkpoint that begins knows none.
    pub(super) fn forget_records(&mut self) {
        self.known.clear();
    }

    /// Takes the place that is kept on a vdev.
    pub(super) fn take_kept(&mut self, vdev: u16) -> Option<Extent> {
        self.kept.remove(&vdev)
    }

    /// Returns the place that is kept on a vdev.
    pub(super) fn kept_on(&self, vdev: u16) -> Option<Extent> {
        self.kept.get(&vdev).copied()
    }

    /// Keeps a place for a signpost on a vdev.
    pub(super) fn keep(&mut self, vdev: u16, extent: Extent) {
        self.kept.insert(vdev, extent);
    }

    /// Reports whether an opening would find a record that no other record leads to.
    pub(super) fn is_found(&self, record: Address) -> bool {
        let known = self.known.get(&record.vdev());
        known.is_some_and(|known| replay::is_near(*known, record))
    }

    /// Returns the places that are not used yet.
    pub(in crate::engine) fn kept(&self) -> impl Iterator<Item = Extent> + '_ {
        self.kept.values().copied()
    }
}
