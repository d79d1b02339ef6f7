//! Checks the log after the checkpoint, from its end backwards.
//!
//! Two records may fit in one place. One may be of a group that was given up, on a leaf that missed
//! the record written over it. The log is read from its end, since each record has the checksum of
//! the one before, which tells the right one.

use std::sync::Arc;

use pages::Pages;

use super::report::Owner;
use super::walk::Task;
use super::{Check, CheckStage, Wanted};
use crate::format::{Address, Entry, Record};
use crate::vdev::{Block, Verify};

/// Records that are to be read, the last one first.
#[derive(Clone, Debug)]
pub(super) struct Records {
    /// Groups, oldest first, and the places of their records.
    places: Vec<(u64, Address)>,
    /// Checksum of the last of these records; unknown if the record after it cannot be read.
    checksum: Option<u128>,
}

impl Check<'_> {
    /// Claims records, the place of the next one, signposts, and operations that lie beside their
    /// records.
    pub(super) fn claim_log(&mut self) {
        let chain = &self.pool.commit.chain;
        let (written_seq, checksum) = (chain.written_seq, Some(chain.previous));
        let records: Vec<_> = self.pool.records.iter().copied().collect();
        let mut places: Vec<(u64, Address)> = Vec::new();
        for (seq, extent) in records {
            self.claim(Owner::Record { seq }, extent);
            // The first place of a group is its record.
            let is_first = places.last().is_none_or(|(last, _)| *last != seq);
            if is_first && seq <= written_seq {
                places.push((seq, extent.address()));
            }
        }
        let seq = self.pool.commit.chain.next_seq;
        let kept: Vec<_> = self.pool.signposts.kept().collect();
        for extent in kept {
            self.claim(Owner::Record { seq }, extent);
        }
        if self.stage == CheckStage::Walk {
            self.tasks
                .push_back(Task::Log(Records { places, checksum }));
        }
    }

    /// Reads the last of these records.
    pub(super) fn walk_log(&mut self, mut records: Records) {
        let Some((seq, address)) = records.places.pop() else {
            return;
        };
        let (key, checksum) = (self.pool.key(), records.checksum);
        let is_it = move |data: &Pages| {
            Record::decode(&data.to_vec(), key).is_some_and(|(record, found)| {
                record.seq == seq && checksum.is_none_or(|checksum| found == checksum)
            })
        };
        let block = Block {
            address,
            second: None,
            sectors: 1,
            birth: self.pool.checkpoint_epoch().next(),
            verify: Verify::Record(Arc::new(is_it)),
        };
        let owner = Owner::Record { seq };
        self.to_verify.push_back((owner, block.clone()));
        self.read(Wanted::Record(seq, records), block);
    }

    /// Takes a record, which tells the one before it, and the place of its operation if that has a
    /// block of its own. An unreadable record is reported where its copies are verified.
    pub(super) fn take_record(&mut self, seq: u64, before: Records, sector: Option<Pages>) {
        let sector = sector.map(|sector| sector.to_vec());
        let record = sector.and_then(|sector| Record::decode(&sector, self.pool.key()));
        let record = record.map(|(record, _)| record);
        for entry in record.iter().flat_map(|record| &record.entries) {
            if let Entry::StoredOperation { pointer, .. } = entry {
                self.queue_copies(Owner::Record { seq }, pointer);
            }
        }
        let checksum = record.map(|record| record.previous);
        self.tasks
            .push_front(Task::Log(Records { checksum, ..before }));
    }
}
