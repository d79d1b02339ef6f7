//! Orders to abort tasks of a unit, over all loops.

use std::sync::Arc;

use scsi::nexus::{Nexus, NexusId};
use scsi::persistent_reservation::Registrant;

use super::core::Core;
use super::operation::{SessionKey, TaskKey, Work};
use super::peers::Peers;
use crate::quiet_signal::QuietSignal;
use crate::unit::Unit;

/// Order to abort tasks, with the signal for the one that waits.
#[derive(Debug)]
pub struct AbortOrder<F> {
    /// Unit whose tasks are aborted.
    pub unit: Arc<Unit>,
    /// Nexuses whose tasks are meant.
    pub whose: Whose,
    /// Task to leave alone: the command that asks.
    pub except: Option<(SessionKey, TaskKey)>,
    /// Nexus that asks: tasks of others end with TASK ABORTED if TAS is set.
    pub by: NexusId,
    /// Task management function of `by` that asks, as its protocol knows it: of that session's
    /// tasks only those sent before it are meant. `None` if a command asks.
    pub function: Option<F>,
    /// Whether TAS is set.
    pub tell: bool,
    /// Whether a unit attention informs nexuses whose tasks are aborted without an answer.
    pub cleared: bool,
    /// Signal that fires once every aborted task is quiet.
    pub signal: Arc<QuietSignal>,
}

/// Nexuses whose tasks an abort order reaches.
#[derive(Debug)]
pub enum Whose {
    /// All nexuses.
    All,
    /// Tasks of one nexus.
    Nexus(NexusId),
    /// Tasks of the nexuses of these registrants, also of nexuses that were lost.
    Registrants(Vec<Registrant>),
}

impl Whose {
    /// Reports whether the order reaches tasks of this nexus.
    pub fn includes(&self, nexus: &Nexus) -> bool {
        match self {
            Self::All => true,
            Self::Nexus(id) => nexus.id == *id,
            Self::Registrants(registrants) => registrants.contains(&Registrant::of(nexus)),
        }
    }
}

impl<S: Peers> Core<S> {
    /// Has who gave an order wait also for what was cancelled before: tasks of sessions, of
    /// connections and of LUNs that are gone, and such as were aborted already. No session may know
    /// of them any more, but a device may still write for them.
    ///
    /// And for what copies do on the unit just now. Their tasks are another unit's, and are not
    /// aborted: the next step of a copy comes after the order, and asks again whether it may.
    pub fn wait_for_what_is_left(&mut self, order: &AbortOrder<S::Function>) {
        for (operation, mapped) in self.operations.entered() {
            let asks = order.except == Some((operation.session, operation.task));
            if asks || !order.whose.includes(mapped.itl.nexus()) {
                continue;
            }
            if operation.cancelled && Arc::ptr_eq(&mapped.unit, &order.unit) {
                operation.observers.push(order.signal.clone());
            }
            if let Work::Task(run) = &mut operation.work
                && (run.on.as_ref()).is_some_and(|on| Arc::ptr_eq(on, &order.unit))
            {
                run.step_observers.push(order.signal.clone());
            }
        }
    }
}
