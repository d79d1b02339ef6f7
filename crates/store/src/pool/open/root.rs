//! The root from which a pool was opened is brought into the labels of all leaves, where the power failed before it
//! was there.
//!
//! Two equal copies are enough to follow a root. But from then on it counts as durable: what only older roots lead to is
//! free, and will be overwritten. If one of the two were lost then, the pool would be opened from such an older root, whose
//! blocks are gone. So before anything is written that is not for the older roots as well, all leaves get it, in the
//! order of a checkpoint: half of the labels of each end, a flush, the others, a flush.

use pages::Pages;

use super::{OpenError, OpenErrorKind, Opening, Stage, Wanted};
use crate::format::Label;
use crate::pool::labels::ROUNDS;

impl Opening {
    /// All that the log has was found. The next is to make its end empty; before, the root is made firm.
    pub(super) fn make_root_firm(&mut self) -> Result<(), OpenError> {
        let labels = self.pool.array.leaves().count() * ROUNDS.as_flattened().len();
        if self.root_copies as usize >= labels {
            return self.empty_end();
        }
        self.write_root(0);
        Ok(())
    }

    fn write_root(&mut self, round: u8) {
        self.stage = Stage::Root(round);
        let sector = Pages::from_bytes(&self.root.encode(self.pool.key));
        for (leaf, _) in self.pool.labelled_leaves() {
            for copy in ROUNDS[usize::from(round)] {
                if let Some(offset) = self.pool.array.label_offset(leaf, copy) {
                    let at = offset + Label::slot_offset(self.root.epoch.0);
                    let tag = self.note_tag(Wanted::Root);
                    let pool = &mut self.pool;
                    let (now, out) = (pool.now_us, &mut pool.array_output);
                    pool.array
                        .write_leaf(tag, leaf, at, sector.clone(), now, out);
                }
            }
        }
    }

    /// A leaf that does not take it is the array's business; the labels will say that it is lost.
    pub(super) fn flush_root(&mut self, round: u8) -> Result<(), OpenError> {
        self.stage = Stage::RootFlush(round);
        let leaves = self.pool.labelled_leaves();
        if leaves.is_empty() {
            let context = "no leaf takes the root of the checkpoint";
            return Err(OpenError::new(OpenErrorKind::Missing, context));
        }
        for (leaf, _) in leaves {
            let tag = self.note_tag(Wanted::Root);
            let pool = &mut self.pool;
            let (now, out) = (pool.now_us, &mut pool.array_output);
            pool.array.flush_leaf(tag, leaf, now, out);
        }
        Ok(())
    }

    pub(super) fn root_flushed(&mut self, round: u8) -> Result<(), OpenError> {
        if usize::from(round) + 1 < ROUNDS.len() {
            self.write_root(round + 1);
            return Ok(());
        }
        self.empty_end()
    }
}
