//! Records and replay: section 8.

use std::collections::VecDeque;

use super::bytes::{is_keyed, is_zero, number, wide};
use super::datasets::Datasets;
use super::labels::Found;
use super::map::Pointer;
use super::vdevs::Vdevs;

struct Record {
    seq: u64,
    epoch: u64,
    durable_seq: u64,
    next: u64,
    previous: u128,
    checksum: u128,
    entries: Vec<Entry>,
}

enum Entry {
    Map {
        volume: u64,
        block: u64,
        pointer: Pointer,
    },
    Clear {
        volume: u64,
        block: u64,
        count: u64,
    },
    Operation(Vec<u8>),
    Stored {
        len: usize,
        pointer: Pointer,
    },
}

/// Does what the log says. Returns how many groups there were, and how many of them not proven.
pub(crate) fn replay(vdevs: &Vdevs<'_>, found: &Found<'_>, datasets: &mut Datasets) -> (u64, u64) {
    let root = &found.root;
    let (mut seq, mut address, mut previous) = (root.seq + 1, root.log, root.previous);
    let mut proven = root.seq;
    let mut groups = VecDeque::new();
    while let Some(record) = record(vdevs, found, address) {
        if record.seq != seq || record.previous != previous {
            break;
        }
        proven = proven.max(record.durable_seq.min(seq));
        seq += 1;
        previous = record.checksum;
        groups.push_back((address, record));
        address = groups.back().expect("it was pushed").1.next;
    }
    let (mut epoch, mut done, mut unproven) = (root.epoch + 1, 0, 0);
    while let Some((place, group)) = groups.pop_front() {
        if group.seq > proven && !is_whole(vdevs, &group) {
            (seq, address) = (group.seq, place);
            break;
        }
        assert!(
            group.epoch >= epoch,
            "group {} is of an older epoch",
            group.seq
        );
        epoch = group.epoch;
        (done, unproven) = (done + 1, unproven + u64::from(group.seq > proven));
        group
            .entries
            .iter()
            .for_each(|entry| follow(vdevs, datasets, entry));
    }
    for later in (1..2048).filter_map(|sector| record(vdevs, found, address + sector)) {
        assert!(
            later.seq <= seq || later.durable_seq < seq,
            "the log is damaged"
        );
    }
    (done, unproven)
}

fn is_whole(vdevs: &Vdevs<'_>, group: &Record) -> bool {
    group.entries.iter().all(|entry| match entry {
        Entry::Map { pointer, .. } | Entry::Stored { pointer, .. } => {
            vdevs.try_read(pointer).is_some()
        }
        Entry::Clear { .. } | Entry::Operation(_) => true,
    })
}

fn follow(vdevs: &Vdevs<'_>, datasets: &mut Datasets, entry: &Entry) {
    let mut operate =
        |bytes: &[u8]| datasets.operate(&serde_json::from_slice(bytes).expect("JSON"));
    match entry {
        Entry::Map {
            volume,
            block,
            pointer,
        } => datasets.write(*volume, *block, *pointer),
        Entry::Clear {
            volume,
            block,
            count,
        } => datasets.clear(*volume, *block, *count),
        Entry::Operation(bytes) => operate(bytes),
        Entry::Stored { len, pointer } => operate(&vdevs.read(pointer)[..*len]),
    }
}

/// The record at an address, if there is one of this pool.
fn record(vdevs: &Vdevs<'_>, found: &Found<'_>, address: u64) -> Option<Record> {
    let sector = vdevs.payload(address, 1)?;
    let is_record = sector.starts_with(b"SANDLOGR")
        && number(&sector[8..10]) == 1
        && number(&sector[16..24]) == found.guid
        && is_keyed(found.secret, &sector, 72);
    is_record.then(|| Record {
        seq: number(&sector[24..32]),
        epoch: number(&sector[32..40]),
        durable_seq: number(&sector[40..48]),
        next: number(&sector[48..56]),
        previous: wide(&sector[56..72]),
        checksum: wide(&sector[72..88]),
        entries: entries(&sector),
    })
}

fn entries(sector: &[u8]) -> Vec<Entry> {
    assert!(is_zero(&sector[12..16]), "flags");
    let mut rest = &sector[96..];
    let mut take = |len: usize| {
        let (taken, behind) = rest.split_at(len);
        rest = behind;
        taken
    };
    let entry = |_| {
        let (kind, volume, first) = (number(take(4)), number(take(4)), number(take(8)));
        match kind {
            1 => Entry::Map {
                volume,
                block: first,
                pointer: Pointer::parse(take(32)),
            },
            2 => Entry::Clear {
                volume,
                block: first,
                count: number(take(8)),
            },
            3 => {
                let padded = take(first.next_multiple_of(8) as usize);
                Entry::Operation(padded[..first as usize].to_vec())
            }
            4 => Entry::Stored {
                len: first as usize,
                pointer: Pointer::parse(take(32)),
            },
            other => panic!("an entry of kind {other}"),
        }
    };
    let entries = (0..number(&sector[10..12])).map(entry).collect();
    assert!(is_zero(rest));
    entries
}
