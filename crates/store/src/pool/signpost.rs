//! A second copy of a record behind which the log goes on far away.
//!
//! Each record says where the next one lies. So where a record becomes unreadable and nothing else
//! has it, all behind it cannot be reached; and whether anything is there, that was promised to
//! somebody, can only be told by looking for records near it ([`super::open`] does). Where the next
//! record is not near, nothing would be found, and the end of the log would be taken for one that a
//! power cut left: what was acknowledged behind it would be gone without a word.
//!
//! So such a record is written twice: its *signpost* lies near it, is durable when the group is,
//! and leads on. The place for one is taken in advance, since nothing may be free there any more
//! when it is needed. Until it is used it is known to no checkpoint: a power cut makes it free.

use std::collections::BTreeMap;

use super::state::Pool;
use crate::format::Address;
use crate::log::replay;
use crate::space::{Extent, Purpose};

/// What is known of the log's places on each top-level vdev.
#[derive(Debug, Default)]
pub(super) struct Signposts {
    /// Where the last record lies of those behind the checkpoint that was begun last: an opening
    /// knows these.
    known: BTreeMap<u16, Address>,
    /// Places for signposts to come: that of each vdev is near the last of its places that the log
    /// got.
    kept: BTreeMap<u16, Extent>,
}

impl Signposts {
    /// Whether an opening would find a record though nothing says where it is.
    fn is_found(&self, record: Address) -> bool {
        let known = self.known.get(&record.vdev());
        known.is_some_and(|known| replay::is_near(*known, record))
    }

    /// Places that are not used yet.
    pub(super) fn kept(&self) -> impl Iterator<Item = Extent> + '_ {
        self.kept.values().copied()
    }
}

impl Pool {
    /// Where a signpost for the record at this place is to lie, if it needs one since the next
    /// record lies at `next`. Where nothing is free near it, it has none.
    pub(super) fn signpost(&mut self, record: Address, next: Address) -> Option<Extent> {
        let vdev = record.vdev();
        self.signposts.known.insert(vdev, record);
        if self.signposts.is_found(next) {
            return None;
        }
        // Kept when the record got its place.
        let kept = self.signposts.kept.remove(&vdev);
        kept.or_else(|| self.place_signpost(record))
    }

    /// Keeps a place for a signpost near where the next record will lie.
    pub(super) fn keep_signpost(&mut self, next: Address) {
        let vdev = next.vdev();
        let kept = self.signposts.kept.get(&vdev).copied();
        if kept.is_some_and(|extent| replay::is_near(extent.address(), next)) {
            return;
        }
        if let Some(extent) = kept {
            self.signposts.kept.remove(&vdev);
            self.space.give_back(extent);
        }
        if let Some(extent) = self.place_signpost(next) {
            self.signposts.kept.insert(vdev, extent);
        }
    }

    /// A checkpoint begins: an opening from it knows no record before it, and no signpost that is
    /// not used.
    pub(super) fn begin_signposts(&mut self) {
        self.signposts.known.clear();
        for extent in self.signposts.kept() {
            self.space.make_young(extent);
        }
        self.keep_signpost(self.commit.chain.next);
    }

    fn place_signpost(&mut self, record: Address) -> Option<Extent> {
        let footprint = self.array.footprint(record.vdev(), 1);
        let (distance, purpose) = (replay::SEARCH, Purpose::Young);
        self.space
            .allocate_near(record, distance, footprint, purpose)
    }
}
