//! Second copies of records after which the log continues far away.
//!
//! Each record says where the next one lies. If a record becomes unreadable and no copy has it,
//! none of the records after it can be reached. Whether acknowledged groups lie there can then only
//! be found out by searching for records near it ([`crate::engine::open`] does). If the next record
//! is not near, nothing would be found, and the end would be taken for one that a power cut left.
//! All acknowledged groups after it would be lost silently.
//!
//! So such a record is written twice: its *signpost* lies near it, is durable when the group is,
//! and leads on. The place for a signpost is taken in advance, since nothing may be free there any
//! more when it is needed. No checkpoint knows the place until it is used, so a power cut frees it.

use crate::engine::state::Pool;
use crate::format::Address;
use crate::log::replay;
use crate::space::Extent;

impl Pool {
    /// Returns the place for a signpost of the record at `record`, if it needs one since the next
    /// record lies at `next`. If nothing is free near the record, it has none.
    pub(in crate::engine) fn signpost(&mut self, record: Address, next: Address) -> Option<Extent> {
        let vdev = record.vdev();
        self.signposts.note_record(record);
        if self.signposts.is_found(next) {
            return None;
        }
        // This place was kept when the record got its own.
        let kept = self.signposts.take_kept(vdev);
        kept.or_else(|| self.place_signpost(record))
    }

    /// Keeps a place for a signpost near the place of the next record.
    pub(in crate::engine) fn keep_signpost(&mut self, next: Address) {
        let vdev = next.vdev();
        let kept = self.signposts.kept_on(vdev);
        if kept.is_some_and(|extent| replay::is_near(extent.address(), next)) {
            return;
        }
        if let Some(extent) = kept {
            self.signposts.take_kept(vdev);
            self.give_back_extent(extent);
        }
        if let Some(extent) = self.place_signpost(next) {
            self.signposts.keep(vdev, extent);
        }
    }

    /// Begins anew for a checkpoint: an opening from it knows no record before it, and no unused
    /// signpost.
    pub(in crate::engine) fn begin_signposts(&mut self) {
        self.signposts.forget_records();
        let kept: Vec<Extent> = self.signposts.kept().collect();
        for extent in kept {
            self.make_young(extent);
        }
        self.keep_signpost(self.next_record());
    }
}
