//! Accesses that one worker has in flight. Their places are fixed in number, so that nothing is
//! allocated while measuring. The token of a completion names the place.

use crate::generator::Operation;

/// Access in flight.
#[derive(Clone, Copy, Debug)]
pub struct InFlight {
    /// Operation of the access.
    pub operation: Operation,
    /// Time from which the latency counts.
    pub start_ns: u64,
    /// Number of pieces that have not come back.
    pub pieces_left: u32,
    /// Whether a piece has failed.
    pub failed: bool,
}

/// Places for accesses in flight.
#[derive(Debug)]
pub struct Slots {
    places: Vec<Option<InFlight>>,
    free: Vec<u32>,
}

impl Slots {
    /// Creates this many places.
    pub fn new(count: u32) -> Self {
        Self {
            places: (0..count).map(|_| None).collect(),
            free: (0..count).rev().collect(),
        }
    }

    /// Reports whether another access can start.
    #[inline]
    pub fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    /// Returns the number of accesses in flight.
    pub fn in_flight(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Puts an access into a free place.
    ///
    /// # Panics
    /// No place is free.
    #[inline]
    pub fn put(&mut self, access: InFlight) -> u32 {
        let place = self.free.pop().expect("the caller asked for room before");
        self.places[place as usize] = Some(access);
        place
    }

    /// Handles a piece of the access at this place that has come back. Returns the access with its
    /// last piece. Returns `None` before that, and for an empty place.
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

    /// Returns the access at a place.
    pub fn get(&self, place: u32) -> Option<&InFlight> {
        self.places.get(place as usize)?.as_ref()
    }

    /// Reports whether an operation must not start now, because an overlapping one is in flight and
    /// one of them writes. Nobody could tell which of the two comes first.
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
