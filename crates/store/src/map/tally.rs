//! The tally of a layer: its changes to the count of a volume's blocks, counted as they come.
//!
//! A checkpoint counts blocks as it merges layers into trees. Between two checkpoints, the tally of
//! each layer says how that count will change. The blocks that a layer holds are counted exactly. A
//! block that the layer replaces lies in a closed layer or in a leaf of the tree. If that leaf is
//! in memory, the block is counted exactly as well. No leaf is read for the count. Places whose
//! leaves are not in memory count as unseen: they are assumed to be as full as the rest of the
//! volume.
//!
//! A write only notes its place. Replaced blocks are looked up for many places at once, in their
//! order, since that costs a fraction of as many single descents of the tree.

use crate::format::{Epoch, Pointer};

/// Blocks of a volume, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Number of blocks.
    pub blocks: u64,
    /// Sectors of the blocks, with their second copies, parity not counted.
    pub sectors: u64,
    /// Number of blocks that are not packed.
    pub whole: u64,
}

impl Count {
    /// Counts a block. Holes and lost blocks count nothing.
    fn add(&mut self, pointer: &Pointer) {
        if !pointer.is_hole() && !pointer.is_lost() {
            self.blocks += 1;
            self.sectors += pointer.stored_sectors();
            self.whole += u64::from(pointer.is_whole());
        }
    }

    /// Returns the sum of both counts.
    #[must_use]
    pub fn and(self, others: Self) -> Self {
        Self {
            blocks: self.blocks + others.blocks,
            sectors: self.sectors + others.sectors,
            whole: self.whole + others.whole,
        }
    }

    /// Returns this count without `some`.
    #[must_use]
    pub fn without(self, some: Self) -> Self {
        Self {
            blocks: self.blocks.saturating_sub(some.blocks),
            sectors: self.sectors.saturating_sub(some.sectors),
            whole: self.whole.saturating_sub(some.whole),
        }
    }

    /// Returns `part` of `all` of the blocks, rounded.
    #[must_use]
    pub fn share(self, part: u64, all: u64) -> Self {
        let all = u128::from(all.max(1));
        let of = |count: u64| ((u128::from(count) * u128::from(part) + all / 2) / all) as u64;
        Self {
            blocks: of(self.blocks),
            sectors: of(self.sectors),
            whole: of(self.whole),
        }
    }
}

/// Number of noted places at which they are looked up together. It bounds the memory of a layer's
/// notes, and the time for which a write or a reader of the figures looks up.
pub(super) const MOST_NOTED: usize = 4096;

/// The blocks that a layer adds and replaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Epochs of the snapshots that the volume built on when the first change came, ascending.
    snapshots: Vec<Epoch>,
    /// Blocks that the layer holds.
    written: Count,
    /// Blocks that the layer replaces: those born before the first snapshot, those born before the
    /// second, and so on.
    replaced: Vec<Count>,
    /// Number of places whose former blocks are known.
    seen: u64,
    /// Number of places that the layer covers and whose former blocks are not known.
    unseen: u64,
    /// Places that the layer covers and whose former blocks were not looked up yet.
    noted: Vec<u64>,
}

impl Tally {
    /// Makes the tally of a layer. `snapshots` are the epochs of all snapshots that its volume
    /// builds on, ascending.
    pub fn new(snapshots: Vec<Epoch>) -> Self {
        Self {
            replaced: vec![Count::default(); snapshots.len() + 1],
            snapshots,
            ..Self::default()
        }
    }

    /// Notes that the layer holds one more block.
    pub(super) fn write(&mut self, pointer: &Pointer) {
        self.written.add(pointer);
    }

    /// Notes that the layer does not hold this block any more.
    pub(super) fn forget(&mut self, pointer: &Pointer) {
        let mut gone = Count::default();
        gone.add(pointer);
        self.written = self.written.without(gone);
    }

    /// Notes a place that the layer did not change before and covers now. Returns whether it is
    /// time to look up the noted places.
    pub(super) fn note(&mut self, place: u64) -> bool {
        self.noted.push(place);
        self.noted.len() >= MOST_NOTED
    }

    /// Takes the noted places, ascending. The caller looks them up and calls [`Tally::cover`] for
    /// each.
    pub(super) fn take_noted(&mut self) -> Vec<u64> {
        let mut noted = std::mem::take(&mut self.noted);
        noted.sort_unstable();
        noted
    }

    /// Reports whether places wait to be looked up.
    pub(super) fn has_noted(&self) -> bool {
        !self.noted.is_empty()
    }

    /// Returns the number of places whose former blocks are not known.
    fn unknown(&self) -> u64 {
        self.unseen + self.noted.len() as u64
    }

    /// Counts a place that the layer did not change before. `beneath` is the block beneath, if it
    /// is known.
    pub(super) fn cover(&mut self, beneath: Option<Pointer>) {
        let Some(pointer) = beneath else {
            self.unseen += 1;
            return;
        };
        self.seen += 1;
        let older = (self.snapshots).partition_point(|epoch| *epoch < pointer.birth);
        if let Some(replaced) = self.replaced.get_mut(older) {
            replaced.add(&pointer);
        }
    }

    /// Counts many places whose blocks are not known.
    pub(super) fn cover_unseen(&mut self, places: u64) {
        self.unseen += places;
    }

    /// Reports whether all blocks that the layer replaces are known.
    pub fn is_exact(&self) -> bool {
        self.unknown() == 0
    }

    /// Returns the blocks that the layer holds.
    pub fn written(&self) -> Count {
        self.written
    }

    /// Returns the blocks that the layer is known to replace.
    pub fn replaced(&self) -> Count {
        let all = self.replaced.iter();
        all.fold(Count::default(), |sum, of| sum.and(*of))
    }

    /// Returns the replaced blocks that snapshots up to this epoch hold. They are counted by the
    /// epoch of the snapshot after which they were born, 0 if there is none.
    pub fn held_until(&self, newest: Epoch) -> impl Iterator<Item = (Epoch, Count)> + '_ {
        let after = [Epoch(0)].into_iter().chain(self.snapshots.iter().copied());
        let parts = after.zip(self.replaced.iter().copied());
        parts.filter(move |(after, count)| *after < newest && count.blocks > 0)
    }

    /// Estimates the blocks that the layer replaces unseen. `beneath` are all blocks below the
    /// layer, in `places` places.
    pub fn guessed(&self, beneath: Count, places: u64) -> Count {
        let rest = beneath.without(self.replaced());
        let places = places.saturating_sub(self.seen);
        rest.share(self.unknown().min(places), places)
    }

    /// Returns the blocks of the view with the layer. `beneath` are all blocks below the layer, in
    /// `places` places.
    pub fn above(&self, beneath: Count, places: u64) -> Count {
        let left = beneath.without(self.replaced());
        left.without(self.guessed(beneath, places))
            .and(self.written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(blocks: u64) -> Count {
        Count {
            blocks,
            sectors: 4 * blocks,
            whole: blocks,
        }
    }

    #[test]
    fn unseen_places_are_as_full_as_the_rest_of_the_volume() {
        let mut tally = Tally::new(Vec::new());
        tally.cover_unseen(50);
        // An empty volume, a full one, and one that is half full.
        assert_eq!(tally.above(blocks(0), 100), blocks(0));
        assert_eq!(tally.above(blocks(100), 100), blocks(50));
        assert_eq!(tally.above(blocks(50), 100), blocks(25));
        // A whole volume is unmapped.
        tally.cover_unseen(50);
        assert_eq!(tally.above(blocks(37), 100), blocks(0));
        // The volume became smaller: more places are covered than there are.
        tally.cover_unseen(1000);
        assert_eq!(tally.above(blocks(37), 100), blocks(0));
    }

    #[test]
    fn what_is_replaced_is_held_by_the_snapshots_that_are_left() {
        let born = |epoch| Pointer {
            birth: Epoch(epoch),
            sectors: 1,
            ..Pointer::HOLE
        };
        let mut tally = Tally::new(vec![Epoch(3), Epoch(7)]);
        for epoch in [1, 3, 4, 7, 8, 9] {
            tally.cover(Some(born(epoch)));
        }
        tally.cover(Some(Pointer::HOLE));
        let held = |newest| -> Vec<(u64, u64)> {
            let held = tally.held_until(Epoch(newest));
            held.map(|(after, count)| (after.0, count.blocks)).collect()
        };
        assert_eq!(held(7), [(0, 2), (3, 2)]);
        // First the newer snapshot is gone, then both.
        assert_eq!(held(3), [(0, 2)]);
        assert_eq!(held(0), []);
        assert_eq!(tally.replaced().blocks, 6);
    }
}
