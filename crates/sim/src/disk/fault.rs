//! The lies of a disk: how often each is told, which are told on demand, and how many were told.

use std::ops::Range;

use super::cut::Tearing;
use crate::random::Random;

/// Behaviour of a disk.
#[derive(Clone, Debug)]
pub struct Behaviour {
    /// Duration of a request, in microseconds.
    pub latency_us: Range<u64>,
    /// Requests of a thousand that take [`Behaviour::stall_us`] longer.
    pub stalls_per_mille: u64,
    /// Duration of a stall, in microseconds.
    pub stall_us: u64,
    /// Effect of a power cut on writes that are not safe.
    pub tearing: Tearing,
    /// Whether a trimmed sector keeps its bytes until it is written, as on disks without RZAT.
    pub trim_keeps_bytes: bool,
    /// Whether a trimmed sector reads as bytes that nobody wrote until it is written, as on disks
    /// without RZAT.
    pub trim_garbles: bool,
    /// Whether power cuts treat the writes that a flush covers otherwise than those that came after
    /// its request. Each kind has its own fate, and most often some are torn.
    pub cuts_at_flushes: bool,
    /// Chances of lies.
    pub chances: Chances,
}

impl Default for Behaviour {
    /// Makes an honest disk of 20 to 200 µs.
    fn default() -> Self {
        Self {
            latency_us: 20..200,
            stalls_per_mille: 0,
            stall_us: 0,
            tearing: Tearing::Slices,
            trim_keeps_bytes: false,
            trim_garbles: false,
            cuts_at_flushes: false,
            chances: Chances::default(),
        }
    }
}

/// Chances that a fault strikes a request of its kind, in a thousand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chances {
    /// Chance of [`Fault::LyingFlush`].
    pub lying_flush: u64,
    /// Chance of [`Fault::FailedFlush`].
    pub failed_flush: u64,
    /// Chance of [`Fault::FailedWrite`].
    pub failed_write: u64,
    /// Chance of [`Fault::LostWrite`].
    pub lost_write: u64,
    /// Chance of [`Fault::MisdirectedWrite`].
    pub misdirected_write: u64,
    /// Chance of [`Fault::MisdirectedRead`].
    pub misdirected_read: u64,
    /// Chance of [`Fault::FailedRead`].
    pub failed_read: u64,
    /// Chance of [`Fault::BitRot`].
    pub bit_rot: u64,
    /// Chance of [`Fault::Ruin`].
    pub ruin: u64,
}

/// Fate of writes that were not safe when a flush fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dirty {
    /// The writes stay, and the next flush may make them safe.
    Kept,
    /// The writes are gone at once: reads return the content before them.
    Dropped,
    /// Reads return the writes until the program ends, but no later flush makes them safe, as in
    /// Linux's page cache after a failed fsync.
    Forgotten,
}

/// A fault of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A flush is answered well and made nothing safe.
    LyingFlush,
    /// A flush fails.
    FailedFlush(Dirty),
    /// A write fails. Any of its sectors may be written.
    FailedWrite,
    /// A write is answered well and was never written.
    LostWrite,
    /// A write is answered well and lands on other sectors.
    MisdirectedWrite,
    /// A read returns other sectors.
    MisdirectedRead,
    /// A read fails this once.
    FailedRead,
    /// A bit of a sector flips before a read, mostly of a sector that is read.
    BitRot,
    /// A sector of a read becomes unreadable before it, until the sector is written.
    Ruin,
}

/// Kinds of requests that faults strike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StruckRequest {
    Read,
    Write,
    Flush,
}

impl Fault {
    /// Reports whether the fault harms the disk's content and the disk does not say so.
    pub fn is_silent(self) -> bool {
        match self {
            Self::LyingFlush
            | Self::LostWrite
            | Self::MisdirectedWrite
            | Self::BitRot
            | Self::Ruin => true,
            Self::FailedFlush(_) | Self::FailedWrite | Self::MisdirectedRead | Self::FailedRead => {
                false
            }
        }
    }

    fn kind(self) -> StruckRequest {
        match self {
            Self::LyingFlush | Self::FailedFlush(_) => StruckRequest::Flush,
            Self::FailedWrite | Self::LostWrite | Self::MisdirectedWrite => StruckRequest::Write,
            Self::MisdirectedRead | Self::FailedRead | Self::BitRot | Self::Ruin => {
                StruckRequest::Read
            }
        }
    }
}

impl Chances {
    /// Reports whether any of these faults harms the disk's content without an error.
    pub fn are_silent(&self) -> bool {
        let silent = [
            self.lying_flush,
            self.lost_write,
            self.misdirected_write,
            self.bit_rot,
            self.ruin,
        ];
        silent.iter().any(|chance| *chance > 0)
    }

    /// Draws whether a fault strikes this request, and which.
    fn draw(&self, kind: StruckRequest, random: &mut Random) -> Option<Fault> {
        let mut hit = |share: u64| share > 0 && random.per_mille(share);
        match kind {
            StruckRequest::Flush if hit(self.lying_flush) => Some(Fault::LyingFlush),
            StruckRequest::Flush if hit(self.failed_flush) => {
                let dirty = [Dirty::Kept, Dirty::Dropped, Dirty::Forgotten];
                Some(Fault::FailedFlush(random.one_of(&dirty)))
            }
            StruckRequest::Write if hit(self.failed_write) => Some(Fault::FailedWrite),
            StruckRequest::Write if hit(self.lost_write) => Some(Fault::LostWrite),
            StruckRequest::Write if hit(self.misdirected_write) => Some(Fault::MisdirectedWrite),
            StruckRequest::Read if hit(self.misdirected_read) => Some(Fault::MisdirectedRead),
            StruckRequest::Read if hit(self.failed_read) => Some(Fault::FailedRead),
            StruckRequest::Read if hit(self.bit_rot) => Some(Fault::BitRot),
            StruckRequest::Read if hit(self.ruin) => Some(Fault::Ruin),
            _ => None,
        }
    }
}

/// Faults that happened. A test can tell an attack from a run without faults by them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Struck {
    /// Flushes that lied.
    pub lying_flushes: u64,
    /// Flushes that failed.
    pub failed_flushes: u64,
    /// Writes that failed.
    pub failed_writes: u64,
    /// Writes that were lost.
    pub lost_writes: u64,
    /// Writes that landed elsewhere.
    pub misdirected_writes: u64,
    /// Reads of other sectors.
    pub misdirected_reads: u64,
    /// Reads that failed, by themselves or for an unreadable sector.
    pub failed_reads: u64,
    /// Bits that flipped.
    pub rotten_bits: u64,
    /// Sectors that became unreadable, power cuts not counted.
    pub ruined_sectors: u64,
}

impl std::ops::Add for Struck {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            lying_flushes: self.lying_flushes + other.lying_flushes,
            failed_flushes: self.failed_flushes + other.failed_flushes,
            failed_writes: self.failed_writes + other.failed_writes,
            lost_writes: self.lost_writes + other.lost_writes,
            misdirected_writes: self.misdirected_writes + other.misdirected_writes,
            misdirected_reads: self.misdirected_reads + other.misdirected_reads,
            failed_reads: self.failed_reads + other.failed_reads,
            rotten_bits: self.rotten_bits + other.rotten_bits,
            ruined_sectors: self.ruined_sectors + other.ruined_sectors,
        }
    }
}

impl Struck {
    pub(super) fn count(&mut self, fault: Fault) {
        *match fault {
            Fault::LyingFlush => &mut self.lying_flushes,
            Fault::FailedFlush(_) => &mut self.failed_flushes,
            Fault::FailedWrite => &mut self.failed_writes,
            Fault::LostWrite => &mut self.lost_writes,
            Fault::MisdirectedWrite => &mut self.misdirected_writes,
            Fault::MisdirectedRead => &mut self.misdirected_reads,
            Fault::FailedRead => &mut self.failed_reads,
            Fault::BitRot => &mut self.rotten_bits,
            Fault::Ruin => &mut self.ruined_sectors,
        } += 1;
    }
}

/// Faults to come: by chance, and those that were armed.
#[derive(Clone, Debug, Default)]
pub(super) struct Fates {
    armed: Vec<(u64, Fault)>,
    pub struck: Struck,
}

impl Fates {
    /// Arms a fault for the `nth` request of its kind from now on; 1 is the next one.
    pub(super) fn arm(&mut self, nth: u64, fault: Fault) {
        self.armed.push((nth.max(1), fault));
    }

    /// Returns the fault that strikes this request.
    pub(super) fn strike(
        &mut self,
        kind: StruckRequest,
        chances: &Chances,
        random: &mut Random,
    ) -> Option<Fault> {
        for (left, fault) in &mut self.armed {
            if fault.kind() == kind {
                *left -= 1;
            }
        }
        let due = self.armed.iter().position(|(left, _)| *left == 0);
        let fault = match due {
            Some(at) => {
                let (_, fault) = self.armed.remove(at);
                // If two faults were armed for one request, the other strikes the next.
                for (left, _) in &mut self.armed {
                    *left = (*left).max(1);
                }
                Some(fault)
            }
            None => chances.draw(kind, random),
        };
        if let Some(fault) = fault {
            self.struck.count(fault);
        }
        fault
    }
}
