//! The choice between spinning and sleeping. A loop that has just worked spins for a moment. The
//! next command of a client with few outstanding commands comes sooner than a sleep and a wake-up
//! take.
//!
//! Spinning must pay for itself. Each spin without success doubles the number of sleeps before the
//! next try. A sleep that turns out shorter than a spin makes spinning worth another try. So an
//! idle or slow connection costs nothing, and a loop never sleeps on a connection that answers
//! quickly.

use std::time::{Duration, Instant};

/// Duration of a spin of a loop that waits for a client with nothing else to do. The loop's answer
/// wakes the client. On a virtual machine's processor the wake-up takes 50 to 90 µs, and a shorter
/// spin is in vain each time. Measured with one command outstanding at a time: a command took 88 µs
/// with spins of 50 µs, and 27 to 33 µs with these, at less CPU for each.
pub const FOR_A_CLIENT: Duration = Duration::from_micros(120);
/// Duration of a spin of a loop that waits for a device.
pub const FOR_A_DEVICE: Duration = Duration::from_micros(50);
/// Duration of a spin of a loop that serves a pool. It waits for the next request, and for the
/// pool's devices, which take 100 to 150 µs to make a write durable. Measured with one durable
/// write outstanding: 120 µs brought a quarter more writes than no spin, and 200 µs a tenth more
/// than 120 µs.
pub const FOR_A_POOL: Duration = Duration::from_micros(200);
/// log2 of the longest pause between tries, in sleeps.
const MAX_BACKOFF: u32 = 10;

/// The state of one loop.
#[derive(Debug)]
pub struct Spin {
    /// Duration of a spin.
    span: Duration,
    /// The last moment at which there was work.
    last_work: Instant,
    /// Number of spins in vain since the last that paid.
    vain: u32,
    /// Number of sleeps left before the next try.
    pause: u32,
    spinning: bool,
}

impl Spin {
    /// Creates the state of a loop that sleeps.
    pub fn new(span: Duration, now: Instant) -> Self {
        Self {
            span,
            last_work: now,
            vain: 0,
            pause: 0,
            spinning: false,
        }
    }

    /// Notes that this turn had work.
    #[inline]
    pub fn worked(&mut self, now: Instant) {
        if self.spinning {
            self.vain = 0;
        }
        self.last_work = now;
        self.spinning = self.pause == 0;
    }

    /// Reports whether to look again at once instead of sleeping.
    #[inline]
    pub fn go_on(&mut self, now: Instant) -> bool {
        if self.spinning && now.duration_since(self.last_work) >= self.span {
            self.spinning = false;
            self.vain = (self.vain + 1).min(MAX_BACKOFF);
            self.pause = (1 << self.vain) - 1;
        }
        self.spinning
    }

    /// Notes that the loop slept until there was work. The whole time without work counts,
    /// including the spin before the sleep. A second spin of that length would have been in vain
    /// too.
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

    /// Simulates work every `gap`; returns the share of the time spent spinning.
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
            // The gap is longer than a spin, and shorter than two.
            assert!(spun(span, span * 3 / 2, 10_000) < 0.01);
        }
    }
}
