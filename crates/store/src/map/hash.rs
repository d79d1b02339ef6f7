//! A hasher for numbers without a random seed. Equal runs give equal orders and equal costs, which
//! simulation needs. It is only for keys that this program chose itself, for example addresses.

use std::hash::{BuildHasherDefault, Hasher};

/// Hasher for a map or set of numbers.
pub type BuildNumberHasher = BuildHasherDefault<NumberHasher>;

/// Hasher that multiplies by an odd constant (2^64 over the golden ratio) and folds the product's
/// halves.
#[derive(Clone, Copy, Debug, Default)]
pub struct NumberHasher(u64);

impl Hasher for NumberHasher {
    #[inline]
    fn write_u64(&mut self, number: u64) {
        let product = u128::from(self.0 ^ number) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut number = [0; 8];
            number[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(number));
        }
    }

    #[inline]
    fn finish(&self) -> u64 {
        #[cfg(feature = "counted")]
        crate::counted::HASHES.add();
        self.0
    }
}
