//! Requests of administrators. Names have no pool part. Values are texts in zfs's words.

use std::collections::BTreeMap;

use crate::format::Epoch;
use crate::stream::Begin;

/// Properties as texts.
pub type Texts = BTreeMap<String, String>;

/// Facts that the catalogue cannot know by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Epoch in which blocks are born now. Once a snapshot was taken in it, the next one begins.
    pub epoch: Epoch,
    /// Current time, in seconds since 1970.
    pub time_s: u64,
    /// Random number, for guids.
    pub entropy: u64,
}

/// Request `create NAME`: a folder.
#[derive(Clone, Debug, Default)]
pub struct CreateFolder {
    /// Name of the folder.
    pub name: String,
    /// Whether missing folders above are made too (`-p`).
    pub with_parents: bool,
    /// Properties, from `-o name=value`.
    pub properties: Texts,
    /// Properties that came with a stream.
    pub received: Texts,
}

/// Request `create -V SIZE NAME`: a volume.
#[derive(Clone, Debug, Default)]
pub struct CreateVolume {
    /// Name of the volume.
    pub name: String,
    /// Size in bytes.
    pub size: u64,
    /// Size of a block in bytes. The caller knows which size suits the pool.
    pub block_size: u32,
    /// Whether all of its size is reserved, so that no write lacks space.
    pub is_thick: bool,
    /// Whether missing folders above are made too (`-p`).
    pub with_parents: bool,
    /// Properties, from `-o name=value`.
    pub properties: Texts,
    /// Properties that came with a stream.
    pub received: Texts,
}

/// Request `destroy NAME…`.
#[derive(Clone, Debug, Default)]
pub struct Destroy {
    /// Names of datasets. Several snapshots of one volume are given as `vol@a,b` and
    /// `vol@first%last`.
    pub names: Vec<String>,
    /// Whether all datasets below go too. For a snapshot: all of its name below its folder or
    /// volume (`-r`).
    pub is_recursive: bool,
    /// Whether clones go too, wherever they are (`-R`, includes `-r`).
    pub with_clones: bool,
}

/// Request `snapshot NAME@SNAPSHOT…`: all snapshots are of one moment.
#[derive(Clone, Debug, Default)]
pub struct TakeSnapshots {
    /// Names, each `vol@name`, or `folder@name` with `is_recursive`.
    pub names: Vec<String>,
    /// Whether all volumes below get a snapshot too (`-r`).
    pub is_recursive: bool,
    /// User properties.
    pub properties: Texts,
    /// Guid that came with a stream; with one name only.
    pub guid: Option<u64>,
}

/// Request `clone SNAPSHOT NAME`.
#[derive(Clone, Debug, Default)]
pub struct CloneSnapshot {
    /// Name of the snapshot.
    pub snapshot: String,
    /// Name of the new volume.
    pub name: String,
    /// Whether missing folders above are made too (`-p`).
    pub with_parents: bool,
    /// Properties, from `-o name=value`.
    pub properties: Texts,
}

/// Request `rollback SNAPSHOT`.
#[derive(Clone, Debug, Default)]
pub struct Rollback {
    /// Name of the snapshot to which its volume goes back.
    pub snapshot: String,
    /// Whether newer snapshots are destroyed (`-r`).
    pub destroy_newer: bool,
    /// Whether clones of newer snapshots go too (`-R`, includes `-r`).
    pub with_clones: bool,
}

/// Request `rename FROM TO`.
#[derive(Clone, Debug, Default)]
pub struct Rename {
    /// Name of the dataset.
    pub from: String,
    /// New name, in full. For a snapshot, `vol@name` or `@name`.
    pub to: String,
    /// Whether missing folders above are made too (`-p`).
    pub with_parents: bool,
    /// Whether, for a snapshot, all of its name below are renamed too (`-r`).
    pub is_recursive: bool,
}

/// Request `set name=value… NAME`.
#[derive(Clone, Debug, Default)]
pub struct SetProperties {
    /// Name of the dataset.
    pub name: String,
    /// Properties that are set.
    pub properties: Texts,
    /// Whether the properties came with a stream.
    pub is_received: bool,
}

/// Request `inherit PROPERTY NAME`.
#[derive(Clone, Debug, Default)]
pub struct Inherit {
    /// Name of the dataset.
    pub name: String,
    /// Name of the property.
    pub property: String,
    /// Whether all datasets below inherit it too (`-r`).
    pub is_recursive: bool,
    /// Whether a received value holds again (`-S`).
    pub to_received: bool,
}

/// Request `set volsize=SIZE NAME`.
#[derive(Clone, Debug, Default)]
pub struct Resize {
    /// Name of the volume.
    pub name: String,
    /// New size in bytes.
    pub size: u64,
    /// Whether the volume may shrink: blocks beyond a smaller size are lost.
    pub may_shrink: bool,
}

/// Request `receive NAME`, with the beginning of a stream's part.
#[derive(Clone, Debug)]
pub struct ReceiveInto {
    /// Name of the volume.
    pub name: String,
    /// Beginning of the part.
    pub begin: Begin,
    /// Random number of this attempt.
    pub attempt: u64,
    /// Whether the receive can be resumed later if it is interrupted (`-s`).
    pub is_resumable: bool,
    /// Whether missing folders above are made too.
    pub with_parents: bool,
}

/// Requests `hold TAG SNAPSHOT…` and `release TAG SNAPSHOT…`.
#[derive(Clone, Debug, Default)]
pub struct Holds {
    /// Tag of the hold.
    pub tag: String,
    /// Names, each `vol@name`, or `folder@name` with `is_recursive`.
    pub snapshots: Vec<String>,
    /// Whether all snapshots of the name below are meant too (`-r`).
    pub is_recursive: bool,
}
