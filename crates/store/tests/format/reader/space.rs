//! The checkpoint's bitmap against the sectors that the checkpoint reaches (sections 9 and 10).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::bytes::{from_hex, is_zero, number};
use super::labels::Root;
use super::map::{Pointer, Tree, node};
use super::pointer;
use super::vdevs::Vdevs;

const PAGE: u64 = 32_768;

/// All sectors that were reached, by address.
struct Reached<'a> {
    vdevs: &'a Vdevs<'a>,
    sectors: BTreeSet<u64>,
}

/// Checks that the bitmap has all sectors that are reached. Returns how many sectors it has, and
/// how many were reached.
pub(crate) fn check(vdevs: &Vdevs<'_>, root: &Root, manifest: &Value) -> (usize, usize) {
    let sectors = BTreeSet::new();
    let mut reached = Reached { vdevs, sectors };
    root.manifest.iter().for_each(|block| reached.add(block));
    reached.sectors.extend(vdevs.taken(root.log, 1));
    reached.sectors.extend(vdevs.inner_labels());
    for contents in manifest["contents"].as_array().expect("a list") {
        let mut nodes = Vec::new();
        let blocks = Tree::parse(contents).blocks(vdevs, &mut |node| nodes.push(*node));
        nodes
            .iter()
            .chain(blocks.values())
            .for_each(|block| reached.add(block));
        reached.dead_list(&contents["dead"]);
    }
    for job in manifest["jobs"].as_array().expect("a list") {
        if let Some(dead) = job.get("dead") {
            reached.dead_list(&dead["list"]);
        }
        assert_eq!(job.get("chunks"), None, "the image has none");
    }
    reached.list(&pointer(&manifest["deferred"]));
    let mut in_use = BTreeSet::new();
    for (vdev, space) in (0..).zip(manifest["space"].as_array().expect("a list")) {
        for (index, at) in (0..).zip(space["index"].as_array().expect("a list")) {
            let at = pointer(at);
            if at.is_hole() {
                continue;
            }
            assert_eq!(at.sectors, 5);
            reached.add(&at);
            let pages: BTreeMap<u64, Pointer> =
                node(vdevs, u64::from(u32::MAX) - vdev, 0, index, &at);
            for (slot, page) in pages {
                reached.add(&page);
                let (bits, first) = (vdevs.read(&page), (index << 9 | slot) * PAGE);
                let set = (0..PAGE).filter(|bit| bits[*bit as usize / 8] >> (bit % 8) & 1 == 1);
                in_use.extend(set.map(|bit| vdev << 48 | (first + bit)));
            }
        }
    }
    let lost: Vec<_> = reached.sectors.difference(&in_use).collect();
    assert!(lost.is_empty(), "reached, and not in use: {lost:x?}");
    (in_use.len(), reached.sectors.len())
}

impl Reached<'_> {
    fn add(&mut self, block: &Pointer) {
        for place in block.places() {
            self.sectors.extend(self.vdevs.taken(place, block.sectors));
        }
    }

    /// Follows a dead list (section 9).
    fn dead_list(&mut self, records: &Value) {
        for record in from_hex(records.as_str().expect("a text")).chunks(56) {
            let (blocks, sectors) = self.list(&Pointer::parse(&record[24..]));
            assert_eq!(
                (blocks, sectors),
                (number(&record[8..16]), number(&record[16..24]))
            );
        }
    }

    /// Follows a chain of chunks. Returns how many of its entries are no chunks, and their sectors.
    fn list(&mut self, first: &Pointer) -> (u64, u64) {
        let (mut at, mut entries, mut sectors) = (*first, 0, 0);
        while !at.is_hole() {
            self.add(&at);
            let chunk = self.vdevs.read(&at);
            assert!(chunk.starts_with(b"SANDLIST") && number(&chunk[8..10]) == 1);
            assert!(chunk[11] == 0 && is_zero(&chunk[48..64]));
            let (kind, count) = (chunk[10], number(&chunk[12..16]) as usize);
            let size = if kind == 1 { 12 } else { 32 };
            let (list, rest) = chunk[64..].split_at(count * size);
            assert!(count > 0 && is_zero(rest));
            for entry in list.chunks(size) {
                let (more, their) = match kind {
                    1 => {
                        let (address, count) = (number(&entry[..8]), number(&entry[8..]));
                        self.sectors.extend(address..address + count);
                        (1, count)
                    }
                    2 => {
                        let block = Pointer::parse(entry);
                        self.add(&block);
                        (1, block.sectors * block.places().count() as u64)
                    }
                    3 => self.list(&Pointer::parse(entry)),
                    other => panic!("a chunk of kind {other}"),
                };
                (entries, sectors) = (entries + more, sectors + their);
            }
            at = Pointer::parse(&chunk[16..48]);
        }
        (entries, sectors)
    }
}
