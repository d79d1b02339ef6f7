//! Operations on datasets, decided to the last number, as they lie in the log. Their effect on the
//! catalogue and on blocks follows from the operation alone, so that replay does the same again.

use serde::{Deserialize, Serialize};

use super::dataset::{Receiving, epoch_number};
use super::error::CatalogError;
use super::history::HistoryEntry;
use super::properties::Properties;
use crate::format::{DatasetId, Epoch};

/// Length of the longest operation on a disk, in bytes.
pub const MAX_OPERATION: usize = 8 << 20;

/// An operation on whole datasets. It is done completely or not at all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Operation {
    /// Folders are made, those above first.
    CreateFolder {
        /// New folders.
        folders: Vec<NewFolder>,
    },
    /// An empty volume is made.
    CreateVolume {
        /// Missing folders above the volume.
        folders: Vec<NewFolder>,
        /// New volume.
        volume: NewVolume,
    },
    /// Datasets and their blocks are destroyed.
    Destroy {
        /// All datasets that go. No dataset that stays lies in one of them or was cloned of one.
        ids: Vec<DatasetId>,
    },
    /// Snapshots of several volumes are taken at one moment.
    Snapshot(NewSnapshots),
    /// A volume is made that begins as a snapshot is.
    Clone {
        /// Missing folders above the clone.
        folders: Vec<NewFolder>,
        /// New clone.
        clone: NewClone,
    },
    /// A volume goes back to an earlier state.
    Rollback {
        /// The volume.
        volume: DatasetId,
        /// Snapshot of the volume.
        snapshot: DatasetId,
        /// All newer snapshots, and their clones with the clones' snapshots. They are destroyed.
        destroy: Vec<DatasetId>,
        /// Refreservation after the rollback, if it has to change with volsize; 0 is none.
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
        /// Missing folders above the new places.
        folders: Vec<NewFolder>,
        /// New names of the datasets.
        renames: Vec<NewName>,
    },
    /// Properties are set.
    SetProperty {
        /// Dataset of the properties.
        id: DatasetId,
        /// New values of the properties. The others stay.
        properties: Properties,
        /// Whether the properties came with a stream. If so, properties that were set here override
        /// them.
        #[serde(default, skip_serializing_if = "is_false")]
        is_received: bool,
    },
    /// A property is inherited from above, or has its default.
    Inherit {
        /// Datasets of the property.
        ids: Vec<DatasetId>,
        /// Name of the property.
        property: String,
        /// Whether a received value holds again, if there is one. Otherwise it goes too.
        #[serde(default, skip_serializing_if = "is_false")]
        keep_received: bool,
    },
    /// A volume grows or shrinks.
    Resize {
        /// Volume of the new size.
        volume: DatasetId,
        /// New size in bytes.
        size: u64,
        /// Refreservation after the change, if it has to change too; 0 is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refreservation: Option<u64>,
    },
    /// Snapshots are kept from being destroyed.
    Hold {
        /// Snapshots that are held.
        snapshots: Vec<DatasetId>,
        /// Tag of the hold.
        tag: String,
        /// Start of the hold, in seconds since 1970.
        time_s: u64,
    },
    /// A hold ends.
    Release {
        /// Snapshots of the hold.
        snapshots: Vec<DatasetId>,
        /// Tag of the hold.
        tag: String,
    },
    /// A snapshot is going to be received into an existing volume. For a new volume, see
    /// [`NewVolume`] and [`NewClone`].
    BeginReceive {
        /// Volume that receives the snapshot.
        volume: DatasetId,
        /// Size from now on, in bytes.
        size: u64,
        /// Snapshot that is received.
        receiving: Receiving,
        /// Refreservation after the beginning, if it has to grow with volsize; 0 is none. It does
        /// not shrink with volsize.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refreservation: Option<u64>,
    },
    /// Progress of a receive is noted: all blocks that were received until now.
    NoteReceived {
        /// Volume that receives the snapshot.
        volume: DatasetId,
        /// Number below which all blocks have arrived.
        position: u64,
    },
    /// The whole snapshot has arrived: it is taken, and users get the volume back.
    EndReceive {
        /// The snapshot: exactly one.
        taken: NewSnapshots,
        /// Properties that came with the stream for the volume. They replace those of earlier
        /// streams. `None`: no properties were sent, and the earlier ones stay.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        received: Option<Properties>,
        /// Refreservation after the receive, if the volume kept more than it can take now.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refreservation: Option<u64>,
    },
    /// An action is added to the history.
    Note(HistoryEntry),
}

/// A new dataset other than a snapshot: number, place, name, time, guid and properties.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewDataset {
    /// Number of the dataset.
    pub id: DatasetId,
    /// Folder that the dataset lies in.
    pub parent: DatasetId,
    /// Last part of the name.
    pub name: String,
    /// Current time, in seconds since 1970.
    pub created_s: u64,
    /// Guid: see [`super::Dataset::guid`].
    pub guid: u64,
    /// Properties that are set on the dataset.
    #[serde(default, skip_serializing_if = "Properties::is_empty")]
    pub properties: Properties,
    /// Properties that come with a stream.
    #[serde(default, skip_serializing_if = "Properties::is_empty")]
    pub received: Properties,
}

/// A folder that is made.
pub type NewFolder = NewDataset;

/// A volume that is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewVolume {
    /// Facts that all datasets have.
    pub dataset: NewDataset,
    /// Size in bytes, a multiple of `block_size`.
    pub size: u64,
    /// Size of a block in bytes, a power of two.
    pub block_size: u32,
    /// Snapshot that the volume is made to receive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receiving: Option<Receiving>,
}

/// A clone that is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewClone {
    /// Facts that all datasets have.
    pub dataset: NewDataset,
    /// Snapshot of which the clone is made.
    pub origin: DatasetId,
    /// Size in bytes, if it is not the origin's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Snapshot that the clone is made to receive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receiving: Option<Receiving>,
}

/// Snapshots that are taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewSnapshots {
    /// Epoch of the snapshots. Blocks born up to this epoch belong to them. Blocks that are written
    /// later are born later.
    #[serde(with = "epoch_number")]
    pub epoch: Epoch,
    /// Current time, in seconds since 1970.
    pub created_s: u64,
    /// The snapshots. A volume has at most one of them.
    pub snapshots: Vec<NewSnapshot>,
    /// User properties that are set on each snapshot.
    #[serde(default, skip_serializing_if = "Properties::is_empty")]
    pub properties: Properties,
}

/// A snapshot that is taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewSnapshot {
    /// Number of the snapshot.
    pub id: DatasetId,
    /// Volume of the snapshot.
    pub volume: DatasetId,
    /// Name of the snapshot: the part behind `@`.
    pub name: String,
    /// Guid: see [`super::Dataset::guid`].
    pub guid: u64,
}

/// A new name of a dataset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewName {
    /// Dataset that gets the name.
    pub id: DatasetId,
    /// Folder that the dataset lies in from now on. A snapshot stays with its volume.
    pub parent: DatasetId,
    /// Last part of the name from now on.
    pub name: String,
}

impl Operation {
    /// Encodes the operation as it lies in the log: JSON.
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("it is made of numbers, texts and lists of these")
    }

    /// Decodes an operation from the log.
    ///
    /// # Errors
    /// [`super::ErrorKind::Mismatch`] if the bytes are no operation of this version.
    pub fn decode(bytes: &[u8]) -> Result<Self, CatalogError> {
        serde_json::from_slice(bytes).map_err(|error| {
            CatalogError::mismatch(format!("an operation in the log cannot be read: {error}"))
        })
    }
}

fn is_false(flag: &bool) -> bool {
    !flag
}
