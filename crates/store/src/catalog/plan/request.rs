//! What administrators ask for. Names have no pool part; values are texts in zfs's words.

use std::collections::BTreeMap;

use crate::format::Epoch;
use crate::stream::Begin;

/// Properties as texts.
pub type Texts = BTreeMap<String, String>;

/// What the catalogue cannot know by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The epoch in which blocks are born now. Once a snapshot was taken in it, the next one begins.
    pub epoch: Epoch,
    /// Seconds since 1970.
    pub time_s: u64,
    /// Random, for guids.
    pub entropy: u64,
}

/// `create NAME`: a folder.
#[derive(Clone, Debug, Default)]
pub struct CreateFolder {
    /// Its name.
    pub name: String,
    /// Whether missing folders above are made too (`-p`).
    pub with_parents: bool,
    /// `-o name=value`.
    pub properties: Texts,
    /// What came with a stream.
    pub received: Texts,
}

/// `create -V SIZE NAME`: a volume.
#[derive(Clone, Debug, Default)]
pub struct CreateVolume {
    /// Its name.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// Bytes; the caller knows what suits the pool.
    pub block_size: u32,
    /// Whether all of its size is reserved, so that no write lacks space.
    pub is_thick: bool,
    /// Whether missing folders above are made too (`-p`).
    pub with_parents: bool,
    /// `-o name=value`.
    pub properties: Texts,
    /// What came with a stream.
    pub received: Texts,
}

/// `destroy NAME…`.
#[derive(Clone, Debug, Default)]
pub struct Destroy {
    /// Datasets; of one volume several snapshots, as `vol@a,b` and `vol@first%last`.
    pub names: Vec<String>,
    /// All that lies below too; of a snapshot those of its name below its folder or volume (`-r`).
    pub is_recursive: bool,
    /// Clones too, wherever they are (`-R`, includes `-r`).
    pub with_clones: bool,
}

/// `snapshot NAME@SNAPSHOT…`: all of the same moment.
#[derive(Clone, Debug, Default)]
pub struct TakeSnapshots {
    /// `vol@name`, or `folder@name` with `is_recursive`.
    pub names: Vec<String>,
    /// Of all volumes below too (`-r`).
    pub is_recursive: bool,
    /// Properties of users.
    pub properties: Texts,
    /// The guid that came with a stream; with one name only.
    pub guid: Option<u64>,
}

/// `clone SNAPSHOT NAME`.
#[derive(Clone, Debug, Default)]
pub struct CloneSnapshot {
    /// The snapshot.
    pub snapshot: String,
    /// The new volume.
    pub name: String,
    /// Whether missing folders above are made too (`-p`).
    pub with_parents: bool,
    /// `-o name=value`.
    pub properties: Texts,
}

/// `rollback SNAPSHOT`.
#[derive(Clone, Debug, Default)]
pub struct Rollback {
    /// The snapshot; its volume becomes again what it was.
    pub snapshot: String,
    /// Newer snapshots are destroyed (`-r`).
    pub destroy_newer: bool,
    /// Clones of newer snapshots too (`-R`, includes `-r`).
    pub with_clones: bool,
}

/// `rename FROM TO`.
#[derive(Clone, Debug, Default)]
pub struct Rename {
    /// Its name.
    pub from: String,
    /// Its new name, in full; of a snapshot `vol@name` or `@name`.
    pub to: String,
    /// Whether missing folders above are made too (`-p`).
    pub with_parents: bool,
    /// Of a snapshot: all of its name below too (`-r`).
    pub is_recursive: bool,
}

/// `set name=value… NAME`.
#[derive(Clone, Debug, Default)]
pub struct SetProperties {
    /// Of which dataset.
    pub name: String,
    /// What is set.
    pub properties: Texts,
    /// Whether they came with a stream.
    pub is_received: bool,
}

/// `inherit PROPERTY NAME`.
#[derive(Clone, Debug, Default)]
pub struct Inherit {
    /// Of which dataset.
    pub name: String,
    /// Which one.
    pub property: String,
    /// Of all that lies below too (`-r`).
    pub is_recursive: bool,
    /// A received value holds again (`-S`).
    pub to_received: bool,
}

/// `set volsize=SIZE NAME`.
#[derive(Clone, Debug, Default)]
pub struct Resize {
    /// Which volume.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// What lies beyond a smaller size is lost; this says that it may be.
    pub may_shrink: bool,
}

/// `receive NAME`: what a part of a stream begins with.
#[derive(Clone, Debug)]
pub struct ReceiveInto {
    /// The volume.
    pub name: String,
    /// What comes.
    pub begin: Begin,
    /// A number of this try; random.
    pub attempt: u64,
    /// Whether it goes on another time where it is interrupted (`-s`).
    pub is_resumable: bool,
    /// Whether missing folders above are made too.
    pub with_parents: bool,
}

/// `hold TAG SNAPSHOT…` and `release TAG SNAPSHOT…`.
#[derive(Clone, Debug, Default)]
pub struct Holds {
    /// Whose.
    pub tag: String,
    /// `vol@name`, or `folder@name` with `is_recursive`.
    pub snapshots: Vec<String>,
    /// Of all snapshots of its name below too (`-r`).
    pub is_recursive: bool,
}
