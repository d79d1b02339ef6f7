//! Opening of a book: everything is checked, and what a power cut took is made again.
//!
//! A power cut may tear the row of each ring that was being written, and one copy of an entry. Such
//! bytes count as absent. Other bytes that are not as they were written mean that the file is
//! damaged. Whatever is whole in it can be copied into a new one.

use std::collections::{BTreeSet, HashMap};
use std::io;

use model::history::HistoryKind;

use super::super::entry::{Entry, FoundEntry};
use super::super::format::{
    COLUMNS, COPIES, ENTRY_BYTES, FoundRow, GROUP_BYTES, HEADER_BYTES, ROW_BYTES, Row, RowPlace,
    check_header, entry_at, file_bytes, group_at, header, most_groups, ring_at, ring_bytes,
};
use super::super::ring::{ALL, RINGS, Ring};
use super::places::{Column, Place};
use super::{Book, Storage};

/// Reason why a book is not opened.
#[derive(Debug)]
pub(crate) enum Unfit {
    /// The bytes are not those of a book; the text says why, as a clause.
    Damaged(String),
    /// The bytes cannot be read, or not be written.
    Io(io::Error),
}

impl From<io::Error> for Unfit {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Place of a row whose bytes are not as they were written.
struct Torn {
    group: usize,
    ring: Ring,
    row: u32,
}

/// Everything in a file.
struct Contents {
    groups: Vec<[Column; COLUMNS]>,
    next_seq: [u32; RINGS],
    /// Sequence number and time of the newest row of each ring.
    newest: [Option<(u32, u32)>; RINGS],
    /// Windows of each ring that a coarser ring lacks.
    lacking: [BTreeSet<u32>; RINGS],
    torn: Vec<Torn>,
}

impl<S: Storage> Book<S> {
    /// Makes an empty book on empty storage.
    ///
    /// # Errors
    /// The storage cannot be written.
    pub(crate) fn create(storage: &S, kind: HistoryKind) -> io::Result<()> {
        storage.lengthen(HEADER_BYTES as u64)?;
        storage.write(0, &header(kind))?;
        storage.sync()
    }

    /// Opens a book.
    ///
    /// # Errors
    /// The bytes are damaged, or cannot be read or written.
    pub(crate) fn open(storage: S, kind: HistoryKind) -> Result<Self, Unfit> {
        let groups = groups(&storage, kind)?;
        let contents = Contents::read(&storage, groups)?;
        // Nothing but the newest row of each ring, or the one after it, can be torn.
        for torn in &contents.torn {
            let next = contents.next_seq[torn.ring.number];
            let expected = [next, next - 1].map(|seq| torn.ring.row(seq));
            if !expected.contains(&torn.row) {
                let minutes = torn.ring.period;
                let what = format!("a record of {minutes} min does not match its checksum");
                return Err(Unfit::Damaged(what));
            }
        }
        let named = contents.groups.iter().enumerate().flat_map(|(group, of)| {
            let named = of.iter().enumerate();
            named.filter_map(move |(column, of)| {
                let entry = of.entry.as_ref()?;
                Some((entry.key.clone(), Place { group, column }))
            })
        });
        let places: HashMap<String, Place> = named.collect();
        let mut book = Self {
            kind,
            storage,
            places,
            groups: contents.groups,
            next_seq: contents.next_seq,
            newest: contents.newest.map(|newest| newest.map(|(_, time)| time)),
        };
        book.clear(&contents.torn)?;
        book.catch_up(contents.lacking)?;
        Ok(book)
    }

    /// Clears torn rows. A later opening would take them for damage, because they are no longer the
    /// newest.
    fn clear(&mut self, torn: &[Torn]) -> io::Result<()> {
        for Torn { group, ring, row } in torn {
            let at = ring_at(*ring) + *row as usize * ROW_BYTES;
            let at = group_at(*group) + at as u64;
            self.storage.write(at, &[0; ROW_BYTES])?;
        }
        match torn.is_empty() {
            true => Ok(()),
            false => self.storage.sync(),
        }
    }

    /// Sums up the windows whose row in the coarser ring was lost. Each is durable before the next,
    /// so a power cut tears one row at most.
    fn catch_up(&mut self, lacking: [BTreeSet<u32>; RINGS]) -> io::Result<()> {
        for (ring, windows) in ALL.into_iter().zip(lacking) {
            let Some(coarser) = ring.coarser() else {
                continue;
            };
            for window in windows {
                self.sum_up(ring, coarser, window)?;
                self.storage.sync()?;
            }
        }
        Ok(())
    }
}

/// Checks length and header, and returns the number of groups.
fn groups<S: Storage>(storage: &S, kind: HistoryKind) -> Result<usize, Unfit> {
    let length = storage.bytes()?;
    let damaged = |what: &str| Err(Unfit::Damaged(what.to_owned()));
    if length < HEADER_BYTES as u64 {
        return damaged("it is cut short");
    }
    let mut found = vec![0; HEADER_BYTES];
    storage.read(0, &mut found)?;
    if let Err(why) = check_header(kind, &found) {
        return damaged(why);
    }
    let groups = (length - HEADER_BYTES as u64) / GROUP_BYTES as u64;
    let groups = usize::try_from(groups).unwrap_or(usize::MAX);
    if groups > most_groups(kind) {
        return damaged("it is longer than any that was written");
    }
    match file_bytes(groups) == length {
        true => Ok(groups),
        false => damaged("it is cut short"),
    }
}

impl Contents {
    fn read<S: Storage>(storage: &S, groups: usize) -> Result<Self, Unfit> {
        let mut contents = Self {
            groups: Vec::with_capacity(groups),
            next_seq: [1; RINGS],
            newest: [None; RINGS],
            lacking: Default::default(),
            torn: Vec::new(),
        };
        let mut bytes = vec![0; GROUP_BYTES];
        // The newest row decides which windows are over, and any group may hold it.
        let mut windows = Vec::with_capacity(groups);
        for group in 0..groups {
            storage.read(group_at(group), &mut bytes)?;
            let columns = columns(group, &bytes)?;
            contents.groups.push(columns);
            windows.push(contents.read_rows(group, &bytes));
        }
        for ring in ALL {
            let newest = contents.newest[ring.number].map(|(_, time)| time);
            let Some((coarser, newest)) = ring.coarser().zip(newest) else {
                continue;
            };
            let under_way = coarser.window(newest);
            for windows in &windows {
                let known = &windows[coarser.number];
                let ended = windows[ring.number]
                    .iter()
                    .map(|time| coarser.window(*time));
                let lacking = ended.filter(|of| *of != under_way && !known.contains(of));
                contents.lacking[ring.number].extend(lacking);
            }
        }
        Ok(contents)
    }

    /// Reads the rings of a group, and returns the times of each ring's rows.
    fn read_rows(&mut self, group: usize, bytes: &[u8]) -> [BTreeSet<u32>; RINGS] {
        let mut times: [BTreeSet<u32>; RINGS] = Default::default();
        for ring in ALL {
            let place = RowPlace { group, ring };
            let rows = &bytes[ring_at(ring)..ring_at(ring) + ring_bytes(ring)];
            let next_seq = &mut self.next_seq[ring.number];
            for column in &self.groups[group] {
                let first = column.entry.as_ref().map(|of| of.first_seq[ring.number]);
                *next_seq = (*next_seq).max(first.unwrap_or(0));
            }
            for (bytes, row) in rows.chunks_exact(ROW_BYTES).zip(0..) {
                let found = match Row::decode(place, row, bytes) {
                    FoundRow::Blank => continue,
                    FoundRow::Damaged => {
                        self.torn.push(Torn { group, ring, row });
                        continue;
                    }
                    FoundRow::Whole(found) => found,
                };
                let newest = &mut self.newest[ring.number];
                *newest = (*newest).max(Some((found.seq, found.time)));
                *next_seq = (*next_seq).max(found.seq + 1);
                times[ring.number].insert(found.time);
                for (column, slot) in self.groups[group].iter_mut().zip(&found.slots) {
                    let own = column.entry.as_ref();
                    let is_own = own.is_some_and(|of| found.seq >= of.first_seq[ring.number]);
                    if is_own && slot.is_some() {
                        column.last_seen = column.last_seen.max(Some(found.time));
                    }
                }
            }
        }
        times
    }
}

/// Reads the entries of a group.
fn columns(group: usize, bytes: &[u8]) -> Result<[Column; COLUMNS], Unfit> {
    let mut columns: [Column; COLUMNS] = Default::default();
    for (at, column) in columns.iter_mut().enumerate() {
        let mut damaged = 0;
        for copy in 0..COPIES {
            let from = entry_at(at, copy);
            match Entry::decode(group, at, &bytes[from..from + ENTRY_BYTES]) {
                FoundEntry::Blank => {}
                FoundEntry::Damaged => damaged += 1,
                FoundEntry::Whole(version, entry) => {
                    if version > column.versions[0].max(column.versions[1]) {
                        column.entry = Some(entry);
                    }
                    column.versions[copy] = version;
                }
            }
        }
        if damaged == COPIES {
            let what = "the name of an object does not match its checksum";
            return Err(Unfit::Damaged(what.to_owned()));
        }
    }
    Ok(columns)
}

/// Copies everything that is whole from damaged storage into empty storage, and returns the number
/// of groups that hold something. Storage whose header is damaged holds nothing.
///
/// # Errors
/// The damaged storage cannot be read, or the new one not be written.
pub(crate) fn repaired<S: Storage, T: Storage>(
    damaged: &S,
    new: &T,
    kind: HistoryKind,
) -> io::Result<usize> {
    Book::<T>::create(new, kind)?;
    let length = damaged.bytes()?;
    let mut found = vec![0; HEADER_BYTES];
    if length < HEADER_BYTES as u64 {
        return Ok(0);
    }
    damaged.read(0, &mut found)?;
    if check_header(kind, &found).is_err() {
        return Ok(0);
    }
    let rest = length - HEADER_BYTES as u64;
    let groups = usize::try_from(rest.div_ceil(GROUP_BYTES as u64)).unwrap_or(usize::MAX);
    let groups = groups.min(most_groups(kind));
    for group in 0..groups {
        let mut bytes = vec![0; GROUP_BYTES];
        let there = length - group_at(group);
        let there = usize::try_from(there).map_or(GROUP_BYTES, |there| there.min(GROUP_BYTES));
        damaged.read(group_at(group), &mut bytes[..there])?;
        clear_damaged(group, &mut bytes);
        new.lengthen(file_bytes(group + 1))?;
        new.write(group_at(group), &bytes)?;
    }
    new.sync()?;
    Ok(groups)
}

/// Clears the entries and rows of a group that are not whole.
fn clear_damaged(group: usize, bytes: &mut [u8]) {
    for column in 0..COLUMNS {
        for copy in 0..COPIES {
            let from = entry_at(column, copy);
            let entry = &mut bytes[from..from + ENTRY_BYTES];
            if Entry::decode(group, column, entry) == FoundEntry::Damaged {
                entry.fill(0);
            }
        }
    }
    for ring in ALL {
        let place = RowPlace { group, ring };
        let rows = &mut bytes[ring_at(ring)..ring_at(ring) + ring_bytes(ring)];
        for (bytes, row) in rows.chunks_exact_mut(ROW_BYTES).zip(0..) {
            if Row::decode(place, row, bytes) == FoundRow::Damaged {
                bytes.fill(0);
            }
        }
    }
}
