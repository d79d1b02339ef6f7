//! A record of the log, in the chain or as a copy on a log vdev (sections 8 and 8.3).

use super::bytes::{is_keyed, is_zero, keyed, number, wide};
use super::labels::ReadLabels;
use super::map::Pointer;

#[derive(Clone, Debug)]
pub(super) struct Record {
    pub(super) seq: u64,
    pub(super) epoch: u64,
    /// Number of the last group that the record proves to have been durable, with all groups
    /// before.
    pub(super) proves: u64,
    /// Number of the last group that the record proves durable in the chain alone.
    pub(super) durable_seq: u64,
    pub(super) next: u64,
    pub(super) previous: u128,
    /// Checksum. For a copy, the checksum of the record in the chain.
    pub(super) checksum: u128,
    pub(super) entries: Vec<Entry>,
}

#[derive(Clone, Debug)]
pub(super) enum Entry {
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

impl Record {
    /// Parses a sector of the chain, if it is a record of this pool.
    pub(super) fn parse(sector: &[u8], found: &ReadLabels<'_>) -> Option<Self> {
        is_valid(sector, found).then(|| {
            assert!(is_zero(&sector[12..14]) && is_zero(&sector[88..96]));
            Self::fields(sector, wide(&sector[72..88]))
        })
    }

    /// Parses a sector of a log vdev, if it is a copy (section 8.3).
    pub(super) fn parse_copy(sector: &[u8], found: &ReadLabels<'_>) -> Option<Self> {
        is_valid(sector, found).then(|| {
            assert_eq!(number(&sector[12..14]), 1);
            let mut chain = sector.to_vec();
            chain[12..14].fill(0);
            chain[88..96].fill(0);
            let promised = number(&sector[88..96]);
            let record = Self::fields(&chain, keyed(found.secret, &chain, 72));
            Self {
                proves: record.durable_seq.max(promised),
                ..record
            }
        })
    }

    fn fields(sector: &[u8], checksum: u128) -> Self {
        let durable_seq = number(&sector[40..48]);
        Self {
            seq: number(&sector[24..32]),
            epoch: number(&sector[32..40]),
            proves: durable_seq,
            durable_seq,
            next: number(&sector[48..56]),
            previous: wide(&sector[56..72]),
            checksum,
            entries: entries(sector),
        }
    }

    /// Reports whether the record marks an earlier end of the log (section 8.1).
    pub(super) fn is_mark(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the blocks of the group, in the order of its entries.
    pub(super) fn pointers(&self) -> impl Iterator<Item = &Pointer> {
        self.entries.iter().filter_map(|entry| match entry {
            Entry::Map { pointer, .. } | Entry::Stored { pointer, .. } => Some(pointer),
            Entry::Clear { .. } | Entry::Operation(_) => None,
        })
    }
}

fn is_valid(sector: &[u8], found: &ReadLabels<'_>) -> bool {
    sector.starts_with(b"SANDLOGR")
        && number(&sector[8..10]) == if is_zero(&sector[14..16]) { 1 } else { 2 }
        && number(&sector[16..24]) == found.key_guid
        && is_keyed(found.secret, sector, 72)
}

fn entries(sector: &[u8]) -> Vec<Entry> {
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
