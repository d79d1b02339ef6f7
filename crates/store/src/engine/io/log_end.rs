//! End of the log: the open group, the groups under way, and the requests that wait for them.

use std::collections::VecDeque;

use crate::engine::limits::Limits;
use crate::engine::request::RequestId;
use crate::log::chain::Chain;
use crate::log::group::OpenGroup;

/// Groups being written at which a group that no request waits for is left to gather.
pub(super) const GROUPS_IN_FLIGHT: usize = 8;

/// End of the log, where changes become durable.
#[derive(Debug)]
pub(in crate::engine) struct Commit {
    pub(in crate::engine) group: OpenGroup,
    pub(in crate::engine) chain: Chain,
    /// Whether an opening finds this end of the log.
    pub(in crate::engine) start: Start,
    /// Requests that wait for groups to become durable, in order.
    pub(super) waiters: VecDeque<(u64, RequestId)>,
    /// Last group that the flush under way covers.
    pub(super) flushing: Option<u64>,
    /// Last group that was flushed. Fewer groups may count as durable, until the labels say on
    /// which leaves they are.
    pub(in crate::engine) flushed_seq: u64,
}

/// State of the last checkpoint: whether it leads to the place where the log continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum Start {
    /// The last checkpoint leads there.
    Reached,
    /// No group was written after the end that an opening found.
    Found,
    /// The first group was written, and no checkpoint that has it is durable yet. The number is its
    /// own.
    Anew(u64),
}

impl Commit {
    pub(in crate::engine) fn new(chain: Chain, start: Start) -> Self {
        Self {
            group: OpenGroup::default(),
            flushed_seq: chain.durable_seq,
            chain,
            start,
            waiters: VecDeque::new(),
            flushing: None,
        }
    }

    /// Returns the time at which the open group has waited long enough; `None` if it may not be
    /// sealed then.
    pub(in crate::engine) fn deadline_us(&self, limits: &Limits) -> Option<u64> {
        let may_seal = !self.group.is_empty() && self.chain.being_written() < GROUPS_IN_FLIGHT;
        may_seal.then(|| self.group.since_us + limits.gather_us)
    }

    /// Reports whether a request waits for the open group.
    pub(super) fn is_group_wanted(&self) -> bool {
        let last = self.waiters.back();
        last.is_some_and(|(seq, _)| *seq > self.chain.sealed_seq())
    }

    /// Returns the last sealed group that a request waits for.
    pub(super) fn last_wanted(&self) -> Option<u64> {
        let sealed = self.chain.sealed_seq();
        let count = self.waiters.partition_point(|(seq, _)| *seq <= sealed);
        let last = self.waiters.get(count.checked_sub(1)?);
        last.map(|(seq, _)| *seq)
    }

    /// Returns the bytes that are in memory only, or may be.
    pub(in crate::engine) fn dirty_bytes(&self) -> usize {
        self.chain.bytes + self.group.payload_bytes()
    }
}
