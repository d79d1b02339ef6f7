//! Places for second copies of blocks, whether there may be any, and how many found none.

use crate::format::Address;
use crate::space::{Claim, Extent, Purpose, Space, Stream};
use crate::vdev::Array;

/// Future place of a block.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct Site {
    pub(in crate::engine) address: Address,
    pub(in crate::engine) second: Option<Address>,
}

/// Space that is left for second copies of metadata.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::engine) struct Spare {
    /// Whether second copies of metadata are wanted at all.
    pub(super) is_wanted: bool,
    /// Free sectors that may be needed otherwise.
    pub(super) kept: u64,
    /// Free runs that nodes of maps may need.
    pub(super) kept_runs: u64,
}

impl Spare {
    /// Reports whether a block in this place is to lie twice.
    pub(in crate::engine) fn wants(&self, array: &Array, first: Extent) -> bool {
        self.is_wanted && array.redundancy(first.vdev) == 0
    }

    /// Finds a place for the second copy of a block that nothing else needs.
    pub(in crate::engine) fn place(
        &self,
        array: &Array,
        space: &mut Space,
        (first, sectors): (Extent, u16),
        purpose: Purpose,
    ) -> Option<Extent> {
        let has_room = space.counts().available >= self.kept + u64::from(first.sectors);
        // The copy may cost two runs.
        if !has_room || !space.has_node_runs(self.kept_runs + 2) {
            return None;
        }
        let kind = (Claim::Pieces, Stream::Metadata, purpose);
        place_apart(array, space, (first, sectors), kind)
    }
}

/// Finds a place for the second copy of a block: on another top-level vdev, else far away from the
/// first copy.
pub(in crate::engine) fn place_apart(
    array: &Array,
    space: &mut Space,
    (first, sectors): (Extent, u16),
    (claim, stream, purpose): (Claim, Stream, Purpose),
) -> Option<Extent> {
    let may = |vdev: u16| vdev != first.vdev && array.is_writable(vdev);
    let chosen = space.choose_vdev(sectors.into(), may);
    let others = (0..space.vdevs()).filter(|vdev| may(*vdev) && chosen != Some(*vdev));
    let mut vdevs = chosen.into_iter().chain(others);
    let elsewhere = vdevs.find_map(|vdev| {
        let footprint = array.footprint(vdev, sectors);
        (footprint > 0).then(|| space.allocate_as(claim, stream, vdev, footprint, purpose))?
    });
    elsewhere.or_else(|| {
        let footprint = array.footprint(first.vdev, sectors);
        let may = array.is_writable(first.vdev);
        may.then(|| space.allocate_apart(claim, stream, first, footprint, purpose))?
    })
}

/// Use of second copies in a pool, and those that found no place.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::engine) struct SecondCopies {
    /// Whether the labels say that blocks may lie twice.
    are_allowed: bool,
    /// Blocks since the pool was opened that lie once since there was no room.
    written_once: u64,
    /// Number of these in the last checkpoint.
    lately: u64,
}

impl SecondCopies {
    /// Notes whether the labels say that blocks may lie twice.
    pub(super) fn allow(&mut self, are_allowed: bool) {
        self.are_allowed = are_allowed;
    }

    pub(super) fn are_allowed(&self) -> bool {
        self.are_allowed
    }

    /// Notes that a durable checkpoint lacked room for `blocks` second copies. Returns whether that
    /// is news, since the checkpoint before had room.
    pub(super) fn note_written_once(&mut self, blocks: u64) -> bool {
        self.written_once += blocks;
        let before = std::mem::replace(&mut self.lately, blocks);
        blocks > 0 && before == 0
    }

    /// Returns the number of blocks since the pool was opened that lie once for lack of room.
    pub(in crate::engine) fn written_once(&self) -> u64 {
        self.written_once
    }
}
