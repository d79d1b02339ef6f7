//! A multipath device as a block device, so that all users of block devices can use an iSCSI LUN.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::adapter::Adapter;
use super::claims::Claim;
use block::fence::{FenceOrder, FenceState, Fencing};
use block::{
    BlockDevice, BlockError, BlockErrorKind, Geometry, Lane, LatencySplit, Request, Submitted,
    Ticket, Usage,
};
use model::initiator::view::{InitiatorDevice, InitiatorSession};

/// Reason for which flushes fail after a target reported lost writes.
pub(super) const LOST_WRITES: &str = "the target has lost writes that it had reported as done";

/// Device of an adapter.
pub struct MultipathDevice {
    adapter: Arc<Adapter>,
    index: usize,
    /// Claim of the exclusive user.
    claim: Option<Claim>,
    is_impatient: bool,
    /// Whether the device was asked to keep other hosts away.
    is_fenced: AtomicBool,
}

impl Drop for MultipathDevice {
    fn drop(&mut self) {
        if self.is_fenced.load(Ordering::Relaxed) {
            self.adapter.drop_fence(self.index);
        }
        if self.is_impatient {
            self.adapter.set_patience(self.index, None);
        }
    }
}

impl fmt::Debug for MultipathDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MultipathDevice")
            .field("index", &self.index)
            .field("claim", &self.claim)
            .finish_non_exhaustive()
    }
}

impl MultipathDevice {
    pub(super) fn new(adapter: Arc<Adapter>, index: usize) -> Self {
        Self {
            adapter,
            index,
            claim: None,
            is_impatient: false,
            is_fenced: AtomicBool::new(false),
        }
    }

    /// Adds an exclusive claim, which lasts as long as this device. The new user begins with the
    /// present content: earlier users' lost writes do not concern it.
    pub(super) fn held_by(mut self, claim: Claim) -> Self {
        self.adapter.begin_anew(self.index);
        self.claim = Some(claim);
        self
    }

    /// Lets I/O fail when all paths have been down for `limit` (or for the time in the settings, if
    /// shorter). It serves users with copies elsewhere that would rather go on with the copies.
    pub fn with_patience(mut self, limit: Duration) -> Self {
        self.adapter.set_patience(self.index, Some(limit));
        self.is_impatient = true;
        self
    }

    /// Returns the name of the device: `naa.…`, `eui.…`, `t10.…` or `mpx.…`.
    pub fn name(&self) -> String {
        self.adapter.fabric().devices[self.index]
            .policy
            .name()
            .to_owned()
    }

    /// Returns the administrator's view of the device, and all sessions of its adapter, including
    /// those that are down.
    pub fn view(&self) -> (InitiatorDevice, Vec<InitiatorSession>) {
        let fabric = self.adapter.fabric();
        (fabric.device_view(self.index), fabric.sessions())
    }
}

impl BlockDevice for MultipathDevice {
    fn geometry(&self) -> Geometry {
        self.adapter.fabric().geometry(self.index)
    }

    #[inline]
    fn submit(&self, request: Request, ticket: Ticket, lane: &mut Lane) -> Submitted {
        self.adapter.submit(self.index, request, ticket, lane)
    }

    fn latency_split(&self) -> Option<LatencySplit> {
        let fabric = self.adapter.fabric();
        let policy = &fabric.devices[self.index].policy;
        let (sums, queue) = (policy.counters(), policy.queue_snapshot());
        Some(LatencySplit {
            commands: sums.commands,
            guest_us: sums.guest_us(),
            device_us: sums.device_us(),
            queue_us: sums.queue_us(),
            queue_depth: queue.dqlen,
            active: queue.actv,
            queued: queue.qued,
        })
    }

    fn fault(&self) -> Option<String> {
        self.adapter.fabric().device_fault(self.index)
    }

    fn lost_writes(&self) -> Option<String> {
        let is_lost = self.adapter.fabric().devices[self.index].has_lost_writes;
        is_lost.then(|| LOST_WRITES.to_owned())
    }

    fn acknowledge_lost_writes(&self) -> bool {
        self.adapter.acknowledge_lost_writes(self.index);
        true
    }

    fn fence(&self, order: FenceOrder) -> Option<Fencing> {
        self.is_fenced.store(true, Ordering::Relaxed);
        Some(self.adapter.fence(self.index, order))
    }

    fn fence_state(&self) -> Option<FenceState> {
        Some(self.adapter.fabric().fence_state(self.index))
    }

    fn usage(&self) -> Result<Usage, BlockError> {
        // SCSI does not show how much the target stores.
        let geometry = self.geometry();
        if geometry.len == 0 {
            return Err(BlockError::new(
                BlockErrorKind::Gone,
                "the unit has not reported its size",
            ));
        }
        Ok(Usage {
            allocated: geometry.len,
            pool: None,
        })
    }
}
