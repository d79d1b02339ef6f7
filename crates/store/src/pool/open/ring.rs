//! The rings of all leaves are made even where they differ: the checkpoints that are believed lie
//! in every label, and nothing else does.
//!
//! Two equal copies are enough to follow a root. But from then on it counts as durable: what only
//! older roots lead to is free, and will be overwritten. If one of the two were lost then, the pool
//! would be opened from such an older root, whose blocks are gone. And a newer root of which one
//! copy was found is given up: the power failed while it was written. What it leads to is free from
//! then on as well. If its other copies were found the next time, because a leaf could not be read
//! this time, the pool would be opened from it. So before anything is written that builds on the
//! root, all leaves get the whole ring, in the order of a checkpoint: half of the labels of each
//! end, a flush, the others, a flush. A leaf that does not take it, or is away, missed the epoch
//! that begins now, and labels will say so: its roots of that epoch and later are not believed
//! ([`super::roots`]).
//!
//! A leaf that came back older than the pool keeps its ring until the labels say what it lacks
//! ([`super::behind`]). All roots in it are older than those, so nothing in it can be followed by
//! mistake.
//!
//! Where something is given up (`rewind.rs`), the rings stay as they are: they lead to what was
//! there before until the first checkpoint of the new history is durable.

use pages::Pages;

use super::{OpenError, OpenErrorKind, Opening, Stage, Wanted};
use crate::format::label::RING_OFFSET;
use crate::pool::labels::ALL_ROUNDS;

/// The 32 sectors that every label is to have.
#[derive(Clone, Debug, Default)]
pub(super) struct Ring {
    /// The roots that are believed, each in its slot; zero where there is none.
    pub(super) sectors: Pages,
    /// Whether all labels have it.
    pub(super) is_even: bool,
}

impl Opening {
    /// All that the log has was found. The next is to mark its end; before, the root is made firm.
    pub(super) fn make_rings_even(&mut self) -> Result<(), OpenError> {
        if self.ring.is_even || self.rewind.is_some() {
            return self.mark_end();
        }
        self.write_ring(0);
        Ok(())
    }

    fn write_ring(&mut self, round: u8) {
        self.stage = Stage::Ring(round);
        let leaves = self.pool.labelled_leaves().into_iter();
        let current = leaves.filter(|(_, guid)| !self.pool.behind.contains_key(guid));
        for (leaf, _) in current.collect::<Vec<_>>() {
            for copy in ALL_ROUNDS[usize::from(round)] {
                if let Some(offset) = self.pool.array.label_offset(leaf, copy) {
                    let at = offset + RING_OFFSET as u64;
                    let sectors = self.ring.sectors.clone();
                    let tag = self.note_tag(Wanted::Ring);
                    let pool = &mut self.pool;
                    let (now, out) = (pool.now_us, &mut pool.array_output);
                    pool.array.write_leaf(tag, leaf, at, sectors, now, out);
                }
            }
        }
    }

    /// A leaf that does not take it is the array's business; the labels will say that it is lost.
    pub(super) fn flush_ring(&mut self, round: u8) -> Result<(), OpenError> {
        self.stage = Stage::RingFlush(round);
        let leaves = self.pool.labelled_leaves();
        if leaves.is_empty() {
            let context = "no leaf takes the root of the checkpoint";
            return Err(OpenError::new(OpenErrorKind::Missing, context));
        }
        for (leaf, _) in leaves {
            let tag = self.note_tag(Wanted::Ring);
            let pool = &mut self.pool;
            let (now, out) = (pool.now_us, &mut pool.array_output);
            pool.array.flush_leaf(tag, leaf, now, out);
        }
        Ok(())
    }

    pub(super) fn ring_flushed(&mut self, round: u8) -> Result<(), OpenError> {
        if usize::from(round) + 1 < ALL_ROUNDS.len() {
            self.write_ring(round + 1);
            return Ok(());
        }
        self.mark_end()
    }
}
