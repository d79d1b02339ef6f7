//! The order of a leaf's requests. Classes have bounds, neighbouring writes become one, and no two
//! writes of one place are under way at once.
//!
//! Reads that a caller waits for are never queued. Writes wait while their class has enough in
//! flight. They then go in the order of their place, and neighbours go as one request. So do
//! background reads. While other reads are under way, fewer asynchronous writes are in flight, so
//! that reads keep their share of the device.

use std::collections::{BTreeMap, VecDeque};

use pages::PAGE_SIZE;

use crate::vdev::job::{Job, Priority, Work};

/// Bounds of an array's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the largest write to a device.
    pub max_write: u64,
    /// Synchronous writes in flight at a leaf.
    pub sync_writes: usize,
    /// Asynchronous writes in flight at a leaf from which nobody reads.
    pub async_writes: usize,
    /// Asynchronous writes in flight at a leaf beside synchronous reads.
    pub async_writes_beside_reads: usize,
    /// Bytes of asynchronous writes in flight at a leaf from which nobody reads.
    pub async_write_bytes: u64,
    /// Bytes of asynchronous writes in flight at a leaf beside synchronous reads.
    pub async_write_bytes_beside_reads: u64,
    /// Time after its last synchronous read for which a leaf counts as read from, in microseconds.
    pub reads_linger_us: u64,
    /// Background requests in flight at a leaf that does nothing else.
    pub background: usize,
    /// Background requests in flight at a leaf beside other requests.
    pub background_beside_others: usize,
    /// Bytes of the largest background read of a leaf that does nothing else.
    pub max_background_read: u64,
    /// Bytes of the largest background read beside other requests, which have to wait for it.
    pub max_background_read_beside_others: u64,
    /// Time without an answer after which a synchronous read is also asked of other leaves, in
    /// microseconds.
    pub hedge_us: u64,
    /// Time without an answer after which a device is given up, in microseconds.
    pub give_up_us: u64,
    /// Most choices of columns that are tried for one block whose checksum does not match.
    pub combinations: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_write: 1 << 20,
            sync_writes: 64,
            async_writes: 128,
            async_writes_beside_reads: 32,
            async_write_bytes: 16 << 20,
            async_write_bytes_beside_reads: 1 << 20,
            reads_linger_us: 10_000,
            background: 32,
            background_beside_others: 4,
            max_background_read: 256 << 10,
            max_background_read_beside_others: 128 << 10,
            hedge_us: 1_000_000,
            give_up_us: 30_000_000,
            combinations: 512,
        }
    }
}

/// Ranges that are being changed. They never overlap.
#[derive(Debug, Default)]
struct Claims(BTreeMap<u64, u64>);

impl Claims {
    fn overlaps(&self, offset: u64, end: u64) -> bool {
        self.0
            .range(..end)
            .next_back()
            .is_some_and(|(_, last)| *last > offset)
    }

    fn insert(&mut self, offset: u64, end: u64) {
        self.0.insert(offset, end);
    }

    /// Removes all claims that begin in the range.
    fn remove(&mut self, offset: u64, end: u64) {
        while let Some((&start, _)) = self.0.range(offset..end).next() {
            self.0.remove(&start);
        }
    }
}

/// Requests in flight of one class.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    requests: usize,
    bytes: u64,
}

/// Requests of a leaf that wait, and the number of those in flight.
#[derive(Debug, Default)]
pub(in crate::vdev) struct Queue {
    /// Changes by class and offset. A class is swept upwards from its last position.
    changes: [BTreeMap<u64, Job>; CLASSES],
    swept: [u64; CLASSES],
    background_reads: VecDeque<Job>,
    /// Changes of ranges that are being changed already, in order.
    held: VecDeque<Job>,
    claims: Claims,
    in_flight: [Load; CLASSES],
    last_sync_read_us: Option<u64>,
    /// Whether a background request came that was not let go yet.
    pub(in crate::vdev) has_news: bool,
}

const CLASSES: usize = 4;

impl Queue {
    /// Queues a request. It is in flight only when [`Queue::next`] returns it.
    pub(in crate::vdev) fn push(&mut self, job: Job) {
        if !job.is_change() {
            self.background_reads.push_back(job);
        } else if self.claims.overlaps(job.offset, job.end())
            || self
                .held
                .iter()
                .any(|held| held.offset < job.end() && job.offset < held.end())
        {
            self.held.push_back(job);
        } else {
            self.claims.insert(job.offset, job.end());
            self.changes[job.priority as usize].insert(job.offset, job);
        }
    }

    /// Queues a request, or returns it if it may go to the device at once: a write while no other
    /// request of its class waits. Most writes go this way, past the order of waiting ones.
    pub(in crate::vdev) fn push_or_go(
        &mut self,
        job: Job,
        limits: &Limits,
        now_us: u64,
    ) -> Option<Job> {
        let class = job.priority as usize;
        let has_room = match job.priority {
            Priority::SyncWrite => self.in_flight[class].requests < limits.sync_writes,
            Priority::AsyncWrite => self.room_for_async_writes(limits, now_us).is_some(),
            Priority::SyncRead | Priority::Background => false,
        };
        let is_first = self.changes[class].is_empty() && self.held.is_empty();
        let is_write = matches!(job.work, Work::Write { .. });
        if !(has_room && is_first && is_write) || self.claims.overlaps(job.offset, job.end()) {
            self.push(job);
            return None;
        }
        self.claims.insert(job.offset, job.end());
        self.swept[class] = job.end();
        Some(job)
    }

    /// Returns the bytes that asynchronous writes may have in flight beside those that are; `None`
    /// if no further one may go.
    fn room_for_async_writes(&self, limits: &Limits, now_us: u64) -> Option<u64> {
        let (most, room) = if self.is_read(limits, now_us) {
            let most = limits.async_writes_beside_reads.min(limits.async_writes);
            (most, limits.async_write_bytes_beside_reads)
        } else {
            (limits.async_writes, limits.async_write_bytes)
        };
        let writes = self.in_flight[Priority::AsyncWrite as usize];
        let may_go = writes.requests < most && writes.bytes < room;
        may_go.then(|| room - writes.bytes)
    }

    /// Reports whether callers read from the leaf, or did until a moment ago.
    fn is_read(&self, limits: &Limits, now_us: u64) -> bool {
        let last = self.last_sync_read_us;
        self.in_flight[Priority::SyncRead as usize].requests > 0
            || last.is_some_and(|last| now_us < last + limits.reads_linger_us)
    }

    /// Returns the next request that may go to the device.
    pub(in crate::vdev) fn next(&mut self, limits: &Limits, now_us: u64) -> Option<Job> {
        let load = |priority: Priority| self.in_flight[priority as usize];
        if load(Priority::SyncWrite).requests < limits.sync_writes
            && let Some(job) = self.sweep(Priority::SyncWrite, limits.max_write)
        {
            return Some(job);
        }
        let is_read = self.is_read(limits, now_us);
        if let Some(room) = self.room_for_async_writes(limits, now_us) {
            let bytes = limits.max_write.min(room).max(PAGE_SIZE as u64);
            if let Some(job) = self.sweep(Priority::AsyncWrite, bytes) {
                return Some(job);
            }
        }
        let others: usize = self.in_flight[..Priority::Background as usize]
            .iter()
            .map(|load| load.requests)
            .sum();
        let (bound, max_read) = if others > 0 || is_read {
            (
                limits.background_beside_others,
                limits.max_background_read_beside_others,
            )
        } else {
            (limits.background, limits.max_background_read)
        };
        if self.in_flight[Priority::Background as usize].requests >= bound.max(1) {
            return None;
        }
        self.sweep(Priority::Background, limits.max_write)
            .or_else(|| self.next_background_read(max_read))
    }

    /// Takes the next background read, with the reads that follow it.
    fn next_background_read(&mut self, max: u64) -> Option<Job> {
        let mut job = self.background_reads.pop_front()?;
        while let Some(next) = self
            .background_reads
            .pop_front_if(|next| next.offset == job.end() && job.len + next.len <= max)
        {
            job.append(next);
        }
        Some(job)
    }

    /// Takes the next change of a class in the order of places, with its neighbours up to `max`
    /// bytes.
    fn sweep(&mut self, priority: Priority, max: u64) -> Option<Job> {
        let class = priority as usize;
        let waiting = &mut self.changes[class];
        let (&first, _) = waiting
            .range(self.swept[class]..)
            .next()
            .or_else(|| waiting.iter().next())?;
        let mut job = waiting.remove(&first)?;
        while matches!(job.work, Work::Write { .. })
            && let Some(next) = waiting.get(&job.end())
            && matches!(next.work, Work::Write { .. })
            && job.len + next.len <= max
            && let Some(next) = waiting.remove(&job.end())
        {
            job.append(next);
        }
        self.swept[class] = job.end();
        Some(job)
    }

    /// Notes that other threads read from the device.
    pub(in crate::vdev) fn note_read(&mut self, now_us: u64) {
        self.last_sync_read_us = Some(now_us);
    }

    /// Notes that a request went to the device.
    pub(in crate::vdev) fn started(&mut self, priority: Priority, bytes: u64, now_us: u64) {
        let load = &mut self.in_flight[priority as usize];
        load.requests += 1;
        load.bytes += bytes;
        if priority == Priority::SyncRead {
            self.last_sync_read_us = Some(now_us);
        }
    }

    /// Notes that the device answered a request, or was given up.
    pub(in crate::vdev) fn finished(&mut self, priority: Priority, bytes: u64) {
        let load = &mut self.in_flight[priority as usize];
        load.requests -= 1;
        load.bytes -= bytes;
    }

    /// Notes that the device changed this range, or certainly will not any more. Other requests may
    /// change it now.
    pub(in crate::vdev) fn settled(&mut self, offset: u64, len: u64) {
        self.claims.remove(offset, offset + len);
        if !self.held.is_empty() {
            std::mem::take(&mut self.held)
                .into_iter()
                .for_each(|job| self.push(job));
        }
    }

    /// Takes out all waiting requests, to be failed. Claims of requests in flight stay.
    pub(in crate::vdev) fn drain(&mut self) -> Vec<Job> {
        let mut jobs = Vec::new();
        for waiting in &mut self.changes {
            for job in std::mem::take(waiting).into_values() {
                self.claims.remove(job.offset, job.end());
                jobs.push(job);
            }
        }
        jobs.extend(std::mem::take(&mut self.background_reads));
        jobs.extend(std::mem::take(&mut self.held));
        jobs
    }

    /// Returns the number of requests in flight and of waiting reads.
    pub(in crate::vdev) fn busy(&self) -> usize {
        self.in_flight
            .iter()
            .map(|load| load.requests)
            .sum::<usize>()
            + self.background_reads.len()
    }
}
