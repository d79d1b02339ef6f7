//! Common parts of all third-party copy commands (SPC-4 5.17).
//!
//! They are the limits and the record of copy operations by list identifier. RECEIVE COPY RESULTS
//! and VPD page 8Fh report the limits, which are enforced from here.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::nexus::NexusId;
use crate::sense::{Asc, Sense};

/// Longest inactivity timeout in seconds, reported in VPD page 8Fh. Tokens live by number, not by
/// time, so every timeout up to this one is kept.
pub(crate) const MAX_INACTIVITY_TIMEOUT_S: u32 = 3600;
/// Most CSCD descriptors in one EXTENDED COPY.
pub(crate) const MAX_CSCD_DESCRIPTORS: u16 = 16;
/// Most segment descriptors in one EXTENDED COPY.
pub(crate) const MAX_SEGMENT_DESCRIPTORS: u16 = 256;
/// Most bytes of all descriptors of both kinds.
pub(crate) const MAX_DESCRIPTOR_LIST_LEN: u32 = 16 * 32 + 256 * 32;
/// Most bytes that one segment copies.
pub(crate) const MAX_SEGMENT_LEN: u32 = 256 << 20;
/// Most copy operations of a unit that run at once. Each needs one buffer of a chunk.
pub(crate) const MAX_CONCURRENT_COPIES: u16 = 64;
/// Most finished operations whose result a unit remembers. The oldest are forgotten.
const MAX_REMEMBERED: usize = 256;
/// Implemented descriptor type codes: block to block, block to block with offset, identification
/// CSCD descriptor.
pub(crate) const DESCRIPTOR_TYPE_CODES: [u8; 3] = [0x02, 0x0A, 0xE4];

/// Status of a copy operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyStatus {
    /// The operation runs.
    InProgress,
    /// All was copied.
    Completed,
    /// All the data of the token was copied, but the ranges named more.
    CompletedWithResidual,
    /// The operation ended with this sense data.
    Failed(Sense),
    /// COPY OPERATION ABORT ended it.
    Aborted,
}

/// Copy operation and its result.
#[derive(Clone, Debug)]
pub(crate) struct CopyOperation {
    /// Nexus that asked for the operation. Each nexus has its own list identifiers (SPC-4
    /// 5.17.4.2).
    nexus: NexusId,
    /// LIST IDENTIFIER of the operation.
    list_id: u32,
    /// SERVICE ACTION of the command that began it.
    pub(crate) service_action: u8,
    pub(crate) status: CopyStatus,
    /// Segments or range descriptors done.
    pub(crate) segments: u16,
    /// Bytes (EXTENDED COPY) or logical blocks (token commands) that were copied.
    pub(crate) transferred: u64,
    /// ROD token that POPULATE TOKEN made.
    pub(crate) token: Option<Box<[u8; 512]>>,
    abort: Arc<AtomicBool>,
}

/// Copy operations of one logical unit's copy manager.
#[derive(Debug, Default)]
pub(crate) struct CopyOperations {
    list: Mutex<VecDeque<CopyOperation>>,
}

/// Reasons why an operation cannot begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BeginError {
    /// The list identifier belongs to an operation that runs (05/00/16 OPERATION IN PROGRESS).
    ListIdInUse,
    /// Number of running operations is at its limit (BUSY).
    TooMany,
}

impl BeginError {
    /// Returns the sense data if the answer is CHECK CONDITION.
    pub(crate) fn sense(self) -> Option<Sense> {
        match self {
            Self::ListIdInUse => Some(Sense::illegal(Asc::OPERATION_IN_PROGRESS)),
            Self::TooMany => None,
        }
    }
}

/// Running operation, which records its result. Dropped without a result because the task was
/// aborted, it forgets the operation.
#[derive(Debug)]
pub(crate) struct Running {
    operations: Arc<CopyOperations>,
    nexus: NexusId,
    list_id: Option<u32>,
    abort: Arc<AtomicBool>,
    is_recorded: bool,
}

impl CopyOperations {
    /// Begins an operation. `list_id` is `None` if the initiator wants none kept (LIST ID USAGE
    /// 11b). That operation counts but cannot be asked for.
    pub(crate) fn begin(
        self: &Arc<Self>,
        nexus: NexusId,
        list_id: Option<u32>,
        service_action: u8,
    ) -> Result<Running, BeginError> {
        let abort = Arc::new(AtomicBool::new(false));
        if let Some(list_id) = list_id {
            let mut list = self.list();
            let same = |it: &CopyOperation| it.nexus == nexus && it.list_id == list_id;
            let is_running = |it: &CopyOperation| it.status == CopyStatus::InProgress;
            if list.iter().any(|it| same(it) && is_running(it)) {
                return Err(BeginError::ListIdInUse);
            }
            if list.iter().filter(|it| is_running(it)).count() >= usize::from(MAX_CONCURRENT_COPIES)
            {
                return Err(BeginError::TooMany);
            }
            list.retain(|it| !same(it));
            if list.len() >= MAX_REMEMBERED
                && let Some(oldest) = list.iter().position(|it| !is_running(it))
            {
                list.remove(oldest);
            }
            list.push_back(CopyOperation {
                nexus,
                list_id,
                service_action,
                status: CopyStatus::InProgress,
                segments: 0,
                transferred: 0,
                token: None,
                abort: Arc::clone(&abort),
            });
        }
        Ok(Running {
            operations: Arc::clone(self),
            nexus,
            list_id,
            abort,
            is_recorded: false,
        })
    }

    /// Returns the operation of this nexus with this list identifier.
    pub(crate) fn find(&self, nexus: NexusId, list_id: u32) -> Option<CopyOperation> {
        let list = self.list();
        let mut of_nexus = list.iter().filter(|it| it.nexus == nexus);
        of_nexus.find(|it| it.list_id == list_id).cloned()
    }

    /// Forgets a finished operation (RECEIVE COPY DATA frees its list identifier).
    pub(crate) fn forget(&self, nexus: NexusId, list_id: u32) {
        self.list().retain(|it| {
            it.nexus != nexus || it.list_id != list_id || it.status == CopyStatus::InProgress
        });
    }

    /// Forgets all finished operations of a nexus that is lost.
    pub(crate) fn forget_nexus(&self, nexus: NexusId) {
        self.list()
            .retain(|it| it.nexus != nexus || it.status == CopyStatus::InProgress);
    }

    /// Asks a running operation to end, for COPY OPERATION ABORT. Returns whether there was one.
    pub(crate) fn abort(&self, nexus: NexusId, list_id: u32) -> bool {
        let list = self.list();
        let running = list.iter().find(|it| {
            it.nexus == nexus && it.list_id == list_id && it.status == CopyStatus::InProgress
        });
        if let Some(running) = running {
            running.abort.store(true, Ordering::Relaxed);
        }
        running.is_some()
    }

    fn list(&self) -> MutexGuard<'_, VecDeque<CopyOperation>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Running {
    /// Reports whether COPY OPERATION ABORT asked the operation to end.
    pub(crate) fn is_aborted(&self) -> bool {
        self.abort.load(Ordering::Relaxed)
    }

    /// Records the progress.
    pub(crate) fn progress(&self, segments: u16, transferred: u64) {
        self.change(|operation| {
            operation.segments = segments;
            operation.transferred = transferred;
        });
    }

    /// Records the result.
    pub(crate) fn finish(&mut self, status: CopyStatus, token: Option<Box<[u8; 512]>>) {
        self.is_recorded = true;
        self.change(|operation| {
            operation.status = status;
            operation.token = token;
        });
    }

    fn change(&self, change: impl FnOnce(&mut CopyOperation)) {
        let Some(list_id) = self.list_id else {
            return;
        };
        let mut list = self.operations.list();
        let own = |it: &&mut CopyOperation| it.nexus == self.nexus && it.list_id == list_id;
        if let Some(operation) = list.iter_mut().find(own) {
            change(operation);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(list_id) = self.list_id
            && !self.is_recorded
        {
            let mut list = self.operations.list();
            list.retain(|it| it.nexus != self.nexus || it.list_id != list_id);
        }
    }
}
