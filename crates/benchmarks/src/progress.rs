//! The measurement under way: what it is, how far it is, and its seconds.

use std::time::{Duration, Instant};

use super::view::ProgressView;
use bench::measure::window::Second;
use bench::run::measure::Phase;

/// Word for the phase whose seconds count.
pub const MEASURING: &str = "measuring";

/// Measurement under way.
#[derive(Debug)]
pub(crate) struct Progress {
    run: u32,
    workload: String,
    phase: Phase,
    phase_began: Instant,
    phase_time: Option<Duration>,
    /// Time at which the whole benchmark ends, at the latest.
    end: Instant,
    /// Seconds of the measurement so far.
    pub(crate) seconds: Vec<Second>,
    /// Last second that was measured, also before this measurement.
    last: Second,
}

impl Progress {
    /// Returns the progress of a benchmark that begins and takes at most `total`.
    pub(crate) fn new(total: Duration) -> Self {
        let now = Instant::now();
        Self {
            run: 0,
            workload: String::new(),
            phase: Phase::RampUp,
            phase_began: now,
            phase_time: None,
            end: now + total,
            seconds: Vec::new(),
            last: Second::default(),
        }
    }

    /// Notes that a second of the measurement is over.
    pub(crate) fn second(&mut self, second: &Second) {
        self.seconds.push(*second);
        self.last = *second;
    }

    /// Notes that the next measurement begins, and takes at most `left` together with those after
    /// it.
    pub(crate) fn next(&mut self, workload: String, left: Duration) {
        self.run += 1;
        self.workload = workload;
        self.seconds.clear();
        self.end = Instant::now() + left;
        self.begin(Phase::RampUp, None);
    }

    /// Notes that a phase begins.
    pub(crate) fn begin(&mut self, phase: Phase, time: Option<Duration>) {
        (self.phase, self.phase_time) = (phase, time);
        self.phase_began = Instant::now();
    }

    /// Returns the progress for people.
    pub(crate) fn view(&self) -> ProgressView {
        let now = Instant::now();
        let elapsed = now.saturating_duration_since(self.phase_began).as_secs();
        let last = self.last;
        ProgressView {
            run: self.run,
            workload: self.workload.clone(),
            phase: match self.phase {
                Phase::Measure => MEASURING,
                Phase::RampUp => "ramping up",
                Phase::Fill => "filling",
                Phase::ReadBack => "reading back",
            }
            .to_owned(),
            seconds: elapsed,
            of_seconds: self.phase_time.map(|time| time.as_secs_f64()),
            left_s: self.end.saturating_duration_since(now).as_secs(),
            iops: last.reads + last.writes,
            bytes_per_s: last.read_bytes + last.written_bytes,
            mean_ms: last.mean_ns / 1e6,
            p99_ms: last.p99_ns as f64 / 1e6,
            errors: self.seconds.iter().map(|second| second.errors).sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_second_and_all_errors_are_shown() {
        let mut progress = Progress::new(Duration::from_secs(100));
        progress.next("4K".to_owned(), Duration::from_secs(90));
        progress.begin(Phase::Measure, Some(Duration::from_secs(10)));
        for errors in [2, 3] {
            progress.second(&Second {
                reads: 100 * errors,
                read_bytes: 4096,
                errors,
                mean_ns: 2e6,
                ..Second::default()
            });
        }
        let view = progress.view();
        assert_eq!((view.run, view.iops, view.errors), (1, 300, 5));
        assert_eq!(
            (view.phase.as_str(), view.of_seconds),
            ("measuring", Some(10.0))
        );
        assert_eq!((view.mean_ms, view.bytes_per_s), (2.0, 4096));
        assert!(view.left_s <= 90);
        progress.next("8K".to_owned(), Duration::ZERO);
        let view = progress.view();
        // The last figure stays until there is another one.
        assert_eq!((view.run, view.iops, view.left_s), (2, 300, 0));
        assert_eq!(view.errors, 0);
    }
}
