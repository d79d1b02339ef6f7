//! Fencing: keeps other hosts from writing to a device that they reach as well. The means is a SCSI
//! persistent reservation, for a device at the end of a wire.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

pub use scsi::application_client::reserving::{End, Goal, ReservationKey};

/// A host's claim on devices: its key, and whether the claim still holds.
#[derive(Clone)]
pub struct Fence {
    /// Key that the host registers on all of the devices.
    pub key: ReservationKey,
    /// Function that reports whether the host still owns the data on the devices, as far as it
    /// knows by other proof.
    pub is_owner: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl fmt::Debug for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Fence").field(&self.key).finish()
    }
}

/// Order about the reservation of a device.
#[derive(Clone, Debug)]
pub struct FenceOrder {
    /// Claim for which the order is given.
    pub fence: Fence,
    /// Goal of the order: [`Goal::Register`], [`Goal::Take`] or [`Goal::Release`].
    pub goal: Goal,
}

/// Channel for the end of the order. If the device is closed first, nothing arrives.
pub type Fencing = Receiver<End>;

/// State of a device's fencing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FenceState {
    /// Any host that reaches the device may write.
    Open,
    /// No other host can write.
    Held,
    /// The device does not support reservations.
    Unsupported,
    /// A different host took the reservation.
    Lost,
}
