//! Hindrances of a unit: what stops or refuses medium access now, and how an administrator ends it.

use super::{LogicalUnit, RareState};
use crate::hindrance::{Hindrance, Imposed};
use crate::nexus::Nexus;
use crate::unit_attention::UnitAttention;

impl LogicalUnit {
    /// Returns everything that stops or refuses medium access now.
    pub fn hindrances(&self) -> Vec<Hindrance> {
        self.hindrances_in(&self.state())
    }

    fn hindrances_in(&self, state: &RareState) -> Vec<Hindrance> {
        let mut all: Vec<_> = state.readiness.hindrances().collect();
        all.extend(state.protections());
        if let Some(holder) = state.reserve6 {
            let nexus = state.nexuses().find(|nexus| nexus.nexus().id == holder);
            let by = nexus.map(|nexus| nexus.nexus().initiator.name.clone());
            all.push(Hindrance::Reserved { holder, by });
        }
        if state.reservations.is_active() {
            let reservations = Box::new(state.reservations.clone());
            all.push(Hindrance::PersistentlyReserved(reservations));
        }
        all.extend(self.access_hindrances());
        if state.mode.soft_threshold().is_reached() {
            all.push(Hindrance::ThresholdReached);
        }
        all
    }

    fn access_hindrances(&self) -> Vec<Hindrance> {
        let layout = self.access().groups().layout();
        let closed = layout
            .groups
            .iter()
            .filter(|group| !group.state.is_active());
        let closed = closed.map(|group| Hindrance::AccessState {
            group: group.id,
            state: group.state,
            chosen_by: None,
        });
        let chosen = self.access().choices().into_iter();
        let chosen = chosen.map(|choice| Hindrance::AccessState {
            group: choice.group,
            state: choice.state,
            chosen_by: Some(choice.initiator),
        });
        closed.chain(chosen).collect()
    }

    /// Ends a state that initiators imposed, in an administrator's name, and tells the initiators
    /// concerned. Returns the states that have ended. Some of the change is persistent: the caller
    /// stores [`Self::image_to_save`].
    pub fn end(&self, imposed: Imposed) -> Vec<Hindrance> {
        if imposed == Imposed::AccessChoices {
            return self.end_access_choices(None);
        }
        let mut state = self.state();
        let mut ended = self.hindrances_in(&state);
        ended.retain(|hindrance| hindrance.imposed() == Some(imposed));
        let preempted = UnitAttention::RESERVATIONS_PREEMPTED;
        match imposed {
            Imposed::Stop => state.readiness.stopped = None,
            Imposed::SanitizeFailure => state.readiness.sanitize_failed = None,
            Imposed::SoftwareWriteProtect => {
                if state.mode.end_software_write_protect() {
                    let changed = UnitAttention::MODE_PARAMETERS_CHANGED;
                    self.raise_locked(&state, changed, None);
                }
            }
            Imposed::Reservation => {
                if let Some(holder) = state.reserve6.take() {
                    let is_told = |nexus: &Nexus| nexus.id == holder;
                    state.raise_where(preempted, is_told);
                }
            }
            Imposed::PersistentReservation => {
                let registrants = state.reservations.end();
                state.raise_where(preempted, |nexus| {
                    registrants.iter().any(|registrant| registrant.is(nexus))
                });
            }
            Imposed::AccessChoices => {}
        }
        self.publish(&state);
        ended
    }

    /// Ends the access states that initiators chose for a target port group, or for all groups. The
    /// administrator's states hold again, and the initiators that had chosen are told (06/2A/06).
    ///
    /// Returns the states that have ended. The caller stores [`Self::image_to_save`].
    pub fn end_access_choices(&self, group: Option<u16>) -> Vec<Hindrance> {
        let state = self.state();
        let ended = self.access().end_choices(group);
        self.publish(&state);
        let changed = UnitAttention::ASYMMETRIC_ACCESS_STATE_CHANGED;
        state.raise_where(changed, |nexus| {
            let name = &nexus.initiator.name;
            ended.iter().any(|choice| choice.initiator == *name)
        });
        let ended = ended.into_iter().map(|choice| Hindrance::AccessState {
            group: choice.group,
            state: choice.state,
            chosen_by: Some(choice.initiator),
        });
        ended.collect()
    }
}
