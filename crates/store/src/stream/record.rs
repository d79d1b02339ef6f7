//! The layout of a record: a header of 40 bytes, and a body.

use twox_hash::XxHash3_128;
use twox_hash::xxhash3_128::{RawHasher, SecretBuffer};

use super::begin::MAX_BEGIN;
use crate::format::Compression;
use crate::format::bytes::Reader;
use crate::format::dataset::MAX_BLOCK_SIZE;

/// Magic bytes with which a stream begins.
pub const MAGIC: &[u8; 8] = b"SANDSTRM";
/// Version of the format that is written, and the only version that is read.
pub const VERSION: u16 = 1;
/// Bytes before the first record: magic, version, zeros.
pub const PREAMBLE: usize = 16;
/// Bytes of a record before its body.
pub const HEADER: usize = 40;
/// Bytes of the header that its checksum covers.
pub(super) const COVERED: usize = 24;
/// Bytes of the strong checksum at the end of a part.
pub(super) const STRONG: usize = 32;
/// Length of the longest reason of a sender that gives up, in bytes.
pub(super) const MAX_REASON: usize = 4096;

/// Kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordKind {
    /// A part begins.
    Begin = 1,
    /// A block has these bytes.
    Data = 2,
    /// Blocks are holes.
    Free = 3,
    /// The part is complete.
    End = 4,
    /// The stream is complete.
    Close = 5,
    /// The sender gives up.
    Failed = 6,
}

impl RecordKind {
    fn from_byte(byte: u8) -> Option<Self> {
        [
            Self::Begin,
            Self::Data,
            Self::Free,
            Self::End,
            Self::Close,
            Self::Failed,
        ]
        .into_iter()
        .find(|kind| *kind as u8 == byte)
    }

    /// Returns the length of the longest body.
    pub(super) fn most(self) -> usize {
        match self {
            Self::Begin => MAX_BEGIN,
            Self::Data => MAX_BLOCK_SIZE as usize,
            Self::Free | Self::Close => 0,
            Self::End => STRONG,
            Self::Failed => MAX_REASON,
        }
    }
}

/// A record's header, apart from its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) kind: RecordKind,
    /// Compression of the body, in records of blocks only.
    pub(super) compression: Compression,
    /// Bytes of the body.
    pub(super) len: u32,
    /// First block. In an end record, the block behind the last one of the volume.
    pub(super) block: u64,
    /// Number of blocks. In an end record, the number of blocks that had bytes.
    pub(super) count: u64,
}

impl Header {
    pub(super) fn to_bytes(self) -> [u8; COVERED] {
        let mut bytes = [0; COVERED];
        bytes[0] = self.kind as u8;
        bytes[1] = self.compression as u8;
        bytes[4..8].copy_from_slice(&self.len.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.block.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.count.to_le_bytes());
        bytes
    }

    /// Decodes the header and the checksum behind it. Returns `None` if no record begins with these
    /// bytes.
    pub(super) fn from_bytes(bytes: &[u8; HEADER]) -> Option<(Self, u128)> {
        let mut reader = Reader(bytes);
        let [kind, compression] = reader.array()?;
        let kind = RecordKind::from_byte(kind)?;
        let compression = Compression::from_code(compression)?;
        let is_plain = compression == Compression::Off;
        let zero = reader.u16()?;
        let header = Self {
            kind,
            compression,
            len: reader.u32()?,
            block: reader.u64()?,
            count: reader.u64()?,
        };
        let fits = zero == 0
            && (is_plain || kind == RecordKind::Data)
            && header.len as usize <= kind.most();
        fits.then_some((header, reader.u128()?))
    }
}

/// Returns the preamble.
pub(super) fn preamble() -> [u8; PREAMBLE] {
    let mut bytes = [0; PREAMBLE];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..10].copy_from_slice(&VERSION.to_le_bytes());
    bytes
}

/// Returns the value from which the first record's checksum goes on.
pub(super) fn seed() -> u128 {
    XxHash3_128::oneshot(&preamble())
}

/// Returns the checksum of a record behind one with the checksum `before`.
pub(super) fn checksum<'a>(
    before: u128,
    header: &[u8],
    body: impl IntoIterator<Item = &'a [u8]>,
) -> u128 {
    let mut hasher = RawHasher::new(SecretBuffer::default());
    hasher.write(&before.to_le_bytes());
    hasher.write(header);
    body.into_iter().for_each(|bytes| hasher.write(bytes));
    hasher.finish_128()
}
