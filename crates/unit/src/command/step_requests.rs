//! Requests that carry out a step of the device server on a block device. The device's answers are
//! put into the device server's words here, too.

use scsi::{BlockRange, Extent, Step};

use super::operation::{Answer, TaskRun};
use crate::unit::Unit;
use block::{BlockError, BlockErrorKind, Pages, Request};

/// Length, in bytes, to which requests of a step are cut, so that no step hogs memory or a disk.
const STEP_CHUNK: u64 = 1024 * 1024;
/// Length, in bytes, to which requests that give blocks back are cut. A step may have very many of
/// them.
const DISCARD_CHUNK: u64 = 32 << 20;

/// Fills in the requests of a step and returns the range that it changes.
pub fn prepare(run: &mut TaskRun, unit: &Unit, step: Step) -> Option<BlockRange> {
    let cached = unit.logical.write_cache_enabled();
    let changed = requests(run, unit, step, cached);
    run.cached = cached && changed.is_some();
    changed
}

fn requests(run: &mut TaskRun, unit: &Unit, step: Step, cached: bool) -> Option<BlockRange> {
    match step {
        Step::Read { range } => {
            let (offset, len) = unit.bytes(range);
            run.answer = Answer::Blocks;
            run.requests.push_back(Request::Read {
                offset,
                len: len as u32,
            });
            None
        }
        Step::Write { range, data, fua } => {
            let data = Pages::from_bytes(&data);
            run.requests.push_back(Request::Write {
                offset: unit.bytes(range).0,
                data,
                durable: fua || !cached,
            });
            Some(range)
        }
        Step::WriteDataOut {
            range,
            offset: from,
            fua,
        } => {
            let (offset, len) = unit.bytes(range);
            let data = run
                .data_out
                .slice(from as usize..from as usize + len as usize);
            run.requests.push_back(Request::Write {
                offset,
                data,
                durable: fua || !cached,
            });
            Some(range)
        }
        Step::WriteZeroes { range, unmap, fua } => {
            let (offset, len) = unit.bytes(range);
            run.freed += if unmap { len } else { 0 };
            run.requests.push_back(Request::WriteZeroes {
                offset,
                len,
                unmap,
                durable: fua || !cached,
            });
            Some(range)
        }
        Step::WritePattern {
            range,
            pattern,
            fua,
        } => {
            push_pattern(run, unit, range, &pattern, fua || !cached);
            Some(range)
        }
        Step::Unmap { ranges } => {
            let mut whole: Option<BlockRange> = None;
            for range in ranges.into_iter().filter(|range| !range.is_empty()) {
                push_discards(run, unit, range);
                run.freed += unit.bytes(range).1;
                whole = Some(whole.map_or(range, |whole| hull(whole, range)));
            }
            if whole.is_some() && !cached {
                run.requests.push_back(Request::Flush);
            }
            whole
        }
        Step::Flush => {
            run.requests.push_back(Request::Flush);
            None
        }
        Step::Extents { range } => {
            let (offset, len) = unit.bytes(range);
            run.answer = Answer::Extents(range);
            run.requests.push_back(Request::Extents { offset, len });
            None
        }
        Step::Prefetch { range } => {
            // Reading warms a cache; without a cache it would be in vain.
            if unit.device.has_read_cache() {
                push_reads(run, unit, range);
            }
            None
        }
        // These steps were handled before.
        Step::On { .. } | Step::Save { .. } | Step::Abort(_) | Step::Done(_) => None,
    }
}

/// Adds reads whose bytes nobody wants.
fn push_reads(run: &mut TaskRun, unit: &Unit, range: BlockRange) {
    let (mut offset, mut left) = unit.bytes(range);
    while left > 0 {
        let len = left.min(STEP_CHUNK);
        run.requests.push_back(Request::Read {
            offset,
            len: len as u32,
        });
        offset += len;
        left -= len;
    }
}

fn push_pattern(run: &mut TaskRun, unit: &Unit, range: BlockRange, pattern: &[u8], durable: bool) {
    let (mut offset, mut left) = unit.bytes(range);
    let chunk = STEP_CHUNK.min(left) / pattern.len() as u64 * pattern.len() as u64;
    let full = Pages::from_bytes(&pattern.repeat((chunk / pattern.len() as u64) as usize));
    while left > 0 {
        let take = chunk.min(left);
        let data = full.slice(0..take as usize);
        run.requests.push_back(Request::Write {
            offset,
            data,
            durable,
        });
        offset += take;
        left -= take;
    }
}

/// Adds requests that give blocks back. They are cut at multiples of their length, where any device
/// can give back whole blocks.
fn push_discards(run: &mut TaskRun, unit: &Unit, range: BlockRange) {
    let (mut offset, mut left) = unit.bytes(range);
    while left > 0 {
        let len = left.min(DISCARD_CHUNK - offset % DISCARD_CHUNK);
        run.requests.push_back(Request::Discard { offset, len });
        offset += len;
        left -= len;
    }
}

fn hull(a: BlockRange, b: BlockRange) -> BlockRange {
    let start = a.start.0.min(b.start.0);
    BlockRange::new(start, a.end().max(b.end()) - start).unwrap_or(a)
}

/// Returns the extents of a range that a device told in bytes.
pub fn to_extents(unit: &Unit, asked: BlockRange, runs: &[(u64, bool)]) -> Vec<Extent> {
    let mut start = asked.start.0;
    let mut extents = Vec::with_capacity(runs.len());
    for (len, mapped) in runs {
        let count = unit.blocks(*len).min(asked.end() - start);
        if let Some(range) = BlockRange::new(start, count).filter(|range| !range.is_empty()) {
            extents.push(Extent {
                range,
                mapped: *mapped,
            });
        }
        start += count;
    }
    extents
}

/// Returns what the device server understands of a device's error.
pub fn scsi_error(unit: &Unit, error: &BlockError) -> scsi::BlockError {
    let lba = error.offset().map(|offset| unit.blocks(offset));
    match error.kind() {
        BlockErrorKind::Medium | BlockErrorKind::Invalid => scsi::BlockError::Medium { lba },
        BlockErrorKind::OutOfRange => scsi::BlockError::OutOfRange,
        BlockErrorKind::Write | BlockErrorKind::Reserved => scsi::BlockError::Write { lba },
        BlockErrorKind::NoSpace => scsi::BlockError::NoSpace,
        BlockErrorKind::ReadOnly => scsi::BlockError::ReadOnly,
        // Another unit stands in for it at once, and it may come back.
        BlockErrorKind::Gone if unit.device.is_over() => scsi::BlockError::Away,
        BlockErrorKind::Gone => scsi::BlockError::Gone,
        BlockErrorKind::Away => scsi::BlockError::Away,
    }
}
