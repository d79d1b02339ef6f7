//! Queue of ranges that are read ahead when devices have little to read.

use std::collections::VecDeque;
use std::ops::Range;

use store::format::DatasetId;

/// Most ranges in the queue. Nobody waits for them.
const MOST: usize = 64;

/// Ranges of bytes of volumes, in the order of their requests.
#[derive(Debug, Default)]
pub(crate) struct AheadQueue(VecDeque<(DatasetId, Range<u64>)>);

impl AheadQueue {
    /// Reports whether nothing is to be read ahead.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a range. If the queue is full, the oldest range goes: its reader has reached it
    /// meanwhile.
    pub(crate) fn push(&mut self, dataset: DatasetId, bytes: Range<u64>) {
        if self.0.len() == MOST {
            self.0.pop_front();
        }
        self.0.push_back((dataset, bytes));
    }

    /// Takes the next range to read.
    pub(crate) fn pop(&mut self) -> Option<(DatasetId, Range<u64>)> {
        self.0.pop_front()
    }

    /// Removes bytes that a reader itself asks for. A later read-ahead of them would serve nobody,
    /// and they would stay in memory.
    pub(crate) fn overtaken(&mut self, dataset: DatasetId, bytes: &Range<u64>) {
        for (of, range) in &mut self.0 {
            if *of == dataset && bytes.contains(&range.start) {
                range.start = bytes.end;
            }
        }
        self.0.retain(|(_, range)| !range.is_empty());
    }

    /// Empties the queue.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_reader_asks_for_itself_is_not_read_ahead() {
        let (one, other) = (DatasetId(1), DatasetId(2));
        let mut ahead = AheadQueue([(one, 10..20), (other, 10..20), (one, 20..30)].into());
        ahead.overtaken(one, &(8..14));
        assert_eq!(ahead.0, [(one, 14..20), (other, 10..20), (one, 20..30)]);
        // A read in the middle: a reader that reads in order still comes to the rest.
        ahead.overtaken(one, &(16..18));
        assert_eq!(ahead.0[0], (one, 14..20));
        ahead.overtaken(one, &(14..25));
        assert_eq!(ahead.0, [(other, 10..20), (one, 25..30)]);
    }

    #[test]
    fn of_too_many_the_oldest_go() {
        let mut ahead = AheadQueue::default();
        for number in 0..MOST as u64 + 3 {
            ahead.push(DatasetId(1), number..number + 1);
        }
        assert_eq!(ahead.0.len(), MOST);
        assert_eq!(ahead.pop(), Some((DatasetId(1), 3..4)));
        ahead.clear();
        assert!(ahead.is_empty());
    }
}
