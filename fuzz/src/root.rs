//! Root of a checkpoint from a disk that lies. There is never a panic, and a root that was read is
//! written as equal bytes.
//!
//! Input: the sector, cut where only zeros follow. Its checksum is corrected, since no fuzzer finds
//! one.

use store::format::{PoolKey, Root, SECTOR_SIZE};

use crate::input::{Bytes, keyed_sector};

/// Runs one input of the fuzzer.
pub fn run(data: &[u8]) {
    let sector: [u8; SECTOR_SIZE] = Bytes::new(data).array();
    let (sector, key): (_, PoolKey) = keyed_sector(sector);
    if let Some(root) = Root::decode(&sector, key) {
        assert_eq!(root.encode(key), sector, "other bytes when written");
        let other = PoolKey {
            guid: !key.guid,
            ..key
        };
        assert_eq!(Root::decode(&sector, other), None, "of another pool");
    }
}
