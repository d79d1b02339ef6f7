//! Ways to a unit: an I_T_L nexus with what the unit keeps for it.

use std::sync::Arc;

use scsi::TaskAttribute;
use scsi::itl_nexus::ItlNexus;
use scsi::task_set::{Entered, NexusTasks};

use super::unit::Unit;
use block::budget::Reservation;

/// A unit as one session sees it.
#[derive(Debug)]
pub struct MappedUnit {
    /// Its LUN.
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

    /// A command enters its task set; `waiter` is the token that is woken where its turn comes later.
    #[inline]
    pub fn enter(&self, attribute: TaskAttribute, waiter: u64) -> Entered {
        let logical = &self.unit.logical;
        self.tasks
            .enter(attribute, waiter, || logical.task_set_type())
    }
}

/// A command's place in its unit's task set, and the memory for its data; it leaves, and gives back the
/// memory, when this is dropped.
#[derive(Debug)]
pub struct TaskEntry {
    /// The unit, and through which nexus.
    pub mapped: Arc<MappedUnit>,
    /// The memory that its data may take.
    pub memory: Option<Reservation>,
    attribute: TaskAttribute,
}

impl TaskEntry {
    /// For a command that [`MappedUnit::enter`] let in with that attribute.
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
