//! A device that its host keeps for itself by a persistent reservation: what a doubt about that
//! means for its I/O.
//!
//! A path that no longer takes part carries nothing before the host has looked. Commands that the
//! target refused for it wait meanwhile: another path may do, or the path may take part again.
//! Where the device is another host's by now, all of them fail.

use super::action::{Action, Actions, Refresh};
use super::device::Device;
use super::path::PathId;

/// Whether the host holds a reservation of the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hold {
    /// It holds none that is known here: RESERVATION CONFLICT is final.
    #[default]
    None,
    /// It does, over all paths that are up.
    Held,
    /// Another host took it: nothing is sent any more, and all I/O fails with
    /// [`Failure::ReservationConflict`](super::Failure::ReservationConflict).
    Lost,
}

impl Device {
    /// Says how the host's reservation stands.
    pub fn set_hold(&mut self, hold: Hold, now_us: u64, out: &mut Actions) {
        self.hold = hold;
        self.dispatch(now_us, out);
    }

    /// Whether nothing is under way on a path.
    pub fn is_path_idle(&self, id: PathId) -> bool {
        self.on_paths().all(|(_, path, _)| path != id)
    }

    /// The target says that a path may not take part any more.
    pub(super) fn doubt_hold(&self, path: PathId, out: &mut Actions) {
        let what = Refresh::Reservation;
        out.push(Action::Refresh { path, what });
    }
}
