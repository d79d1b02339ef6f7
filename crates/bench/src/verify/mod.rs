//! Proof that a device keeps what it was given, while it is measured.
//!
//! Every block that is written says where it belongs, in which run and how many times it was
//! written before, and carries a checksum over all of it ([`stamp`]). The verifier remembers, per
//! block, how often it was written; every block that is read, while running and once more at the
//! end, must be the one that was written last. So a write that was lost, put elsewhere, torn or
//! undone is found, and so is a read that was answered from the wrong place.
//!
//! Nothing that overlaps a write is in flight with it (the worker sees to that), so for each block
//! there is one right answer; after a failed write there are two, the old block and the new one,
//! until it is written again.
//!
//! Memory: four bytes per block of the device in the worker's part ([`memory_needed`]).

pub mod stamp;

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::generator::{Operation, Part};
use super::random::Random;
use block::{Pages, PagesMut};
use stamp::{Identity, Reading, STAMP_LEN};

/// Mismatches that are kept with their details; all are counted.
const DETAILED: usize = 32;

/// Bytes that the bodies of blocks are taken from.
const FILLER: usize = 64 << 10;

/// Bytes that verifying this many bytes takes.
pub fn memory_needed(len: u64, block: u32) -> u64 {
    len / u64::from(block) * 4
}

/// What was found where something else was expected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Found {
    /// The block as it was before its last writes: they were lost.
    Stale {
        /// How many times the block had been written then.
        generation: u32,
    },
    /// A block that belongs elsewhere: written or read at the wrong place.
    WrongPlace {
        /// Where it belongs.
        lba: u64,
        /// How many times that block had been written then.
        generation: u32,
    },
    /// A block whose checksum is wrong: parts of it are of different times, or damaged.
    Torn,
    /// Zeros only.
    Zeros,
    /// A block of another run of this benchmark.
    OtherRun,
    /// Something that this benchmark never wrote.
    Foreign,
}

impl std::fmt::Display for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Stale { generation } => write!(f, "stale: generation {generation}"),
            Self::WrongPlace { lba, generation } => {
                write!(f, "the block of LBA {lba}, generation {generation}")
            }
            Self::Torn => f.write_str("torn or damaged: wrong checksum"),
            Self::Zeros => f.write_str("zeros"),
            Self::OtherRun => f.write_str("a block of another run"),
            Self::Foreign => f.write_str("something that was never written"),
        }
    }
}

/// A block that was not what it must be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mismatch {
    /// Which block of the device.
    pub lba: u64,
    /// How many times it has been written.
    pub expected_generation: u32,
    /// What was there instead.
    pub found: Found,
}

impl std::fmt::Display for Mismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            lba,
            expected_generation,
            found,
        } = self;
        write!(
            f,
            "LBA {lba}: expected generation {expected_generation}, found {found}"
        )
    }
}

/// What verification has to say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifyReport {
    /// Bytes per block, which the LBAs count.
    pub block: u32,
    /// Blocks that were written.
    pub written: u64,
    /// Blocks that were read and compared, the pass at the end included.
    pub checked: u64,
    /// Blocks that were read before they were first written, of which nothing is known.
    pub unknown: u64,
    /// Blocks that were not what they must be.
    pub mismatches: u64,
    /// Blocks that were written and not compared at the end, because they could not be read or
    /// because there was no end: of them nothing is proven.
    #[serde(default)]
    pub unread: u64,
    /// Reads that succeeded without the bytes that were asked for. Nothing of them is compared.
    #[serde(default)]
    pub short_reads: u64,
    /// Whether the device failed to make durable what was written.
    #[serde(default)]
    pub flush_failed: bool,
    /// The first of the blocks that were not what they must be.
    pub details: Vec<Mismatch>,
}

impl VerifyReport {
    /// Whether everything that was written is there, and was seen.
    pub fn is_proof(&self) -> bool {
        let Self {
            mismatches,
            unread,
            short_reads,
            flush_failed,
            ..
        } = self;
        (*mismatches, *unread, *short_reads, *flush_failed) == (0, 0, 0, false)
    }

    /// Adds another worker's.
    pub fn add(&mut self, other: Self) {
        self.block = other.block;
        self.written += other.written;
        self.checked += other.checked;
        self.unknown += other.unknown;
        self.mismatches += other.mismatches;
        self.unread += other.unread;
        self.short_reads += other.short_reads;
        self.flush_failed |= other.flush_failed;
        self.details.extend(other.details);
        self.details.truncate(DETAILED);
    }
}

/// What one worker knows of the blocks of its part.
#[derive(Debug)]
pub struct Verifier {
    part: Part,
    block: u32,
    run: u64,
    /// How many times each block has been written; 0 for never.
    generations: Vec<u32>,
    /// Blocks whose last writes failed: every one of them may be there, up to this generation.
    doubtful: HashMap<u64, u32>,
    filler: Vec<u8>,
    scratch: Vec<u8>,
    /// Whether this is the pass at the end, which compares each block once.
    at_the_end: bool,
    report: VerifyReport,
}

impl Verifier {
    /// For a part of a device with blocks of this size; `run` tells runs apart.
    pub fn new(part: Part, block: u32, run: u64) -> Self {
        let mut filler = vec![0; FILLER + block as usize];
        Random::new(run).fill(&mut filler);
        Self {
            part,
            block,
            run,
            generations: vec![0; (part.len / u64::from(block)) as usize],
            doubtful: HashMap::new(),
            filler,
            scratch: vec![0; block as usize],
            at_the_end: false,
            report: VerifyReport {
                block,
                ..VerifyReport::default()
            },
        }
    }

    /// The part.
    pub fn part(&self) -> Part {
        self.part
    }

    /// What has been found so far.
    pub fn report(&self) -> &VerifyReport {
        &self.report
    }

    /// The bytes of a write. Nothing is known of it before [`Verifier::written`].
    pub fn stamp(&mut self, operation: &Operation) -> Pages {
        let mut buffer = PagesMut::allocate(operation.len as usize);
        let block = self.block as usize;
        for at in (0..operation.len as usize).step_by(block) {
            let lba = (operation.offset + at as u64) / u64::from(self.block);
            let identity = Identity {
                run: self.run,
                lba,
                generation: self.next_generation(lba),
            };
            let from = identity.mixed() as usize % FILLER;
            self.scratch[STAMP_LEN..].copy_from_slice(&self.filler[from..from + block - STAMP_LEN]);
            identity.put(&mut self.scratch);
            buffer.copy_from(at, &self.scratch);
        }
        buffer.freeze()
    }

    /// The generation that the next write of a block gives it: beyond all that may be there.
    fn next_generation(&self, lba: u64) -> u32 {
        let known = self.generations[self.index(lba)];
        self.doubtful.get(&lba).copied().unwrap_or(known).max(known) + 1
    }

    fn index(&self, lba: u64) -> usize {
        (lba - self.part.start / u64::from(self.block)) as usize
    }

    /// A write has ended, in success or in doubt.
    pub fn written(&mut self, operation: &Operation, success: bool) {
        let first = operation.offset / u64::from(self.block);
        for lba in first..first + u64::from(operation.len / self.block) {
            let generation = self.next_generation(lba);
            let index = self.index(lba);
            if success {
                if self.generations[index] == 0 {
                    self.report.unread += 1;
                }
                self.generations[index] = generation;
                self.report.written += 1;
                if !self.doubtful.is_empty() {
                    self.doubtful.remove(&lba);
                }
            } else {
                self.doubtful.insert(lba, generation);
            }
        }
    }

    /// From now on every block is read once, and nothing is written any more.
    pub fn begin_read_back(&mut self) {
        self.at_the_end = true;
    }

    /// A read succeeded, but its answer is not the bytes that were asked for.
    pub fn read_short(&mut self) {
        self.report.short_reads += 1;
    }

    /// Compares what was read at `offset`, whole blocks, with what must be there.
    pub fn check(&mut self, offset: u64, pages: &Pages) {
        let block = self.block as usize;
        for at in (0..pages.len()).step_by(block) {
            let lba = (offset + at as u64) / u64::from(self.block);
            pages.slice(at..at + block).copy_to(&mut self.scratch);
            self.check_block(lba);
        }
    }

    /// Compares the block in the scratch buffer.
    fn check_block(&mut self, lba: u64) {
        let expected = self.generations[self.index(lba)];
        let doubtful_up_to = self.doubtful.get(&lba).copied().unwrap_or(expected);
        if expected == 0 {
            self.report.unknown += 1;
            return;
        }
        self.report.checked += 1;
        if self.at_the_end {
            self.report.unread = self.report.unread.saturating_sub(1);
        }
        let found = match stamp::read(&self.scratch) {
            Reading::Whole(found) if found.run != self.run => Found::OtherRun,
            Reading::Whole(found) if found.lba != lba => Found::WrongPlace {
                lba: found.lba,
                generation: found.generation,
            },
            Reading::Whole(found) if (expected..=doubtful_up_to).contains(&found.generation) => {
                return;
            }
            Reading::Whole(found) => Found::Stale {
                generation: found.generation,
            },
            Reading::Damaged => Found::Torn,
            Reading::Zeros => Found::Zeros,
            Reading::Foreign => Found::Foreign,
        };
        self.report.mismatches += 1;
        if self.report.details.len() < DETAILED {
            self.report.details.push(Mismatch {
                lba,
                expected_generation: expected,
                found,
            });
        }
    }
}

#[cfg(test)]
mod tests;
