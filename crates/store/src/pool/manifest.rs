//! The manifest of a checkpoint: everything that its root leads to, except what lies in trees.
//!
//! JSON, in blocks of up to 128 KiB that the root points to. Pointers are written as 64 hexadecimal
//! digits (their bytes in order), so that the length of a manifest is known before the pointers
//! are.

use serde::{Deserialize, Serialize};

use super::open::{OpenError, OpenErrorKind};
use super::scan::{ScanRecord, ScrubRecord};
use super::trim::TrimRecord;
use crate::catalog::Catalog;
use crate::format::{DatasetId, Epoch, Pointer, Root};
use crate::map::Tree;
use crate::snapshot::deadlist::{self, Deadlist};

/// The longest block of a manifest, in bytes.
pub(super) const BLOCK: usize = 128 << 10;

/// The longest record of a volume or snapshot without its dead list, in bytes.
pub(super) const CONTENTS: usize = 257;
/// A part of a dead list in the record of what is being freed.
pub(super) const LISTED: usize = 2 * deadlist::RECORD;
/// The longest part of a dead list in the record of a volume or snapshot: with its nodes and
/// whole blocks, at most 2^56 of each.
pub(super) const PART: usize =
    LISTED + "[72057594037927936,72057594037927936],72057594037927936,".len();
/// The longest record of a tree that is being freed.
pub(super) const TREE: usize = 185;
/// That of a list, without its parts.
pub(super) const LIST: usize = 23;
/// The longest record of a vdev's space map without its nodes, and one of these.
pub(super) const SPACE: usize = 64;
pub(super) const SPACE_NODE: usize = 67;

/// How long something is in a manifest.
pub(super) fn json_len(of: &impl Serialize) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    let written = serde_json::to_writer(&mut count, of);
    written.expect("it is made of numbers, texts and lists of these");
    count.0
}

/// The longest manifest, in bytes.
pub(super) const MAX_MANIFEST: usize = Root::MAX_BLOCKS * BLOCK;

/// Reads a manifest as opening a pool does, and writes it again. For tests of what lies on disks.
///
/// # Errors
/// It is no manifest of this version.
pub fn normal_manifest(bytes: &[u8]) -> Result<Vec<u8>, OpenError> {
    let damaged = |context: String| OpenError::new(OpenErrorKind::Damaged, context);
    let manifest = Manifest::understand(bytes)?;
    let has_contents = manifest
        .contents
        .iter()
        .all(|record| record.tree.open().is_some() && record.open_dead().is_some());
    let has_jobs = manifest.jobs.iter().all(|job| match job {
        JobRecord::Tree { tree, .. } => tree.open().is_some(),
        JobRecord::Dead { list } | JobRecord::Chunks { list } => {
            from_hex(list).is_some_and(|bytes| Deadlist::decode(&bytes).is_some())
        }
    });
    if !has_contents || !has_jobs {
        return Err(damaged("a tree or list in the manifest is none".to_owned()));
    }
    serde_json::to_vec(&manifest).map_err(|error| damaged(error.to_string()))
}

impl Manifest {
    /// What is written there. Its blocks are known to be as they were written, so what this program
    /// does not understand is no damage, and nothing is to be given up for it.
    ///
    /// # Errors
    /// Another version of the program wrote it.
    pub(super) fn understand(bytes: &[u8]) -> Result<Self, OpenError> {
        serde_json::from_slice(bytes).map_err(|error| {
            let context = format!(
                "its manifest is whole, and this version of the program does not understand it: {error}. Nothing was \
                 changed; open it with the version that wrote it, or a newer one"
            );
            OpenError::new(OpenErrorKind::Version, context)
        })
    }
}

/// A pointer as text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Hex(pub(super) Pointer);

impl Serialize for Hex {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&to_hex(&self.0.encode()))
    }
}

impl<'de> Deserialize<'de> for Hex {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        from_hex(&text)
            .and_then(|bytes| Pointer::decode(bytes.first_chunk().filter(|_| bytes.len() == 32)?))
            .map(Self)
            .ok_or_else(|| serde::de::Error::custom("not a block pointer"))
    }
}

pub(super) fn to_hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

pub(super) fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text
        .chars()
        .map(|digit| digit.to_digit(16).map(|value| value as u8))
        .collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(
        digits
            .chunks(2)
            .map(|pair| pair[0] << 4 | pair[1])
            .collect(),
    )
}

/// What a checkpoint keeps.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Manifest {
    /// The epoch that ended with it.
    pub(super) epoch: u64,
    /// All datasets.
    pub(super) catalog: Catalog,
    /// The volumes and snapshots among them.
    pub(super) contents: Vec<ContentsRecord>,
    /// What is being freed in the background.
    pub(super) jobs: Vec<JobRecord>,
    /// The space map of each top-level vdev.
    pub(super) space: Vec<SpaceRecord>,
    /// The first chunk of what this checkpoint dropped; the hole if it dropped nothing.
    pub(super) deferred: Hex,
    /// How the last scan ended; absent where none has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) scan: Option<ScanRecord>,
    /// The scrub that has not ended; absent where none has been begun since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) scrub: Option<ScrubRecord>,
    /// The trims that somebody asked for; absent where there were none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) trims: Vec<TrimRecord>,
}

/// Where a volume's or snapshot's blocks are found.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ContentsRecord {
    pub(super) id: DatasetId,
    #[serde(flatten)]
    pub(super) tree: TreeRecord,
    /// Sectors of its blocks, parity not counted.
    pub(super) referenced: u64,
    /// How many blocks; not known of what an older program wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) blocks: Option<u64>,
    /// How many of them are not packed; not known as before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) whole: Option<u64>,
    /// The records of its dead list, hexadecimal.
    pub(super) dead: String,
    /// For each of these how many of its blocks are nodes, and their sectors; not known of what an
    /// older program wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) dead_nodes: Option<Vec<[u64; 2]>>,
    /// And how many of the others are not packed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) dead_whole: Option<Vec<u64>>,
}

impl ContentsRecord {
    /// Its dead list; `None` where it is none.
    pub(super) fn open_dead(&self) -> Option<Deadlist> {
        let mut dead = Deadlist::decode(&from_hex(&self.dead)?)?;
        let [nodes, whole] = [
            (self.dead_nodes.as_ref()).is_none_or(|nodes| dead.note_nodes(nodes)),
            (self.dead_whole.as_ref()).is_none_or(|whole| dead.note_whole(whole)),
        ];
        (nodes && whole).then_some(dead)
    }
}

/// A tree.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TreeRecord {
    /// The number that its nodes carry.
    pub(super) map: DatasetId,
    pub(super) root: Hex,
    pub(super) height: u8,
}

impl From<&Tree> for TreeRecord {
    fn from(tree: &Tree) -> Self {
        Self {
            map: tree.volume,
            root: Hex(tree.root),
            height: tree.height,
        }
    }
}

impl TreeRecord {
    pub(super) fn open(&self) -> Option<Tree> {
        Tree::open(self.map, self.root.0, self.height)
    }
}

/// Blocks that nobody needs and that are not freed yet.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum JobRecord {
    /// Those of a tree that were born after an epoch, from a position on.
    Tree {
        tree: TreeRecord,
        after: u64,
        position: u64,
    },
    /// Those on a dead list.
    Dead { list: String },
    /// The chunks of a dead list.
    Chunks { list: String },
}

/// The space map of a top-level vdev.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SpaceRecord {
    /// Sectors in its address space.
    pub(super) sectors: u64,
    /// Nodes of pointers to the pages of its bitmap, in order; the hole where all are holes.
    pub(super) index: Vec<Hex>,
}

/// Something that is being freed in the background.
#[derive(Debug)]
pub(super) enum Job {
    Tree {
        tree: Tree,
        after: Epoch,
        position: u64,
    },
    Dead(Deadlist),
    /// Only the chunks of a list: the blocks on it belong to those that stay.
    Chunks(Deadlist),
}

impl Job {
    /// Bytes that its record takes at most.
    pub(super) fn most_bytes(&self) -> usize {
        match self {
            Self::Tree { .. } => TREE,
            Self::Dead(list) | Self::Chunks(list) => LIST + list.parts() * LISTED,
        }
    }
}

/// What the last durable checkpoint keeps, as far as the next one replaces it.
#[derive(Debug, Default)]
pub(super) struct Persisted {
    /// Its epoch.
    pub(super) epoch: Epoch,
    /// The last group in it.
    pub(super) seq: u64,
    /// Where the manifest lies.
    pub(super) manifest: Vec<Pointer>,
    /// The chunks of what it dropped.
    pub(super) deferred: Vec<Pointer>,
    /// For each top-level vdev the pages of its bitmap.
    pub(super) pages: Vec<Vec<Pointer>>,
    /// And the nodes that lead to them.
    pub(super) index: Vec<Vec<Pointer>>,
}

/// The number of the map whose nodes are a vdev's space index; no dataset ever has it.
pub(super) fn space_map(vdev: u16) -> DatasetId {
    DatasetId(u32::MAX - u32::from(vdev))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Address, Algorithm, Compression};

    fn longest_tree() -> TreeRecord {
        TreeRecord {
            map: DatasetId(u32::MAX),
            root: Hex::default(),
            height: u8::MAX,
        }
    }

    #[test]
    fn a_manifest_with_more_in_it_is_another_versions_and_not_damaged() {
        let text = r#"{"epoch":1,"catalog":{},"more":2}"#;
        let error = Manifest::understand(text.as_bytes()).expect_err("not of this version");
        assert_eq!(error.kind, OpenErrorKind::Version, "{error}");
    }

    /// The bounds are of the longest records that there can be, with the comma behind each.
    #[test]
    fn no_record_is_longer_than_its_bound() {
        let contents = ContentsRecord {
            id: DatasetId(u32::MAX),
            tree: longest_tree(),
            referenced: u64::MAX,
            blocks: Some(u64::MAX),
            whole: Some(u64::MAX),
            dead: String::new(),
            dead_nodes: Some(Vec::new()),
            dead_whole: Some(Vec::new()),
        };
        assert_eq!(json_len(&contents) + 1, CONTENTS);
        let tree = JobRecord::Tree {
            tree: longest_tree(),
            after: u64::MAX,
            position: u64::MAX,
        };
        let list = JobRecord::Chunks {
            list: String::new(),
        };
        assert_eq!(json_len(&tree) + 1, TREE);
        assert_eq!(json_len(&list) + 1, LIST);
        // What a dataset leaves that is destroyed takes no more than it took itself.
        const { assert!(TREE + LIST <= CONTENTS) };
        let space = SpaceRecord {
            sectors: u64::MAX,
            index: vec![Hex::default(); 3],
        };
        assert!(json_len(&space) < SPACE + 3 * SPACE_NODE);
    }

    #[test]
    fn no_part_of_a_dead_list_is_longer_than_its_bound() {
        const MOST: u64 = 1 << 56;
        let mut pointer = Pointer::HOLE;
        pointer.address = Address::new(1, 1);
        pointer.sectors = 1;
        (pointer.algorithm, pointer.compression) = (Algorithm::Xxh3, Compression::Off);
        let mut bytes: Vec<u8> = [0, MOST, MOST]
            .iter()
            .flat_map(|n: &u64| n.to_le_bytes())
            .collect();
        bytes.extend(pointer.encode());
        let mut dead = Deadlist::decode(&bytes).expect("a list");
        assert!(dead.note_nodes(&[[MOST, MOST]]));
        let mut whole = Deadlist::decode(&bytes).expect("a list");
        assert!(whole.note_whole(&[MOST]));
        let of = |dead: &Deadlist, whole: &Deadlist| ContentsRecord {
            id: DatasetId(1),
            tree: longest_tree(),
            referenced: 0,
            blocks: None,
            whole: None,
            dead: to_hex(&dead.encode()),
            dead_nodes: dead.nodes().or(Some(Vec::new())),
            dead_whole: whole.whole().or(Some(Vec::new())),
        };
        let empty = json_len(&of(&Deadlist::new(), &Deadlist::new()));
        // Behind the last part there are no commas.
        assert_eq!(json_len(&of(&dead, &whole)) - empty + 2, PART);
    }
}
