//! The view of a vdev of a pool: its state, its errors, and its traffic.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::io::IoView;
use super::trim::TrimView;

/// A vdev: top-level, or a leaf in another vdev.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VdevView {
    /// Name of the vdev: `mirror-0`, or a leaf's path.
    pub name: String,
    /// Number of the device, if the vdev is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guid: Option<String>,
    /// Serial number of the disk as of the last time it was opened, or its world wide name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// State of the vdev.
    pub state: String,
    /// Number of reads that failed.
    pub read: u64,
    /// Number of writes and flushes that failed.
    pub write: u64,
    /// Number of reads that returned wrong bytes.
    pub checksum: u64,
    /// Further remark on the vdev.
    pub note: Option<String>,
    /// Whether the device lacks data that other devices have.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_incomplete: bool,
    /// Bytes in use on a top-level vdev, log or cache. Freed bytes that are not available yet are
    /// included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocated: Option<u64>,
    /// Bytes that are free on a top-level vdev, log or cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free: Option<u64>,
    /// Reads and writes since the pool was opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io: Option<IoView>,
    /// Use of a log vdev since the pool was opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<LogView>,
    /// Use of a cache vdev since the pool was opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheView>,
    /// Whether the device holds blocks of the pool, so that trims apply to it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_trimmed: bool,
    /// Last trim of the device that a user requested, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trim: Option<TrimView>,
    /// Vdevs that this vdev is made of.
    #[schema(no_recursion)]
    pub children: Vec<VdevView>,
}

impl VdevView {
    /// Returns the vdev and all vdevs below it.
    pub fn all(&self) -> Vec<&Self> {
        let below = self.children.iter().flat_map(Self::all);
        std::iter::once(self).chain(below).collect()
    }
}

/// Use of a log vdev.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogView {
    /// Whether durable writes are now answered from the log. After the pool is opened, this begins
    /// with the first durable write.
    pub is_in_use: bool,
    /// Number of groups of writes that were put on the log.
    pub records: u64,
    /// Bytes of the groups.
    pub bytes: u64,
    /// Bytes that are not yet surely on another vdev.
    pub held: u64,
    /// Number of times that the log failed.
    pub failures: u64,
}

/// Use of a cache vdev.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CacheView {
    /// Bytes available for blocks.
    pub size: u64,
    /// Bytes that the cache holds.
    pub used: u64,
    /// Number of reads that the cache answered.
    pub hits: u64,
    /// Number of reads found neither in memory nor in the cache.
    pub misses: u64,
    /// Number of reads for which the cache returned other data, so that the pool answered them.
    pub rejected: u64,
    /// Bytes that were written to the cache.
    pub written: u64,
}
