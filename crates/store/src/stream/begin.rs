//! What a part of a stream says of its snapshot before any block comes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::format::dataset::{MAX_BLOCK_SIZE, MAX_VOLUME_SIZE, MIN_BLOCK_SIZE, component_problem};

/// The longest beginning of a part, in bytes of JSON.
pub const MAX_BEGIN: usize = 1 << 20;
/// The longest name of what a stream comes from, in bytes.
pub(crate) const MAX_SOURCE: usize = 1024;

/// One snapshot that a stream makes: all of it, or what changed since another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Begin {
    /// Guid of the pool that it comes from.
    pub pool: u64,
    /// Guid of its volume there.
    pub volume: u64,
    /// Guid of the snapshot: it has the same where it is received.
    pub snapshot: u64,
    /// Guid of the snapshot that blocks are told relative to; without it all blocks come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    /// The whole name, where it comes from, of a snapshot of another volume that this one is a clone of. With `from` it is
    /// that one, and a new volume becomes a clone of it; without, the clone comes whole, and this is for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// The snapshot's whole name where it comes from, for people: `tank/vms/disk1@monday`.
    pub source: String,
    /// The volume's name below what was sent, `vms/disk1`; empty where that is the volume itself.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// What stands behind `@`.
    pub name: String,
    /// When the snapshot was taken, in seconds since 1970.
    pub created_s: u64,
    /// Bytes.
    pub size: u64,
    /// Bytes.
    pub block_size: u32,
    /// Blocks below this one were received before.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub start: u64,
    /// Properties of the volume, all that may go with it; `None` where they are not sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub properties: Option<BTreeMap<String, String>>,
}

impl Begin {
    /// How many blocks the volume has.
    pub fn blocks(&self) -> u64 {
        self.size / u64::from(self.block_size.max(1))
    }

    /// Of a clone that comes whole: the snapshot that it is a clone of where it comes from.
    pub fn left_out(&self) -> Option<&str> {
        self.origin.as_deref().filter(|_| self.from.is_none())
    }

    /// Of how many folders above the volume what they pass on is among its properties: those that were sent.
    pub fn folders(&self) -> u32 {
        let parts = self.path.split('/').filter(|part| !part.is_empty());
        parts.count() as u32
    }

    /// What cannot be.
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
            return Some("it begins behind its own end".to_owned());
        }
        if self.from == Some(self.snapshot) {
            return Some("a snapshot is told relative to itself".to_owned());
        }
        let told = [Some(self.source.as_str()), self.origin.as_deref()];
        for name in told.into_iter().flatten() {
            if name.len() > MAX_SOURCE {
                return Some("the name of what it comes from is too long".to_owned());
            }
            if name.chars().any(char::is_control) {
                return Some("the name of what it comes from has control characters".to_owned());
            }
        }
        let parts = self.path.split('/').filter(|_| !self.path.is_empty());
        let origin = self.origin.iter().flat_map(|name| name.split(['/', '@']));
        let mut names = parts.chain([self.name.as_str()]).chain(origin);
        names.find_map(component_problem)
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}
