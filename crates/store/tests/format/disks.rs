//! Leaves in memory, and the file in which they are committed.
//!
//! The file is a Zstandard frame. Its content is little-endian: the number of leaves (u32), then
//! each leaf. A leaf has its bytes (u64), its number of sectors that were ever written (u32), and
//! each of these: its number (u32) and its 4,096 bytes. All other sectors are zeros.

use std::collections::BTreeMap;

pub(crate) const SECTOR: usize = 4096;

/// A leaf: its size in bytes and the sectors that were ever written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Disk {
    pub(crate) size: u64,
    pub(crate) sectors: BTreeMap<u32, Vec<u8>>,
}

impl Disk {
    pub(crate) fn read(&self, offset: u64, len: usize) -> Vec<u8> {
        let first = (offset / SECTOR as u64) as u32;
        let mut bytes = Vec::with_capacity(len);
        for at in first..first + (len / SECTOR) as u32 {
            match self.sectors.get(&at) {
                Some(sector) => bytes.extend_from_slice(sector),
                None => bytes.resize(bytes.len() + SECTOR, 0),
            }
        }
        bytes
    }

    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) {
        for (at, sector) in (offset / SECTOR as u64..).zip(data.chunks_exact(SECTOR)) {
            self.sectors.insert(at as u32, sector.to_vec());
        }
    }
}

pub(crate) fn pack(disks: &[Disk]) -> Vec<u8> {
    let mut bytes = (disks.len() as u32).to_le_bytes().to_vec();
    for disk in disks {
        bytes.extend_from_slice(&disk.size.to_le_bytes());
        bytes.extend_from_slice(&(disk.sectors.len() as u32).to_le_bytes());
        for (at, sector) in &disk.sectors {
            bytes.extend_from_slice(&at.to_le_bytes());
            bytes.extend_from_slice(sector);
        }
    }
    zstd::bulk::compress(&bytes, 19).expect("compresses")
}

pub(crate) fn unpack(packed: &[u8]) -> Vec<Disk> {
    unpack_most(packed, 64 << 20)
}

/// Unpacks a file that unpacks to at most `most` bytes.
pub(crate) fn unpack_most(packed: &[u8], most: usize) -> Vec<Disk> {
    let bytes = zstd::bulk::decompress(packed, most).expect("a Zstandard frame");
    let mut rest = &bytes[..];
    let mut take = |len: usize| {
        let (taken, behind) = rest.split_at(len);
        rest = behind;
        taken
    };
    let number = |bytes: &[u8]| {
        bytes
            .iter()
            .rev()
            .fold(0, |sum, b| sum << 8 | u64::from(*b))
    };
    let count = number(take(4));
    let disks = (0..count).map(|_| {
        let (size, count) = (number(take(8)), number(take(4)));
        let sectors = (0..count).map(|_| (number(take(4)) as u32, take(SECTOR).to_vec()));
        let sectors = sectors.collect();
        Disk { size, sectors }
    });
    disks.collect()
}
