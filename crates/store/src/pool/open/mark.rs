//! The end of the log is marked by who found it, so that what was given up there stays so.
//!
//! Where the log ended, a record may lie nevertheless that fits: of a group that was not whole, or
//! on a leaf that did not show it. And behind it others, which fit behind whatever group has the
//! same bytes: an initiator that repeats a write after a power cut may well make the pool write the
//! same record again, and those behind it would be followed although nobody wrote them a second
//! time.
//!
//! So an opening writes a *mark* there, a record without entries, and makes it durable before
//! anybody sees what it found. What is written from then on follows the mark, and by its checksum
//! continues nothing else.
//!
//! A leaf may lose the mark and say nothing, and then has the old record still. Of two that fit in
//! one place the mark is the younger one: a group is never written where a mark was. So before a
//! group counts that is not known to have been durable, all copies of its place are asked for a
//! mark; where there is one, it takes the group's place.
//!
//! A later opening may find groups behind a mark that were promised to nobody; from then on they
//! are. So a mark has a place for a signpost where the log goes on far away, as other records have.
//! That opening writes it, not this one: with a mark that was lost nothing is missed that was
//! promised.
//!
//! Where all leaves lost the mark, or the one that has it cannot be read, the next opening finds
//! the same end, and writes the same mark byte for byte. What was written behind the first one it
//! did not see, and gives up. So the place where the log goes on is made empty with each mark.

use std::sync::Arc;

use pages::{PAGE_SIZE, Page, Pages};

use super::super::anew::Start;
use super::super::commit::Commit;
use super::{Block, OpenError, Opening, Stage, Wanted};
use crate::format::{Address, Record};
use crate::log::chain::Chain;
use crate::log::replay::{self, Found};
use crate::space::Extent;
use crate::vdev::{Priority, Verify};

/// What is no record.
fn empty() -> Pages {
    Pages::from_page(Page::zero(), 0, PAGE_SIZE as u32)
}

/// A mark that is being written.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewMark {
    seq: u64,
    checksum: u128,
    /// Where the log goes on.
    next: Address,
}

impl Opening {
    /// Asks whether there is a mark where this group was found.
    pub(super) fn want_mark(&mut self, found: &Found) {
        self.stage = Stage::Mark;
        let (key, seq, previous) = (self.pool.key, found.record.seq, found.record.previous);
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

    /// All copies were asked: the log goes on behind the mark, or the group may count.
    pub(super) fn take_mark(&mut self) -> Result<(), OpenError> {
        self.stage = Stage::Verify;
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
        self.stage = Stage::Log;
        self.want_record();
        Ok(())
    }

    /// Marks the end that was found. Where a leaf does not take that, it may still show what it
    /// has; that is its own loss, as with any write.
    pub(super) fn mark_end(&mut self) -> Result<(), OpenError> {
        self.stage = Stage::NewMark;
        // Of the groups that count now, these may have been on their way when the power failed. Who
        // goes back makes a checkpoint at once, and until it is durable what is given up may lie
        // there.
        let signposts = std::mem::take(&mut self.replay.signposts);
        if self.rewind.is_none() {
            for (place, sector) in signposts {
                self.write_end(Wanted::Signpost, place, sector);
            }
        }
        let replay = &self.replay.replay;
        let (seq, place, previous) = (replay.seq(), replay.address(), replay.previous());
        let durable_seq = replay.durable_seq();
        // Who goes back goes on above all that there was; and a full pool may have no place to go
        // on.
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
                    epoch: self.pool.epoch,
                    // What was found is flushed only behind this.
                    durable_seq,
                    next,
                    previous,
                    signpost: signpost.map_or(0, distance),
                    copy: None,
                    entries: Vec::new(),
                };
                let (sector, checksum) = record.encode(self.pool.key);
                self.pool.records.extend(signpost.map(|at| (seq, at)));
                self.pool.records.push_back((seq + 1, extent));
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
        let (now, out) = (pool.now_us, &mut pool.array_output);
        let blocks = vec![(place, sector)];
        pool.array.write(tag, blocks, Priority::SyncWrite, now, out);
    }

    /// The mark is written. Where it could not be, it may lie there all the same, and lead to where
    /// the log goes on: so the log goes on there, as where all leaves lost the mark without a word.
    /// Nothing is promised before a checkpoint leads behind it.
    pub(super) fn go_on_behind_mark(&mut self) {
        if let Some(mark) = self.replay.new_mark.take() {
            let chain = Chain::new(mark.seq, mark.next, mark.checksum);
            self.pool.commit = Commit::new(chain, Start::Found);
            self.pool.logs.opened_at(mark.seq);
        }
    }
}
