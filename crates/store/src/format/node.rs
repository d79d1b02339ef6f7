//! A node of a volume's map: 512 pointers, to blocks of the volume in a leaf, to nodes above it.
//!
//! 64 bytes of header, then the pointers; all numbers little-endian:
//!
//! ```text
//!   0         8        10     11       12     16       24      32      40     64
//!   +---------+--------+------+--------+------+--------+-------+-------+------+------------------+
//!   |"SANDNODE"|version| level| fan-out| zero | volume | index | birth | zero | pointers, planes |
//!   +---------+--------+------+--------+------+--------+-------+-------+------+------------------+
//!   volume:   4 bytes, 4 of zero
//!   fan-out:  log2 of the number of pointers: 9
//!   planes:   16 × 512 bytes: plane p holds byte p of each pointer (address, shape);
//!             then 512 × 16 bytes: the checksum of each pointer
//! ```
//!
//! Pointers lie in planes because neighbours have most bytes of address and shape in common, and
//! checksums have none: a full node then takes three sectors after LZ4, where pointers one after
//! the other take four, and uncompressed ones five.
//!
//! The header says where in which map a node belongs, so that a node that lies in another's place
//! is found out even where its checksum would be right.

use std::fmt;

use pages::{Pages, PagesMut};

use super::{Compression, DatasetId, Epoch, Pointer, SECTOR_SIZE};
use crate::compress;

/// Pointers in a node.
pub const FAN_OUT: usize = 512;

/// What a node's block begins with.
const MAGIC: &[u8; 8] = b"SANDNODE";
/// The only version of the format.
const VERSION: u16 = 1;
/// Bytes before the pointers.
const HEADER_SIZE: usize = 64;
/// The bytes of a pointer that lie in planes; the checksum is behind them.
const PLANES: usize = 16;

/// A place in a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId {
    /// The volume that the map was made for. A clone has its origin's nodes and goes on with its
    /// origin's number.
    pub volume: DatasetId,
    /// 0 is a leaf.
    pub level: u8,
    /// Counted within the level, from the volume's start.
    pub index: u64,
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "node {} of level {} of map {}",
            self.index, self.level, self.volume.0
        )
    }
}

/// A node in memory. `N`, a power of two, is [`FAN_OUT`] on every disk; tests make deep trees of
/// few blocks with a smaller one.
#[derive(Clone, PartialEq, Eq)]
pub struct Node<const N: usize = FAN_OUT> {
    id: NodeId,
    birth: Epoch,
    /// As [`Pointer::encode`] makes them: a third less memory than decoded. Each one decodes.
    pointers: Box<[[u8; Pointer::SIZE]]>,
}

impl<const N: usize> Node<N> {
    /// Bytes of a node before compression.
    pub const SIZE: usize = HEADER_SIZE + N * Pointer::SIZE;
    /// Bytes of memory that a node takes.
    pub const FOOTPRINT: usize = size_of::<Self>() + N * Pointer::SIZE;

    /// A node of holes that is to be written in epoch `birth`.
    pub fn new(id: NodeId, birth: Epoch) -> Self {
        const { assert!(N.is_power_of_two() && N > 1) };
        Self {
            id,
            birth,
            pointers: vec![[0; Pointer::SIZE]; N].into_boxed_slice(),
        }
    }

    /// Its place.
    pub fn id(&self) -> NodeId {
        self.id
    }

    /// When it was written: no block below it is younger.
    pub fn birth(&self) -> Epoch {
        self.birth
    }

    /// This node with what is to be changed in epoch `birth`.
    pub fn reborn(&self, birth: Epoch) -> Self {
        Self {
            id: self.id,
            birth,
            pointers: self.pointers.clone(),
        }
    }

    /// The pointer in `slot`.
    ///
    /// # Panics
    /// Where `slot` is not below `N`.
    #[inline]
    pub fn get(&self, slot: usize) -> Pointer {
        Pointer::decode(&self.pointers[slot])
            .expect("pointers are checked when a node is decoded, and made by encode otherwise")
    }

    /// Replaces the pointer in `slot`.
    ///
    /// # Panics
    /// Where `slot` is not below `N`, or the pointer is younger than the node: nobody could read it.
    pub fn set(&mut self, slot: usize, pointer: Pointer) {
        assert!(
            pointer.birth <= self.birth,
            "{pointer:?} is younger than {self:?}"
        );
        self.pointers[slot] = pointer.encode();
    }

    /// All pointers in order.
    pub fn iter(&self) -> impl Iterator<Item = Pointer> {
        (0..N).map(|slot| self.get(slot))
    }

    /// The first slot from `slot` on that is not a hole.
    pub fn next_filled(&self, slot: usize) -> Option<usize> {
        (slot..N).find(|&at| self.pointers[at] != [0; Pointer::SIZE])
    }

    /// Whether every pointer is a hole. Such a node is not written: its parent has a hole for it.
    pub fn is_empty(&self) -> bool {
        self.next_filled(0).is_none()
    }

    /// The node's bytes before compression: [`Node::SIZE`] of them.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; Self::SIZE];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..10].copy_from_slice(&VERSION.to_le_bytes());
        bytes[10] = self.id.level;
        bytes[11] = N.trailing_zeros() as u8;
        bytes[16..20].copy_from_slice(&self.id.volume.0.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.id.index.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.birth.0.to_le_bytes());
        let (planes, checksums) = bytes[HEADER_SIZE..].split_at_mut(PLANES * N);
        for (plane, bytes) in planes.chunks_exact_mut(N).enumerate() {
            for (byte, pointer) in bytes.iter_mut().zip(&self.pointers) {
                *byte = pointer[plane];
            }
        }
        for (checksum, pointer) in checksums.chunks_exact_mut(16).zip(&self.pointers) {
            checksum.copy_from_slice(&pointer[PLANES..]);
        }
        bytes
    }

    /// From the bytes before compression (what stands behind them is padding), if they are the
    /// node `expected` born at `birth`.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn decode(expected: NodeId, birth: Epoch, bytes: &[u8]) -> Result<Self, NodeError> {
        let wrong = |kind| NodeError { expected, kind };
        let bytes = bytes.get(..Self::SIZE).ok_or(wrong(NodeFault::Short))?;
        let (header, rest) = bytes.split_at(HEADER_SIZE);
        let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| header[at + byte]));
        let version = u16::from_le_bytes([header[8], header[9]]);
        if &header[..8] != MAGIC {
            return Err(wrong(NodeFault::NotANode));
        }
        if version != VERSION {
            return Err(wrong(NodeFault::Version(version)));
        }
        let is_zero = |range: std::ops::Range<usize>| header[range].iter().all(|&byte| byte == 0);
        if header[11] != N.trailing_zeros() as u8
            || !is_zero(12..16)
            || !is_zero(20..24)
            || !is_zero(40..HEADER_SIZE)
        {
            return Err(wrong(NodeFault::Header));
        }
        let id = NodeId {
            volume: DatasetId(number(16) as u32),
            level: header[10],
            index: number(24),
        };
        if id != expected {
            return Err(wrong(NodeFault::Misplaced(id)));
        }
        let born = Epoch(number(32));
        if born != birth {
            return Err(wrong(NodeFault::Birth(born)));
        }
        let (planes, checksums) = rest.split_at(PLANES * N);
        let mut node = Self::new(id, birth);
        for (slot, pointer) in node.pointers.iter_mut().enumerate() {
            for (plane, byte) in pointer[..PLANES].iter_mut().enumerate() {
                *byte = planes[plane * N + slot];
            }
            pointer[PLANES..].copy_from_slice(&checksums[slot * 16..][..16]);
            match Pointer::decode(pointer) {
                Some(pointer) if pointer.birth <= birth => {}
                _ => return Err(wrong(NodeFault::Pointer(slot))),
            }
        }
        Ok(node)
    }

    /// The block to write: how it is kept, and whole sectors.
    pub fn to_block(&self) -> (Compression, Pages) {
        let bytes = self.encode();
        let mut block = PagesMut::allocate(bytes.len().next_multiple_of(SECTOR_SIZE));
        block.copy_from(0, &bytes);
        block.zero(bytes.len(), block.len() - bytes.len());
        let block = block.freeze();
        match compress::pack(Compression::Lz4, 0, &block) {
            Some(packed) => (Compression::Lz4, packed),
            None => (Compression::Off, block),
        }
    }

    /// From the block that `pointer` names, of which the checksum is right.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn from_block(
        expected: NodeId,
        pointer: &Pointer,
        block: &Pages,
    ) -> Result<Self, NodeError> {
        let len = Self::SIZE.next_multiple_of(SECTOR_SIZE);
        let bytes = compress::unpack(pointer.compression, block, len).ok_or(NodeError {
            expected,
            kind: NodeFault::Compressed,
        })?;
        Self::decode(expected, pointer.birth, &bytes.to_vec())
    }
}

impl<const N: usize> fmt::Debug for Node<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let filled = self
            .pointers
            .iter()
            .filter(|pointer| **pointer != [0; 32])
            .count();
        write!(f, "{}, born {}, {filled} pointers", self.id, self.birth.0)
    }
}

/// A block that is not the node that its parent means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeError {
    /// The node that was looked for.
    pub expected: NodeId,
    /// What is wrong.
    pub kind: NodeFault,
}

/// What is wrong with a node's block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeFault {
    /// Fewer bytes than a node has.
    Short,
    /// It does not decompress, or is compressed as no node is.
    Compressed,
    /// It does not begin as nodes do.
    NotANode,
    /// A version that this program does not know.
    Version(u16),
    /// Bytes that are always the same are others.
    Header,
    /// It is another node.
    Misplaced(NodeId),
    /// It was born at another time than its parent says.
    Birth(Epoch),
    /// The pointer in this slot is none, or younger than the node.
    Pointer(usize),
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.expected)?;
        match self.kind {
            NodeFault::Short => write!(f, "the block is too short"),
            NodeFault::Compressed => write!(f, "the block does not decompress"),
            NodeFault::NotANode => write!(f, "the block is no node"),
            NodeFault::Version(version) => write!(f, "version {version} of the format is unknown"),
            NodeFault::Header => write!(f, "the header is damaged"),
            NodeFault::Misplaced(found) => write!(f, "{found} lies in its place"),
            NodeFault::Birth(birth) => write!(f, "the block is of epoch {}", birth.0),
            NodeFault::Pointer(slot) => write!(f, "pointer {slot} is damaged"),
        }
    }
}

impl std::error::Error for NodeError {}

#[cfg(test)]
mod tests;
