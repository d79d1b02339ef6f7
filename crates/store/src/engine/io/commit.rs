//! Makes changes durable.
//!
//! The order that matters, for a change that was asked to be durable:
//! 1. its blocks and the record that names them are written by the devices, in any order. A record
//!    without its blocks does not count at replay, and blocks without their record are free space;
//! 2. so are all groups before it;
//! 3. then, not before, the devices are flushed;
//! 4. if a leaf was lost meanwhile, or the vdevs changed otherwise, the labels say so first
//!    (`devices/label_writes.rs`);
//! 5. if the change comes after the first group since the pool was opened, a checkpoint has that
//!    group (`engine/io/log_start.rs`);
//! 6. only then is the change acknowledged.
//!
//! If a log vdev copies the group first, steps 3 and 4 apply to the log vdev
//! (`devices/log_vdevs.rs`).
//!
//! A group can be durable in one round trip to the devices instead of two. For this, a request must
//! wait for the group, all groups before it must be durable, and one request for each leaf must
//! write it. Then that request is itself made durable, and step 3 is done when it is answered. If
//! other groups still need a flush, this would only be a second one.
//!
//! A failed flush is never repeated as if nothing had happened. The data that it should have made
//! durable may be lost, so the pool takes no changes any more.

use pages::Pages;

use super::log_end::{Commit, GROUPS_IN_FLIGHT, Start};
use crate::catalog::SyncPolicy;
use crate::engine::request::{Answer, PoolError, PoolErrorKind, RequestId};
use crate::engine::state::Pool;
use crate::engine::tags::Tag;
use crate::format::{Address, DatasetId, Entry, Record};
use crate::log::chain::Chain;
use crate::log::group::Change;
use crate::log::replay;
use crate::space::Extent;
use crate::vdev::{ArrayError, Priority};

/// Groups being written at which an awaited group is left to gather, if a log vdev has the groups.
const GROUPS_BEHIND_LOG: usize = 256;
/// Groups being written at which an awaited group is left to gather. With more, most of the written
/// data would be records; with fewer, the devices would idle meanwhile.
const AWAITED_GROUPS_IN_FLIGHT: usize = 4;
/// Groups on the devices after which they are flushed even if no request waits for that.
const UNFLUSHED_GROUPS: u64 = 256;

impl Pool {
    /// Answers the request when all that was answered before is durable.
    pub(in crate::engine) fn begin_flush(&mut self, id: RequestId, dataset: DatasetId) {
        if self.is_read_only() {
            // There is nothing to flush.
            return self.answer(id, Ok(Answer::Done));
        }
        if let Some(error) = self.suspension() {
            return self.answer(id, Err(error));
        }
        let of = self.contents_of(dataset);
        if of.is_some_and(|of| of.settings.sync == SyncPolicy::Disabled) {
            return self.answer(id, Ok(Answer::Done));
        }
        self.wait_for(self.newest_seq(), id);
    }

    /// Answers a request when a group is durable.
    pub(in crate::engine) fn wait_for(&mut self, seq: u64, id: RequestId) {
        if seq <= self.promised_seq() {
            self.answer(id, Ok(Answer::Done));
        } else {
            self.commit.waiters.push_back((seq, id));
        }
    }

    /// Seals the open group if it is time, and flushes if a request waits.
    pub(in crate::engine) fn commit_go_on(&mut self) {
        if self.is_suspended() {
            return self.fail_waiters();
        }
        let commit = &self.commit;
        if !commit.group.is_empty() {
            let writing = commit.chain.being_written();
            let is_ripe = self.now_us() >= commit.group.since_us + self.limits().gather_us;
            // A waiting request shares the next write with all that come while other writes are
            // under way.
            let most = match self.has_log() {
                true if self.is_copying() => 0,
                true => GROUPS_BEHIND_LOG,
                false => AWAITED_GROUPS_IN_FLIGHT,
            };
            let is_due = commit.is_group_wanted() && writing < most;
            if is_due || is_ripe && writing < GROUPS_IN_FLIGHT {
                self.seal();
            }
        }
        if self.is_suspended() {
            return self.fail_waiters();
        }
        self.copy_to_log(self.commit.last_wanted());
        let proven = self.commit.chain.proven_seq();
        if proven > self.commit.flushed_seq && self.is_flushable() {
            self.groups_flushed(proven);
        }
        let chain = &self.commit.chain;
        let flushed_seq = self.commit.flushed_seq;
        let next = self.commit.waiters.front();
        let is_written =
            next.is_some_and(|(seq, _)| (flushed_seq + 1..=chain.written_seq).contains(seq));
        let is_wanted = is_written && !self.is_copying();
        // Replay verifies each block that is not known to be durable, so these must stay few.
        let is_long = chain.written_seq > flushed_seq + UNFLUSHED_GROUPS;
        let is_behind = chain.written_seq > flushed_seq;
        let is_owed = is_behind && (self.is_log_owing() || self.is_log_filling());
        if (is_wanted || is_long || is_owed) && self.commit.flushing.is_none() {
            let seq = chain.written_seq;
            self.commit.flushing = Some(seq);
            let tag = self.tag(Tag::Flush(seq));
            self.flush_vdevs(tag);
        }
    }

    /// Makes the open group a record and writes it with its blocks.
    pub(in crate::engine) fn seal(&mut self) {
        let place = self.commit.chain.next;
        let seq = self.commit.chain.next_seq;
        let Some((then, extent)) = self.place_record() else {
            let reason = match self.is_flushable() {
                true => "no free sector is left for the log",
                false => "a flush failed, and no other top-level vdev can take the log",
            };
            return self.suspend(reason.into());
        };
        let is_wanted = self.commit.is_group_wanted();
        let bytes = self.commit.group.payload_bytes();
        self.note_unrest();
        let changes: Vec<Change> = self.commit.group.take().collect();
        self.note_updates(changes.len());
        self.map_changes(&changes);
        let mut blocks = Vec::with_capacity(changes.len() + 3);
        let mut data = Vec::with_capacity(changes.len());
        let entries = changes
            .into_iter()
            .map(|change| self.enter(change, &mut blocks, &mut data))
            .collect();
        self.unmerged.sealed();
        let signpost = self.signpost(place, then);
        let record = Record {
            seq,
            epoch: self.epoch(),
            durable_seq: self.commit.chain.durable_seq,
            next: then,
            previous: self.commit.chain.previous,
            signpost: signpost.map_or(0, |extent| replay::distance(place, extent.address())),
            copy: None,
            entries,
        };
        let (sector, checksum) = record.encode(self.key());
        self.keep_for_log(&record, &blocks);
        let twice = replay::blocks(&record).zip(&blocks);
        let seconds = twice.filter_map(|(of, (_, data))| Some((of.second()?, data.clone())));
        let seconds: Vec<(Address, Pages)> = seconds.collect();
        blocks.extend(seconds);
        if let Some(extent) = signpost {
            blocks.push((extent.address(), sector.clone()));
            self.records.push_back((seq, extent));
        }
        self.keep_signpost(then);
        blocks.insert(0, (place, sector));
        self.note_start(seq);
        self.records.push_back((seq + 1, extent));
        let tag = self.tag(Tag::Group(seq));
        let is_awaited = is_wanted && !self.has_log();
        let is_durable = if is_awaited && self.commit.chain.is_flushed() {
            self.write_durably(tag, blocks)
        } else {
            // If a log vdev has the group, no request waits for this write.
            let priority = match is_awaited {
                true => Priority::SyncWrite,
                false => Priority::AsyncWrite,
            };
            self.write_blocks(tag, blocks, priority);
            false
        };
        self.commit.chain.sealed(bytes, data, checksum, then);
        if !is_durable {
            self.commit.chain.needs_flush();
        }
        if self.commit.chain.next_seq - self.checkpoint_seq() > self.groups_at_most() {
            self.want_checkpoint();
        }
    }

    /// Makes changes take effect in the maps, in their order. Blocks of one dataset that come one
    /// after the other are mapped together.
    fn map_changes(&mut self, changes: &[Change]) {
        let dataset_of = |change: &Change| match change {
            Change::Block { dataset, .. } => Some(*dataset),
            _ => None,
        };
        for run in changes.chunk_by(|a, b| dataset_of(a) == dataset_of(b)) {
            if let Some(dataset) = run.first().and_then(dataset_of) {
                let blocks = run.iter().filter_map(|change| match change {
                    Change::Block { block, placed, .. } => Some((*block, placed.pointer)),
                    _ => None,
                });
                self.map_blocks(dataset, blocks);
            }
            for change in run {
                if let Change::Clear {
                    dataset,
                    block,
                    count,
                } = change
                {
                    self.map_zeros(*dataset, *block, *count);
                }
            }
        }
    }

    /// Turns a change into an entry of the record. Its payload joins `blocks`, and the bytes that
    /// readers get join `data`.
    fn enter(
        &mut self,
        change: Change,
        blocks: &mut Vec<(Address, Pages)>,
        data: &mut Vec<(Address, Pages)>,
    ) -> Entry {
        match change {
            Change::Block {
                dataset,
                block,
                placed,
            } => {
                let pointer = placed.pointer;
                blocks.push((pointer.address, placed.payload));
                data.push((pointer.address, placed.data));
                Entry::Map {
                    dataset,
                    block,
                    pointer,
                }
            }
            Change::Clear {
                dataset,
                block,
                count,
            } => Entry::Clear {
                dataset,
                block,
                count,
            },
            Change::Operation(operation) => Entry::Operation(operation),
            Change::StoredOperation {
                pointer,
                payload,
                len,
            } => {
                blocks.push((pointer.address, payload));
                // The extent is needed until the log after it is no longer needed.
                for extent in self.extents_of(&pointer) {
                    self.records.push_back((self.commit.chain.next_seq, extent));
                }
                Entry::StoredOperation { len, pointer }
            }
        }
    }
}

/// End of the log.
impl Pool {
    /// Returns the last group of the log that can hold a request answered so far. The request
    /// outlives a power cut if the group is not beyond [`Pool::promised_seq`].
    pub fn newest_seq(&self) -> u64 {
        let open = u64::from(self.has_open_group());
        self.sealed_seq() + open
    }

    /// Begins the log at an end that was found, or that is new.
    pub(in crate::engine) fn begin_log(&mut self, chain: Chain, start: Start) {
        self.commit = Commit::new(chain, start);
    }

    /// Returns the chain of the log's groups.
    pub(in crate::engine) fn chain(&self) -> &Chain {
        &self.commit.chain
    }

    pub(in crate::engine) fn sealed_seq(&self) -> u64 {
        self.commit.chain.sealed_seq()
    }

    /// Returns the last group such that all groups up to it are on the devices.
    pub(in crate::engine) fn written_seq(&self) -> u64 {
        self.commit.chain.written_seq
    }

    /// Returns the last group such that all groups up to it are flushed.
    pub(in crate::engine) fn flushed_seq(&self) -> u64 {
        self.commit.flushed_seq
    }

    /// Returns the last group such that all groups up to it are durable in the chain.
    pub(in crate::engine) fn durable_seq(&self) -> u64 {
        self.commit.chain.durable_seq
    }

    /// Returns the place of the next record.
    pub(in crate::engine) fn next_record(&self) -> Address {
        self.commit.chain.next
    }

    /// Reports whether there are changes that are in no sealed group.
    pub(in crate::engine) fn has_open_group(&self) -> bool {
        !self.commit.group.is_empty()
    }

    /// Reports whether the open group changes a block.
    pub(in crate::engine) fn is_in_group(&self, dataset: DatasetId, block: u64) -> bool {
        self.commit.group.look_up(dataset, block).is_some()
    }

    /// Returns the number of a dataset's blocks in the open group.
    pub(in crate::engine) fn blocks_in_group(&self, dataset: DatasetId) -> u64 {
        self.commit.group.blocks_of(dataset)
    }

    /// Puts an operation on datasets into the open group.
    pub(in crate::engine) fn put_operation(&mut self, operation: Change) {
        self.commit.group.operate(operation);
    }

    /// Returns the bytes of a block that is being written, by its future place.
    pub(in crate::engine) fn in_flight(&self, address: Address) -> Option<&Pages> {
        self.commit.chain.in_flight(address)
    }

    /// Returns the bytes of changes that are not on the devices yet.
    pub(in crate::engine) fn dirty_bytes(&self) -> usize {
        self.commit.dirty_bytes()
    }

    /// Returns the time at which the open group is to be sealed even if no request waits for it.
    pub(in crate::engine) fn group_due_us(&self) -> Option<u64> {
        self.commit.deadline_us(&self.limits())
    }

    /// Reports whether no change waits to be written, and no group is being written.
    pub(in crate::engine) fn is_log_at_rest(&self) -> bool {
        self.commit.chain.being_written() == 0 && !self.has_open_group()
    }

    /// Notes an extent that the log needs as long as group `seq` is in no checkpoint.
    pub(in crate::engine) fn keep_record(&mut self, seq: u64, extent: Extent) {
        self.records.push_back((seq, extent));
    }

    /// Reports whether the log has extents.
    pub(in crate::engine) fn has_records(&self) -> bool {
        !self.records.is_empty()
    }

    /// Returns the bytes that the list of the log's extents takes.
    pub(in crate::engine) fn records_memory(&self) -> usize {
        self.records.capacity() * size_of::<(u64, Extent)>()
    }
}

/// Durability.
impl Pool {
    /// Takes the end of a group's write.
    pub(in crate::engine) fn group_written(&mut self, seq: u64, result: Result<(), ArrayError>) {
        if let Err(error) = result {
            return self.suspend(format!("writing to the log failed: {error}"));
        }
        self.commit.chain.written(seq);
    }

    /// Takes the end of a flush for all groups up to `seq`.
    pub(in crate::engine) fn flushed(&mut self, seq: u64, result: Result<(), ArrayError>) {
        self.commit.flushing = None;
        if let Err(error) = result {
            return self.suspend(format!("a flush failed: {error}"));
        }
        self.groups_flushed(seq);
    }

    /// Notes that all groups up to `seq` are durable on the devices.
    pub(in crate::engine) fn groups_flushed(&mut self, seq: u64) {
        self.commit.flushed_seq = self.commit.flushed_seq.max(seq);
        if self.are_labels_true() {
            self.promise();
        }
    }

    /// Acknowledges flushed groups once the labels say on which leaves they lie, and if an opening
    /// would find them. The groups are durable then.
    pub(in crate::engine) fn promise(&mut self) {
        if let Start::Anew(_) = self.commit.start {
            return;
        }
        let seq = self.commit.flushed_seq;
        self.commit.chain.durable(seq);
        self.answer_durable(seq);
        // Removals of log vdevs may have waited for just this.
        self.remove_logs();
    }

    /// Answers all requests that wait for groups up to `seq`.
    pub(in crate::engine) fn answer_durable(&mut self, seq: u64) {
        while let Some((_, id)) = self
            .commit
            .waiters
            .pop_front_if(|(wanted, _)| *wanted <= seq)
        {
            self.answer(id, Ok(Answer::Done));
        }
    }

    /// Fails all requests that wait for durability, since nothing becomes durable any more.
    fn fail_waiters(&mut self) {
        let reason = self.why_suspended();
        let stalled = self.stalled.give_up();
        let waiting = std::mem::take(&mut self.commit.waiters);
        let ids = waiting.into_iter().map(|(_, id)| id);
        let syncs = self.give_up_syncs();
        let removals = self.give_up_removals();
        let unsettled = self.give_up_unsettled();
        let stalled_ids = stalled.iter().map(|ready| ready.id);
        let ids: Vec<RequestId> = ids
            .chain(stalled_ids)
            .chain(syncs)
            .chain(removals)
            .chain(unsettled)
            .collect();
        // Changes that waited behind these find the pool suspended.
        stalled.iter().for_each(|ready| self.let_go_on(ready));
        for id in ids {
            let context = format!("the change may be lost: {reason}");
            self.answer(id, Err(PoolError::new(PoolErrorKind::Suspended, context)));
        }
    }
}
