//! Book: the histories of all objects of one kind, over any storage.
//!
//! # Order of writes
//! A minute is recorded in this order:
//! 1. If an object is new, its column is named: one copy of the entry, a sync, the other copy. No
//!    row speaks of the object before that.
//! 2. If the minute begins a new window of a coarser ring, the window before is summed up from the
//!    finer ring and appended there.
//! 3. The minute is appended to the first ring: one write for each group of eight objects.
//! 4. One sync ends the minute. The next one is written after it.
//!
//! At most one row of each ring is therefore not durable at any moment, and nothing that lies
//! elsewhere is written. A power cut may tear these rows: their checksums tell, and they count as
//! absent. A summed-up row that was lost with them is made again from the finer ring when the book
//! is opened. So at most the minute is lost that was being written.
//!
//! # Clocks
//! Rows follow each other in the order in which they were written, and each has its time. A clock
//! that jumps therefore overwrites only the oldest rows, as time does anyway. Where a time comes
//! twice, because the clock was set back, the later record counts: clocks are corrected from wrong
//! to right. Times after the present are not shown.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;

use model::history::HistoryKind;

use self::places::{Column, Place};
use super::entry::LONGEST_KEY;
use super::fields::{Slot, summed_up};
use super::format::{COLUMNS, FoundRow, ROW_BYTES, Row, RowPlace, Slots};
use super::format::{group_at, ring_at, ring_bytes};
use super::ring::{ALL, RINGS, Ring};

mod opening;
mod places;
mod points;

pub(crate) use opening::{Unfit, repaired};

/// Bytes that a book lies on. Nothing is durable before a sync.
pub(crate) trait Storage {
    /// Returns the number of bytes.
    fn bytes(&self) -> io::Result<u64>;
    /// Fills a buffer with the bytes from `at` on.
    fn read(&self, at: u64, buffer: &mut [u8]) -> io::Result<()>;
    /// Replaces the bytes from `at` on.
    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()>;
    /// Makes the storage this long. New bytes are zero, and their space is reserved.
    fn lengthen(&self, bytes: u64) -> io::Result<()>;
    /// Makes everything durable that was written.
    fn sync(&self) -> io::Result<()>;
}

/// Figures of one object for one minute.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sample {
    /// Identity of the object.
    pub(crate) key: String,
    /// Name of the object.
    pub(crate) name: String,
    /// Figures of the object.
    pub(crate) slot: Slot,
}

/// Histories of all objects of one kind.
#[derive(Debug)]
pub(crate) struct Book<S> {
    kind: HistoryKind,
    storage: S,
    /// Columns of each group.
    groups: Vec<[Column; COLUMNS]>,
    /// Columns of objects, by identity.
    places: HashMap<String, Place>,
    /// Sequence number of the next row of each ring.
    next_seq: [u32; RINGS],
    /// Time of the newest row of each ring.
    newest: [Option<u32>; RINGS],
}

impl<S: Storage> Book<S> {
    /// Records a minute, and returns the number of objects for which there is no room.
    ///
    /// # Errors
    /// The storage cannot be written. The minute is lost, or a part of it; what was recorded before
    /// is as it was.
    pub(crate) fn record(&mut self, minute: u32, samples: &[Sample]) -> io::Result<usize> {
        if samples.is_empty() {
            return Ok(0);
        }
        let placed = self.place_all(minute, samples)?;
        let mut rows = vec![Slots::default(); self.groups.len()];
        for (place, sample) in placed.iter().zip(samples) {
            if let Some(place) = place {
                rows[place.group][place.column] = Some(sample.slot);
            }
        }
        self.append(ALL[0], minute, rows)?;
        self.storage.sync()?;
        for place in placed.iter().flatten() {
            self.groups[place.group][place.column].last_seen = Some(minute);
        }
        Ok(placed.iter().filter(|place| place.is_none()).count())
    }

    /// Finds or makes the column of each object.
    fn place_all(&mut self, minute: u32, samples: &[Sample]) -> io::Result<Vec<Option<Place>>> {
        let present: HashSet<&str> = samples.iter().map(|sample| sample.key.as_str()).collect();
        let mut placed = Vec::with_capacity(samples.len());
        for sample in samples {
            let place = match self.places.get(&sample.key).copied() {
                Some(place) => {
                    self.rename(place, &sample.name)?;
                    Some(place)
                }
                None if sample.key.len() > LONGEST_KEY => None,
                None => {
                    let place = self.make_room(minute, &present)?;
                    if let Some(place) = place {
                        self.name_first_copy(place, sample)?;
                    }
                    place
                }
            };
            placed.push(place);
        }
        // A column that an earlier minute could not name in full is among them.
        let fresh = placed.iter().flatten().copied();
        let fresh: Vec<Place> = fresh
            .filter(|place| self.groups[place.group][place.column].is_half_named)
            .collect();
        if !fresh.is_empty() {
            self.storage.sync()?;
        }
        for place in fresh {
            self.name_second_copy(place)?;
        }
        Ok(placed)
    }

    /// Appends a row to a ring, after the window that it ends in the coarser ring.
    fn append(&mut self, ring: Ring, time: u32, rows: Vec<Slots>) -> io::Result<()> {
        if let (Some(coarser), Some(newest)) = (ring.coarser(), self.newest[ring.number]) {
            let ended = coarser.window(newest);
            if ended != coarser.window(time) {
                self.sum_up(ring, coarser, ended)?;
            }
        }
        let seq = self.next_seq[ring.number];
        for (group, slots) in rows.into_iter().enumerate() {
            let place = RowPlace { group, ring };
            let bytes = Row { seq, time, slots }.encode(place);
            let row = ring.row(seq) as usize * ROW_BYTES;
            let at = group_at(group) + (ring_at(ring) + row) as u64;
            self.storage.write(at, &bytes)?;
        }
        self.next_seq[ring.number] = seq + 1;
        self.newest[ring.number] = Some(time);
        Ok(())
    }

    /// Appends a window to a coarser ring, from the rows of the finer one.
    fn sum_up(&mut self, finer: Ring, coarser: Ring, window: u32) -> io::Result<()> {
        let mut sums = vec![Slots::default(); self.groups.len()];
        for (group, sums) in sums.iter_mut().enumerate() {
            let rows = self.rows(group, finer)?;
            for (column, sum) in sums.iter_mut().enumerate() {
                let steps = self.steps(Place { group, column }, finer, &rows);
                let inside = steps.range(window..window + coarser.period);
                let inside: Vec<Slot> = inside.map(|(_, slot)| *slot).collect();
                *sum = (!inside.is_empty()).then(|| summed_up(self.kind, &inside));
            }
        }
        self.append(coarser, window, sums)
    }

    /// Reads the whole rows of a ring, the oldest first.
    fn rows(&self, group: usize, ring: Ring) -> io::Result<Vec<Row>> {
        let mut bytes = vec![0; ring_bytes(ring)];
        let at = group_at(group) + ring_at(ring) as u64;
        self.storage.read(at, &mut bytes)?;
        let place = RowPlace { group, ring };
        let found = bytes.chunks_exact(ROW_BYTES).zip(0..);
        let whole = found.filter_map(|(bytes, row)| match Row::decode(place, row, bytes) {
            FoundRow::Whole(row) => Some(row),
            FoundRow::Blank | FoundRow::Damaged => None,
        });
        let mut rows: Vec<Row> = whole.collect();
        rows.sort_by_key(|row| row.seq);
        Ok(rows)
    }

    /// Returns what rows tell of the object in a column, by time. Of equal times the later record
    /// counts.
    fn steps(&self, place: Place, ring: Ring, rows: &[Row]) -> BTreeMap<u32, Slot> {
        let column = &self.groups[place.group][place.column];
        let Some(entry) = &column.entry else {
            return BTreeMap::new();
        };
        let own = rows
            .iter()
            .filter(|row| row.seq >= entry.first_seq[ring.number]);
        own.filter_map(|row| Some((row.time, row.slots[place.column]?)))
            .collect()
    }
}
