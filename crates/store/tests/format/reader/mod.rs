//! A reader of pools, written from `docs/format.md` and from nothing else: it shares no code with the
//! store, and takes the simplest way everywhere. Whatever the document does not allow, it refuses to
//! read: it panics. The numbers in the comments are sections of the document.

mod bytes;
mod datasets;
pub(crate) mod labels;
mod log;
mod map;
mod space;
mod vdevs;

use std::collections::BTreeMap;

use serde_json::Value;

use super::disks::Disk;
use super::story::Expected;
use bytes::checksum;
use datasets::Datasets;
use map::Pointer;

pub(crate) use bytes::from_hex;
pub(crate) use labels::Found;
pub(crate) use vdevs::Vdevs;

/// What was read.
#[derive(Debug)]
pub(crate) struct Contents {
    /// All volumes and snapshots by name.
    pub(crate) datasets: BTreeMap<String, Expected>,
    /// Groups of the log behind the checkpoint.
    pub(crate) groups: u64,
    /// How many of them nothing proves durable, so that they had to be verified.
    pub(crate) unproven: u64,
    /// Sectors that the checkpoint says are in use, and those that it reaches.
    pub(crate) in_use: usize,
    pub(crate) reached: usize,
}

/// Reads a pool from its leaves, given in any order.
pub(crate) fn read(disks: &[Disk]) -> Contents {
    let found = labels::find(disks);
    let vdevs = Vdevs::new(&found.config, &found.leaves);
    let root = &found.root;
    let manifest = manifest(&vdevs, root);
    let mut datasets = Datasets::of_manifest(&vdevs, &manifest);
    let space = space::check(&vdevs, root, &manifest);
    let (groups, unproven) = log::replay(&vdevs, &found, &mut datasets);
    Contents {
        datasets: datasets.read(&vdevs),
        groups,
        unproven,
        in_use: space.0,
        reached: space.1,
    }
}

/// 7
pub(crate) fn manifest(vdevs: &Vdevs<'_>, root: &labels::Root) -> Value {
    let blocks = root.manifest.iter();
    let bytes: Vec<u8> = blocks.flat_map(|at| vdevs.read(at)).collect();
    let manifest: Value = serde_json::from_slice(&bytes[..root.manifest_len]).expect("JSON");
    assert_eq!(manifest["epoch"], root.epoch);
    manifest
}

/// 4: a pointer in JSON.
fn pointer(text: &Value) -> Pointer {
    Pointer::parse(&from_hex(text.as_str().expect("a text")))
}

/// 6
fn unpack(payload: Vec<u8>, compression: u8, block_size: usize) -> Vec<u8> {
    if compression == 0 {
        assert_eq!(payload.len(), block_size);
        return payload;
    }
    let len = bytes::number(&payload[..4]) as usize;
    let packed = &payload[4..4 + len];
    assert!(payload[4 + len..].iter().all(|byte| *byte == 0));
    let plain = match compression {
        1 => lz4_flex::block::decompress(packed, block_size).expect("an LZ4 block"),
        2 => zstd::bulk::decompress(packed, block_size).expect("a Zstandard frame"),
        other => panic!("compression {other}"),
    };
    assert_eq!(plain.len(), block_size);
    plain
}
