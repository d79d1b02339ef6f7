//! A vdev of a pool as it is shown: its state, its errors, its traffic.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::io::IoView;
use super::trim::TrimView;

/// A vdev: top-level, or a leaf in one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VdevView {
    /// `mirror-0`, or a leaf's path.
    pub name: String,
    /// Of a device: its number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guid: Option<String>,
    /// How well it is.
    pub state: String,
    /// Reads that failed.
    pub read: u64,
    /// Writes and flushes that failed.
    pub write: u64,
    /// Reads that returned wrong bytes.
    pub checksum: u64,
    /// What else is to be said.
    pub note: Option<String>,
    /// Of a device: something is missing on it that others have.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_incomplete: bool,
    /// Bytes in use, of a top-level vdev, log or cache; with what was freed and is not free yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocated: Option<u64>,
    /// Bytes that are free, of the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free: Option<u64>,
    /// What was read and written since the pool was opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io: Option<IoView>,
    /// Of a log vdev: what it was used for since the pool was opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<LogView>,
    /// Of a cache vdev: the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheView>,
    /// Of a device for blocks: these are trimmed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_trimmed: bool,
    /// Its last trim that somebody asked for; absent where there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trim: Option<TrimView>,
    /// What it is made of.
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

/// What a log vdev did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogView {
    /// Whether durable writes are answered from there now; after an opening that begins with the
    /// first of them.
    pub is_in_use: bool,
    /// Groups of writes that were put there.
    pub records: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Bytes that are on no other vdev for sure yet.
    pub held: u64,
    /// Times that it failed.
    pub failures: u64,
}

/// What a cache vdev did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CacheView {
    /// Bytes for blocks.
    pub size: u64,
    /// Bytes that it holds.
    pub used: u64,
    /// Reads that were answered from there.
    pub hits: u64,
    /// Reads that were not in memory nor there.
    pub misses: u64,
    /// Reads that brought something else, and were answered by the pool.
    pub rejected: u64,
    /// Bytes that were written to it.
    pub written: u64,
}
