//! Pointers, nodes and trees (sections 4, 7.1 and 7.2).

use std::collections::BTreeMap;

use serde_json::Value;

use super::bytes::{checksum, is_zero, number, wide};
use super::vdevs::Vdevs;

/// A pointer (section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Pointer {
    pub(crate) address: u64,
    /// Address of the second copy. If there is one, only the low half of the checksum is known.
    pub(crate) second: Option<u64>,
    pub(crate) birth: u64,
    pub(crate) sectors: u64,
    pub(crate) compression: u8,
    pub(crate) algorithm: u8,
    pub(crate) checksum: u128,
}

impl Pointer {
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let shape = number(&bytes[8..16]);
        let is_double = shape >> 60 & 1 == 1;
        let checksum = wide(&bytes[16..32]);
        let pointer = Self {
            address: number(&bytes[..8]),
            second: is_double.then(|| number(&bytes[24..32])),
            birth: shape & ((1 << 40) - 1),
            sectors: shape >> 40 & 0xfff,
            compression: (shape >> 52 & 0xf) as u8,
            algorithm: (shape >> 56 & 0xf) as u8,
            checksum: if is_double {
                checksum & u128::from(u64::MAX)
            } else {
                checksum
            },
        };
        if let Some(second) = pointer.second {
            let is_near = second >> 48 == pointer.address >> 48
                && second.abs_diff(pointer.address) < pointer.sectors;
            assert!(!pointer.is_hole() && !is_near && second != u64::MAX);
        }
        assert!(shape >> 61 == 0 && pointer.compression <= 2 && pointer.algorithm <= 2);
        assert_eq!(pointer.is_hole(), is_zero(bytes));
        assert_ne!(pointer.address, u64::MAX, "it is lost");
        pointer
    }

    pub(crate) fn is_hole(&self) -> bool {
        self.sectors == 0
    }

    /// Reports whether the payload is this pointer's.
    pub(crate) fn is_of(&self, payload: &[u8]) -> bool {
        let made = checksum(self.algorithm.max(1), payload);
        match self.second {
            None => made == self.checksum,
            Some(_) => made as u64 == self.checksum as u64,
        }
    }

    /// Returns the places of the copies.
    pub(crate) fn places(&self) -> impl Iterator<Item = u64> + use<> {
        [self.address].into_iter().chain(self.second)
    }
}

/// A tree, as the manifest describes it.
pub(crate) struct Tree {
    map: u64,
    root: Pointer,
    height: u64,
}

impl Tree {
    pub(crate) fn parse(record: &Value) -> Self {
        let height = record["height"].as_u64().expect("a height");
        assert!((1..=7).contains(&height));
        Self {
            map: record["map"].as_u64().expect("a number"),
            root: super::pointer(&record["root"]),
            height,
        }
    }

    /// Returns all blocks of the tree. `visit` sees the pointers to its nodes.
    pub(crate) fn blocks(
        &self,
        vdevs: &Vdevs<'_>,
        visit: &mut impl FnMut(&Pointer),
    ) -> BTreeMap<u64, Pointer> {
        let mut nodes = BTreeMap::from([(0, self.root)]);
        for level in (0..self.height).rev() {
            let mut below = BTreeMap::new();
            for (index, pointer) in nodes.iter().filter(|(_, pointer)| !pointer.is_hole()) {
                visit(pointer);
                let filled = node(vdevs, self.map, level, *index, pointer).into_iter();
                below.extend(filled.map(|(slot, pointer)| (index << 9 | slot, pointer)));
            }
            nodes = below;
        }
        nodes
    }
}

/// Returns the pointers of a node that are no holes, by their slots.
pub(crate) fn node(
    vdevs: &Vdevs<'_>,
    map: u64,
    level: u64,
    index: u64,
    pointer: &Pointer,
) -> BTreeMap<u64, Pointer> {
    let bytes = vdevs.read(pointer);
    assert!(bytes.starts_with(b"SANDNODE"));
    let header = [8..10, 10..11, 11..12, 16..20, 24..32, 32..40].map(|at| number(&bytes[at]));
    assert_eq!(header, [1, level, 9, map, index, pointer.birth]);
    assert!(bytes[15] == 0 && is_zero(&bytes[20..24]) && pointer.compression == 0);
    let (count, has_checksums) = (number(&bytes[12..14]) as usize, bytes[14] == 1);
    let (common, mask) = (wide(&bytes[40..56]), wide(&bytes[56..72]));
    assert_eq!(common & mask, 0);
    let width = mask.count_ones().div_ceil(8) as usize;
    let checksums = 136 + count * width;
    let end = checksums + if has_checksums { count * 16 } else { 0 };
    assert!(is_zero(&bytes[end..]));
    let slots = (0..512).filter(|slot| bytes[72 + slot / 8] >> (slot % 8) & 1 == 1);
    let mut pointers = BTreeMap::new();
    for (number, slot) in slots.enumerate() {
        let difference = &bytes[136 + number * width..][..width];
        let mut whole = spread(difference, common, mask).to_le_bytes().to_vec();
        match has_checksums {
            true => whole.extend_from_slice(&bytes[checksums + number * 16..][..16]),
            false => whole.extend_from_slice(&[0; 16]),
        }
        let found = Pointer::parse(&whole);
        assert!(found.birth <= pointer.birth && !found.is_hole());
        pointers.insert(slot as u64, found);
    }
    assert_eq!(pointers.len(), count);
    pointers
}

/// Puts the bits of a difference where the mask has its ones.
fn spread(difference: &[u8], common: u128, mask: u128) -> u128 {
    let ones = (0..128).filter(|bit| mask >> bit & 1 == 1);
    ones.enumerate().fold(common, |number, (j, bit)| {
        number | u128::from(difference[j / 8] >> (j % 8) & 1) << bit
    })
}
