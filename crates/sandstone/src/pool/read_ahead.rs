//! Reading ahead: who reads one range after another gets the next ones before asking for them.
//!
//! A reader with few requests outstanding leaves the devices idle while its answers are verified and on their way. So
//! where reads follow one another, what lies behind them is brought into the cache while they are answered. The distance
//! doubles as long as the reader comes after it. A reader that stops costs that much once.
//!
//! It is noted here, and not by the engine, since that does not hear of reads that the cache answers: those that were
//! read ahead, that is.

use std::ops::Range;
use std::sync::{Mutex, TryLockError};

/// Readers of a volume that are followed; the one that was silent for longest makes room. As many single reads are
/// remembered beside them.
const STREAMS: usize = 8;
/// Reads that must have followed one another before anything is read ahead.
const PROOF: u32 = 2;

/// The readers of a volume, noted from all threads.
#[derive(Debug, Default)]
pub(super) struct Readers(Mutex<Streams>);

impl Readers {
    /// A read came. Returns what is to be read ahead, in bytes; `most` of them at most. Where another thread is noting
    /// one, it is not noted: a reader shows itself again.
    pub(super) fn note(&self, offset: u64, len: u32, most: u64) -> Option<Range<u64>> {
        let mut streams = match self.0.try_lock() {
            Ok(streams) => streams,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        let range = streams.note(offset, len.into(), most);
        (!range.is_empty()).then_some(range)
    }
}

#[derive(Debug)]
struct Streams {
    streams: Vec<Stream>,
    clock: u64,
    /// Where single reads ended: one that follows makes a stream of it. Who jumps about has all of them, and each of
    /// its reads costs no more than a look at these.
    singles: [u64; STREAMS],
    /// The oldest of these.
    oldest: usize,
}

#[derive(Debug)]
struct Stream {
    /// Where the next read is expected, in bytes.
    next: u64,
    /// Up to where was read ahead.
    ahead: u64,
    /// How far to read ahead next time.
    window: u64,
    /// Reads that followed one another.
    count: u32,
    used: u64,
}

impl Default for Streams {
    fn default() -> Self {
        Self {
            streams: Vec::new(),
            clock: 0,
            singles: [u64::MAX; STREAMS],
            oldest: 0,
        }
    }
}

impl Streams {
    /// A read came. Returns what is to be read ahead, in bytes; `most` of them at most.
    fn note(&mut self, offset: u64, len: u64, most: u64) -> Range<u64> {
        let end = offset + len;
        let follows = |next: u64| is_near(next, offset, len);
        if let Some(stream) = self.streams.iter_mut().find(|of| follows(of.next)) {
            self.clock += 1;
            stream.used = self.clock;
            return stream.note(end, len, most);
        }
        match self.singles.iter().position(|next| follows(*next)) {
            Some(number) if end > self.singles[number] => {
                self.singles[number] = u64::MAX;
                self.begin(end);
            }
            // It overtook another.
            Some(_) => {}
            None => {
                self.singles[self.oldest] = end;
                self.oldest = (self.oldest + 1) % STREAMS;
            }
        }
        0..0
    }

    /// Two reads followed one another.
    fn begin(&mut self, end: u64) {
        self.clock += 1;
        let stream = Stream {
            next: end,
            ahead: end,
            window: 0,
            count: 1,
            used: self.clock,
        };
        if self.streams.len() < STREAMS {
            self.streams.push(stream);
        } else if let Some(oldest) = self.streams.iter_mut().min_by_key(|of| of.used) {
            *oldest = stream;
        }
    }
}

impl Stream {
    /// One of its reads came, up to `end`.
    fn note(&mut self, end: u64, len: u64, most: u64) -> Range<u64> {
        if end <= self.next {
            // One of several that overtook another.
            return 0..0;
        }
        self.next = end;
        self.count = self.count.saturating_add(1);
        if self.count < PROOF {
            return 0..0;
        }
        self.window = self.window.max(2 * len).min(most);
        if self.ahead >= end + self.window / 2 {
            return 0..0;
        }
        let from = self.ahead.max(end);
        self.ahead = end + self.window;
        self.window *= 2;
        from..self.ahead
    }
}

/// Whether a read belongs to who is expected to read at `next`. Several that are under way at once may come in another
/// order.
fn is_near(next: u64, offset: u64, len: u64) -> bool {
    next.abs_diff(offset) <= 4 * len
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;

    #[test]
    fn who_reads_one_range_after_another_is_led_and_ever_further() {
        let mut streams = Streams::default();
        let mut note = |number: u64| streams.note(number * 64 * KIB, 64 * KIB, 1 << 20);
        assert_eq!([note(0), note(1)], [0..0, 0..0]);
        // Twice its length behind the third, then what doubles.
        assert_eq!(note(2), 192 * KIB..320 * KIB);
        let ahead: Vec<_> = (3..40)
            .map(note)
            .filter(|range| !range.is_empty())
            .collect();
        // Without a gap, and at most so far.
        assert!(ahead.windows(2).all(|two| two[0].end == two[1].start));
        assert!(ahead.iter().all(|range| range.end - range.start <= 1 << 20));
        assert!(ahead.last().is_some_and(|last| last.end >= 40 * 64 * KIB));
    }

    #[test]
    fn reads_that_overtake_one_another_are_one_reader() {
        let mut streams = Streams::default();
        let mut ahead = 0;
        for pair in 0..20 {
            for number in [2 * pair + 1, 2 * pair] {
                let range = streams.note(number * 4 * KIB, 4 * KIB, 1 << 20);
                ahead = ahead.max(range.end);
            }
        }
        assert!(ahead > 40 * 4 * KIB);
        assert_eq!(streams.streams.len(), 1);
    }

    #[test]
    fn who_jumps_about_is_not_led() {
        let mut streams = Streams::default();
        let mut at = 1_u64;
        for _ in 0..10_000 {
            at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let range = streams.note((at >> 24) / 4096 * 4096, 4096, 1 << 20);
            assert!(range.is_empty());
        }
        assert_eq!(streams.streams.len(), 0);
    }

    #[test]
    fn who_jumps_about_takes_no_readers_place() {
        let mut streams = Streams::default();
        let mut at = 1_u64;
        let mut led = 0;
        for number in 0..100 {
            led += u32::from(
                !streams
                    .note(number * 64 * KIB, 64 * KIB, 1 << 20)
                    .is_empty(),
            );
            // More reads elsewhere than are followed at a time, once it has shown itself.
            for _ in 0..if number < 2 { 0 } else { 3 * STREAMS } {
                at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let _ = streams.note((1 << 40) + (at >> 24) / 4096 * 4096, 4096, 1 << 20);
            }
        }
        assert!(led > 5, "{led}");
    }
}
