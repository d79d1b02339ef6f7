//! Salvage of a volume that has lost blocks: the request, and the pieces of the answer.
//!
//! On the wire a piece is its kind (1 byte), where it begins and how long it is (8 bytes each, the lowest first), and
//! behind those of [`Kind::Data`] the bytes themselves, unless they went into a volume.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Error, ErrorKind};

/// What is salvaged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SalvageRequest {
    /// The volume or snapshot.
    pub name: String,
    /// A new volume that takes the copy; without one it is sent to whoever asks.
    #[serde(default)]
    pub to: Option<String>,
}

/// What a piece of the answer says of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// The whole volume: the first piece.
    Size = 0,
    /// It was copied.
    Data = 1,
    /// It reads as zeros.
    Hole = 2,
    /// It cannot be read.
    Lost = 3,
    /// All of the volume was told.
    End = 4,
    /// It cannot go on: the bytes behind it say why.
    Failed = 5,
}

/// A piece of the answer, without its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// What it says.
    pub kind: Kind,
    /// Where it begins.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
}

impl Piece {
    /// Bytes on the wire.
    pub const SIZE: usize = 17;

    /// As it is sent.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![self.kind as u8];
        bytes.extend_from_slice(&self.offset.to_le_bytes());
        bytes.extend_from_slice(&self.len.to_le_bytes());
        bytes
    }

    /// As it was sent; `None`: it is none.
    pub fn decode(bytes: &[u8; Self::SIZE]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        let (offset, len) = rest.split_first_chunk::<8>()?;
        let all = [
            Kind::Size,
            Kind::Data,
            Kind::Hole,
            Kind::Lost,
            Kind::End,
            Kind::Failed,
        ];
        Some(Self {
            kind: *all.get(usize::from(*kind))?,
            offset: u64::from_le_bytes(*offset),
            len: u64::from_le_bytes(len.try_into().ok()?),
        })
    }
}

/// What nobody can go on with.
pub fn broken(why: &str) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!("the volume was not salvaged to its end: {why}"),
        "see `sandstone pool status -v`, and begin again with another target; what was copied until now stays where it is",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_survive_the_wire_and_others_are_none() {
        for (number, kind) in [
            Kind::Size,
            Kind::Data,
            Kind::Hole,
            Kind::Lost,
            Kind::End,
            Kind::Failed,
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
