//! Fences behind the writes of a lost session or connection. A device may delay these writes.
//! Meanwhile the initiator writes their blocks again, by another path or another connection of the
//! session. The new writes must come after the old ones.
//!
//! A fence is an exclusive claim to the range, which waits in the queue of the range lock. A later
//! claim to the range waits behind the fence. As soon as the fence is granted, the earlier writes
//! are over and it goes away.

use std::sync::Arc;

use scsi::BlockRange;
use scsi::range_lock::Hold;

use super::core::Core;
use super::operation::{Operation, SessionKey, TaskKey, Token, Waiting, Work};
use super::peers::Peers;
use crate::unit::Unit;

impl<S: Peers> Core<S> {
    /// Puts a fence behind the requests that a cancelled operation still has under way. One fence
    /// is enough.
    pub fn fence_off(&mut self, token: Token) {
        let Some(operation) = self.operations.get_mut(token) else {
            return;
        };
        if std::mem::replace(&mut operation.fenced_off, true) {
            return;
        }
        // Everybody waits behind an exclusive hold anyhow.
        let shared = operation.held.iter();
        let shared = shared.filter(|(_, _, hold)| *hold == Hold::Shared);
        let ranges: Vec<_> = shared
            .map(|(unit, range, _)| (unit.clone(), *range))
            .collect();
        for (unit, range) in ranges {
            self.fence(unit, range);
        }
    }

    fn fence(&mut self, unit: Arc<Unit>, range: BlockRange) {
        let token = self.operations.insert(Operation {
            session: SessionKey::NONE,
            task: TaskKey::NONE,
            entry: None,
            work: Work::Fence(unit.clone(), range),
            waiting: Waiting::Range(range, Hold::Exclusive),
            held: Vec::new(),
            cancelled: false,
            fenced_off: false,
            data_out_wanted: None,
            observers: Vec::new(),
        });
        if unit.range_lock.lock(range, Hold::Exclusive, token.0) {
            self.remove_fence(token);
        }
    }

    /// Takes away a fence that was granted. Returns `false` if the token names something else.
    pub fn remove_fence(&mut self, token: Token) -> bool {
        let Some(operation) = self.operations.get_mut(token) else {
            return false;
        };
        let Work::Fence(unit, range) = &operation.work else {
            return false;
        };
        unit.range_lock.unlock(*range, Hold::Exclusive);
        if self.operations.take(token).is_some() {
            self.operations.retire(token);
        }
        true
    }
}
