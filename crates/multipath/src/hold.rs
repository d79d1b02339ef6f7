//! A device that its host keeps for itself by a persistent reservation, and the effect on its I/O
//! when the reservation is in doubt.
//!
//! A path that no longer takes part in the reservation carries no I/O before the host has looked.
//! Commands that the target refused for this reason wait meanwhile: another path may do, or the
//! path may take part again. If another host owns the device by now, all the commands fail.

use super::action::{Action, Actions, Refresh};
use super::device::Device;
use super::path::PathId;

/// Reservation of the device by the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hold {
    /// The host holds no reservation that is known here: RESERVATION CONFLICT is final.
    #[default]
    None,
    /// The host holds a reservation, over all paths that are up.
    Held,
    /// A different host took the reservation. Nothing is sent any more, and all I/O fails with
    /// [`Failure::ReservationConflict`](super::Failure::ReservationConflict).
    Lost,
}

impl Device {
    /// Notes the state of the host's reservation.
    pub fn set_hold(&mut self, hold: Hold, now_us: u64, out: &mut Actions) {
        self.hold = hold;
        self.dispatch(now_us, out);
    }

    /// Reports whether nothing is under way on a path.
    pub fn is_path_idle(&self, id: PathId) -> bool {
        self.on_paths().all(|(_, path, _)| path != id)
    }

    /// Handles the target's report that a path may not take part any more.
    pub(super) fn doubt_hold(&self, path: PathId, out: &mut Actions) {
        let what = Refresh::Reservation;
        out.push(Action::Refresh { path, what });
    }
}
