//! PERSISTENT RESERVE IN and PERSISTENT RESERVE OUT (SPC-4 6.15 and 6.16): translation of bytes to
//! requests and back. [`crate::persistent_reservation`] decides their meaning.

use std::sync::Arc;

use crate::cdb::Cdb;
use crate::command_descriptor::Request;
use crate::itl_nexus::ItlNexus;
use crate::nexus::InitiatorPort;
use crate::persistent_reservation::{
    self as reservation, Outcome, PersistentReservations, Refusal, Registrant, Surroundings,
    TransportId,
};
use crate::sense::{Asc, Sense, SenseKey};
use crate::{AbortScope, Input, Response, Start, Step, Task};

const REGISTER: u8 = 0x00;
const RESERVE: u8 = 0x01;
const RELEASE: u8 = 0x02;
const CLEAR: u8 = 0x03;
const PREEMPT: u8 = 0x04;
const PREEMPT_AND_ABORT: u8 = 0x05;
const REGISTER_AND_IGNORE_EXISTING_KEY: u8 = 0x06;
const REGISTER_AND_MOVE: u8 = 0x07;

/// Length of the parameter list without TransportIDs.
const BASIC_LIST_LEN: u32 = 24;
/// Longest parameter list: space for more TransportIDs of usual length than there may be
/// registrations.
const MAX_LIST_LEN: u32 = 128 * 1024;

/// Starts PERSISTENT RESERVE IN.
pub(crate) fn reserve_in(request: &Request<'_>) -> Result<Start, Sense> {
    let cdb = request.cdb;
    let state = request.unit.state();
    if state.reserve6.is_some() {
        return Ok(Start::Respond(Response::reservation_conflict()));
    }
    let reservations = &state.reservations;
    let data = match cdb.u8(1) & 0x1F {
        0x00 => reservations.read_keys(),
        0x01 => reservations.read_reservation(),
        0x02 => reservations.report_capabilities(),
        0x03 => reservations.read_full_status(),
        _ => return Err(Sense::invalid_bit_in_cdb(1, 4)),
    };
    Ok(Start::data(data, usize::from(cdb.u16(7))))
}

/// Starts PERSISTENT RESERVE OUT.
pub(crate) fn reserve_out(request: &Request<'_>) -> Result<Start, Sense> {
    let cdb = request.cdb;
    let service_action = cdb.u8(1) & 0x1F;
    if service_action > REGISTER_AND_MOVE {
        return Err(Sense::invalid_bit_in_cdb(1, 4));
    }
    let list_len = cdb.u32(5);
    let takes_transport_ids = matches!(service_action, REGISTER | REGISTER_AND_MOVE);
    let fits = if takes_transport_ids {
        (BASIC_LIST_LEN..=MAX_LIST_LEN).contains(&list_len)
    } else {
        list_len == BASIC_LIST_LEN
    };
    if !fits {
        return Err(Sense::parameter_list_length_error());
    }
    Ok(Start::Task(Box::new(ReserveOut {
        nexus: Arc::clone(request.nexus),
        service_action,
        scope_and_type: cdb.u8(2),
        list_len,
        outcome: Outcome::default(),
        in_effect: false,
        unsaved: None,
    })))
}

/// PERSISTENT RESERVE OUT after its parameter list has come. It changes the state, saves it, tells
/// the other nexuses, and aborts the commands of preempted nexuses.
///
/// The change takes effect before it is saved, because a nexus that is fenced off must not write
/// while the disk works. If it cannot be saved, it is taken back.
#[derive(Debug)]
struct ReserveOut {
    nexus: Arc<ItlNexus>,
    service_action: u8,
    scope_and_type: u8,
    list_len: u32,
    outcome: Outcome,
    /// Whether the change has taken effect. It is then carried out to the end, even if the command
    /// is aborted.
    in_effect: bool,
    /// States before and after the change, while the change is being saved.
    unsaved: Option<(PersistentReservations, PersistentReservations)>,
}

impl Task for ReserveOut {
    fn data_out_len(&self) -> u32 {
        self.list_len
    }

    /// Half a change would be worse than a whole one: a nexus would be fenced off, but its commands
    /// not aborted. So if two commands abort each other, both still finish.
    fn outlives_its_command(&self) -> bool {
        self.in_effect
    }

    fn step(&mut self, input: Input<'_>) -> Step {
        match input {
            Input::Begin { data_out } => match self.change(data_out) {
                Ok(Some(image)) => Step::Save { image },
                Ok(None) => self.after_save(),
                Err(response) => Step::Done(response),
            },
            Input::Failed(_) if self.unsaved.is_some() => {
                self.take_back();
                let sense = Sense::new(SenseKey::HardwareError, Asc::INTERNAL_TARGET_FAILURE);
                Step::Done(self.nexus.unit().check_condition(&sense))
            }
            Input::Failed(error) => Step::Done(self.nexus.unit().sense_for(error)),
            _ if self.unsaved.take().is_some() => self.after_save(),
            // The abort is done.
            _ => Step::Done(Response::good()),
        }
    }
}

impl ReserveOut {
    /// Carries out the request. Returns the image to save if the part of the state that survives a
    /// power loss changed.
    fn change(&mut self, list: &[u8]) -> Result<Option<Vec<u8>>, Response> {
        let unit = self.nexus.unit();
        let refused = |sense| unit.check_condition(&sense);
        if (list.len() as u64) < u64::from(self.list_len) {
            return Err(refused(Sense::parameter_list_length_error()));
        }
        let request = parse(self.service_action, self.scope_and_type, list).map_err(refused)?;
        let own_port = self.nexus.nexus().target_port.relative_port_id;
        let layout = unit.access().groups().layout();
        let mut ports: Vec<u16> = layout
            .groups
            .iter()
            .flat_map(|group| group.ports.iter().copied())
            .collect();
        if !ports.contains(&own_port) {
            ports.push(own_port);
        }

        let mut state = unit.state_to_save()?;
        if state.reserve6.is_some() {
            return Err(Response::reservation_conflict());
        }
        let initiators: Vec<InitiatorPort> = state
            .nexuses()
            .map(|other| (*other.nexus().initiator).clone())
            .collect();
        let before = state.reservations.clone();
        let from = Registrant::of(self.nexus.nexus());
        let surroundings = Surroundings {
            ports: &ports,
            initiators: &initiators,
        };
        let outcome = state.reservations.execute(&from, &request, surroundings);
        self.outcome = outcome.map_err(|refusal| match refusal {
            Refusal::Conflict => Response::reservation_conflict(),
            Refusal::Sense(sense) => refused(sense),
        })?;
        unit.publish(&state);
        self.in_effect = true;
        let after = state.reservations.clone();
        if before.to_bytes() == after.to_bytes() {
            return Ok(None);
        }
        self.unsaved = Some((before, after));
        Ok(Some(unit.image(&mut state)))
    }

    fn after_save(&mut self) -> Step {
        let own = self.nexus.nexus().id;
        let state = self.nexus.unit().state();
        for other in state.nexuses().filter(|other| other.nexus().id != own) {
            let registrant = Registrant::of(other.nexus());
            for (owed, attention) in &self.outcome.attentions {
                if *owed == registrant {
                    other.raise(*attention);
                }
            }
        }
        drop(state);
        let own = Registrant::of(self.nexus.nexus());
        let mut abort = std::mem::take(&mut self.outcome.abort);
        abort.retain(|registrant| *registrant != own);
        if abort.is_empty() {
            Step::Done(Response::good())
        } else {
            Step::Abort(AbortScope::Registrants(abort))
        }
    }

    /// Undoes a change that could not be saved, unless another change was made after it.
    fn take_back(&mut self) {
        let Some((before, after)) = self.unsaved.take() else {
            return;
        };
        let unit = self.nexus.unit();
        let mut state = unit.state();
        if state.reservations == after {
            state.reservations = before;
            unit.publish(&state);
        }
    }
}

/// Reads a parameter list of at least 24 bytes (SPC-4 6.16.3 and 6.16.4).
pub(crate) fn parse(
    service_action: u8,
    scope_and_type: u8,
    list: &[u8],
) -> Result<reservation::Request, Sense> {
    let fields = Cdb(list);
    let key = fields.u64(0);
    let other_key = fields.u64(8);
    if service_action == REGISTER_AND_MOVE {
        return parse_register_and_move(key, other_key, list);
    }
    let names_others = fields.bit(20, 3);
    let all_target_ports = fields.bit(20, 2);
    let activate_through_power_loss = fields.bit(20, 0);
    if names_others && service_action != REGISTER {
        return Err(Sense::invalid_field_in_parameter_list(20));
    }
    if !names_others && list.len() != BASIC_LIST_LEN as usize {
        return Err(Sense::parameter_list_length_error());
    }
    Ok(match service_action {
        REGISTER => reservation::Request::Register {
            key,
            new_key: other_key,
            activate_through_power_loss,
            all_target_ports,
            others: names_others.then(|| parse_others(list)).transpose()?,
        },
        REGISTER_AND_IGNORE_EXISTING_KEY => reservation::Request::RegisterAndIgnoreExistingKey {
            new_key: other_key,
            activate_through_power_loss,
            all_target_ports,
        },
        RESERVE => reservation::Request::Reserve {
            key,
            scope_and_type,
        },
        RELEASE => reservation::Request::Release {
            key,
            scope_and_type,
        },
        CLEAR => reservation::Request::Clear { key },
        PREEMPT | PREEMPT_AND_ABORT => reservation::Request::Preempt {
            key,
            victim_key: other_key,
            scope_and_type,
            abort: service_action == PREEMPT_AND_ABORT,
        },
        _ => return Err(Sense::invalid_bit_in_cdb(1, 4)),
    })
}

/// Reads the TransportIDs behind SPEC_I_PT: a length, then exactly that many bytes of TransportIDs.
fn parse_others(list: &[u8]) -> Result<Vec<TransportId>, Sense> {
    let (len, mut rest) = list
        .get(24..)
        .and_then(|tail| tail.split_first_chunk::<4>())
        .ok_or(Sense::parameter_list_length_error())?;
    if u32::from_be_bytes(*len) as usize != rest.len() {
        return Err(Sense::parameter_list_length_error());
    }
    let mut others = Vec::new();
    while !rest.is_empty() {
        let at = list.len() - rest.len();
        let (other, taken) = TransportId::parse(rest).ok_or(
            Sense::invalid_field_in_parameter_list(u16::try_from(at).unwrap_or(u16::MAX)),
        )?;
        others.push(other);
        rest = &rest[taken..];
    }
    Ok(others)
}

fn parse_register_and_move(
    key: u64,
    new_key: u64,
    list: &[u8],
) -> Result<reservation::Request, Sense> {
    let fields = Cdb(list);
    if fields.u32(20) as usize != list.len() - BASIC_LIST_LEN as usize {
        return Err(Sense::parameter_list_length_error());
    }
    let (destination, taken) =
        TransportId::parse(&list[24..]).ok_or(Sense::invalid_field_in_parameter_list(24))?;
    if taken != list.len() - 24 {
        return Err(Sense::invalid_field_in_parameter_list(20));
    }
    Ok(reservation::Request::RegisterAndMove {
        key,
        new_key,
        activate_through_power_loss: fields.bit(17, 0),
        unregister: fields.bit(17, 1),
        relative_port_id: fields.u16(18),
        destination,
    })
}
