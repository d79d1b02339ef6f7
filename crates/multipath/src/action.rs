//! What a device asks its host to do: the only way the policy touches the world.

use scsi::application_client::sense::Reaction;

use super::io::{IoId, Outcome};
use super::path::PathId;

/// One thing to do. The host carries actions out in the order in which they stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send this I/O down this path, and report its end with
    /// [`Device::ended`](super::Device::ended).
    Send {
        /// The I/O as submitted.
        io: IoId,
        /// Where to.
        path: PathId,
    },
    /// The I/O is over. Its id may be used again at once.
    Finish {
        /// The I/O as submitted.
        io: IoId,
        /// How it ended.
        outcome: Outcome,
    },
    /// Ask through this path for access states (REPORT TARGET PORT GROUPS, where TPGS is not zero)
    /// and whether the unit is there (TEST UNIT READY); report them with
    /// [`Device::alua_group`](super::Device::alua_group) or
    /// [`Device::alua_state`](super::Device::alua_state), and a unit that is ready with
    /// [`Device::unit_present`](super::Device::unit_present).
    Probe {
        /// Through this path.
        path: PathId,
    },
    /// See to it that nothing of the path's sessions until now can still change a block (reinstate
    /// the session, or hear that the target ended it), then report
    /// [`Device::path_fenced`](super::Device::path_fenced).
    Fence {
        /// The lost path.
        path: PathId,
    },
    /// No path is active and this one's group is in standby: ask for it (SET TARGET PORT GROUPS to
    /// active/optimized), then probe.
    ActivateGroup {
        /// A path of the group.
        path: PathId,
    },
    /// The unit said that something about it changed: read it again.
    Refresh {
        /// Through this path.
        path: PathId,
        /// What changed.
        what: Refresh,
    },
}

/// What is to be read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refresh {
    /// READ CAPACITY.
    Capacity,
    /// REPORT LUNS.
    Luns,
    /// INQUIRY and the vital product data.
    Identity,
    /// Whether the path still takes part in the reservation that the host holds
    /// ([`Hold::Held`](super::Hold::Held)).
    Reservation,
}

impl Refresh {
    /// What a reaction to sense data asks to read again.
    pub(super) fn after(reaction: Reaction) -> Option<Self> {
        match reaction {
            Reaction::CapacityChanged => Some(Self::Capacity),
            Reaction::LunsChanged => Some(Self::Luns),
            Reaction::IdentityChanged => Some(Self::Identity),
            _ => None,
        }
    }
}

/// A list of actions that the host keeps and hands in again, so that it is allocated once.
pub type Actions = Vec<Action>;
