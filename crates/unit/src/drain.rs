//! Orders to wait for what began before. The loops of all protocols get them: commands that loops
//! run ([`Operations`]) and operations of protocols without commands ([`crate::execution`]) count
//! alike.

use std::sync::Arc;

use scsi::nexus::Nexus;

use super::command::operation::{Answer, Operation, Work};
use super::command::operations::Operations;
use super::nexus::MappedUnit;
use super::unit::Unit;
use crate::quiet_signal::QuietSignal;

/// Work that an order waits for.
#[derive(Clone, Debug)]
pub(crate) enum Whose {
    /// Work that came through these target port groups.
    Groups(Arc<[u16]>),
    /// Work of these units, and what copies do on them.
    Units(Arc<[Arc<Unit>]>),
    /// Saves of these units' state, but not the rest of the commands that asked for them.
    Saves(Arc<[Arc<Unit>]>),
    /// Work of this unit that is no command. An abort order reaches the commands.
    NotCommands(Arc<Unit>),
}

impl Whose {
    fn includes_command(&self, operation: &Operation, mapped: &MappedUnit) -> bool {
        match self {
            Self::Groups(groups) => came_through(groups, mapped.itl.nexus()),
            Self::Units(units) => {
                let copies_on = match &operation.work {
                    Work::Task(run) => run.on.as_ref(),
                    _ => None,
                };
                units.iter().any(|unit| {
                    Arc::ptr_eq(unit, &mapped.unit)
                        || copies_on.is_some_and(|other| Arc::ptr_eq(unit, other))
                })
            }
            Self::Saves(units) => {
                let saves =
                    matches!(&operation.work, Work::Task(run) if run.answer == Answer::Saved);
                saves && units.iter().any(|unit| Arc::ptr_eq(unit, &mapped.unit))
            }
            Self::NotCommands(_) => false,
        }
    }

    fn includes_other(&self, unit: &Arc<Unit>, nexus: &Nexus) -> bool {
        match self {
            Self::Groups(groups) => came_through(groups, nexus),
            Self::Units(units) => units.iter().any(|it| Arc::ptr_eq(it, unit)),
            Self::Saves(_) => false,
            Self::NotCommands(it) => Arc::ptr_eq(it, unit),
        }
    }
}

fn came_through(groups: &[u16], nexus: &Nexus) -> bool {
    groups.contains(&nexus.target_port.target_port_group)
}

/// Order to wait for what began before a loop looks.
#[derive(Clone, Debug)]
pub struct DrainOrder {
    whose: Whose,
    /// Signal that fires once all of it is over.
    signal: Arc<QuietSignal>,
}

impl DrainOrder {
    pub(crate) fn new(whose: Whose, signal: Arc<QuietSignal>) -> Self {
        Self { whose, signal }
    }

    /// Makes the signal wait for the commands of a loop.
    pub fn wait_for_commands(&self, operations: &mut Operations) {
        for (operation, mapped) in operations.entered() {
            // A command that has not been looked at asks for the state when it is.
            let begun = !matches!(operation.work, Work::Queued { .. });
            if !begun || !self.whose.includes_command(operation, &mapped) {
                continue;
            }
            let observers = match (&self.whose, &mut operation.work) {
                (Whose::Saves(_), Work::Task(run)) => &mut run.step_observers,
                _ => &mut operation.observers,
            };
            observers.push(Arc::clone(&self.signal));
        }
    }

    /// Makes the signal wait until the owner of `observers`, an operation of this unit by this
    /// nexus, lets go of them.
    pub(crate) fn wait_for_other(
        &self,
        unit: &Arc<Unit>,
        nexus: &Nexus,
        observers: &mut Vec<Arc<QuietSignal>>,
    ) {
        if self.whose.includes_other(unit, nexus) {
            observers.push(Arc::clone(&self.signal));
        }
    }
}
