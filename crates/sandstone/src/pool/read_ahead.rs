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

/// Readers of a volume that are followed; the one that was silent for longest makes room.
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

#[derive(Debug, Default)]
struct Streams {
    streams: Vec<Stream>,
    clock: u64,
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

impl Streams {
    /// A read came. Returns what is to be read ahead, in bytes; `most` of them at most.
    fn note(&mut self, offset: u64, len: u64, most: u64) -> Range<u64> {
        self.clock += 1;
        let clock = self.clock;
        let end = offset + len;
        let is_it = |of: &&mut Stream| of.is_near(offset, len);
        let Some(stream) = self.streams.iter_mut().find(is_it) else {
            self.begin(end);
            return 0..0;
        };
        stream.used = clock;
        if end <= stream.next {
            // One of several that overtook another.
            return 0..0;
        }
        stream.next = end;
        stream.count = stream.count.saturating_add(1);
        if stream.count < PROOF {
            return 0..0;
        }
        stream.window = stream.window.max(2 * len).min(most);
        if stream.ahead >= end + stream.window / 2 {
            return 0..0;
        }
        let from = stream.ahead.max(end);
        stream.ahead = end + stream.window;
        stream.window *= 2;
        from..stream.ahead
    }

    fn begin(&mut self, end: u64) {
        let stream = Stream {
            next: end,
            ahead: end,
            window: 0,
            count: 0,
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
    /// Whether a read belongs to it. Several that are under way at once may come in another order.
    fn is_near(&self, offset: u64, len: u64) -> bool {
        (self.next.saturating_sub(4 * len)..=self.next + 4 * len).contains(&offset)
    }
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
        assert_eq!(streams.streams.len(), STREAMS);
    }
}
