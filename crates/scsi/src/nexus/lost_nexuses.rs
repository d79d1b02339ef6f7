//! Record of the I_T nexuses of a unit that were lost. If one comes back, its initiator is told of
//! the loss (SAM-5 6.3.4), and not of a power on of the unit.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::nexus::{InitiatorPort, Nexus};

/// Most nexuses that are remembered. The initiator of a forgotten one hears of a power on instead,
/// which says more than is true and harms no one.
const MAX_LOST: usize = 1024;

/// Nexuses that were lost since the unit was last reset, the latest last: initiator port and
/// relative target port.
#[derive(Debug, Default)]
pub(crate) struct LostNexuses(VecDeque<(Arc<InitiatorPort>, u16)>);

impl LostNexuses {
    /// Notes that a nexus is lost.
    pub(crate) fn note(&mut self, nexus: &Nexus) {
        self.take(nexus);
        if self.0.len() == MAX_LOST {
            self.0.pop_front();
        }
        let port = nexus.target_port.relative_port_id;
        self.0.push_back((Arc::clone(&nexus.initiator), port));
    }

    /// Reports whether this nexus was lost before, and removes it from the record.
    pub(crate) fn take(&mut self, nexus: &Nexus) -> bool {
        let port = nexus.target_port.relative_port_id;
        let mut lost = self.0.iter();
        let at = lost.position(|(initiator, at)| *at == port && *initiator == nexus.initiator);
        at.is_some_and(|at| self.0.remove(at).is_some())
    }

    /// Forgets all after a reset of the unit: initiators that are away missed more than the loss of
    /// their nexus.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}
