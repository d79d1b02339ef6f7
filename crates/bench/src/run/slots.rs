//! The accesses that one worker has in flight: a fixed number of places, so that nothing is
//! allocated while measuring, and the token of a completion says its place.

use crate::generator::Operation;

/// An access in flight.
#[derive(Clone, Copy, Debug)]
pub struct InFlight {
    /// What was asked for.
    pub operation: Operation,
    /// From when on its latency counts.
    pub start_ns: u64,
    /// Pieces of it that have not come back.
    pub pieces_left: u32,
    /// Whether a piece of it has failed.
    pub failed: bool,
}

/// Places for accesses in flight.
#[derive(Debug)]
pub struct Slots {
    places: Vec<Option<InFlight>>,
    free: Vec<u32>,
}

impl Slots {
    /// Room for this many.
    pub fn new(count: u32) -> Self {
        Self {
            places: (0..count).map(|_| None).collect(),
            free: (0..count).rev().collect(),
        }
    }

    /// Whether another one can start.
    #[inline]
    pub fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    /// How many are in flight.
    pub fn in_flight(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Puts one into a free place.
    ///
    /// # Panics
    /// Where there is no room.
    #[inline]
    pub fn put(&mut self, access: InFlight) -> u32 {
        let place = self.free.pop().expect("the caller asked for room before");
        self.places[place as usize] = Some(access);
        place
    }

    /// A piece of the access at this place has come back: the access, if it was the last piece,
    /// else nothing. `None` also for a place that is empty.
    #[inline]
    pub fn piece_back(&mut self, place: u32, failed: bool) -> Option<InFlight> {
        let slot = self.places.get_mut(place as usize)?;
        let access = slot.as_mut()?;
        access.failed |= failed;
        access.pieces_left -= 1;
        if access.pieces_left > 0 {
            return None;
        }
        self.free.push(place);
        slot.take()
    }

    /// The access at a place.
    pub fn get(&self, place: u32) -> Option<&InFlight> {
        self.places.get(place as usize)?.as_ref()
    }

    /// Whether an operation must not start now, because one that overlaps it is in flight and
    /// either writes: which of them is first would be anybody's guess.
    pub fn conflicts(&self, operation: &Operation) -> bool {
        let end = operation.offset + u64::from(operation.len);
        self.places.iter().flatten().any(|access| {
            let other = access.operation;
            let other_end = other.offset + u64::from(other.len);
            !(operation.read && other.read) && other.offset < end && operation.offset < other_end
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(offset: u64, read: bool, pieces_left: u32) -> InFlight {
        InFlight {
            operation: Operation {
                offset,
                len: 4096,
                read,
                pause_ms: 0,
            },
            start_ns: 0,
            pieces_left,
            failed: false,
        }
    }

    #[test]
    fn an_access_is_over_with_its_last_piece() {
        let mut slots = Slots::new(2);
        let place = slots.put(access(0, true, 3));
        assert!(slots.piece_back(place, false).is_none());
        assert!(slots.piece_back(place, true).is_none());
        assert_eq!(slots.in_flight(), 1);
        assert!(slots.piece_back(place, false).expect("over").failed);
        assert_eq!((slots.in_flight(), slots.has_room()), (0, true));
        assert!(slots.piece_back(place, false).is_none(), "nobody is there");
        assert!(slots.piece_back(77, false).is_none());
    }

    #[test]
    fn only_reads_may_overlap() {
        let mut slots = Slots::new(2);
        slots.put(access(8192, true, 1));
        assert!(!slots.conflicts(&access(8192, true, 1).operation));
        assert!(slots.conflicts(&access(4608, false, 1).operation));
        assert!(!slots.conflicts(&access(4096, false, 1).operation));
        assert!(!slots.conflicts(&access(12_288, false, 1).operation));
        slots.put(access(0, false, 1));
        assert!(slots.conflicts(&access(512, true, 1).operation));
        assert!(!slots.has_room());
    }
}
