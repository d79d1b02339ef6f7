//! The places of a vdev's sectors on its leaves (section 11). Everything redundant is compared:
//! copies with each other, parity with its data.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::disks::{Disk, SECTOR};
use super::Refusal;
use super::map::Pointer;

/// The top-level vdevs of a pool.
pub(crate) struct Vdevs<'a> {
    tops: Vec<Top<'a>>,
    /// Blocks of the log that were restored (section 8.3).
    restored: BTreeMap<Pointer, Vec<u8>>,
}

struct Top<'a> {
    /// Number of parity columns; 0 for a leaf or mirror.
    parity: u64,
    is_log: bool,
    leaf_sectors: u64,
    /// Sectors of inner labels (section 1).
    inner_labels: Vec<u64>,
    slots: Vec<Vec<Leaf<'a>>>,
}

/// A leaf (section 2).
struct Leaf<'a> {
    /// Disk of the leaf; `None` if it is away.
    disk: Option<&'a Disk>,
    size: u64,
    is_online: bool,
    missing: Vec<(u64, u64)>,
}

impl<'a> Vdevs<'a> {
    pub(crate) fn new(config: &Value, leaves: &BTreeMap<u64, &'a Disk>) -> Self {
        let tops = list(&config["vdevs"]).iter();
        Self {
            tops: tops.map(|top| Top::new(top, leaves)).collect(),
            restored: BTreeMap::new(),
        }
    }

    fn top(&self, address: u64) -> Option<(&Top<'a>, u64)> {
        let top = self.tops.get((address >> 48) as usize)?;
        Some((top, address & ((1 << 48) - 1)))
    }

    /// Reads a block that must be there, with all its redundancy.
    pub(crate) fn read(&self, pointer: &Pointer) -> Vec<u8> {
        let restored = self.restored.get(pointer).cloned().into_iter();
        let copies = pointer.places();
        let mut copies = restored.chain(copies.filter_map(|place| self.payload(pointer, place)));
        copies
            .find(|payload| pointer.is_of(payload))
            .unwrap_or_else(|| panic!("{pointer:x?} is not there"))
    }

    /// Reads a block, if it is there: from any leaf of a mirror, or from a raidz with its parity.
    pub(crate) fn try_read(&self, pointer: &Pointer) -> Option<Vec<u8>> {
        let all =
            pointer
                .places()
                .flat_map(|place| match self.top(place).map(|(top, _)| top.parity) {
                    Some(0) => self.runs(place, pointer.sectors),
                    _ => self.payload(pointer, place).into_iter().collect(),
                });
        all.into_iter().find(|payload| pointer.is_of(payload))
    }

    /// Gives a block these bytes, wherever they were (section 8.3).
    pub(super) fn restore(&mut self, pointer: Pointer, payload: Vec<u8>) {
        self.restored.insert(pointer, payload);
    }

    /// Returns the content of one of a pointer's places, on leaves that did not miss it. Returns
    /// nothing if copies or parity do not fit.
    fn payload(&self, pointer: &Pointer, place: u64) -> Option<Vec<u8>> {
        let (top, sector) = self.top(place)?;
        if top.parity == 0 {
            let have = top.leaves().filter(|leaf| leaf.has(pointer.birth));
            let copies: Vec<Vec<u8>> = have
                .filter_map(|leaf| leaf.data(sector, pointer.sectors))
                .collect();
            let first = copies.first()?;
            let is_same = copies.iter().all(|copy| copy == first);
            return is_same.then(|| first.clone());
        }
        let columns = top.columns(sector, pointer.sectors, pointer.birth)?;
        let (parity, data) = columns.split_at(top.parity as usize);
        let fits = (0..)
            .zip(parity)
            .all(|(number, column)| *column == made_of(data, number));
        fits.then(|| data.concat())
    }

    /// Returns the content of each leaf of a mirror at an address.
    pub(super) fn runs(&self, address: u64, sectors: u64) -> Vec<Vec<u8>> {
        let Some((top, sector)) = self.top(address) else {
            return Vec::new();
        };
        let leaves = top.leaves();
        leaves
            .filter_map(|leaf| leaf.data(sector, sectors))
            .collect()
    }

    /// Returns the content of the leaves where a record may lie: one sector, of which each parity
    /// is a copy.
    pub(super) fn copies(&self, address: u64) -> Vec<Vec<u8>> {
        let all = self.holders(address).into_iter();
        all.filter_map(|(leaf, sector)| leaf.data(sector, 1))
            .collect()
    }

    /// Returns the copies on leaves that miss nothing (section 8.1, step 4).
    pub(super) fn copies_of_whole_leaves(&self, address: u64) -> Vec<Vec<u8>> {
        let all = self.holders(address).into_iter();
        all.filter(|(leaf, _)| leaf.is_online && leaf.missing.is_empty())
            .filter_map(|(leaf, sector)| leaf.data(sector, 1))
            .collect()
    }

    /// Reads one sector of leaves that are online (section 8.3). `read` also tells the epoch, which
    /// the leaves must not miss.
    pub(super) fn online_copies<T>(
        &self,
        address: u64,
        read: impl Fn(&[u8]) -> Option<(u64, T)>,
    ) -> Vec<T> {
        let all = self.holders(address).into_iter();
        all.filter(|(leaf, _)| leaf.is_online)
            .filter_map(|(leaf, sector)| {
                let (epoch, found) = read(&leaf.data(sector, 1)?)?;
                leaf.has(epoch).then_some(found)
            })
            .collect()
    }

    /// Reports whether it is believed that no record is at an address (section 8.1, step 1).
    /// `epoch` is the epoch of the record before.
    pub(super) fn is_believed(&self, address: u64, epoch: u64) -> bool {
        let all = self.holders(address).into_iter();
        all.filter(|(leaf, _)| leaf.disk.is_some())
            .any(|(leaf, _)| leaf.has_all_from(epoch))
    }

    /// Returns the leaves that have a block of one sector, and its place there.
    fn holders(&self, address: u64) -> Vec<(&Leaf<'a>, u64)> {
        let Some((top, sector)) = self.top(address) else {
            return Vec::new();
        };
        if top.parity == 0 {
            return top.leaves().map(|leaf| (leaf, sector)).collect();
        }
        let n = top.slots.len() as u64;
        let columns = sector..=sector + top.parity;
        let on_slot = columns.flat_map(|at| {
            let slot = top.slots[(at % n) as usize].iter();
            slot.map(move |leaf| (leaf, at / n))
        });
        on_slot.collect()
    }

    /// Returns the first address of each log vdev, and its sectors (section 8.3). Refuses if a log
    /// vdev is away that may have the only copies.
    pub(super) fn logs(&self, root: u64) -> Result<Vec<(u64, u64)>, Refusal> {
        let logs = (0..).zip(&self.tops).filter(|(_, top)| top.is_log);
        logs.map(|(number, top)| {
            let is_used = top.leaves().any(|leaf| leaf.is_online);
            let mut there = top
                .leaves()
                .filter(|leaf| leaf.is_online && leaf.disk.is_some());
            match !is_used || there.any(|leaf| leaf.has_all_from(root + 1)) {
                true => Ok((number << 48, top.leaf_sectors)),
                false => Err(Refusal::LogMissing),
            }
        })
        .collect()
    }

    /// Returns the sectors of inner labels, as addresses (section 10).
    pub(crate) fn inner_labels(&self) -> impl Iterator<Item = u64> {
        let tops = (0..).zip(&self.tops).filter(|(_, top)| !top.is_log);
        tops.flat_map(|(number, top)| {
            let columns = if top.parity > 0 {
                top.slots.len() as u64
            } else {
                1
            };
            let both = top.inner_labels.iter();
            both.flat_map(move |at| {
                (at * columns..(at + 64) * columns).map(move |at| number << 48 | at)
            })
        })
    }

    /// Returns the sectors of the vdev's space that a block takes.
    pub(crate) fn taken(&self, address: u64, sectors: u64) -> std::ops::Range<u64> {
        let (top, _) = self.top(address).expect("a vdev");
        let width = top.slots.len() as u64 - top.parity;
        let all = match top.parity {
            0 => sectors,
            p => (sectors + p * sectors.div_ceil(width)).next_multiple_of(p + 1),
        };
        address..address + all
    }
}

impl<'a> Top<'a> {
    fn new(top: &Value, leaves: &BTreeMap<u64, &'a Disk>) -> Self {
        let kind = top["kind"].as_str().expect("a kind");
        let slots = list(&top["slots"]).iter();
        let slots: Vec<Vec<Leaf<'a>>> = slots
            .map(|slot| {
                let all = list(&slot["leaves"]).iter();
                all.map(|leaf| Leaf::new(leaf, leaves)).collect()
            })
            .collect();
        let smallest = slots.iter().flatten().map(Leaf::data_sectors).min();
        Self {
            parity: match kind.strip_prefix("raidz") {
                Some(parity) => parity.parse().expect("1 to 3"),
                None => 0,
            },
            is_log: top["is_log"] == true,
            leaf_sectors: top["leaf_sectors"].as_u64().or(smallest).unwrap_or(0),
            inner_labels: match top["inner_labels"].as_array() {
                Some(both) => both
                    .iter()
                    .map(|at| at.as_u64().expect("a sector"))
                    .collect(),
                None => Vec::new(),
            },
            slots,
        }
    }

    fn leaves(&self) -> impl Iterator<Item = &Leaf<'a>> {
        self.slots.iter().flatten()
    }

    fn columns(&self, sector: u64, sectors: u64, birth: u64) -> Option<Vec<Vec<u8>>> {
        let (n, p) = (self.slots.len() as u64, self.parity);
        let (full, rest) = (sectors / (n - p), sectors % (n - p));
        let longer = if rest == 0 { 0 } else { rest + p };
        let count = if full > 0 { n } else { rest + p };
        let read = |column: u64| {
            let is_swapped = p == 1 && sector >> 8 & 1 == 1 && column < 2;
            let place = if is_swapped { 1 - column } else { column };
            let (at, len) = (sector + place, full + u64::from(column < longer));
            let mut slot = self.slots[(at % n) as usize].iter();
            let leaf = slot.find(|leaf| leaf.has(birth))?;
            leaf.data(at / n, len)
        };
        (0..count).map(read).collect()
    }
}

impl<'a> Leaf<'a> {
    fn new(leaf: &Value, leaves: &BTreeMap<u64, &'a Disk>) -> Self {
        let guid = leaf["guid"].as_str().expect("a guid");
        let guid = u64::from_str_radix(guid, 16).expect("hexadecimal");
        let epoch = |range: &Value, at: usize| range[at].as_u64().expect("an epoch");
        let missing = list(&leaf["missing"]).iter();
        Self {
            disk: leaves.get(&guid).copied(),
            size: leaf["size"].as_u64().expect("bytes"),
            is_online: leaf["state"] == "online",
            missing: missing
                .map(|range| (epoch(range, 0), epoch(range, 1)))
                .collect(),
        }
    }

    /// Returns the sectors in the data area (section 1).
    fn data_sectors(&self) -> u64 {
        let end = self.size - self.size % (256 << 10);
        (end - (512 << 10) - (1 << 20)) / (1 << 20) * 256
    }

    /// Returns the content of these sectors of the data area, if the leaf is there (section 1).
    fn data(&self, sector: u64, sectors: u64) -> Option<Vec<u8>> {
        let offset = (1 << 20) + sector * SECTOR as u64;
        let disk = self.disk?;
        (sector + sectors <= self.data_sectors())
            .then(|| disk.read(offset, sectors as usize * SECTOR))
    }

    /// Reports whether the leaf got the blocks that were born in this epoch (section 2).
    fn has(&self, epoch: u64) -> bool {
        let is_in = |(first, last): &(u64, u64)| (*first..=*last).contains(&epoch);
        !self.missing.iter().any(is_in) && epoch < self.gone_from()
    }

    /// Reports whether the leaf got all blocks that were born in this epoch or later.
    fn has_all_from(&self, epoch: u64) -> bool {
        self.missing.iter().all(|(_, last)| *last < epoch) && self.gone_from() == u64::MAX
    }

    /// Returns the epoch from which on the leaf gets nothing.
    fn gone_from(&self) -> u64 {
        match self.missing.last() {
            Some((first, _)) if !self.is_online => *first,
            _ => u64::MAX,
        }
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

/// Computes parity column `number` of these data columns.
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
