//! A reader of pools, written from `docs/format.md` and from nothing else. It shares no code with
//! the store, and takes the simplest way everywhere. It panics on any bytes that the document does
//! not allow. But some states may happen to a pool of which everything was written rightly; these
//! it refuses by name. The numbers in the comments are sections of the document.

mod bytes;
mod copies;
mod datasets;
pub(crate) mod labels;
mod log;
mod map;
mod old_copies;
mod record;
mod search;
mod space;
mod vdevs;

use std::collections::BTreeMap;

use serde_json::Value;

use super::disks::Disk;
use super::story::Expected;
use datasets::Datasets;
use map::Pointer;

pub(crate) use bytes::from_hex;
pub(crate) use labels::ReadLabels;
pub(crate) use vdevs::Vdevs;

/// Content of a pool.
#[derive(Debug)]
pub(crate) struct Contents {
    /// Volumes and snapshots by name.
    pub(crate) datasets: BTreeMap<String, Expected>,
    /// Number of groups of the log behind the checkpoint.
    pub(crate) groups: u64,
    /// Number of those groups that nothing proves durable, so that they had to be verified.
    pub(crate) unproven: u64,
    /// Places at which the chain has, or should have, their records.
    pub(crate) places: Vec<u64>,
    /// Number of records that are on a log vdev and not in the chain, followed by the number of
    /// such blocks.
    pub(crate) copied_records: u64,
    pub(crate) copied_blocks: u64,
    /// Facts about streams on their way, by the volume into which they go.
    pub(crate) receiving: BTreeMap<String, Value>,
    /// Number of sectors that the checkpoint calls in use, followed by the number that it reaches.
    pub(crate) in_use: usize,
    pub(crate) reached: usize,
}

/// Reason why a pool is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Durable data is lost (section 8.1).
    Damaged,
    /// Leaves are missing that are needed to tell where the log ends (section 8.1).
    EndUnknown,
    /// A log vdev is away that may be the only place of durable writes (section 8.3).
    LogMissing,
}

/// Reads a pool from its leaves, given in any order.
pub(crate) fn read(disks: &[Disk]) -> Contents {
    try_read(disks).expect("a pool that can be read")
}

/// Reads a pool, or returns the refusal.
pub(crate) fn try_read(disks: &[Disk]) -> Result<Contents, Refusal> {
    let found = labels::find(disks);
    let mut vdevs = Vdevs::new(&found.config, &found.leaves);
    let root = &found.root;
    let manifest = manifest(&vdevs, root);
    let mut datasets = Datasets::of_manifest(&vdevs, &manifest);
    let space = space::check(&vdevs, root, &manifest);
    let log = log::replay(&mut vdevs, &found, &mut datasets)?;
    Ok(Contents {
        datasets: datasets.read(&vdevs),
        receiving: datasets.receiving(),
        groups: log.places.len() as u64,
        unproven: log.unproven,
        places: log.places,
        copied_records: log.copied_records,
        copied_blocks: log.copied_blocks,
        in_use: space.0,
        reached: space.1,
    })
}

/// Reads the manifest of a root (section 7).
pub(crate) fn manifest(vdevs: &Vdevs<'_>, root: &labels::Root) -> Value {
    let blocks = root.manifest.iter();
    let bytes: Vec<u8> = blocks.flat_map(|at| vdevs.read(at)).collect();
    let manifest: Value = serde_json::from_slice(&bytes[..root.manifest_len]).expect("JSON");
    assert_eq!(manifest["epoch"], root.epoch);
    manifest
}

/// Parses a pointer in JSON (section 4).
fn pointer(text: &Value) -> Pointer {
    Pointer::parse(&from_hex(text.as_str().expect("a text")))
}

/// Unpacks a payload (section 6).
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
