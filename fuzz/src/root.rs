//! The root of a checkpoint from a disk that lies: never a panic, and what was read is written as the same
//! bytes.
//!
//! Input: the sector, cut where only zeros follow. Its checksum is put right, since no fuzzer finds one.

use store::format::{PoolKey, Root, SECTOR_SIZE};

use crate::input::{Bytes, keyed_sector};

/// See the module.
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
