//! A pool as it is shown, in zpool's words.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::damaged::{DamagedView, LostView};
use super::properties::{FeatureView, PoolPropertyView};
use super::scan::ScanView;
use super::vdev::VdevView;

/// Text about data errors if no loss is known, in zpool's words.
pub const NO_ERRORS: &str = "No known data errors";

/// A pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PoolView {
    /// Name of the pool.
    pub name: String,
    /// Its number.
    pub guid: String,
    /// ONLINE, DEGRADED, SUSPENDED or UNAVAIL.
    pub state: String,
    /// It was imported to be read only.
    #[serde(default)]
    pub is_read_only: bool,
    /// The event and its meaning; `None` where all is well.
    pub status: Option<String>,
    /// The step to take.
    pub action: Option<String>,
    /// How it is protected against being open on two hosts, in words; `None` where it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multihost: Option<String>,
    /// What scrubs and resilvers do or did, in lines.
    pub scan: String,
    /// The same for programs.
    pub scan_status: Option<ScanView>,
    /// Bytes of all vdevs, parity included.
    pub size: u64,
    /// Bytes of these in use, parity included.
    pub allocated: u64,
    /// Bytes that were freed and will be free after two checkpoints. Where nothing is written,
    /// these follow by themselves.
    pub freeing: u64,
    /// Bytes that are free.
    pub free: u64,
    /// Bytes of these that data may take, parity included; the rest is kept for what checkpoints
    /// write.
    #[serde(default)]
    pub available: u64,
    /// Per cent that is not free, with what was freed and is not free yet: zpool's CAP; `None`
    /// where the pool is not open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<u64>,
    /// How much of what is free lies in small pieces, per cent: zpool's FRAG; `None` where the pool
    /// is not open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fragmentation: Option<u8>,
    /// Microseconds since it was opened; `None` where it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_for_us: Option<u64>,
    /// Its properties that can be set; none where it is not open.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub properties: Vec<PoolPropertyView>,
    /// Format features; none where it is not open.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<FeatureView>,
    /// Bytes that devices were told of by `autotrim` since it was opened.
    #[serde(default)]
    pub auto_trimmed: u64,
    /// Its top-level vdevs.
    pub vdevs: Vec<VdevView>,
    /// Its log vdevs.
    #[serde(default)]
    pub logs: Vec<VdevView>,
    /// Its cache vdevs.
    #[serde(default)]
    pub caches: Vec<VdevView>,
    /// Its spares: AVAIL or INUSE.
    #[serde(default)]
    pub spares: Vec<VdevView>,
    /// The data that was lost, in words.
    pub errors: String,
    /// Where reads and scrubs found no right copy of a block since the pool was opened or cleared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<DamagedView>,
    /// The sum of these for each volume and snapshot.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<LostView>,
    /// Blocks that lead to others and were written once since the pool was opened, on devices
    /// without redundancy: there was no room for their second copies.
    #[serde(default, skip_serializing_if = "is_none")]
    pub written_once: u64,
}

fn is_none(count: &u64) -> bool {
    *count == 0
}

/// Returns the percentage that is not free.
pub fn capacity(size: u64, free: u64) -> u64 {
    size.saturating_sub(free).saturating_mul(100) / size.max(1)
}
