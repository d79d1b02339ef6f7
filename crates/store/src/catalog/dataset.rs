//! One dataset as the catalogue keeps it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::properties::Properties;
use crate::format::{DatasetId, Epoch};

/// A folder, a volume or a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dataset {
    /// Its number.
    pub id: DatasetId,
    /// The folder that it lies in; the volume of a snapshot; the root folder's is itself.
    pub parent: DatasetId,
    /// The last part of its name; a snapshot's part behind `@`; empty for the root.
    pub name: String,
    /// When it was made, in seconds since 1970.
    pub created_s: u64,
    /// Stays with it when it is sent elsewhere, so that streams find what they build on.
    pub guid: u64,
    /// What was set here.
    #[serde(default, skip_serializing_if = "Properties::is_empty")]
    pub properties: Properties,
    /// What came with a stream; what was set here goes before it.
    #[serde(default, skip_serializing_if = "Properties::is_empty")]
    pub received: Properties,
    /// What it is.
    pub kind: Kind,
}

/// What a dataset is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Contains folders and volumes; holds properties for them.
    Folder,
    /// Blocks that are read and written.
    Volume(Volume),
    /// A volume as it was.
    Snapshot(Snapshot),
}

impl Kind {
    /// The kind as one word.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Folder => "folder",
            Self::Volume(_) => "volume",
            Self::Snapshot(_) => "snapshot",
        }
    }

    /// Its letter in [`super::PropertyInfo::has_it`].
    pub(super) fn letter(&self) -> char {
        match self {
            Self::Folder => 'f',
            Self::Volume(_) => 'v',
            Self::Snapshot(_) => 's',
        }
    }
}

/// What only volumes have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Volume {
    /// Bytes; a multiple of `block_size`.
    pub size: u64,
    /// Bytes; a power of two.
    pub block_size: u32,
    /// The snapshot that shares blocks with it: its own newest one, or, where a clone has none, the
    /// one that it was made of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<DatasetId>,
    /// What is being received into it: it is nobody's until that is complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receiving: Option<Receiving>,
}

/// A snapshot that comes with a stream, and how much of it is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Receiving {
    /// A number for this try: who tries again has another, and changes of the one before count no more.
    pub attempt: u64,
    /// The snapshot's guid.
    pub snapshot: u64,
    /// The guid of the one that it is told relative to: the volume's newest, or of a new clone its origin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    /// The snapshot's whole name where it comes from, for people.
    pub source: String,
    /// Blocks below this one are there.
    pub position: u64,
    /// Whether the volume was made for it, and goes with it where it is given up; otherwise it becomes
    /// again what its newest snapshot is.
    pub is_new: bool,
    /// Whether it goes on another time where it is interrupted.
    pub is_resumable: bool,
    /// Whether properties come with it.
    pub with_properties: bool,
    /// Of how many folders above the volume, where it comes from, what they pass on is among these.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub folders: u32,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// What only snapshots have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    /// The volume's size when it was taken, in bytes.
    pub size: u64,
    /// The volume's, in bytes.
    pub block_size: u32,
    /// Blocks of its volume that were born up to this epoch, and not dropped before, belong to it.
    #[serde(with = "epoch_number")]
    pub epoch: Epoch,
    /// The next older snapshot that shares blocks with it: of the same volume, or, for the oldest one
    /// of a clone, the one that the clone was made of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<DatasetId>,
    /// Who keeps it from being destroyed, and since when, in seconds since 1970.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub holds: BTreeMap<String, u64>,
}

impl Dataset {
    /// The volume's part.
    pub fn as_volume(&self) -> Option<&Volume> {
        match &self.kind {
            Kind::Volume(volume) => Some(volume),
            _ => None,
        }
    }

    /// The snapshot's part.
    pub fn as_snapshot(&self) -> Option<&Snapshot> {
        match &self.kind {
            Kind::Snapshot(snapshot) => Some(snapshot),
            _ => None,
        }
    }

    /// Whether it is a folder.
    pub fn is_folder(&self) -> bool {
        matches!(self.kind, Kind::Folder)
    }

    /// The snapshot that shares blocks with it and is older: what its list of dead blocks refers to.
    pub fn previous(&self) -> Option<DatasetId> {
        match &self.kind {
            Kind::Folder => None,
            Kind::Volume(volume) => volume.previous,
            Kind::Snapshot(snapshot) => snapshot.previous,
        }
    }

    /// Size and volblocksize in bytes, of what has blocks.
    pub fn geometry(&self) -> Option<(u64, u32)> {
        match &self.kind {
            Kind::Folder => None,
            Kind::Volume(volume) => Some((volume.size, volume.block_size)),
            Kind::Snapshot(snapshot) => Some((snapshot.size, snapshot.block_size)),
        }
    }
}

/// An epoch on disks: its number.
pub(super) mod epoch_number {
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::format::Epoch;

    pub(in crate::catalog) fn serialize<S: Serializer>(
        epoch: &Epoch,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.serialize_u64(epoch.0)
    }

    pub(in crate::catalog) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Epoch, D::Error> {
        u64::deserialize(from).map(Epoch)
    }
}
