//! The view of a pool, in zpool's words.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::damaged::{DamagedView, LostView};
use super::outlook::FillOutlook;
use super::properties::{FeatureView, PoolPropertyView};
use super::scan::ScanView;
use super::vdev::VdevView;

/// Text about data errors if no loss is known, in zpool's words.
pub const NO_ERRORS: &str = "No known data errors";

/// A pool with its state, space and vdevs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PoolView {
    /// Name of the pool.
    pub name: String,
    /// Number of the pool.
    pub guid: String,
    /// State of the pool: ONLINE, DEGRADED, SUSPENDED or UNAVAIL.
    pub state: String,
    /// Whether the pool was imported read-only.
    #[serde(default)]
    pub is_read_only: bool,
    /// Event and its meaning. `None` means that all is well.
    pub status: Option<String>,
    /// Step to take, if there is one.
    pub action: Option<String>,
    /// Protection against being open on two hosts, in words. `None` means that there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multihost: Option<String>,
    /// State of scrubs and resilvers, in lines of text.
    pub scan: String,
    /// State of the scrub or resilver, for programs.
    pub scan_status: Option<ScanView>,
    /// Bytes of all vdevs, parity included.
    pub size: u64,
    /// Bytes in use, parity included.
    pub allocated: u64,
    /// Bytes that were freed, and become available after two checkpoints. If nothing is written,
    /// the pool makes these checkpoints on its own.
    pub freeing: u64,
    /// Bytes that are free.
    pub free: u64,
    /// Free bytes that data may take, parity included. The rest is reserved for volumes and for the
    /// writes of checkpoints.
    #[serde(default)]
    pub available: u64,
    /// Whether long writes to a volume find no room.
    #[serde(default)]
    pub is_full: bool,
    /// Bytes that all volumes have as their size: the space that was promised to hosts.
    #[serde(default)]
    pub promised: u64,
    /// Number of blocks that reads found in memory since the pool was opened.
    #[serde(default)]
    pub memory_hits: u64,
    /// Number of blocks that reads did not find in memory since the pool was opened.
    #[serde(default)]
    pub memory_misses: u64,
    /// Percentage that is not free, including freed bytes that are not available yet: zpool's CAP.
    /// `None` means that the pool is not open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<u64>,
    /// Percentage of the free space that lies in small pieces: zpool's FRAG. `None` means that the
    /// pool is not open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fragmentation: Option<u8>,
    /// Time until the pool is full. `None` means that less than two days of its history are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outlook: Option<FillOutlook>,
    /// Microseconds since the pool was opened. `None` means that it is not open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_for_us: Option<u64>,
    /// Properties of the pool that can be set. The list is empty if the pool is not open.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub properties: Vec<PoolPropertyView>,
    /// Format features of the pool. The list is empty if the pool is not open.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<FeatureView>,
    /// Bytes that `autotrim` has trimmed on devices since the pool was opened.
    #[serde(default)]
    pub auto_trimmed: u64,
    /// Top-level vdevs of the pool.
    pub vdevs: Vec<VdevView>,
    /// Log vdevs of the pool.
    #[serde(default)]
    pub logs: Vec<VdevView>,
    /// Cache vdevs of the pool.
    #[serde(default)]
    pub caches: Vec<VdevView>,
    /// Spares of the pool, with state AVAIL or INUSE.
    #[serde(default)]
    pub spares: Vec<VdevView>,
    /// Data that was lost, in words.
    pub errors: String,
    /// Ranges in which reads and scrubs found no right copy of a block, since the pool was opened
    /// or cleared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<DamagedView>,
    /// Sum of the damaged ranges for each volume and snapshot.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<LostView>,
    /// Number of blocks leading to others that were written once, since the pool was opened. They
    /// are on devices without redundancy, which had no room for second copies.
    #[serde(default, skip_serializing_if = "is_none")]
    pub written_once: u64,
}

fn is_none(count: &u64) -> bool {
    *count == 0
}

/// Returns the percentage of `size` that is not free.
pub fn capacity(size: u64, free: u64) -> u64 {
    size.saturating_sub(free).saturating_mul(100) / size.max(1)
}
