//! Chunks of long lists: the extents that a checkpoint dropped, and the blocks that only snapshots
//! hold.
//!
//! A chunk is a block of one to four sectors that points to the next chunk. Little-endian:
//!
//! ```text
//!    0  magic "SANDLIST"                                      8 bytes
//!    8  format version                                        u16
//!   10  kind: 1 extents, 2 blocks, 3 chunks                   u8
//!   11  zero                                                  1 byte
//!   12  number of entries, never 0                            u32
//!   16  pointer to the next chunk, zeros in the last one      32 bytes
//!   48  zero                                                  16 bytes
//!   64  entries, then zeros up to the end of the block
//!
//!  extent: u64 address, u32 number of sectors (12 bytes, at most 1,360 of them)
//!  block:  pointer (32 bytes, at most 510 of them)
//!  chunk:  pointer to the first chunk of a list that belongs to this one
//! ```
//!
//! With chunks of chunks, two lists become one, and no chunk of either is written again.

use pages::Pages;

use super::bytes::Reader;
use super::pointer::{Address, Pointer};
use super::{Extent, SECTOR_SIZE, VERSION};

const MAGIC: &[u8; 8] = b"SANDLIST";
const HEADER: usize = 64;
const EXTENT: usize = 12;

/// Bytes of the largest chunk.
pub const MAX_SIZE: usize = 4 * SECTOR_SIZE;
/// Number of extents in the largest chunk.
pub const MAX_EXTENTS: usize = (MAX_SIZE - HEADER) / EXTENT;
/// Number of pointers in the largest chunk.
pub const MAX_POINTERS: usize = (MAX_SIZE - HEADER) / Pointer::SIZE;

/// Entries of a chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entries {
    /// Extents of sectors.
    Extents(Vec<Extent>),
    /// Pointers to blocks, none of them the hole.
    Blocks(Vec<Pointer>),
    /// Pointers to the first chunks of lists.
    Chunks(Vec<Pointer>),
}

impl Entries {
    fn kind(&self) -> u8 {
        match self {
            Self::Extents(_) => 1,
            Self::Blocks(_) => 2,
            Self::Chunks(_) => 3,
        }
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        match self {
            Self::Extents(extents) => extents.len(),
            Self::Blocks(pointers) | Self::Chunks(pointers) => pointers.len(),
        }
    }

    /// Reports whether there are no entries. No chunk on a disk is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A part of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Pointer to the next chunk of the list. The hole is the end of the list.
    pub next: Pointer,
    /// Entries of this part.
    pub entries: Entries,
}

impl Chunk {
    /// Returns the number of sectors of a chunk of `extents` extents.
    pub fn sectors_of_extents(extents: usize) -> u32 {
        (HEADER + extents * EXTENT).div_ceil(SECTOR_SIZE) as u32
    }

    /// Encodes the chunk into its sectors.
    ///
    /// # Panics
    /// The chunk has no entries, or more than fit.
    pub fn encode(&self) -> Pages {
        let mut bytes = Vec::with_capacity(MAX_SIZE);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&[self.entries.kind(), 0]);
        bytes.extend_from_slice(&(self.entries.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&self.next.encode());
        bytes.resize(HEADER, 0);
        match &self.entries {
            Entries::Extents(extents) => {
                for extent in extents {
                    bytes.extend_from_slice(&extent.address().to_bits().to_le_bytes());
                    bytes.extend_from_slice(&extent.sectors.to_le_bytes());
                }
            }
            Entries::Blocks(pointers) | Entries::Chunks(pointers) => {
                (pointers.iter()).for_each(|pointer| bytes.extend_from_slice(&pointer.encode()));
            }
        }
        let fits = bytes.len() <= MAX_SIZE && !self.entries.is_empty();
        assert!(fits, "{} entries in a chunk", self.entries.len());
        bytes.resize(bytes.len().next_multiple_of(SECTOR_SIZE), 0);
        Pages::from_bytes(&bytes)
    }

    /// Returns the version of a chunk that a later program wrote. The chunk's checksum, in the
    /// pointer, was right.
    pub fn later_version(data: &Pages) -> Option<u16> {
        let bytes = data.to_vec();
        let mut reader = Reader(&bytes);
        let is_one = reader.take(8)? == MAGIC;
        reader.u16().filter(|version| is_one && *version > VERSION)
    }

    /// Decodes the chunk from its sectors. Returns `None` if this version of the format does not
    /// write such bytes.
    pub fn decode(data: &Pages) -> Option<Self> {
        if data.len() > MAX_SIZE {
            return None;
        }
        let bytes = data.to_vec();
        let mut reader = Reader(&bytes);
        if reader.take(8)? != MAGIC || reader.u16()? != VERSION {
            return None;
        }
        let [kind, zero] = reader.array()?;
        let count = usize::try_from(reader.u32()?).ok()?;
        let next = Pointer::decode(&reader.array()?)?;
        if zero != 0 || reader.array()? != [0; 16] || count == 0 {
            return None;
        }
        let entries = match kind {
            1 => Entries::Extents(extents(&mut reader, count)?),
            2 => Entries::Blocks(pointers(&mut reader, count)?),
            3 => Entries::Chunks(pointers(&mut reader, count)?),
            _ => return None,
        };
        let is_whole = bytes.len().is_multiple_of(SECTOR_SIZE);
        let is_valid = is_whole && reader.is_blank();
        is_valid.then_some(Self { next, entries })
    }
}

/// Reads extents. Whatever their number claims to be, memory is reserved only for as many as the
/// bytes hold.
fn extents(reader: &mut Reader<'_>, count: usize) -> Option<Vec<Extent>> {
    let mut bytes = Reader(reader.take(count.checked_mul(EXTENT)?)?);
    let mut extents = Vec::with_capacity(count);
    for _ in 0..count {
        let extent = Extent::at(Address::from_bits(bytes.u64()?), bytes.u32()?);
        if extent.sectors == 0 || extent.end() > Address::SECTORS {
            return None;
        }
        extents.push(extent);
    }
    Some(extents)
}

/// Reads pointers, in the way of [`extents`].
fn pointers(reader: &mut Reader<'_>, count: usize) -> Option<Vec<Pointer>> {
    let mut bytes = Reader(reader.take(count.checked_mul(Pointer::SIZE)?)?);
    let mut pointers = Vec::with_capacity(count);
    for _ in 0..count {
        let pointer = Pointer::decode(&bytes.array()?)?;
        if pointer.is_hole() {
            return None;
        }
        pointers.push(pointer);
    }
    Some(pointers)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::format::pointer::Second;
    use crate::format::{Algorithm, Compression, Epoch};

    fn pointer() -> impl Strategy<Value = Pointer> {
        (
            any::<u16>(),
            0..Address::SECTORS,
            1..=Pointer::MAX_SECTORS,
            any::<u128>(),
            prop::option::of(any::<u16>()),
        )
            .prop_map(|(vdev, sector, sectors, checksum, second)| {
                let once = Pointer {
                    address: Address::new(vdev, sector),
                    second: Second::NONE,
                    birth: Epoch(sector & Epoch::LAST.0),
                    sectors,
                    compression: Compression::Lz4,
                    algorithm: Algorithm::Xxh3,
                    checksum,
                };
                let second = second.filter(|other| *other != vdev);
                second.map_or(once, |other| once.doubled(Address::new(other, sector)))
            })
    }

    fn chunk() -> impl Strategy<Value = Chunk> {
        let extent =
            (any::<u16>(), 0..Address::SECTORS, 1..u32::MAX).prop_map(|(vdev, sector, sectors)| {
                Extent {
                    vdev,
                    sector,
                    sectors: u64::from(sectors).min(Address::SECTORS - sector) as u32,
                }
            });
        let count = |most| prop_oneof![1..=4_usize, 1..=most, Just(most)];
        let entries = prop_oneof![
            count(MAX_EXTENTS)
                .prop_flat_map(move |count| prop::collection::vec(extent.clone(), count))
                .prop_map(Entries::Extents),
            count(MAX_POINTERS)
                .prop_flat_map(|count| prop::collection::vec(pointer(), count))
                .prop_map(Entries::Blocks),
            (1..9_usize)
                .prop_flat_map(|count| prop::collection::vec(pointer(), count))
                .prop_map(Entries::Chunks),
        ];
        let next = prop_oneof![Just(Pointer::HOLE), pointer()];
        (next, entries).prop_map(|(next, entries)| Chunk { next, entries })
    }

    /// Generates lengths other than a chunk's own: whole sectors often, as they would be read.
    fn lengths() -> impl Strategy<Value = Option<usize>> {
        prop_oneof![
            Just(None),
            (1..=4_usize).prop_map(|sectors| Some(sectors * SECTOR_SIZE)),
            (0..=MAX_SIZE + 9).prop_map(Some),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn every_chunk_survives_the_disk(chunk in chunk()) {
            let data = chunk.encode();
            prop_assert!(data.len() % SECTOR_SIZE == 0 && data.len() <= MAX_SIZE);
            if let Entries::Extents(extents) = &chunk.entries {
                let sectors = Chunk::sectors_of_extents(extents.len());
                prop_assert_eq!(data.len(), sectors as usize * SECTOR_SIZE);
            }
            prop_assert_eq!(Chunk::decode(&data), Some(chunk));
        }

        /// A checkpoint writes the extents that it dropped in the place of the largest chunk, so
        /// more zeros may follow.
        #[test]
        fn what_decodes_encodes_to_the_same_bytes_and_zeros_may_follow(
            chunk in chunk(), at in 0..200_usize, byte in any::<u8>(), len in lengths(),
        ) {
            let mut bytes = chunk.encode().to_vec();
            bytes[at] = byte;
            bytes.resize(len.unwrap_or(bytes.len()), 0);
            if let Some(chunk) = Chunk::decode(&Pages::from_bytes(&bytes)) {
                let mut encoded = chunk.encode().to_vec();
                prop_assert!(encoded.len() <= bytes.len());
                encoded.resize(bytes.len(), 0);
                prop_assert_eq!(encoded, bytes);
            }
        }

        #[test]
        fn a_chunk_may_stand_in_the_place_of_a_larger_one(chunk in chunk(), sectors in 1..=4_usize) {
            let mut bytes = chunk.encode().to_vec();
            let room = bytes.len().max(sectors * SECTOR_SIZE);
            bytes.resize(room, 0);
            prop_assert_eq!(Chunk::decode(&Pages::from_bytes(&bytes)), Some(chunk.clone()));
            bytes[room - 1] ^= 1;
            prop_assert_ne!(Chunk::decode(&Pages::from_bytes(&bytes)), Some(chunk));
        }

        #[test]
        fn no_bytes_make_decoding_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), kind in 0..4_u8) {
            let mut bytes = bytes;
            prop_assert_eq!(Chunk::decode(&Pages::from_bytes(&bytes)), None);
            bytes.splice(0..0, [kind, 0]);
            bytes.splice(0..0, VERSION.to_le_bytes());
            bytes.splice(0..0, *MAGIC);
            prop_assert_eq!(Chunk::decode(&Pages::from_bytes(&bytes)), None);
        }
    }

    #[test]
    fn a_chunk_says_something() {
        let mut bytes = Chunk {
            next: Pointer::HOLE,
            entries: Entries::Extents(vec![Extent {
                vdev: 1,
                sector: 2,
                sectors: 3,
            }]),
        }
        .encode()
        .to_vec();
        bytes[12] = 0;
        bytes[64..76].fill(0);
        assert_eq!(Chunk::decode(&Pages::from_bytes(&bytes)), None);
    }
}
