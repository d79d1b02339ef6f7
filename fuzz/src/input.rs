//! Reader of structure from the fuzzer's bytes: numbers and slices, with zeros after the end of the
//! bytes.

use store::checksum;
use store::format::{PoolKey, SECTOR_SIZE};

/// Cursor over the fuzzer's bytes.
#[derive(Debug)]
pub struct Bytes<'a> {
    rest: &'a [u8],
}

impl<'a> Bytes<'a> {
    /// Starts at the first byte.
    pub fn new(data: &'a [u8]) -> Self {
        Self { rest: data }
    }

    /// Reports whether all bytes were read.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Reads one byte, 0 at the end.
    pub fn u8(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    /// Reads two bytes, big-endian.
    pub fn u16(&mut self) -> u16 {
        u16::from_be_bytes([self.u8(), self.u8()])
    }

    /// Reads at most `len` bytes.
    pub fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(len.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    /// Reads exactly `N` bytes, with zeros after the end.
    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        let taken = self.take(N);
        bytes[..taken.len()].copy_from_slice(taken);
        bytes
    }
}

/// Returns a root or record with a correct checksum, and the key of the pool that it names.
pub fn keyed_sector(mut sector: [u8; SECTOR_SIZE]) -> ([u8; SECTOR_SIZE], PoolKey) {
    const CHECKSUM: std::ops::Range<usize> = 72..88;
    let guid = u64::from_le_bytes(Bytes::new(&sector[16..]).array());
    let key = PoolKey { guid, secret: 7 };
    sector[CHECKSUM].fill(0);
    let checksum = checksum::keyed(key.secret, &sector).to_le_bytes();
    sector[CHECKSUM].copy_from_slice(&checksum);
    (sector, key)
}
