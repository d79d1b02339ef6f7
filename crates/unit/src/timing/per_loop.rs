//! One cell for each event loop, made when the loop first counts in it.
//!
//! A cell has one writer, its loop, so counting needs no atomic addition and shares no cache line.

use std::sync::OnceLock;

/// Cells of a row.
const ROW: usize = 16;
/// Rows, for as many loops as there can be.
const ROWS: usize = 16;

type Row<T> = [OnceLock<Box<T>>; ROW];

/// Cells of all loops.
#[derive(Debug)]
pub struct PerLoop<T>([OnceLock<Box<Row<T>>>; ROWS]);

impl<T> Default for PerLoop<T> {
    fn default() -> Self {
        Self([const { OnceLock::new() }; ROWS])
    }
}

impl<T: Default> PerLoop<T> {
    /// Size of a row of cells in bytes, for those who count memory.
    #[cfg(test)]
    pub(super) const ROW_SIZE: usize = size_of::<Row<T>>();

    /// Returns the cell of a loop.
    #[inline]
    pub fn of(&self, loop_index: usize) -> &T {
        let row = self.0[loop_index / ROW % ROWS]
            .get_or_init(|| Box::new([const { OnceLock::new() }; ROW]));
        row[loop_index % ROW].get_or_init(Box::default)
    }

    /// Returns the cells that exist.
    pub fn cells(&self) -> impl Iterator<Item = &T> {
        let rows = self.0.iter().filter_map(OnceLock::get);
        let cells = rows.flat_map(|row| row.iter());
        cells.filter_map(|cell| cell.get().map(|cell| &**cell))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn each_loop_has_a_cell_of_its_own() {
        let cells: PerLoop<AtomicUsize> = PerLoop::default();
        assert_eq!(cells.cells().count(), 0);
        for index in [0, 15, 16, 255] {
            cells.of(index).store(index + 1, Ordering::Relaxed);
        }
        let mut seen: Vec<_> = cells.cells().map(|it| it.load(Ordering::Relaxed)).collect();
        seen.sort_unstable();
        assert_eq!(seen, [1, 16, 17, 256]);
    }
}
