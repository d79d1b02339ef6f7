//! The root of a checkpoint: the start from which all content of the checkpoint is found.
//!
//! A root is one sector in the label ring of every leaf. Little-endian:
//!
//! ```text
//!    0  magic "SANDROOT"                                8 bytes
//!    8  format version                                  u16
//!   10  number of manifest blocks                       u16
//!   12  zero                                            4 bytes
//!   16  pool guid                                       u64
//!   24  epoch of the checkpoint                         u64
//!   32  time, seconds since 1970                        u64
//!   40  sequence number of the last group in it         u64
//!   48  address of the first record after it            u64
//!   56  checksum of the last record in it               u128
//!   72  checksum of this sector, this field 0           u128   (keyed with the pool's secret)
//!   88  bytes of the manifest                           u64
//!   96  pointers to the manifest's blocks, 32 bytes each
//! ```

use super::bytes::Reader;
use super::pointer::{Address, Epoch, Pointer};
use super::record::{MAX_SEQ, PoolKey};
use super::{SECTOR_SIZE, VERSION};
use crate::checksum;

const MAGIC: &[u8; 8] = b"SANDROOT";
const HEADER: usize = 96;
const CHECKSUM: std::ops::Range<usize> = 72..88;

/// A checkpoint, as the label ring knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// Epoch of the checkpoint: it contains the blocks that were born up to this epoch.
    pub epoch: Epoch,
    /// Time at which it was made, in seconds since 1970.
    pub time_s: u64,
    /// Number of the last group of the log in the checkpoint.
    pub seq: u64,
    /// Address of the next record, if there is one.
    pub log: Address,
    /// Checksum of the last record in the checkpoint. The first record after it repeats this
    /// checksum.
    pub previous: u128,
    /// Length of the manifest in bytes.
    pub manifest_len: u64,
    /// Pointers to the manifest's blocks, in order.
    pub manifest: Vec<Pointer>,
}

impl Root {
    /// Most blocks that a manifest may have.
    pub const MAX_BLOCKS: usize = (SECTOR_SIZE - HEADER) / Pointer::SIZE;

    /// Encodes the root into one sector.
    ///
    /// # Panics
    /// The manifest has more than [`Root::MAX_BLOCKS`] blocks.
    pub fn encode(&self, key: PoolKey) -> [u8; SECTOR_SIZE] {
        assert!(
            self.manifest.len() <= Self::MAX_BLOCKS,
            "too long a manifest"
        );
        let mut bytes = Vec::with_capacity(SECTOR_SIZE);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&(self.manifest.len() as u16).to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        for number in [
            key.guid,
            self.epoch.0,
            self.time_s,
            self.seq,
            self.log.to_bits(),
        ] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&self.previous.to_le_bytes());
        bytes.extend_from_slice(&[0; 16]);
        bytes.extend_from_slice(&self.manifest_len.to_le_bytes());
        for pointer in &self.manifest {
            bytes.extend_from_slice(&pointer.encode());
        }
        let mut sector = [0; SECTOR_SIZE];
        sector[..bytes.len()].copy_from_slice(&bytes);
        let checksum = checksum::keyed(key.secret, &sector);
        sector[CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
        sector
    }

    /// Returns the version of the root in a sector, if a later program wrote it for this pool.
    pub fn later_version(sector: &[u8], key: PoolKey) -> Option<u16> {
        super::later_version(sector, MAGIC, VERSION, key)
    }

    /// Decodes the root in a sector. Returns `None` if it is torn, damaged, of another pool or of a
    /// later version.
    pub fn decode(sector: &[u8], key: PoolKey) -> Option<Self> {
        if !sector.starts_with(MAGIC) {
            return None;
        }
        let mut blank: [u8; SECTOR_SIZE] = sector.try_into().ok()?;
        let stored = u128::from_le_bytes(blank[CHECKSUM].try_into().ok()?);
        blank[CHECKSUM].fill(0);
        let mut reader = Reader(sector);
        let is_root = reader.take(8)? == MAGIC && reader.u16()? == VERSION;
        if !is_root || checksum::keyed(key.secret, &blank) != stored {
            return None;
        }
        let count = usize::from(reader.u16()?);
        let is_ours = reader.u32()? == 0 && reader.u64()? == key.guid;
        let (epoch, time_s, seq) = (Epoch(reader.u64()?), reader.u64()?, reader.u64()?);
        let log = Address::from_bits(reader.u64()?);
        let previous = reader.u128()?;
        let _checksum = reader.u128()?;
        let manifest_len = reader.u64()?;
        let pointers = (0..count).map(|_| Pointer::decode(&reader.array()?));
        let manifest = pointers.collect::<Option<Vec<_>>>()?;
        let is_counted = seq < MAX_SEQ && epoch < Epoch::LAST;
        let is_valid = is_ours && is_counted && reader.is_blank();
        is_valid.then_some(Self {
            epoch,
            time_s,
            seq,
            log,
            previous,
            manifest_len,
            manifest,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::format::pointer::Second;
    use crate::format::{Algorithm, Compression};

    const KEY: PoolKey = PoolKey { guid: 9, secret: 8 };

    fn root(blocks: u16, previous: u128) -> Root {
        let pointer = |number| Pointer {
            address: Address::new(2, number),
            second: Second::NONE,
            birth: Epoch(3),
            sectors: 1,
            compression: Compression::Off,
            algorithm: Algorithm::Xxh3,
            checksum: previous ^ u128::from(number),
        };
        Root {
            epoch: Epoch(5),
            time_s: 1_700_000_000,
            seq: 77,
            log: Address::new(1, 99),
            previous,
            manifest_len: 1234,
            manifest: (0..u64::from(blocks))
                .map(pointer)
                .map(|of| match of.address.sector() % 2 {
                    0 => of,
                    _ => of.doubled(Address::new(3, 1)),
                })
                .collect(),
        }
    }

    proptest! {
        #[test]
        fn every_root_survives_the_disk(blocks in 0..=Root::MAX_BLOCKS as u16, previous in any::<u128>()) {
            let root = root(blocks, previous);
            prop_assert_eq!(Root::decode(&root.encode(KEY), KEY), Some(root));
        }

        #[test]
        fn one_wrong_byte_is_found(blocks in 0..9_u16, at in 0..SECTOR_SIZE, flip in 1_u8..) {
            let mut sector = root(blocks, 1).encode(KEY);
            sector[at] ^= flip;
            prop_assert_eq!(Root::decode(&sector, KEY), None);
        }
    }

    #[test]
    fn another_pools_root_is_not_ours() {
        let sector = root(1, 1).encode(KEY);
        assert_eq!(Root::decode(&sector, PoolKey { guid: 1, ..KEY }), None);
        assert_eq!(Root::decode(&sector, PoolKey { secret: 1, ..KEY }), None);
    }
}
