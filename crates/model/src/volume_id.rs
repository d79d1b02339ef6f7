//! Volumes by numbers that never change, while their names may.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A volume or snapshot by what never changes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VolumeId {
    /// The pool's number, 16 hexadecimal digits.
    pub pool: String,
    /// Its number in the pool, which is never used twice.
    pub dataset: u32,
}

impl VolumeId {
    /// The dataset of this number in the pool of this number.
    pub fn new(pool: u64, dataset: u32) -> Self {
        Self {
            pool: format!("{pool:016x}"),
            dataset,
        }
    }
}

/// A note of the place of a unit on a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PlacedUnit {
    /// The unit's designator.
    pub naa: String,
    /// The volume's name when it was noted.
    pub volume: String,
    /// The volume.
    pub id: VolumeId,
}

/// The volumes of open pools.
pub trait Volumes {
    /// The volumes or snapshots of these names; `None` of one that is not there, or whose pool is
    /// not open.
    fn ids(&self, names: &[String]) -> Vec<Option<VolumeId>>;

    /// The names of these; `None` of one that is not there, or whose pool is not open.
    fn names(&self, ids: &[VolumeId]) -> Vec<Option<String>>;
}
