//! Ways to a unit: an I_T_L nexus with what the unit keeps for it.

use std::sync::Arc;

use scsi::TaskAttribute;
use scsi::itl_nexus::ItlNexus;
use scsi::nexus::{InitiatorPort, Nexus as ItNexus, NexusId, TargetPort};
use scsi::task_set::{Entered, NexusTasks};

use super::unit::Unit;
use block::budget::Reservation;

/// A unit as one session sees it.
#[derive(Debug)]
pub struct MappedUnit {
    /// LUN under which the session sees the unit.
    pub lun: u16,
    /// The I_T_L nexus.
    pub itl: Arc<ItlNexus>,
    /// The unit.
    pub unit: Arc<Unit>,
    /// The nexus's tasks in the unit's task sets.
    pub tasks: NexusTasks,
}

impl MappedUnit {
    /// Maps a unit under a LUN for a nexus.
    pub fn new(lun: u16, itl: Arc<ItlNexus>, unit: Arc<Unit>) -> Arc<Self> {
        let tasks = unit.task_sets.join(itl.nexus().id);
        Arc::new(Self {
            lun,
            itl,
            unit,
            tasks,
        })
    }

    /// A command enters its task set; `waiter` is the token that is woken where its turn comes
    /// later.
    #[inline]
    pub fn enter(&self, attribute: TaskAttribute, waiter: u64) -> Entered {
        let logical = &self.unit.logical;
        self.tasks
            .enter(attribute, waiter, || logical.task_set_type())
    }
}

/// A command's place in its unit's task set, and the memory for its data; it leaves, and gives back
/// the memory, when this is dropped.
#[derive(Debug)]
pub struct TaskEntry {
    /// The unit, and through which nexus.
    pub mapped: Arc<MappedUnit>,
    /// The memory that its data may take.
    pub memory: Option<Reservation>,
    attribute: TaskAttribute,
}

impl TaskEntry {
    /// Makes the entry of a command that [`MappedUnit::enter`] let in with that attribute.
    #[inline]
    pub fn new(mapped: Arc<MappedUnit>, attribute: TaskAttribute) -> Self {
        Self {
            mapped,
            memory: None,
            attribute,
        }
    }
}

impl Drop for TaskEntry {
    #[inline]
    fn drop(&mut self) {
        self.mapped.tasks.leave(self.attribute);
    }
}

/// Way to a unit for a protocol without LUNs and task sets: one connection, for example. The unit
/// forgets it when it is dropped.
#[derive(Debug)]
pub struct Nexus {
    /// The unit.
    pub unit: Arc<Unit>,
    /// The I_T_L nexus, whose gates admit or refuse.
    pub itl: Arc<ItlNexus>,
}

impl Nexus {
    /// Joins an initiator with this name to a unit. Each nexus is an initiator port of its own.
    pub fn join(unit: Arc<Unit>, initiator: String, through: Arc<TargetPort>) -> Arc<Self> {
        let id = NexusId::unused();
        let [_, _, isid @ ..] = id.0.to_be_bytes();
        let initiator = InitiatorPort {
            name: initiator,
            isid,
        };
        let itl = unit.logical.attach(ItNexus {
            id,
            initiator: Arc::new(initiator),
            target_port: through,
        });
        Arc::new(Self { unit, itl })
    }
}

impl Drop for Nexus {
    fn drop(&mut self) {
        self.unit.logical.detach(self.itl.nexus().id);
    }
}
