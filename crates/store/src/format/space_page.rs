//! A page of the bitmap of a top-level vdev: which of 32,768 sectors (128 MiB) are in use.
//!
//! A page is one sector without a header. Page n covers the sectors from 32,768 × n on. Bit b (of
//! value 2^b) of byte k stands for sector 8k + b of those; a set bit means in use. Bits of sectors
//! beyond the end of the vdev are zero. A page without a pointer is all zeros. The checksum in the
//! pointer proves the page's content, and the pointer's place proves the page's place.

use super::SECTOR_SIZE;

/// Number of sectors that a page covers.
pub const SECTORS: u64 = 8 * SECTOR_SIZE as u64;
/// Length of a page in words of 64 sectors.
pub const WORDS: usize = SECTOR_SIZE / size_of::<u64>();

/// Encodes a page as it lies on disks. Bit n of word m is sector 64m + n.
pub fn encode(words: &[u64; WORDS]) -> [u8; SECTOR_SIZE] {
    let mut bytes = [0; SECTOR_SIZE];
    for (bytes, word) in bytes.chunks_exact_mut(size_of::<u64>()).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// Decodes a page from a disk. Any bytes are a page.
pub fn decode(bytes: &[u8; SECTOR_SIZE]) -> [u64; WORDS] {
    let mut words = [0; WORDS];
    let (chunks, _) = bytes.as_chunks();
    for (word, bytes) in words.iter_mut().zip(chunks) {
        *word = u64::from_le_bytes(*bytes);
    }
    words
}

/// Reports whether a sector is in use. Sectors count from the first that the page covers. Sectors
/// behind the last are not in use.
pub fn is_in_use(bytes: &[u8; SECTOR_SIZE], sector: u64) -> bool {
    let byte = usize::try_from(sector / 8)
        .ok()
        .and_then(|at| bytes.get(at));
    byte.is_some_and(|byte| byte >> (sector % 8) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pages_are_bytes_and_bytes_are_pages(
            words in prop::collection::vec(any::<u64>(), WORDS), sector in 0..SECTORS + 9,
        ) {
            let words: [u64; WORDS] = words.try_into().expect("as many as asked for");
            let bytes = encode(&words);
            prop_assert_eq!(decode(&bytes), words);
            let word = words.get((sector / 64) as usize).copied().unwrap_or(0);
            prop_assert_eq!(is_in_use(&bytes, sector), word >> (sector % 64) & 1 == 1);
        }
    }
}
