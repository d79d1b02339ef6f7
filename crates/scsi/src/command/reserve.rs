//! RESERVE and RELEASE of 6 and 10 bytes (SPC-2 5.7). ESXi still uses them, and they exclude all
//! other nexuses. They belong to the nexus and end with it.

use crate::command_descriptor::Request;
use crate::logical_unit::RareState;
use crate::persistent_reservation::{CompatibleReservation, Registrant};
use crate::sense::Sense;
use crate::{Response, Start};

/// Starts RESERVE(6) and RESERVE(10).
pub(crate) fn reserve(request: &Request<'_>) -> Result<Start, Sense> {
    refuse_extents_and_third_parties(request)?;
    let mut state = request.unit.state();
    if let Some(start) = beside_persistent(request, &state) {
        return Ok(start);
    }
    let id = request.nexus.nexus().id;
    if state.reserve6.is_some_and(|holder| holder != id) {
        return Ok(Start::Respond(Response::reservation_conflict()));
    }
    state.reserve6 = Some(id);
    request.unit.publish(&state);
    Ok(Start::good())
}

/// Starts RELEASE(6) and RELEASE(10). The answer is GOOD even if the nexus holds nothing (SPC-2
/// 5.6).
pub(crate) fn release(request: &Request<'_>) -> Result<Start, Sense> {
    refuse_extents_and_third_parties(request)?;
    let mut state = request.unit.state();
    if let Some(start) = beside_persistent(request, &state) {
        return Ok(start);
    }
    if state.reserve6 == Some(request.nexus.nexus().id) {
        state.reserve6 = None;
        request.unit.publish(&state);
    }
    Ok(Start::good())
}

/// Returns the answer if persistent reservations decide (SPC-4 5.13.3, CRH = 1).
fn beside_persistent(request: &Request<'_>, state: &RareState) -> Option<Start> {
    let registrant = Registrant::of(request.nexus.nexus());
    match state.reservations.compatible_reservation(&registrant) {
        CompatibleReservation::Proceed => None,
        CompatibleReservation::NoEffect => Some(Start::good()),
        CompatibleReservation::Conflict => Some(Start::Respond(Response::reservation_conflict())),
    }
}

/// Refuses extents and third parties, which are obsolete and not offered: 3RDPTY (bit 4) and EXTENT
/// (bit 0) of byte 1.
fn refuse_extents_and_third_parties(request: &Request<'_>) -> Result<(), Sense> {
    request.cdb.refuse_bit(1, 4)?;
    request.cdb.refuse_bit(1, 0)
}
