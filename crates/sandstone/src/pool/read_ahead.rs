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
/// A read belongs to a reader where it is no further than so many of its lengths from where the next was expected.
const NEAR: u64 = 4;
/// Bytes that are read ahead at once, where the reader asks for no more. With half of the distance at once, devices were
/// idle while all that they had brought was verified (measured: 0.86 of a file's 1 MiB reads, and 0.95 in such steps).
const STEP: u64 = 1 << 20;
/// A reader that was silent while others read so often has stopped.
const SILENCE: u64 = 64;

/// The readers of a volume, noted from all threads.
#[derive(Debug, Default)]
pub(super) struct Readers(Mutex<Streams>);

impl Readers {
    /// A read came. Returns what lies ahead and is to be in memory soon; `most` bytes at most. Where another thread is
    /// noting one, it is not noted: a reader shows itself again.
    pub(super) fn note(&self, read: Read, most: u64) -> Option<Ahead> {
        let mut streams = match self.0.try_lock() {
            Ok(streams) => streams,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        streams.note(read, most)
    }
}

/// A read, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Read {
    pub(super) offset: u64,
    pub(super) len: u64,
    /// Not all of it was in memory.
    pub(super) is_miss: bool,
}

/// What a reader will probably ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ahead {
    /// Bytes.
    pub(super) range: Range<u64>,
    /// It had to wait for something since the last that it was told.
    pub(super) has_missed: bool,
    /// What it has gone past since then, in bytes, without what one that was overtaken may still ask for.
    pub(super) behind: Range<u64>,
    /// Bytes that it read in all.
    pub(super) run: u64,
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
    /// Where it began.
    start: u64,
    /// Up to where it was said to have gone past.
    behind: u64,
    /// Up to where was read ahead.
    ahead: u64,
    /// How far to read ahead next time.
    window: u64,
    /// Reads that followed one another.
    count: u32,
    /// One of them was not in memory, since something was read ahead last.
    has_missed: bool,
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
    /// A read came. Returns what is to be read ahead; `most` bytes at most.
    fn note(&mut self, read: Read, most: u64) -> Option<Ahead> {
        let Read { offset, len, .. } = read;
        let end = offset + len;
        let follows = |next: u64| is_near(next, offset, len);
        if let Some(number) = self.streams.iter().position(|of| follows(of.next)) {
            self.clock += 1;
            let stream = &mut self.streams[number];
            stream.used = self.clock;
            let mut ahead = stream.note(read, most)?;
            if self.is_followed(number) {
                ahead.behind.end = ahead.behind.start;
            }
            return Some(ahead);
        }
        match self.singles.iter().position(|next| follows(*next)) {
            Some(number) if end > self.singles[number] => {
                self.singles[number] = u64::MAX;
                self.begin(end, read.is_miss);
            }
            // It overtook another.
            Some(_) => {}
            None => {
                self.singles[self.oldest] = end;
                self.oldest = (self.oldest + 1) % STREAMS;
            }
        }
        None
    }

    /// Whether another reader comes after this one, and will soon ask for what it has gone past.
    fn is_followed(&self, number: usize) -> bool {
        let leader = &self.streams[number];
        let passed = leader.start..leader.next;
        let mut others = self.streams.iter().enumerate();
        others.any(|(other, stream)| {
            let is_reading = self.clock - stream.used < SILENCE;
            other != number && is_reading && passed.contains(&stream.next)
        })
    }

    /// Two reads followed one another.
    fn begin(&mut self, end: u64, has_missed: bool) {
        self.clock += 1;
        let stream = Stream {
            next: end,
            start: end,
            behind: end,
            ahead: end,
            window: 0,
            count: 1,
            has_missed,
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
    /// One of its reads came.
    fn note(&mut self, read: Read, most: u64) -> Option<Ahead> {
        let end = read.offset + read.len;
        self.has_missed |= read.is_miss;
        if end <= self.next {
            // One of several that overtook another.
            return None;
        }
        self.next = end;
        self.count = self.count.saturating_add(1);
        if self.count < PROOF {
            return None;
        }
        self.window = self.window.max(2 * read.len).min(most);
        let step = (self.window / 2).min(STEP.max(read.len));
        if self.ahead + step > end + self.window {
            return None;
        }
        let from = self.ahead.max(end);
        self.ahead = end + self.window;
        self.window *= 2;
        let behind = self.behind..end.saturating_sub(NEAR * read.len).max(self.behind);
        self.behind = behind.end;
        Some(Ahead {
            range: from..self.ahead,
            has_missed: std::mem::take(&mut self.has_missed),
            behind,
            run: end - self.start,
        })
    }
}

/// Whether a read belongs to who is expected to read at `next`. Several that are under way at once may come in another
/// order.
fn is_near(next: u64, offset: u64, len: u64) -> bool {
    next.abs_diff(offset) <= NEAR * len
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;

    /// What lies ahead of a read that had to wait, 1 MiB at most.
    fn note(streams: &mut Streams, offset: u64, len: u64) -> Option<Range<u64>> {
        let read = Read {
            offset,
            len,
            is_miss: true,
        };
        streams.note(read, 1 << 20).map(|ahead| ahead.range)
    }

    #[test]
    fn who_reads_one_range_after_another_is_led_and_ever_further() {
        let mut streams = Streams::default();
        let mut note = |number: u64| note(&mut streams, number * 64 * KIB, 64 * KIB);
        assert_eq!([note(0), note(1)], [None, None]);
        // Twice its length behind the third, then what doubles.
        assert_eq!(note(2), Some(192 * KIB..320 * KIB));
        let ahead: Vec<_> = (3..40).filter_map(note).collect();
        // Without a gap, and at most so far.
        assert!(ahead.windows(2).all(|two| two[0].end == two[1].start));
        assert!(ahead.iter().all(|range| range.end - range.start <= 1 << 20));
        assert!(ahead.last().is_some_and(|last| last.end >= 40 * 64 * KIB));
    }

    #[test]
    fn what_lies_ahead_is_never_much_less_than_it_may_be() {
        const MOST: u64 = 8 << 20;
        let mut streams = Streams::default();
        let mut ahead = 0;
        for number in 0..1000_u64 {
            let read = Read {
                offset: number * 64 * KIB,
                len: 64 * KIB,
                is_miss: true,
            };
            if let Some(of) = streams.note(read, MOST) {
                ahead = of.range.end;
            }
            let end = (number + 1) * 64 * KIB;
            assert!(ahead <= end + MOST);
            assert!(
                number < 200 || ahead + STEP >= end + MOST,
                "{number}: {ahead}"
            );
        }
    }

    #[test]
    fn reads_that_overtake_one_another_are_one_reader() {
        let mut streams = Streams::default();
        let mut ahead = 0;
        for pair in 0..20 {
            for number in [2 * pair + 1, 2 * pair] {
                let range = note(&mut streams, number * 4 * KIB, 4 * KIB);
                ahead = ahead.max(range.map_or(0, |range| range.end));
            }
        }
        assert!(ahead > 40 * 4 * KIB);
        assert_eq!(streams.streams.len(), 1);
    }

    #[test]
    fn who_finds_everything_in_memory_is_known_by_it_until_it_does_not() {
        let mut streams = Streams::default();
        let mut has_missed = |reads: Range<u64>, is_miss: bool| -> Vec<bool> {
            let read = |number: u64| Read {
                offset: number * 64 * KIB,
                len: 64 * KIB,
                is_miss,
            };
            let ahead = reads.filter_map(|number| streams.note(read(number), 1 << 20));
            ahead.map(|ahead| ahead.has_missed).collect()
        };
        let all_found = has_missed(0..40, false);
        assert!(all_found.len() > 2 && !all_found.contains(&true));
        // One that was not there is told with the next that lies ahead, and only with that.
        assert!(
            has_missed(40..41, true)
                .iter()
                .all(|has_missed| *has_missed)
        );
        let found_again = has_missed(41..80, false);
        assert!(found_again.len() > 2 && !found_again[1..].contains(&true));
        let missed = has_missed(80..120, true);
        assert!(missed.len() > 2 && !missed.contains(&false));
    }

    /// What lies ahead of reads of 64 KiB that had to wait.
    fn led(streams: &mut Streams, number: u64) -> Option<Ahead> {
        let read = Read {
            offset: number * 64 * KIB,
            len: 64 * KIB,
            is_miss: true,
        };
        streams.note(read, 1 << 20)
    }

    #[test]
    fn what_a_reader_has_gone_past_is_told_once_and_without_a_gap() {
        let mut streams = Streams::default();
        let mut last = 128 * KIB;
        for number in 0..100 {
            let Some(ahead) = led(&mut streams, number) else {
                continue;
            };
            let end = (number + 1) * 64 * KIB;
            assert_eq!(ahead.behind.start.max(last), ahead.behind.start);
            assert!(ahead.behind.is_empty() || ahead.behind.start == last);
            // One that was overtaken may come yet.
            assert!(ahead.behind.is_empty() || ahead.behind.end + NEAR * 64 * KIB <= end);
            assert_eq!(ahead.run, end - 128 * KIB);
            last = ahead.behind.end;
        }
        assert!(last > 80 * 64 * KIB, "{last}");
    }

    #[test]
    fn what_another_reader_will_ask_for_soon_is_not_gone_past() {
        let mut streams = Streams::default();
        let mut passed = |leader: u64, follower: Option<u64>| {
            let passed = led(&mut streams, leader).map(|ahead| ahead.behind);
            if let Some(number) = follower {
                // Nobody follows the second.
                let _ = led(&mut streams, number);
            }
            passed.is_some_and(|behind| !behind.is_empty())
        };
        let mut passes = |leader: Range<u64>, follower: Option<u64>| {
            let follower = |number| follower.map(|behind| number - behind);
            leader
                .filter(|number| passed(*number, follower(*number)))
                .count()
        };
        assert!(passes(0..200, None) > 10);
        // The first reads of the follower show that there is one.
        passes(200..204, Some(200));
        assert_eq!(passes(204..400, Some(200)), 0);
        // It stopped.
        assert!(passes(400..600, None) > 5);
    }

    #[test]
    fn who_jumps_about_is_not_led() {
        let mut streams = Streams::default();
        let mut at = 1_u64;
        for _ in 0..10_000 {
            at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let range = note(&mut streams, (at >> 24) / 4096 * 4096, 4096);
            assert_eq!(range, None);
        }
        assert_eq!(streams.streams.len(), 0);
    }

    #[test]
    fn who_jumps_about_takes_no_readers_place() {
        let mut streams = Streams::default();
        let mut at = 1_u64;
        let mut led = 0;
        for number in 0..100 {
            let range = note(&mut streams, number * 64 * KIB, 64 * KIB);
            led += u32::from(range.is_some());
            // More reads elsewhere than are followed at a time, once it has shown itself.
            for _ in 0..if number < 2 { 0 } else { 3 * STREAMS } {
                at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let _ = note(&mut streams, (1 << 40) + (at >> 24) / 4096 * 4096, 4096);
            }
        }
        assert!(led > 5, "{led}");
    }
}
