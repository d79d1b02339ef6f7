//! Marks the end of the log that an opening found, so that groups given up there stay given up.
//!
//! A record may fit where the log ended: of a group that was not whole, or on a leaf that did not
//! show it. After it there may be others, which fit after any group with the same bytes. An
//! initiator that repeats a write after a power cut may well make the pool write the same record
//! again. Then the records after it would be followed, although nobody wrote them a second time.
//!
//! So an opening writes a *mark* there, a record without entries, and makes it durable before any
//! caller sees the groups found. Records written from then on follow the mark, and by their
//! checksums continue nothing else.
//!
//! A leaf may lose the mark silently, and then still has the old record. Of two records that fit in
//! one place, the mark is the younger one: a group is never written where a mark was. So before a
//! group counts that is not known to be durable, all copies of its place are asked for a mark. If
//! there is one, it takes the group's place.
//!
//! A later opening may find groups after a mark that nobody was promised; from then on they are
//! promised. So a mark has a place for a signpost if the log continues far away, as other records
//! have. The later opening writes the signpost, not this one: if a mark is lost, no promised group
//! is missed with it.
//!
//! If all leaves lost the mark, or the one that has it cannot be read, the next opening finds the
//! same end. It writes the same mark byte for byte. It does not see the groups written after the
//! first mark, and gives them up. So the place where the log continues is emptied with each mark.

use std::sync::Arc;

use pages::{PAGE_SIZE, Page, Pages};

use super::{Block, OpenError, Opening, OpeningStage, Wanted};
use crate::engine::io::log_end::Start;
use crate::format::{Address, Record};
use crate::log::chain::Chain;
use crate::log::replay::{self, FoundGroup};
use crate::space::Extent;
use crate::vdev::{Priority, Verify};

/// Returns a sector that is no record.
fn empty() -> Pages {
    Pages::from_page(Page::zero(), 0, PAGE_SIZE as u32)
}

/// Mark that is being written.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewMark {
    seq: u64,
    checksum: u128,
    /// Place where the log continues.
    next: Address,
}

impl Opening {
    /// Asks whether there is a mark in the place of this group.
    pub(super) fn want_mark(&mut self, found: &FoundGroup) {
        self.stage = OpeningStage::Mark;
        let (key, seq, previous) = (self.pool.key(), found.record.seq, found.record.previous);
        let is_mark = move |data: &Pages| {
            Record::decode(&data.to_vec(), key).is_some_and(|(record, _)| {
                record.is_mark() && (record.seq, record.previous) == (seq, previous)
            })
        };
        let block = Block {
            address: found.address,
            second: None,
            sectors: 1,
            birth: found.record.epoch,
            verify: Verify::Record(Arc::new(is_mark)),
        };
        self.read(Wanted::Mark, block);
    }

    /// Takes the answers of all copies: the log continues after the mark, or the group may count.
    pub(super) fn take_mark(&mut self) -> Result<(), OpenError> {
        self.stage = OpeningStage::Verify;
        let Some(data) = self.got.remove(&Wanted::Mark) else {
            return self.verify_group();
        };
        let Some(found) = self.replay.waiting.pop_front() else {
            return self.begin_search();
        };
        self.replay.replay.cut_before(&found);
        self.replay.waiting.clear();
        self.copies.used.split_off(&found.record.seq);
        let mark = self.replay.replay.follow(&data.to_vec());
        self.replay.waiting.extend(mark);
        self.stage = OpeningStage::Log;
        self.want_record();
        Ok(())
    }

    /// Marks the end that was found. A leaf that does not take the mark may still show its old
    /// record; this is the leaf's own loss, as with any write.
    pub(super) fn mark_end(&mut self) -> Result<(), OpenError> {
        self.stage = OpeningStage::NewMark;
        // Of the groups that count now, these signposts may not have been written when the power
        // failed. A rewind makes a checkpoint at once, and until that is durable, given-up data may
        // lie there.
        let signposts = std::mem::take(&mut self.replay.signposts);
        if self.rewind.is_none() {
            for (place, sector) in signposts {
                self.write_end(Wanted::Signpost, place, sector);
            }
        }
        let replay = &self.replay.replay;
        let (seq, place, previous) = (replay.seq(), replay.address(), replay.previous());
        let durable_seq = replay.durable_seq();
        // A rewind continues above all that there was, and a full pool may have no place for the
        // next record.
        let goes_on = match self.rewind {
            Some(_) => None,
            None => self.pool.place_record(),
        };
        let (sector, wanted) = match goes_on {
            Some((next, extent)) => {
                let signpost = self.pool.signpost(place, next);
                let distance = |at: Extent| replay::distance(place, at.address());
                let record = Record {
                    seq,
                    epoch: self.pool.epoch(),
                    // The groups found are flushed only after this record.
                    durable_seq,
                    next,
                    previous,
                    signpost: signpost.map_or(0, distance),
                    copy: None,
                    entries: Vec::new(),
                };
                let (sector, checksum) = record.encode(self.pool.key());
                if let Some(at) = signpost {
                    self.pool.keep_record(seq, at);
                }
                self.pool.keep_record(seq + 1, extent);
                self.replay.new_mark = Some(NewMark {
                    seq,
                    checksum,
                    next,
                });
                (sector, Wanted::NewMark)
            }
            None => (empty(), Wanted::Wiped),
        };
        self.write_end(wanted, place, sector);
        if let Some((next, _)) = goes_on {
            self.write_end(Wanted::Wiped, next, empty());
        }
        self.wipe_copies();
        Ok(())
    }

    fn write_end(&mut self, wanted: Wanted, place: Address, sector: Pages) {
        let tag = self.note_tag(wanted);
        let pool = &mut self.pool;
        let blocks = vec![(place, sector)];
        pool.write_blocks(tag, blocks, Priority::SyncWrite);
    }

    /// Continues after the mark was written. If the write failed, the mark may still lie there and
    /// lead to the place where the log continues. So the log continues there, as if all leaves lost
    /// the mark silently. Nothing is promised before a checkpoint leads past it.
    pub(super) fn go_on_behind_mark(&mut self) {
        if let Some(mark) = self.replay.new_mark.take() {
            let chain = Chain::new(mark.seq, mark.next, mark.checksum);
            self.pool.begin_log(chain, Start::Found);
            self.pool.log_opened_at(mark.seq);
        }
    }
}
