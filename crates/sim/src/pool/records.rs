//! The records of the log on disks without redundancy, found by the laboratory itself. The store
//! must miss the record that the laboratory takes away, so the store must not choose it. The store
//! only decodes the sectors.

use std::collections::BTreeMap;

use store::format::{Address, PoolKey, Record, SECTOR_SIZE};
use store::vdev::layout::sector_offset;

use crate::disk::Medium;
use crate::subject::ProvenRecord;

/// A record in the chain, and its place.
struct ChainedRecord {
    record: Record,
    checksum: u128,
    address: Address,
}

/// Returns the places of records of which a later record says that they were durable, oldest first.
/// Each vdev is a single disk. All records from the durable one to the later one are there.
pub(super) fn proven(key: PoolKey, disks: &[Medium]) -> Vec<ProvenRecord> {
    let first = sector_offset(0) / SECTOR_SIZE as u64;
    let mut found: BTreeMap<(u64, u128), Vec<ChainedRecord>> = BTreeMap::new();
    for (disk, medium) in disks.iter().enumerate() {
        for sector in medium.written().filter(|sector| *sector >= first) {
            let decoded = Record::decode(&medium.sector(sector)[..], key);
            if let Some((record, checksum)) = decoded.filter(|(record, _)| record.copy.is_none()) {
                let address = Address::new(disk as u16, sector - first);
                let of = found.entry((record.seq, record.previous)).or_default();
                of.push(ChainedRecord {
                    record,
                    checksum,
                    address,
                });
            }
        }
    }
    // A record counts if it lies where the record before says. Any other record is a signpost, or
    // left from a log that went on otherwise.
    let behind = |of: &ChainedRecord| {
        let all = found.get(&(of.record.seq + 1, of.checksum))?;
        all.iter().find(|next| next.address == of.record.next)
    };
    let is_proven = |of: &ChainedRecord| {
        let chain = std::iter::successors(behind(of), |of| behind(of));
        chain.map(|later| later.record.durable_seq).max() >= Some(of.record.seq)
    };
    let chained = found.values().flatten().filter_map(behind);
    let proven = chained.filter(|of| is_proven(of));
    let mut places: Vec<ProvenRecord> = proven
        .map(|of| ProvenRecord {
            number: of.record.seq,
            disk: of.address.vdev().into(),
            sector: first + of.address.sector(),
            is_twice: of.record.signpost != 0,
        })
        .collect();
    places.sort_unstable();
    places.dedup();
    places
}

/// Returns the places of records without entries.
pub(super) fn marks(key: PoolKey, disks: &[Medium]) -> Vec<(usize, u64)> {
    let first = sector_offset(0) / SECTOR_SIZE as u64;
    let mut found = Vec::new();
    for (disk, medium) in disks.iter().enumerate() {
        for sector in medium.written().filter(|sector| *sector >= first) {
            let decoded = Record::decode(&medium.sector(sector)[..], key);
            if decoded.is_some_and(|(record, _)| record.is_mark()) {
                found.push((disk, sector));
            }
        }
    }
    found
}

/// Returns the sectors of nodes, lists and manifests, recognised by their first bytes. Sectors
/// without a second copy are left out: near a full pool there may be no room for one.
pub(super) fn metadata(disks: &[Medium]) -> Vec<(usize, u64)> {
    let first = sector_offset(0) / SECTOR_SIZE as u64;
    let kinds: [&[u8]; 3] = [b"SANDNODE", b"SANDLIST", b"{\"epoch\":"];
    let mut found: BTreeMap<Vec<u8>, Vec<(usize, u64)>> = BTreeMap::new();
    for (disk, medium) in disks.iter().enumerate() {
        for sector in medium.written().filter(|sector| *sector >= first) {
            let bytes = &medium.sector(sector)[..];
            if kinds.iter().any(|kind| bytes.starts_with(kind)) {
                let places = found.entry(bytes.to_vec()).or_default();
                places.push((disk, sector));
            }
        }
    }
    let twice = found.into_values().filter(|places| places.len() > 1);
    twice.flatten().collect()
}
