//! Numbers of volumes, which never change, while the volumes' names may.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Identity of a volume or snapshot, which never changes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VolumeId {
    /// Number of the pool, as 16 hexadecimal digits.
    pub pool: String,
    /// Number of the dataset in its pool. A number is never used twice.
    pub dataset: u32,
}

impl VolumeId {
    /// Returns the identity of dataset `dataset` in pool `pool`.
    pub fn new(pool: u64, dataset: u32) -> Self {
        Self {
            pool: format!("{pool:016x}"),
            dataset,
        }
    }
}

/// A record of the volume on which a logical unit lies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PlacedUnit {
    /// Designator of the unit.
    pub naa: String,
    /// Name that the volume had when the record was made.
    pub volume: String,
    /// Identity of the volume.
    pub id: VolumeId,
}

/// Access to the volumes of open pools.
pub trait Volumes {
    /// Returns the identity of each named volume or snapshot. An entry is `None` if the volume does
    /// not exist, or its pool is not open.
    fn ids(&self, names: &[String]) -> Vec<Option<VolumeId>>;

    /// Returns the name of each volume or snapshot. An entry is `None` if the volume does not
    /// exist, or its pool is not open.
    fn names(&self, ids: &[VolumeId]) -> Vec<Option<String>>;
}
