//! Access specifications, which describe every workload in the terms of IOmeter.
//!
//! A specification is a list of lines. Each line gives its share of all accesses, their size, the
//! share of reads, and the share that goes to a random place. Everything that this benchmark can
//! run, built in or read from a file, is an access specification.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Most lines that a specification may have, as in IOmeter.
pub const MAX_LINES: usize = 100;

/// Longest name that IOmeter keeps. It counts a final zero byte among its 80.
pub const MAX_NAME: usize = 79;

/// Largest access in bytes, which one SCSI command of any initiator in use can carry.
pub const MAX_SIZE: u32 = 64 << 20;

/// One line of a specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessLine {
    /// Bytes per access.
    pub size: u32,
    /// Share of all accesses that this line makes. The shares of all lines add up to 100.
    pub of_size_percent: u8,
    /// Share of this line's accesses that read. The others write.
    pub reads_percent: u8,
    /// Share of this line's accesses that go to a random place. The others continue at the end of
    /// the last one.
    pub random_percent: u8,
    /// Pause after each burst, in milliseconds.
    #[serde(default)]
    pub delay_ms: u32,
    /// Accesses between two pauses.
    #[serde(default = "one")]
    pub burst: u32,
    /// Number of bytes of which the start of each access is a multiple, or 0 for every block of the
    /// device.
    #[serde(default)]
    pub align: u32,
    /// Bytes of a network server's answer. The value is only kept, because it has no meaning for a
    /// disk.
    #[serde(default)]
    pub reply: u32,
}

const fn one() -> u32 {
    1
}

impl AccessLine {
    /// Makes a line that makes all accesses, without pauses, aligned to the block.
    pub const fn all(size: u32, reads_percent: u8, random_percent: u8) -> Self {
        Self {
            size,
            of_size_percent: 100,
            reads_percent,
            random_percent,
            delay_ms: 0,
            burst: 1,
            align: 0,
            reply: 0,
        }
    }

    /// Returns the line with this share of the accesses.
    #[must_use]
    pub const fn share(mut self, of_size_percent: u8) -> Self {
        self.of_size_percent = of_size_percent;
        self
    }

    /// Returns the line with accesses that start at multiples of their own size.
    #[must_use]
    pub const fn aligned_to_size(mut self) -> Self {
        self.align = self.size;
        self
    }
}

/// Workers of IOmeter to which a specification is given when they are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Assignment {
    /// No workers.
    #[default]
    None,
    /// All workers.
    All,
    /// Disk workers.
    Disk,
    /// Network workers.
    Net,
}

/// A named list of lines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessSpecification {
    /// Name for users.
    pub name: String,
    /// IOmeter's default assignment, which is only kept.
    #[serde(default)]
    pub assignment: Assignment,
    /// Lines of the specification.
    pub lines: Vec<AccessLine>,
}

impl AccessSpecification {
    /// Makes a specification of one line.
    pub fn single(name: impl Into<String>, line: AccessLine) -> Self {
        Self {
            name: name.into(),
            assignment: Assignment::None,
            lines: vec![line],
        }
    }

    /// Checks that the specification is valid on any device.
    pub fn check(&self) -> Result<(), SpecificationError> {
        let wrong = |fault| SpecificationError {
            name: self.name.clone(),
            fault,
        };
        if self.name.is_empty() || self.name.len() > MAX_NAME || self.name.contains(['\n', '\r']) {
            return Err(wrong(Fault::Name));
        }
        if self.lines.is_empty() || self.lines.len() > MAX_LINES {
            return Err(wrong(Fault::Lines(self.lines.len())));
        }
        for (index, line) in self.lines.iter().enumerate() {
            line.check()
                .map_err(|what| wrong(Fault::Line(index + 1, what)))?;
        }
        let total: u32 = self
            .lines
            .iter()
            .map(|line| u32::from(line.of_size_percent))
            .sum();
        if total != 100 {
            return Err(wrong(Fault::Shares(total)));
        }
        Ok(())
    }

    /// Checks that the specification can run on a device with blocks of `granularity` bytes.
    pub fn check_granularity(&self, granularity: u32) -> Result<(), SpecificationError> {
        let unfit = |line: &AccessLine| {
            !line.size.is_multiple_of(granularity) || !line.align.is_multiple_of(granularity)
        };
        match self.lines.iter().find(|line| unfit(line)) {
            None => Ok(()),
            Some(line) => Err(SpecificationError {
                name: self.name.clone(),
                fault: Fault::Granularity(line.size, line.align, granularity),
            }),
        }
    }

    /// Reports whether any access may write.
    pub fn writes(&self) -> bool {
        self.lines
            .iter()
            .any(|line| line.of_size_percent > 0 && line.reads_percent < 100)
    }

    /// Returns the bytes of the largest access.
    pub fn largest(&self) -> u32 {
        self.lines.iter().map(|line| line.size).max().unwrap_or(0)
    }
}

impl AccessLine {
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        match () {
            () if self.size == 0 => Err("the size is 0"),
            () if self.size > MAX_SIZE => Err("the size is larger than 64 MiB"),
            () if self.of_size_percent > 100 => Err("the share is above 100 percent"),
            () if self.reads_percent > 100 => Err("the share of reads is above 100 percent"),
            () if self.random_percent > 100 => Err("the random share is above 100 percent"),
            () if self.burst == 0 => Err("the burst is 0"),
            () => Ok(()),
        }
    }
}

/// Reason why a specification cannot be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecificationError {
    name: String,
    fault: Fault,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Fault {
    Name,
    Lines(usize),
    Line(usize, &'static str),
    Shares(u32),
    Granularity(u32, u32, u32),
}

impl fmt::Display for SpecificationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "access specification {:?}: ", self.name)?;
        match &self.fault {
            Fault::Name => write!(f, "its name must have 1 to {MAX_NAME} bytes on one line"),
            Fault::Lines(0) => write!(f, "it has no lines"),
            Fault::Lines(count) => write!(f, "it has {count} lines, more than {MAX_LINES}"),
            Fault::Line(number, what) => write!(f, "line {number}: {what}"),
            Fault::Shares(total) => write!(f, "the shares of its lines add up to {total}, not 100"),
            Fault::Granularity(size, align, blocks) => write!(
                f,
                "accesses of {size} bytes aligned to {align} do not fit a device with blocks of {blocks} bytes"
            ),
        }
    }
}

impl std::error::Error for SpecificationError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn specification(lines: Vec<AccessLine>) -> AccessSpecification {
        AccessSpecification {
            name: "x".into(),
            assignment: Assignment::None,
            lines,
        }
    }

    fn refused(lines: Vec<AccessLine>) -> String {
        specification(lines).check().expect_err("wrong").to_string()
    }

    #[test]
    fn shares_add_up_to_100() {
        let line = AccessLine::all(4096, 100, 0);
        assert_eq!(
            specification(vec![line.share(40), line.share(60)]).check(),
            Ok(())
        );
        assert!(refused(vec![line.share(40)]).contains("add up to 40"));
        assert!(refused(vec![line, line]).contains("add up to 200"));
        assert!(refused(vec![]).contains("no lines"));
        assert!(refused(vec![line.share(0); 101]).contains("101 lines"));
    }

    #[test]
    fn each_number_has_its_bounds() {
        let line = AccessLine::all(4096, 100, 0);
        for (wrong, what) in [
            (AccessLine { size: 0, ..line }, "size is 0"),
            (
                AccessLine {
                    size: MAX_SIZE + 1,
                    ..line
                },
                "64 MiB",
            ),
            (
                AccessLine {
                    of_size_percent: 101,
                    ..line
                },
                "share is above",
            ),
            (
                AccessLine {
                    reads_percent: 101,
                    ..line
                },
                "share of reads",
            ),
            (
                AccessLine {
                    random_percent: 101,
                    ..line
                },
                "random share",
            ),
            (AccessLine { burst: 0, ..line }, "burst is 0"),
        ] {
            assert!(refused(vec![wrong]).contains(what), "{what}");
        }
        for name in ["", "two\nlines", &"x".repeat(MAX_NAME + 1)] {
            assert!(
                AccessSpecification::single(name, line).check().is_err(),
                "{name:?}"
            );
        }
    }

    #[test]
    fn accesses_fit_the_blocks_of_the_device() {
        let small = specification(vec![AccessLine::all(512, 0, 0)]);
        assert_eq!(small.check_granularity(512), Ok(()));
        let error = small.check_granularity(4096).expect_err("too small");
        assert!(error.to_string().contains("blocks of 4096"), "{error}");
        let aligned = AccessLine {
            align: 512,
            ..AccessLine::all(4096, 0, 0)
        };
        assert!(
            specification(vec![aligned])
                .check_granularity(4096)
                .is_err()
        );
    }

    #[test]
    fn what_never_happens_does_not_write() {
        let read = AccessLine::all(4096, 100, 0);
        let write = AccessLine::all(8192, 0, 0).share(0);
        assert!(!specification(vec![read, write]).writes());
        assert!(specification(vec![read.share(99), write.share(1)]).writes());
        assert_eq!(specification(vec![read, write]).largest(), 8192);
    }
}
