//! A block to be read, and the proof that the bytes which devices return are the right ones.

use std::fmt;
use std::sync::Arc;

use pages::Pages;

use crate::checksum;
use crate::format::{Address, Algorithm, Epoch, Pointer};

/// Proof that a block's bytes are the right ones.
#[derive(Clone)]
pub enum Verify {
    /// No proof: the device's bytes are believed.
    None,
    /// The bytes hash to a checksum.
    Checksum {
        /// Algorithm of the checksum.
        algorithm: Algorithm,
        /// Value of the checksum.
        checksum: u128,
        /// Whether only the low 64 bits of the checksum are known: the block lies twice.
        is_half: bool,
    },
    /// The bytes carry their own proof (records of the log), which this function checks. The epoch
    /// in which they were written is not known before they are found: [`Block::birth`] or later.
    Record(Arc<dyn Fn(&Pages) -> bool + Send + Sync>),
}

impl Verify {
    /// Reports whether wrong bytes can be told from right ones.
    pub fn is_proof(&self) -> bool {
        !matches!(
            self,
            Self::None
                | Self::Checksum {
                    algorithm: Algorithm::Off,
                    ..
                }
        )
    }

    pub(super) fn accepts(&self, payload: &Pages) -> bool {
        match self {
            Self::Checksum {
                algorithm,
                checksum,
                is_half,
            } if self.is_proof() => {
                let made = checksum::of(*algorithm, payload);
                made == *checksum || *is_half && made as u64 == *checksum as u64
            }
            Self::None | Self::Checksum { .. } => true,
            Self::Record(proof) => proof(payload),
        }
    }
}

impl fmt::Debug for Verify {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Checksum {
                algorithm,
                checksum,
                ..
            } => {
                write!(f, "{algorithm:?}({checksum:032x})")
            }
            Self::Record(_) => f.write_str("Record"),
        }
    }
}

/// A block to be read.
#[derive(Clone, Debug)]
pub struct Block {
    /// Address of its first sector.
    pub address: Address,
    /// Address of its second copy, if there is one.
    pub second: Option<Address>,
    /// Number of sectors of payload.
    pub sectors: u16,
    /// Epoch in which it was written. Leaves that missed that epoch are not asked, unless no other
    /// leaf is left and `verify` proves the bytes that they return.
    pub birth: Epoch,
    /// Proof of its bytes.
    pub verify: Verify,
}

impl From<&Pointer> for Block {
    fn from(pointer: &Pointer) -> Self {
        Self {
            address: pointer.address,
            second: pointer.second(),
            sectors: pointer.sectors,
            birth: pointer.birth,
            verify: Verify::Checksum {
                algorithm: pointer.algorithm,
                checksum: pointer.checksum,
                is_half: pointer.is_double(),
            },
        }
    }
}

impl Block {
    /// Makes a block that must exist. Its bytes are verified even if its usual readers would not do
    /// so.
    pub fn verified(pointer: &Pointer) -> Self {
        let algorithm = match pointer.algorithm {
            Algorithm::Off => Algorithm::Xxh3,
            algorithm => algorithm,
        };
        Self::from(&Pointer {
            algorithm,
            ..*pointer
        })
    }

    /// Returns one of the block's copies, as a block by itself.
    pub(super) fn copy_at(&self, address: Address) -> Self {
        Self {
            address,
            second: None,
            ..self.clone()
        }
    }
}
