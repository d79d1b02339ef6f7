//! Record of the log from a disk that lies. There is never a panic, and no more entries than its
//! sector holds. A record that was read keeps its meaning when it is written and read again.
//!
//! Input: the sector, cut where only zeros follow. Its checksum is corrected, since no fuzzer finds
//! one.

use store::format::record::ROOM;
use store::format::{Address, PoolKey, Record, SECTOR_SIZE};
use store::log::replay::{Replay, Trace, blocks};

use crate::input::{Bytes, keyed_sector};

/// Runs one input of the fuzzer.
pub fn run(data: &[u8]) {
    let sector: [u8; SECTOR_SIZE] = Bytes::new(data).array();
    let (sector, key): (_, PoolKey) = keyed_sector(sector);
    let Some((record, checksum)) = Record::decode(&sector, key) else {
        return;
    };
    let size: usize = record.entries.iter().map(|entry| entry.size()).sum();
    assert!(size <= ROOM, "{size} bytes of entries");
    assert!(blocks(&record).all(|block| !block.is_hole()));
    let again = Record::decode(&record.encode(key).0.to_vec(), key);
    assert_eq!(again.map(|(again, _)| again), Some(record.clone()));
    // The record is followed if it is the next one and not a copy, and not followed otherwise.
    if let Some(before) = record.seq.checked_sub(1) {
        let here = Address::new(0, 1);
        let mut replay = Replay::new(key, before, here, record.previous);
        // Around the end, the record leads on, but proves nothing of its own group.
        let traces: Vec<Trace> = replay.traces(&sector).collect();
        let next = traces.iter().map(|trace| (trace.checksum, trace.next));
        assert!(next.eq([(checksum, record.next)]));
        assert_eq!(replay.damage_by(traces.iter()), None);
        let found = replay.follow(&sector);
        // A copy on a log vdev belongs to no chain.
        let expected = record.copy.is_none().then_some(checksum);
        assert_eq!(found.map(|found| found.checksum), expected);
        let mut replay = Replay::new(key, before, here, !record.previous);
        assert_eq!(replay.follow(&sector), None);
    }
}
