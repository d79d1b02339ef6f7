//! Counters of a logical unit: commands and blocks, by reading and by writing, and the space it
//! takes. LOG SENSE, listings and the monitor show them.
//!
//! Counting is on the hot path of every command, and all event loops share it. So each loop counts
//! in a cell of its own, two cache lines wide. Only a reader adds the cells up.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::medium::thin_provisioning::Space;

/// Number of event loops that have a cell of their own. More loops share cells.
pub const LANES: usize = 64;

/// Counters of one event loop.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Cell {
    read_commands: AtomicU64,
    read_blocks: AtomicU64,
    write_commands: AtomicU64,
    write_blocks: AtomicU64,
}

/// Sums over all event loops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Commands that read.
    pub read_commands: u64,
    /// Logical blocks that these commands read.
    pub read_blocks: u64,
    /// Commands that wrote.
    pub write_commands: u64,
    /// Logical blocks that these commands wrote.
    pub write_blocks: u64,
}

/// Statistics of one logical unit.
#[derive(Debug)]
pub struct Statistics {
    cells: Box<[Cell]>,
    /// Totals at the last LOG SELECT that reset the counters.
    reset_at: Mutex<Totals>,
    space: Mutex<Option<Space>>,
}

impl Default for Statistics {
    fn default() -> Self {
        Self {
            cells: (0..LANES).map(|_| Cell::default()).collect(),
            reset_at: Mutex::default(),
            space: Mutex::default(),
        }
    }
}

impl Statistics {
    /// Counts a command that read. `lane` is the number of the event loop.
    #[inline]
    pub fn add_read(&self, lane: usize, blocks: u64) {
        let cell = &self.cells[lane % LANES];
        cell.read_commands.fetch_add(1, Ordering::Relaxed);
        cell.read_blocks.fetch_add(blocks, Ordering::Relaxed);
    }

    /// Counts a command that wrote. `lane` is the number of the event loop.
    #[inline]
    pub fn add_write(&self, lane: usize, blocks: u64) {
        let cell = &self.cells[lane % LANES];
        cell.write_commands.fetch_add(1, Ordering::Relaxed);
        cell.write_blocks.fetch_add(blocks, Ordering::Relaxed);
    }

    /// Returns everything counted since the unit was made.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for cell in &self.cells {
            totals.read_commands += cell.read_commands.load(Ordering::Relaxed);
            totals.read_blocks += cell.read_blocks.load(Ordering::Relaxed);
            totals.write_commands += cell.write_commands.load(Ordering::Relaxed);
            totals.write_blocks += cell.write_blocks.load(Ordering::Relaxed);
        }
        totals
    }

    /// Returns everything counted since an initiator last reset the log.
    pub(crate) fn totals_since_reset(&self) -> Totals {
        let base = *self.reset_at.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.totals();
        Totals {
            read_commands: now.read_commands - base.read_commands,
            read_blocks: now.read_blocks - base.read_blocks,
            write_commands: now.write_commands - base.write_commands,
            write_blocks: now.write_blocks - base.write_blocks,
        }
    }

    /// Lets [`Statistics::totals_since_reset`] start anew.
    pub(crate) fn reset(&self) {
        let mut base = self.reset_at.lock().unwrap_or_else(PoisonError::into_inner);
        *base = self.totals();
    }

    /// Takes over the amount of space, as the backend last reported it.
    pub(crate) fn set_space(&self, space: Space) {
        *self.space.lock().unwrap_or_else(PoisonError::into_inner) = Some(space);
    }

    /// Returns the amount of space, or `None` while the backend has not reported any.
    pub fn space(&self) -> Option<Space> {
        *self.space.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_add_up_and_a_reset_hides_what_was() {
        let statistics = Statistics::default();
        statistics.add_read(0, 8);
        statistics.add_read(LANES + 3, 8);
        statistics.add_write(7, 1);
        let expected = Totals {
            read_commands: 2,
            read_blocks: 16,
            write_commands: 1,
            write_blocks: 1,
        };
        assert_eq!(statistics.totals(), expected);
        assert_eq!(statistics.totals_since_reset(), expected);
        statistics.reset();
        assert_eq!(statistics.totals_since_reset(), Totals::default());
        assert_eq!(statistics.totals(), expected);
    }
}
