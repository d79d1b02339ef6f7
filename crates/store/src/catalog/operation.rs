//! What can be done to datasets, decided to the last number, as it lies in the log. What is done to
//! the catalogue and to blocks follows from the operation alone, so that replay does the same again.

use serde::{Deserialize, Serialize};

use super::dataset::{Receiving, epoch_number};
use super::error::CatalogError;
use super::history::HistoryEntry;
use super::properties::Properties;
use crate::format::{DatasetId, Epoch};

/// The longest operation on a disk, in bytes.
pub const MAX_OPERATION: usize = 8 << 20;

/// Something that happens to datasets as a whole: all of it or nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Operation {
    /// Folders are made, those above first.
    CreateFolder {
        /// Which.
        folders: Vec<NewFolder>,
    },
    /// An empty volume is made.
    CreateVolume {
        /// Folders above it that are missing.
        folders: Vec<NewFolder>,
        /// The volume.
        volume: NewVolume,
    },
    /// Datasets and their blocks go.
    Destroy {
        /// All of them; nothing that stays lies in or was cloned of one of them.
        ids: Vec<DatasetId>,
    },
    /// Snapshots of several volumes, of the same moment.
    Snapshot(NewSnapshots),
    /// A volume that begins as a snapshot is.
    Clone {
        /// Folders above it that are missing.
        folders: Vec<NewFolder>,
        /// The volume.
        clone: NewClone,
    },
    /// A volume becomes again what it was.
    Rollback {
        /// The volume.
        volume: DatasetId,
        /// One of its snapshots.
        snapshot: DatasetId,
        /// All newer ones, and clones of these with their snapshots: they go.
        destroy: Vec<DatasetId>,
        /// The refreservation after it, where that has to change with volsize; 0 is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refreservation: Option<u64>,
    },
    /// A clone takes over the snapshots that it depends on.
    Promote {
        /// The clone.
        clone: DatasetId,
    },
    /// Datasets get other names, or move to other folders.
    Rename {
        /// Folders above them that are missing.
        folders: Vec<NewFolder>,
        /// Which.
        renames: Vec<NewName>,
    },
    /// Properties are set.
    SetProperty {
        /// Of which dataset.
        id: DatasetId,
        /// Their new values; the others stay.
        properties: Properties,
        /// Whether they came with a stream, and give way to what was set here.
        #[serde(default, skip_serializing_if = "is_false")]
        is_received: bool,
    },
    /// A property is what it is above, or by default.
    Inherit {
        /// Of which datasets.
        ids: Vec<DatasetId>,
        /// Its name.
        property: String,
        /// Whether a received value holds again, if there is one; otherwise it goes too.
        #[serde(default, skip_serializing_if = "is_false")]
        keep_received: bool,
    },
    /// A volume grows or shrinks.
    Resize {
        /// Which.
        volume: DatasetId,
        /// Its new size in bytes.
        size: u64,
        /// The refreservation after it, where that has to change too; 0 is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refreservation: Option<u64>,
    },
    /// Snapshots are kept from being destroyed.
    Hold {
        /// Which.
        snapshots: Vec<DatasetId>,
        /// By whom.
        tag: String,
        /// Since when, in seconds since 1970.
        time_s: u64,
    },
    /// A hold ends.
    Release {
        /// Of which snapshots.
        snapshots: Vec<DatasetId>,
        /// Whose.
        tag: String,
    },
    /// A snapshot is going to be received into a volume that there is. Into a new one: see [`NewVolume`] and [`NewClone`].
    BeginReceive {
        /// Which.
        volume: DatasetId,
        /// Bytes from now on.
        size: u64,
        /// What is received.
        receiving: Receiving,
        /// The refreservation after it, where that has to grow with volsize; 0 is none. It does not shrink with it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refreservation: Option<u64>,
    },
    /// More of it is there: all blocks that were received until now.
    NoteReceived {
        /// Which volume.
        volume: DatasetId,
        /// Blocks below this one are there.
        position: u64,
    },
    /// All of it is there: the snapshot is taken, and the volume is its users' again.
    EndReceive {
        /// The snapshot: exactly one.
        taken: NewSnapshots,
        /// What came with the stream for the volume, in place of what came with earlier ones; `None`: no properties
        /// were sent, and those stay.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        received: Option<Properties>,
        /// The refreservation after it, where the volume kept more than it can take now.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refreservation: Option<u64>,
    },
    /// Something was done: it comes into the history.
    Note(HistoryEntry),
}

/// What is new, and is no snapshot: number, place, name, time, guid and properties.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewDataset {
    /// Its number.
    pub id: DatasetId,
    /// The folder that it lies in.
    pub parent: DatasetId,
    /// The last part of its name.
    pub name: String,
    /// Now, in seconds since 1970.
    pub created_s: u64,
    /// See [`super::Dataset::guid`].
    pub guid: u64,
    /// What is set on it.
    #[serde(default, skip_serializing_if = "Properties::is_empty")]
    pub properties: Properties,
    /// What comes with a stream.
    #[serde(default, skip_serializing_if = "Properties::is_empty")]
    pub received: Properties,
}

/// A folder that is made.
pub type NewFolder = NewDataset;

/// A volume that is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewVolume {
    /// What all datasets have.
    pub dataset: NewDataset,
    /// Bytes; a multiple of `block_size`.
    pub size: u64,
    /// Bytes; a power of two.
    pub block_size: u32,
    /// What it is made to receive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receiving: Option<Receiving>,
}

/// A clone that is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewClone {
    /// What all datasets have.
    pub dataset: NewDataset,
    /// What it is made of.
    pub origin: DatasetId,
    /// Bytes, where these are not the origin's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// What it is made to receive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receiving: Option<Receiving>,
}

/// Snapshots that are taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewSnapshots {
    /// Blocks born up to this epoch belong to them. Blocks that are written later are born later.
    #[serde(with = "epoch_number")]
    pub epoch: Epoch,
    /// Now, in seconds since 1970.
    pub created_s: u64,
    /// Which; a volume stands at most once.
    pub snapshots: Vec<NewSnapshot>,
    /// Properties of users that are set on each.
    #[serde(default, skip_serializing_if = "Properties::is_empty")]
    pub properties: Properties,
}

/// A snapshot that is taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewSnapshot {
    /// Its number.
    pub id: DatasetId,
    /// Of which volume.
    pub volume: DatasetId,
    /// What stands behind `@`.
    pub name: String,
    /// See [`super::Dataset::guid`].
    pub guid: u64,
}

/// Another name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewName {
    /// Of which dataset.
    pub id: DatasetId,
    /// The folder that it lies in from now on; a snapshot stays with its volume.
    pub parent: DatasetId,
    /// The last part of its name from now on.
    pub name: String,
}

impl Operation {
    /// As it lies in the log: JSON.
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("it is made of numbers, texts and lists of these")
    }

    /// From the log.
    ///
    /// # Errors
    /// [`super::ErrorKind::Mismatch`] where the bytes are no operation of this version.
    pub fn decode(bytes: &[u8]) -> Result<Self, CatalogError> {
        serde_json::from_slice(bytes).map_err(|error| {
            CatalogError::mismatch(format!("an operation in the log cannot be read: {error}"))
        })
    }
}

fn is_false(flag: &bool) -> bool {
    !flag
}
