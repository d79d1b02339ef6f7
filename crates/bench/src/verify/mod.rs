//! Proof that a device keeps its data, made while it is measured.
//!
//! Every written block states its place, its run, and how many times it was written before, and
//! carries a checksum over all of it ([`stamp`]). The verifier remembers how often each block was
//! written. Every block that is read, while running and once more at the end, must be the last one
//! written. So a write that was lost, misplaced, torn or undone is found, and so is a read that was
//! answered from the wrong place.
//!
//! Nothing that overlaps a write is in flight with it (the worker ensures this), so each block has
//! one right content. After a failed write there are two, the old block and the new one, until the
//! block is written again.
//!
//! Memory: four bytes for each block of the device in the worker's part ([`memory_needed`]).

pub mod stamp;

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::generator::{Operation, Part};
use super::random::Random;
use block::{Pages, PagesMut};
use stamp::{Identity, Reading, STAMP_LEN};

/// Most mismatches that are kept with their details; all are counted.
const DETAILED: usize = 32;

/// Bytes of the buffer from which the bodies of blocks are taken.
const FILLER: usize = 64 << 10;

/// Returns the memory that verifying this many bytes takes.
pub fn memory_needed(len: u64, block: u32) -> u64 {
    len / u64::from(block) * 4
}

/// Wrong content that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum WrongContent {
    /// The block as it was before its last writes, which were lost.
    Stale {
        /// Number of times that the block had been written then.
        generation: u32,
    },
    /// A block that belongs elsewhere: written to or read from the wrong place.
    WrongPlace {
        /// Place where the block belongs.
        lba: u64,
        /// Number of times that this block had been written then.
        generation: u32,
    },
    /// A block with a wrong checksum: its parts are of different times, or damaged.
    Torn,
    /// Zeros only.
    Zeros,
    /// A block of a different run of this benchmark.
    OtherRun,
    /// Data that this benchmark never wrote.
    Foreign,
}

impl std::fmt::Display for WrongContent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Stale { generation } => write!(f, "stale: generation {generation}"),
            Self::WrongPlace { lba, generation } => {
                write!(f, "the block of LBA {lba}, generation {generation}")
            }
            Self::Torn => f.write_str("torn or damaged: wrong checksum"),
            Self::Zeros => f.write_str("zeros"),
            Self::OtherRun => f.write_str("a block of another run"),
            Self::Foreign => f.write_str("data that was never written"),
        }
    }
}

/// Block with wrong content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mismatch {
    /// Number of the block on the device.
    pub lba: u64,
    /// Number of times that the block has been written.
    pub expected_generation: u32,
    /// Content that was found instead.
    pub found: WrongContent,
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

/// Report of the verification.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifyReport {
    /// Bytes of a block, the unit of the LBAs.
    pub block: u32,
    /// Number of blocks that were written.
    pub written: u64,
    /// Number of blocks that were read and compared, including the pass at the end.
    pub checked: u64,
    /// Number of blocks that were read before they were first written, whose content is unknown.
    pub unknown: u64,
    /// Number of blocks with wrong content.
    pub mismatches: u64,
    /// Number of blocks that were written and not compared at the end, because they could not be
    /// read or because the run had no end. Nothing is proven about them.
    #[serde(default)]
    pub unread: u64,
    /// Number of reads that succeeded with a wrong amount of data. None of their data is compared.
    #[serde(default)]
    pub short_reads: u64,
    /// Whether the device failed to make the written data durable.
    #[serde(default)]
    pub flush_failed: bool,
    /// Details of the first blocks with wrong content.
    pub details: Vec<Mismatch>,
}

impl VerifyReport {
    /// Reports whether every written block is there, and was seen.
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

    /// Adds the report of another worker.
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

/// One worker's knowledge of the blocks of its part.
#[derive(Debug)]
pub struct Verifier {
    part: Part,
    block: u32,
    run: u64,
    /// Number of times that each block has been written; 0 for never.
    generations: Vec<u32>,
    /// Blocks whose last writes failed. Any of these writes may be there, up to this generation.
    doubtful: HashMap<u64, u32>,
    filler: Vec<u8>,
    scratch: Vec<u8>,
    /// Whether this is the pass at the end, which compares each block once.
    at_the_end: bool,
    report: VerifyReport,
}

impl Verifier {
    /// Creates a verifier for a part of a device with blocks of this size. `run` tells runs apart.
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

    /// Returns the part.
    pub fn part(&self) -> Part {
        self.part
    }

    /// Returns the report so far.
    pub fn report(&self) -> &VerifyReport {
        &self.report
    }

    /// Returns the bytes of a write. Their fate is unknown until [`Verifier::written`].
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

    /// Returns the generation of the next write of a block: above all that may be there.
    fn next_generation(&self, lba: u64) -> u32 {
        let known = self.generations[self.index(lba)];
        self.doubtful.get(&lba).copied().unwrap_or(known).max(known) + 1
    }

    fn index(&self, lba: u64) -> usize {
        (lba - self.part.start / u64::from(self.block)) as usize
    }

    /// Notes that a write has ended, successfully or with doubt.
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

    /// Begins the final pass: every block is read once, and nothing is written any more.
    pub fn begin_read_back(&mut self) {
        self.at_the_end = true;
    }

    /// Notes that a read succeeded with a wrong amount of data.
    pub fn read_short(&mut self) {
        self.report.short_reads += 1;
    }

    /// Compares whole blocks that were read at `offset` with the expected content.
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
            Reading::Whole(found) if found.run != self.run => WrongContent::OtherRun,
            Reading::Whole(found) if found.lba != lba => WrongContent::WrongPlace {
                lba: found.lba,
                generation: found.generation,
            },
            Reading::Whole(found) if (expected..=doubtful_up_to).contains(&found.generation) => {
                return;
            }
            Reading::Whole(found) => WrongContent::Stale {
                generation: found.generation,
            },
            Reading::Damaged => WrongContent::Torn,
            Reading::Zeros => WrongContent::Zeros,
            Reading::Foreign => WrongContent::Foreign,
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
