//! Keeping other hosts from writing to a device that they reach as well: a SCSI persistent
//! reservation, where the device lies at the end of a wire.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

pub use scsi::application_client::reserving::{End, Goal, ReservationKey};

/// A host's claim on devices: its key, and whether it still holds.
#[derive(Clone)]
pub struct Fence {
    /// The key that the host registers on all of them.
    pub key: ReservationKey,
    /// Whether it still has what lies on them, as far as it knows by other proof.
    pub is_owner: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl fmt::Debug for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Fence").field(&self.key).finish()
    }
}

/// An order about the reservation of a device.
#[derive(Clone, Debug)]
pub struct FenceOrder {
    /// For whom.
    pub fence: Fence,
    /// What: [`Goal::Register`], [`Goal::Take`] or [`Goal::Release`].
    pub goal: Goal,
}

/// How the order ends. Nothing comes where the device was let go before that.
pub type Fencing = Receiver<End>;

/// How a device stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FenceState {
    /// Any host that reaches it may write.
    Open,
    /// Nobody else writes.
    Held,
    /// It knows no such thing.
    Unsupported,
    /// Another host took it.
    Lost,
}
