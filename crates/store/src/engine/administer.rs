//! Changes datasets: the catalogue decides, the log keeps the change, and the maps follow.
//!
//! A change has its own group of the log, after all requests that were taken before it. It takes
//! effect when this group is sealed, and is answered when the group is durable. Replay does the
//! same: in both, [`Pool::follow`] carries the change out.

pub(super) mod waiting;

use std::sync::Arc;

use super::contents::{Contents, Referenced};
use super::request::{PoolError, PoolErrorKind, RequestId};
use super::state::Pool;
use crate::catalog::{Applied, Catalog, Native, Operation, Settings, Stamp, Step};
use crate::checksum;
use crate::format::pointer::Second;
use crate::format::record::MAX_OPERATION;
use crate::format::{Algorithm, Compression, DatasetId, Epoch, Pointer, SECTOR_SIZE};
use crate::log::group::Change;
use crate::map::{Map, Tree};
use crate::snapshot::deadlist::Deadlist;
use crate::space::{Claim, Purpose, Stream};
use waiting::Waiting;

pub use waiting::Plan;

impl Pool {
    /// Returns the catalogue of all datasets.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Returns the datasets as they are now. Later changes do not alter what is returned.
    pub fn shared_catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.catalog)
    }

    /// Changes datasets. The request is answered like a durable write. `entropy` must be random:
    /// new datasets get their guids from it.
    pub fn administer(&mut self, id: RequestId, plan: Plan, entropy: u64, now_us: u64) {
        self.heed_time(now_us);
        self.waiting.push_back(Waiting { id, plan, entropy });
        self.go_on();
    }

    /// Carries out the changes that wait. While a checkpoint is made, it works on the lists of dead
    /// blocks. A change that needs them waits for its end, and so do all changes after it. A change
    /// that must not come between the two halves of a write waits too.
    pub(super) fn administer_go_on(&mut self) {
        while let Some(Waiting { id, plan, entropy }) = self.waiting.pop_front() {
            if let Some(error) = self.suspension() {
                self.answer(id, Err(error));
                continue;
            }
            let stamp = Stamp {
                epoch: self.epoch(),
                time_s: self.time_s(),
                entropy,
            };
            let operation = match plan(&self.catalog, stamp) {
                Ok(operation) => operation,
                Err(error) => {
                    self.answer(id, Err(error.into()));
                    continue;
                }
            };
            let promised = self.check_promises(std::slice::from_ref(&operation));
            let lists = match promised.and_then(|()| self.lists_after(&operation)) {
                Ok(lists) => lists,
                Err(error) => {
                    self.answer(id, Err(error));
                    continue;
                }
            };
            let is_too_early = self.is_making_checkpoint() && takes_lists(&operation)
                || self.waits_for_freeing(&operation);
            if is_too_early || self.is_written_in_part(&operation) {
                // Nothing changes the catalogue meanwhile, so the plan stays right. Only the epoch
                // may change, and only snapshots have an epoch.
                let plan: Plan = Box::new(move |_, _| Ok(operation));
                self.waiting.push_front(Waiting { id, plan, entropy });
                return;
            }
            if let Err(error) = self.check_receivable(&operation) {
                self.answer(id, Err(error));
                continue;
            }
            if let Err(error) = self.change(&operation) {
                self.answer(id, Err(error));
                continue;
            }
            self.promises.note_lists(lists);
            self.wait_for(self.sealed_seq(), id);
        }
    }

    /// Reports whether an operation exchanges the contents of a volume while a block of it is being
    /// written in part. The rest of that block was read before the operation, and would come back.
    fn is_written_in_part(&self, operation: &Operation) -> bool {
        let (Operation::Rollback { volume, .. }
        | Operation::Resize { volume, .. }
        | Operation::BeginReceive { volume, .. }
        | Operation::NoteReceived { volume, .. }) = operation
        else {
            return false;
        };
        self.stalled.is_locked(*volume)
    }

    /// Writes an operation to the log and does it.
    fn change(&mut self, operation: &Operation) -> Result<(), PoolError> {
        if self.has_open_group() {
            self.seal();
        }
        self.check_not_suspended()?;
        let bytes = operation.encode();
        let change = if bytes.len() <= MAX_OPERATION {
            Change::Operation(bytes)
        } else {
            self.stored(&bytes)?
        };
        let applied = Arc::make_mut(&mut self.catalog).apply(operation)?;
        self.put_operation(change);
        self.seal();
        // If no record was written, there is none to wait for.
        self.check_not_suspended()?;
        self.follow(applied);
        if may_make_room(operation) {
            // Changes that no checkpoint could help before may find room now.
            self.stalled.hope();
        }
        Ok(())
    }

    fn check_not_suspended(&self) -> Result<(), PoolError> {
        self.suspension().map_or(Ok(()), Err)
    }

    /// Makes the record of an operation that is too long to lie in a record itself.
    fn stored(&mut self, bytes: &[u8]) -> Result<Change, PoolError> {
        let mut padded = bytes.to_vec();
        padded.resize(bytes.len().next_multiple_of(SECTOR_SIZE), 0);
        let sectors = u16::try_from(padded.len() / SECTOR_SIZE).unwrap_or(u16::MAX);
        let payload = pages::Pages::from_bytes(&padded);
        let extent = (sectors <= Pointer::MAX_SECTORS)
            .then(|| self.place_anywhere(Claim::Kept, Stream::Metadata, sectors, Purpose::Young))
            .flatten()
            .ok_or_else(|| {
                let context = format!("no run of {sectors} free sectors is left for the change");
                PoolError::new(PoolErrorKind::NoSpace, context)
            })?;
        let pointer = Pointer {
            address: extent.address(),
            second: Second::NONE,
            birth: self.epoch(),
            sectors,
            compression: Compression::Off,
            algorithm: Algorithm::Xxh3,
            checksum: checksum::of(Algorithm::Xxh3, &payload),
        };
        let spare = self.spare();
        let second = self.place_spare(spare, extent, sectors);
        let len = bytes.len() as u64;
        Ok(Change::StoredOperation {
            pointer: second.map_or(pointer, |second| pointer.doubled(second.address())),
            payload,
            len,
        })
    }

    /// Carries out an operation's effects on maps and lists.
    pub(super) fn follow(&mut self, applied: Applied) {
        let mut took_snapshot = false;
        for step in applied.steps {
            took_snapshot |= matches!(step, Step::Snapshot { .. });
            self.step(step);
        }
        if took_snapshot {
            self.begin_epoch(self.epoch().next());
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Create {
                volume,
                size,
                block_size,
            } => {
                let map = Map::new(Tree::new(volume));
                let geometry = (size, block_size);
                let nothing = Referenced::NOTHING;
                self.add_contents(volume, map, nothing, geometry, Deadlist::new());
            }
            Step::Snapshot { volume, snapshot } => self.take_snapshot(volume, snapshot),
            Step::Clone {
                clone,
                snapshot,
                size,
                block_size,
            } => {
                if let Some(of) = self.contents.get(&snapshot) {
                    let (map, referenced) = (of.map.fork(), of.referenced);
                    let geometry = (size, block_size);
                    self.add_contents(clone, map, referenced, geometry, Deadlist::new());
                }
            }
            Step::Merge {
                snapshot,
                next,
                after,
            } => self.merge_snapshot(snapshot, next, after),
            Step::Free { dataset, after } => {
                if let Some(contents) = self.remove_contents(dataset) {
                    self.free_contents(contents, after);
                }
            }
            Step::Rollback {
                volume,
                snapshot,
                after,
                size,
            } => self.roll_back(volume, snapshot, after, size),
            Step::Resize { volume, from, to } => self.resize(volume, from, to),
            Step::Settings { dataset } => self.refresh_settings(dataset),
        }
    }

    fn add_contents(
        &mut self,
        dataset: DatasetId,
        map: Map,
        referenced: Referenced,
        (size, block_size): (u64, u32),
        dead: Deadlist,
    ) {
        let contents = Contents {
            map,
            size,
            block_size,
            settings: Settings::default(),
            attempt: None,
            dead,
            referenced,
        };
        self.contents.insert(dataset, contents);
        self.refresh_settings(dataset);
    }

    fn take_snapshot(&mut self, volume: DatasetId, snapshot: DatasetId) {
        let epoch = self.epoch();
        let Some(of) = self.contents.get_mut(&volume) else {
            return;
        };
        of.map.layers.close(epoch);
        let dead = std::mem::take(&mut of.dead);
        let (map, referenced) = (of.map.fork(), of.referenced);
        let geometry = (of.size, of.block_size);
        // This comes before anything is counted again, since the volume builds on the snapshot
        // already.
        self.note_heir(volume, snapshot);
        self.add_contents(snapshot, map, referenced, geometry, dead);
        self.scan_follows(volume, snapshot);
    }

    /// Removes a snapshot and gives its dead blocks to the next dataset, which builds on it and
    /// stays.
    fn merge_snapshot(&mut self, snapshot: DatasetId, next: DatasetId, after: Epoch) {
        let Some(gone) = self.remove_contents(snapshot) else {
            return;
        };
        self.scan_follows(snapshot, next);
        let snapshots = self.catalog.epochs_beneath(next);
        let is_staying = self.catalog.dataset(next).is_some();
        if let Some(next) = self.contents.get_mut(&next) {
            let freed = next.dead.split_after(after);
            next.dead.merge(gone.dead);
            // If `next` is deleted in the same operation, it builds on nothing any more, and its
            // list will still be split.
            if is_staying {
                next.dead.join_parts(&snapshots);
            }
            if !freed.is_empty() {
                self.free_list_of_dead(freed);
            }
        }
    }

    fn roll_back(&mut self, volume: DatasetId, snapshot: DatasetId, after: Epoch, size: u64) {
        let Some(of) = self.contents.get(&snapshot) else {
            return;
        };
        let (map, referenced, block_size) = (of.map.fork(), of.referenced, of.block_size);
        if let Some(old) = self.remove_contents(volume) {
            self.free_contents(old, after);
        }
        let geometry = (size, block_size);
        self.add_contents(volume, map, referenced, geometry, Deadlist::new());
    }

    fn resize(&mut self, volume: DatasetId, from: u64, to: u64) {
        let Some(of) = self.contents.get_mut(&volume) else {
            return;
        };
        of.size = to;
        let size = u64::from(of.block_size);
        let (end, old_end) = (to.div_ceil(size), from.div_ceil(size));
        if end < old_end {
            self.published.note_change(volume, end..old_end);
            self.map_zeros(volume, end, old_end - end);
            self.forget_cached_range(volume, end..old_end);
        }
    }

    /// Updates the settings of a dataset from the catalogue.
    pub(in crate::engine) fn refresh_settings(&mut self, dataset: DatasetId) {
        let settings: Settings = self.catalog.settings(dataset);
        let receiving = self.catalog.receiving(dataset);
        let attempt = receiving.map(|receiving| receiving.attempt);
        if let Some(contents) = self.contents.get_mut(&dataset) {
            contents.settings = settings;
            // The policy of the cache and an attempt decide whether leaves are published.
            self.published.forget(dataset);
            let before = std::mem::replace(&mut contents.attempt, attempt);
            if before.is_none() && attempt.is_some() {
                self.forget_cached(dataset);
            }
        }
        self.want_second_copies();
        self.count_reserved();
    }

    fn remove_contents(&mut self, dataset: DatasetId) -> Option<Contents> {
        self.published.forget(dataset);
        self.forget_cached(dataset);
        let mut contents = self.contents.remove(&dataset)?;
        contents.map.layers.close(self.epoch());
        Some(contents)
    }
}

/// Reports whether an operation frees blocks or reserved space.
fn may_make_room(operation: &Operation) -> bool {
    match operation {
        Operation::Destroy { .. } | Operation::Rollback { .. } | Operation::Resize { .. } => true,
        Operation::SetProperty { properties, .. } => {
            properties.get(&Native::Refreservation.into()).is_some()
        }
        _ => false,
    }
}

/// Reports whether an operation takes blocks from lists or maps that a checkpoint may be working
/// on.
fn takes_lists(operation: &Operation) -> bool {
    match operation {
        Operation::Clone { clone, .. } => clone.size.is_some(),
        Operation::Destroy { .. }
        | Operation::Rollback { .. }
        | Operation::Resize { .. }
        | Operation::BeginReceive { .. } => true,
        _ => false,
    }
}

// An operation that is kept in a record fits into one.
const _: () = assert!(MAX_OPERATION + 16 <= crate::format::record::ROOM);
