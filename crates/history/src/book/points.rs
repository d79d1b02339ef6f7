//! Points of a chart: what the rings tell of one object over one span.
//!
//! The newest points of a coarse ring are not in it yet. They are summed up from the finer rings
//! each time that a chart asks.

use std::collections::BTreeMap;
use std::io;

use model::history::{HistoryObject, Span};

use super::super::fields::{Slot, Values, decode, summed_up};
use super::super::ring::Ring;
use super::places::Place;
use super::{Book, Storage};

/// Points of one object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Points {
    /// First minute of each window.
    pub(crate) minutes: Vec<u32>,
    /// Figures of each window; `None` is a gap.
    pub(crate) values: Vec<Option<Values>>,
}

impl<S: Storage> Book<S> {
    /// Returns all objects, by name.
    pub(crate) fn objects(&self) -> Vec<HistoryObject> {
        let newest = self.newest[0];
        let named = self.columns().filter_map(|(_, column)| {
            let entry = column.entry.as_ref()?;
            Some(HistoryObject {
                name: entry.name.clone(),
                key: entry.key.clone(),
                is_present: column.last_seen.is_some() && column.last_seen == newest,
                last_seen_unix_s: column.last_seen.map(|minute| u64::from(minute) * 60),
            })
        });
        let mut objects: Vec<HistoryObject> = named.collect();
        objects.sort_by(|a, b| (&a.name, &a.key).cmp(&(&b.name, &b.key)));
        objects
    }

    /// Finds an object by its name or its identity. Of several with this name, the one that was
    /// there last is meant.
    pub(crate) fn find(&self, name: &str) -> Option<(Place, &str, &str)> {
        let named = self.columns().filter_map(|(place, column)| {
            let entry = column.entry.as_ref()?;
            let is_meant = entry.name == name || entry.key == name;
            is_meant.then_some((place, entry, column.last_seen))
        });
        let last = named.max_by_key(|(_, _, last_seen)| *last_seen);
        last.map(|(place, entry, _)| (place, entry.name.as_str(), entry.key.as_str()))
    }

    /// Returns the points of an object over a span that ends with the minute `last`.
    ///
    /// # Errors
    /// The storage cannot be read.
    pub(crate) fn points(&self, place: Place, span: Span, last: u32) -> io::Result<Points> {
        let ring = Ring::of(span);
        let known = self.known(place, ring)?;
        let minutes: Vec<u32> = ring.windows(ring.window(last)).collect();
        let values = minutes.iter().map(|minute| {
            let slot = known.get(minute)?;
            Some(decode(self.kind, slot))
        });
        Ok(Points {
            values: values.collect(),
            minutes,
        })
    }

    /// Returns everything that the rings tell of an object, in the windows of one ring.
    fn known(&self, place: Place, ring: Ring) -> io::Result<BTreeMap<u32, Slot>> {
        let rows = self.rows(place.group, ring)?;
        let mut known = self.steps(place, ring, &rows);
        let Some(finer) = ring.finer() else {
            return Ok(known);
        };
        let mut fresh: BTreeMap<u32, Vec<Slot>> = BTreeMap::new();
        for (minute, slot) in self.known(place, finer)? {
            let window = ring.window(minute);
            if !known.contains_key(&window) {
                fresh.entry(window).or_default().push(slot);
            }
        }
        known.extend(
            fresh
                .into_iter()
                .map(|(window, steps)| (window, summed_up(self.kind, &steps))),
        );
        Ok(known)
    }
}
