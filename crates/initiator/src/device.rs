//! A multipath device as a block device: whatever opens a file opens an iSCSI LUN.

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

/// The reason for which flushes fail once a target told of lost writes.
pub(super) const LOST_WRITES: &str = "the target has lost writes that it had reported as done";

/// One device of an adapter.
pub struct MultipathDevice {
    adapter: Arc<Adapter>,
    index: usize,
    /// Held by whoever uses it alone.
    claim: Option<Claim>,
    is_impatient: bool,
    /// Other hosts were to be kept from it.
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

    /// The same, used by one alone for as long as this lives. Whoever that is begins with what is
    /// there: what was lost of the writes of those before is not his.
    pub(super) fn held_by(mut self, claim: Claim) -> Self {
        self.adapter.begin_anew(self.index);
        self.claim = Some(claim);
        self
    }

    /// The same, whose I/O fails when all paths have been down for so long (or for as long as is
    /// set, where that is less): for whoever has copies elsewhere and would rather go on with
    /// these.
    pub fn with_patience(mut self, limit: Duration) -> Self {
        self.adapter.set_patience(self.index, Some(limit));
        self.is_impatient = true;
        self
    }

    /// Its name: `naa.…`, `eui.…`, `t10.…` or `mpx.…`.
    pub fn name(&self) -> String {
        self.adapter.fabric().devices[self.index]
            .policy
            .name()
            .to_owned()
    }

    /// It as an administrator sees it, and all sessions of its adapter, those that are down too.
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
            guest_us: sums.guest_us,
            device_us: sums.device_us,
            queue_us: sums.queue_us,
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
        // What the target stores is not visible through SCSI.
        let geometry = self.geometry();
        if geometry.len == 0 {
            return Err(BlockError::new(
                BlockErrorKind::Gone,
                "the unit has not told its size",
            ));
        }
        Ok(Usage {
            allocated: geometry.len,
            pool: None,
        })
    }
}
