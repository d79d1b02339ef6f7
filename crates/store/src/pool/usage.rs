//! What datasets take, in zfs's parts: by themselves, by their snapshots, by what is kept for them. As of the last
//! checkpoint; parity is not counted. Nodes of maps count where only a snapshot keeps them, and as written where they
//! replaced others.

use std::collections::BTreeMap;

use super::state::{Contents, Pool};
use crate::catalog::{Dataset, Kind};
use crate::format::{DatasetId, Epoch, SECTOR_SIZE};

/// Space that a dataset takes, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DatasetUsage {
    /// All of it: of volumes and folders the sum of the parts below, of a snapshot what only it has.
    pub used: u64,
    /// What can be reached through it.
    pub referenced: u64,
    /// What was written since the snapshot before it.
    pub written: u64,
    /// What destroying it alone would free, were there no snapshots.
    pub by_dataset: u64,
    /// What only its snapshots keep.
    pub by_snapshots: u64,
    /// What is kept for it and not used yet.
    pub by_refreservation: u64,
    /// What lies below a folder takes.
    pub by_children: u64,
}

impl Pool {
    /// What all datasets take.
    pub fn usage(&self) -> BTreeMap<DatasetId, DatasetUsage> {
        let mut all = BTreeMap::new();
        let mut datasets = self.catalog.subtree(crate::catalog::ROOT);
        // What lies below comes first now.
        datasets.reverse();
        for dataset in datasets {
            let usage = match dataset.kind {
                Kind::Folder => self.folder_usage(dataset.id, &all),
                Kind::Volume(_) => self.volume_usage(dataset.id),
                Kind::Snapshot(_) => self.snapshot_usage(dataset),
            };
            all.insert(dataset.id, usage.unwrap_or_default());
        }
        all
    }

    fn folder_usage(
        &self,
        folder: DatasetId,
        below: &BTreeMap<DatasetId, DatasetUsage>,
    ) -> Option<DatasetUsage> {
        let children = self.catalog.children(folder);
        // A folder's snapshots have no blocks of their own.
        let used = children.filter_map(|child| below.get(&child.id));
        let by_children = used.map(|usage| usage.used).sum();
        Some(DatasetUsage {
            used: by_children,
            by_children,
            ..DatasetUsage::default()
        })
    }

    fn volume_usage(&self, volume: DatasetId) -> Option<DatasetUsage> {
        let contents = self.contents.get(&volume)?;
        let origin = self.catalog.origin(volume);
        let since = origin.map_or(Epoch(0), |origin| self.epoch_of(origin));
        let own = self.catalog.snapshots(volume);
        let lists: Vec<DatasetId> = own.iter().map(|of| of.id).chain([volume]).collect();
        // Every block that the volume has lost is on one of these lists.
        let sum = |after| lists.iter().map(|of| self.dead_after(*of, after)).sum();
        let (lost, by_snapshots): (u64, u64) = (sum(Epoch(0)), sum(since));
        let origin_has = origin.and_then(|origin| self.contents.get(&origin));
        let shared = origin_has.map_or(0, |of| of.referenced);
        let shared = shared.saturating_sub(lost.saturating_sub(by_snapshots));
        let by_dataset = bytes(contents.referenced.saturating_sub(shared));
        let by_snapshots = bytes(by_snapshots);
        let by_refreservation = self.kept_for(volume, contents);
        Some(DatasetUsage {
            used: by_dataset + by_snapshots + by_refreservation,
            referenced: bytes(contents.referenced),
            written: self.written(volume, contents),
            by_dataset,
            by_snapshots,
            by_refreservation,
            by_children: 0,
        })
    }

    fn snapshot_usage(&self, snapshot: &Dataset) -> Option<DatasetUsage> {
        let contents = self.contents.get(&snapshot.id)?;
        let own = self.catalog.snapshots(snapshot.parent);
        let next = own.iter().position(|of| of.id == snapshot.id);
        let next = next.and_then(|at| own.get(at + 1));
        let next = next.map_or(snapshot.parent, |of| of.id);
        let before = self.catalog.shared_until(snapshot.id);
        Some(DatasetUsage {
            used: bytes(self.dead_after(next, before)),
            referenced: bytes(contents.referenced),
            written: self.written(snapshot.id, contents),
            ..DatasetUsage::default()
        })
    }

    fn written(&self, dataset: DatasetId, contents: &Contents) -> u64 {
        let before = self.catalog.chain(dataset).next();
        let before = before.and_then(|of| self.contents.get(&of.id));
        let kept = before.map_or(0, |of| {
            of.referenced
                .saturating_sub(self.dead_after(dataset, Epoch(0)))
        });
        bytes(contents.referenced.saturating_sub(kept))
    }

    /// What is reserved and not used; where a volume builds on a snapshot, all of it may be written anew.
    fn kept_for(&self, volume: DatasetId, contents: &Contents) -> u64 {
        let wanted = contents.settings.refreservation;
        match self.catalog.chain(volume).next() {
            Some(_) => wanted,
            None => wanted.saturating_sub(bytes(contents.referenced)),
        }
    }

    /// Sectors on a dead list that were born after an epoch, also those that a checkpoint is just writing.
    fn dead_after(&self, dataset: DatasetId, after: Epoch) -> u64 {
        let listed = self.contents.get(&dataset);
        let listed = listed.map_or(0, |of| of.dead.sectors_after(after));
        let making = self.checkpoint.as_ref().map_or(0, |making| {
            let lists = making.dead.iter();
            let own = lists.filter(|(id, _)| *making.heirs.get(id).unwrap_or(id) == dataset);
            own.map(|(_, list)| list.sectors_after(after)).sum()
        });
        listed + making
    }

    fn epoch_of(&self, snapshot: DatasetId) -> Epoch {
        let of = self.catalog.dataset(snapshot);
        of.and_then(Dataset::as_snapshot)
            .map_or(Epoch(0), |of| of.epoch)
    }
}

fn bytes(sectors: u64) -> u64 {
    sectors * SECTOR_SIZE as u64
}
