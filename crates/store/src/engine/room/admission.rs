//! Decides which changes may take space, and when a change has to wait for space.
//!
//! Overwritten space is free only after two more checkpoints. So a change that finds no space asks
//! for checkpoints and waits. If three of them made no room, the change fails. A part of the pool
//! is never given to data: clearings, deletions and checkpoints need it, so that a full pool can be
//! emptied.

use std::collections::BTreeSet;

use super::usage::{Moment, Own};
use crate::catalog::size::print_size;
use crate::catalog::{
    Catalog, DatasetKind, Native, NewDataset, NewSnapshots, Operation, Property, Settings, Value,
};
use crate::engine::contents::Contents;
use crate::engine::io::change::Write;
use crate::engine::io::unmerged::{NODE_SIZE, Widths};
use crate::engine::request::{PoolError, PoolErrorKind};
use crate::engine::state::Pool;
use crate::format::dataset::MIN_BLOCK_SIZE;
use crate::format::node::FAN_OUT;
use crate::format::{DatasetId, SECTOR_SIZE};

/// Checkpoints without a gain after which waiting is given up.
const VAIN_CHECKPOINTS: u32 = 3;
/// Checkpoints without a gain after which a write within a reservation gives up, if it finds no run
/// that is long enough. Each checkpoint writes lists and nodes elsewhere, and their former places
/// become runs again. In a pool that is full to the brim this takes a while, and a reserved write
/// is not refused for that.
const VAIN_CHECKPOINTS_OF_RESERVED: u32 = 16;
/// Least number of sectors that are kept back.
const MIN_SLOP: u64 = 1024;

/// Space that an operation promises to volumes.
#[derive(Clone, Copy, Debug, Default)]
struct Promise {
    /// Sectors that the operation reserves in addition.
    more: u64,
    /// Sectors counted as reserved that these volumes took since the last checkpoint.
    taken: u64,
    /// Largest block size that the promise is for.
    block_size: u32,
}

impl Promise {
    fn of(more: u64, block_size: u32) -> Self {
        Self {
            more,
            taken: 0,
            block_size,
        }
    }

    fn and(self, other: Self) -> Self {
        Self {
            more: self.more + other.more,
            taken: self.taken + other.taken,
            block_size: self.block_size.max(other.block_size),
        }
    }
}

/// Space that a change may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Room {
    Enough,
    TooLittle,
    /// Enough sectors are free, but not in a row.
    InPieces,
}

impl Pool {
    /// Reports whether a change may take effect now. If a change need not write the rest of blocks
    /// that it covers in part, it does not wait for room for them.
    pub(in crate::engine) fn may_take(&mut self, write: &mut Write) -> bool {
        let has_memory = self.dirty_bytes() < self.limits().dirty_bytes;
        if !has_memory || self.has_too_many_updates() {
            return false;
        }
        let mut room = self.room_for(write);
        if room != Room::Enough && write.keep_edges() {
            room = self.room_for(write);
            if room != Room::Enough {
                write.zero_edges();
            }
        }
        if room != Room::Enough {
            self.want_checkpoint();
        }
        room == Room::Enough
    }

    /// Returns the reason why no checkpoint will make room for a change; `None` if one may.
    /// `is_unplaced` says that no place was found for the change.
    pub(in crate::engine) fn why_hopeless(
        &mut self,
        write: &mut Write,
        is_unplaced: bool,
    ) -> Option<String> {
        let of = self.contents_of(write.dataset);
        let most = match is_unplaced && of.is_some_and(has_reserved) {
            true => VAIN_CHECKPOINTS_OF_RESERVED,
            false => VAIN_CHECKPOINTS,
        };
        if self.stalled.vain_checkpoints() < most || self.is_freeing() {
            return None;
        }
        let len = write.len();
        let room = match self.room_for(write) {
            Room::Enough => Room::Enough,
            // The change may leave edges of blocks alone.
            room if write.keep_edges() => {
                let kept = self.room_for(write);
                write.zero_edges();
                if kept == Room::Enough && !is_unplaced {
                    return None;
                }
                room
            }
            room => room,
        };
        match room {
            Room::TooLittle if write.is_zeros() => Some(format!(
                "the map changes for unmapping {len} bytes do not fit into the pool"
            )),
            Room::TooLittle => Some(format!("{len} bytes do not fit into the pool")),
            Room::InPieces => Some(format!(
                "the pool's free space lies in pieces that are too small for the maps that {len} bytes change"
            )),
            Room::Enough => is_unplaced.then(|| {
                format!(
                    "{len} bytes do not fit: the pool's free space lies in pieces that are too small, or is \
                     reserved in whole runs for volumes"
                )
            }),
        }
    }

    /// Finds out whether there is room for a change, and for the cost in the maps of all changes
    /// without a checkpoint. The cost is counted in sectors, and in runs with room for a node.
    /// Other runs are kept for the lists of checkpoints. If runs are few, half of them are kept
    /// from data, and most of that half is not kept from clearings.
    fn room_for(&mut self, write: &Write) -> Room {
        let Some(of) = self.contents_of(write.dataset) else {
            return Room::Enough;
        };
        if write.is_nothing(of.block_size.into()) {
            return Room::Enough;
        }
        let (size, has_reserved) = (of.block_size, has_reserved(of));
        let copies = u64::from(of.settings.copies);
        let cost = self.cost_with(write);
        let data = write.blocks(size.into()) * self.widest(size) * copies;
        let few = self.space.few_node_runs();
        let (room, kept) = match (data, has_reserved) {
            (0, false) if self.promises.has_reserved() => (
                self.unused_by(3 * self.slop() / 4 + self.promises.reserved()),
                3 * few / 8,
            ),
            (0, _) => (self.unused_by(self.slop() / 4), few / 16),
            (_, true) => (self.unused_by_others(write.dataset), few / 4),
            (_, false) => (self.unused_by_others(write.dataset), few / 2),
        };
        // A write to reserved space, or one that adds no data, is not refused for lack of second
        // copies of maps.
        let second = match data > 0 && !has_reserved && self.is_metadata_double() {
            true => cost.sectors,
            false => 0,
        };
        if data + cost.sectors + second > room {
            return Room::TooLittle;
        }
        let runs = cost.runs + kept;
        self.space.keep_node_runs(runs);
        match self.space.has_node_runs(runs) {
            true => Room::Enough,
            false => Room::InPieces,
        }
    }

    /// Returns the most sectors that a block of `block_size` bytes takes, parity included.
    pub(in crate::engine) fn widest(&self, block_size: u32) -> u64 {
        let vdevs = 0..self.space.vdevs();
        let footprints = vdevs.map(|vdev| u64::from(self.block_footprint(vdev, block_size)));
        footprints.max().unwrap_or(0)
    }

    /// Returns the sectors that may still be taken if `kept` are kept back.
    ///
    /// A change that adds no data takes some sectors for maps. A quarter of the slop is kept from
    /// it, for the log and for each checkpoint's writes. Volumes may overwrite all of their
    /// reserved space. So three quarters of the slop and all reserved sectors are kept from volumes
    /// without reservations: overwriting takes them meanwhile.
    fn unused_by(&self, kept: u64) -> u64 {
        self.space.counts().available.saturating_sub(kept)
    }

    /// Returns the sectors that data of a dataset may still take, together with the cost of changes
    /// in the maps.
    ///
    /// While a volume's reserved space is overwritten, it may be in use twice, until two
    /// checkpoints have freed the old blocks. For that the volume may take five eighths of the
    /// slop.
    pub(in crate::engine) fn unused_by_others(&self, dataset: DatasetId) -> u64 {
        let own = self.contents_of(dataset).filter(|of| has_reserved(of));
        let unused = own.map_or(0, |of| self.unused_reservation(dataset, of));
        let slop = match own {
            Some(_) => 3 * self.slop() / 8,
            None => self.slop(),
        };
        let others = self.promises.reserved().saturating_sub(unused);
        self.space.counts().available.saturating_sub(slop + others)
    }

    /// Returns the sectors that data without a reservation may still take.
    pub(in crate::engine) fn unreserved(&self) -> u64 {
        self.unused_by(self.slop() + self.promises.reserved())
    }

    /// Reports whether long writes to a volume, or to a first one, find no room.
    ///
    /// Space that the next checkpoints free counts as room: writes wait for it.
    pub(in crate::engine) fn is_full(&self) -> bool {
        let freed = self.space.counts().deferred;
        let has_room = |unused: u64| unused + freed >= self.long_write();
        let mut volumes = self.volumes().peekable();
        match volumes.peek() {
            Some(_) => !volumes.all(|id| has_room(self.unused_by_others(id))),
            None => !has_room(self.unreserved()),
        }
    }

    /// Returns the sectors that a write of 1 MiB, the longest of most hosts, certainly finds room
    /// with. As much again leaves room for its maps.
    fn long_write(&self) -> u64 {
        const BLOCK: u32 = 128 << 10;
        const BLOCKS: u64 = 2 * 8;
        BLOCKS * self.widest(BLOCK)
    }

    /// Returns the volumes that hosts may write to.
    fn volumes(&self) -> impl Iterator<Item = DatasetId> {
        let volumes = self.catalog().datasets();
        let volumes = volumes.filter(|of| matches!(of.kind, DatasetKind::Volume(_)));
        let ids = volumes.map(|of| of.id);
        ids.filter(|id| self.contents_of(*id).is_some_and(|of| of.attempt.is_none()))
    }

    /// Adds up the reservations of volumes, after these or the volumes' sizes changed.
    pub(in crate::engine) fn count_reserved(&mut self) {
        let all = || self.datasets_in_use().filter(|(_, of)| has_reserved(of));
        let unused = all().map(|(id, of)| self.unused_reservation(*id, of)).sum();
        let unused = all().next().is_some().then_some(unused);
        self.promises.reserve(unused);
        self.keep_runs_for_reserved();
    }

    /// Keeps runs of free sectors whole for volumes with large blocks that reserved their space. As
    /// slop, more runs are kept so that overwritten blocks find new places.
    fn keep_runs_for_reserved(&mut self) {
        let large = self.datasets_in_use().filter(|(_, of)| {
            let is_large = of.block_size as usize > SECTOR_SIZE;
            has_reserved(of) && is_large
        });
        let large: Vec<(u64, u32)> = large
            .map(|(id, of)| {
                let own = self.own(*id, of, Moment::Checkpoint);
                (self.unused_places(of, &own), of.block_size)
            })
            .collect();
        if large.is_empty() {
            return self.space.keep_runs(&[], 0, 0);
        }
        let vdevs = self.space.vdevs();
        let lengths = (0..vdevs).map(|of| {
            let all = large
                .iter()
                .map(|(_, size)| self.block_footprint(of, *size));
            let different: BTreeSet<u32> = all.collect();
            different.into_iter().collect()
        });
        let lengths: Vec<Vec<u32>> = lengths.collect();
        let long = |vdev: u16| lengths[usize::from(vdev)].last().copied().unwrap_or(0);
        let runs = large.iter().map(|(blocks, size)| {
            // This is the number of the volume's blocks that fit into a long run, on any vdev.
            let each =
                (0..vdevs).filter_map(|of| long(of).checked_div(self.block_footprint(of, *size)));
            blocks.div_ceil(each.filter(|each| *each > 0).min().unwrap_or(1).into())
        });
        let short = |vdev: u16| lengths[usize::from(vdev)].first().copied().unwrap_or(0);
        let spare = |length: &dyn Fn(u16) -> u32| {
            let most = (0..vdevs).map(length).max().unwrap_or(0).max(1);
            (self.slop() / 2).div_ceil(most.into())
        };
        let runs = runs.sum::<u64>() + spare(&long);
        let least = large.iter().map(|(_, size)| *size).min().unwrap_or(1);
        // Block sizes are powers of two, so larger blocks count as several of the smallest.
        let smallest = large
            .iter()
            .map(|(blocks, size)| blocks * u64::from(size / least));
        let smallest = smallest.sum::<u64>() + spare(&short);
        self.space.keep_runs(&lengths, smallest, runs);
    }

    /// Returns the sectors that an uncompressed block of `block_size` bytes takes on a vdev.
    fn block_footprint(&self, vdev: u16, block_size: u32) -> u32 {
        let sectors = (block_size as usize).div_ceil(SECTOR_SIZE);
        self.footprint(vdev, sectors as u16)
    }

    /// Returns the sectors that are reserved for a volume and unused, as of the last checkpoint. If
    /// the volume builds on a snapshot, it may have to rewrite all that it shares with the
    /// snapshot.
    fn unused_reservation(&self, dataset: DatasetId, of: &Contents) -> u64 {
        let own = self.own(dataset, of, Moment::Checkpoint);
        self.sectors_for(self.unused_places(of, &own), of.block_size)
    }

    /// Returns the places that the blocks of a volume may still need of its reservation. A missing
    /// block needs as many places as there are copies. A block that lies once needs one more if the
    /// volume wants two copies.
    pub(in crate::engine) fn unused_places(&self, of: &Contents, own: &Own) -> u64 {
        let copies = u64::from(of.settings.copies);
        let block_size = u64::from(of.block_size);
        let unused = self.unused_bytes(of, own).div_ceil(block_size);
        if copies == 1 {
            return unused;
        }
        let reserved = of.settings.refreservation.div_ceil(block_size);
        let used = reserved.saturating_sub(unused);
        unused * copies + used.saturating_sub(doubled_blocks(of, own))
    }

    /// Returns the bytes that a volume reserved and does not use. A compressed block uses none.
    /// When it is rewritten, it may be as long as possible, and its old place is too short for
    /// that.
    pub(in crate::engine) fn unused_bytes(&self, of: &Contents, own: &Own) -> u64 {
        let block_size = u64::from(of.block_size);
        let used = match (own.before, own.referenced.whole) {
            // Blocks written since the snapshot are the volume's own.
            (Some(_), _) => whole_since_snapshot(of, own) * block_size,
            (None, Some(whole)) => whole * block_size,
            (None, None) => own.referenced.sectors * SECTOR_SIZE as u64,
        };
        of.settings.refreservation.saturating_sub(used)
    }

    /// Reports whether a compressed block of `footprint` sectors may take unreserved space. If its
    /// volume reserved space, the block needs space beside the reservation. If there is none, the
    /// block is written uncompressed, into reserved space.
    pub(in crate::engine) fn may_pack(&self, settings: &Settings, footprint: u32) -> bool {
        let room = || self.space.counts().available;
        settings.refreservation == 0
            || room() >= self.slop() + self.promises.reserved() + u64::from(footprint)
    }

    /// Returns the sectors for `bytes` that are not used yet, in all copies.
    fn reservation(&self, bytes: u64, (block_size, copies): (u32, u8)) -> u64 {
        let blocks = bytes.div_ceil(block_size.into());
        self.sectors_for(blocks * u64::from(copies), block_size)
    }

    /// Returns the sectors for `blocks` blocks, with the maps that they need.
    fn sectors_for(&self, blocks: u64, block_size: u32) -> u64 {
        let sectors = blocks * self.widest(block_size);
        sectors + sectors.div_ceil(32)
    }

    /// Returns the sectors for blocks that could still be reserved. A part is left for maps
    /// ([`Pool::sectors_for`]) and for pieces that are shorter than blocks. Pieces are not counted,
    /// so the real number may be less if free space is scattered. Space that only a checkpoint will
    /// free does not count yet.
    pub(in crate::engine) fn reservable(&self) -> u64 {
        let kept = self.slop() + self.promises.reserved() + self.cost_of_all().sectors;
        let room = self.space.counts().available.saturating_sub(kept);
        room - room.div_ceil(24)
    }

    /// Refuses operations that together would promise more space to volumes than there is.
    ///
    /// # Errors
    /// `NoSpace`.
    pub fn check_promises(&self, operations: &[Operation]) -> Result<(), PoolError> {
        for operation in operations {
            self.check_second_copies(operation)?;
            self.check_room_to_unmap(operation)?;
        }
        let promises = operations.iter().map(|of| self.promised_by(of));
        let promise = promises.fold(Promise::default(), Promise::and);
        let (more, block_size) = (promise.more, promise.block_size);
        let counts = self.space.counts();
        let reserved = self.promises.reserved().saturating_sub(promise.taken);
        let kept = self.slop() + reserved + self.cost_of_all().sectors;
        let room = (counts.available + counts.deferred).saturating_sub(kept);
        if more <= room && !self.lies_in_pieces(&promise) {
            return Ok(());
        }
        if more <= room {
            let context = format!(
                "the change would reserve {} more in blocks of {}, but the free space lies in pieces too \
                 small for such blocks",
                print_size(more * SECTOR_SIZE as u64),
                print_size(block_size.into())
            );
            return Err(PoolError::new(PoolErrorKind::NoSpace, context));
        }
        let context = format!(
            "the change would reserve {} more, but only {} are left",
            print_size(more * SECTOR_SIZE as u64),
            print_size(room * SECTOR_SIZE as u64)
        );
        Err(PoolError::new(PoolErrorKind::NoSpace, context))
    }

    /// Refuses to share maps if UNMAP might soon find no room to change them.
    ///
    /// In a volume without snapshots, the space that UNMAP frees makes room for the nodes that it
    /// writes. If a snapshot holds the old nodes, the new ones lie beside them. So a pool that
    /// becomes full refuses snapshots well before it refuses UNMAP ([`Pool::room_for`]). Half of
    /// the difference is for the nodes that earlier snapshots share.
    fn check_room_to_unmap(&self, operation: &Operation) -> Result<(), PoolError> {
        let shares = matches!(
            operation,
            Operation::Snapshot(_) | Operation::Clone { .. } | Operation::BeginReceive { .. }
        );
        let counts = self.space.counts();
        let kept = match self.promises.has_reserved() {
            true => 7 * self.slop() / 8 + self.still_reserved(),
            false => 5 * self.slop() / 8,
        };
        let kept = kept + self.cost_of_all().sectors;
        if !shares || counts.available + counts.deferred >= kept {
            return Ok(());
        }
        let context = format!(
            "{} are left, but {} are kept for unmapping volumes that share blocks with snapshots",
            print_size((counts.available + counts.deferred) * SECTOR_SIZE as u64),
            print_size(kept * SECTOR_SIZE as u64)
        );
        Err(PoolError::new(PoolErrorKind::NoSpace, context))
    }

    /// Returns the least reserved space, without what volumes may have taken of it since the last
    /// checkpoint.
    fn still_reserved(&self) -> u64 {
        let thick = self.datasets_in_use().filter(|(_, of)| has_reserved(of));
        let left = thick.map(|(id, of)| {
            let written = self.written_since_checkpoint(*id, of);
            let unused = self.unused_reservation(*id, of);
            let places = written * u64::from(of.settings.copies);
            unused.saturating_sub(self.sectors_for(places, of.block_size))
        });
        left.sum()
    }

    fn promised_by(&self, operation: &Operation) -> Promise {
        let size_of = |dataset: &DatasetId| {
            let of = self.contents_of(*dataset);
            of.map_or(MIN_BLOCK_SIZE, |of| of.block_size)
        };
        match operation {
            Operation::CreateVolume { volume, .. } => {
                let wanted = reserved_in(&volume.dataset);
                let more =
                    self.reservation(wanted, (volume.block_size, self.copies_of(&volume.dataset)));
                Promise::of(more, volume.block_size)
            }
            Operation::Clone { clone, .. } => {
                let block_size = size_of(&clone.origin);
                let wanted = reserved_in(&clone.dataset);
                let copies = self.copies_of(&clone.dataset);
                Promise::of(self.reservation(wanted, (block_size, copies)), block_size)
            }
            Operation::SetProperty { id, properties, .. } => {
                if properties.get(&Native::Copies.into()).is_some() {
                    return self.promised_by_settings(operation, &[*id]);
                }
                let value = properties.get(&Native::Refreservation.into());
                Promise::of(self.additional(*id, value.map(bytes_of)), size_of(id))
            }
            Operation::Inherit { ids, property, .. } => {
                let reserving = [Native::Copies, Native::Refreservation].map(Property::from);
                match Property::parse(property) {
                    Ok(of) if reserving.contains(&of) => self.promised_by_settings(operation, ids),
                    _ => Promise::default(),
                }
            }
            Operation::Rename { renames, .. } => {
                // A name alone changes nothing that is inherited.
                let is_moved = |id, parent| {
                    let before = self.catalog().dataset(id);
                    before.is_some_and(|before| before.parent != parent)
                };
                let moved = renames.iter().filter(|to| is_moved(to.id, to.parent));
                let ids: Vec<DatasetId> = moved.map(|to| to.id).collect();
                match ids.is_empty() {
                    true => Promise::default(),
                    false => self.promised_by_settings(operation, &ids),
                }
            }
            Operation::Resize {
                volume,
                refreservation,
                ..
            }
            | Operation::Rollback {
                volume,
                refreservation,
                ..
            }
            | Operation::BeginReceive {
                volume,
                refreservation,
                ..
            } => Promise::of(self.additional(*volume, *refreservation), size_of(volume)),
            Operation::Snapshot(taken) => self.promised_by_snapshots(taken, None),
            Operation::EndReceive {
                taken,
                refreservation,
                ..
            } => self.promised_by_snapshots(taken, *refreservation),
            _ => Promise::default(),
        }
    }

    /// Returns the space that snapshots promise to their volumes, which may have to rewrite all
    /// that they share with them.
    ///
    /// The volumes then reserve `reserved` bytes, or as many as before. Blocks that a volume wrote
    /// since the last checkpoint still count as reserved, though they have taken their space. They
    /// are shared like all others, and must be reserved anew.
    fn promised_by_snapshots(&self, new: &NewSnapshots, reserved: Option<u64>) -> Promise {
        let volumes = new.snapshots.iter();
        let needs = volumes.filter_map(|new| {
            let of = self.contents_of(new.volume)?;
            let reserved = reserved.unwrap_or(of.settings.refreservation);
            let all = self.reservation(reserved, (of.block_size, of.settings.copies));
            let unused = self.unused_reservation(new.volume, of);
            let written = self.written_since_checkpoint(new.volume, of);
            let places = written * u64::from(of.settings.copies);
            let taken = self.sectors_for(places, of.block_size).min(unused);
            Some(Promise {
                more: all.saturating_sub(unused - taken),
                taken,
                block_size: of.block_size,
            })
        });
        let needs = needs.filter(|promise| promise.more > 0);
        needs.fold(Promise::default(), Promise::and)
    }

    /// Returns the most blocks that can have been written since the last durable checkpoint.
    fn written_since_checkpoint(&self, dataset: DatasetId, of: &Contents) -> u64 {
        of.map.layers.written() + self.blocks_in_group(dataset)
    }

    /// Reports whether free space lies in pieces too small for a promise. Room for earlier promises
    /// is counted, and room that is kept so that overwritten blocks find new places.
    fn lies_in_pieces(&self, promise: &Promise) -> bool {
        if promise.more == 0 || promise.block_size as usize <= SECTOR_SIZE {
            return false;
        }
        let large = self.datasets_in_use().filter(|(_, of)| {
            let is_large = of.block_size as usize > SECTOR_SIZE;
            has_reserved(of) && is_large
        });
        let large: Vec<(&DatasetId, &Contents)> = large.collect();
        let promised = large
            .iter()
            .map(|(id, of)| self.unused_reservation(**id, of));
        let promised: u64 = promised.sum();
        let sizes = large.iter().map(|(_, of)| of.block_size);
        let longest = sizes.fold(promise.block_size, u32::max);
        let vdevs = 0..self.space.vdevs();
        let free = vdevs.map(|of| self.space.in_runs(of, self.block_footprint(of, longest)));
        // Space that will be free soon counts, as far as it is in whole runs.
        let soon = self.space.dropped().chain(self.space.waiting());
        let soon = soon.map(|extent| {
            let run = self.block_footprint(extent.vdev, longest).max(1);
            u64::from(extent.sectors - extent.sectors % run)
        });
        let promised = (promised + promise.more).saturating_sub(promise.taken);
        free.sum::<u64>() + soon.sum::<u64>() < promised + self.slop() / 2
    }

    /// Returns the bytes that a volume reserves in addition with another reservation.
    fn additional(&self, dataset: DatasetId, reservation: Option<u64>) -> u64 {
        let of = self.contents_of(dataset);
        let Some((of, bytes)) = of.zip(reservation) else {
            return 0;
        };
        let before = of.settings.refreservation;
        let blocks = (of.block_size, of.settings.copies);
        let [now, then] = [before, bytes].map(|bytes| self.reservation(bytes, blocks));
        then.saturating_sub(now)
    }

    /// Returns the additional space that volumes of these datasets, and below them, may reserve
    /// after the operation. They may reserve it for themselves, or for a second place of each
    /// block.
    fn promised_by_settings(&self, operation: &Operation, ids: &[DatasetId]) -> Promise {
        let mut then = Catalog::clone(self.catalog());
        if then.apply(operation).is_err() {
            // The catalogue will refuse the operation, and say why.
            return Promise::default();
        }
        let below = ids.iter().flat_map(|id| self.catalog().subtree(*id));
        let affected: BTreeSet<DatasetId> = below.map(|dataset| dataset.id).collect();
        let each = affected.into_iter().filter_map(|id| {
            let of = self.contents_of(id)?;
            let reserved = |settings: &Settings| {
                let blocks = (of.block_size, settings.copies);
                self.reservation(settings.refreservation, blocks)
            };
            let more = reserved(&then.settings(id)).saturating_sub(reserved(&of.settings));
            (more > 0).then_some(Promise::of(more, of.block_size))
        });
        each.fold(Promise::default(), Promise::and)
    }

    /// Returns the number of places in which the blocks of a new dataset will lie.
    fn copies_of(&self, new: &NewDataset) -> u8 {
        let property = Native::Copies.into();
        let own = new.properties.get(&property);
        match own.or(new.received.get(&property)) {
            Some(Value::Copies(copies)) => *copies,
            _ => self.catalog().settings(new.parent).copies,
        }
    }

    /// Returns the sectors that are never given to data.
    pub(in crate::engine) fn slop(&self) -> u64 {
        let size: u64 = (0..self.space.vdevs()).map(|of| self.space.size(of)).sum();
        let kept: u64 = (0..self.space.vdevs()).map(|of| self.kept_of(of)).sum();
        (size / 32).max(2 * kept)
    }

    /// Returns the sectors of a vdev that only metadata gets.
    fn kept_of(&self, vdev: u16) -> u64 {
        let size = self.space.size(vdev);
        (size / 64).max((MIN_SLOP / 2).min(size / 8))
    }

    /// Keeps half of the slop in places where data never lies, so that checkpoints find several
    /// sectors in a row.
    pub(in crate::engine) fn keep_for_metadata(&mut self) {
        for vdev in 0..self.space.vdevs() {
            let kept = self.kept_of(vdev);
            self.space.keep_for_metadata(vdev, kept);
        }
        // Runs for nodes count as few below half of the number in the kept part.
        let (mut lengths, mut few) = (Vec::new(), 0);
        for vdev in 0..self.space.vdevs() {
            let length = self.block_footprint(vdev, NODE_SIZE);
            few += self.kept_of(vdev).checked_div(length.into()).unwrap_or(0) / 2;
            lengths.push(length);
        }
        self.space.count_node_runs(&lengths, few);
        self.unmerged.widths = Widths {
            node: self.widest(NODE_SIZE),
            list: self.widest(SECTOR_SIZE as u32),
        };
        self.count_reserved();
        self.keep_tails();
    }

    /// Keeps data out of the ends of the vdevs, while it finds a place elsewhere. All nodes of the
    /// volumes' maps find room there twice: for the checkpoint that begins, and for the work of the
    /// next one. Runs that are kept anyway come on top.
    pub(in crate::engine) fn keep_tails(&mut self) {
        let volumes = self.datasets_in_use().filter(|(id, _)| {
            let dataset = self.catalog().dataset(**id);
            dataset.is_some_and(|of| of.as_snapshot().is_none())
        });
        let leaves = volumes.map(|(_, of)| {
            let all = of.size.div_ceil(u64::from(of.block_size) * FAN_OUT as u64);
            all.min(of.referenced.blocks.unwrap_or(u64::MAX))
        });
        let leaves = leaves.sum::<u64>().min(self.limits().updates);
        let kept = self.space.few_node_runs() / 2;
        let size = u128::from(self.space.counts().size.max(1));
        for vdev in 0..self.space.vdevs() {
            let share = |runs: u64| u128::from(runs) * u128::from(self.space.size(vdev)) / size;
            let runs = |checkpoints| share(kept + checkpoints * leaves) as u64;
            self.space.keep_tail(vdev, runs(2)..runs(4) + 1);
        }
    }

    /// Returns the groups of the log after which a checkpoint is made. Their records take space,
    /// too: in a full pool a part of the slop, otherwise also a part of the free space.
    pub(in crate::engine) fn groups_at_most(&self) -> u64 {
        let spare = self.space.counts().available.saturating_sub(self.slop());
        self.limits().groups.min(self.slop() / 8 + spare / 16)
    }

    /// Reports whether data took so much space since the last checkpoint began, or will in the
    /// maps, that the next should begin. Overwritten space is free only after two checkpoints. If
    /// they were made only when nothing is left, all changes would wait for both.
    pub(in crate::engine) fn is_space_running_short(&self) -> bool {
        let counts = self.space.counts();
        let left = counts.available.saturating_sub(self.slop()) + counts.deferred;
        let spent = self.data_taken() + self.cost_of_next().sectors;
        spent > left / 4 && spent > counts.size / 64
    }

    /// Notes that a checkpoint is durable, so that there may be room now.
    pub(in crate::engine) fn count_vain_checkpoint(&mut self) {
        self.stalled.count_vain_checkpoint(self.is_freeing());
    }
}

/// Returns the least number of a volume's blocks that are uncompressed, lie twice, and are on no
/// snapshot. Sectors count both copies, and compressed blocks are taken to be as long as possible.
fn doubled_blocks(of: &Contents, own: &Own) -> u64 {
    let Some((written, whole)) = own.written().zip(own.whole()) else {
        return 0;
    };
    let longest = u64::from(of.block_size) / SECTOR_SIZE as u64;
    let packed = written.blocks.saturating_sub(whole) * 2 * longest.saturating_sub(1);
    let doubled = written.sectors.saturating_sub(whole * longest + packed) / longest;
    doubled.min(whole)
}

/// Returns the number of uncompressed blocks that were written since the volume's snapshot. If a
/// program wrote some without counting them, it is the least number.
fn whole_since_snapshot(of: &Contents, own: &Own) -> u64 {
    if let Some(whole) = own.whole() {
        return whole;
    }
    let Some(written) = own.written() else {
        return 0;
    };
    // If all other blocks were compressed, each of them would be a sector shorter at least.
    let longest = u64::from(of.block_size) / SECTOR_SIZE as u64;
    (written.sectors).saturating_sub(written.blocks * longest.saturating_sub(1))
}

fn has_reserved(of: &Contents) -> bool {
    of.settings.refreservation > 0
}

/// Returns the bytes that a new volume reserves.
fn reserved_in(new: &NewDataset) -> u64 {
    let property = Native::Refreservation.into();
    let value = new.properties.get(&property);
    value.or(new.received.get(&property)).map_or(0, bytes_of)
}

fn bytes_of(value: &Value) -> u64 {
    match value {
        Value::Reservation(bytes) => bytes.unwrap_or(0),
        _ => 0,
    }
}
