//! One dataset as the catalogue keeps it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::properties::Properties;
use crate::format::{DatasetId, Epoch};

/// A folder, a volume or a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dataset {
    /// Number of the dataset.
    pub id: DatasetId,
    /// Parent: the folder that the dataset lies in, or the volume of a snapshot. The root folder is
    /// its own parent.
    pub parent: DatasetId,
    /// Last part of the name. In a snapshot, the part behind `@`. Empty in the root.
    pub name: String,
    /// Time at which the dataset was made, in seconds since 1970.
    pub created_s: u64,
    /// Guid of the dataset. It stays when the dataset is sent elsewhere, so that streams find the
    /// snapshots that they build on.
    pub guid: u64,
    /// Properties that were set here.
    #[serde(default, skip_serializing_if = "Properties::is_empty")]
    pub properties: Properties,
    /// Properties that came with a stream. Properties that were set here override them.
    #[serde(default, skip_serializing_if = "Properties::is_empty")]
    pub received: Properties,
    /// Kind of the dataset.
    pub kind: DatasetKind,
}

/// Kind of a dataset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DatasetKind {
    /// A folder: it contains folders and volumes, and holds properties for them.
    Folder,
    /// A volume: blocks that are read and written.
    Volume(Volume),
    /// A snapshot: a volume as it was.
    Snapshot(Snapshot),
}

impl DatasetKind {
    /// Returns the kind as one word.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Folder => "folder",
            Self::Volume(_) => "volume",
            Self::Snapshot(_) => "snapshot",
        }
    }

    /// Returns the kind's letter in [`super::PropertyInfo::has_it`].
    pub(super) fn letter(&self) -> char {
        match self {
            Self::Folder => 'f',
            Self::Volume(_) => 'v',
            Self::Snapshot(_) => 's',
        }
    }
}

/// Facts that only volumes have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Volume {
    /// Size in bytes, a multiple of `block_size`.
    pub size: u64,
    /// Size of a block in bytes, a power of two.
    pub block_size: u32,
    /// Snapshot that shares blocks with the volume: its own newest one. For a clone without own
    /// snapshots, the snapshot of which it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<DatasetId>,
    /// Snapshot that is being received into the volume. Nobody may use the volume until the
    /// snapshot is complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receiving: Option<Receiving>,
}

/// A snapshot that comes with a stream, and how much of it has arrived.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Receiving {
    /// Number of this attempt. A new attempt has another number, and changes of the attempt before
    /// no longer count.
    pub attempt: u64,
    /// Guid of the snapshot.
    pub snapshot: u64,
    /// Guid of the snapshot relative to which it is sent: the volume's newest, or the origin of a
    /// new clone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    /// Whole name of the snapshot where it comes from, for people.
    pub source: String,
    /// Number below which all blocks have arrived.
    pub position: u64,
    /// Whether the volume was made for the snapshot. If so, the volume goes if the receive is given
    /// up. Otherwise the volume goes back to its newest snapshot.
    pub is_new: bool,
    /// Whether the receive can be resumed later if it is interrupted.
    pub is_resumable: bool,
    /// Whether properties come with the stream.
    pub with_properties: bool,
    /// Number of folders above the volume, at the source, whose inheritable properties are among
    /// these.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub folders: u32,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Facts that only snapshots have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    /// Size of the volume when the snapshot was taken, in bytes.
    pub size: u64,
    /// Size of the volume's blocks, in bytes.
    pub block_size: u32,
    /// Epoch of the snapshot. Blocks of its volume that were born up to this epoch, and not dropped
    /// before, belong to it.
    #[serde(with = "epoch_number")]
    pub epoch: Epoch,
    /// Next older snapshot that shares blocks with this one, of the volume of this one. For the
    /// oldest snapshot of a clone, the snapshot of which the clone was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<DatasetId>,
    /// Holds that keep the snapshot from being destroyed: each tag, and since when, in seconds
    /// since 1970.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub holds: BTreeMap<String, u64>,
}

impl Dataset {
    /// Returns the facts of a volume.
    pub fn as_volume(&self) -> Option<&Volume> {
        match &self.kind {
            DatasetKind::Volume(volume) => Some(volume),
            _ => None,
        }
    }

    /// Returns the facts of a snapshot.
    pub fn as_snapshot(&self) -> Option<&Snapshot> {
        match &self.kind {
            DatasetKind::Snapshot(snapshot) => Some(snapshot),
            _ => None,
        }
    }

    /// Reports whether the dataset is a folder.
    pub fn is_folder(&self) -> bool {
        matches!(self.kind, DatasetKind::Folder)
    }

    /// Returns the older snapshot that shares blocks with the dataset. The dead list refers to that
    /// snapshot.
    pub fn previous(&self) -> Option<DatasetId> {
        match &self.kind {
            DatasetKind::Folder => None,
            DatasetKind::Volume(volume) => volume.previous,
            DatasetKind::Snapshot(snapshot) => snapshot.previous,
        }
    }

    /// Returns size and volblocksize in bytes, of a dataset that has blocks.
    pub fn geometry(&self) -> Option<(u64, u32)> {
        match &self.kind {
            DatasetKind::Folder => None,
            DatasetKind::Volume(volume) => Some((volume.size, volume.block_size)),
            DatasetKind::Snapshot(snapshot) => Some((snapshot.size, snapshot.block_size)),
        }
    }
}

/// Encoding of an epoch on disks: its number.
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
