//! The label of a leaf: the leaf's guid, its pool and the pool's configuration, and the ring of
//! checkpoints' roots.
//!
//! A leaf has four copies, two at its front and two at its end, each of 256 KiB:
//!
//! ```text
//!       0  magic "SANDLABL"                                    8 bytes
//!       8  format version; 40..64 mean the same in all of them u16
//!      10  zero                                                6 bytes
//!      16  pool guid                                           u64
//!      24  leaf guid                                           u64
//!      32  generation of the configuration                     u64
//!      40  bytes of the configuration                          u64
//!      48  checksum of bytes 0..96 and the configuration,
//!          this field 0                                        u128
//!      64  zero                                                32 bytes
//!      96  the configuration, JSON
//! 126976  activity: who has the pool open                      one sector
//! 131072  ring of 32 sectors: the root of epoch E lies in slot E mod 32
//! ```
//!
//! The copies of one end are never written together with those of the other end. So a torn label
//! leaves an intact one.

use pages::Pages;

use super::bytes::Reader;
use super::{SECTOR_SIZE, VERSION};
use crate::checksum;

const MAGIC: &[u8; 8] = b"SANDLABL";
const HEADER: usize = 96;
const LEN: std::ops::Range<usize> = 40..48;
const CHECKSUM: std::ops::Range<usize> = 48..64;

/// Bytes of one copy.
pub const LABEL_SIZE: usize = 256 << 10;
/// Offset in a copy of the activity, which says which host has the pool open. It is one sector,
/// which the label's checksum does not cover.
pub const ACTIVITY_OFFSET: usize = RING_OFFSET - SECTOR_SIZE;
/// Offset of the ring in a copy.
pub const RING_OFFSET: usize = 128 << 10;
/// Roots in the ring.
pub const RING_SLOTS: u64 = 32;
/// Number of copies on a leaf.
pub const COPIES: u64 = 4;

/// Content of a label, without its ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// Guid of the pool.
    pub pool: u64,
    /// Guid of the leaf that holds the label.
    pub leaf: u64,
    /// Generation of the configuration. It counts up with every change.
    pub generation: u64,
    /// Configuration of the pool, in JSON.
    pub config: Vec<u8>,
}

/// Reason why bytes are no usable label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoLabel {
    /// No label is there: the leaf belongs to no pool.
    Absent,
    /// The label is torn or damaged.
    Damaged,
    /// A later version of the program wrote the label.
    Later(u16),
}

impl Label {
    /// Length of the longest configuration.
    pub const MAX_CONFIG: usize = ACTIVITY_OFFSET - HEADER;

    /// Returns the offset of a copy on a leaf of `size` bytes (a multiple of [`LABEL_SIZE`]).
    pub fn offset(copy: u64, size: u64) -> u64 {
        let label = LABEL_SIZE as u64;
        match copy {
            0 | 1 => copy * label,
            _ => size - (COPIES - copy) * label,
        }
    }

    /// Returns the offset of an epoch's root in a copy.
    pub fn slot_offset(epoch: u64) -> u64 {
        RING_OFFSET as u64 + epoch % RING_SLOTS * SECTOR_SIZE as u64
    }

    /// Encodes the label without the activity and the ring, in whole sectors.
    ///
    /// # Panics
    /// The configuration is longer than [`Label::MAX_CONFIG`].
    pub fn encode(&self) -> Vec<u8> {
        assert!(
            self.config.len() <= Self::MAX_CONFIG,
            "too long a configuration"
        );
        let mut bytes = Vec::with_capacity(ACTIVITY_OFFSET);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&[0; 6]);
        let len = self.config.len() as u64;
        for number in [self.pool, self.leaf, self.generation, len] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.resize(HEADER, 0);
        bytes.extend_from_slice(&self.config);
        let checksum = checksum::keyed(0, &bytes);
        bytes[CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
        bytes.resize(bytes.len().next_multiple_of(SECTOR_SIZE), 0);
        bytes
    }

    /// Reads the label from a copy. A copy that could not be read is empty.
    ///
    /// # Errors
    /// The copy holds no usable label.
    pub fn read(copy: &Pages) -> Result<Self, NoLabel> {
        let mut head = [0; HEADER];
        if copy.len() < HEADER {
            return Err(NoLabel::Absent);
        }
        copy.slice(0..HEADER).copy_to(&mut head);
        let len = u64::from_le_bytes(head[LEN].try_into().unwrap_or_default());
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        let end = HEADER + len.min(Self::MAX_CONFIG);
        Self::decode(&copy.slice(0..end.min(copy.len())).to_vec())
    }

    /// Decodes the label from the front of a copy.
    ///
    /// # Errors
    /// The bytes are no usable label.
    pub fn decode(bytes: &[u8]) -> Result<Self, NoLabel> {
        let mut reader = Reader(bytes);
        if reader.take(8).ok_or(NoLabel::Absent)? != MAGIC {
            return Err(NoLabel::Absent);
        }
        let intact = Self::intact(bytes).ok_or(NoLabel::Damaged)?;
        match reader.u16() {
            Some(VERSION) => Self::decode_current(intact).ok_or(NoLabel::Damaged),
            Some(version) if version > VERSION => Err(NoLabel::Later(version)),
            _ => Err(NoLabel::Damaged),
        }
    }

    /// Returns the header without its checksum, and the configuration, if they match the checksum.
    /// This part is equal in all versions: a rotten bit must not pass for a later version.
    fn intact(bytes: &[u8]) -> Option<Vec<u8>> {
        let len = Reader(bytes.get(LEN)?).u64()?;
        let len = usize::try_from(len).ok()?;
        if len > Self::MAX_CONFIG {
            return None;
        }
        let stored = Reader(bytes.get(CHECKSUM)?).u128()?;
        let mut blank = bytes.get(..HEADER + len)?.to_vec();
        blank[CHECKSUM].fill(0);
        (checksum::keyed(0, &blank) == stored).then_some(blank)
    }

    fn decode_current(mut bytes: Vec<u8>) -> Option<Self> {
        let mut reader = Reader(bytes.get(16..)?);
        let (pool, leaf, generation) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let is_blank = |range| Reader(&bytes[range]).is_blank();
        (is_blank(10..16) && is_blank(CHECKSUM.end..HEADER)).then(|| Self {
            pool,
            leaf,
            generation,
            config: bytes.split_off(HEADER),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_label_survives_the_disk(
            (pool, leaf, generation) in any::<(u64, u64, u64)>(),
            config in prop::collection::vec(any::<u8>(), 0..9000),
            (at, flip) in (any::<prop::sample::Index>(), 1_u8..),
        ) {
            let label = Label { pool, leaf, generation, config };
            let mut bytes = label.encode();
            prop_assert_eq!(Label::decode(&bytes), Ok(label.clone()));
            let at = at.index(HEADER + label.config.len());
            bytes[at] ^= flip;
            // Bytes 10..16 and 64..96 are covered as well.
            prop_assert_ne!(Label::decode(&bytes), Ok(label));
        }

        #[test]
        fn any_bytes_are_borne(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = Label::decode(&[MAGIC.as_slice(), &VERSION.to_le_bytes(), &bytes].concat());
        }
    }

    #[test]
    fn copies_lie_at_both_ends() {
        let size = 64 << 20;
        let offsets = [0, 1, 2, 3].map(|copy| Label::offset(copy, size));
        assert_eq!(
            offsets,
            [0, 256 << 10, size - (512 << 10), size - (256 << 10)]
        );
        assert_eq!(Label::slot_offset(33), Label::slot_offset(1));
        assert_eq!(Label::slot_offset(31) as usize + SECTOR_SIZE, LABEL_SIZE);
        assert_eq!(Label::MAX_CONFIG, 126_880);
    }

    #[test]
    fn what_is_wrong_is_told_apart() {
        let label = Label {
            pool: 1,
            leaf: 2,
            generation: 3,
            config: b"{}".to_vec(),
        };
        let bytes = label.encode();
        assert_eq!(Label::decode(&[0; SECTOR_SIZE]), Err(NoLabel::Absent));
        assert_eq!(Label::decode(&bytes[..97]), Err(NoLabel::Damaged));
        // A rotten bit makes no later version.
        let mut rotten = bytes[..HEADER + 2].to_vec();
        rotten[9] ^= 8;
        assert_eq!(Label::decode(&rotten), Err(NoLabel::Damaged));
        rotten[CHECKSUM].fill(0);
        let checksum = checksum::keyed(0, &rotten);
        rotten[CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
        assert_eq!(Label::decode(&rotten), Err(NoLabel::Later(0x801)));
    }

    #[test]
    fn what_is_called_zero_is_zero() {
        let label = Label {
            pool: 1,
            leaf: 2,
            generation: 3,
            config: b"{}".to_vec(),
        };
        for at in [10, 15, 64, HEADER - 1] {
            let mut bytes = label.encode()[..HEADER + 2].to_vec();
            bytes[at] = 1;
            bytes[CHECKSUM].fill(0);
            let checksum = checksum::keyed(0, &bytes);
            bytes[CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
            assert_eq!(Label::decode(&bytes), Err(NoLabel::Damaged), "{at}");
        }
    }
}
