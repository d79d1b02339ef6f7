//! Entry of an object: its identity, its name, and the rows from which on its column is its own.
//!
//! An entry lies twice. A change is written to the older copy, so a torn write leaves the other.

use super::format::{ENTRY_BYTES, word};
use super::ring::RINGS;

/// Bytes of an entry before its texts.
const HEAD: usize = 28;
/// Longest identity, in bytes.
pub(crate) const LONGEST_KEY: usize = 256;
/// Longest name that is kept, in bytes.
const LONGEST_NAME: usize = ENTRY_BYTES - HEAD - LONGEST_KEY;

/// Object that a column belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Identity of the object.
    pub(crate) key: String,
    /// Name of the object.
    pub(crate) name: String,
    /// Sequence number of the first row of each ring that belongs to the object. Older rows of the
    /// column are of an object that was there before.
    pub(crate) first_seq: [u32; RINGS],
}

/// Contents of a copy of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FoundEntry {
    /// Nothing was written here.
    Blank,
    /// An entry that is whole, with its version.
    Whole(u32, Entry),
    /// Bytes that were not written as they are.
    Damaged,
}

/// Returns the end of a name, if all of it has no room: paths differ at their ends.
pub(crate) fn kept_name(name: &str) -> &str {
    let mut from = name.len().saturating_sub(LONGEST_NAME);
    while !name.is_char_boundary(from) {
        from += 1;
    }
    &name[from..]
}

impl Entry {
    /// Encodes the entry of a column.
    pub(crate) fn encode(&self, group: usize, column: usize, version: u32) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        bytes[4..8].copy_from_slice(&version.to_le_bytes());
        for (ring, seq) in self.first_seq.iter().enumerate() {
            let at = 8 + ring * 4;
            bytes[at..at + 4].copy_from_slice(&seq.to_le_bytes());
        }
        let (key, name) = (self.key.as_bytes(), kept_name(&self.name).as_bytes());
        bytes[20..24].copy_from_slice(&(key.len() as u32).to_le_bytes());
        bytes[24..28].copy_from_slice(&(name.len() as u32).to_le_bytes());
        bytes[HEAD..HEAD + key.len()].copy_from_slice(key);
        let at = HEAD + key.len();
        bytes[at..at + name.len()].copy_from_slice(name);
        let sum = checksum(group, column, &bytes);
        bytes[..4].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Decodes a copy of the entry of a column.
    pub(crate) fn decode(group: usize, column: usize, bytes: &[u8]) -> FoundEntry {
        if bytes.iter().all(|byte| *byte == 0) {
            return FoundEntry::Blank;
        }
        let version = word(bytes, 4);
        let whole = || {
            if word(bytes, 0) != checksum(group, column, bytes) || version == 0 {
                return None;
            }
            let (key, name) = (word(bytes, 20) as usize, word(bytes, 24) as usize);
            let texts = &bytes[HEAD..];
            let end = key.checked_add(name)?;
            let key_text = std::str::from_utf8(texts.get(..key)?).ok()?;
            let name_text = std::str::from_utf8(texts.get(key..end)?).ok()?;
            Some(Self {
                key: key_text.to_owned(),
                name: name_text.to_owned(),
                first_seq: std::array::from_fn(|ring| word(bytes, 8 + ring * 4)),
            })
        };
        whole().map_or(FoundEntry::Damaged, |entry| {
            FoundEntry::Whole(version, entry)
        })
    }
}

fn checksum(group: usize, column: usize, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&(group as u32).to_le_bytes());
    hasher.update(&[column as u8]);
    hasher.update(&bytes[4..]);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(key: &str, name: &str) -> Entry {
        Entry {
            key: key.to_owned(),
            name: name.to_owned(),
            first_seq: [1, 2, 3],
        }
    }

    #[test]
    fn an_entry_is_itself_again_and_every_flipped_bit_is_found() {
        let written = entry("00ff", "/dev/disk/by-id/ä");
        let bytes = written.encode(2, 5, 9);
        assert_eq!(
            Entry::decode(2, 5, &bytes),
            FoundEntry::Whole(9, written.clone())
        );
        for bit in 0..ENTRY_BYTES * 8 {
            let mut bytes = bytes;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(
                Entry::decode(2, 5, &bytes),
                FoundEntry::Damaged,
                "bit {bit}"
            );
        }
        assert_eq!(Entry::decode(2, 4, &bytes), FoundEntry::Damaged);
        assert_eq!(Entry::decode(1, 5, &bytes), FoundEntry::Damaged);
        assert_eq!(Entry::decode(2, 5, &[0; ENTRY_BYTES]), FoundEntry::Blank);
    }

    #[test]
    fn long_names_keep_their_ends() {
        let name = format!("ä{}", "x".repeat(LONGEST_NAME - 1));
        assert_eq!(kept_name(&name), "x".repeat(LONGEST_NAME - 1));
        assert_eq!(kept_name("short"), "short");
        let long = entry(&"k".repeat(LONGEST_KEY), &name);
        let bytes = long.encode(0, 0, 1);
        let FoundEntry::Whole(1, found) = Entry::decode(0, 0, &bytes) else {
            panic!("it is whole");
        };
        assert_eq!(found.key, long.key);
        assert_eq!(found.name, kept_name(&name));
    }
}
