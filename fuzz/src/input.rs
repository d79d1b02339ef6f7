//! Reads structure from the fuzzer's bytes: numbers and slices, zeros where the bytes end.

use store::checksum;
use store::format::{PoolKey, SECTOR_SIZE};

/// A cursor over the fuzzer's bytes.
#[derive(Debug)]
pub struct Bytes<'a> {
    rest: &'a [u8],
}

impl<'a> Bytes<'a> {
    /// From the start.
    pub fn new(data: &'a [u8]) -> Self {
        Self { rest: data }
    }

    /// Whether all bytes were read.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// One byte, 0 at the end.
    pub fn u8(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    /// Two bytes, big-endian.
    pub fn u16(&mut self) -> u16 {
        u16::from_be_bytes([self.u8(), self.u8()])
    }

    /// At most `len` bytes.
    pub fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(len.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    /// Exactly `N` bytes, zeros after the end.
    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        let taken = self.take(N);
        bytes[..taken.len()].copy_from_slice(taken);
        bytes
    }
}

/// A root or record with the checksum that it must have, and the key of the pool that it says it is of.
pub fn keyed_sector(mut sector: [u8; SECTOR_SIZE]) -> ([u8; SECTOR_SIZE], PoolKey) {
    const CHECKSUM: std::ops::Range<usize> = 72..88;
    let guid = u64::from_le_bytes(Bytes::new(&sector[16..]).array());
    let key = PoolKey { guid, secret: 7 };
    sector[CHECKSUM].fill(0);
    let checksum = checksum::keyed(key.secret, &sector).to_le_bytes();
    sector[CHECKSUM].copy_from_slice(&checksum);
    (sector, key)
}
