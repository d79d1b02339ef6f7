//! A table of items under way. Each is found by a number that is never used again.

/// Low bits of an item's number, which hold its place.
const PLACE_BITS: u32 = 20;

/// Items by number. Finding, adding and removing take constant time, and the order is
/// deterministic.
#[derive(Debug)]
pub(super) struct Table<T> {
    rows: Vec<Row<T>>,
    free: Vec<u32>,
    len: usize,
    /// Number of items that were ever added.
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
    /// Adds an item and returns its number.
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

    /// Takes an item out for good.
    pub(super) fn remove(&mut self, id: u64) -> Option<T> {
        let thing = self.borrow(id)?;
        self.release(id);
        Some(thing)
    }

    /// Takes an item out for a while. It keeps its number until [`Table::put_back`] or
    /// [`Table::release`].
    pub(super) fn borrow(&mut self, id: u64) -> Option<T> {
        self.row(id)?.thing.take()
    }

    pub(super) fn put_back(&mut self, id: u64, thing: T) {
        if let Some(row) = self.row(id) {
            row.thing = Some(thing);
        }
    }

    /// Gives up the number of an item that was taken out.
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
