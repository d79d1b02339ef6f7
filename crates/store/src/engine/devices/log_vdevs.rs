//! Log vdevs: durable changes are promised there before they are durable among the blocks.
//!
//! A group goes into the chain (`engine/io/commit.rs`) whether or not there is a log vdev. If there
//! is one, groups that a request waits for are written there as well, as *copies*: the record with
//! its blocks directly after it. The order that matters:
//! 1. the copies of that group, and of all before it that are not durable yet, are written to one
//!    log vdev, in one go;
//! 2. that log vdev is flushed, and nothing else;
//! 3. only then is the change acknowledged. The group still goes into the chain, but no request
//!    waits for that;
//! 4. the place of a copy is reused only when a flush of the vdevs for blocks has made its group
//!    durable in the chain.
//!
//! So a change lies only on a log vdev for no longer than until the next flush of the chain. If
//! anything is wrong with the log vdev, the flush of the chain acknowledges instead, as if there
//! were no log vdev. This covers a failed write or flush, a late answer, a full log vdev, and too
//! many bytes before the group. If a log vdev failed, that flush is requested at once, since groups
//! promised there may now be in caches only.
//!
//! The labels (`label_writes.rs`) say which leaves of log vdevs are in use. They change only when
//! all promised groups are durable in the chain ([`Pool::is_log_owing`]), and while they change,
//! log vdevs promise nothing. So a group that is promised only on a log vdev lies on each leaf that
//! the newest labels call whole. A pool that is opened therefore knows whether a missing log vdev
//! matters.
//!
//! A log vdev promises nothing before its labels have a root of its present stay. Until then an
//! opening could not tell it from an old copy of itself, which lacks the groups promised since.
//!
//! After an opening, no copy is made before the first group of this time is durable in the chain.
//! So a copy of an earlier time, on a device that was away then, is never taken for one of this
//! time. The place of its group in the chain is taken.

use pages::Pages;

use super::logs::{Copying, LogStatus, LogVdev, Recent};
use crate::engine::request::{Event, PoolErrorKind, RequestId};
use crate::engine::state::Pool;
use crate::engine::tags::Tag;
use crate::format::{Address, Record, SECTOR_SIZE};
use crate::vdev::{ArrayError, LeafId, Priority};

/// Most bytes of groups that are kept to be copied. If more come before a change, the chain is
/// flushed.
const RECENT_BYTES: usize = 8 << 20;

impl Pool {
    /// Returns the status of each log vdev.
    pub(in crate::engine) fn log_statuses(&self) -> Vec<LogStatus> {
        let of = |log: &LogVdev| LogStatus {
            is_in_use: self.may_copy_to(log),
            held_sectors: log.ring.held_sectors(),
            ring_sectors: log.ring.sectors(),
            ..log.status
        };
        self.logs.vdevs.iter().map(of).collect()
    }

    /// Reports whether a log vdev may be trusted with copies now.
    fn may_copy_to(&self, log: &LogVdev) -> bool {
        !log.is_leaving
            && !self.are_labels_due()
            && self.durable_seq() > self.logs.opened_seq
            && self.takes_log(log.status.vdev)
            // An opening takes a log device without the newest root for an old copy of itself.
            && self.has_root(self.joined(log.status.vdev))
    }

    /// Reports whether any log vdev may be trusted with copies, and none is late.
    pub(in crate::engine) fn has_log(&self) -> bool {
        let is_late = self.logs.copying.is_some() && !self.is_copying();
        !is_late && self.logs.vdevs.iter().any(|log| self.may_copy_to(log))
    }

    /// Reports whether copies are under way to a log vdev that answers in time, so that a flush of
    /// the chain would be in vain.
    pub(in crate::engine) fn is_copying(&self) -> bool {
        self.logs.is_prompt(self.now_us())
    }

    /// Reports whether promised groups must become durable in the chain first, since the labels are
    /// to change or a log vdev is to be removed.
    pub(in crate::engine) fn is_log_owing(&self) -> bool {
        let is_due = self.is_config_new() || !self.logs.removals.is_empty();
        is_due && self.logs.promised_seq > self.flushed_seq()
    }

    /// Reports whether a log vdev is more than half full of groups that the chain could flush.
    pub(in crate::engine) fn is_log_filling(&self) -> bool {
        let is_filling = |log: &LogVdev| 2 * log.ring.held_sectors() > log.ring.sectors();
        self.logs.vdevs.iter().any(is_filling)
    }

    /// Returns the last group such that all groups up to it are durable, on a log vdev or in the
    /// chain.
    pub fn promised_seq(&self) -> u64 {
        self.logs.promised_seq.max(self.durable_seq())
    }

    /// Notes that the log begins again after this group, for an opening.
    pub(in crate::engine) fn log_opened_at(&mut self, seq: u64) {
        self.logs.opened_at(seq);
    }

    /// Keeps a sealed group that may have to be copied.
    pub(in crate::engine) fn keep_for_log(&mut self, record: &Record, blocks: &[(Address, Pages)]) {
        if !self.has_log() {
            self.logs.recent.clear();
            self.logs.recent_bytes = 0;
            return;
        }
        let blocks: Vec<Pages> = blocks.iter().map(|(_, data)| data.clone()).collect();
        let bytes = SECTOR_SIZE + blocks.iter().map(Pages::len).sum::<usize>();
        let record = record.clone();
        self.logs.recent_bytes += bytes;
        self.logs.recent.push_back(Recent {
            record,
            blocks,
            bytes,
        });
        // Groups before a gap are of no use: the chain is flushed before the log takes over again.
        while self.logs.recent_bytes > RECENT_BYTES
            && let Some(recent) = self.logs.recent.pop_front()
        {
            self.logs.recent_bytes -= recent.bytes;
        }
    }

    /// Copies all groups up to `wanted` that are durable nowhere, if a log vdev can take them.
    pub(in crate::engine) fn copy_to_log(&mut self, wanted: Option<u64>) {
        self.logs.settle(self.durable_seq());
        let Some(seq) = wanted.filter(|seq| *seq > self.logs.promised_seq) else {
            return;
        };
        let first = self.logs.recent.front().map(|of| of.record.seq);
        let is_whole = first == Some(self.logs.promised_seq + 1);
        if self.logs.copying.is_some() || !is_whole {
            return;
        }
        let among = self.logs.recent.iter();
        let among = among.take_while(|of| of.record.seq <= seq);
        let (count, bytes) = among.fold((0, 0), |(count, sum), of| (count + 1, sum + of.bytes));
        let usable = (self.logs.vdevs.iter()).position(|log| self.may_copy_to(log));
        let Some(log) = usable.map(|at| &mut self.logs.vdevs[at]) else {
            return;
        };
        let Some(start) = log.ring.take(seq, (bytes / SECTOR_SIZE) as u64) else {
            return;
        };
        log.status.records += count;
        log.status.bytes += bytes as u64;
        let vdev = log.status.vdev;
        let blocks = self.logs.copies(self.key(), Address::new(vdev, start), seq);
        self.logs.copying = Some(Copying {
            vdev,
            seq,
            since_us: self.now_us(),
            is_void: false,
        });
        let tag = self.tag(Tag::Copies(vdev));
        self.write_blocks(tag, blocks, Priority::SyncWrite);
    }

    /// Flushes the log vdev after copies were written, since they may be in its cache only.
    pub(in crate::engine) fn copies_written(&mut self, vdev: u16, result: Result<(), ArrayError>) {
        if let Err(error) = result {
            return self.log_failed(vdev, &error);
        }
        let tag = self.tag(Tag::CopiesFlush(vdev));
        self.flush_log_vdev(tag, vdev);
    }

    /// Promises the groups whose copies were flushed, since these outlive a power cut.
    pub(in crate::engine) fn copies_flushed(&mut self, vdev: u16, result: Result<(), ArrayError>) {
        if let Err(error) = result {
            return self.log_failed(vdev, &error);
        }
        let copying = self.logs.copying.take();
        if let Some(copying) = copying.filter(|copying| !copying.is_void)
            && self.are_labels_true()
        {
            self.logs.promised_seq = self.logs.promised_seq.max(copying.seq);
            self.answer_durable(self.logs.promised_seq);
        }
        self.remove_logs();
    }

    /// Gives up a log vdev: groups promised there count no more, and nothing new is promised there.
    fn log_failed(&mut self, vdev: u16, error: &ArrayError) {
        self.logs.copying = None;
        if let Some(log) = self.logs.vdev_mut(vdev) {
            log.status.failures += 1;
        }
        let reason = error.to_string();
        self.give_up_log(vdev, &reason);
        self.tell(Event::LogFailed { vdev, reason });
    }

    /// Removes a log vdev when all groups that it promised are durable elsewhere. Answers when
    /// labels know that it is gone.
    pub fn remove_log(&mut self, id: RequestId, vdev: u16, now_us: u64) {
        self.heed_time(now_us);
        if let Some(error) = self.suspension() {
            return self.answer(id, Err(error));
        }
        let Some(log) = self.logs.vdev_mut(vdev) else {
            let context = "only log vdevs can be removed";
            return self.fail(id, PoolErrorKind::Refused, context);
        };
        log.is_leaving = true;
        self.logs.removals.push((vdev, id));
        self.go_on();
    }

    /// Takes the requests that wait in vain for a log vdev to be removed, since the pool takes no
    /// changes any more.
    pub(in crate::engine) fn give_up_removals(
        &mut self,
    ) -> impl Iterator<Item = RequestId> + use<> {
        let removals = std::mem::take(&mut self.logs.removals);
        removals.into_iter().map(|(_, id)| id)
    }

    /// Removes log vdevs that nothing needs any more.
    pub(in crate::engine) fn remove_logs(&mut self) {
        self.logs.settle(self.durable_seq());
        for (vdev, id) in std::mem::take(&mut self.logs.removals) {
            let is_copying = self.logs.copying.is_some_and(|of| of.vdev == vdev);
            let log = self.logs.vdev_mut(vdev);
            if is_copying || log.is_some_and(|log| log.ring.held_sectors() > 0) {
                self.logs.removals.push((vdev, id));
                continue;
            }
            let leaves: Vec<LeafId> = self
                .tops()
                .filter(|top| top.vdev == vdev)
                .flat_map(|top| top.slots)
                .flat_map(|slot| slot.leaves)
                .map(|leaf| leaf.leaf)
                .collect();
            if let Err(error) = self.remove_log_vdev(vdev) {
                self.answer(id, Err(error.into()));
                continue;
            }
            leaves.into_iter().for_each(|leaf| self.note_leaving(leaf));
            self.logs.vdevs.retain(|log| log.status.vdev != vdev);
            self.shape_changed();
            self.await_checkpoint(id);
        }
    }
}
