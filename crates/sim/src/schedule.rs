//! Simulated clock, with a queue of future events.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

/// Queue of events at points of simulated time. Events of one time happen in the order of their
/// addition.
#[derive(Debug)]
pub struct Schedule<E> {
    now: Duration,
    added: u64,
    queue: BinaryHeap<Reverse<Entry<E>>>,
}

#[derive(Debug)]
struct Entry<E> {
    at: Duration,
    number: u64,
    event: E,
}

impl<E> Default for Schedule<E> {
    fn default() -> Self {
        Self {
            now: Duration::ZERO,
            added: 0,
            queue: BinaryHeap::new(),
        }
    }
}

impl<E> Schedule<E> {
    /// Returns the time since the simulation began.
    pub fn now(&self) -> Duration {
        self.now
    }

    /// Lets `event` happen at `at`, or now if that is past.
    pub fn add(&mut self, at: Duration, event: E) {
        self.added += 1;
        self.queue.push(Reverse(Entry {
            at: at.max(self.now),
            number: self.added,
            event,
        }));
    }

    /// Moves the clock to the next event and returns it, or `None` if no event is left.
    pub fn advance(&mut self) -> Option<E> {
        let Reverse(entry) = self.queue.pop()?;
        self.now = entry.at;
        Some(entry.event)
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_order_of_time_then_of_adding() {
        let mut schedule = Schedule::default();
        let at = Duration::from_millis;
        for (time, event) in [(5, 'c'), (1, 'a'), (5, 'd'), (2, 'b')] {
            schedule.add(at(time), event);
        }
        let order: String = std::iter::from_fn(|| schedule.advance()).collect();
        assert_eq!((order.as_str(), schedule.now()), ("abcd", at(5)));
        schedule.add(at(3), 'e');
        assert_eq!(schedule.advance(), Some('e'));
        assert_eq!(schedule.now(), at(5), "time never goes back");
    }
}
