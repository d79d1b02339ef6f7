//! Turns an access specification into operations: the accesses that each worker makes, one after
//! the other.
//!
//! The operations are deterministic. A seed, a specification and a part of the device always give
//! one sequence of operations, whatever the device answers and whenever it does. The shares are
//! exact (see [`super::deck`]).
//!
//! As in IOmeter, an access that is not random continues where the last one ended, even after an
//! access to a random place. It starts over at the end of the part.

use super::deck::Deck;
use super::random::Random;
use ::iometer::access::{AccessLine, AccessSpecification};

/// One access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub len: u32,
    /// Whether the access reads; otherwise it writes.
    pub read: bool,
    /// Pause after the access before the next one starts, in milliseconds.
    pub pause_ms: u32,
}

/// The bytes of a device that one worker uses exclusively.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// First byte.
    pub start: u64,
    /// Number of bytes.
    pub len: u64,
}

impl Part {
    /// Returns the end: one past the last byte.
    pub fn end(self) -> u64 {
        self.start + self.len
    }

    /// Cuts the part into `count` parts of equal length that start at multiples of `unit`. The
    /// remainder at the end is not used.
    pub fn divide(self, count: u64, unit: u64) -> impl Iterator<Item = Part> {
        let len = self.len / count.max(1) / unit * unit;
        (0..count).map(move |number| Part {
            start: self.start + number * len,
            len,
        })
    }
}

/// Generator of one worker's operations.
#[derive(Clone, Debug)]
pub struct Generator {
    random: Random,
    which: Deck,
    lines: Vec<Line>,
    current: usize,
    /// Number of accesses left of the current line's burst.
    left_in_burst: u32,
    sequences: Vec<Sequence>,
    turn: usize,
}

#[derive(Clone, Debug)]
struct Line {
    line: AccessLine,
    /// Alignment of start positions.
    align: u64,
    reads: Deck,
    random: Deck,
}

/// Sequence of accesses in which sequential ones continue each other.
#[derive(Clone, Copy, Debug)]
struct Sequence {
    part: Part,
    next: u64,
}

impl Generator {
    /// Creates the operations within `part` of a device with blocks of `granularity` bytes.
    /// `sequences` runs of accesses take turns, each in its own share of the part, like a program
    /// with this number of files. One is the usual number.
    ///
    /// The specification must have been checked, also against the granularity. Its largest access
    /// must fit into each sequence's share (see [`Generator::least_part`]).
    pub fn new(
        specification: &AccessSpecification,
        part: Part,
        granularity: u32,
        sequences: u32,
        random: Random,
    ) -> Self {
        let line = |line: &AccessLine| Line {
            line: *line,
            align: u64::from(if line.align == 0 {
                granularity
            } else {
                line.align
            }),
            reads: Deck::yes(line.reads_percent),
            random: Deck::yes(line.random_percent),
        };
        let sequences = part
            .divide(u64::from(sequences.max(1)), u64::from(granularity))
            .map(|part| Sequence {
                part,
                next: part.start,
            });
        Self {
            random,
            which: Deck::of(specification.lines.iter().map(|line| line.of_size_percent)),
            lines: specification.lines.iter().map(line).collect(),
            current: 0,
            left_in_burst: 0,
            sequences: sequences.collect(),
            turn: 0,
        }
    }

    /// Returns the least bytes of one sequence into which every access of the specification fits,
    /// wherever it starts.
    pub fn least_part(specification: &AccessSpecification) -> u64 {
        let needs = |line: &AccessLine| u64::from(line.size) + u64::from(line.align);
        specification.lines.iter().map(needs).max().unwrap_or(0)
    }

    /// Returns the next operation.
    #[inline]
    pub fn next_operation(&mut self) -> Operation {
        if self.left_in_burst == 0 {
            self.current = usize::from(self.which.draw(&mut self.random));
            self.left_in_burst = self.lines[self.current].line.burst;
        }
        self.left_in_burst -= 1;
        let line = &mut self.lines[self.current];
        let sequence = &mut self.sequences[self.turn];
        let (len, align) = (u64::from(line.line.size), line.align);
        let offset = if line.random.says_yes(&mut self.random) {
            let first = sequence.part.start.next_multiple_of(align);
            let places = (sequence.part.end() - len - first) / align + 1;
            first + self.random.below(places) * align
        } else {
            let next = sequence.next.next_multiple_of(align);
            if next + len <= sequence.part.end() {
                next
            } else {
                sequence.part.start.next_multiple_of(align)
            }
        };
        sequence.next = offset + len;
        self.turn += 1;
        if self.turn == self.sequences.len() {
            self.turn = 0;
        }
        Operation {
            offset,
            len: line.line.size,
            read: line.reads.says_yes(&mut self.random),
            pause_ms: if self.left_in_burst == 0 {
                line.line.delay_ms
            } else {
                0
            },
        }
    }
}

#[cfg(test)]
mod tests;
