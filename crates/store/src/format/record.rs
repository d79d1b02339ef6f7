//! A record of the log: what makes one group of changes durable.
//!
//! A record fills whole sectors, mostly one. The data of its group lies where its entries point,
//! as a rule directly behind it. Little-endian:
//!
//! ```text
//!    0  magic "SANDLOGR"                        8 bytes
//!    8  format version                          u16
//!   10  sectors of this record                  u16
//!   12  number of entries                       u16
//!   14  flags (bit 0: data follows inline)      u16
//!   16  pool guid                               u64
//!   24  sequence number                         u64
//!   32  epoch in which its blocks are born      u64
//!   40  sequence number known to be durable     u64
//!   48  address of the next record              u64
//!   56  checksum of the record before           u128
//!   72  checksum of this record, this field 0   u128   (keyed with the pool's secret)
//!   88  zero                                    8 bytes
//!   96  entries
//!
//!  entry: u8 kind, 3 bytes zero, u32 dataset, then
//!    1 map        u64 block, 32 bytes pointer
//!    2 clear      u64 first block, u64 number of blocks
//!    3 operation  u32 length, u32 zero, that many bytes, zeros up to a multiple of 8
//! ```
//!
//! The checksum is keyed so that a guest cannot write a block that would pass for a record.

use pages::{Pages, PagesMut};

use super::bytes::Reader;
use super::pointer::{Address, Epoch, Pointer};
use super::{DatasetId, SECTOR_SIZE, VERSION};
use crate::checksum;

const MAGIC: &[u8; 8] = b"SANDLOGR";
const HEADER: usize = 96;
const CHECKSUM: std::ops::Range<usize> = 72..88;
const INLINE: u16 = 1;

/// The sectors of the longest record.
pub const MAX_RECORD_SECTORS: u16 = 256;

/// What all records of a pool have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolKey {
    /// The pool's guid.
    pub guid: u64,
    /// What records' checksums are keyed with; known to the labels only.
    pub secret: u64,
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A block of a volume lies there now.
    Map {
        /// The volume.
        dataset: DatasetId,
        /// Its number, in units of volblocksize.
        block: u64,
        /// Never the hole.
        pointer: Pointer,
    },
    /// Blocks of a volume read as zeros now.
    Clear {
        /// The volume.
        dataset: DatasetId,
        /// The first one.
        block: u64,
        /// How many.
        count: u64,
    },
    /// Something happened to a dataset as a whole; the bytes are the catalogue's business.
    Operation(Vec<u8>),
}

impl Entry {
    /// Bytes in a record.
    pub fn size(&self) -> usize {
        match self {
            Self::Map { .. } => 48,
            Self::Clear { .. } => 24,
            Self::Operation(bytes) => 16 + bytes.len().next_multiple_of(8),
        }
    }
}

/// A record as it is worked with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Counts up from record to record, for the life of the pool.
    pub seq: u64,
    /// The epoch in which the blocks of this group are born.
    pub epoch: Epoch,
    /// All groups up to this one were durable when this record was written.
    pub durable_seq: u64,
    /// Where the next record will lie.
    pub next: Address,
    /// The checksum of the record before.
    pub previous: u128,
    /// Whether the data of the map entries follows the record, in their order.
    pub is_inline: bool,
    /// The changes, in the order in which they take effect.
    pub entries: Vec<Entry>,
}

impl Record {
    /// Bytes that are left for entries in a record of `sectors`.
    pub const fn room(sectors: u16) -> usize {
        sectors as usize * SECTOR_SIZE - HEADER
    }

    /// The sectors that it takes.
    pub fn sectors(&self) -> u16 {
        let entries: usize = self.entries.iter().map(Entry::size).sum();
        (HEADER + entries).div_ceil(SECTOR_SIZE) as u16
    }

    /// Its bytes, in whole sectors, and its checksum.
    ///
    /// # Panics
    /// Where the entries need more than [`MAX_RECORD_SECTORS`].
    pub fn encode(&self, key: PoolKey) -> (Pages, u128) {
        let sectors = self.sectors();
        assert!(
            sectors <= MAX_RECORD_SECTORS,
            "a record of {sectors} sectors"
        );
        let mut bytes = Vec::with_capacity(usize::from(sectors) * SECTOR_SIZE);
        bytes.extend_from_slice(MAGIC);
        for number in [
            VERSION,
            sectors,
            self.entries.len() as u16,
            u16::from(self.is_inline),
        ] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        for number in [
            key.guid,
            self.seq,
            self.epoch.0,
            self.durable_seq,
            self.next.to_bits(),
        ] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&self.previous.to_le_bytes());
        bytes.resize(HEADER, 0);
        for entry in &self.entries {
            encode_entry(entry, &mut bytes);
        }
        bytes.resize(usize::from(sectors) * SECTOR_SIZE, 0);
        let checksum = checksum::keyed(key.secret, &bytes);
        bytes[CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
        let mut pages = PagesMut::allocate(bytes.len());
        pages.copy_from(0, &bytes);
        (pages.freeze(), checksum)
    }

    /// How many sectors the record that begins with this one claims to have, so that the rest can be
    /// read; `None` where no record begins here.
    pub fn claimed_sectors(first: &[u8], key: PoolKey) -> Option<u16> {
        let mut reader = Reader(first);
        let is_record = reader.take(8)? == MAGIC && reader.u16()? == VERSION;
        let sectors = reader.u16()?;
        let _entries_and_flags = reader.u32()?;
        let is_ours = is_record && reader.u64()? == key.guid;
        (is_ours && (1..=MAX_RECORD_SECTORS).contains(&sectors)).then_some(sectors)
    }

    /// The record in these bytes and its checksum; `None` where it is torn, damaged or another pool's.
    pub fn decode(bytes: &[u8], key: PoolKey) -> Option<(Self, u128)> {
        let sectors = Self::claimed_sectors(bytes, key)?;
        if bytes.len() != usize::from(sectors) * SECTOR_SIZE {
            return None;
        }
        let stored = u128::from_le_bytes(bytes[CHECKSUM].try_into().ok()?);
        let mut blank = bytes.to_vec();
        blank[CHECKSUM].fill(0);
        if checksum::keyed(key.secret, &blank) != stored {
            return None;
        }
        let mut reader = Reader(&bytes[12..]);
        let (count, flags) = (reader.u16()?, reader.u16()?);
        let _guid = reader.u64()?;
        let record = Self {
            seq: reader.u64()?,
            epoch: Epoch(reader.u64()?),
            durable_seq: reader.u64()?,
            next: Address::from_bits(reader.u64()?),
            previous: reader.u128()?,
            is_inline: flags == INLINE,
            entries: decode_entries(bytes.get(HEADER..)?, count)?,
        };
        (flags <= INLINE && record.epoch <= Epoch::LAST).then_some((record, stored))
    }
}

fn encode_entry(entry: &Entry, bytes: &mut Vec<u8>) {
    let (kind, dataset) = match entry {
        Entry::Map { dataset, .. } => (1_u32, dataset.0),
        Entry::Clear { dataset, .. } => (2, dataset.0),
        Entry::Operation(_) => (3, 0),
    };
    bytes.extend_from_slice(&kind.to_le_bytes());
    bytes.extend_from_slice(&dataset.to_le_bytes());
    match entry {
        Entry::Map { block, pointer, .. } => {
            bytes.extend_from_slice(&block.to_le_bytes());
            bytes.extend_from_slice(&pointer.encode());
        }
        Entry::Clear { block, count, .. } => {
            bytes.extend_from_slice(&block.to_le_bytes());
            bytes.extend_from_slice(&count.to_le_bytes());
        }
        Entry::Operation(operation) => {
            bytes.extend_from_slice(&(operation.len() as u64).to_le_bytes());
            bytes.extend_from_slice(operation);
            bytes.resize(bytes.len().next_multiple_of(8), 0);
        }
    }
}

fn decode_entries(bytes: &[u8], count: u16) -> Option<Vec<Entry>> {
    let mut reader = Reader(bytes);
    let mut entries = Vec::new();
    for _ in 0..count {
        let kind = reader.u32()?;
        let dataset = DatasetId(reader.u32()?);
        entries.push(match kind {
            1 => {
                let block = reader.u64()?;
                let pointer = Pointer::decode(&reader.array()?)?;
                if pointer.is_hole() {
                    return None;
                }
                Entry::Map {
                    dataset,
                    block,
                    pointer,
                }
            }
            2 => {
                let (block, count) = (reader.u64()?, reader.u64()?);
                block.checked_add(count)?;
                Entry::Clear {
                    dataset,
                    block,
                    count,
                }
            }
            3 if dataset.0 == 0 => {
                let len = usize::try_from(reader.u64()?).ok()?;
                let padded = len.checked_next_multiple_of(8)?;
                let operation = reader.take(padded)?;
                if !Reader(&operation[len..]).is_blank() {
                    return None;
                }
                Entry::Operation(operation[..len].to_vec())
            }
            _ => return None,
        });
    }
    reader.is_blank().then_some(entries)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::format::{Algorithm, Compression};

    const KEY: PoolKey = PoolKey {
        guid: 0x1122_3344_5566_7788,
        secret: 42,
    };

    fn any_entry() -> impl Strategy<Value = Entry> {
        let map = (
            any::<u32>(),
            any::<u64>(),
            0..Address::SECTORS,
            any::<u128>(),
        )
            .prop_map(|(dataset, block, sector, checksum)| Entry::Map {
                dataset: DatasetId(dataset),
                block,
                pointer: Pointer {
                    address: Address::new(1, sector),
                    birth: Epoch(7),
                    sectors: 4,
                    compression: Compression::Lz4,
                    algorithm: Algorithm::Xxh3,
                    checksum,
                },
            });
        let clear =
            (any::<u32>(), any::<u32>(), any::<u32>()).prop_map(|(dataset, block, count)| {
                Entry::Clear {
                    dataset: DatasetId(dataset),
                    block: block.into(),
                    count: count.into(),
                }
            });
        let operation = prop::collection::vec(any::<u8>(), 0..300).prop_map(Entry::Operation);
        prop_oneof![map, clear, operation]
    }

    fn any_record() -> impl Strategy<Value = Record> {
        let numbers = (any::<u64>(), 0..=Epoch::LAST.0, any::<u64>(), any::<u64>());
        let entries = prop::collection::vec(any_entry(), 0..120);
        (numbers, any::<u128>(), any::<bool>(), entries).prop_map(
            |((seq, epoch, durable_seq, next), previous, is_inline, entries)| Record {
                seq,
                epoch: Epoch(epoch),
                durable_seq,
                next: Address::from_bits(next),
                previous,
                is_inline,
                entries,
            },
        )
    }

    proptest! {
        #[test]
        fn every_record_survives_the_disk(record in any_record()) {
            let (pages, checksum) = record.encode(KEY);
            let bytes = pages.to_vec();
            prop_assert_eq!(Record::claimed_sectors(&bytes, KEY), Some(record.sectors()));
            prop_assert_eq!(Record::decode(&bytes, KEY), Some((record, checksum)));
        }

        #[test]
        fn one_wrong_byte_is_found(record in any_record(), at in any::<prop::sample::Index>(), flip in 1_u8..) {
            let mut bytes = record.encode(KEY).0.to_vec();
            let at = at.index(bytes.len());
            bytes[at] ^= flip;
            prop_assert_eq!(Record::decode(&bytes, KEY), None);
        }

        #[test]
        fn any_bytes_are_borne(mut bytes in prop::collection::vec(any::<u8>(), 0..9000), whole in any::<bool>()) {
            if whole && bytes.len() >= 96 {
                // Past the checksum: entries of any kind.
                bytes.resize(SECTOR_SIZE, 0);
                bytes[..8].copy_from_slice(MAGIC);
                bytes[8..12].copy_from_slice(&[VERSION as u8, 0, 1, 0]);
                bytes[16..24].copy_from_slice(&KEY.guid.to_le_bytes());
                bytes[CHECKSUM].fill(0);
                let checksum = checksum::keyed(KEY.secret, &bytes);
                bytes[CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
            }
            let _ = Record::decode(&bytes, KEY);
        }
    }

    #[test]
    fn who_does_not_know_the_secret_makes_no_record() {
        let record = Record {
            seq: 1,
            epoch: Epoch(1),
            durable_seq: 0,
            next: Address::new(0, 1),
            previous: 0,
            is_inline: false,
            entries: Vec::new(),
        };
        let forged = PoolKey { secret: 43, ..KEY };
        assert_eq!(Record::decode(&record.encode(forged).0.to_vec(), KEY), None);
    }

    #[test]
    fn a_sector_describes_eighty_blocks() {
        assert_eq!(Record::room(1) / 48, 83);
    }
}
