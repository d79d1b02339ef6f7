//! Compressed block from a disk that lies. There is never a panic, and the result is exactly the
//! wanted number of bytes, or none. A block that was packed comes back, and its checksum is that of
//! the bytes that are written.
//!
//! Input: the compression (the lowest bit) and the checksum's algorithm (the next), the wanted
//! length in 32 bits (little-endian), the block as it lies on the disk.

use store::checksum;
use store::compress::{MAX_BLOCK, pack, unpack};
use store::format::{Algorithm, Compression, SECTOR_SIZE};
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
    let algorithm = match which & 2 {
        0 => Algorithm::Xxh3,
        _ => Algorithm::Blake3,
    };
    let payload = pack(compression, 1, algorithm, &block);
    let written = payload.packed.as_ref().unwrap_or(&block);
    assert_eq!(payload.checksum, checksum::of(algorithm, written));
    if let Some(packed) = payload.packed {
        let saved = block.len().div_ceil(SECTOR_SIZE) - packed.len() / SECTOR_SIZE;
        assert!(saved > 0 && packed.len().is_multiple_of(SECTOR_SIZE));
        let back = unpack(compression, &packed, block.len());
        assert!(
            back.is_some_and(|back| back == block.to_vec()),
            "not itself"
        );
    }
}
