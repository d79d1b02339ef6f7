//! Where the sectors of a vdev lie on its leaves: section 11. Everything redundant is compared: copies
//! with each other, parity with what it was made of.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::disks::{Disk, SECTOR};
use super::checksum;
use super::map::Pointer;

/// The top-level vdevs of a pool. Of each slot one leaf.
pub(crate) struct Vdevs<'a> {
    tops: Vec<Top<'a>>,
}

struct Top<'a> {
    /// 0 for a leaf or mirror.
    parity: u64,
    slots: Vec<&'a Disk>,
}

impl<'a> Vdevs<'a> {
    pub(crate) fn new(config: &Value, leaves: &BTreeMap<u64, &'a Disk>) -> Self {
        let leaf = |slot: &Value| {
            let guid = slot["leaves"][0]["guid"].as_str().expect("a guid");
            leaves[&u64::from_str_radix(guid, 16).expect("hexadecimal")]
        };
        let top = |top: &Value| Top {
            parity: match top["kind"].as_str().expect("a kind") {
                "leaf" | "mirror" => 0,
                raidz => raidz
                    .strip_prefix("raidz")
                    .expect("raidz")
                    .parse()
                    .expect("1 to 3"),
            },
            slots: top["slots"]
                .as_array()
                .expect("slots")
                .iter()
                .map(leaf)
                .collect(),
        };
        let tops = config["vdevs"].as_array().expect("vdevs").iter().map(top);
        Self {
            tops: tops.collect(),
        }
    }

    /// A block that must be there.
    pub(crate) fn read(&self, pointer: &Pointer) -> Vec<u8> {
        self.try_read(pointer)
            .unwrap_or_else(|| panic!("{pointer:x?} is not there"))
    }

    /// A block, if it is there, its parity too.
    pub(crate) fn try_read(&self, pointer: &Pointer) -> Option<Vec<u8>> {
        let payload = self.payload(pointer.address, pointer.sectors)?;
        let algorithm = pointer.algorithm.max(1);
        (checksum(algorithm, &payload) == pointer.checksum).then_some(payload)
    }

    /// What lies at an address; nothing where copies or parity do not fit.
    pub(crate) fn payload(&self, address: u64, sectors: u64) -> Option<Vec<u8>> {
        let top = &self.tops[(address >> 48) as usize];
        let sector = address & ((1 << 48) - 1);
        if top.parity == 0 {
            let copies = top.slots.iter().map(|leaf| data(leaf, sector, sectors));
            let copies: Vec<Vec<u8>> = copies.collect();
            let is_same = copies.iter().all(|copy| *copy == copies[0]);
            return is_same.then(|| copies[0].clone());
        }
        let columns = top.columns(sector, sectors);
        let (parity, data) = columns.split_at(top.parity as usize);
        let fits = (0..)
            .zip(parity)
            .all(|(number, column)| *column == made_of(data, number));
        fits.then(|| data.concat())
    }

    /// The sectors of its space that a block takes.
    pub(crate) fn taken(&self, address: u64, sectors: u64) -> std::ops::Range<u64> {
        let top = &self.tops[(address >> 48) as usize];
        let width = top.slots.len() as u64 - top.parity;
        let all = match top.parity {
            0 => sectors,
            p => (sectors + p * sectors.div_ceil(width)).next_multiple_of(p + 1),
        };
        address..address + all
    }
}

impl Top<'_> {
    fn columns(&self, sector: u64, sectors: u64) -> Vec<Vec<u8>> {
        let (n, p) = (self.slots.len() as u64, self.parity);
        let (full, rest) = (sectors / (n - p), sectors % (n - p));
        let longer = if rest == 0 { 0 } else { rest + p };
        let count = if full > 0 { n } else { rest + p };
        let read = |column: u64| {
            let is_swapped = p == 1 && sector >> 8 & 1 == 1 && column < 2;
            let place = if is_swapped { 1 - column } else { column };
            let (at, len) = (sector + place, full + u64::from(column < longer));
            data(self.slots[(at % n) as usize], at / n, len)
        };
        (0..count).map(read).collect()
    }
}

/// 1
fn data(leaf: &Disk, sector: u64, sectors: u64) -> Vec<u8> {
    leaf.read(
        (1 << 20) + sector * SECTOR as u64,
        sectors as usize * SECTOR,
    )
}

/// Parity column `number` of these data columns.
fn made_of(data: &[Vec<u8>], number: u32) -> Vec<u8> {
    let mut parity = vec![0_u8; data[0].len()];
    for column in data {
        for (at, parity) in parity.iter_mut().enumerate() {
            for _ in 0..number {
                *parity = *parity << 1 ^ if *parity >> 7 == 1 { 0x1d } else { 0 };
            }
            *parity ^= column.get(at).copied().unwrap_or(0);
        }
    }
    parity
}
