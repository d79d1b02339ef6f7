//! Salvage of a volume that has lost blocks: the request, and the pieces of the answer.
//!
//! On the wire, a piece has its kind (1 byte), its offset, and its length (8 bytes each,
//! little-endian). The bytes of a [`PieceKind::Data`] piece follow, unless they went into a volume.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Error, ErrorKind};

/// Request to salvage a volume or snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SalvageRequest {
    /// Name of the volume or snapshot.
    pub name: String,
    /// Name of a new volume for the copy. `None` sends the copy to the caller.
    #[serde(default)]
    pub to: Option<String>,
}

/// Meaning of a piece for its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PieceKind {
    /// The range is the whole volume. This is the first piece.
    Size = 0,
    /// The range was copied.
    Data = 1,
    /// The range reads as zeros.
    Hole = 2,
    /// The range cannot be read.
    Lost = 3,
    /// The whole volume was reported.
    End = 4,
    /// The salvage cannot go on. The bytes that follow give the reason.
    Failed = 5,
}

/// Piece of the answer, without its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Meaning of the piece.
    pub kind: PieceKind,
    /// First byte of the range.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
}

impl Piece {
    /// Number of bytes on the wire.
    pub const SIZE: usize = 17;

    /// Encodes the piece for the wire.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![self.kind as u8];
        bytes.extend_from_slice(&self.offset.to_le_bytes());
        bytes.extend_from_slice(&self.len.to_le_bytes());
        bytes
    }

    /// Decodes a piece from the wire, or returns `None` if the bytes are none.
    pub fn decode(bytes: &[u8; Self::SIZE]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        let (offset, len) = rest.split_first_chunk::<8>()?;
        let all = [
            PieceKind::Size,
            PieceKind::Data,
            PieceKind::Hole,
            PieceKind::Lost,
            PieceKind::End,
            PieceKind::Failed,
        ];
        Some(Self {
            kind: *all.get(usize::from(*kind))?,
            offset: u64::from_le_bytes(*offset),
            len: u64::from_le_bytes(len.try_into().ok()?),
        })
    }
}

/// Returns the error of a salvage that cannot go on.
pub fn broken(why: &str) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!("the salvage of the volume did not finish: {why}"),
        "see `sandstone pool status -v`, and begin again with another destination; the data copied so far \
         stays in place",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_survive_the_wire_and_others_are_none() {
        for (number, kind) in [
            PieceKind::Size,
            PieceKind::Data,
            PieceKind::Hole,
            PieceKind::Lost,
            PieceKind::End,
            PieceKind::Failed,
        ]
        .into_iter()
        .enumerate()
        {
            let piece = Piece {
                kind,
                offset: 7,
                len: u64::MAX - 3,
            };
            let bytes = piece.encode();
            assert_eq!(usize::from(bytes[0]), number);
            let bytes = bytes.first_chunk().expect("its size");
            assert_eq!(Piece::decode(bytes), Some(piece));
        }
        assert_eq!(Piece::decode(&[6; Piece::SIZE]), None);
    }
}
