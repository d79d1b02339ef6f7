//! Replays the log.
//!
//! Groups are done in their order. Groups that are known to have been durable are done as they are
//! found. Later groups wait until the end of the chain is known. All copies of these are read
//! first, and wrong ones are rewritten from a right one. A group counts when all of it was brought
//! onto all its leaves. One copy seen once is not enough: it may be on the only leaf that does not
//! keep it.
//!
//! Missing data is asked for twice. A device that once returns something else must not cost
//! acknowledged data, and the next opening should not miss what this one finds.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use pages::Pages;

use super::end_mark::NewMark;
use super::space::fault;
use super::{Block, OpenError, OpenErrorKind, Opening, OpeningStage, Wanted};
use crate::catalog::Operation;
use crate::engine::state::Pool;
use crate::format::{Address, Entry, Epoch, Pointer, PoolKey, Record, Root};
use crate::log::replay::{self, Damage, FoundGroup, Replay};
use crate::vdev::{VdevEvent, Verify};

/// Progress of the replay.
#[derive(Debug)]
pub(super) struct ReplayState {
    pub(super) replay: Replay,
    /// Groups that were found and are not done yet.
    pub(super) waiting: VecDeque<FoundGroup>,
    /// Groups that were done.
    pub(super) groups: u64,
    /// Whether the next record was not there, and is being asked for once more.
    is_repeated: bool,
    /// Bytes of the next group's operation, if they are not in its record.
    pub(super) stored: Option<Pages>,
    /// Place of the last record on each vdev.
    pub(super) last: BTreeMap<u16, u64>,
    /// Signposts that may be missing: of marks, and of groups that were not known to be durable in
    /// the chain.
    pub(super) signposts: Vec<(Address, Pages)>,
    /// Mark for the end that was found.
    pub(super) new_mark: Option<NewMark>,
}

impl ReplayState {
    pub(super) fn new(key: PoolKey, root: &Root) -> Self {
        Self {
            replay: Replay::new(key, root.seq, root.log, root.previous),
            waiting: VecDeque::new(),
            groups: 0,
            is_repeated: false,
            stored: None,
            last: BTreeMap::new(),
            signposts: Vec::new(),
            new_mark: None,
        }
    }
}

impl Opening {
    /// Asks all copies for the next record that fits. It is of the epoch of the record before or of
    /// a later one. So only a leaf that missed none of these epochs can say that there is no
    /// record.
    pub(super) fn want_record(&mut self) {
        let before = self.replay.waiting.back();
        let epoch = before.map_or(self.pool.epoch(), |found| found.record.epoch);
        let replay = &self.replay.replay;
        let block = self.record_at(replay.address(), replay.seq(), replay.previous(), epoch);
        self.read(Wanted::Record, block);
    }

    fn record_at(&self, address: Address, seq: u64, previous: u128, birth: Epoch) -> Block {
        let key = self.pool.key();
        let is_it = move |data: &pages::Pages| {
            let sector = data.to_vec();
            match Record::decode(&sector, key) {
                Some((record, _)) => record.seq == seq && record.previous == previous,
                // This record is not the end of the log, but it cannot be followed either.
                None => Record::later_version(&sector, key).is_some(),
            }
        };
        Block {
            address,
            second: None,
            sectors: 1,
            birth,
            verify: Verify::Record(Arc::new(is_it)),
        }
    }

    /// Returns the block of exactly the record that was found. Another record may fit as well and
    /// lie on another leaf: that of a cut group, over which this one was written.
    pub(super) fn record_of(&self, found: &FoundGroup) -> Block {
        let (key, checksum, record) = (self.pool.key(), found.checksum, &found.record);
        let is_it = move |data: &Pages| {
            Record::decode(&data.to_vec(), key).is_some_and(|(_, of)| of == checksum)
        };
        Block {
            verify: Verify::Record(Arc::new(is_it)),
            ..self.record_at(found.address, record.seq, record.previous, record.epoch)
        }
    }

    pub(super) fn take_record(&mut self) -> Result<(), OpenError> {
        if self.replay.groups == 0 && !self.pool.has_records() {
            self.note_record_place(self.root.seq + 1, self.root.log, false)?;
        }
        let operation = self.got.remove(&Wanted::Operation);
        let goes_on = operation.is_some();
        self.replay.stored = operation.or(self.replay.stored.take());
        if self.end_proof() || goes_on {
            if self.do_proven()? {
                self.want_record();
            }
            return Ok(());
        }
        let data = self.got.remove(&Wanted::Record).map(|data| data.to_vec());
        let later = data
            .as_ref()
            .and_then(|sector| Record::later_version(sector, self.pool.key()));
        if let Some(version) = later {
            return Err(OpenError::later("the log", version));
        }
        let data = data.filter(|_| !self.is_at_end_of_rewind());
        let found = data.and_then(|sector| self.replay.replay.follow(&sector));
        let copy = self.got.remove(&Wanted::Copy);
        let found = found.or_else(|| self.take_copy(&copy?));
        let Some(found) = found else {
            if !std::mem::replace(&mut self.replay.is_repeated, true) {
                self.want_record();
                return Ok(());
            }
            self.replay.is_repeated = false;
            if self.want_copy() {
                return Ok(());
            }
            self.stage = OpeningStage::Verify;
            return self.verify_next();
        };
        self.replay.is_repeated = false;
        self.replay.waiting.push_back(found);
        if self.do_proven()? {
            self.want_record();
        }
        Ok(())
    }

    /// Does the groups that are known to have been durable. Returns `false` if blocks have to be
    /// read first.
    fn do_proven(&mut self) -> Result<bool, OpenError> {
        let durable_seq = self.replay.replay.durable_seq();
        while let Some(found) = self.replay.waiting.pop_front_if(|found| {
            let seq = found.record.seq;
            seq <= durable_seq && !self.copies.used.contains_key(&seq)
        }) {
            if self.begin_proof(&found) {
                self.replay.waiting.push_front(found);
                return Ok(false);
            }
            if let Some((_, pointer)) = stored_operation(&found.record)
                && self.replay.stored.is_none()
            {
                self.replay.waiting.push_front(found);
                self.read(Wanted::Operation, Block::verified(&pointer));
                return Ok(false);
            }
            self.do_group(&found)?;
        }
        Ok(true)
    }

    /// Continues with the next group that is not known to have been durable.
    pub(super) fn verify_next(&mut self) -> Result<(), OpenError> {
        let used = &self.copies.used;
        let is_copy = |found: &mut FoundGroup| used.contains_key(&found.record.seq);
        if let Some(found) = self.replay.waiting.pop_front_if(is_copy) {
            self.begin_restore(found);
            return Ok(());
        }
        match self.replay.waiting.front().cloned() {
            None => self.begin_search(),
            Some(found) if found.record.is_mark() => self.verify_group(),
            Some(found) => {
                self.want_mark(&found);
                Ok(())
            }
        }
    }

    /// Brings the next group onto all its leaves.
    pub(super) fn verify_group(&mut self) -> Result<(), OpenError> {
        let Some(found) = self.replay.waiting.front() else {
            return self.begin_search();
        };
        let blocks = replay::blocks(&found.record).map(|pointer| Block::verified(&pointer));
        let all: Vec<Block> = std::iter::once(self.record_of(found))
            .chain(blocks)
            .collect();
        for (number, block) in all.into_iter().enumerate() {
            let tag = self.note_tag(Wanted::Block(number));
            self.pool.scrub_block(tag, block);
        }
        Ok(())
    }

    pub(super) fn take_verified(&mut self) -> Result<(), OpenError> {
        let Some(found) = self.replay.waiting.pop_front() else {
            return self.begin_search();
        };
        let mut got = std::mem::take(&mut self.got);
        self.replay.stored = got.remove(&Wanted::Operation);
        let is_whole = got.len() == 1 + replay::blocks(&found.record).count();
        if is_whole && let Some((_, pointer)) = stored_operation(&found.record) {
            self.replay.waiting.push_front(found);
            self.read(Wanted::Operation, Block::verified(&pointer));
            return Ok(());
        }
        if is_whole || self.replay.stored.is_some() {
            self.replay.is_repeated = false;
            self.do_group(&found)?;
            return self.verify_next();
        }
        if !std::mem::replace(&mut self.replay.is_repeated, true) {
            self.replay.waiting.push_front(found);
            return self.verify_group();
        }
        self.replay.is_repeated = false;
        if self.has_copy_of(&found) {
            self.begin_restore(found);
            return Ok(());
        }
        self.cut(&found)
    }

    /// Cuts the log before a group, which was being written when the power failed, as were all
    /// groups after it.
    pub(super) fn cut(&mut self, found: &FoundGroup) -> Result<(), OpenError> {
        self.got.clear();
        let seq = found.record.seq;
        if seq <= self.replay.replay.durable_seq() {
            self.log_is_damaged(&Damage {
                seq,
                address: found.address,
                proven_by: seq + 1,
            })?;
        }
        self.replay.replay.cut_before(found);
        self.replay.waiting.clear();
        self.begin_search()
    }

    /// Makes all groups found durable.
    pub(super) fn flush_found(&mut self) -> Result<(), OpenError> {
        self.stage = OpeningStage::Flush;
        let tag = self.note_tag(Wanted::Flush);
        self.pool.assume_unflushed(self.root.epoch);
        self.pool.flush_vdevs(tag);
        let logs: Vec<u16> = log_vdevs(&self.pool).collect();
        for vdev in logs {
            let tag = self.note_tag(Wanted::Wiped);
            self.pool.flush_log_vdev(tag, vdev);
        }
        Ok(())
    }

    pub(super) fn end(&mut self) -> Result<(), OpenError> {
        let pool = &mut self.pool;
        let (told, noticed): (Vec<_>, Vec<_>) = (pool.take_disk_events().into_iter())
            .partition(|event| matches!(event, VdevEvent::LeafState { .. }));
        told.into_iter()
            .for_each(|event| pool.keep_disk_event(event));
        pool.end_missing();
        for event in noticed {
            // The data at the end of the log counts, though this leaf could not be brought to have
            // it. (Before the end was found, the leaf was believed about where the log ends.)
            if let VdevEvent::Unrepaired { leaf, birth, .. } = event
                && birth <= pool.epoch()
            {
                pool.note_lack(leaf, birth);
            }
        }
        let leaves: Vec<_> = pool.leaf_statuses().map(|leaf| leaf.leaf).collect();
        for leaf in leaves {
            // Data missing at the end of the log was not an error of the leaves.
            let _ = pool.clear_leaf(leaf);
        }
        pool.count_reserved();
        self.tell_old_copies();
        self.go_on_above();
        let pool = &mut self.pool;
        // Frees that were under way continue.
        if pool.jobs_being_freed().next().is_some() {
            pool.want_checkpoint();
        }
        self.stage = OpeningStage::Labels;
        self.end_with_labels()
    }

    /// Waits until the labels report the leaves that the opening lost, before any caller sees the
    /// groups found. If a leaf that did not take the end of the log came back, it would show groups
    /// that were given up.
    pub(super) fn end_with_labels(&mut self) -> Result<(), OpenError> {
        self.pool.labels_go_on();
        if self.pool.is_suspended() {
            let reason = self.pool.why_suspended();
            return Err(OpenError::new(OpenErrorKind::Missing, reason));
        }
        if !self.pool.is_labelling() {
            self.stage = OpeningStage::Done;
        }
        Ok(())
    }

    /// Does the changes of a group again.
    pub(super) fn do_group(&mut self, found: &FoundGroup) -> Result<(), OpenError> {
        let record = &found.record;
        if record.epoch < self.pool.epoch() {
            return Err(OpenError::damaged(format!(
                "group {} of the log belongs to an older epoch",
                record.seq
            )));
        }
        self.pool.begin_epoch(record.epoch);
        let place = found.address;
        self.replay.last.insert(place.vdev(), place.sector());
        self.pool.note_updates(record.entries.len());
        for entry in &record.entries {
            if let Entry::Map { dataset, block, .. } = entry {
                self.pool.foresee_mapping(*dataset, *block);
            }
        }
        for entry in &record.entries {
            match entry {
                Entry::Map {
                    dataset,
                    block,
                    pointer,
                } => {
                    self.mark(pointer)?;
                    let mapped = std::iter::once((*block, *pointer));
                    if !self.pool.map_blocks(*dataset, mapped) {
                        return Err(unknown(record, dataset.0));
                    }
                }
                Entry::Clear {
                    dataset,
                    block,
                    count,
                } => {
                    if !self.pool.map_zeros(*dataset, *block, *count) {
                        return Err(unknown(record, dataset.0));
                    }
                }
                Entry::Operation(bytes) => self.operate(record.seq, bytes)?,
                Entry::StoredOperation { len, pointer } => {
                    self.mark(pointer)?;
                    for extent in self.pool.extents_of(pointer) {
                        self.pool.keep_record(record.seq, extent);
                    }
                    let mut bytes = self.replay.stored.take().unwrap_or_default().to_vec();
                    bytes.truncate(usize::try_from(*len).unwrap_or(usize::MAX));
                    self.operate(record.seq, &bytes)?;
                }
            }
        }
        if let Some(signpost) = record.signpost_at(place) {
            self.note_record_place(record.seq, signpost, true)?;
            let is_sure = record.seq <= self.replay.replay.durable_seq();
            // A mark was written without its signpost, and a leaf that lacked the group lacks its
            // signpost too.
            let is_lacking = std::mem::take(&mut self.proven.is_lacking);
            if !is_sure
                || is_lacking
                || record.is_mark()
                || self.copies.used.contains_key(&record.seq)
            {
                let (sector, _) = record.encode(self.pool.key());
                self.replay.signposts.push((signpost, sector));
            }
        }
        self.note_record_place(record.seq + 1, record.next, true)?;
        self.replay.groups += 1;
        match self.pool.is_suspended() {
            true => Err(OpenError::damaged(self.pool.why_suspended())),
            false => Ok(()),
        }
    }

    fn operate(&mut self, seq: u64, bytes: &[u8]) -> Result<(), OpenError> {
        let catalog = Arc::make_mut(&mut self.pool.catalog);
        let applied = Operation::decode(bytes).and_then(|operation| catalog.apply(&operation));
        let applied = applied.map_err(|error| {
            OpenError::damaged(format!(
                "the operation in group {seq} of the log does not fit: {error}"
            ))
        })?;
        self.pool.follow(applied);
        Ok(())
    }

    fn mark(&mut self, pointer: &Pointer) -> Result<(), OpenError> {
        for extent in self.pool.extents_of(pointer) {
            let marked = self.pool.mark_in_use(extent);
            marked.map_err(fault)?;
        }
        Ok(())
    }

    /// Notes the present or future place of a group's record or its signpost. The place of the
    /// first group was in use already when the checkpoint was made.
    fn note_record_place(
        &mut self,
        seq: u64,
        address: Address,
        mark: bool,
    ) -> Result<(), OpenError> {
        let place = Pointer {
            address,
            sectors: 1,
            ..Pointer::HOLE
        };
        if mark {
            self.mark(&place)?;
        }
        for extent in self.pool.extents_of(&place) {
            self.pool.keep_record(seq, extent);
        }
        Ok(())
    }
}

/// Returns the log vdevs that keep what they are given.
fn log_vdevs(pool: &Pool) -> impl Iterator<Item = u16> {
    let tops = pool.tops().map(|top| top.vdev);
    tops.filter(|vdev| pool.takes_log(*vdev))
}

/// Returns the operation of a group that lies in a block of its own, with its position among the
/// group's blocks.
pub(super) fn stored_operation(record: &Record) -> Option<(usize, Pointer)> {
    let mut blocks = record
        .entries
        .iter()
        .filter(|entry| matches!(entry, Entry::Map { .. } | Entry::StoredOperation { .. }));
    let number = blocks
        .clone()
        .position(|entry| matches!(entry, Entry::StoredOperation { .. }))?;
    match blocks.nth(number)? {
        Entry::StoredOperation { pointer, .. } => Some((number, *pointer)),
        _ => None,
    }
}

fn unknown(record: &Record, dataset: u32) -> OpenError {
    OpenError::damaged(format!(
        "group {} of the log changes dataset {dataset}, which does not exist",
        record.seq
    ))
}
