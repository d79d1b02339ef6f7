//! The block pointer: where a block lies, when it was born, how to read it, and what it must hash to.
//!
//! 32 bytes, little-endian:
//!
//! ```text
//!  0        8                    16                             32
//!  +--------+--------------------+------------------------------+
//!  | address| birth, shape       | checksum (128 bits)          |
//!  +--------+--------------------+------------------------------+
//!  address:  sector in bits 0..48, top-level vdev in bits 48..64
//!  shape:    birth epoch 0..40, sectors 40..52, compression 52..56, checksum algorithm 56..60,
//!            zero 60..64
//! ```
//!
//! All zeros is the hole: a block that reads as zeros and lies nowhere. The checksum lies here, in
//! the parent, so that a block that was never written, or written elsewhere, is found out.

use std::fmt;
use std::hash::{Hash, Hasher};

/// When a block was born: counted up at every checkpoint and every snapshot. 40 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

impl Epoch {
    /// The last one that fits into a pointer.
    pub const LAST: Self = Self((1 << 40) - 1);

    /// The one after.
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// A sector of a top-level vdev. In a mirror it is the sector of each leaf; in a raidz sectors count
/// across its leaves, parity included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(u64);

impl Address {
    /// Sectors of a top-level vdev are below this.
    pub const SECTORS: u64 = 1 << 48;

    /// A sector of a top-level vdev, by its position in the pool.
    ///
    /// # Panics
    /// Where the sector is not below [`Address::SECTORS`].
    pub fn new(vdev: u16, sector: u64) -> Self {
        assert!(sector < Self::SECTORS, "sector {sector} of vdev {vdev}");
        Self(u64::from(vdev) << 48 | sector)
    }

    /// The top-level vdev.
    pub fn vdev(self) -> u16 {
        (self.0 >> 48) as u16
    }

    /// The sector in it.
    pub fn sector(self) -> u64 {
        self.0 & (Self::SECTORS - 1)
    }

    /// As it lies on disks.
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// As it was read from a disk; every value is an address.
    pub fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{:x}", self.vdev(), self.sector())
    }
}

/// How a block's bytes are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Compression {
    /// As they are.
    #[default]
    Off = 0,
    /// An LZ4 block behind its length.
    Lz4 = 1,
    /// A Zstandard frame behind its length.
    Zstd = 2,
}

/// What a block's checksum is made with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Algorithm {
    /// Readers believe whatever the devices return. The checksum is kept all the same, that of XXH3, and
    /// asked for where the end of the log is looked for: a group counts with all its blocks or not at all.
    /// Data of volumes only.
    Off = 0,
    /// XXH3, 128 bits.
    #[default]
    Xxh3 = 1,
    /// The first 128 bits of BLAKE3: for those who do not trust the disks' owner.
    Blake3 = 2,
}

/// Where a block lies and what it must be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pointer {
    /// Its first sector.
    pub address: Address,
    /// When it was written.
    pub birth: Epoch,
    /// How many sectors of payload, parity not counted; 0 is the hole.
    pub sectors: u16,
    /// How its bytes are kept.
    pub compression: Compression,
    /// What the checksum is made with.
    pub algorithm: Algorithm,
    /// Of the payload's sectors as they lie on the devices.
    pub checksum: u128,
}

/// A place is not used twice in one epoch: the two tell nearly all blocks apart.
impl Hash for Pointer {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.address.to_bits());
        state.write_u64(self.birth.0);
    }
}

impl Pointer {
    /// Bytes on a disk.
    pub const SIZE: usize = 32;
    /// The largest [`Pointer::sectors`].
    pub const MAX_SECTORS: u16 = (1 << 12) - 1;
    /// A block of zeros that lies nowhere.
    pub const HOLE: Self = Self {
        address: Address(0),
        birth: Epoch(0),
        sectors: 0,
        compression: Compression::Off,
        algorithm: Algorithm::Off,
        checksum: 0,
    };

    /// A block or node of which nothing is known but that it was there, by the epoch `birth`: the node
    /// that knew cannot be read any more. It stands in no place, so reading it is an error, never zeros.
    pub fn lost(birth: Epoch) -> Self {
        Self {
            address: Address(u64::MAX),
            birth,
            sectors: 1,
            ..Self::HOLE
        }
    }

    /// Whether it is of a block that is not packed.
    pub fn is_whole(&self) -> bool {
        !self.is_hole() && self.compression == Compression::Off
    }

    /// Whether it is one of [`Pointer::lost`].
    #[inline]
    pub fn is_lost(&self) -> bool {
        self.address == Address(u64::MAX)
    }

    /// Whether it is the hole.
    #[inline]
    pub fn is_hole(&self) -> bool {
        self.sectors == 0
    }

    /// As it lies on disks.
    pub fn encode(&self) -> [u8; Self::SIZE] {
        debug_assert!(self.sectors <= Self::MAX_SECTORS && self.birth <= Epoch::LAST);
        let shape = self.birth.0
            | u64::from(self.sectors) << 40
            | (self.compression as u64) << 52
            | (self.algorithm as u64) << 56;
        let mut bytes = [0; Self::SIZE];
        bytes[..8].copy_from_slice(&self.address.0.to_le_bytes());
        bytes[8..16].copy_from_slice(&shape.to_le_bytes());
        bytes[16..].copy_from_slice(&self.checksum.to_le_bytes());
        bytes
    }

    /// From a disk; `None` where no version of the format writes such bytes.
    pub fn decode(bytes: &[u8; Self::SIZE]) -> Option<Self> {
        let (address, rest) = bytes.split_first_chunk::<8>()?;
        let (shape, checksum) = rest.split_first_chunk::<8>()?;
        let shape = u64::from_le_bytes(*shape);
        let pointer = Self {
            address: Address(u64::from_le_bytes(*address)),
            birth: Epoch(shape & Epoch::LAST.0),
            sectors: (shape >> 40) as u16 & Self::MAX_SECTORS,
            compression: match shape >> 52 & 0xf {
                0 => Compression::Off,
                1 => Compression::Lz4,
                2 => Compression::Zstd,
                _ => return None,
            },
            algorithm: match shape >> 56 & 0xf {
                0 => Algorithm::Off,
                1 => Algorithm::Xxh3,
                2 => Algorithm::Blake3,
                _ => return None,
            },
            checksum: u128::from_le_bytes(checksum.try_into().ok()?),
        };
        let is_valid = shape >> 60 == 0 && (pointer.sectors > 0 || pointer == Self::HOLE);
        is_valid.then_some(pointer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_pointer_survives_the_disk(
            (vdev, sector, birth) in (any::<u16>(), 0..Address::SECTORS, 0..=Epoch::LAST.0),
            (sectors, checksum) in (1..=Pointer::MAX_SECTORS, any::<u128>()),
            (compression, algorithm) in (0..3_usize, 0..3_usize),
        ) {
            let pointer = Pointer {
                address: Address::new(vdev, sector),
                birth: Epoch(birth),
                sectors,
                compression: [Compression::Off, Compression::Lz4, Compression::Zstd][compression],
                algorithm: [Algorithm::Off, Algorithm::Xxh3, Algorithm::Blake3][algorithm],
                checksum,
            };
            prop_assert_eq!(Pointer::decode(&pointer.encode()), Some(pointer));
        }

        #[test]
        fn what_decodes_encodes_to_the_same_bytes(bytes in any::<[u8; 32]>()) {
            if let Some(pointer) = Pointer::decode(&bytes) {
                prop_assert_eq!(pointer.encode(), bytes);
            }
        }
    }

    #[test]
    fn zeros_are_the_hole_and_nothing_else_is() {
        assert_eq!(Pointer::decode(&[0; 32]), Some(Pointer::HOLE));
        let mut bytes = [0; 32];
        bytes[16] = 1;
        assert_eq!(Pointer::decode(&bytes), None);
    }
}
