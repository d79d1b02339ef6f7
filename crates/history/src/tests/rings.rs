//! Rings against a naive model: all records in a list, in the order in which they were made.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::ring::Ring;

/// Objects of the histories: more than fit into one group.
const OBJECTS: usize = 11;
/// First minute of the histories.
const BEGIN: u32 = 29_000_007;

/// Step of a history.
#[derive(Clone, Debug)]
enum Step {
    /// Records that many minutes, of the objects of a mask.
    Minutes { count: u32, mask: u16 },
    /// Lets time pass while the daemon is down.
    Down(u32),
    /// Stops the daemon in the middle of nothing, and starts it again at once.
    Restart,
    /// Sets the clock.
    Jump(i32),
}

fn steps(jumps: bool) -> impl Strategy<Value = Vec<Step>> {
    let jump = if jumps { -2000..2000 } else { 1..2 };
    let step = prop_oneof![
        6 => (1u32..40, any::<u16>()).prop_map(|(count, mask)| Step::Minutes { count, mask }),
        1 => (1u32..900).prop_map(Step::Down),
        2 => Just(Step::Restart),
        1 => jump.prop_map(Step::Jump),
    ];
    prop::collection::vec(step, 1..40)
}

/// Record of one minute: the objects that were there, and what they did.
struct Recorded {
    minute: u32,
    reads: BTreeMap<usize, f64>,
}

/// Histories of a book, with everything that was recorded.
struct Run {
    book: Book<Memory>,
    memory: Memory,
    records: Vec<Recorded>,
    /// Minute that comes next.
    minute: u32,
}

impl Run {
    fn new() -> Self {
        let (book, memory) = book();
        Self {
            book,
            memory,
            records: Vec::new(),
            minute: BEGIN,
        }
    }

    fn record(&mut self, objects: impl Iterator<Item = usize>) {
        let minute = self.minute;
        let count = self.records.len();
        // Values that 16 bits hold exactly.
        let reads = objects.map(|of| (of, ((count * 7 + of * 13) % 1000) as f64));
        let reads: BTreeMap<usize, f64> = reads.collect();
        let samples: Vec<Sample> = reads
            .iter()
            .map(|(of, reads)| sample(*of, *reads))
            .collect();
        assert_eq!(self.book.record(minute, &samples).expect("recorded"), 0);
        if !samples.is_empty() {
            self.records.push(Recorded { minute, reads });
        }
        self.minute += 1;
    }

    fn restart(&mut self) {
        self.book = opened(&self.memory);
    }

    fn walk(&mut self, steps: &[Step]) {
        for step in steps {
            match step {
                Step::Minutes { count, mask } => {
                    for _ in 0..*count {
                        self.record((0..OBJECTS).filter(|of| mask & 1 << of != 0));
                    }
                }
                Step::Down(minutes) => {
                    self.minute += minutes;
                    self.restart();
                }
                Step::Restart => self.restart(),
                Step::Jump(minutes) => {
                    self.minute = self.minute.saturating_add_signed(*minutes);
                }
            }
        }
    }

    /// Returns what the first ring must show: the last record of each minute that still has a row.
    fn minutes(&self, object: usize) -> BTreeMap<u32, f64> {
        let kept = self.records.iter().rev().take(360).rev();
        let own = kept.filter_map(|of| Some((of.minute, *of.reads.get(&object)?)));
        let ring = Ring::of(Span::SixHours);
        let shown: Vec<u32> = ring.windows(self.minute - 1).collect();
        let own: BTreeMap<u32, f64> = own.collect();
        own.into_iter()
            .filter(|(minute, _)| shown.contains(minute))
            .collect()
    }

    /// Returns the records of an object in each window of a ring.
    fn by_window(&self, object: usize, ring: Ring) -> BTreeMap<u32, Vec<f64>> {
        let mut windows: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for of in &self.records {
            if let Some(reads) = of.reads.get(&object) {
                windows
                    .entry(ring.window(of.minute))
                    .or_default()
                    .push(*reads);
            }
        }
        windows
    }
}

/// Reports whether a sum over sums that are known to half a thousandth is what it should be.
fn is_near(told: f64, expected: f64) -> bool {
    (told - expected).abs() <= expected * 0.003 + 0.001
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn charts_show_what_was_recorded(steps in steps(false)) {
        let mut run = Run::new();
        run.walk(&steps);
        for _ in 0..2 {
            for object in 0..OBJECTS {
                let last = run.minute - 1;
                let told = chart(&run.book, object, Span::SixHours, last);
                prop_assert_eq!(told, run.minutes(object), "{}", object);
                for span in [Span::FourteenDays, Span::TwoYears] {
                    let told = chart(&run.book, object, span, last);
                    let expected = run.by_window(object, Ring::of(span));
                    prop_assert_eq!(told.len(), expected.len(), "{} {:?}", object, span);
                    for ((at, told), (window, reads)) in told.iter().zip(&expected) {
                        prop_assert_eq!(at, window);
                        let mean = reads.iter().sum::<f64>() / reads.len() as f64;
                        // A day is the mean of its hours, and these may have few minutes.
                        let is_mean = is_near(*told, mean);
                        prop_assert!(span == Span::TwoYears || is_mean, "{} {}", told, mean);
                        prop_assert!(lies_between(*told, reads), "{} {:?}", told, reads);
                    }
                }
            }
            // A restart changes nothing of it.
            run.restart();
        }
    }

    /// Minutes are as they were recorded last, wherever the clock jumps. No point is made up or
    /// lost.
    #[test]
    fn no_clock_destroys_the_past(steps in steps(true)) {
        let mut run = Run::new();
        run.walk(&steps);
        run.restart();
        for object in 0..OBJECTS {
            let last = run.minute - 1;
            let told = chart(&run.book, object, Span::SixHours, last);
            prop_assert_eq!(told, run.minutes(object), "{}", object);
            for span in [Span::FourteenDays, Span::TwoYears] {
                let ring = Ring::of(span);
                let told = chart(&run.book, object, span, last);
                let recorded = run.by_window(object, ring);
                let expected: Vec<u32> = ring
                    .windows(ring.window(last))
                    .filter(|window| recorded.contains_key(window))
                    .collect();
                prop_assert_eq!(told.keys().copied().collect::<Vec<_>>(), expected);
                for (window, told) in &told {
                    prop_assert!(lies_between(*told, &recorded[window]));
                }
            }
        }
    }
}

fn lies_between(told: f64, reads: &[f64]) -> bool {
    let least = reads.iter().copied().fold(f64::MAX, f64::min);
    let most = reads.iter().copied().fold(0.0, f64::max);
    least * 0.996 - 0.001 <= told && told <= most * 1.004 + 0.001
}

#[test]
fn rings_turn_over_for_a_month_without_growing() {
    let mut run = Run::new();
    run.record(0..2);
    let bytes = run.memory.image().len();
    for day in 0..30 {
        for minute in 0..1440 {
            // One of five minutes is enough for a chart, and quicker.
            match minute % 5 {
                0 => run.record(0..2),
                _ => run.minute += 1,
            }
        }
        if day % 7 == 3 {
            run.restart();
        }
    }
    run.restart();
    assert_eq!(run.memory.image().len(), bytes);
    for span in Span::ALL {
        let ring = Ring::of(span);
        let told = chart(&run.book, 1, span, run.minute - 1);
        let recorded = run.by_window(1, ring);
        let windows = ring.windows(ring.window(run.minute - 1));
        let expected: Vec<u32> = windows.filter(|of| recorded.contains_key(of)).collect();
        assert_eq!(
            told.keys().copied().collect::<Vec<_>>(),
            expected,
            "{span:?}"
        );
        if span == Span::FourteenDays {
            assert_eq!(told.len(), 2016);
        }
    }
}

#[test]
fn a_clock_that_stands_at_1970_for_a_while_costs_nothing_but_the_oldest() {
    let mut run = Run::new();
    for _ in 0..300 {
        run.record(0..1);
    }
    let before = chart(&run.book, 0, Span::FourteenDays, run.minute - 1);
    let back = run.minute + 20;
    run.minute = 3;
    for _ in 0..20 {
        run.record(0..1);
    }
    run.minute = back;
    run.record(0..1);
    run.restart();
    let told = chart(&run.book, 0, Span::SixHours, run.minute - 1);
    assert_eq!(told.len(), 301, "all that six hours have room for");
    let told = chart(&run.book, 0, Span::FourteenDays, run.minute - 1);
    assert!(before.iter().all(|(at, reads)| told[at] == *reads));
}
