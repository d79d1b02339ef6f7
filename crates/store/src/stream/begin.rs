//! The beginning of a part of a stream: its facts about the snapshot, before any block comes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::format::dataset::{MAX_BLOCK_SIZE, MAX_VOLUME_SIZE, MIN_BLOCK_SIZE, component_fault};

/// Length of the longest beginning of a part, in bytes of JSON.
pub const MAX_BEGIN: usize = 1 << 20;
/// Length of the longest name of a stream's source, in bytes.
pub(crate) const MAX_SOURCE: usize = 1024;

/// One snapshot that a stream makes: all of it, or the changes since another snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Begin {
    /// Guid of the pool that the snapshot comes from.
    pub pool: u64,
    /// Guid of the snapshot's volume in that pool.
    pub volume: u64,
    /// Guid of the snapshot. The received snapshot keeps it.
    pub snapshot: u64,
    /// Guid of the snapshot relative to which blocks are sent. If there is none, all blocks come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    /// Whole name, at the source, of the other volume's snapshot of which this one is a clone. With
    /// `from`, both name one snapshot, and a new volume becomes a clone of it. Without `from`, the
    /// clone comes whole, and the name is for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// Whole name of the snapshot at the source, for people: `tank/vms/disk1@monday`.
    pub source: String,
    /// Name of the volume below the dataset that was sent, `vms/disk1`. It is empty if the volume
    /// itself was sent.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// Name of the snapshot: the text behind `@`.
    pub name: String,
    /// Time at which the snapshot was taken, in seconds since 1970.
    pub created_s: u64,
    /// Size of the volume, in bytes.
    pub size: u64,
    /// Size of a block, in bytes.
    pub block_size: u32,
    /// Number below which all blocks were received before.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub start: u64,
    /// All properties of the volume that may go with it; `None` if they are not sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub properties: Option<BTreeMap<String, String>>,
}

impl Begin {
    /// Returns the number of blocks of the volume.
    pub fn blocks(&self) -> u64 {
        self.size / u64::from(self.block_size.max(1))
    }

    /// Returns the snapshot, at the source, of which a clone that comes whole is a clone.
    pub fn left_out(&self) -> Option<&str> {
        self.origin.as_deref().filter(|_| self.from.is_none())
    }

    /// Returns the number of folders above the volume whose inheritable properties are among the
    /// volume's properties. They are the folders that were sent.
    pub fn folders(&self) -> u32 {
        let parts = self.path.split('/').filter(|part| !part.is_empty());
        parts.count() as u32
    }

    /// Returns a fault of the beginning: values that cannot be.
    pub(super) fn fault(&self) -> Option<String> {
        let sizes = MIN_BLOCK_SIZE..=MAX_BLOCK_SIZE;
        if !sizes.contains(&self.block_size) || !self.block_size.is_power_of_two() {
            return Some(format!("volblocksize cannot be {}", self.block_size));
        }
        let is_whole = self.size.is_multiple_of(self.block_size.into());
        if self.size == 0 || self.size > MAX_VOLUME_SIZE || !is_whole {
            return Some(format!("volsize cannot be {}", self.size));
        }
        if self.start > self.blocks() {
            return Some("the stream begins beyond the end of the volume".to_owned());
        }
        if self.from == Some(self.snapshot) {
            return Some("the snapshot is described as changes to itself".to_owned());
        }
        let told = [Some(self.source.as_str()), self.origin.as_deref()];
        for name in told.into_iter().flatten() {
            if name.len() > MAX_SOURCE {
                return Some("the name of the stream's source is too long".to_owned());
            }
            if name.chars().any(char::is_control) {
                return Some("the name of the stream's source has control characters".to_owned());
            }
        }
        let parts = self.path.split('/').filter(|_| !self.path.is_empty());
        let origin = self.origin.iter().flat_map(|name| name.split(['/', '@']));
        let mut names = parts.chain([self.name.as_str()]).chain(origin);
        names.find_map(component_fault)
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}
