//! Log vdevs of a pool: their rings, the groups kept to be copied, and the copies under way.

use std::collections::VecDeque;

use pages::Pages;

use crate::engine::request::RequestId;
use crate::format::{Address, PoolKey, Record, SECTOR_SIZE};
use crate::log::ring::Ring;
use crate::vdev::{Array, Class, TopLevelKind};

/// Time after which a log vdev that has not answered is not waited for any longer, in microseconds.
pub(super) const PATIENCE_US: u64 = 100_000;

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
pub(in crate::engine) struct LogVdevs {
    pub(super) vdevs: Vec<LogVdev>,
    /// Groups that are durable nowhere yet, oldest first, without a gap up to the last sealed one.
    pub(super) recent: VecDeque<Recent>,
    pub(super) recent_bytes: usize,
    pub(super) copying: Option<Copying>,
    /// Last group such that all groups up to it are durable, on a log vdev or in the chain.
    pub(super) promised_seq: u64,
    /// Last group from before the pool was opened.
    pub(super) opened_seq: u64,
    /// Requests that wait for the removal of a log vdev.
    pub(super) removals: Vec<(u16, RequestId)>,
}

#[derive(Debug)]
pub(super) struct LogVdev {
    pub(super) status: LogStatus,
    pub(super) ring: Ring,
    pub(super) is_leaving: bool,
}

#[derive(Debug)]
pub(super) struct Recent {
    pub(super) record: Record,
    pub(super) blocks: Vec<Pages>,
    pub(super) bytes: usize,
}

/// Copies that are being written to a log vdev.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copying {
    pub(super) vdev: u16,
    /// Last group among the copies.
    pub(super) seq: u64,
    pub(super) since_us: u64,
    /// Whether the labels changed since the copies left, so that they promise nothing.
    pub(super) is_void: bool,
}

impl LogVdevs {
    /// Returns the log vdevs of an array.
    pub(in crate::engine) fn of_array(array: &Array) -> Self {
        let mut logs = Self::default();
        let tops = array.top_levels();
        for top in tops.filter(|top| top.class == Class::Log && top.kind != TopLevelKind::Hole) {
            logs.add(top.vdev, top.sectors);
        }
        logs
    }

    pub(in crate::engine) fn add(&mut self, vdev: u16, sectors: u64) {
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
    pub(in crate::engine) fn grow(&mut self, vdev: u16, sectors: u64) {
        if let Some(log) = self.vdev_mut(vdev) {
            log.ring.grow(sectors);
        }
    }

    /// Notes that groups up to `seq` are in the chain.
    pub(in crate::engine) fn opened_at(&mut self, seq: u64) {
        (self.opened_seq, self.promised_seq) = (seq, seq);
    }

    /// Returns the time at which the copies under way are late; `None` if there are none, or they
    /// are late already.
    pub(in crate::engine) fn deadline_us(&self, now_us: u64) -> Option<u64> {
        let awaited = self.copying.filter(|copying| !copying.is_void);
        let late = awaited.map(|copying| copying.since_us + PATIENCE_US);
        late.filter(|late| *late > now_us)
    }

    /// Voids the copies under way, since the labels change: they may lie on other leaves than the
    /// ones that will be believed.
    pub(in crate::engine) fn void_copies(&mut self) {
        if let Some(copying) = &mut self.copying {
            copying.is_void = true;
        }
    }

    /// Reports whether copies are under way, and not late.
    pub(super) fn is_prompt(&self, now_us: u64) -> bool {
        self.deadline_us(now_us).is_some()
    }

    /// Forgets groups that are durable in the chain.
    pub(super) fn settle(&mut self, durable_seq: u64) {
        self.promised_seq = self.promised_seq.max(durable_seq);
        for log in &mut self.vdevs {
            log.ring.settle(durable_seq);
        }
        let promised = self.promised_seq;
        while let Some(recent) = self.recent.pop_front_if(|of| of.record.seq <= promised) {
            self.recent_bytes -= recent.bytes;
        }
    }

    pub(super) fn vdev_mut(&mut self, vdev: u16) -> Option<&mut LogVdev> {
        self.vdevs.iter_mut().find(|log| log.status.vdev == vdev)
    }

    /// Makes the copies of all kept groups up to `seq`, with their places from `start` on.
    pub(super) fn copies(&self, key: PoolKey, start: Address, seq: u64) -> Vec<(Address, Pages)> {
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
