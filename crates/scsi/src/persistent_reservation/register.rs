//! Registration of a nexus by itself or by another (SPC-4 5.13.7 and 5.13.8): REGISTER, REGISTER
//! AND IGNORE EXISTING KEY, REGISTER AND MOVE.

use std::collections::BTreeMap;

use super::{
    MAX_REGISTRATIONS, Outcome, PersistentReservations, Refusal, Registrant, Request, Surroundings,
    TransportId,
};
use crate::{Asc, Sense, UnitAttention};

impl PersistentReservations {
    pub(super) fn execute_register(
        &mut self,
        from: &Registrant,
        request: &Request,
        surroundings: Surroundings<'_>,
    ) -> Result<Outcome, Refusal> {
        match request {
            Request::Register {
                key,
                new_key,
                activate_through_power_loss,
                all_target_ports,
                others,
            } => {
                let registered = self.registrations.get(from).copied();
                if registered.unwrap_or(0) != *key {
                    return Err(Refusal::Conflict);
                }
                if registered.is_some() && others.is_some() {
                    // Byte 20: SPEC_I_PT is for a nexus that is not registered yet.
                    return Err(Refusal::Sense(Sense::invalid_field_in_parameter_list(20)));
                }
                let all_ports = all_target_ports.then_some(surroundings.ports);
                let others = others.as_deref().unwrap_or(&[]);
                let changes = self.registration_changes(
                    from,
                    Some(*key),
                    *new_key,
                    all_ports,
                    others,
                    surroundings,
                )?;
                self.apply(from, &changes, *activate_through_power_loss)
            }
            Request::RegisterAndIgnoreExistingKey {
                new_key,
                activate_through_power_loss,
                all_target_ports,
            } => {
                let all_ports = all_target_ports.then_some(surroundings.ports);
                let changes =
                    self.registration_changes(from, None, *new_key, all_ports, &[], surroundings)?;
                self.apply(from, &changes, *activate_through_power_loss)
            }
            _ => self.register_and_move(from, request, surroundings),
        }
    }

    /// Returns each registration to change with its new key (0 to remove it). `key` is `None` if
    /// existing keys are ignored. `all_ports` are the device's ports under ALL_TG_PT.
    fn registration_changes(
        &self,
        from: &Registrant,
        key: Option<u64>,
        new_key: u64,
        all_ports: Option<&[u16]>,
        others: &[TransportId],
        surroundings: Surroundings<'_>,
    ) -> Result<BTreeMap<Registrant, u64>, Refusal> {
        let mut changes = BTreeMap::new();
        let ports = |own: u16| -> Vec<u16> {
            let mut ports = vec![own];
            ports.extend(all_ports.unwrap_or(&[]).iter().filter(|&&port| port != own));
            ports
        };
        for port in ports(from.relative_port_id) {
            let registrant = Registrant {
                initiator: from.initiator.clone(),
                relative_port_id: port,
            };
            let registered = self.registrations.get(&registrant).copied();
            match (registered, key) {
                // The key was checked for the nexus itself. A registration of this initiator under
                // another key, at another port, is not for this key to change.
                (Some(registered), Some(key)) if registered != key => {
                    return Err(Refusal::Conflict);
                }
                (None, _) if new_key == 0 => {}
                _ => {
                    changes.insert(registrant, new_key);
                }
            }
        }
        if new_key == 0 {
            return Ok(changes);
        }
        for other in others {
            let initiators = match other.isid {
                Some(_) => other.initiator_port().into_iter().collect(),
                None => self.known_ports_of(&other.name, surroundings),
            };
            for initiator in initiators {
                for port in ports(from.relative_port_id) {
                    let registrant = Registrant {
                        initiator: initiator.clone(),
                        relative_port_id: port,
                    };
                    if !self.registrations.contains_key(&registrant) {
                        changes.insert(registrant, new_key);
                    } else if other.isid.is_some() {
                        // Only an initiator that knows a key may replace it.
                        return Err(Refusal::Conflict);
                    }
                }
            }
        }
        Ok(changes)
    }

    /// Returns all initiator ports of that name which the device server knows (SPC-4 7.6.4.6).
    fn known_ports_of(
        &self,
        name: &str,
        surroundings: Surroundings<'_>,
    ) -> Vec<crate::nexus::InitiatorPort> {
        let registered = self.registrations.keys().map(|entry| &entry.initiator);
        let mut known: Vec<_> = surroundings
            .initiators
            .iter()
            .chain(registered)
            .filter(|initiator| initiator.name == name)
            .cloned()
            .collect();
        known.sort();
        known.dedup();
        known
    }

    fn apply(
        &mut self,
        from: &Registrant,
        changes: &BTreeMap<Registrant, u64>,
        activate_through_power_loss: bool,
    ) -> Result<Outcome, Refusal> {
        let added = changes
            .iter()
            .filter(|&(registrant, &key)| key != 0 && !self.registrations.contains_key(registrant))
            .count();
        self.check_room(added)?;
        let mut outcome = Outcome::default();
        if changes.is_empty() {
            return Ok(outcome);
        }
        for (registrant, &key) in changes {
            if key == 0 {
                outcome.attentions.extend(self.unregister(registrant, from));
            } else {
                self.registrations.insert(registrant.clone(), key);
            }
        }
        // A nexus that lost its registration in this very command is told nothing of the others.
        outcome
            .attentions
            .retain(|(registrant, _)| self.registrations.contains_key(registrant));
        self.activate_through_power_loss = activate_through_power_loss;
        self.bump_generation();
        Ok(outcome)
    }

    /// Removes a registration. If it was the holder's, the reservation goes too (SPC-4 5.13.11.3).
    fn unregister(
        &mut self,
        registrant: &Registrant,
        from: &Registrant,
    ) -> Vec<(Registrant, UnitAttention)> {
        self.registrations.remove(registrant);
        self.drop_reservation_without_registrants();
        let Some(reservation) = &self.reservation else {
            return Vec::new();
        };
        if reservation.holder.as_ref() != Some(registrant) {
            return Vec::new();
        }
        let tells = reservation.kind.admits_registrants();
        self.reservation = None;
        if tells {
            self.attentions_to_all_but(from, UnitAttention::RESERVATIONS_RELEASED)
        } else {
            Vec::new()
        }
    }

    /// Registers another nexus and moves the reservation to it (SPC-4 5.13.8).
    fn register_and_move(
        &mut self,
        from: &Registrant,
        request: &Request,
        surroundings: Surroundings<'_>,
    ) -> Result<Outcome, Refusal> {
        let Request::RegisterAndMove {
            key,
            new_key,
            activate_through_power_loss,
            unregister,
            relative_port_id,
            destination,
        } = request
        else {
            return Err(Refusal::Sense(Sense::invalid_bit_in_cdb(1, 4)));
        };
        self.check_key(from, *key)?;
        match &self.reservation {
            Some(reservation) if reservation.kind.is_all_registrants() => {
                return Err(Refusal::Conflict);
            }
            Some(_) if self.holds(from) => {}
            _ => return Err(Refusal::Sense(Sense::invalid_bit_in_cdb(1, 4))),
        }
        let invalid = |byte| Err(Refusal::Sense(Sense::invalid_field_in_parameter_list(byte)));
        if *new_key == 0 {
            return invalid(8);
        }
        if *relative_port_id != from.relative_port_id
            && !surroundings.ports.contains(relative_port_id)
        {
            return invalid(18);
        }
        let Some(initiator) = destination.initiator_port() else {
            // A whole initiator is not one initiator port.
            return invalid(24);
        };
        let to = Registrant {
            initiator,
            relative_port_id: *relative_port_id,
        };
        if to == *from {
            return invalid(24);
        }
        if !self.registrations.contains_key(&to) && !*unregister {
            self.check_room(1)?;
        }
        self.registrations.insert(to.clone(), *new_key);
        if let Some(reservation) = &mut self.reservation {
            reservation.holder = Some(to);
        }
        if *unregister {
            self.registrations.remove(from);
        }
        self.activate_through_power_loss = *activate_through_power_loss;
        self.bump_generation();
        Ok(Outcome::default())
    }

    fn check_room(&self, added: usize) -> Result<(), Refusal> {
        if self.registrations.len() + added > MAX_REGISTRATIONS {
            return Err(Refusal::Sense(Sense::illegal(
                Asc::INSUFFICIENT_REGISTRATION_RESOURCES,
            )));
        }
        Ok(())
    }
}
