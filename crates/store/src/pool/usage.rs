//! What datasets take, in zfs's parts: by themselves, by their snapshots, by what is kept for them. As of the last
//! checkpoint; parity is not counted. Nodes of maps count where only a snapshot keeps them, and as written where they
//! replaced others.

use std::collections::BTreeMap;

use super::state::{Contents, Pool};
use crate::catalog::{Dataset, Kind};
use crate::format::{DatasetId, Epoch, SECTOR_SIZE};
use crate::snapshot::deadlist::{BlockCount, Figure};

/// Blocks of volumes, in bytes. Nodes of maps, parity, and what is only kept are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockBytes {
    /// As they were written.
    pub logical: u64,
    /// As they lie on disks, compressed.
    pub physical: u64,
}

impl BlockBytes {
    /// How many bytes were written for each byte that is stored, in hundredths; 100 where there is nothing.
    pub fn ratio_percent(&self) -> u64 {
        match self.physical {
            0 => 100,
            stored => (u128::from(self.logical) * 100 / u128::from(stored)) as u64,
        }
    }

    fn new(count: BlockCount, block_size: u32) -> Self {
        Self {
            logical: count.blocks.saturating_mul(block_size.into()),
            physical: bytes(count.sectors),
        }
    }
}

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
    /// The blocks of `by_dataset` and `by_snapshots`, or of `by_children`; not told of snapshots. `None`: a program
    /// wrote some of it that did not count blocks.
    pub used_blocks: Option<BlockBytes>,
    /// The blocks of `referenced`, in the same way; not told of folders.
    pub referenced_blocks: Option<BlockBytes>,
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
        let children: Vec<_> = children.filter_map(|child| below.get(&child.id)).collect();
        let by_children = children.iter().map(|usage| usage.used).sum();
        let mut blocks = children.iter().map(|usage| usage.used_blocks);
        let used_blocks = blocks.try_fold(BlockBytes::default(), |sum, of| {
            Some(BlockBytes {
                logical: sum.logical.saturating_add(of?.logical),
                physical: sum.physical.saturating_add(of?.physical),
            })
        });
        Some(DatasetUsage {
            used: by_children,
            by_children,
            used_blocks,
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
        let sum = |after| lists.iter().map(|of| self.dead(*of, after).sectors).sum();
        let (lost, by_snapshots): (u64, u64) = (sum(Epoch(0)), sum(since));
        let origin_has = origin.and_then(|origin| self.contents.get(&origin));
        let shared = origin_has.map_or(0, |of| of.referenced.sectors);
        let shared = shared.saturating_sub(lost.saturating_sub(by_snapshots));
        let by_dataset = bytes(contents.referenced.sectors.saturating_sub(shared));
        let by_snapshots = bytes(by_snapshots);
        let by_refreservation = self.kept_for(volume, contents);
        Some(DatasetUsage {
            used: by_dataset + by_snapshots + by_refreservation,
            referenced: bytes(contents.referenced.sectors),
            written: self.written(volume, contents),
            by_dataset,
            by_snapshots,
            by_refreservation,
            by_children: 0,
            used_blocks: self.used_blocks(volume, contents),
            referenced_blocks: referenced_blocks(contents),
        })
    }

    /// The blocks that a volume and its snapshots have, and its origin has not.
    fn used_blocks(&self, volume: DatasetId, contents: &Contents) -> Option<BlockBytes> {
        let origin = self.catalog.origin(volume);
        let since = origin.map_or(Epoch(0), |origin| self.epoch_of(origin));
        let own = self.catalog.snapshots(volume);
        let lists: Vec<DatasetId> = own.iter().map(|of| of.id).chain([volume]).collect();
        let lost_after = |after| {
            let mut counts = lists.iter().map(|of| self.dead(*of, after).volume_blocks());
            counts.try_fold(BlockCount::default(), |sum, of| Some(sum.and(of?)))
        };
        let (lost, by_snapshots) = (lost_after(Epoch(0))?, lost_after(since)?);
        let shared = match origin.and_then(|origin| self.contents.get(&origin)) {
            // What the volume and its snapshots have lost of the origin's blocks is not theirs.
            Some(origin) => count_of(origin)?.without(lost.without(by_snapshots)),
            None => BlockCount::default(),
        };
        let own = count_of(contents)?.without(shared).and(by_snapshots);
        Some(BlockBytes::new(own, contents.block_size))
    }

    fn snapshot_usage(&self, snapshot: &Dataset) -> Option<DatasetUsage> {
        let contents = self.contents.get(&snapshot.id)?;
        let next = self.catalog.next_of_volume(snapshot);
        let before = self.catalog.shared_until(snapshot.id);
        Some(DatasetUsage {
            used: bytes(self.dead(next, before).sectors),
            referenced: bytes(contents.referenced.sectors),
            written: self.written(snapshot.id, contents),
            referenced_blocks: referenced_blocks(contents),
            ..DatasetUsage::default()
        })
    }

    /// The blocks that a dataset has and the snapshot before it has not; `None` where they were not counted.
    pub(super) fn written_count(
        &self,
        dataset: DatasetId,
        contents: &Contents,
    ) -> Option<BlockCount> {
        let before = self.catalog.chain(dataset).next();
        let kept = match before.and_then(|of| self.contents.get(&of.id)) {
            Some(before) => {
                let lost = self.dead(dataset, Epoch(0)).volume_blocks()?;
                count_of(before)?.without(lost)
            }
            None => BlockCount::default(),
        };
        Some(count_of(contents)?.without(kept))
    }

    /// How many of these are not packed; `None` as before.
    pub(super) fn whole_count(&self, dataset: DatasetId, contents: &Contents) -> Option<u64> {
        let before = self.catalog.chain(dataset).next();
        let kept = match before.and_then(|of| self.contents.get(&of.id)) {
            Some(before) => {
                let lost = self.dead(dataset, Epoch(0)).whole_blocks();
                before.referenced.whole?.saturating_sub(lost?)
            }
            None => 0,
        };
        Some(contents.referenced.whole?.saturating_sub(kept))
    }

    fn written(&self, dataset: DatasetId, contents: &Contents) -> u64 {
        let before = self.catalog.chain(dataset).next();
        let before = before.and_then(|of| self.contents.get(&of.id));
        let kept = before.map_or(0, |of| {
            (of.referenced.sectors).saturating_sub(self.dead(dataset, Epoch(0)).sectors)
        });
        bytes(contents.referenced.sectors.saturating_sub(kept))
    }

    /// What is reserved and not used; where a volume builds on a snapshot, all of it may be written anew.
    fn kept_for(&self, volume: DatasetId, contents: &Contents) -> u64 {
        match contents.settings.copies {
            1 => self.unused_bytes(volume, contents),
            _ => self.unused_places(volume, contents) * u64::from(contents.block_size),
        }
    }

    /// What a dead list has that was born after an epoch, as of the last checkpoint; one that is being made has taken it.
    fn dead(&self, dataset: DatasetId, after: Epoch) -> Figure {
        let listed = self.contents.get(&dataset).map(|of| of.dead.after(after));
        let making = self.checkpoint.iter().flat_map(|making| {
            let own = Some(dataset).filter(|of| !making.heirs.contains_key(of));
            let inherited = making.heirs.iter().filter(|(_, heir)| **heir == dataset);
            let lists = own.into_iter().chain(inherited.map(|(volume, _)| *volume));
            let figures = lists.filter_map(|list| making.dead_before.get(&list));
            figures.map(|figures| figures.after(after))
        });
        listed
            .into_iter()
            .chain(making)
            .fold(Figure::default(), Figure::and)
    }

    fn epoch_of(&self, snapshot: DatasetId) -> Epoch {
        let of = self.catalog.dataset(snapshot);
        of.and_then(Dataset::as_snapshot)
            .map_or(Epoch(0), |of| of.epoch)
    }
}

/// A dataset's blocks, where they were counted.
fn count_of(contents: &Contents) -> Option<BlockCount> {
    let blocks = contents.referenced.blocks?;
    let sectors = contents.referenced.sectors;
    Some(BlockCount { blocks, sectors })
}

fn referenced_blocks(contents: &Contents) -> Option<BlockBytes> {
    Some(BlockBytes::new(count_of(contents)?, contents.block_size))
}

fn bytes(sectors: u64) -> u64 {
    sectors * SECTOR_SIZE as u64
}
