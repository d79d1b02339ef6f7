//! Layout of a file with histories: a header, then groups of eight objects, each group with the
//! entries of its objects and three rings.
//!
//! `docs/format.md` has the same in words.

use model::history::HistoryKind;

use super::fields::{SLOT_BYTES, Slot};
use super::ring::{ALL, Ring};

/// Objects of a group.
pub(crate) const COLUMNS: usize = 8;
/// Bytes of the file's header.
pub(crate) const HEADER_BYTES: usize = 4096;
/// Bytes of an entry.
pub(crate) const ENTRY_BYTES: usize = 512;
/// Copies of each entry.
pub(crate) const COPIES: usize = 2;
/// Bytes of the entries of a group.
const ENTRIES_BYTES: usize = COLUMNS * COPIES * ENTRY_BYTES;
/// Bytes of a row before its slots.
const ROW_HEAD: usize = 16;
/// Bytes of a row.
pub(crate) const ROW_BYTES: usize = ROW_HEAD + COLUMNS * SLOT_BYTES;
/// Bytes of a group.
pub(crate) const GROUP_BYTES: usize = (ENTRIES_BYTES
    + (ALL[0].rows + ALL[1].rows + ALL[2].rows) as usize * ROW_BYTES)
    .next_multiple_of(4096);

const MAGIC: &[u8; 8] = b"sandhist";
const VERSION: u32 = 1;
/// Sequence number from which a row cannot be genuine: eight thousand years of minutes.
const IMPOSSIBLE_SEQ: u32 = u32::MAX / 2;

/// Slots of one row.
pub(crate) type Slots = [Option<Slot>; COLUMNS];

/// Returns the number of a kind in files.
fn number(kind: HistoryKind) -> u8 {
    match kind {
        HistoryKind::Unit => 1,
        HistoryKind::Pool => 2,
        HistoryKind::Disk => 3,
        HistoryKind::Host => 4,
        HistoryKind::PortGroup => 5,
    }
}

/// Returns the most groups that the file of a kind may have.
pub(crate) fn most_groups(kind: HistoryKind) -> usize {
    match kind {
        HistoryKind::Unit => 256,
        HistoryKind::Pool => 16,
        HistoryKind::Disk | HistoryKind::Host => 128,
        HistoryKind::PortGroup => 32,
    }
}

/// Returns the length of a file with this many groups.
pub(crate) fn file_bytes(groups: usize) -> u64 {
    (HEADER_BYTES + groups * GROUP_BYTES) as u64
}

/// Returns the place of a group in its file.
pub(crate) fn group_at(group: usize) -> u64 {
    file_bytes(group)
}

/// Returns the place of a copy of an entry in its group.
pub(crate) fn entry_at(column: usize, copy: usize) -> usize {
    (column * COPIES + copy) * ENTRY_BYTES
}

/// Returns the place of a ring in its group.
pub(crate) fn ring_at(ring: Ring) -> usize {
    let before = ALL.iter().take(ring.number).map(|ring| ring.rows as usize);
    ENTRIES_BYTES + before.sum::<usize>() * ROW_BYTES
}

/// Returns the bytes of a ring.
pub(crate) fn ring_bytes(ring: Ring) -> usize {
    ring.rows as usize * ROW_BYTES
}

/// Returns the header of the file of a kind.
pub(crate) fn header(kind: HistoryKind) -> Vec<u8> {
    let mut header = vec![0; HEADER_BYTES];
    header[..8].copy_from_slice(MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    header[12] = number(kind);
    let sum = crc32fast::hash(&header[..16]);
    header[16..20].copy_from_slice(&sum.to_le_bytes());
    header
}

/// Checks the header of the file of a kind.
///
/// # Errors
/// The file is no history of this kind, or a newer program wrote it; the text says which, as a
/// clause.
pub(crate) fn check_header(kind: HistoryKind, found: &[u8]) -> Result<(), &'static str> {
    let expected = header(kind);
    if found == expected {
        return Ok(());
    }
    let is_ours = found.len() >= 20 && &found[..8] == MAGIC;
    if is_ours && word(found, 16) == crc32fast::hash(&found[..16]) && word(found, 8) > VERSION {
        return Err("a newer version of Sandstone wrote it");
    }
    Err("its header is damaged")
}

/// Reads four bytes as a number.
pub(crate) fn word(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

/// Place of a row, which its checksum covers: a row that was written elsewhere is damaged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowPlace {
    pub(crate) group: usize,
    pub(crate) ring: Ring,
}

/// Figures of the objects of a group for one window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// Sequence number of the row in its ring. It gives the place, and tells old rows from new.
    pub(crate) seq: u32,
    /// First minute of the window, since 1970.
    pub(crate) time: u32,
    /// Slots of the objects; `None` for an object that was not there.
    pub(crate) slots: Slots,
}

/// Contents of the place of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FoundRow {
    /// Nothing was written here.
    Blank,
    /// A row that is whole.
    Whole(Row),
    /// Bytes that were not written as they are.
    Damaged,
}

impl Row {
    /// Encodes the row.
    pub(crate) fn encode(&self, place: RowPlace) -> [u8; ROW_BYTES] {
        let mut bytes = [0; ROW_BYTES];
        bytes[..4].copy_from_slice(&self.seq.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.time.to_le_bytes());
        for (column, slot) in self.slots.iter().enumerate() {
            if let Some(slot) = slot {
                bytes[8] |= 1 << column;
                let at = ROW_HEAD + column * SLOT_BYTES;
                bytes[at..at + SLOT_BYTES].copy_from_slice(slot);
            }
        }
        let sum = checksum(place, &bytes);
        bytes[12..16].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Decodes what lies at the place of a row.
    pub(crate) fn decode(place: RowPlace, row: u32, bytes: &[u8]) -> FoundRow {
        if bytes == [0; ROW_BYTES] {
            return FoundRow::Blank;
        }
        let (seq, time) = (word(bytes, 0), word(bytes, 4));
        let is_here = place.ring.row(seq) == row && seq < IMPOSSIBLE_SEQ;
        if !is_here || word(bytes, 12) != checksum(place, bytes) {
            return FoundRow::Damaged;
        }
        let slot = |column: usize| {
            let at = ROW_HEAD + column * SLOT_BYTES;
            let mut slot = [0; SLOT_BYTES];
            slot.copy_from_slice(&bytes[at..at + SLOT_BYTES]);
            (bytes[8] & 1 << column != 0).then_some(slot)
        };
        let slots = std::array::from_fn(slot);
        FoundRow::Whole(Self { seq, time, slots })
    }
}

fn checksum(place: RowPlace, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&(place.group as u32).to_le_bytes());
    hasher.update(&[place.ring.number as u8]);
    hasher.update(&bytes[..12]);
    hasher.update(&bytes[ROW_HEAD..]);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_takes_as_many_bytes_as_the_book_says() {
        assert_eq!(ROW_BYTES, 208);
        assert_eq!(GROUP_BYTES, 1_110_016);
        assert_eq!(GROUP_BYTES / COLUMNS, 138_752);
        assert_eq!(ring_at(ALL[0]), 8192);
        let end = ring_at(ALL[2]) + ring_bytes(ALL[2]);
        assert!(end <= GROUP_BYTES && GROUP_BYTES - end < 4096);
        let most = HistoryKind::ALL.map(|kind| most_groups(kind) * COLUMNS);
        assert_eq!(most, [2048, 128, 1024, 1024, 256]);
    }

    #[test]
    fn a_row_is_itself_again_and_every_flipped_bit_is_found() {
        let place = RowPlace {
            group: 3,
            ring: ALL[1],
        };
        let mut slots = Slots::default();
        slots[2] = Some([7; SLOT_BYTES]);
        slots[7] = Some([0; SLOT_BYTES]);
        let row = Row {
            seq: 2017,
            time: 29_000_000,
            slots,
        };
        let bytes = row.encode(place);
        let found = |bytes: &[u8]| Row::decode(place, 1, bytes);
        assert_eq!(found(&bytes), FoundRow::Whole(row));
        for bit in 0..ROW_BYTES * 8 {
            let mut bytes = bytes;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(found(&bytes), FoundRow::Damaged, "bit {bit}");
        }
        assert_eq!(found(&[0; ROW_BYTES]), FoundRow::Blank);
        assert_eq!(Row::decode(place, 2, &bytes), FoundRow::Damaged);
        let elsewhere = RowPlace { group: 4, ..place };
        assert_eq!(Row::decode(elsewhere, 1, &bytes), FoundRow::Damaged);
        let elsewhere = RowPlace {
            ring: ALL[0],
            ..place
        };
        assert_eq!(Row::decode(elsewhere, 217, &bytes), FoundRow::Damaged);
    }

    #[test]
    fn a_header_tells_kind_and_version() {
        let ours = header(HistoryKind::Disk);
        assert_eq!(check_header(HistoryKind::Disk, &ours), Ok(()));
        let damaged = Err("its header is damaged");
        assert_eq!(check_header(HistoryKind::Host, &ours), damaged);
        assert_eq!(check_header(HistoryKind::Disk, &ours[..10]), damaged);
        let mut newer = ours;
        newer[8] = 2;
        assert_eq!(check_header(HistoryKind::Disk, &newer), damaged);
        let sum = crc32fast::hash(&newer[..16]);
        newer[16..20].copy_from_slice(&sum.to_le_bytes());
        let told = check_header(HistoryKind::Disk, &newer);
        assert_eq!(told, Err("a newer version of Sandstone wrote it"));
    }
}
