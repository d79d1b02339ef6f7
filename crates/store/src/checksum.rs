//! Checksums of blocks, over runs of pages.

use pages::Pages;
use xxhash_rust::xxh3::Xxh3Default;

use crate::format::Algorithm;

/// The checksum of a block's sectors as they lie on the devices.
pub fn of(algorithm: Algorithm, data: &Pages) -> u128 {
    match algorithm {
        Algorithm::Off => 0,
        Algorithm::Xxh3 | Algorithm::Blake3 => {
            let mut hasher = Xxh3Default::new();
            data.chunks().for_each(|chunk| hasher.update(chunk));
            hasher.digest128()
        }
    }
}

/// The checksum of what only this pool may have written: keyed with a secret of its labels.
pub fn keyed(secret: u64, bytes: &[u8]) -> u128 {
    xxhash_rust::xxh3::xxh3_128_with_seed(bytes, secret)
}
