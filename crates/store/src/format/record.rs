//! A record of the log: it makes one group of changes durable.
//!
//! A record is one sector. Its entries point to the data of its group, which as a rule lies
//! directly behind the record. Little-endian:
//!
//! ```text
//!    0  magic "SANDLOGR"                        8 bytes
//!    8  format version: 2 with a signpost, else 1  u16
//!   10  number of entries                       u16
//!   12  flags (bit 0: a copy on a log vdev)     u16
//!   14  its signpost lies so many sectors behind  i16   (before: negative; 0: it has none)
//!   16  pool guid                               u64
//!   24  sequence number                         u64
//!   32  epoch in which its blocks are born      u64
//!   40  sequence number known to be durable     u64
//!   48  address of the next record              u64
//!   56  checksum of the record before           u128
//!   72  checksum of this record, this field 0   u128   (keyed with the pool's secret)
//!   88  of a copy: what was promised by then    u64    (else zero)
//!   96  entries
//!
//!  entry: u8 kind, 3 bytes zero, u32 dataset, then
//!    1 map        u64 block, 32 bytes pointer
//!    2 clear      u64 first block, u64 number of blocks
//!    3 operation  u64 length, that many bytes, zeros up to a multiple of 8
//!    4 stored     u64 length, 32 bytes pointer: an operation that is too long for a record
//! ```
//!
//! The checksum is keyed, so that a guest cannot write a block that would pass for a record.
//!
//! A *signpost* is a second copy of the record's sector, near the record. It is written if the log
//! goes on far away behind the record.
//!
//! A record without entries is a *mark*. An opening of the pool wrote it where the opening found
//! the end of the log.
//!
//! A *copy* lies on a log vdev and is the record with its data inline: the payloads of its pointers
//! follow it in the order of its entries. A copy belongs to no chain of its own. Made a plain
//! record again ([`Record::without_copy`]), it is, byte for byte, the record that lies or should
//! lie in the chain.

use pages::Pages;

use super::bytes::Reader;
use super::pointer::{Address, Epoch, Pointer};
use super::{DatasetId, NEWEST, SECTOR_SIZE, VERSION};
use crate::checksum;

const MAGIC: &[u8; 8] = b"SANDLOGR";
const HEADER: usize = 96;
const CHECKSUM: std::ops::Range<usize> = 72..88;
const PROMISED: usize = 88;
const COPY: u16 = 1;
/// Bytes of the shortest entry.
const MIN_ENTRY: usize = 16;

/// Bound above all sequence numbers. Nobody ever reaches it, so there is always a next number.
pub const MAX_SEQ: u64 = 1 << 62;
/// Bytes for entries in a record.
pub const ROOM: usize = SECTOR_SIZE - HEADER;
/// Length of the longest operation that is kept in a record itself.
pub const MAX_OPERATION: usize = 2048;

/// Key that all records of a pool have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolKey {
    /// Guid of the pool.
    pub guid: u64,
    /// Secret with which records' checksums are keyed. Only the labels hold it.
    pub secret: u64,
}

/// One change of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A block of a volume lies at the pointer's place now.
    Map {
        /// Volume of the block.
        dataset: DatasetId,
        /// Number of the block, in units of volblocksize.
        block: u64,
        /// Pointer to the block, never the hole.
        pointer: Pointer,
    },
    /// Blocks of a volume read as zeros now.
    Clear {
        /// Volume of the blocks.
        dataset: DatasetId,
        /// First block.
        block: u64,
        /// Number of blocks.
        count: u64,
    },
    /// An operation changed a dataset as a whole. Only the catalogue understands the bytes.
    Operation(Vec<u8>),
    /// An operation in a block of its own changed a dataset as a whole.
    StoredOperation {
        /// Bytes of the operation.
        len: u64,
        /// Pointer to the operation's block.
        pointer: Pointer,
    },
}

impl Entry {
    /// Returns the bytes of the entry in a record.
    pub fn size(&self) -> usize {
        match self {
            Self::Map { .. } => 48,
            Self::Clear { .. } => 24,
            Self::Operation(bytes) => 16 + bytes.len().next_multiple_of(8),
            Self::StoredOperation { .. } => 48,
        }
    }
}

/// A record as the program works with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Sequence number. It counts up from record to record, for the life of the pool.
    pub seq: u64,
    /// Epoch in which the blocks of this group are born.
    pub epoch: Epoch,
    /// Number up to which all groups were durable when this record was written.
    pub durable_seq: u64,
    /// Address at which the next record will lie.
    pub next: Address,
    /// Checksum of the record before.
    pub previous: u128,
    /// Sectors by which the record's signpost lies behind it, negative if before it; 0 if there is
    /// none.
    pub signpost: i16,
    /// Mark of a copy on a log vdev: the number up to which all groups were durable when the copy
    /// was written, there or in the chain. `None` marks the record in the chain itself.
    pub copy: Option<u64>,
    /// Changes, in the order in which they take effect.
    pub entries: Vec<Entry>,
}

impl Record {
    /// Encodes the record. Returns its sector and its checksum.
    ///
    /// # Panics
    /// The entries need more than [`ROOM`].
    pub fn encode(&self, key: PoolKey) -> (Pages, u128) {
        let mut bytes = Vec::with_capacity(SECTOR_SIZE);
        bytes.extend_from_slice(MAGIC);
        let numbers = [
            version(self.signpost),
            self.entries.len() as u16,
            if self.copy.is_some() { COPY } else { 0 },
            self.signpost.cast_unsigned(),
        ];
        for number in numbers {
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
        bytes.extend_from_slice(&[0; 16]);
        bytes.extend_from_slice(&self.copy.unwrap_or(0).to_le_bytes());
        for entry in &self.entries {
            encode_entry(entry, &mut bytes);
        }
        assert!(bytes.len() <= SECTOR_SIZE, "entries beyond a record");
        bytes.resize(SECTOR_SIZE, 0);
        let checksum = checksum::keyed(key.secret, &bytes);
        bytes[CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
        (Pages::from_bytes(&bytes), checksum)
    }

    /// Returns the version of the record in a sector, if a later program wrote it for this pool.
    pub fn later_version(sector: &[u8], key: PoolKey) -> Option<u16> {
        super::later_version(sector, MAGIC, NEWEST, key)
    }

    /// Decodes the record in a sector. Returns it with its checksum, or `None` if it is torn,
    /// damaged or another pool's.
    pub fn decode(sector: &[u8], key: PoolKey) -> Option<(Self, u128)> {
        if !sector.starts_with(MAGIC) {
            return None;
        }
        let mut blank: [u8; SECTOR_SIZE] = sector.try_into().ok()?;
        let mut reader = Reader(sector);
        let is_magic = reader.take(8)? == MAGIC;
        let its_version = reader.u16()?;
        let stored = u128::from_le_bytes(blank[CHECKSUM].try_into().ok()?);
        blank[CHECKSUM].fill(0);
        if !is_magic || checksum::keyed(key.secret, &blank) != stored {
            return None;
        }
        let (count, flags, signpost) = (reader.u16()?, reader.u16()?, reader.u16()?);
        let signpost = signpost.cast_signed();
        let is_known = its_version == version(signpost);
        let is_ours = reader.u64()? == key.guid;
        let record = Self {
            seq: reader.u64()?,
            epoch: Epoch(reader.u64()?),
            durable_seq: reader.u64()?,
            next: Address::from_bits(reader.u64()?),
            previous: reader.u128()?,
            signpost,
            copy: copy_of(flags, sector)?,
            entries: decode_entries(sector.get(HEADER..)?, count)?,
        };
        let is_counted = record.seq < MAX_SEQ && record.epoch < Epoch::LAST;
        let is_valid = is_known && is_ours && is_counted;
        is_valid.then_some((record, stored))
    }

    /// Reports whether an opening wrote the record at the end of the log that it found. The opening
    /// gave up any other record that fits in this place.
    pub fn is_mark(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the address of the record's signpost, if the record has one. `place` is the record's
    /// own address.
    pub fn signpost_at(&self, place: Address) -> Option<Address> {
        let sector = place.sector().checked_add_signed(self.signpost.into())?;
        let is_there = self.signpost != 0 && sector < Address::SECTORS;
        is_there.then(|| Address::new(place.vdev(), sector))
    }

    /// Returns the record as it lies or should lie in the chain.
    pub fn without_copy(mut self) -> Self {
        self.copy = None;
        self
    }
}

/// Returns the version of a record with this value of `signpost`.
fn version(signpost: i16) -> u16 {
    if signpost == 0 { VERSION } else { NEWEST }
}

/// Decodes the flags of a record. Returns `None` if they are invalid.
fn copy_of(flags: u16, sector: &[u8]) -> Option<Option<u64>> {
    let promised = Reader(sector.get(PROMISED..HEADER)?).u64()?;
    match flags {
        0 if promised == 0 => Some(None),
        COPY => Some(Some(promised)),
        _ => None,
    }
}

fn encode_entry(entry: &Entry, bytes: &mut Vec<u8>) {
    let (kind, dataset) = match entry {
        Entry::Map { dataset, .. } => (1_u32, dataset.0),
        Entry::Clear { dataset, .. } => (2, dataset.0),
        Entry::Operation(_) => (3, 0),
        Entry::StoredOperation { .. } => (4, 0),
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
        Entry::StoredOperation { len, pointer } => {
            bytes.extend_from_slice(&len.to_le_bytes());
            bytes.extend_from_slice(&pointer.encode());
        }
    }
}

fn decode_entries(bytes: &[u8], count: u16) -> Option<Vec<Entry>> {
    let mut reader = Reader(bytes);
    let mut entries = Vec::with_capacity(usize::from(count).min(bytes.len() / MIN_ENTRY));
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
            4 if dataset.0 == 0 => {
                let len = reader.u64()?;
                let pointer = Pointer::decode(&reader.array()?)?;
                let room = u64::from(pointer.sectors) * SECTOR_SIZE as u64;
                if pointer.is_hole() || len == 0 || len > room {
                    return None;
                }
                Entry::StoredOperation { len, pointer }
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
    use crate::format::pointer::Second;
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
            any::<bool>(),
        )
            .prop_map(|(dataset, block, sector, checksum, is_double)| {
                let once = Pointer {
                    address: Address::new(1, sector),
                    compression: Compression::Lz4,
                    checksum,
                    ..stored()
                };
                let twice = once.doubled(Address::new(2, sector / 2));
                Entry::Map {
                    dataset: DatasetId(dataset),
                    block,
                    pointer: if is_double { twice } else { once },
                }
            });
        let clear =
            (any::<u32>(), any::<u32>(), any::<u32>()).prop_map(|(dataset, block, count)| {
                Entry::Clear {
                    dataset: DatasetId(dataset),
                    block: block.into(),
                    count: count.into(),
                }
            });
        let operation = prop::collection::vec(any::<u8>(), 0..90).prop_map(Entry::Operation);
        let stored = (1..=4_u64 * SECTOR_SIZE as u64).prop_map(|len| Entry::StoredOperation {
            len,
            pointer: stored(),
        });
        prop_oneof![map, clear, operation, stored]
    }

    fn stored() -> Pointer {
        Pointer {
            address: Address::new(0, 9),
            second: Second::NONE,
            birth: Epoch(7),
            sectors: 4,
            compression: Compression::Off,
            algorithm: Algorithm::Xxh3,
            checksum: 1,
        }
    }

    fn any_record() -> impl Strategy<Value = Record> {
        let numbers = (0..MAX_SEQ, 0..Epoch::LAST.0, any::<u64>(), any::<u64>());
        let entries = prop::collection::vec(any_entry(), 0..=40);
        let places = (any::<Option<u64>>(), any::<i16>());
        (numbers, any::<u128>(), places, entries).prop_map(
            |((seq, epoch, durable_seq, next), previous, (copy, signpost), entries)| Record {
                seq,
                epoch: Epoch(epoch),
                durable_seq,
                next: Address::from_bits(next),
                previous,
                signpost,
                copy,
                entries,
            },
        )
    }

    proptest! {
        #[test]
        fn every_record_survives_the_disk(record in any_record()) {
            let (pages, checksum) = record.encode(KEY);
            prop_assert_eq!(Record::decode(&pages.to_vec(), KEY), Some((record, checksum)));
        }

        #[test]
        fn one_wrong_byte_is_found(record in any_record(), at in any::<prop::sample::Index>(), flip in 1_u8..) {
            let mut bytes = record.encode(KEY).0.to_vec();
            let at = at.index(bytes.len());
            bytes[at] ^= flip;
            prop_assert_eq!(Record::decode(&bytes, KEY), None);
        }

        #[test]
        fn any_entries_are_borne(entries in prop::collection::vec(any::<u8>(), ROOM), kinds in 0..5_u8, count: u16) {
            let mut bytes = [vec![0; HEADER], entries].concat();
            bytes[..8].copy_from_slice(MAGIC);
            bytes[8..10].copy_from_slice(&VERSION.to_le_bytes());
            bytes[10..12].copy_from_slice(&count.to_le_bytes());
            bytes[16..24].copy_from_slice(&KEY.guid.to_le_bytes());
            bytes[HEADER..HEADER + 4].copy_from_slice(&[kinds, 0, 0, 0]);
            let checksum = checksum::keyed(KEY.secret, &bytes);
            bytes[CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
            let _ = Record::decode(&bytes, KEY);
        }
    }

    proptest! {
        #[test]
        fn a_copy_leads_back_to_the_record_of_the_chain(record in any_record(), promised: u64) {
            let record = record.without_copy();
            let (in_chain, checksum) = record.encode(KEY);
            let copy = Record { copy: Some(promised), ..record };
            let (copy, _) = Record::decode(&copy.encode(KEY).0.to_vec(), KEY).expect("a copy");
            prop_assert_eq!(copy.copy, Some(promised));
            let (again, same) = copy.without_copy().encode(KEY);
            prop_assert_eq!((again.to_vec(), same), (in_chain.to_vec(), checksum));
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
            signpost: 0,
            copy: None,
            entries: Vec::new(),
        };
        let forged = PoolKey { secret: 43, ..KEY };
        assert_eq!(Record::decode(&record.encode(forged).0.to_vec(), KEY), None);
    }

    #[test]
    fn a_number_without_a_next_one_is_no_record() {
        let record = Record {
            seq: MAX_SEQ,
            epoch: Epoch(1),
            durable_seq: 0,
            next: Address::new(0, 1),
            previous: 0,
            signpost: 0,
            copy: None,
            entries: Vec::new(),
        };
        assert_eq!(Record::decode(&record.encode(KEY).0.to_vec(), KEY), None);
    }

    #[test]
    fn a_signpost_lies_on_the_same_vdev_or_nowhere() {
        let place = Address::new(3, 100);
        let at = |signpost: i16| {
            let record = Record {
                signpost,
                ..plain(Vec::new())
            };
            record.signpost_at(place)
        };
        assert_eq!(at(0), None);
        assert_eq!(at(-100), Some(Address::new(3, 0)));
        assert_eq!(at(7), Some(Address::new(3, 107)));
        assert_eq!(at(-101), None, "there is nothing before the first sector");
    }

    #[test]
    fn a_sector_describes_eighty_blocks() {
        assert_eq!(ROOM / 48, 83);
    }

    fn plain(entries: Vec<Entry>) -> Record {
        Record {
            seq: 1,
            epoch: Epoch(1),
            durable_seq: 0,
            next: Address::new(0, 1),
            previous: 0,
            signpost: 0,
            copy: None,
            entries,
        }
    }

    fn sealed(mut sector: Vec<u8>) -> Vec<u8> {
        sector[CHECKSUM].fill(0);
        let checksum = checksum::keyed(KEY.secret, &sector);
        sector[CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
        sector
    }

    #[test]
    fn a_stored_operation_that_is_longer_than_its_block_is_refused() {
        let pointer = stored();
        let room = 4 * SECTOR_SIZE as u64;
        for (len, is_one) in [
            (0, false),
            (1, true),
            (room, true),
            (room + 1, false),
            (u64::MAX, false),
        ] {
            let record = plain(vec![Entry::StoredOperation { len, pointer }]);
            let decoded = Record::decode(&record.encode(KEY).0.to_vec(), KEY);
            assert_eq!(decoded.is_some(), is_one, "{len}");
        }
    }

    #[test]
    fn what_is_called_zero_is_zero() {
        let sector = plain(Vec::new()).encode(KEY).0.to_vec();
        assert!(Record::decode(&sector, KEY).is_some());
        for at in [14, 15, 88, 95, HEADER, SECTOR_SIZE - 1] {
            let mut sector = sector.clone();
            sector[at] = 1;
            assert_eq!(Record::decode(&sealed(sector), KEY), None, "{at}");
        }
    }

    #[test]
    fn a_record_of_a_later_version_is_told_from_none() {
        let mut sector = plain(Vec::new()).encode(KEY).0.to_vec();
        assert_eq!(Record::later_version(&sector, KEY), None);
        sector[8] = 3;
        assert_eq!(Record::later_version(&sector, KEY), None, "not sealed");
        let sector = sealed(sector);
        assert_eq!(Record::decode(&sector, KEY), None);
        assert_eq!(Record::later_version(&sector, KEY), Some(3));
        let other = PoolKey { secret: 43, ..KEY };
        assert_eq!(
            Record::later_version(&sector, other),
            None,
            "a guest wrote it"
        );
    }
}
