//! When to look again and when to sleep: a loop that has just worked spins for a moment, because
//! the next command of a client with few outstanding ones comes sooner than a sleep and a wake-up
//! take.
//!
//! Spinning must pay for itself. Each spin that ends in vain doubles the number of sleeps before
//! the next try; a sleep that turns out shorter than a spin would have been makes it worth trying
//! again. So an idle or a slow connection costs nothing, and one that answers quickly is never
//! slept on.

use std::time::{Duration, Instant};

/// How long a loop spins that waits for a client with nothing else to do. Our answer wakes it;
/// where its processor is a virtual machine's, that takes 50 to 90 µs, and a spin that ends before
/// then is in vain each time: measured, a command outstanding at a time took 88 µs with spins of 50
/// µs and 27 to 33 µs with these, at less CPU for each.
pub const FOR_A_CLIENT: Duration = Duration::from_micros(120);
/// How long one spins that waits for a device.
pub const FOR_A_DEVICE: Duration = Duration::from_micros(50);
/// How long one spins that serves a pool: for who asks next as for its devices, which take 100 to
/// 150 µs to make a write durable. Measured with one such write outstanding: 120 µs brought a
/// quarter more than none, 200 a tenth more than 120.
pub const FOR_A_POOL: Duration = Duration::from_micros(200);
/// log2 of the longest pause between tries, in sleeps.
const MAX_BACKOFF: u32 = 10;

/// The state of one loop.
#[derive(Debug)]
pub struct Spin {
    /// How long a spin lasts.
    span: Duration,
    /// The last moment at which there was work.
    last_work: Instant,
    /// Spins in vain since the last that paid.
    vain: u32,
    /// Sleeps left before the next try.
    pause: u32,
    spinning: bool,
}

impl Spin {
    /// Starts asleep.
    pub fn new(span: Duration, now: Instant) -> Self {
        Self {
            span,
            last_work: now,
            vain: 0,
            pause: 0,
            spinning: false,
        }
    }

    /// There was work in this turn.
    #[inline]
    pub fn worked(&mut self, now: Instant) {
        if self.spinning {
            self.vain = 0;
        }
        self.last_work = now;
        self.spinning = self.pause == 0;
    }

    /// Whether to look again at once instead of sleeping.
    #[inline]
    pub fn go_on(&mut self, now: Instant) -> bool {
        if self.spinning && now.duration_since(self.last_work) >= self.span {
            self.spinning = false;
            self.vain = (self.vain + 1).min(MAX_BACKOFF);
            self.pause = (1 << self.vain) - 1;
        }
        self.spinning
    }

    /// The loop slept until there was something to look at. What counts is how long there was no
    /// work, the spin before the sleep included: another one of that length would have been in
    /// vain, too.
    #[inline]
    pub fn slept(&mut self, now: Instant) {
        if now.duration_since(self.last_work) < self.span {
            self.pause = 0;
        } else {
            self.pause = self.pause.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Work every `gap`; returns the share of the time spent spinning.
    fn spun(span: Duration, gap: Duration, turns: u32) -> f64 {
        let start = Instant::now();
        let (mut now, mut spun) = (start, Duration::ZERO);
        let mut spin = Spin::new(span, now);
        for _ in 0..turns {
            spin.worked(now);
            let next = now + gap;
            let mut slept = false;
            while now < next {
                if spin.go_on(now) {
                    let step = Duration::from_micros(1).min(next - now);
                    now += step;
                    spun += step;
                } else {
                    slept = true;
                    now = next;
                }
            }
            if slept {
                spin.slept(now);
            }
        }
        spun.as_secs_f64() / now.duration_since(start).as_secs_f64()
    }

    #[test]
    fn quick_answers_are_never_slept_on() {
        assert!(spun(FOR_A_DEVICE, Duration::from_micros(20), 10_000) > 0.99);
        assert!(spun(FOR_A_CLIENT, Duration::from_micros(90), 10_000) > 0.99);
    }

    #[test]
    fn slow_work_costs_next_to_nothing() {
        for span in [FOR_A_DEVICE, FOR_A_CLIENT] {
            assert!(spun(span, Duration::from_millis(1), 10_000) < 0.002);
            assert!(spun(span, Duration::from_micros(200), 10_000) < 0.01);
            // Longer than a spin, and shorter than two.
            assert!(spun(span, span * 3 / 2, 10_000) < 0.01);
        }
    }
}
