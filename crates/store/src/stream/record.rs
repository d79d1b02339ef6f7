//! How a record looks: a header of 40 bytes, and a body.

use twox_hash::XxHash3_128;
use twox_hash::xxhash3_128::{RawHasher, SecretBuffer};

use super::begin::MAX_BEGIN;
use crate::format::Compression;
use crate::format::bytes::Reader;
use crate::format::dataset::MAX_BLOCK_SIZE;

/// What a stream begins with.
pub const MAGIC: &[u8; 8] = b"SANDSTRM";
/// The version of the format that is written, and the only one that is read.
pub const VERSION: u16 = 1;
/// Bytes before the first record: magic, version, zeros.
pub const PREAMBLE: usize = 16;
/// Bytes of a record before its body.
pub const HEADER: usize = 40;
/// Bytes of the header that its checksum covers.
pub(super) const COVERED: usize = 24;
/// Bytes of the strong checksum at the end of a part.
pub(super) const STRONG: usize = 32;
/// The longest reason of a sender that gives up, in bytes.
pub(super) const MAX_REASON: usize = 4096;

/// What a record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
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

impl Kind {
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

    /// The longest body.
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
    pub(super) kind: Kind,
    /// How the body is packed; of blocks only.
    pub(super) compression: Compression,
    /// Bytes of the body.
    pub(super) len: u32,
    /// The first block; of an end, the block behind the last one of the volume.
    pub(super) block: u64,
    /// How many blocks; of an end, how many had bytes.
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

    /// The header and the checksum behind it; `None` where no record begins so.
    pub(super) fn from_bytes(bytes: &[u8; HEADER]) -> Option<(Self, u128)> {
        let mut reader = Reader(bytes);
        let [kind, compression] = reader.array()?;
        let kind = Kind::from_byte(kind)?;
        let compression = compression_of(compression)?;
        let is_plain = compression == Compression::Off;
        let zero = reader.u16()?;
        let header = Self {
            kind,
            compression,
            len: reader.u32()?,
            block: reader.u64()?,
            count: reader.u64()?,
        };
        let fits =
            zero == 0 && (is_plain || kind == Kind::Data) && header.len as usize <= kind.most();
        fits.then_some((header, reader.u128()?))
    }
}

fn compression_of(byte: u8) -> Option<Compression> {
    let all = [Compression::Off, Compression::Lz4, Compression::Zstd];
    all.into_iter().find(|known| *known as u8 == byte)
}

/// The preamble.
pub(super) fn preamble() -> [u8; PREAMBLE] {
    let mut bytes = [0; PREAMBLE];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..10].copy_from_slice(&VERSION.to_le_bytes());
    bytes
}

/// What the first record's checksum goes on from.
pub(super) fn seed() -> u128 {
    XxHash3_128::oneshot(&preamble())
}

/// The checksum of a record behind one with the checksum `before`.
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
