//! Datasets of pools as they are shown, and what became of a change of them.

pub mod change;
pub mod name;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What became of a change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Changed {
    /// What whoever asked for it should know, and what to do about it.
    pub notices: Vec<String>,
    /// What a destruction would take with it; told only where nothing is changed.
    #[serde(default)]
    pub destroyed: Vec<Doomed>,
    /// Bytes that would become free with it, at least.
    #[serde(default)]
    pub freed: u64,
    /// Nothing had to be changed: what was to be made is there.
    #[serde(default)]
    pub unchanged: bool,
}

/// A dataset that would go.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Doomed {
    /// With the pool's name.
    pub name: String,
    /// `folder`, `volume` or `snapshot`.
    pub kind: String,
    /// Logical units that serve it: while they do, nothing of it is destroyed.
    pub units: Vec<String>,
}

/// A folder, volume or snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DatasetView {
    /// With the pool's name.
    pub name: String,
    /// `folder`, `volume` or `snapshot`.
    pub kind: String,
    /// When it was made, in seconds since 1970.
    pub created_s: u64,
    /// Bytes that clients see.
    pub size: Option<u64>,
    /// volblocksize in bytes.
    pub block_size: Option<u32>,
    /// Bytes that it, its snapshots and all below it take, and what is kept for it; of a snapshot
    /// what only it has. Parity is not counted.
    #[serde(default)]
    pub used: u64,
    /// Bytes of its blocks, parity not counted; folders have none.
    pub referenced: Option<u64>,
    /// Bytes that data of a volume may still take; of a folder, the largest volume that could still
    /// be made in it with all of it reserved. Not told of snapshots.
    pub available: Option<u64>,
    /// The snapshot that it was cloned of.
    pub origin: Option<String>,
    /// What holds for it.
    pub properties: Vec<PropertyView>,
    /// Who keeps a snapshot from being destroyed.
    #[serde(default)]
    pub holds: Vec<HoldView>,
}

/// Somebody keeps a snapshot from being destroyed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HoldView {
    /// Who.
    pub tag: String,
    /// Since when, in seconds since 1970.
    pub created_s: u64,
}

/// A property.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PropertyView {
    /// Name of the pool.
    pub name: String,
    /// Its exact value.
    pub value: String,
    /// Its value for people.
    pub rounded: String,
    /// `local`, `default`, `inherited from …`, `received` or `-`.
    pub source: String,
}

/// Datasets and properties that are requested.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Kinds of datasets, or `None` for all.
    pub kinds: Option<Vec<String>>,
    /// Names of properties, or `None` for all.
    pub properties: Option<Vec<String>>,
}

impl Selection {
    /// Reports whether datasets of a kind are asked for.
    pub fn has_kind(&self, kind: &str) -> bool {
        let kinds = self.kinds.as_ref();
        kinds.is_none_or(|kinds| kinds.iter().any(|wanted| wanted == kind))
    }

    /// Reports whether a property is asked for.
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
