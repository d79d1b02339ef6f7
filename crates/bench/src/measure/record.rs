//! Combines the seconds of all workers: totals, and a time series.

use std::collections::BTreeMap;

use super::latency::Latencies;
use super::window::{Direction, Second, Window};

/// Measurement so far.
#[derive(Debug, Default)]
pub struct Record {
    /// All reads.
    pub read: Direction,
    /// All writes.
    pub write: Direction,
    /// Seconds to which some worker may still add, each with the number of workers that have added.
    open: BTreeMap<u32, (usize, OpenSecond)>,
    done: Vec<Second>,
    workers: usize,
}

#[derive(Debug, Default)]
struct OpenSecond {
    second: Second,
    latencies: Latencies,
}

impl Record {
    /// Creates an empty record for this many workers.
    pub fn new(workers: usize) -> Self {
        Self {
            workers,
            ..Self::default()
        }
    }

    /// Adds a worker's second. Returns the seconds that are complete now.
    pub fn add(&mut self, window: &Window) -> &[Second] {
        self.read.add(&window.read);
        self.write.add(&window.write);
        let (told, open) = self.open.entry(window.second).or_default();
        *told += 1;
        let second = &mut open.second;
        second.second = window.second;
        second.reads += window.read.latencies.count();
        second.writes += window.write.latencies.count();
        second.read_bytes += window.read.bytes;
        second.written_bytes += window.write.bytes;
        second.errors += window.read.errors + window.write.errors;
        open.latencies.add(&window.read.latencies);
        open.latencies.add(&window.write.latencies);
        let before = self.done.len();
        while let Some(entry) = self.open.first_entry() {
            if entry.get().0 < self.workers {
                break;
            }
            self.done.push(entry.remove().1.close());
        }
        &self.done[before..]
    }

    /// Returns the whole time series. It includes seconds that not every worker reported, because
    /// some ended early.
    pub fn series(&mut self) -> Vec<Second> {
        let rest = std::mem::take(&mut self.open);
        self.done
            .extend(rest.into_values().map(|(_, open)| open.close()));
        std::mem::take(&mut self.done)
    }
}

impl OpenSecond {
    fn close(self) -> Second {
        Second {
            mean_ns: self.latencies.mean_ns(),
            p50_ns: self.latencies.percentile_ns(50.0),
            p99_ns: self.latencies.percentile_ns(99.0),
            max_ns: self.latencies.max_ns(),
            ..self.second
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(second: u32, latencies: &[u64]) -> Window {
        let mut window = Window {
            second,
            ..Window::default()
        };
        latencies
            .iter()
            .for_each(|latency| window.read.latencies.record(*latency));
        window.read.bytes = 512 * latencies.len() as u64;
        window
    }

    #[test]
    fn a_second_is_complete_when_every_worker_has_told() {
        let mut record = Record::new(2);
        assert!(record.add(&window(0, &[10])).is_empty());
        assert!(record.add(&window(1, &[20])).is_empty());
        let done = record.add(&window(0, &[30, 50])).to_vec();
        assert_eq!(
            (done.len(), done[0].reads, done[0].read_bytes),
            (1, 3, 1536)
        );
        assert_eq!((done[0].mean_ns, done[0].max_ns), (30.0, 50));
        let series = record.series();
        assert_eq!(
            series.iter().map(|second| second.reads).collect::<Vec<_>>(),
            [3, 1]
        );
        assert_eq!(
            (record.read.latencies.count(), record.read.bytes),
            (4, 2048)
        );
    }
}
