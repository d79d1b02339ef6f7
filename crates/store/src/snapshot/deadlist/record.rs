//! The record of a dead list that a checkpoint keeps beside the list's chunks.
//!
//! Each part has one record, by ascending epoch, little-endian. An empty list has none:
//!
//! ```text
//!   0  epoch of the snapshot after which its blocks were born, or 0   u64
//!   8  number of blocks, never 0                                      u64
//!  16  sectors of all of them                                         u64
//!  24  pointer to the first chunk                                     32 bytes
//! ```
//!
//! Two counts are kept beside the records, since the first programs did not count them: the blocks
//! that are nodes of maps, and the other blocks that are not packed.

use std::collections::BTreeMap;

use super::{Deadlist, Figure, Nodes, Part, Whole};
use crate::format::{Epoch, Pointer};

/// Bytes of a part's record.
pub const RECORD: usize = 24 + Pointer::SIZE;
/// Most sectors of a block: those of both its copies.
const MOST_OF_A_BLOCK: u64 = 2 * Pointer::MAX_SECTORS as u64;
/// Number of sectors that no pool has. With this bound, the counts of merged lists cannot overflow.
const MOST_SECTORS: u64 = 1 << 56;

impl Deadlist {
    /// Returns the records of the list's parts.
    ///
    /// # Panics
    /// The list was changed since it was [persisted](Deadlist::persist).
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.parts.len() * RECORD);
        for (after, part) in &self.parts {
            let first = part.first_chunk().expect("the list was persisted");
            for number in [after.0, part.has.blocks, part.has.sectors] {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
            bytes.extend_from_slice(&first.encode());
        }
        bytes
    }

    /// Decodes a list from its records. Returns `None` if no version of the format writes such
    /// bytes.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (records, rest) = bytes.as_chunks::<RECORD>();
        let mut parts = BTreeMap::new();
        let mut last = None;
        let mut total = 0_u64;
        for record in records {
            let number = |at: usize| {
                let bytes = record[at..].first_chunk()?;
                Some(u64::from_le_bytes(*bytes))
            };
            let (after, blocks, sectors) = (Epoch(number(0)?), number(8)?, number(16)?);
            let first = Pointer::decode(record.last_chunk()?)?;
            let most = blocks.saturating_mul(MOST_OF_A_BLOCK);
            total = total.checked_add(sectors)?;
            let is_valid = last < Some(after)
                && total <= MOST_SECTORS
                && after <= Epoch::LAST
                && blocks > 0
                && (blocks..=most).contains(&sectors)
                && !first.is_hole();
            if !is_valid {
                return None;
            }
            last = Some(after);
            let part = Part {
                chains: vec![first],
                has: Figure {
                    blocks,
                    sectors,
                    nodes: Nodes {
                        is_unknown: true,
                        ..Nodes::default()
                    },
                    whole: Whole {
                        is_unknown: true,
                        ..Whole::default()
                    },
                },
                ..Part::default()
            };
            parts.insert(after, part);
        }
        rest.is_empty().then_some(Self { parts })
    }

    /// Returns the number of map nodes and their sectors for each part. Returns `None` if the list
    /// is empty, or if the nodes of some part were not counted.
    pub fn nodes(&self) -> Option<Vec<[u64; 2]>> {
        let parts = self.parts.values();
        let nodes = parts.map(|part| {
            (!part.has.nodes.is_unknown).then_some([part.has.nodes.count, part.has.nodes.sectors])
        });
        nodes
            .collect::<Option<Vec<_>>>()
            .filter(|all| !all.is_empty())
    }

    /// Takes the counts that [`Deadlist::nodes`] gave of the list that was decoded. If they cannot
    /// be right, returns false and changes nothing.
    #[must_use]
    pub fn note_nodes(&mut self, nodes: &[[u64; 2]]) -> bool {
        let most = MOST_OF_A_BLOCK;
        let can_be = |(part, [count, sectors]): (&Part, &[u64; 2])| {
            *count <= part.has.blocks
                && *sectors <= part.has.sectors
                && (*count..=count.saturating_mul(most)).contains(sectors)
        };
        let fits = nodes.len() == self.parts.len() && self.parts.values().zip(nodes).all(can_be);
        if fits {
            for (part, [count, sectors]) in self.parts.values_mut().zip(nodes) {
                part.has.nodes = Nodes {
                    count: *count,
                    sectors: *sectors,
                    is_unknown: false,
                };
            }
        }
        fits
    }

    /// Returns the number of volumes' blocks that are not packed, for each part. Returns `None` as
    /// [`Deadlist::nodes`] does.
    pub fn whole(&self) -> Option<Vec<u64>> {
        let parts = self.parts.values();
        let whole = parts.map(|part| (!part.has.whole.is_unknown).then_some(part.has.whole.count));
        whole
            .collect::<Option<Vec<_>>>()
            .filter(|all| !all.is_empty())
    }

    /// Takes the counts that [`Deadlist::whole`] gave, after [`Deadlist::note_nodes`] and in the
    /// same way.
    #[must_use]
    pub fn note_whole(&mut self, whole: &[u64]) -> bool {
        let can_be = |(part, count): (&Part, &u64)| {
            part.has.nodes.count.saturating_add(*count) <= part.has.blocks
                && part.has.nodes.sectors.saturating_add(*count) <= part.has.sectors
        };
        let fits = whole.len() == self.parts.len() && self.parts.values().zip(whole).all(can_be);
        if fits {
            for (part, count) in self.parts.values_mut().zip(whole) {
                part.has.whole = Whole {
                    count: *count,
                    is_unknown: false,
                };
            }
        }
        fits
    }
}

impl Part {
    /// Returns the chunk from which the whole part can be found, if all of the part is on disk.
    fn first_chunk(&self) -> Option<Pointer> {
        match (self.chains.as_slice(), self.written) {
            (_, Some(written)) => Some(written),
            ([chain], None) if self.tail.is_empty() => Some(*chain),
            _ => None,
        }
    }
}
