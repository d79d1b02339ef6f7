//! Times at which accesses may start, and from which their latency counts.

use crate::parameters::Pace;

/// The pace of one worker.
#[derive(Clone, Debug)]
pub struct Pacer {
    kind: PaceKind,
    /// Number of accesses started so far.
    started: u64,
}

#[derive(Clone, Copy, Debug)]
enum PaceKind {
    Closed,
    /// Nanoseconds between two starts, and the earliest next start.
    Limited(f64, f64),
    /// Nanoseconds between two starts, and the time of the first.
    Open(f64, f64),
}

/// Answer of a pacer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Start now. Latency counts from this time on.
    Start(u64),
    /// Come again at this time.
    Wait(u64),
}

impl Pacer {
    /// Creates the pacer of one of `workers` that share a pace. The workers start one after the
    /// other, not all at once.
    pub fn new(pace: Pace, worker: u32, workers: u32) -> Self {
        let interval = |iops: f64| 1e9 * f64::from(workers.max(1)) / iops;
        let first = |iops: f64| interval(iops) * f64::from(worker) / f64::from(workers.max(1));
        let kind = match pace {
            Pace::Closed => PaceKind::Closed,
            Pace::Limited(iops) => PaceKind::Limited(interval(iops), first(iops)),
            Pace::Open(iops) => PaceKind::Open(interval(iops), first(iops)),
        };
        Self { kind, started: 0 }
    }

    /// Reports whether an access may start at `now_ns`. After [`Turn::Start`] the access has
    /// started.
    #[inline]
    pub fn turn(&mut self, now_ns: u64) -> Turn {
        let turn = match &mut self.kind {
            PaceKind::Closed => Turn::Start(now_ns),
            PaceKind::Limited(interval, next) => {
                if (now_ns as f64) < *next {
                    Turn::Wait(next.ceil() as u64)
                } else {
                    // Missed starts are not made up for: the pace is a limit, not a demand. A delay
                    // below one interval is no miss, but the grain of the clock.
                    *next = (*next + *interval).max(now_ns as f64);
                    Turn::Start(now_ns)
                }
            }
            PaceKind::Open(interval, first) => {
                let due = (*first + self.started as f64 * *interval).ceil() as u64;
                if now_ns < due {
                    Turn::Wait(due)
                } else {
                    Turn::Start(due)
                }
            }
        };
        if matches!(turn, Turn::Start(_)) {
            self.started += 1;
        }
        turn
    }

    /// Counts the accesses of an open pace whose time came before `end_ns` but that have not
    /// started.
    pub fn unstarted(&self, end_ns: u64) -> u64 {
        match self.kind {
            PaceKind::Open(interval, first) if end_ns as f64 > first => {
                let due = ((end_ns as f64 - first) / interval).ceil() as u64;
                due.saturating_sub(self.started)
            }
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_pace_catches_up_and_counts_from_the_appointed_time() {
        let mut pacer = Pacer::new(Pace::Open(1000.0), 0, 1);
        assert_eq!(pacer.turn(0), Turn::Start(0));
        assert_eq!(pacer.turn(10), Turn::Wait(1_000_000));
        assert_eq!(pacer.turn(3_500_000), Turn::Start(1_000_000));
        assert_eq!(pacer.turn(3_500_000), Turn::Start(2_000_000));
        assert_eq!(pacer.unstarted(3_500_000), 1);
        assert_eq!(pacer.turn(3_500_000), Turn::Start(3_000_000));
        assert_eq!(pacer.turn(3_500_000), Turn::Wait(4_000_000));
        assert_eq!(pacer.unstarted(3_500_000), 0);
        assert_eq!(pacer.unstarted(1_000_000_000), 996);
    }

    #[test]
    fn a_limit_never_catches_up() {
        let mut pacer = Pacer::new(Pace::Limited(1000.0), 0, 1);
        assert_eq!(pacer.turn(0), Turn::Start(0));
        assert_eq!(pacer.turn(0), Turn::Wait(1_000_000));
        assert_eq!(pacer.turn(5_000_000), Turn::Start(5_000_000));
        assert_eq!(pacer.turn(5_000_001), Turn::Start(5_000_001));
        assert_eq!(pacer.turn(5_000_002), Turn::Wait(6_000_000));
        assert_eq!(pacer.unstarted(9_000_000), 0);
    }

    #[test]
    fn workers_share_a_pace_evenly() {
        let mut starts = Vec::new();
        for worker in 0..4 {
            let mut pacer = Pacer::new(Pace::Open(4000.0), worker, 4);
            starts.extend((0..3).map(|_| pacer.turn(u64::MAX)));
        }
        let mut starts: Vec<u64> = starts
            .into_iter()
            .map(|turn| match turn {
                Turn::Start(due) => due,
                Turn::Wait(_) => panic!("it is late enough"),
            })
            .collect();
        starts.sort_unstable();
        assert_eq!(starts, (0..12).map(|n| n * 250_000).collect::<Vec<_>>());
    }
}
