//! Distance of the two cores of a benchmark: the time that a cache line takes to the other core and
//! back.
//!
//! A virtual machine's host moves its processors between cores. Two that share a last-level cache
//! pass a line to and fro in about 50 ns; two that do not need 350 ns. Loopback TCP hands every
//! byte from core to core, so a target that copies fast is three times as slow on the second kind,
//! and a slow one hardly notices. Figures of one kind compare; a median over both says little.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;

/// Round trip below which two cores share a cache.
const NEAR_BELOW_NS: f64 = 150.0;
/// Most round trips of one look: seven milliseconds between far cores.
const ROUNDS: u32 = 20_000;
/// Round trips after which the time is looked at.
const PART: u32 = 100;
/// Time after which a look ends early. Where other work has a core, a round trip may take a whole
/// turn of the scheduler.
const MOST: Duration = Duration::from_millis(100);
/// Value that ends the other side.
const END: u32 = u32::MAX;

/// Distance of two cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Distance {
    /// The cores share a cache.
    Near,
    /// The cores share none.
    Far,
    /// The cores moved, or other work disturbed the look.
    Unsteady,
}

impl Distance {
    /// Judges a run by the round trips before and after it.
    pub(super) fn of(before_ns: f64, after_ns: f64) -> Self {
        match [before_ns, after_ns].map(|ns| ns < NEAR_BELOW_NS) {
            [true, true] => Self::Near,
            [false, false] => Self::Far,
            _ => Self::Unsteady,
        }
    }
}

/// Line that the two sides share, and nothing else beside it.
#[repr(align(128))]
struct Line(AtomicU32);

/// Measures the round trip between cores 0 and 1, in nanoseconds.
pub(super) fn round_trip_ns() -> f64 {
    let line = Line(AtomicU32::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            pin(1);
            answer(&line.0);
        });
        scope
            .spawn(|| {
                pin(0);
                ask(&line.0)
            })
            .join()
            .unwrap_or(f64::NAN)
    })
}

/// Hands odd values over, and waits for the even ones that follow them.
fn ask(line: &AtomicU32) -> f64 {
    // The first answer comes once the other side runs on its core.
    turn(line, 1);
    let start = Instant::now();
    let (mut rounds, mut elapsed) = (0, Duration::ZERO);
    while rounds < ROUNDS && elapsed < MOST {
        for round in rounds + 1..=rounds + PART {
            turn(line, 2 * round + 1);
        }
        rounds += PART;
        elapsed = start.elapsed();
    }
    line.store(END, Ordering::Release);
    elapsed.as_secs_f64() * 1e9 / f64::from(rounds)
}

fn turn(line: &AtomicU32, odd: u32) {
    line.store(odd, Ordering::Release);
    while line.load(Ordering::Acquire) != odd + 1 {
        std::hint::spin_loop();
    }
}

fn answer(line: &AtomicU32) {
    loop {
        match line.load(Ordering::Acquire) {
            END => return,
            odd if odd % 2 == 1 => line.store(odd + 1, Ordering::Release),
            _ => std::hint::spin_loop(),
        }
    }
}

/// Binds this thread to a core. On a machine that refuses, the figure is that of any two cores.
fn pin(core: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(core);
    let _ = rustix::thread::sched_setaffinity(None, &set);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_near_or_far_if_both_looks_agree() {
        assert_eq!(Distance::of(52.0, 61.0), Distance::Near);
        assert_eq!(Distance::of(350.0, 333.0), Distance::Far);
        assert_eq!(Distance::of(52.0, 333.0), Distance::Unsteady);
        assert_eq!(Distance::of(333.0, 52.0), Distance::Unsteady);
    }

    #[test]
    fn a_round_trip_takes_some_time_and_ends() {
        assert!(round_trip_ns() > 0.0);
    }
}
