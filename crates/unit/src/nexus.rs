//! Access to a unit: an I_T_L nexus, with the data that the unit keeps for it.

use std::sync::Arc;

use scsi::TaskAttribute;
use scsi::itl_nexus::ItlNexus;
use scsi::nexus::{InitiatorPort, Nexus as ItNexus, NexusId, TargetPort};
use scsi::task_set::{Entered, NexusTasks};

use super::timing::tally::{NexusTally, PortGroupTally};
use super::timing::{Moment, Receipt, Stopwatch};
use super::unit::Unit;
use block::budget::Reservation;
use model::figures::{CommandKind, UnderWay};

/// A unit as one session sees it.
#[derive(Debug)]
pub struct MappedUnit {
    /// LUN under which the session sees the unit.
    pub lun: u16,
    /// I_T_L nexus of the session and the unit.
    pub itl: Arc<ItlNexus>,
    /// Unit to which the nexus leads.
    pub unit: Arc<Unit>,
    /// Tasks of the nexus in the unit's task sets.
    pub tasks: NexusTasks,
    /// Times of the commands of the nexus.
    pub tally: Arc<NexusTally>,
}

impl MappedUnit {
    /// Maps a unit under a LUN for a nexus that leads through a port group.
    pub fn new(
        lun: u16,
        itl: Arc<ItlNexus>,
        unit: Arc<Unit>,
        port_group: Option<Arc<PortGroupTally>>,
    ) -> Arc<Self> {
        let tasks = unit.task_sets.join(itl.nexus().id);
        Arc::new(Self {
            lun,
            itl,
            tally: NexusTally::new(&unit, port_group),
            unit,
            tasks,
        })
    }

    /// Enters a command into its task set. If the command has to wait for its turn, the token
    /// `waiter` is woken then.
    #[inline]
    pub fn enter(&self, attribute: TaskAttribute, waiter: u64) -> Entered {
        let logical = &self.unit.logical;
        self.tasks
            .enter(attribute, waiter, || logical.task_set_type())
    }
}

impl MappedUnit {
    /// Returns the commands of the nexus that are under way now.
    pub fn under_way(&self) -> UnderWay {
        let (active, queued) = self.tasks.under_way();
        UnderWay { active, queued }
    }
}

/// A command's place in its unit's task set, with the memory for its data. Dropping it removes the
/// command and gives back the memory.
#[derive(Debug)]
pub struct TaskEntry {
    /// Unit, and the nexus through which the command came.
    pub mapped: Arc<MappedUnit>,
    /// Memory that the command's data may take.
    pub memory: Option<Reservation>,
    /// Time that the command has spent so far.
    pub stopwatch: Stopwatch,
    attribute: TaskAttribute,
}

impl TaskEntry {
    /// Makes the entry of a command that [`MappedUnit::enter`] let in with that attribute.
    #[inline]
    pub fn new(mapped: Arc<MappedUnit>, attribute: TaskAttribute, stopwatch: Stopwatch) -> Self {
        Self {
            mapped,
            memory: None,
            stopwatch,
            attribute,
        }
    }

    /// Returns the receipt of the command, whose work has ended now.
    #[inline]
    pub fn receipt(&self, kind: CommandKind, bytes: u64, now: Moment) -> Receipt {
        Receipt::new(&self.mapped.tally, kind, bytes, self.stopwatch, now)
    }
}

impl Drop for TaskEntry {
    #[inline]
    fn drop(&mut self) {
        self.mapped.tasks.leave(self.attribute);
    }
}

/// Access to a unit for a protocol without LUNs and task sets, for example for one connection. The
/// unit forgets the nexus when it is dropped.
#[derive(Debug)]
pub struct Nexus {
    /// Unit to which the nexus leads.
    pub unit: Arc<Unit>,
    /// I_T_L nexus, whose gates admit or refuse operations.
    pub itl: Arc<ItlNexus>,
    /// Times of the operations of the nexus.
    pub tally: Arc<NexusTally>,
}

impl Nexus {
    /// Joins an initiator of the given name to a unit. Each nexus is an initiator port of its own.
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
        let tally = NexusTally::new(&unit, None);
        Arc::new(Self { unit, itl, tally })
    }
}

impl Drop for Nexus {
    fn drop(&mut self) {
        self.unit.logical.detach(self.itl.nexus().id);
    }
}
