//! Makes the rings of all leaves equal if they differ: the believed checkpoints lie in every label,
//! and no others do.
//!
//! Two equal copies are enough to follow a root. But from then on the root counts as durable.
//! Blocks that only older roots lead to are free, and will be overwritten. If one of the two copies
//! were lost then, the pool would be opened from an older root, whose blocks are gone.
//!
//! A newer root of which only one copy was found is given up: the power failed while it was
//! written. Its blocks are free from then on as well. A leaf that could not be read this time may
//! have its other copies. If they were found the next time, the pool would be opened from that
//! root.
//!
//! So before anything is written that builds on the root, all leaves get the whole ring. The order
//! is that of a checkpoint: half of the labels of each end, a flush, the others, a flush. A leaf
//! that does not take the ring, or is away, missed the epoch that begins now, and labels will say
//! so. Its roots of that epoch and later are not believed ([`super::roots`]).
//!
//! A leaf that came back older than the pool keeps its ring until the labels say what it lacks
//! ([`super::leaves_behind`]). All roots in it are older than the believed ones, so none can be
//! followed by mistake.
//!
//! If data is given up (`rewind.rs`), the rings stay as they are. They lead to the old state until
//! the first checkpoint of the new history is durable.

use super::{OpenError, OpenErrorKind, Opening, OpeningStage, Wanted};
use crate::engine::devices::label_rounds::ALL_ROUNDS;
use crate::format::label::RING_OFFSET;

impl Opening {
    /// Makes the root firm, once all groups of the log were found. The next step marks the end of
    /// the log.
    pub(super) fn make_rings_even(&mut self) -> Result<(), OpenError> {
        if self.ring.is_even || self.rewind.is_some() {
            return self.mark_end();
        }
        self.write_ring(0);
        Ok(())
    }

    fn write_ring(&mut self, round: u8) {
        self.stage = OpeningStage::Ring(round);
        let leaves = self.pool.labelled_leaves().into_iter();
        let current = leaves.filter(|(_, guid)| !self.pool.old_devices.is_behind(*guid));
        for (leaf, _) in current.collect::<Vec<_>>() {
            for copy in ALL_ROUNDS[usize::from(round)] {
                if let Some(offset) = self.pool.label_offset(leaf, copy) {
                    let at = offset + RING_OFFSET as u64;
                    let sectors = self.ring.sectors.clone();
                    let tag = self.note_tag(Wanted::Ring);
                    self.pool.write_leaf(tag, leaf, at, sectors);
                }
            }
        }
    }

    /// Flushes a round of rings. If a leaf does not take it, the array notes that, and the labels
    /// will say that it is lost.
    pub(super) fn flush_ring(&mut self, round: u8) -> Result<(), OpenError> {
        self.stage = OpeningStage::RingFlush(round);
        let leaves = self.pool.labelled_leaves();
        if leaves.is_empty() {
            let context = "no device can take the root of the checkpoint";
            return Err(OpenError::new(OpenErrorKind::Missing, context));
        }
        for (leaf, _) in leaves {
            let tag = self.note_tag(Wanted::Ring);
            self.pool.flush_leaf(tag, leaf);
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
