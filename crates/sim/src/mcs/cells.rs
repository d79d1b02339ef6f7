//! Cells: where jobs lie on the disks, and what the ledger makes of the disks' news.

use super::ledger::{AttemptId, JobKind, Ledger, pattern};
use crate::drive::{BLOCK, Drive, Kind, News};

/// Number of logical units.
pub const LUNS: u64 = 2;
/// Number of cells of each unit.
pub const CELLS: usize = 64;
/// Blocks of a cell.
pub const CELL_BLOCKS: usize = 80;
/// Lengths of jobs that move data, in bytes.
pub const LENGTHS: [usize; 6] = [1, 2, 5, 8, 18, CELL_BLOCKS];

const CELL: usize = CELL_BLOCKS * BLOCK;

/// Gives the ledger the news of a disk.
pub fn judge(lun: u64, news: &News, ledger: &mut Ledger) {
    match news {
        News::Began(touch) if touch.kind == Kind::Read => {
            let attempt = ledger.latest(lun, touch.offset / CELL);
            let attempt = attempt.expect("only cells of jobs are read");
            let job = ledger.job(ledger.job_of(attempt));
            let is_asked = job.kind == JobKind::Read && job.length == touch.len;
            assert!(is_asked && touch.offset % CELL == 0, "{touch:?}: {job:?}");
            ledger.begin(attempt);
            ledger.perform(attempt);
        }
        News::Began(touch) if touch.kind == Kind::Write => {
            let attempt = attempt_in(&touch.data);
            let job = ledger.job(ledger.job_of(attempt));
            let place = (job.lun, job.cell * CELL, job.length);
            assert_eq!(place, (lun, touch.offset, touch.len), "{job:?}");
            let is_whole = touch.data == pattern(attempt, job.length);
            assert!(is_whole, "attempt {attempt}: its data was changed");
            ledger.begin(attempt);
        }
        News::Began(_) => {}
        News::Landed(touch, _) => {
            assert_eq!(touch.kind, Kind::Write, "nobody asked for it");
            ledger.perform(attempt_in(&touch.data));
        }
    }
}

/// Returns the attempt that wrote a cell last; 0 for none. The whole cell must be of that attempt.
pub fn content(drive: &Drive, cell: usize, length: usize) -> AttemptId {
    let bytes = drive.bytes(cell * CELL, length);
    let attempt = attempt_in(&bytes);
    assert!(bytes == pattern(attempt, length), "cell {cell} is torn");
    attempt
}

/// Returns the attempt that wrote the beginning of a cell last; 0 for none.
pub fn head(drive: &Drive, cell: usize) -> AttemptId {
    attempt_in(&drive.bytes(cell * CELL, BLOCK))
}

fn attempt_in(data: &[u8]) -> AttemptId {
    AttemptId::from_le_bytes(*data.first_chunk().expect("a block"))
}
