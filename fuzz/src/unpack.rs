//! Compressed block from a disk that lies. There is never a panic, and the result is exactly the
//! wanted number of bytes, or none. A block that was packed comes back.
//!
//! Input: the compression (its lowest bit), the wanted length in 32 bits (little-endian), the block
//! as it lies on the disk.

use store::compress::{MAX_BLOCK, pack, unpack};
use store::format::{Compression, SECTOR_SIZE};
use store::pages::Pages;

/// Runs one input of the fuzzer.
pub fn run(data: &[u8]) {
    let Some(([which, len @ ..], block)) = data.split_first_chunk::<5>() else {
        return;
    };
    let compression = match which & 1 {
        0 => Compression::Lz4,
        _ => Compression::Zstd,
    };
    // Lengths go up to some beyond the longest.
    let len = u32::from_le_bytes(*len) as usize % (MAX_BLOCK + SECTOR_SIZE);
    let block = Pages::from_bytes(block);
    if let Some(plain) = unpack(compression, &block, len) {
        assert_eq!(plain.len(), len, "{compression:?}");
    }
    if let Some(packed) = pack(compression, 1, &block) {
        let saved = block.len().div_ceil(SECTOR_SIZE) - packed.len() / SECTOR_SIZE;
        assert!(saved > 0 && packed.len().is_multiple_of(SECTOR_SIZE));
        let back = unpack(compression, &packed, block.len());
        assert!(
            back.is_some_and(|back| back == block.to_vec()),
            "not itself"
        );
    }
}
