//! A node of a volume's map: 512 pointers. Those of a leaf lead to blocks of the volume, those of a
//! higher node to nodes.
//!
//! All numbers are little-endian:
//!
//! ```text
//!    0  "SANDNODE"                    8 bytes
//!    8  version                       2
//!   10  level                         1   0 is a leaf
//!   11  fan-out                       1   log2 of the number of pointers: 9
//!   12  count                         2   pointers that are not holes
//!   14  checksums                     1   whether they are kept: 0 where each is zero, else 1
//!   15  zero                          1
//!   16  volume                        4
//!   20  zero                          4
//!   24  index                         8
//!   32  birth                         8
//!   40  common                       16
//!   56  mask                         16
//!   72  filled                       64   bit n of byte m: pointer 8 m + n is not a hole
//!  136  differences                       count × as many bytes as hold the bits of the mask
//!       checksums                         count × 16
//!       zero                              up to a whole sector
//! ```
//!
//! A node keeps two things of its pointers. It keeps their checksums, in which nothing repeats. And
//! it keeps address and shape (16 bytes, as a number), but only the bits in which the node's
//! pointers differ, moved together. The mask says which bits these are, and `common` gives the
//! others. So a full node takes three sectors instead of five, and a node of few pointers takes
//! one. LZ4 gave equal sizes at twenty times the cost.
//!
//! The header gives the node's map and its place there. So a node that lies in another's place is
//! found out even if its checksum would be right.

mod varying;

use std::fmt;

use pages::{Pages, PagesMut};

use self::varying::Varying;
use super::bytes::Reader;
use super::pointers::Pointers;
use super::{Compression, DatasetId, Epoch, Pointer, SECTOR_SIZE, VERSION};

/// Number of pointers in a node.
pub const FAN_OUT: usize = 512;

/// Magic bytes with which a node's block begins.
const MAGIC: &[u8; 8] = b"SANDNODE";
/// Bytes before the bits that say which pointers are filled.
const HEADER_SIZE: usize = 72;
/// Bytes of a pointer before its checksum.
const SHAPE: usize = 16;

/// A place in a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId {
    /// Volume that the map was made for. A clone has its origin's nodes and goes on with its
    /// origin's number. In the index of a space map, a number from the upper end, one for each
    /// top-level vdev.
    pub volume: DatasetId,
    /// Level of the node; 0 is a leaf.
    pub level: u8,
    /// Index of the node within the level, counted from the volume's start.
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

/// A node in memory. `N`, a power of two, is [`FAN_OUT`] on every disk. Tests use a smaller `N` to
/// make deep trees of few blocks.
#[derive(Clone, PartialEq, Eq)]
pub struct Node<const N: usize = FAN_OUT> {
    id: NodeId,
    birth: Epoch,
    /// Pointers of the node, each of which decodes.
    pointers: Pointers,
}

impl<const N: usize> Node<N> {
    /// Most bytes that a node takes on a disk, before it is filled up to a whole sector.
    pub const MAX_SIZE: usize = HEADER_SIZE + N.div_ceil(8) + N * Pointer::SIZE;
    /// Fan-out as the header has it.
    const BITS: u8 = N.trailing_zeros() as u8;
    /// Bytes of memory that a node takes.
    pub const FOOTPRINT: usize = size_of::<Self>() + N * Pointer::SIZE;

    /// Makes a node of holes that is to be written in epoch `birth`.
    pub fn new(id: NodeId, birth: Epoch) -> Self {
        const { assert!(N.is_power_of_two() && N > 1 && N <= FAN_OUT) };
        Self {
            id,
            birth,
            pointers: Pointers::holes(N),
        }
    }

    /// Makes a node in place of one, born at `birth`, that cannot be read: all its pointers are
    /// lost.
    pub fn lost(id: NodeId, birth: Epoch) -> Self {
        let mut node = Self::new(id, birth);
        let lost = Pointer::lost(birth).encode();
        (0..N).for_each(|slot| *node.pointers.get_mut(slot) = lost);
        node
    }

    /// Returns the node's place.
    pub fn id(&self) -> NodeId {
        self.id
    }

    /// Returns the epoch in which the node was written. No block below it is younger.
    pub fn birth(&self) -> Epoch {
        self.birth
    }

    /// Returns a copy of this node, to be changed in epoch `birth`.
    pub fn reborn(&self, birth: Epoch) -> Self {
        Self {
            id: self.id,
            birth,
            pointers: self.pointers.clone(),
        }
    }

    /// Returns the pointer in `slot`.
    ///
    /// # Panics
    /// `slot` is not below `N`.
    #[inline]
    pub fn get(&self, slot: usize) -> Pointer {
        Pointer::decode_checked(self.pointers.get(slot))
            .expect("pointers are checked when a node is decoded, and made by encode otherwise")
    }

    /// Replaces the pointer in `slot`.
    ///
    /// # Panics
    /// `slot` is not below `N`, or the pointer is younger than the node: nobody could read it.
    pub fn set(&mut self, slot: usize, pointer: Pointer) {
        assert!(
            pointer.birth <= self.birth,
            "{pointer:?} is younger than {self:?}"
        );
        *self.pointers.get_mut(slot) = pointer.encode();
    }

    /// Replaces the pointer in `slot`, and returns the one before.
    ///
    /// # Panics
    /// As [`Node::set`] does.
    pub(crate) fn replace(&mut self, slot: usize, pointer: Pointer) -> Pointer {
        let before = self.get(slot);
        self.set(slot, pointer);
        before
    }

    /// Returns all pointers in order.
    pub fn iter(&self) -> impl Iterator<Item = Pointer> {
        (0..N).map(|slot| self.get(slot))
    }

    /// Returns the first slot from `slot` on that is not a hole.
    pub fn next_filled(&self, slot: usize) -> Option<usize> {
        (slot..N).find(|&at| *self.pointers.get(at) != [0; Pointer::SIZE])
    }

    /// Reports whether every pointer is a hole. An empty node is not written: its parent has a hole
    /// for it.
    pub fn is_empty(&self) -> bool {
        self.next_filled(0).is_none()
    }

    /// Encodes the node, without the filling of the last sector.
    pub fn encode(&self) -> Vec<u8> {
        let mut filled = [0; FAN_OUT / 8];
        let (mut count, mut first, mut mask, mut proofs, mut slot) = (0, 0, 0, 0, 0);
        for run in self.pointers.runs() {
            for pointer in run {
                let [shape, checksum] = halves(pointer);
                if shape | checksum != 0 {
                    first = if count == 0 { shape } else { first };
                    mask |= shape ^ first;
                    proofs |= checksum;
                    filled[slot / 8] |= 1 << (slot % 8);
                    count += 1;
                }
                slot += 1;
            }
        }
        let has_checksums = proofs != 0;
        let varying = Varying::from(first, mask);
        let mut bytes = Vec::with_capacity(Self::MAX_SIZE);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&[self.id.level, Self::BITS]);
        bytes.extend_from_slice(&(count as u16).to_le_bytes());
        bytes.extend_from_slice(&[u8::from(has_checksums), 0]);
        bytes.extend_from_slice(&u64::from(self.id.volume.0).to_le_bytes());
        bytes.extend_from_slice(&self.id.index.to_le_bytes());
        bytes.extend_from_slice(&self.birth.0.to_le_bytes());
        bytes.extend_from_slice(&varying.common.to_le_bytes());
        bytes.extend_from_slice(&varying.mask.to_le_bytes());
        bytes.extend_from_slice(&filled[..N.div_ceil(8)]);
        let (head, width) = (bytes.len(), varying.width());
        let proof = 16 * usize::from(has_checksums);
        bytes.resize(head + count * (width + proof), 0);
        let (differences, checksums) = bytes[head..].split_at_mut(count * width);
        let mut checksums = checksums.as_chunks_mut().0.iter_mut();
        let mut at = 0;
        for run in self.pointers.runs() {
            for pointer in run {
                let [shape, checksum] = halves(pointer);
                if shape | checksum == 0 {
                    continue;
                }
                let packed = varying.pack(shape).to_le_bytes();
                // Bytes beyond the width are overwritten by the next pointer. A copy of a fixed
                // length is quicker.
                match differences.get_mut(at..at + SHAPE) {
                    Some(place) => place.copy_from_slice(&packed),
                    None => differences[at..at + width].copy_from_slice(&packed[..width]),
                }
                at += width;
                if let Some(place) = checksums.next() {
                    *place = checksum.to_le_bytes();
                }
            }
        }
        bytes
    }

    /// Decodes bytes of a disk, if they are the node `expected` born at `birth`.
    ///
    /// # Errors
    /// The bytes are not this node; the error says why.
    pub fn decode(expected: NodeId, birth: Epoch, bytes: &[u8]) -> Result<Self, NodeError> {
        let mut reader = Reader(bytes);
        Self::read(expected, birth, &mut reader).map_err(|kind| NodeError { expected, kind })
    }

    fn read(expected: NodeId, birth: Epoch, reader: &mut Reader<'_>) -> Result<Self, NodeFault> {
        let short = NodeFault::Short;
        if reader.array().ok_or(short)? != *MAGIC {
            return Err(NodeFault::NotANode);
        }
        let version = reader.u16().ok_or(short)?;
        if version != VERSION {
            return Err(NodeFault::Version(version));
        }
        let [level, fan_out] = reader.array().ok_or(short)?;
        let count = usize::from(reader.u16().ok_or(short)?);
        let [has_checksums, reserved] = reader.array().ok_or(short)?;
        let volume = DatasetId(reader.u32().ok_or(short)?);
        let also_reserved = reader.u32().ok_or(short)?;
        let id = NodeId {
            volume,
            level,
            index: reader.u64().ok_or(short)?,
        };
        let born = Epoch(reader.u64().ok_or(short)?);
        if fan_out != Self::BITS || has_checksums > 1 || reserved != 0 || also_reserved != 0 {
            return Err(NodeFault::Header);
        }
        if id != expected {
            return Err(NodeFault::Misplaced(id));
        }
        if born != birth {
            return Err(NodeFault::Birth(born));
        }
        let (common, mask) = (reader.u128().ok_or(short)?, reader.u128().ok_or(short)?);
        let varying = Varying::open(common, mask).ok_or(NodeFault::Header)?;
        let filled = reader.take(N.div_ceil(8)).ok_or(short)?;
        let bits: u32 = filled.iter().map(|byte| byte.count_ones()).sum();
        if bits as usize != count {
            return Err(NodeFault::Header);
        }
        let differences = reader.take(count * varying.width()).ok_or(short)?;
        let checksums = reader
            .take(count * 16 * usize::from(has_checksums))
            .ok_or(short)?;
        let mut node = Self::new(id, birth);
        node.unpack(&varying, filled, differences, checksums)?;
        if !reader.is_blank() {
            return Err(NodeFault::Header);
        }
        Ok(node)
    }

    /// Puts the pointers in their places. `filled` has as many bits set as the other slices have
    /// pointers. `checksums` may be empty.
    fn unpack(
        &mut self,
        varying: &Varying,
        filled: &[u8],
        differences: &[u8],
        checksums: &[u8],
    ) -> Result<(), NodeFault> {
        let width = varying.width();
        let mut number = 0;
        for slot in 0..filled.len() * 8 {
            if filled[slot / 8] >> (slot % 8) & 1 == 0 {
                continue;
            }
            let mut packed = [0; SHAPE];
            packed[..width].copy_from_slice(&differences[number * width..][..width]);
            let shape = varying.unpack(u128::from_le_bytes(packed));
            if slot >= N {
                return Err(NodeFault::Header);
            }
            let pointer = self.pointers.get_mut(slot);
            pointer[..SHAPE].copy_from_slice(&shape.to_le_bytes());
            if let Some(checksum) = checksums.get(number * 16..number * 16 + 16) {
                pointer[SHAPE..].copy_from_slice(checksum);
            }
            match Pointer::decode(pointer) {
                Some(pointer) if pointer.birth <= self.birth && !pointer.is_hole() => {}
                _ => return Err(NodeFault::Pointer(slot)),
            }
            number += 1;
        }
        Ok(())
    }

    /// Returns the block to write, and the compression that its pointer names.
    pub fn to_block(&self) -> (Compression, Pages) {
        let bytes = self.encode();
        let mut block = PagesMut::allocate(bytes.len().next_multiple_of(SECTOR_SIZE));
        block.copy_from(0, &bytes);
        // `freeze` fills the rest with zeros. Nodes pack themselves.
        (Compression::Off, block.freeze())
    }

    /// Decodes the node from the block that `pointer` names. The block's checksum is right.
    ///
    /// # Errors
    /// The block is not this node; the error says why.
    pub fn from_block(
        expected: NodeId,
        pointer: &Pointer,
        block: &Pages,
    ) -> Result<Self, NodeError> {
        if pointer.compression != Compression::Off {
            return Err(NodeError {
                expected,
                kind: NodeFault::Compressed,
            });
        }
        Self::decode(expected, pointer.birth, &block.to_vec())
    }
}

/// Returns address and shape of a pointer as a number, and its checksum.
#[inline]
fn halves(pointer: &[u8; Pointer::SIZE]) -> [u128; 2] {
    let (halves, _) = pointer.as_chunks::<16>();
    std::array::from_fn(|half| u128::from_le_bytes(halves[half]))
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
    /// Node that was looked for.
    pub expected: NodeId,
    /// Fault of the block.
    pub kind: NodeFault,
}

/// Fault of a node's block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeFault {
    /// The block has fewer bytes than a node.
    Short,
    /// The pointer says that the block is compressed, as no node is.
    Compressed,
    /// The block does not begin as nodes do.
    NotANode,
    /// The block is of a version that this program does not know.
    Version(u16),
    /// Reserved bytes are not zero, or counts and masks do not fit together.
    Header,
    /// The block is another node.
    Misplaced(NodeId),
    /// The node was born at another time than its parent says.
    Birth(Epoch),
    /// The pointer in this slot is invalid, or younger than the node.
    Pointer(usize),
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.expected)?;
        match self.kind {
            NodeFault::Short => write!(f, "the block is too short"),
            NodeFault::Compressed => write!(
                f,
                "the parent says that the block is compressed, but nodes never are"
            ),
            NodeFault::NotANode => write!(f, "the block is not a node"),
            NodeFault::Version(version) => write!(f, "version {version} of the format is unknown"),
            NodeFault::Header => write!(f, "the header is damaged"),
            NodeFault::Misplaced(found) => write!(f, "the block holds {found} instead"),
            NodeFault::Birth(birth) => write!(f, "the block belongs to epoch {}", birth.0),
            NodeFault::Pointer(slot) => write!(f, "pointer {slot} is damaged"),
        }
    }
}

impl std::error::Error for NodeError {}

#[cfg(test)]
mod tests;
