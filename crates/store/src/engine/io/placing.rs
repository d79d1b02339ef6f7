//! Finds places on the disks for what is written outside of checkpoints, and gives places back.

use smallvec::SmallVec;

use super::second_place::{Spare, place_apart};
use crate::engine::state::Pool;
use crate::format::{Address, Pointer, SECTOR_SIZE};
use crate::log::replay;
use crate::space::{Claim, Counts, Extent, Fault, Page, Purpose, Stream, VdevSpace};

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

/// Space of vdevs.
impl Pool {
    /// Returns the counts of all sectors, as the space map has them.
    pub(in crate::engine) fn space_counts(&self) -> Counts {
        self.space.counts()
    }

    /// Returns the number of vdevs that the space map knows.
    pub(in crate::engine) fn space_vdevs(&self) -> u16 {
        self.space.vdevs()
    }

    /// Returns the sectors of a vdev.
    pub(in crate::engine) fn space_of(&self, vdev: u16) -> u64 {
        self.space.size(vdev)
    }

    /// Returns the sectors of each vdev, by their use.
    pub(in crate::engine) fn space_by_vdev(&self) -> Vec<VdevSpace> {
        self.space.by_vdev()
    }

    /// Returns the fragmentation of the worst vdev in per cent, as FRAG of zpool. Looks at some
    /// hundred regions of each vdev.
    pub fn fragmentation(&self) -> u8 {
        let all = (0..self.space.vdevs()).map(|vdev| self.space.fragmentation(vdev));
        all.max().unwrap_or(0)
    }

    /// Returns the number of pages of a vdev's bitmap.
    pub(in crate::engine) fn space_pages(&self, vdev: u16) -> u32 {
        self.space.pages(vdev)
    }

    /// Returns the free runs below which nodes of maps are short of places.
    pub(super) fn few_node_runs(&self) -> u64 {
        self.space.few_node_runs()
    }

    /// Returns the bytes that lists of extents take which wait to be free.
    pub(in crate::engine) fn space_lists_memory(&self) -> usize {
        self.space.lists_memory()
    }

    /// Adds a vdev.
    pub(in crate::engine) fn add_space(&mut self, sectors: u64) {
        self.space.add_vdev(sectors);
    }

    pub(in crate::engine) fn grow_space(&mut self, vdev: u16, sectors: u64) {
        self.space.grow(vdev, sectors);
    }
}

/// Space of an opening, and what checkpoints free.
impl Pool {
    /// Takes a page of the space map.
    pub(in crate::engine) fn load_space_page(
        &mut self,
        page: Page,
        bytes: &[u8; SECTOR_SIZE],
    ) -> Result<(), Fault> {
        self.space.load_page(page, bytes)
    }

    /// Takes an extent that the last checkpoint dropped.
    pub(in crate::engine) fn load_dropped(&mut self, extent: Extent) -> Result<(), Fault> {
        self.space.load_deferred(extent)
    }

    /// Notes that an extent is in use which no checkpoint knows.
    pub(in crate::engine) fn mark_in_use(&mut self, extent: Extent) -> Result<(), Fault> {
        self.space.mark_allocated(extent, Purpose::Young)
    }

    /// Returns the extents that were dropped and are not free yet.
    pub(in crate::engine) fn extents_being_freed(&self) -> impl Iterator<Item = Extent> {
        self.space.dropped().chain(self.space.waiting())
    }

    /// Notes that extents dropped from now on belong to the next checkpoint.
    pub(in crate::engine) fn begin_drops(&mut self) {
        self.space.begin_checkpoint();
    }

    /// Notes that a checkpoint is durable, so that space becomes free.
    pub(in crate::engine) fn commit_drops(&mut self) {
        self.space.commit_checkpoint();
    }

    /// Frees some of the extents that may be free now.
    pub(in crate::engine) fn settle_space(&mut self, most: usize) {
        self.space.settle(most);
    }
}
