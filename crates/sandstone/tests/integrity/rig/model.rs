//! Model of the allowed content of each block of a logical unit.
//!
//! The content follows from the requests, the answers, and the missing answers.
//!
//! Writes that overlap in time may end in either order. A write that was never answered may have
//! happened or not. So each block has a set of candidates. A write leaves the set only when another
//! write that began after its end was acknowledged. A write is safe from a power cut only once it
//! was acknowledged as durable. It is durable with FUA, without a write cache, or after a
//! SYNCHRONIZE CACHE that began after its end.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::content::Value;

/// End of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// GOOD; `durable` if that promises stable storage.
    Good {
        /// FUA, or no write cache.
        durable: bool,
    },
    /// No answer will come: the write happened or it did not, but it will not happen later.
    Unknown,
    /// The write was refused: it did not happen.
    Refused,
}

/// Kind of a crash, which decides the loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Crash {
    /// Crash of the daemon: data that the kernel has taken stays.
    Process,
    /// Loss of power: data that was not durable may be gone.
    Power,
}

/// Write that a block may show.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    operation: u64,
    value: Value,
    start: u64,
    /// Moment from which the write has no further effect.
    end: Option<u64>,
    acknowledged: bool,
    durable: bool,
    /// Visibility: false once a later write of the block was acknowledged. Then only a power cut
    /// brings it back.
    visible: bool,
}

/// Content that a read in progress, or the comparing half of COMPARE AND WRITE, may find.
#[derive(Debug)]
struct Watch {
    blocks: Range<u64>,
    /// Values of each block, with the operations that write them.
    may_find: Vec<Vec<(u64, Value)>>,
}

/// Blocks of one logical unit.
#[derive(Debug)]
pub(crate) struct Model {
    blocks: Vec<Vec<Candidate>>,
    clock: u64,
    writes: HashMap<u64, (Range<u64>, u64)>,
    watches: HashMap<u64, Watch>,
    flushes: HashMap<u64, u64>,
    /// Writes that were refused: no read may return them.
    refused: HashSet<u64>,
    /// Values that a COMPARE AND WRITE has replaced: no other may replace them again.
    replaced: HashSet<(u64, u64)>,
}

impl Model {
    /// Returns a unit of this number of blocks of zeros.
    pub(crate) fn new(blocks: u64) -> Self {
        let zero = settled(Value::Zero);
        Self {
            blocks: vec![vec![zero]; blocks as usize],
            clock: 0,
            writes: HashMap::new(),
            watches: HashMap::new(),
            flushes: HashMap::new(),
            refused: HashSet::new(),
            replaced: HashSet::new(),
        }
    }

    pub(crate) fn len(&self) -> u64 {
        self.blocks.len() as u64
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Begins a write of `value`.
    pub(crate) fn begin_write(&mut self, operation: u64, blocks: Range<u64>, value: Value) {
        let start = self.tick();
        for lba in blocks.clone() {
            self.blocks[lba as usize].push(Candidate {
                operation,
                value,
                start,
                end: None,
                acknowledged: false,
                durable: false,
                visible: true,
            });
        }
        for (other, watch) in &mut self.watches {
            if *other != operation {
                for lba in overlap(&watch.blocks, &blocks) {
                    watch.may_find[(lba - watch.blocks.start) as usize].push((operation, value));
                }
            }
        }
        self.writes.insert(operation, (blocks, start));
    }

    /// Ends a write.
    pub(crate) fn end_write(&mut self, operation: u64, end: End) {
        let Some((blocks, start)) = self.writes.remove(&operation) else {
            panic!("operation {operation} ended twice");
        };
        let now = self.tick();
        if end == End::Refused {
            self.refused.insert(operation);
        }
        for lba in blocks {
            let candidates = &mut self.blocks[lba as usize];
            match end {
                End::Refused => candidates.retain(|candidate| candidate.operation != operation),
                End::Unknown => {
                    for candidate in candidates.iter_mut().filter(|c| c.operation == operation) {
                        candidate.end = Some(now);
                    }
                }
                End::Good { durable } => {
                    for candidate in candidates.iter_mut() {
                        if candidate.operation == operation {
                            candidate.end = Some(now);
                            candidate.acknowledged = true;
                            candidate.durable = durable;
                        } else if candidate.end.is_some_and(|end| end < start) {
                            candidate.visible = false;
                        }
                    }
                    forget_overwritten(candidates);
                }
            }
        }
    }

    /// Begins a read.
    pub(crate) fn begin_read(&mut self, operation: u64, blocks: Range<u64>) {
        let may_find = blocks.clone().map(|lba| self.visible(lba)).collect();
        self.watches.insert(operation, Watch { blocks, may_find });
    }

    fn visible(&self, lba: u64) -> Vec<(u64, Value)> {
        let candidates = self.blocks[lba as usize].iter();
        candidates
            .filter(|candidate| candidate.visible)
            .map(|candidate| (candidate.operation, candidate.value))
            .collect()
    }

    /// Ends a read that returned `found`.
    pub(crate) fn end_read(&mut self, operation: u64, found: &[Value]) -> Result<(), String> {
        let watch = self.take_watch(operation);
        for ((lba, may_find), found) in watch.blocks.clone().zip(&watch.may_find).zip(found) {
            self.check(lba, may_find, *found)?;
        }
        Ok(())
    }

    fn check(&self, lba: u64, may_find: &[(u64, Value)], found: Value) -> Result<(), String> {
        let allowed = |(operation, value): &(u64, Value)| {
            *value == found && !self.refused.contains(operation)
        };
        if may_find.iter().any(allowed) {
            return Ok(());
        }
        Err(format!(
            "block {lba} holds {found:?}, but may hold only {may_find:?}"
        ))
    }

    /// Returns the first block of a read in progress.
    pub(crate) fn start_of_read(&self, operation: u64) -> u64 {
        self.watches[&operation].blocks.start
    }

    /// Refuses the operation: it had no effect.
    pub(crate) fn refused(&mut self, operation: u64) {
        self.watches.remove(&operation);
        self.flushes.remove(&operation);
        if self.writes.contains_key(&operation) {
            self.end_write(operation, End::Refused);
        }
    }

    /// Gives an operation up: no answer will come, and it has no effect from now on.
    pub(crate) fn unanswered(&mut self, operation: u64) {
        self.watches.remove(&operation);
        self.flushes.remove(&operation);
        if self.writes.contains_key(&operation) {
            self.end_write(operation, End::Unknown);
        }
    }

    fn take_watch(&mut self, operation: u64) -> Watch {
        let watch = self.watches.remove(&operation);
        watch.unwrap_or_else(|| panic!("operation {operation} ended twice"))
    }

    /// Returns the newest value that the block may hold now.
    pub(crate) fn guess(&self, lba: u64) -> Value {
        let candidates = &self.blocks[lba as usize];
        let newest = candidates.iter().rev().find(|candidate| candidate.visible);
        newest.map_or(Value::Zero, |candidate| candidate.value)
    }

    /// Begins a COMPARE AND WRITE.
    pub(crate) fn begin_compare_and_write(&mut self, operation: u64, blocks: Range<u64>) {
        self.begin_read(operation, blocks.clone());
        self.begin_write(operation, blocks, Value::Written(operation));
    }

    /// Ends a COMPARE AND WRITE that found its expected values and wrote.
    pub(crate) fn compared_and_wrote(
        &mut self,
        operation: u64,
        expected: &[Value],
        durable: bool,
    ) -> Result<(), String> {
        let watch = self.take_watch(operation);
        for ((lba, may_find), value) in watch.blocks.clone().zip(&watch.may_find).zip(expected) {
            self.check(lba, may_find, *value)?;
            let Value::Written(by) = *value else { continue };
            if !self.replaced.insert((lba, by)) {
                return Err(format!(
                    "two COMPARE AND WRITE found operation {by} in block {lba} and replaced it"
                ));
            }
            // The block was read and replaced in one step: only a power cut brings the old content
            // back.
            let candidates = &mut self.blocks[lba as usize];
            for candidate in candidates.iter_mut().filter(|c| c.operation == by) {
                candidate.visible = false;
            }
            candidates.retain(|c| !durable || c.operation != by);
        }
        self.end_write(operation, End::Good { durable });
        Ok(())
    }

    /// Ends a COMPARE AND WRITE that found other values than expected and wrote nothing.
    pub(crate) fn miscompared(&mut self, operation: u64, expected: &[Value]) -> Result<(), String> {
        let watch = self.take_watch(operation);
        self.end_write(operation, End::Refused);
        let mut blocks = watch.may_find.iter().zip(expected);
        let may_differ = blocks.any(|(may_find, expected)| {
            may_find
                .iter()
                .any(|(by, value)| value != expected && !self.refused.contains(by))
        });
        if may_differ {
            return Ok(());
        }
        Err(format!(
            "COMPARE AND WRITE {operation} of blocks {:?} found a difference where there was none",
            watch.blocks
        ))
    }

    /// Begins a SYNCHRONIZE CACHE.
    pub(crate) fn begin_flush(&mut self, operation: u64) {
        let now = self.tick();
        self.flushes.insert(operation, now);
    }

    /// Ends a SYNCHRONIZE CACHE.
    pub(crate) fn end_flush(&mut self, operation: u64) {
        let start = self.flushes.remove(&operation).expect("it began");
        for candidates in &mut self.blocks {
            let covered =
                |c: &&mut Candidate| c.acknowledged && c.end.is_some_and(|end| end < start);
            for candidate in candidates.iter_mut().filter(covered) {
                candidate.durable = true;
            }
            forget_overwritten(candidates);
        }
    }

    /// Ends everything without an answer: the daemon is gone.
    pub(crate) fn crash(&mut self, crash: Crash) {
        let writes: Vec<u64> = self.writes.keys().copied().collect();
        for operation in writes {
            self.end_write(operation, End::Unknown);
        }
        self.watches.clear();
        self.flushes.clear();
        if crash == Crash::Power {
            // The values that replaced them may be lost.
            self.replaced.clear();
            for candidate in self.blocks.iter_mut().flatten() {
                candidate.visible = true;
            }
        }
    }

    /// Compares the whole unit, read after a crash or at the end, with its allowed content.
    ///
    /// From then on the unit holds only the content found.
    pub(crate) fn settle(&mut self, found: &[Value]) -> Result<(), String> {
        assert!(self.writes.is_empty() && self.watches.is_empty());
        for (lba, value) in found.iter().enumerate() {
            self.check(lba as u64, &self.visible(lba as u64), *value)?;
            self.blocks[lba] = vec![settled(*value)];
        }
        Ok(())
    }
}

/// Forgets writes that not even a power cut brings back: a write that began after their end is
/// durable.
fn forget_overwritten(candidates: &mut Vec<Candidate>) {
    let durable = candidates.iter().filter(|candidate| candidate.durable);
    let Some(newest) = durable.map(|candidate| candidate.start).max() else {
        return;
    };
    candidates.retain(|candidate| candidate.end.is_none_or(|end| end >= newest));
}

/// Returns a candidate that is there and stays there.
fn settled(value: Value) -> Candidate {
    let operation = match value {
        Value::Zero => 0,
        Value::Written(operation) => operation,
    };
    Candidate {
        operation,
        value,
        start: 0,
        end: Some(0),
        acknowledged: true,
        durable: true,
        visible: true,
    }
}

fn overlap(a: &Range<u64>, b: &Range<u64>) -> Range<u64> {
    let start = a.start.max(b.start);
    start..a.end.min(b.end).max(start)
}
