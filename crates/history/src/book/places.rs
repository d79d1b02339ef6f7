//! Columns of a book: which object has which, and which column a new object gets.
//!
//! A new object gets, in this order: a column that nobody had; the column of the object that is
//! gone longest, if that is longer than a short absence; a new group; at last the column of the
//! object that is gone longest, however short. So a file grows only by objects that are there at
//! about the same time, and never beyond its bound.

use std::collections::HashSet;
use std::io;

use super::super::entry::{Entry, kept_name};
use super::super::format::{entry_at, file_bytes, group_at, most_groups};
use super::super::ring::ALL;
use super::{Book, Sample, Storage};

/// Minutes for which the column of a missing object is kept, if there is any other.
const SHORT_ABSENCE: u32 = 14 * 24 * 60;

/// Place of an object's column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) group: usize,
    pub(crate) column: usize,
}

/// Column of a group.
#[derive(Clone, Debug, Default)]
pub(crate) struct Column {
    /// Object that the column belongs to.
    pub(crate) entry: Option<Entry>,
    /// Version of each copy of the entry; 0 if the copy is blank or damaged.
    pub(crate) versions: [u32; 2],
    /// Whether only one copy of the entry names the object.
    pub(crate) is_half_named: bool,
    /// Minute of the newest record of the object.
    pub(crate) last_seen: Option<u32>,
}

impl<S: Storage> Book<S> {
    /// Returns a column for a new object, or `None` if the bound is reached and all objects are
    /// present.
    pub(super) fn make_room(
        &mut self,
        minute: u32,
        present: &HashSet<&str>,
    ) -> io::Result<Option<Place>> {
        if let Some(free) = self.columns().find(|(_, column)| column.entry.is_none()) {
            return Ok(Some(free.0));
        }
        let gone = self.columns().filter(|(_, column)| {
            let entry = column.entry.as_ref();
            entry.is_some_and(|entry| !present.contains(entry.key.as_str()))
        });
        let longest = gone.min_by_key(|(_, column)| column.last_seen);
        let longest = longest.map(|(place, column)| (place, column.last_seen.unwrap_or(0)));
        let is_long = |last: u32| last.saturating_add(SHORT_ABSENCE) <= minute;
        if let Some((place, _)) = longest.filter(|(_, last)| is_long(*last)) {
            return Ok(Some(place));
        }
        let group = self.groups.len();
        if group < most_groups(self.kind) {
            self.storage.lengthen(file_bytes(group + 1))?;
            self.groups.push(Default::default());
            return Ok(Some(Place { group, column: 0 }));
        }
        Ok(longest.map(|(place, _)| place))
    }

    /// Returns all columns with their places.
    pub(super) fn columns(&self) -> impl Iterator<Item = (Place, &Column)> {
        let groups = self.groups.iter().enumerate();
        groups.flat_map(|(group, columns)| {
            let columns = columns.iter().enumerate();
            columns.map(move |(column, of)| (Place { group, column }, of))
        })
    }

    /// Gives a column to an object, in one copy of its entry. After the next sync, the other copy
    /// has to follow.
    pub(super) fn name_first_copy(&mut self, place: Place, sample: &Sample) -> io::Result<()> {
        let entry = Entry {
            key: sample.key.clone(),
            name: kept_name(&sample.name).to_owned(),
            first_seq: ALL.map(|ring| self.next_seq[ring.number]),
        };
        self.write_entry(place, &entry)?;
        let column = &mut self.groups[place.group][place.column];
        column.last_seen = None;
        column.is_half_named = true;
        let before = column.entry.replace(entry);
        if let Some(before) = before {
            self.places.remove(&before.key);
        }
        self.places.insert(sample.key.clone(), place);
        Ok(())
    }

    /// Writes the other copy of a new entry. Otherwise damage to the first one would give the rows
    /// of the object to the one before.
    pub(super) fn name_second_copy(&mut self, place: Place) -> io::Result<()> {
        if let Some(entry) = self.groups[place.group][place.column].entry.clone() {
            self.write_entry(place, &entry)?;
        }
        self.groups[place.group][place.column].is_half_named = false;
        Ok(())
    }

    /// Notes the name of an object, if it has changed.
    pub(super) fn rename(&mut self, place: Place, name: &str) -> io::Result<()> {
        let name = kept_name(name);
        let entry = self.groups[place.group][place.column].entry.clone();
        let Some(mut entry) = entry.filter(|entry| entry.name != name) else {
            return Ok(());
        };
        name.clone_into(&mut entry.name);
        self.write_entry(place, &entry)?;
        self.groups[place.group][place.column].entry = Some(entry);
        Ok(())
    }

    /// Writes an entry over its older copy.
    fn write_entry(&mut self, place: Place, entry: &Entry) -> io::Result<()> {
        let versions = self.groups[place.group][place.column].versions;
        let copy = usize::from(versions[1] < versions[0]);
        let version = versions[0].max(versions[1]).saturating_add(1);
        let bytes = entry.encode(place.group, place.column, version);
        let at = group_at(place.group) + entry_at(place.column, copy) as u64;
        self.storage.write(at, &bytes)?;
        self.groups[place.group][place.column].versions[copy] = version;
        Ok(())
    }
}
