//! Finds places for the blocks of a checkpoint, and writes them.

use std::sync::Arc;

use pages::Pages;

use super::making::Writes;
use crate::checksum;
use crate::engine::devices::disks::Disks;
use crate::engine::io::second_place::{Site, Spare};
use crate::format::list::Chunk;
use crate::format::pointer::Second;
use crate::format::{Algorithm, Compression, Epoch, Node, Pointer, SECTOR_SIZE};
use crate::map::merge::{NoSpace, Sink};
use crate::snapshot::deadlist::Store;
use crate::space::{Extent, Purpose, Space, Stream};
use crate::vdev::Priority;

/// Parts of a pool that writing needs.
pub(super) struct Writer<'a> {
    /// Disks that the blocks are written to.
    pub(super) onto: &'a mut Disks,
    /// Space in which they find places.
    pub(super) room: &'a mut Space,
    pub(super) birth: Epoch,
    pub(super) writes: &'a mut Writes,
    /// Space for second copies.
    pub(super) spare: Spare,
}

impl Writer<'_> {
    /// Finds a place for a block of `sectors` sectors. If it is to have a second copy, that gets a
    /// place too, if there is room.
    pub(super) fn place(&mut self, sectors: u16) -> Result<Site, NoSpace> {
        let first = self.place_first(sectors)?;
        let mut second = None;
        let array = self.onto.array();
        if self.spare.wants(array, first) {
            let purpose = Purpose::Checkpoint;
            let block = (first, sectors);
            second = self.spare.place(array, self.room, block, purpose);
            self.writes.once += u64::from(second.is_none());
        }
        Ok(Site {
            address: first.address(),
            second: second.map(|second| second.address()),
        })
    }

    fn place_first(&mut self, sectors: u16) -> Result<Extent, NoSpace> {
        let array = self.onto.array();
        let chosen = self
            .room
            .choose_vdev(sectors.into(), |vdev| array.is_writable(vdev));
        let others = 0..self.room.vdevs();
        let (stream, purpose) = (Stream::Metadata, Purpose::Checkpoint);
        chosen
            .into_iter()
            .chain(others)
            .find_map(|vdev| {
                let footprint = array.footprint(vdev, sectors);
                let may = footprint > 0 && array.is_writable(vdev);
                may.then(|| self.room.allocate(stream, vdev, footprint, purpose))?
            })
            .ok_or(NoSpace)
    }

    /// Writes a block of whole sectors. Returns the pointer with its place and checksum.
    pub(super) fn write(&mut self, site: Site, block: Pages, compression: Compression) -> Pointer {
        let once = Pointer {
            address: site.address,
            second: Second::NONE,
            birth: self.birth,
            sectors: (block.len() / SECTOR_SIZE) as u16,
            compression,
            algorithm: Algorithm::Xxh3,
            checksum: checksum::of(Algorithm::Xxh3, &block),
        };
        let pointer = site.second.map_or(once, |second| once.doubled(second));
        let tag = self.onto.tag_of_checkpoint();
        self.writes.count += 1;
        let priority = Priority::AsyncWrite;
        let places = pointer.places();
        let blocks = places.map(|place| (place, block.clone())).collect();
        self.onto.write(tag, blocks, priority);
        pointer
    }
}

impl Sink for Writer<'_> {
    fn write_node(&mut self, node: &Arc<Node>) -> Result<Pointer, NoSpace> {
        let (compression, block) = node.to_block();
        let place = self.place((block.len() / SECTOR_SIZE) as u16)?;
        let pointer = self.write(place, block, compression);
        let tag = self.onto.last_tag();
        self.writes.held.insert(tag, Arc::clone(node));
        Ok(pointer)
    }

    fn drop_block(&mut self, pointer: Pointer) {
        self.writes.dropped.push(pointer);
    }

    fn drop_node(&mut self, pointer: Pointer) {
        self.writes.replaced.push(pointer);
        self.writes.dropped_nodes.push(pointer);
    }
}

impl Store for Writer<'_> {
    type Error = NoSpace;

    fn write(&mut self, chunk: &Chunk) -> Result<Pointer, NoSpace> {
        let block = chunk.encode();
        let place = self.place((block.len() / SECTOR_SIZE) as u16)?;
        Ok(Self::write(self, place, block, Compression::Off))
    }

    fn drop_later(&mut self, chunk: Pointer) {
        self.writes.dropped.push(chunk);
    }
}
