//! Views of datasets of pools, and results of changes to them.

pub mod change;
pub mod name;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Result of a change of datasets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Changed {
    /// Notices for the user, with the step to take for each.
    pub notices: Vec<String>,
    /// Datasets that a destruction or a rollback would destroy. Only a dry run lists them.
    #[serde(default)]
    pub destroyed: Vec<Doomed>,
    /// Bytes that this would free, as a lower bound.
    #[serde(default)]
    pub freed: u64,
    /// Whether nothing had to be changed, because the dataset to be made exists already.
    #[serde(default)]
    pub unchanged: bool,
}

/// A dataset that a destruction or a rollback would destroy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Doomed {
    /// Full name, with the pool's name.
    pub name: String,
    /// Kind of dataset: `folder`, `volume` or `snapshot`.
    pub kind: String,
    /// Logical units that serve the dataset. While there are any, nothing of it is destroyed.
    pub units: Vec<String>,
}

/// A folder, volume or snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DatasetView {
    /// Full name, with the pool's name.
    pub name: String,
    /// Kind of dataset: `folder`, `volume` or `snapshot`.
    pub kind: String,
    /// Time of creation, in seconds since 1970.
    pub created_s: u64,
    /// Size in bytes that clients see.
    pub size: Option<u64>,
    /// Block size (volblocksize) in bytes.
    pub block_size: Option<u32>,
    /// Bytes used by the dataset, its snapshots and all datasets below it, plus its reservation.
    /// For a snapshot, the bytes that only it has. Parity is not counted.
    #[serde(default)]
    pub used: u64,
    /// Bytes of the dataset's blocks, without parity. Folders have none.
    pub referenced: Option<u64>,
    /// Bytes that a volume's data may still take. For a folder, the size of the largest fully
    /// reserved volume that it has room for. Snapshots have none.
    pub available: Option<u64>,
    /// Snapshot from which the volume was cloned.
    pub origin: Option<String>,
    /// Properties in force for the dataset.
    pub properties: Vec<PropertyView>,
    /// Holds that keep a snapshot from being destroyed.
    #[serde(default)]
    pub holds: Vec<HoldView>,
}

/// A hold, which keeps a snapshot from being destroyed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HoldView {
    /// Tag of the hold, which names its holder.
    pub tag: String,
    /// Time since which the hold exists, in seconds since 1970.
    pub created_s: u64,
}

/// A property of a dataset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PropertyView {
    /// Name of the property.
    pub name: String,
    /// Exact value of the property.
    pub value: String,
    /// Value of the property in a form for people.
    pub rounded: String,
    /// Source of the value: `local`, `default`, `inherited from …`, `received` or `-`.
    pub source: String,
}

/// Datasets and properties that are requested.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Kinds of datasets, or `None` for all.
    pub kinds: Option<Vec<String>>,
    /// Names of properties, or `None` for all.
    pub properties: Option<Vec<String>>,
    /// Dataset that is listed with all that lies below it, or `None` for all of the pool.
    pub below: Option<String>,
    /// Levels that are listed below that dataset, or `None` for all.
    pub depth: Option<u32>,
}

impl Selection {
    /// Reports whether the request includes datasets of the given kind.
    pub fn has_kind(&self, kind: &str) -> bool {
        let kinds = self.kinds.as_ref();
        kinds.is_none_or(|kinds| kinds.iter().any(|wanted| wanted == kind))
    }

    /// Reports whether the request includes the given property.
    pub fn has_property(&self, name: &str) -> bool {
        let names = self.properties.as_ref();
        names.is_none_or(|names| names.iter().any(|wanted| wanted == name))
    }

    /// Reports whether the request may include user properties.
    pub fn has_user_property(&self) -> bool {
        let names = self.properties.as_ref();
        names.is_none_or(|names| names.iter().any(|wanted| wanted.contains(':')))
    }
}
