//! REPORT TARGET PORT GROUPS (SPC-4 6.36) and SET TARGET PORT GROUPS (SPC-4 6.45).

use std::sync::Arc;

use crate::alua::{AccessState, TpgsMode, UnitAccess};
use crate::command_descriptor::Request;
use crate::itl_nexus::ItlNexus;
use crate::sense::{Asc, Sense, SenseKey};
use crate::{Input, Response, Start, Step, Task};

/// Length of the reserved bytes before the descriptors of SET TARGET PORT GROUPS.
const SET_HEADER_LEN: u32 = 4;
const SET_DESCRIPTOR_LEN: usize = 4;
/// Longest list: one descriptor for each of more groups than any device has.
const MAX_SET_LEN: u32 = SET_HEADER_LEN + 4 * 1024;

/// Starts REPORT TARGET PORT GROUPS.
pub(crate) fn report(request: &Request<'_>) -> Result<Start, Sense> {
    let cdb = request.cdb;
    let extended = match cdb.u8(1) >> 5 {
        0b000 => false,
        0b001 => true,
        _ => return Err(Sense::invalid_bit_in_cdb(1, 7)),
    };
    let access = request.unit.access();
    if access.groups().mode() == TpgsMode::None {
        return Err(Sense::invalid_bit_in_cdb(1, 4));
    }
    let initiator = &request.nexus.nexus().initiator.name;
    Ok(Start::data(
        parameter_data(access, initiator, extended),
        cdb.u32(6) as usize,
    ))
}

/// Builds the report of the states for one initiator.
fn parameter_data(access: &UnitAccess, initiator: &str, extended: bool) -> Vec<u8> {
    let layout = access.groups().layout();
    let mut data = vec![0; 4];
    if extended {
        data.extend_from_slice(&[0x10, layout.implicit_transition_s, 0, 0]);
    }
    for group in &layout.groups {
        let (state, reason) = access.state_and_reason(initiator, group.id);
        data.push(u8::from(group.preferred) << 7 | state as u8);
        data.push(group.supported.bits());
        data.extend_from_slice(&group.id.to_be_bytes());
        // A layout has at most 255 ports in a group.
        data.extend_from_slice(&[0, reason as u8, 0, group.ports.len() as u8]);
        for port in &group.ports {
            data.extend_from_slice(&[0, 0]);
            data.extend_from_slice(&port.to_be_bytes());
        }
    }
    let len = (data.len() - 4) as u32;
    data[..4].copy_from_slice(&len.to_be_bytes());
    data
}

/// Starts SET TARGET PORT GROUPS.
pub(crate) fn set(request: &Request<'_>) -> Result<Start, Sense> {
    if !request.unit.access().groups().mode().is_explicit() {
        return Err(Sense::illegal(Asc::INVALID_COMMAND_OPERATION_CODE));
    }
    let list_len = request.cdb.u32(6);
    if list_len == 0 {
        return Ok(Start::good());
    }
    if !(SET_HEADER_LEN..=MAX_SET_LEN).contains(&list_len) || !list_len.is_multiple_of(4) {
        return Err(Sense::parameter_list_length_error());
    }
    Ok(Start::Task(Box::new(SetTargetPortGroups {
        nexus: Arc::clone(request.nexus),
        list_len,
        unsaved: None,
    })))
}

/// SET TARGET PORT GROUPS after its parameter list has come. It changes the states of this unit for
/// the initiator, saves them, and tells its other nexuses.
#[derive(Debug)]
struct SetTargetPortGroups {
    nexus: Arc<ItlNexus>,
    list_len: u32,
    /// Saved form of the states before and after the change, while the change is being saved.
    unsaved: Option<(Vec<u8>, Vec<u8>)>,
}

impl Task for SetTargetPortGroups {
    fn data_out_len(&self) -> u32 {
        self.list_len
    }

    /// States that hold must be stored and reported.
    fn outlives_its_command(&self) -> bool {
        self.unsaved.is_some()
    }

    fn step(&mut self, input: Input<'_>) -> Step {
        let unit = Arc::clone(self.nexus.unit());
        match input {
            Input::Begin { data_out } => match self.change(data_out) {
                Ok(Some(image)) => Step::Save { image },
                Ok(None) => Step::Done(Response::good()),
                Err(response) => Step::Done(response),
            },
            Input::Failed(_) => {
                if let Some((before, after)) = self.unsaved.take()
                    && unit.access().to_bytes() == after
                {
                    // The bytes were written a moment ago.
                    let restored = unit.access().restore(&before);
                    debug_assert!(restored.is_ok());
                    unit.publish(&unit.state());
                }
                Step::Done(unit.check_condition(&refused()))
            }
            _ => {
                unit.access_states_chosen(self.nexus.nexus());
                Step::Done(Response::good())
            }
        }
    }
}

impl SetTargetPortGroups {
    /// Changes the states. Returns the image to save if any state changed.
    fn change(&mut self, list: &[u8]) -> Result<Option<Vec<u8>>, Response> {
        let unit = self.nexus.unit();
        let no = |sense| unit.check_condition(&sense);
        let states = self.parse(list).map_err(no)?;
        let mut state = unit.state_to_save()?;
        let before = unit.access().to_bytes();
        let initiator = &self.nexus.nexus().initiator.name;
        let chosen = unit.access().choose(initiator, &states);
        if !chosen.map_err(|_too_many| no(refused()))? {
            return Ok(None);
        }
        self.unsaved = Some((before, unit.access().to_bytes()));
        Ok(Some(unit.image(&mut state)))
    }

    /// Checks every descriptor before any takes effect.
    fn parse(&self, list: &[u8]) -> Result<Vec<(u16, AccessState)>, Sense> {
        if (list.len() as u64) < u64::from(self.list_len) {
            return Err(Sense::parameter_list_length_error());
        }
        let layout = self.nexus.unit().access().groups().layout();
        let mut states = Vec::new();
        let descriptors = list[SET_HEADER_LEN as usize..].chunks_exact(SET_DESCRIPTOR_LEN);
        for (index, descriptor) in descriptors.enumerate() {
            // At most 1 024 descriptors of four bytes.
            let at = (SET_HEADER_LEN as usize + index * SET_DESCRIPTOR_LEN) as u16;
            let invalid = Sense::invalid_field_in_parameter_list;
            let id = u16::from_be_bytes([descriptor[2], descriptor[3]]);
            let group = layout.group(id).ok_or(invalid(at + 2))?;
            let state = AccessState::from_code(descriptor[0] & 0x0F)
                // A target reports Transitioning, and no initiator sets it (SPC-4 6.45).
                .filter(|&state| state != AccessState::Transitioning)
                .filter(|&state| group.supported.contains(state))
                .ok_or(invalid(at))?;
            if !group.state.is_active() {
                // The administrator keeps this group closed, so an initiator cannot open it.
                return Err(refused());
            }
            states.push((id, state));
        }
        Ok(states)
    }
}

fn refused() -> Sense {
    Sense::new(
        SenseKey::HardwareError,
        Asc::SET_TARGET_PORT_GROUPS_COMMAND_FAILED,
    )
}
