//! The records of the log on disks without redundancy, read as someone reads them who knows docs/format.md and nothing
//! else: what the laboratory takes away must not be chosen by the store that is to miss it.

use std::collections::BTreeMap;

use store::format::{Address, PoolKey, Record, SECTOR_SIZE};
use store::vdev::layout::sector_offset;

use crate::disk::Medium;

/// A record in the chain, and where it lies.
struct Found {
    record: Record,
    checksum: u128,
    address: Address,
}

/// Where records lie of which a later one says that they were durable, oldest first: a disk, and a sector of it. Each
/// vdev is a single disk, and all records from the one that is said to be durable to the one that says so are there.
pub(super) fn proven(key: PoolKey, disks: &[Medium]) -> Vec<(usize, u64)> {
    let first = sector_offset(0) / SECTOR_SIZE as u64;
    let mut found: BTreeMap<(u64, u128), Vec<Found>> = BTreeMap::new();
    for (disk, medium) in disks.iter().enumerate() {
        for sector in medium.written().filter(|sector| *sector >= first) {
            let decoded = Record::decode(&medium.sector(sector)[..], key);
            if let Some((record, checksum)) = decoded.filter(|(record, _)| record.copy.is_none()) {
                let address = Address::new(disk as u16, sector - first);
                let of = found.entry((record.seq, record.previous)).or_default();
                of.push(Found {
                    record,
                    checksum,
                    address,
                });
            }
        }
    }
    // Where the record before says that it lies; what lies elsewhere is a signpost, or left from a log that went on otherwise.
    let behind = |of: &Found| {
        let all = found.get(&(of.record.seq + 1, of.checksum))?;
        all.iter().find(|next| next.address == of.record.next)
    };
    let is_proven = |of: &Found| {
        let chain = std::iter::successors(behind(of), |of| behind(of));
        chain.map(|later| later.record.durable_seq).max() >= Some(of.record.seq)
    };
    let chained = found.values().flatten().filter_map(behind);
    let proven = chained.filter(|of| is_proven(of));
    let place = |of: &Found| (usize::from(of.address.vdev()), first + of.address.sector());
    let mut places: Vec<(u64, (usize, u64))> =
        proven.map(|of| (of.record.seq, place(of))).collect();
    places.sort_unstable();
    places.dedup();
    places.into_iter().map(|(_, place)| place).collect()
}
