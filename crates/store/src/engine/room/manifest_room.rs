//! Ensures that a manifest is never longer than a root can point to: a change that could make it so
//! is refused first.
//!
//! A checkpoint whose manifest is too long cannot be made, and the pool would stand still for ever.
//! Dead lists grow by writes, which are never refused for that. So each list is counted with the
//! greatest length that it can still reach. A volume's list has one part for each snapshot that the
//! volume builds on. So has a snapshot's list, until its layers are merged. Structures being freed
//! take no more than the datasets that they belonged to. So a change that adds no dataset, name or
//! value is always taken. One exception: repeated rollbacks wait for the structures being freed.
//!
//! After the first count, each change adds the most that it can add. The count is made again only
//! if the sum would be too much.

use std::collections::BTreeMap;

use crate::catalog::history::MAX_BYTES;
use crate::catalog::{
    Catalog, CatalogError, Dataset, DatasetKind, ErrorKind, Native, NewSnapshots, Operation,
};
use crate::engine::manifest::{
    CONTENTS, LIST, LISTED, MAX_MANIFEST, PART, SPACE, SPACE_NODE, TREE, json_len,
};
use crate::engine::request::PoolError;
use crate::engine::state::Pool;
use crate::engine::trim::record::RECORD;
use crate::format::DatasetId;
use crate::format::node::FAN_OUT;
use crate::snapshot::deadlist::Deadlist;

/// Longest history, in bytes, with each of its characters written as two.
const HISTORY: usize = 2 * MAX_BYTES;
/// Bytes around the lists, with the outcome of the last scan and the unfinished scrub.
const ENVELOPE: usize = 1024;
/// Divisor of the total that gives the share kept for the space maps of vdevs that are added, or
/// grow.
const SPACE_SHARE: usize = 32;
/// Digits of the longest number, and of the longest number of a dataset.
const DIGITS: usize = 20;
const ID_DIGITS: usize = 10;
/// Bytes of a catalogue entry that are not in the operation that makes it, for the longest entry.
const ENTRY: usize = 368;
/// Bytes of the entry of a snapshot with the longest name.
const LONGEST_SNAPSHOT: usize = 640;

impl Pool {
    /// Refuses an operation that could make the manifest of a checkpoint too long, now or later.
    ///
    /// # Errors
    /// The operation is refused.
    pub fn check_lists(&self, operation: &Operation) -> Result<(), PoolError> {
        self.lists_after(operation).map(drop)
    }

    /// Returns the most bytes of the lists after an operation; `None` if they were not counted yet.
    ///
    /// # Errors
    /// The operation is refused if this is too much, and more than before.
    pub(in crate::engine) fn lists_after(
        &self,
        operation: &Operation,
    ) -> Result<Option<usize>, PoolError> {
        let more = growth(self.catalog(), operation);
        if more == 0 {
            return Ok(self.promises.lists());
        }
        let most = self.room_for_lists().saturating_sub(self.freeing_len());
        if let Some(after) = self.promises.lists().map(|before| before + more)
            && after <= most
        {
            return Ok(Some(after));
        }
        let before = self.count_lists(self.catalog());
        if before + more <= most {
            return Ok(Some(before + more));
        }
        let mut catalog = Catalog::clone(self.catalog());
        if catalog.apply(operation).is_err() {
            // The code that carries the operation out will say why it fails.
            return Ok(Some(before + more));
        }
        let after = self.count_lists(&catalog);
        if after <= most.max(before) {
            return Ok(Some(after.max(before)));
        }
        let error = CatalogError::new(
            ErrorKind::LimitReached,
            format!(
                "the lists of datasets could grow to {after} bytes of a checkpoint, and at most {most} are \
                 possible; they hold names, properties, and the losses of each volume since each of its \
                 snapshots"
            ),
            "destroy snapshots or volumes that are not needed, or inherit user properties; destroyed \
             datasets make room when their space is freed",
        );
        Err(error.into())
    }

    /// Reports whether a rollback has to wait for structures being freed. A rollback adds a list,
    /// and removes no dataset.
    pub(in crate::engine) fn waits_for_freeing(&mut self, operation: &Operation) -> bool {
        let Operation::Rollback { volume, .. } = operation else {
            return false;
        };
        if !self.is_freeing() {
            return false;
        }
        let lists = match self.promises.lists() {
            Some(lists) => lists,
            None => self.count_lists(self.catalog()),
        };
        self.promises.note_lists(Some(lists));
        let listed = self.contents_of(*volume).map_or(0, |of| of.dead.parts());
        let more = left_by_rollback(listed.max(self.catalog().chain(*volume).count()));
        lists + self.freeing_len() + more > self.room_for_lists()
    }

    /// Returns the bytes of a manifest that datasets and structures being freed may take.
    fn room_for_lists(&self) -> usize {
        let most = self.longest_manifest();
        let space = self.space_records_len().max(most / SPACE_SHARE);
        let trims = self.leaf_statuses().count() * RECORD;
        most.saturating_sub(HISTORY + ENVELOPE + space + trims)
    }

    /// Returns the length of the longest manifest that may be written, in bytes.
    pub(in crate::engine) fn longest_manifest(&self) -> usize {
        self.limits().manifest_bytes.min(MAX_MANIFEST)
    }

    /// Returns the greatest length of the space map's records, for the present vdevs.
    pub(in crate::engine) fn space_records_len(&self) -> usize {
        let vdevs = 0..self.space_vdevs();
        let lens = vdevs.map(|vdev| {
            let written = self.persisted.index.get(usize::from(vdev));
            let nodes = (self.space_pages(vdev) as usize).div_ceil(FAN_OUT);
            SPACE + nodes.max(written.map_or(0, Vec::len)) * SPACE_NODE
        });
        lens.sum()
    }

    /// Returns the most bytes that the records of structures being freed take.
    fn freeing_len(&self) -> usize {
        let jobs = (self.jobs_being_freed()).map(crate::engine::manifest::Job::most_bytes);
        jobs.sum::<usize>() + self.trees_being_freed() * TREE
    }

    /// Returns the most bytes that the records of these datasets can take, after any writes,
    /// destructions, resizes and rollbacks. The records that one rollback leaves are included.
    pub(in crate::engine) fn count_lists(&self, catalog: &Catalog) -> usize {
        let owners = Owners::of(self);
        // This counts the snapshots that each dataset builds on. The snapshots have lower numbers,
        // since they were taken before.
        let mut depths: BTreeMap<DatasetId, usize> = BTreeMap::new();
        let (mut sum, mut longest) = (0, 0);
        let snapshots = catalog.datasets().filter(|of| of.as_snapshot().is_some());
        let others = catalog.datasets().filter(|of| of.as_snapshot().is_none());
        for dataset in snapshots.chain(others) {
            let depth = dataset.previous().map_or(0, |previous| {
                let known = depths.get(&previous).map(|depth| depth + 1);
                known.unwrap_or_else(|| catalog.chain(dataset.id).count())
            });
            sum += longest_entry(dataset);
            sum += match &dataset.kind {
                DatasetKind::Folder => 0,
                DatasetKind::Snapshot(_) => {
                    depths.insert(dataset.id, depth);
                    let parts = match owners.is_settled(dataset.id) {
                        true => owners.lists(dataset.id).map(Deadlist::parts).sum(),
                        false => depth + owners.stale_parts(catalog, dataset.id),
                    };
                    CONTENTS + parts * PART
                }
                DatasetKind::Volume(volume) => {
                    let parts = depth + owners.stale_parts(catalog, dataset.id);
                    longest = longest.max(parts);
                    let ahead = volume.receiving.as_ref().map(|_| snapshot_ahead(depth));
                    CONTENTS + parts * PART + ahead.unwrap_or(0)
                }
            };
        }
        sum + left_by_rollback(longest)
    }
}

/// Owners of the dead lists, including lists that a checkpoint is just writing.
struct Owners<'a> {
    pool: &'a Pool,
    /// Volumes whose lists snapshots have that were taken since the checkpoint began.
    heirs: BTreeMap<DatasetId, DatasetId>,
}

impl<'a> Owners<'a> {
    fn of(pool: &'a Pool) -> Self {
        let making = pool.making().into_iter();
        let heirs = making.flat_map(|making| &making.heirs);
        let heirs = heirs.map(|(volume, heir)| (*heir, *volume)).collect();
        Self { pool, heirs }
    }

    fn lists(&self, dataset: DatasetId) -> impl Iterator<Item = &'a Deadlist> {
        let making = self.pool.making();
        let own = making.filter(|making| !making.heirs.contains_key(&dataset));
        let own = own.and_then(|making| making.dead.get(&dataset));
        let inherited = making.zip(self.heirs.get(&dataset));
        let inherited = inherited.and_then(|(making, volume)| making.dead.get(volume));
        let listed = self.pool.contents_of(dataset).map(|of| &of.dead);
        listed.into_iter().chain(own).chain(inherited)
    }

    /// Reports whether only destructions can still add to the list of a snapshot.
    fn is_settled(&self, snapshot: DatasetId) -> bool {
        let of = self.pool.contents_of(snapshot);
        let is_merged = of.is_some_and(|of| of.map.layers.closed().is_empty());
        is_merged && !self.heirs.contains_key(&snapshot)
    }

    fn stale_parts(&self, catalog: &Catalog, dataset: DatasetId) -> usize {
        let lists = self.lists(dataset).filter(|list| !list.is_empty());
        let mut epochs = None;
        let stale = lists.map(|list| {
            list.stale_parts(epochs.get_or_insert_with(|| catalog.shared_epochs(dataset)))
        });
        stale.sum()
    }
}

/// Returns the greatest length of a dataset's catalogue entry after changes that are never refused,
/// with the comma after it. Numbers grow, including that of an attempt to receive, and a volume may
/// get a refreservation that follows its size.
fn longest_entry(dataset: &Dataset) -> usize {
    let id = |of: DatasetId| ID_DIGITS - digits(of.0.into());
    let mut more = id(dataset.parent) + dataset.previous().map_or(0, id);
    if let DatasetKind::Volume(volume) = &dataset.kind {
        let receiving = volume.receiving.iter();
        let numbers = receiving.flat_map(|of| [of.position, of.attempt]);
        let reserved = dataset.properties.get(&Native::Refreservation.into());
        more += DIGITS - digits(volume.size);
        more += numbers.map(|number| DIGITS - digits(number)).sum::<usize>();
        more += match reserved {
            Some(value) => DIGITS.saturating_sub(value.to_string().len()),
            None if dataset.properties.is_empty() => {
                r#""properties":{"refreservation":""},"#.len() + DIGITS
            }
            None => r#""refreservation":"","#.len() + DIGITS,
        };
    }
    json_len(dataset) + 1 + more
}

fn digits(number: u64) -> usize {
    number.checked_ilog10().map_or(1, |log| log as usize + 1)
}

/// Returns the most bytes that an operation adds; 0 if it is never refused.
fn growth(catalog: &Catalog, operation: &Operation) -> usize {
    let len = || json_len(operation);
    let depth = |volume: DatasetId| catalog.chain(volume).count();
    match operation {
        Operation::CreateFolder { folders } | Operation::Rename { folders, .. } => {
            len() + folders.len() * ENTRY
        }
        Operation::CreateVolume { folders, volume } => {
            let ahead = volume.receiving.as_ref().map(|_| snapshot_ahead(0));
            len() + (folders.len() + 1) * ENTRY + CONTENTS + ahead.unwrap_or(0)
        }
        Operation::Clone { folders, clone } => {
            let shared = depth(clone.origin) + 1;
            let ahead = clone.receiving.as_ref().map(|_| snapshot_ahead(shared));
            let lists = shared * (PART + LISTED) + ahead.unwrap_or(0);
            len() + (folders.len() + 1) * ENTRY + CONTENTS + lists
        }
        Operation::Snapshot(taken) => len() + taken_growth(catalog, taken),
        Operation::EndReceive { taken, .. } => len() + taken_growth(catalog, taken),
        Operation::BeginReceive { volume, .. } => len() + snapshot_ahead(depth(*volume)),
        Operation::SetProperty { .. } => len(),
        Operation::Hold { snapshots, tag, .. } => snapshots.len() * (json_len(tag) + 48),
        Operation::Destroy { .. }
        | Operation::Rollback { .. }
        | Operation::Promote { .. }
        | Operation::Inherit { .. }
        | Operation::Resize { .. }
        | Operation::Release { .. }
        | Operation::NoteReceived { .. }
        | Operation::Note(_) => 0,
    }
}

/// Returns the bytes that snapshots add. Each gets its volume's list at its greatest length, and
/// the volume begins another list.
fn taken_growth(catalog: &Catalog, taken: &NewSnapshots) -> usize {
    let each = ENTRY + CONTENTS + json_len(&taken.properties);
    let volumes = taken.snapshots.iter();
    let all = volumes.map(|new| {
        let depth = catalog.chain(new.volume).count();
        each + (depth + 1) * PART + LISTED
    });
    all.sum()
}

/// Returns the bytes added by the snapshot that ends a receive, without the properties that come
/// with it.
fn snapshot_ahead(depth: usize) -> usize {
    LONGEST_SNAPSHOT + CONTENTS + (depth + 1) * PART
}

/// Returns the bytes of the records that a rollback leaves of a volume that builds on `depth`
/// snapshots.
fn left_by_rollback(depth: usize) -> usize {
    TREE + LIST + depth * LISTED
}
