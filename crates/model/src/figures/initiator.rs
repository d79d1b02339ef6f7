//! Figures of this machine as an initiator: the commands that it sends to devices of other
//! machines, by device and by path.

use multipath::{Counters, IoSums};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Figures of one device behind the sessions of this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeviceFigures {
    /// Name of the device: `naa.…`.
    pub name: String,
    /// Number of the object that counts. A device that was found anew has another one.
    pub key: u64,
    /// Most commands that the device may have (DQLEN).
    pub queue_depth: u32,
    /// Commands at the device now (ACTV).
    pub active: u32,
    /// Commands that wait now, for any reason (QUED).
    pub queued: u32,
    /// Sums of all paths, those that are gone included.
    pub sums: Counters,
    /// Paths of the device.
    pub paths: Vec<PathFigures>,
}

/// Figures of one path of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PathFigures {
    /// Runtime name: `vmhba64:C0:T0:L0`.
    pub runtime_name: String,
    /// iSCSI name of the target.
    pub target: String,
    /// Portal of the path.
    pub portal: String,
    /// Most commands that the path may have now.
    pub queue_depth: u32,
    /// Commands on the path now.
    pub active: u32,
    /// Reads that succeeded on the path.
    pub reads: IoSums,
    /// Writes that succeeded on the path.
    pub writes: IoSums,
    /// Commands of other kinds that succeeded on the path.
    pub others: IoSums,
}
