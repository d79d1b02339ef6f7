//! Actions that a device asks its host to carry out. The policy has no other effect on the world.

use scsi::application_client::sense::Reaction;

use super::io::{IoId, Outcome};
use super::path::PathId;

/// Action for the host. The host carries actions out in the order of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send this I/O down this path, and report its end with
    /// [`Device::ended`](super::Device::ended).
    Send {
        /// The I/O as submitted.
        io: IoId,
        /// Path to send the I/O down.
        path: PathId,
    },
    /// The I/O is over. Its id may be used again at once.
    Finish {
        /// The I/O as submitted.
        io: IoId,
        /// Result of the I/O.
        outcome: Outcome,
    },
    /// Ask through this path for access states and for the presence of the unit. The access states
    /// need REPORT TARGET PORT GROUPS, if TPGS is not zero; the presence needs TEST UNIT READY.
    /// Report the states with [`Device::alua_group`](super::Device::alua_group) or
    /// [`Device::alua_state`](super::Device::alua_state). Report a ready unit with
    /// [`Device::unit_present`](super::Device::unit_present).
    Probe {
        /// Path to read through.
        path: PathId,
    },
    /// Make sure that no earlier session of this path can still change a block. To do so, reinstate
    /// the session, or hear from the target that the session has ended. Then report
    /// [`Device::path_fenced`](super::Device::path_fenced).
    Fence {
        /// Lost path.
        path: PathId,
    },
    /// No path is active, and the group of this path is in standby. Ask for the group (SET TARGET
    /// PORT GROUPS to active/optimized), then probe.
    ActivateGroup {
        /// A path of the group.
        path: PathId,
    },
    /// The unit reported a change: read the changed data again.
    Refresh {
        /// Path to read through.
        path: PathId,
        /// Data that changed.
        what: Refresh,
    },
}

/// Data to read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refresh {
    /// The capacity: READ CAPACITY.
    Capacity,
    /// The list of LUNs: REPORT LUNS.
    Luns,
    /// The identity: INQUIRY and the vital product data.
    Identity,
    /// The path's part in the reservation that the host holds ([`Hold::Held`](super::Hold::Held)).
    Reservation,
}

impl Refresh {
    /// Returns the data that a reaction to sense data asks to read again.
    pub(super) fn after(reaction: Reaction) -> Option<Self> {
        match reaction {
            Reaction::CapacityChanged => Some(Self::Capacity),
            Reaction::LunsChanged => Some(Self::Luns),
            Reaction::IdentityChanged => Some(Self::Identity),
            _ => None,
        }
    }
}

/// List of actions that the host keeps and passes in again, so that it is allocated only once.
pub type Actions = Vec<Action>;
