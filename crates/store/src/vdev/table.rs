//! A table of things under way, found by a number that is never used again.

/// Where a thing stands, in the low bits of its number.
const PLACE_BITS: u32 = 20;

/// Things by number: finding, adding and removing take constant time, and order is deterministic.
#[derive(Debug)]
pub(super) struct Table<T> {
    rows: Vec<Row<T>>,
    free: Vec<u32>,
    len: usize,
    /// How many were added ever.
    added: u64,
}

#[derive(Debug)]
struct Row<T> {
    id: u64,
    thing: Option<T>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self {
            rows: Vec::new(),
            free: Vec::new(),
            len: 0,
            added: 0,
        }
    }
}

impl<T> Table<T> {
    /// Adds a thing and returns its number.
    pub(super) fn insert(&mut self, thing: T) -> u64 {
        let place = self.free.pop().unwrap_or_else(|| {
            self.rows.push(Row { id: 0, thing: None });
            (self.rows.len() - 1) as u32
        });
        assert!(
            place < 1 << PLACE_BITS,
            "fewer than a million things are under way"
        );
        self.added += 1;
        let id = self.added << PLACE_BITS | u64::from(place);
        self.rows[place as usize] = Row {
            id,
            thing: Some(thing),
        };
        self.len += 1;
        id
    }

    fn row(&mut self, id: u64) -> Option<&mut Row<T>> {
        let place = id & ((1 << PLACE_BITS) - 1);
        self.rows.get_mut(place as usize).filter(|row| row.id == id)
    }

    pub(super) fn get_mut(&mut self, id: u64) -> Option<&mut T> {
        self.row(id)?.thing.as_mut()
    }

    /// Takes a thing out for good.
    pub(super) fn remove(&mut self, id: u64) -> Option<T> {
        let thing = self.borrow(id)?;
        self.release(id);
        Some(thing)
    }

    /// Takes a thing out for a while: it keeps its number until [`Table::put_back`] or
    /// [`Table::release`].
    pub(super) fn borrow(&mut self, id: u64) -> Option<T> {
        self.row(id)?.thing.take()
    }

    pub(super) fn put_back(&mut self, id: u64, thing: T) {
        if let Some(row) = self.row(id) {
            row.thing = Some(thing);
        }
    }

    /// Gives up the number of a thing that was taken out.
    pub(super) fn release(&mut self, id: u64) {
        if let Some(row) = self.row(id) {
            row.id = 0;
            row.thing = None;
            self.free.push((id & ((1 << PLACE_BITS) - 1)) as u32);
            self.len -= 1;
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        self.rows
            .iter()
            .filter_map(|row| Some((row.id, row.thing.as_ref()?)))
    }
}
