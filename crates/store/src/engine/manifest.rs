//! Manifest of a checkpoint: everything that its root leads to, except the contents of trees.
//!
//! It is JSON, in blocks of up to 128 KiB that the root points to. Pointers are written as 64
//! hexadecimal digits (their bytes in order), so that the length of a manifest is known before the
//! pointers are.

use serde::{Deserialize, Serialize};

use super::open::error::{OpenError, OpenErrorKind};
use super::scan::record::{ScanRecord, ScrubRecord};
use super::trim::record::TrimRecord;
use crate::catalog::Catalog;
use crate::format::{DatasetId, Epoch, Pointer, Root};
use crate::map::Tree;
use crate::snapshot::deadlist::{self, Deadlist};

/// Longest block of a manifest, in bytes.
pub(super) const BLOCK: usize = 128 << 10;

/// Longest record of a volume or snapshot without its dead list, in bytes.
pub(super) const CONTENTS: usize = 257;
/// Bytes of a part of a dead list in the record of a structure that is being freed.
pub(super) const LISTED: usize = 2 * deadlist::RECORD;
/// Longest part of a dead list in the record of a volume or snapshot, in bytes. It includes counts
/// of nodes and of uncompressed blocks, each at most 2^56.
pub(super) const PART: usize =
    LISTED + "[72057594037927936,72057594037927936],72057594037927936,".len();
/// Longest record of a tree that is being freed, in bytes.
pub(super) const TREE: usize = 185;
/// Longest record of a list that is being freed, without its parts, in bytes.
pub(super) const LIST: usize = 23;
/// Longest record of a vdev's space map without its nodes, in bytes; the next constant is for one
/// node.
pub(super) const SPACE: usize = 64;
pub(super) const SPACE_NODE: usize = 67;

/// Returns the length of a value in a manifest, in bytes.
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

/// Longest manifest, in bytes.
pub(super) const MAX_MANIFEST: usize = Root::MAX_BLOCKS * BLOCK;

/// Reads a manifest as an opening does, and writes it again. Tests of bytes on disks use this.
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
        return Err(damaged(
            "the manifest names an invalid tree or list".to_owned(),
        ));
    }
    serde_json::to_vec(&manifest).map_err(|error| damaged(error.to_string()))
}

impl Manifest {
    /// Decodes the bytes of a manifest. Its blocks are known to be as they were written. So bytes
    /// that this program does not understand are no damage, and no data is to be given up for them.
    ///
    /// # Errors
    /// Another version of the program wrote the manifest.
    pub(super) fn understand(bytes: &[u8]) -> Result<Self, OpenError> {
        serde_json::from_slice(bytes).map_err(|error| {
            let context = format!(
                "the pool's manifest is intact, but this version of the program does not understand it: \
                 {error}. Nothing was changed; open the pool with the version that wrote it, or a newer one"
            );
            OpenError::new(OpenErrorKind::Version, context)
        })
    }
}

/// Pointer as text.
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

/// Contents of a manifest.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Manifest {
    /// Epoch that ended with the checkpoint.
    pub(super) epoch: u64,
    /// All datasets.
    pub(super) catalog: Catalog,
    /// Volumes and snapshots among the datasets.
    pub(super) contents: Vec<ContentsRecord>,
    /// Structures that are being freed in the background.
    pub(super) jobs: Vec<JobRecord>,
    /// Space map of each top-level vdev.
    pub(super) space: Vec<SpaceRecord>,
    /// First chunk of the list of blocks that this checkpoint dropped; the hole if it dropped none.
    pub(super) deferred: Hex,
    /// Outcome of the last scan; absent if none has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) scan: Option<ScanRecord>,
    /// Scrub that has not ended; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) scrub: Option<ScrubRecord>,
    /// Trims that users asked for; absent if there were none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) trims: Vec<TrimRecord>,
}

/// Record of a volume or snapshot, which leads to its blocks.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ContentsRecord {
    pub(super) id: DatasetId,
    #[serde(flatten)]
    pub(super) tree: TreeRecord,
    /// Sectors of its blocks, parity not counted.
    pub(super) referenced: u64,
    /// Number of its blocks; unknown if an older program wrote them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) blocks: Option<u64>,
    /// Number of its uncompressed blocks; unknown if an older program wrote them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) whole: Option<u64>,
    /// Records of its dead list, hexadecimal.
    pub(super) dead: String,
    /// Number and sectors of nodes among the blocks of each part of the dead list; unknown if an
    /// older program wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) dead_nodes: Option<Vec<[u64; 2]>>,
    /// Number of uncompressed blocks among the others of each part; unknown if an older program
    /// wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) dead_whole: Option<Vec<u64>>,
}

impl ContentsRecord {
    /// Returns the dead list; `None` if the record is invalid.
    pub(super) fn open_dead(&self) -> Option<Deadlist> {
        let mut dead = Deadlist::decode(&from_hex(&self.dead)?)?;
        let [nodes, whole] = [
            (self.dead_nodes.as_ref()).is_none_or(|nodes| dead.note_nodes(nodes)),
            (self.dead_whole.as_ref()).is_none_or(|whole| dead.note_whole(whole)),
        ];
        (nodes && whole).then_some(dead)
    }
}

/// Record of a tree.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TreeRecord {
    /// Number that the tree's nodes carry.
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

/// Record of blocks that are no longer needed and not freed yet.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum JobRecord {
    /// Blocks of a tree that were born after an epoch, from a position on.
    Tree {
        tree: TreeRecord,
        after: u64,
        position: u64,
    },
    /// Blocks on a dead list.
    Dead { list: String },
    /// Chunks of a dead list.
    Chunks { list: String },
}

/// Record of the space map of a top-level vdev.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SpaceRecord {
    /// Sectors in the vdev's address space.
    pub(super) sectors: u64,
    /// Nodes of pointers to the pages of the vdev's bitmap, in order; the hole if all pointers are
    /// holes.
    pub(super) index: Vec<Hex>,
}

/// Structure that is being freed in the background.
#[derive(Debug)]
pub(super) enum Job {
    Tree {
        tree: Tree,
        after: Epoch,
        position: u64,
    },
    Dead(Deadlist),
    /// Chunks of a list only: the blocks on it belong to datasets that stay.
    Chunks(Deadlist),
}

impl Job {
    /// Returns the most bytes that the job's record takes.
    pub(super) fn most_bytes(&self) -> usize {
        match self {
            Self::Tree { .. } => TREE,
            Self::Dead(list) | Self::Chunks(list) => LIST + list.parts() * LISTED,
        }
    }
}

/// Structures of the last durable checkpoint that the next one replaces.
#[derive(Debug, Default)]
pub(super) struct Persisted {
    /// Epoch of the checkpoint.
    pub(super) epoch: Epoch,
    /// Last group in the checkpoint.
    pub(super) seq: u64,
    /// Blocks of the manifest.
    pub(super) manifest: Vec<Pointer>,
    /// Chunks of the list of blocks that the checkpoint dropped.
    pub(super) deferred: Vec<Pointer>,
    /// Pages of the bitmap of each top-level vdev.
    pub(super) pages: Vec<Vec<Pointer>>,
    /// Nodes that lead to these pages.
    pub(super) index: Vec<Vec<Pointer>>,
}

/// Returns the number of the map whose nodes are a vdev's space index. No dataset ever has this
/// number.
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

    /// The bounds are those of the longest possible records, with the comma after each.
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
        // The records left by a destroyed dataset take no more than its own took.
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
        // There are no commas after the last part.
        assert_eq!(json_len(&of(&dead, &whole)) - empty + 2, PART);
    }
}
