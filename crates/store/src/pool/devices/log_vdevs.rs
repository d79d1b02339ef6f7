//! Log vdevs: durable changes are promised there before they are durable among the blocks.
//!
//! A group goes into the chain (`pool/io/commit.rs`) whether or not there is a log vdev. If there
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

use std::collections::VecDeque;

use pages::Pages;

use crate::format::{Address, PoolKey, Record, SECTOR_SIZE};
use crate::log::ring::Ring;
use crate::pool::request::{Event, PoolErrorKind, RequestId};
use crate::pool::state::Pool;
use crate::pool::tags::Tag;
use crate::vdev::{Array, ArrayError, Class, LeafId, Priority, TopLevelKind};

/// Most bytes of groups that are kept to be copied. If more come before a change, the chain is
/// flushed.
const RECENT_BYTES: usize = 8 << 20;
/// Time after which a log vdev that has not answered is not waited for any longer, in microseconds.
const PATIENCE_US: u64 = 100_000;

/// Status of a log vdev.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogStatus {
    /// Number of the top-level vdev.
    pub vdev: u16,
    /// Whether the log vdev promises durable changes now.
    pub is_in_use: bool,
    /// Groups that were copied there since the pool was opened.
    pub records: u64,
    /// Bytes that were written there for these groups.
    pub bytes: u64,
    /// Sectors with data that, as far as is known, is durable nowhere else yet.
    pub held_sectors: u64,
    /// Sectors of the vdev that are used for copies.
    pub ring_sectors: u64,
    /// Number of failures of the log vdev.
    pub failures: u64,
}

/// All log vdevs of a pool.
#[derive(Debug, Default)]
pub(in crate::pool) struct LogVdevs {
    vdevs: Vec<LogVdev>,
    /// Groups that are durable nowhere yet, oldest first, without a gap up to the last sealed one.
    recent: VecDeque<Recent>,
    recent_bytes: usize,
    copying: Option<Copying>,
    /// Last group such that all groups up to it are durable, on a log vdev or in the chain.
    promised_seq: u64,
    /// Last group from before the pool was opened.
    opened_seq: u64,
    /// Requests that wait for the removal of a log vdev.
    removals: Vec<(u16, RequestId)>,
}

#[derive(Debug)]
struct LogVdev {
    status: LogStatus,
    ring: Ring,
    is_leaving: bool,
}

#[derive(Debug)]
struct Recent {
    record: Record,
    blocks: Vec<Pages>,
    bytes: usize,
}

/// Copies that are being written to a log vdev.
#[derive(Clone, Copy, Debug)]
struct Copying {
    vdev: u16,
    /// Last group among the copies.
    seq: u64,
    since_us: u64,
    /// Whether the labels changed since the copies left, so that they promise nothing.
    is_void: bool,
}

impl LogVdevs {
    /// Returns the log vdevs of an array.
    pub(in crate::pool) fn of_array(array: &Array) -> Self {
        let mut logs = Self::default();
        let tops = array.top_levels();
        for top in tops.filter(|top| top.class == Class::Log && top.kind != TopLevelKind::Hole) {
            logs.add(top.vdev, top.sectors);
        }
        logs
    }

    pub(in crate::pool) fn add(&mut self, vdev: u16, sectors: u64) {
        let status = LogStatus {
            vdev,
            ..LogStatus::default()
        };
        self.vdevs.push(LogVdev {
            status,
            ring: Ring::new(sectors),
            is_leaving: false,
        });
    }

    /// Notes the new size of a log vdev, which the labels have.
    pub(in crate::pool) fn grow(&mut self, vdev: u16, sectors: u64) {
        if let Some(log) = self.vdev_mut(vdev) {
            log.ring.grow(sectors);
        }
    }

    /// Notes that groups up to `seq` are in the chain.
    pub(in crate::pool) fn opened_at(&mut self, seq: u64) {
        (self.opened_seq, self.promised_seq) = (seq, seq);
    }

    /// Returns the time at which the copies under way are late; `None` if there are none, or they
    /// are late already.
    pub(in crate::pool) fn deadline_us(&self, now_us: u64) -> Option<u64> {
        let awaited = self.copying.filter(|copying| !copying.is_void);
        let late = awaited.map(|copying| copying.since_us + PATIENCE_US);
        late.filter(|late| *late > now_us)
    }

    /// Voids the copies under way, since the labels change: they may lie on other leaves than the
    /// ones that will be believed.
    pub(in crate::pool) fn void_copies(&mut self) {
        if let Some(copying) = &mut self.copying {
            copying.is_void = true;
        }
    }

    /// Reports whether copies are under way, and not late.
    fn is_prompt(&self, now_us: u64) -> bool {
        self.deadline_us(now_us).is_some()
    }

    /// Forgets groups that are durable in the chain.
    fn settle(&mut self, durable_seq: u64) {
        self.promised_seq = self.promised_seq.max(durable_seq);
        for log in &mut self.vdevs {
            log.ring.settle(durable_seq);
        }
        let promised = self.promised_seq;
        while let Some(recent) = self.recent.pop_front_if(|of| of.record.seq <= promised) {
            self.recent_bytes -= recent.bytes;
        }
    }

    fn vdev_mut(&mut self, vdev: u16) -> Option<&mut LogVdev> {
        self.vdevs.iter_mut().find(|log| log.status.vdev == vdev)
    }

    /// Makes the copies of all kept groups up to `seq`, with their places from `start` on.
    fn copies(&self, key: PoolKey, start: Address, seq: u64) -> Vec<(Address, Pages)> {
        let mut blocks = Vec::new();
        let mut sector = start.sector();
        let wanted = self.recent.iter().take_while(|of| of.record.seq <= seq);
        for recent in wanted {
            let copy = Record {
                copy: Some(self.promised_seq),
                ..recent.record.clone()
            };
            let parts = [copy.encode(key).0].into_iter();
            for part in parts.chain(recent.blocks.iter().cloned()) {
                let sectors = (part.len() / SECTOR_SIZE) as u64;
                blocks.push((Address::new(start.vdev(), sector), part));
                sector += sectors;
            }
        }
        blocks
    }
}

impl Pool {
    /// Returns the status of each log vdev.
    pub(in crate::pool) fn log_statuses(&self) -> Vec<LogStatus> {
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
            && self.commit.chain.durable_seq > self.logs.opened_seq
            && self.array.takes_log(log.status.vdev)
            // An opening takes a log device without the newest root for an old copy of itself.
            && self.has_root(self.array.joined(log.status.vdev))
    }

    /// Reports whether any log vdev may be trusted with copies, and none is late.
    pub(in crate::pool) fn has_log(&self) -> bool {
        let is_late = self.logs.copying.is_some() && !self.is_copying();
        !is_late && self.logs.vdevs.iter().any(|log| self.may_copy_to(log))
    }

    /// Reports whether copies are under way to a log vdev that answers in time, so that a flush of
    /// the chain would be in vain.
    pub(in crate::pool) fn is_copying(&self) -> bool {
        self.logs.is_prompt(self.now_us)
    }

    /// Reports whether promised groups must become durable in the chain first, since the labels are
    /// to change or a log vdev is to be removed.
    pub(in crate::pool) fn is_log_owing(&self) -> bool {
        let is_due = self.is_config_new || !self.logs.removals.is_empty();
        is_due && self.logs.promised_seq > self.commit.flushed_seq
    }

    /// Reports whether a log vdev is more than half full of groups that the chain could flush.
    pub(in crate::pool) fn is_log_filling(&self) -> bool {
        let is_filling = |log: &LogVdev| 2 * log.ring.held_sectors() > log.ring.sectors();
        self.logs.vdevs.iter().any(is_filling)
    }

    /// Returns the last group such that all groups up to it are durable, on a log vdev or in the
    /// chain.
    pub fn promised_seq(&self) -> u64 {
        self.logs.promised_seq.max(self.commit.chain.durable_seq)
    }

    /// Keeps a sealed group that may have to be copied.
    pub(in crate::pool) fn keep_for_log(&mut self, record: &Record, blocks: &[(Address, Pages)]) {
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
    pub(in crate::pool) fn copy_to_log(&mut self, wanted: Option<u64>) {
        self.logs.settle(self.commit.chain.durable_seq);
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
        let blocks = self.logs.copies(self.key, Address::new(vdev, start), seq);
        self.logs.copying = Some(Copying {
            vdev,
            seq,
            since_us: self.now_us,
            is_void: false,
        });
        let tag = self.tag(Tag::Copies(vdev));
        let (now, out) = (self.now_us, &mut self.array_output);
        self.array.write(tag, blocks, Priority::SyncWrite, now, out);
    }

    /// Flushes the log vdev after copies were written, since they may be in its cache only.
    pub(in crate::pool) fn copies_written(&mut self, vdev: u16, result: Result<(), ArrayError>) {
        if let Err(error) = result {
            return self.log_failed(vdev, &error);
        }
        let tag = self.tag(Tag::CopiesFlush(vdev));
        let (now, out) = (self.now_us, &mut self.array_output);
        self.array.flush_log(tag, vdev, now, out);
    }

    /// Promises the groups whose copies were flushed, since these outlive a power cut.
    pub(in crate::pool) fn copies_flushed(&mut self, vdev: u16, result: Result<(), ArrayError>) {
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
        let (now, out) = (self.now_us, &mut self.array_output);
        self.array.give_up_log(vdev, &reason, now, out);
        self.output.events.push(Event::LogFailed { vdev, reason });
    }

    /// Removes a log vdev when all groups that it promised are durable elsewhere. Answers when
    /// labels know that it is gone.
    pub fn remove_log(&mut self, id: RequestId, vdev: u16, now_us: u64) {
        self.now_us = now_us;
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
    pub(in crate::pool) fn give_up_removals(&mut self) -> impl Iterator<Item = RequestId> + use<> {
        let removals = std::mem::take(&mut self.logs.removals);
        removals.into_iter().map(|(_, id)| id)
    }

    /// Removes log vdevs that nothing needs any more.
    pub(in crate::pool) fn remove_logs(&mut self) {
        self.logs.settle(self.commit.chain.durable_seq);
        for (vdev, id) in std::mem::take(&mut self.logs.removals) {
            let is_copying = self.logs.copying.is_some_and(|of| of.vdev == vdev);
            let log = self.logs.vdev_mut(vdev);
            if is_copying || log.is_some_and(|log| log.ring.held_sectors() > 0) {
                self.logs.removals.push((vdev, id));
                continue;
            }
            let leaves: Vec<LeafId> = (self.array.top_levels())
                .filter(|top| top.vdev == vdev)
                .flat_map(|top| top.slots)
                .flat_map(|slot| slot.leaves)
                .map(|leaf| leaf.leaf)
                .collect();
            let (now, out) = (self.now_us, &mut self.array_output);
            if let Err(error) = self.array.remove_log(vdev, now, out) {
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
