//! Finds places on the disks for what is written outside of checkpoints, and gives places back.

use smallvec::SmallVec;

use super::second_place::{Spare, place_apart};
use crate::engine::state::Pool;
use crate::format::{Address, Pointer};
use crate::log::replay;
use crate::space::{Claim, Extent, Purpose, Stream};

/// Sectors that should be free after a record, for its data.
const ROOM_BEHIND_RECORD: u32 = 16;

/// Places.
impl Pool {
    /// Finds a place for the record after the one that is about to be written.
    pub(in crate::engine) fn place_record(&mut self) -> Option<(Address, Extent)> {
        let array = self.disks.array();
        let allowed = |vdev| array.is_writable(vdev);
        let vdev = self.space.choose_vdev(1, allowed)?;
        let footprint = array.footprint(vdev, 1);
        let (stream, purpose) = (Stream::Data, Purpose::Young);
        let extent = if footprint == 1 {
            self.space
                .reserve(stream, vdev, ROOM_BEHIND_RECORD, purpose)
        } else {
            self.space.allocate(stream, vdev, footprint, purpose)
        };
        let extent = extent
            .or_else(|| self.place_anywhere(Claim::Kept, Stream::Data, 1, purpose))
            .or_else(|| self.place_anywhere(Claim::Kept, Stream::Metadata, 1, purpose))?;
        Some((extent.address(), extent))
    }

    /// Finds a place for the signpost of a record, near it.
    pub(super) fn place_signpost(&mut self, record: Address) -> Option<Extent> {
        let footprint = self.footprint(record.vdev(), 1);
        let (distance, purpose) = (replay::SEARCH, Purpose::Young);
        self.space
            .allocate_near(record, distance, footprint, purpose)
    }

    /// Finds a place for a volume's block of `sectors` sectors, on this vdev if it has room.
    pub(super) fn place_data(&mut self, claim: Claim, vdev: u16, sectors: u16) -> Option<Extent> {
        let footprint = self.footprint(vdev, sectors);
        let (stream, purpose) = (Stream::Data, Purpose::Young);
        let extent = (self.space).allocate_as(claim, stream, vdev, footprint, purpose);
        extent.or_else(|| self.place_anywhere(claim, stream, sectors, purpose))
    }

    /// Finds a place for a block of `sectors` sectors on any vdev that has one.
    pub(in crate::engine) fn place_anywhere(
        &mut self,
        claim: Claim,
        stream: Stream,
        sectors: u16,
        purpose: Purpose,
    ) -> Option<Extent> {
        let array = self.disks.array();
        (0..self.space.vdevs()).find_map(|vdev| {
            let footprint = array.footprint(vdev, sectors);
            let may = footprint > 0 && array.is_writable(vdev);
            may.then(|| {
                let space = &mut self.space;
                space.allocate_as(claim, stream, vdev, footprint, purpose)
            })?
        })
    }

    /// Finds a place for the second copy of a volume's block. A volume that wants two copies has
    /// both or none.
    pub(super) fn place_second(
        &mut self,
        first: Extent,
        sectors: u16,
        claim: Claim,
    ) -> Option<Extent> {
        let kind = (claim, Stream::Data, Purpose::Young);
        place_apart(self.disks.array(), &mut self.space, (first, sectors), kind)
    }

    /// Finds a place for the second copy of an operation of the log, if it is to have one and there
    /// is room to spare.
    pub(in crate::engine) fn place_spare(
        &mut self,
        spare: Spare,
        first: Extent,
        sectors: u16,
    ) -> Option<Extent> {
        let array = self.disks.array();
        let is_wanted = spare.wants(array, first);
        let block = (first, sectors);
        is_wanted.then(|| spare.place(array, &mut self.space, block, Purpose::Young))?
    }
}

/// Extents in use, and those that are no longer needed.
impl Pool {
    /// Returns the extents of a block, in all its places, parity and padding included.
    pub(in crate::engine) fn extents_of(&self, pointer: &Pointer) -> SmallVec<[Extent; 2]> {
        let sectors = pointer.sectors;
        let extent = |at: Address| Extent::at(at, self.footprint(at.vdev(), sectors));
        let mut extents = SmallVec::new();
        if !pointer.is_hole() {
            extents.push(extent(pointer.address));
        }
        if let Some(second) = pointer.second() {
            extents.push(extent(second));
        }
        extents
    }

    /// Frees an extent that nothing durable reaches.
    pub(super) fn give_back_extent(&mut self, extent: Extent) {
        self.space.give_back(extent);
    }

    /// Frees the extents of a block that nothing durable reaches.
    pub(super) fn give_back(&mut self, pointer: &Pointer) {
        for extent in self.extents_of(pointer) {
            self.space.give_back(extent);
        }
    }

    /// Notes that no checkpoint knows this extent, so that a power cut frees it.
    pub(super) fn make_young(&mut self, extent: Extent) {
        self.space.make_young(extent);
    }

    /// Drops a block that is no longer needed but that a durable structure may still reach.
    pub(in crate::engine) fn drop_block(&mut self, pointer: &Pointer) {
        for extent in self.extents_of(pointer) {
            self.drop_extent(extent);
        }
    }

    /// Drops an extent that is no longer needed but that a durable structure may still reach.
    /// Returns whether the pool still takes changes.
    pub(in crate::engine) fn drop_extent(&mut self, extent: Extent) -> bool {
        let dropped = self.space.drop_later(extent);
        if let Err(fault) = &dropped {
            self.suspend(format!("the space map is wrong: {fault}"));
        }
        dropped.is_ok()
    }
}
