//! The block pointer: where a block lies, when it was born, how to read it, and its checksum.
//!
//! A pointer has 32 bytes, little-endian:
//!
//! ```text
//!  0        8                    16                             32
//!  +--------+--------------------+------------------------------+
//!  | address| birth, shape       | checksum (128 bits)          |
//!  +--------+--------------------+---------------+--------------+
//!  | address| birth, shape       | its low half  | 2nd address  |  if bit 60 of the shape is set
//!  +--------+--------------------+---------------+--------------+
//!  address:  sector in bits 0..48, top-level vdev in bits 48..64
//!  shape:    birth epoch 0..40, sectors 40..52, compression 52..56, checksum algorithm 56..60,
//!            double 60, zero 61..64
//! ```
//!
//! All zeros is the hole: a block that reads as zeros and lies nowhere. The checksum lies here, in
//! the parent. So a block that was never written, or was written elsewhere, is found out.
//!
//! A double pointer leads to a block that lies twice. It keeps half of the checksum: 64 bits tell a
//! rotten sector from a good one, and the pointer keeps its length.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::num::NonZeroU64;

/// Epoch in which a block was born. It counts up at every checkpoint and every snapshot. 40 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

impl Epoch {
    /// Last epoch that fits into a pointer.
    pub const LAST: Self = Self((1 << 40) - 1);

    /// Returns the epoch after this one.
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// Address of a sector of a top-level vdev. In a mirror it is the sector of each leaf. In a raidz,
/// sectors count across its leaves, parity included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(u64);

impl Address {
    /// Number of sectors that the addresses of a top-level vdev can name.
    pub const SECTORS: u64 = 1 << 48;

    /// Makes the address of a sector of a top-level vdev, given the vdev's position in the pool.
    ///
    /// # Panics
    /// The sector is not below [`Address::SECTORS`].
    pub fn new(vdev: u16, sector: u64) -> Self {
        assert!(sector < Self::SECTORS, "sector {sector} of vdev {vdev}");
        Self(u64::from(vdev) << 48 | sector)
    }

    /// Returns the position of the top-level vdev.
    pub fn vdev(self) -> u16 {
        (self.0 >> 48) as u16
    }

    /// Returns the sector in the vdev.
    pub fn sector(self) -> u64 {
        self.0 & (Self::SECTORS - 1)
    }

    /// Returns the address as it lies on disks.
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// Returns the address as it was read from a disk. Every value is an address.
    pub fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{:x}", self.vdev(), self.sector())
    }
}

/// Packing of a block's bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Compression {
    /// The bytes are kept as they are.
    #[default]
    Off = 0,
    /// The bytes are an LZ4 block behind its length.
    Lz4 = 1,
    /// The bytes are a Zstandard frame behind its length.
    Zstd = 2,
}

impl Compression {
    /// Returns the method that has this number.
    pub fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::Off),
            1 => Some(Self::Lz4),
            2 => Some(Self::Zstd),
            _ => None,
        }
    }
}

/// Algorithm of a block's checksum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Algorithm {
    /// Readers believe whatever the devices return. An XXH3 checksum is still kept, for the search
    /// for the end of the log: a group counts with all its blocks or not at all. Only data of
    /// volumes may use this.
    Off = 0,
    /// XXH3, 128 bits.
    #[default]
    Xxh3 = 1,
    /// The first 128 bits of BLAKE3, for users who do not trust the disks' owner.
    Blake3 = 2,
}

impl Algorithm {
    /// Returns the algorithm that has this number.
    pub fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::Off),
            1 => Some(Self::Xxh3),
            2 => Some(Self::Blake3),
            _ => None,
        }
    }
}

/// Second address of a block, if the block has one. It does not make a pointer in memory larger.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Second(
    /// Address with all bits inverted. No block has the address that becomes zero.
    Option<NonZeroU64>,
);

impl Second {
    /// Value for a block that lies in one place only.
    pub const NONE: Self = Self(None);

    fn at(address: Address) -> Self {
        Self(NonZeroU64::new(!address.0))
    }

    fn get(self) -> Option<Address> {
        self.0.map(|turned| Address(!turned.get()))
    }
}

impl fmt::Debug for Second {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

/// Pointer to a block: the block's place, and the proof of its content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pointer {
    /// Address of the first sector.
    pub address: Address,
    /// Address at which a copy of the bytes lies, if there is one: [`Pointer::doubled`].
    pub second: Second,
    /// Epoch in which the block was written.
    pub birth: Epoch,
    /// Number of sectors of payload, parity not counted; 0 is the hole.
    pub sectors: u16,
    /// Packing of the bytes.
    pub compression: Compression,
    /// Algorithm of the checksum.
    pub algorithm: Algorithm,
    /// Checksum of the payload's sectors as they lie on the devices. If the block lies twice, only
    /// the low half is known, and the high half is zero.
    pub checksum: u128,
}

const _: () = assert!(size_of::<Pointer>() == 48);
/// Bit of the shape that says that there is a second address.
const DOUBLE: u64 = 1 << 60;

/// Address and birth tell nearly all blocks apart, since a place is not used twice in one epoch.
impl Hash for Pointer {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.address.to_bits());
        state.write_u64(self.birth.0);
    }
}

impl Pointer {
    /// Bytes on a disk.
    pub const SIZE: usize = 32;
    /// Largest value of [`Pointer::sectors`].
    pub const MAX_SECTORS: u16 = (1 << 12) - 1;
    /// Pointer to a block of zeros that lies nowhere.
    pub const HOLE: Self = Self {
        address: Address(0),
        second: Second::NONE,
        birth: Epoch(0),
        sectors: 0,
        compression: Compression::Off,
        algorithm: Algorithm::Off,
        checksum: 0,
    };

    /// Makes the pointer to a block or node that existed by the epoch `birth`, but of which nothing
    /// else is known: its parent node cannot be read any more. The pointer names no place, so
    /// reading it is an error and never yields zeros.
    pub fn lost(birth: Epoch) -> Self {
        Self {
            address: Address(u64::MAX),
            birth,
            sectors: 1,
            ..Self::HOLE
        }
    }

    /// Reports whether the block is not packed.
    pub fn is_whole(&self) -> bool {
        !self.is_hole() && self.compression == Compression::Off
    }

    /// Reports whether [`Pointer::lost`] made the pointer.
    #[inline]
    pub fn is_lost(&self) -> bool {
        self.address == Address(u64::MAX)
    }

    /// Reports whether the pointer is the hole.
    #[inline]
    pub fn is_hole(&self) -> bool {
        self.sectors == 0
    }

    /// Returns the pointer to this block with a second copy at `second`.
    ///
    /// # Panics
    /// The two places overlap, or the block lies nowhere.
    #[must_use]
    pub fn doubled(self, second: Address) -> Self {
        let pointer = Self {
            second: Second::at(second),
            checksum: self.checksum & u128::from(u64::MAX),
            ..self
        };
        assert!(pointer.is_consistent(), "{pointer:?}");
        pointer
    }

    /// Returns the address of the second copy, if there is one.
    #[inline]
    pub fn second(&self) -> Option<Address> {
        self.second.get()
    }

    /// Reports whether the block lies in two places.
    #[inline]
    pub fn is_double(&self) -> bool {
        self.second != Second::NONE
    }

    /// Returns the addresses of all copies. The hole has none.
    pub fn places(&self) -> impl Iterator<Item = Address> + use<> {
        let first = (!self.is_hole()).then_some(self.address);
        first.into_iter().chain(self.second())
    }

    /// Returns the sectors of payload of all copies.
    #[inline]
    pub fn stored_sectors(&self) -> u64 {
        u64::from(self.sectors) << u32::from(self.is_double())
    }

    /// Reports whether the second copy of a block of this length may lie at its address.
    fn is_consistent(&self) -> bool {
        let Some(second) = self.second() else {
            return true;
        };
        let distance = self.address.sector().abs_diff(second.sector());
        let overlaps = self.address.vdev() == second.vdev() && distance < self.sectors.into();
        !self.is_hole() && !self.is_lost() && !overlaps
    }

    /// Encodes the pointer as it lies on disks.
    pub fn encode(&self) -> [u8; Self::SIZE] {
        debug_assert!(self.sectors <= Self::MAX_SECTORS && self.birth <= Epoch::LAST);
        let mut shape = self.birth.0
            | u64::from(self.sectors) << 40
            | (self.compression as u64) << 52
            | (self.algorithm as u64) << 56;
        let mut proof = self.checksum;
        if let Some(second) = self.second() {
            shape |= DOUBLE;
            proof |= u128::from(second.0) << 64;
        }
        let mut bytes = [0; Self::SIZE];
        bytes[..8].copy_from_slice(&self.address.0.to_le_bytes());
        bytes[8..16].copy_from_slice(&shape.to_le_bytes());
        bytes[16..].copy_from_slice(&proof.to_le_bytes());
        bytes
    }

    /// Decodes a pointer from a disk. Returns `None` if no version of the format writes such bytes.
    pub fn decode(bytes: &[u8; Self::SIZE]) -> Option<Self> {
        let (pointer, shape) = Self::unpack(bytes)?;
        let is_valid = shape >> 61 == 0
            && (pointer.sectors > 0 || pointer == Self::HOLE)
            && pointer.is_double() == (shape & DOUBLE != 0)
            && pointer.is_consistent();
        is_valid.then_some(pointer)
    }

    /// Decodes bytes that [`Pointer::decode`] accepted before. Each look-up in a map does so once
    /// for each level, so the checks are not repeated.
    #[inline]
    pub(super) fn decode_checked(bytes: &[u8; Self::SIZE]) -> Option<Self> {
        Self::unpack(bytes).map(|(pointer, _)| pointer)
    }

    /// Splits bytes into the fields of a pointer and the word that most of them share. Returns
    /// `None` if a field has a value without a meaning.
    #[inline]
    fn unpack(bytes: &[u8; Self::SIZE]) -> Option<(Self, u64)> {
        let (address, rest) = bytes.split_first_chunk::<8>()?;
        let (shape, proof) = rest.split_first_chunk::<8>()?;
        let shape = u64::from_le_bytes(*shape);
        let proof = u128::from_le_bytes(proof.try_into().ok()?);
        let (second, checksum) = match shape & DOUBLE != 0 {
            true => (
                Second::at(Address((proof >> 64) as u64)),
                proof & u128::from(u64::MAX),
            ),
            false => (Second::NONE, proof),
        };
        let pointer = Self {
            address: Address(u64::from_le_bytes(*address)),
            second,
            birth: Epoch(shape & Epoch::LAST.0),
            sectors: (shape >> 40) as u16 & Self::MAX_SECTORS,
            compression: Compression::from_code((shape >> 52 & 0xf) as u8)?,
            algorithm: Algorithm::from_code((shape >> 56 & 0xf) as u8)?,
            checksum,
        };
        Some((pointer, shape))
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
            second in prop::option::of((any::<u16>(), 0..Address::SECTORS)),
        ) {
            let pointer = Pointer {
                address: Address::new(vdev, sector),
                second: Second::NONE,
                birth: Epoch(birth),
                sectors,
                compression: [Compression::Off, Compression::Lz4, Compression::Zstd][compression],
                algorithm: [Algorithm::Off, Algorithm::Xxh3, Algorithm::Blake3][algorithm],
                checksum,
            };
            prop_assert_eq!(Pointer::decode(&pointer.encode()), Some(pointer));
            let second = second.map(|(vdev, sector)| Address::new(vdev, sector));
            let is_apart = |second: &Address| {
                second.vdev() != vdev || second.sector().abs_diff(sector) >= sectors.into()
            };
            if let Some(second) = second.filter(is_apart) {
                let double = pointer.doubled(second);
                prop_assert_eq!(Pointer::decode(&double.encode()), Some(double));
                prop_assert_eq!(double.second(), Some(second));
                prop_assert_eq!(double.checksum, u128::from(checksum as u64));
                prop_assert!(double.places().eq([pointer.address, second]));
            }
        }

        #[test]
        fn what_decodes_encodes_to_the_same_bytes(bytes in any::<[u8; 32]>(), is_double in any::<bool>()) {
            let mut bytes = bytes;
            // Random bytes seldom make a shape that some version writes.
            bytes[14] &= 0x1f;
            bytes[15] = bytes[15] & 1 | u8::from(is_double) << 4;
            if let Some(pointer) = Pointer::decode(&bytes) {
                prop_assert_eq!(pointer.encode(), bytes);
            }
        }

        /// A second copy that overlaps the first would be no second copy.
        #[test]
        fn places_that_overlap_do_not_decode(
            sector in 4096..1_u64 << 40, sectors in 1..=Pointer::MAX_SECTORS, away in -5000..5000_i64,
        ) {
            let pointer = Pointer { address: Address::new(3, sector), sectors, ..Pointer::HOLE };
            let mut bytes = pointer.encode();
            bytes[15] |= 0x10;
            let second = Address::new(3, sector.checked_add_signed(away).unwrap_or(0));
            bytes[24..].copy_from_slice(&second.to_bits().to_le_bytes());
            let found = Pointer::decode(&bytes).and_then(|pointer| pointer.second());
            let is_apart = second.sector().abs_diff(sector) >= sectors.into();
            prop_assert_eq!(found, is_apart.then_some(second));
        }
    }

    #[test]
    fn no_hole_and_nothing_lost_lies_twice() {
        let mut hole = Pointer::HOLE.encode();
        hole[15] |= 0x10;
        assert_eq!(Pointer::decode(&hole), None);
        let mut lost = Pointer::lost(Epoch(3)).encode();
        lost[15] |= 0x10;
        assert_eq!(Pointer::decode(&lost), None);
        let block = Pointer {
            address: Address::new(0, 5),
            sectors: 1,
            ..Pointer::HOLE
        };
        let mut nowhere = block.doubled(Address::new(1, 5)).encode();
        assert!(Pointer::decode(&nowhere).is_some());
        nowhere[24..].fill(0xff);
        assert_eq!(Pointer::decode(&nowhere), None);
    }

    #[test]
    fn zeros_are_the_hole_and_nothing_else_is() {
        assert_eq!(Pointer::decode(&[0; 32]), Some(Pointer::HOLE));
        let mut bytes = [0; 32];
        bytes[16] = 1;
        assert_eq!(Pointer::decode(&bytes), None);
    }
}
