//! Reading ahead: who reads one range after another gets the next ones before asking for them.
//!
//! A reader with few requests outstanding leaves the devices idle while its answers are verified and on their way. So
//! where reads follow one another, what lies behind them is brought into the cache while they are answered. The distance
//! doubles as long as the reader comes after it, up to a bound that counts what is waited for already: who has many
//! requests outstanding keeps the devices busy alone. A reader that stops costs that much once.
//!
//! What a long reader has read goes from the cache at once. So all that it reads goes through little memory, which stays
//! near the processors: a device brings bytes a quarter faster into 8 MiB in turn than into 32 MiB.
//!
//! It is noted here, and not by the engine, since that does not hear of reads that the cache answers: those that were
//! read ahead, that is.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, TryLockError};

use store::cache::{Cache, Key};
use store::format::DatasetId;

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
pub(crate) struct Readers {
    streams: Mutex<Streams>,
    /// Bytes of reads that are waited for.
    awaited: Arc<AtomicU64>,
}

impl Readers {
    /// A read came. Tells of its reader; `most` bytes are to be on their way or ready at most. Where another thread is
    /// noting one, it is not noted: a reader shows itself again.
    pub(crate) fn note(&self, read: Read, most: u64) -> Noted {
        let mut streams = match self.streams.try_lock() {
            Ok(streams) => streams,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Noted::default(),
        };
        let awaited = self.awaited.load(Ordering::Relaxed);
        // Half of it in any case: that is what devices begin with while what was waited for is looked at.
        streams.note(read, most.saturating_sub(awaited).max(most / 2))
    }

    /// A read is waited for, until what is returned is dropped.
    pub(crate) fn wait(&self, bytes: u64, passed: Option<Passed>) -> Awaited {
        self.awaited.fetch_add(bytes, Ordering::Relaxed);
        Awaited {
            bytes,
            of: Arc::clone(&self.awaited),
            passed,
        }
    }
}

/// A read that is waited for.
#[derive(Debug)]
pub(crate) struct Awaited {
    bytes: u64,
    of: Arc<AtomicU64>,
    passed: Option<Passed>,
}

impl Awaited {
    /// It is answered.
    pub(crate) fn answered(mut self, cache: &Cache) {
        if let Some(passed) = self.passed.take() {
            passed.leave(cache);
        }
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        self.of.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Blocks that a reader has read to their end.
#[derive(Clone, Debug)]
pub(crate) struct Passed {
    volume: u64,
    blocks: Range<u64>,
    run: u64,
}

impl Passed {
    /// By a read, where its reader will not come back soon.
    pub(crate) fn by(read: Read, run: u64, dataset: DatasetId, block_size: u32) -> Option<Self> {
        let block_size = u64::from(block_size);
        (run > 0).then(|| Self {
            volume: dataset.0.into(),
            blocks: read.offset / block_size..(read.offset + read.len) / block_size,
            run,
        })
    }

    /// They need not stay in memory.
    pub(crate) fn leave(self, cache: &Cache) {
        let (volume, run) = (self.volume, self.run);
        self.blocks
            .for_each(|block| cache.pass(Key { volume, block }, run));
    }
}

/// A read, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Read {
    pub(crate) offset: u64,
    pub(crate) len: u64,
    /// Not all of it was in memory.
    pub(crate) is_miss: bool,
}

/// What is known of who reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Noted {
    /// Bytes that it read one after another; 0 where another reader comes after it, and will ask for the same.
    pub(crate) run: u64,
    /// What it will probably ask for, and is to be in memory soon.
    pub(crate) ahead: Option<Ahead>,
}

/// What a reader will probably ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ahead {
    /// Bytes.
    pub(crate) range: Range<u64>,
    /// It had to wait for something since the last that it was told.
    pub(crate) has_missed: bool,
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
    /// A read came. Tells of its reader; `most` bytes are to be read ahead at most.
    fn note(&mut self, read: Read, most: u64) -> Noted {
        let Read { offset, len, .. } = read;
        let end = offset + len;
        let follows = |next: u64| is_near(next, offset, len);
        if let Some(number) = self.streams.iter().position(|of| follows(of.next)) {
            self.clock += 1;
            let stream = &mut self.streams[number];
            stream.used = self.clock;
            let ahead = stream.note(read, most);
            let run = stream.next - stream.start;
            return Noted {
                run: if self.is_followed(number) { 0 } else { run },
                ahead,
            };
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
        Noted::default()
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
        Some(Ahead {
            range: from..self.ahead,
            has_missed: std::mem::take(&mut self.has_missed),
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
        streams.note(read, 1 << 20).ahead.map(|ahead| ahead.range)
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
            if let Some(of) = streams.note(read, MOST).ahead {
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
            let ahead = reads.filter_map(|number| streams.note(read(number), 1 << 20).ahead);
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

    /// A read of 64 KiB that had to wait.
    fn read(number: u64) -> Read {
        Read {
            offset: number * 64 * KIB,
            len: 64 * KIB,
            is_miss: true,
        }
    }

    /// How far such reads were one after another.
    fn run(streams: &mut Streams, number: u64) -> u64 {
        streams.note(read(number), 1 << 20).run
    }

    #[test]
    fn how_long_a_reader_reads_on_is_told() {
        let mut streams = Streams::default();
        // Two show that there is a reader.
        assert_eq!([0, 1].map(|number| run(&mut streams, number)), [0, 0]);
        for number in 2..100 {
            assert_eq!(run(&mut streams, number), (number - 1) * 64 * KIB);
        }
        // Somebody else, and who was overtaken.
        assert_eq!(run(&mut streams, 1 << 20), 0);
        assert_eq!(run(&mut streams, 98), 98 * 64 * KIB);
    }

    #[test]
    fn who_is_followed_does_not_leave_what_it_has_read() {
        let mut streams = Streams::default();
        let mut runs = |leader: Range<u64>, behind: Option<u64>| -> Vec<u64> {
            let reads = leader.map(|number| {
                let of_leader = run(&mut streams, number);
                if let Some(behind) = behind {
                    // Nobody follows the second.
                    let _ = run(&mut streams, number - behind);
                }
                of_leader
            });
            reads.collect()
        };
        assert!(!runs(2..200, None)[2..].contains(&0));
        // The first reads of the follower show that there is one.
        runs(200..204, Some(200));
        assert!(runs(204..400, Some(200)).iter().all(|run| *run == 0));
        // It stopped.
        let alone = runs(400..600, None);
        assert!(!alone[SILENCE as usize..].contains(&0));
    }

    /// How far ahead of the last of a hundred reads is read, in bytes.
    fn distance(readers: &Readers, most: u64) -> u64 {
        let noted = (0..100).filter_map(|number| readers.note(read(number), most).ahead);
        let end = noted.map(|ahead| ahead.range.end).max();
        end.unwrap_or(0).saturating_sub(100 * 64 * KIB)
    }

    #[test]
    fn who_keeps_devices_busy_alone_is_not_led_as_far() {
        const MOST: u64 = 4 << 20;
        let far = distance(&Readers::default(), MOST);
        assert!(far > MOST - STEP, "{far}");
        let busy = Readers::default();
        let awaited: Vec<_> = (0..3).map(|_| busy.wait(1 << 20, None)).collect();
        let near = distance(&busy, MOST);
        assert!((STEP..=MOST / 2).contains(&near), "{near}");
        // What is answered is waited for no longer.
        drop(awaited);
        assert_eq!(busy.awaited.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn blocks_are_passed_by_who_reads_their_ends() {
        let of = |offset: u64, len: u64| {
            let read = Read {
                offset,
                len,
                is_miss: true,
            };
            Passed::by(read, 1, DatasetId(7), 16 << 10).map(|passed| passed.blocks)
        };
        assert_eq!(of(0, 64 * KIB), Some(0..4));
        // The rest of the first, and not all of the last.
        assert_eq!(of(20 * KIB, 64 * KIB), Some(1..5));
        assert_eq!(of(4 * KIB, 4 * KIB), Some(0..0));
        assert_eq!(of(12 * KIB, 4 * KIB), Some(0..1));
        assert!(Passed::by(read(0), 0, DatasetId(7), 16 << 10).is_none());
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
