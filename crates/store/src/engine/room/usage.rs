//! Counts the space of datasets, in the parts that zfs shows: their own, their snapshots', and
//! space reserved for them. Parity is not counted.
//!
//! Figures are of the present: the counts of the last checkpoint, plus the effect of the layers
//! above the trees ([`Tally`]). They differ from the counts of the next checkpoint in two ways
//! only:
//! - A node of a map counts as written if it replaces another one, and for a snapshot if only the
//!   snapshot keeps it. Both are known only after a checkpoint has replaced the node.
//! - If the leaf of a replaced block is not in memory, the block is a guess. The guess takes the
//!   volume to be equally full everywhere. Guessed blocks that snapshots keep count for their
//!   volume; if there is only one snapshot, they also count as its own.
//!
//! Admission uses the counts of the last checkpoint ([`Moment::Checkpoint`]), since a guess must
//! not promise space.

use std::collections::BTreeMap;

use crate::catalog::{Dataset, DatasetKind};
use crate::engine::contents::{Contents, Referenced};
use crate::engine::state::Pool;
use crate::format::{DatasetId, Epoch, SECTOR_SIZE};
use crate::map::{Count, Tally};
use crate::snapshot::deadlist::{BlockCount, Figure};

/// Moment of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum Moment {
    /// The moment of the last durable checkpoint.
    Checkpoint,
    Now,
}

/// Blocks of a dataset, beside the blocks of the snapshot that it builds on.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct Own {
    pub(in crate::engine) referenced: Referenced,
    /// Blocks of that snapshot; `None` if the dataset builds on none.
    pub(in crate::engine) before: Option<Referenced>,
    /// Blocks of the snapshot that the dataset lost.
    lost: Figure,
}

impl Own {
    /// Returns the blocks that the dataset has and the snapshot before it lacks; `None` if they
    /// were not counted.
    pub(in crate::engine) fn written(&self) -> Option<BlockCount> {
        let kept = match self.before {
            Some(before) => count_of(before)?.without(self.lost.volume_blocks()?),
            None => BlockCount::default(),
        };
        Some(count_of(self.referenced)?.without(kept))
    }

    /// Returns how many of the written blocks are not compressed; `None` if they were not counted.
    pub(in crate::engine) fn whole(&self) -> Option<u64> {
        let kept = match self.before {
            Some(before) => before.whole?.saturating_sub(self.lost.whole_blocks()?),
            None => 0,
        };
        Some(self.referenced.whole?.saturating_sub(kept))
    }

    /// Returns the sectors of the written blocks, including nodes of maps that replaced others.
    fn written_sectors(&self) -> u64 {
        let before = self.before.map_or(0, |before| before.sectors);
        let kept = before.saturating_sub(self.lost.sectors);
        self.referenced.sectors.saturating_sub(kept)
    }
}

/// Bytes of volumes' blocks. Nodes of maps, parity and reserved space are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockBytes {
    /// Bytes as they were written.
    pub logical: u64,
    /// Bytes as they lie on disks, compressed.
    pub physical: u64,
}

impl BlockBytes {
    /// Returns the bytes written for each byte stored, in hundredths; 100 if there are none.
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
    /// All space of the dataset: for volumes and folders the sum of the parts below; for a snapshot
    /// the space of its own only.
    pub used: u64,
    /// Space of all blocks that can be reached through the dataset.
    pub referenced: u64,
    /// Space that was written since the snapshot before it.
    pub written: u64,
    /// Space that destroying the dataset alone would free, if it had no snapshots.
    pub by_dataset: u64,
    /// Space that only its snapshots keep.
    pub by_snapshots: u64,
    /// Space that is reserved for the dataset and not used yet.
    pub by_refreservation: u64,
    /// Space that the datasets below a folder take.
    pub by_children: u64,
    /// Space that data of a volume may still take, uncompressed. For a folder: the largest volume
    /// it could still get, with all of it reserved. `None` for snapshots.
    pub available: Option<u64>,
    /// Blocks of `by_dataset` and `by_snapshots`, or of `by_children`. `None` for snapshots, and if
    /// some were written by a program that did not count blocks.
    pub used_blocks: Option<BlockBytes>,
    /// Blocks of `referenced`; `None` if some were written by a program that did not count blocks.
    pub referenced_blocks: Option<BlockBytes>,
}

impl Pool {
    /// Returns the space that each dataset takes.
    pub fn usage(&self) -> BTreeMap<DatasetId, DatasetUsage> {
        self.usage_below(crate::catalog::ROOT, true)
    }

    /// Returns the space that a dataset takes, and each dataset below it. The figures of snapshots
    /// are left out unless they are wanted, because there may be very many.
    pub fn usage_below(
        &self,
        start: DatasetId,
        with_snapshots: bool,
    ) -> BTreeMap<DatasetId, DatasetUsage> {
        let mut all = BTreeMap::new();
        let mut datasets = self.catalog().subtree(start);
        // Datasets below a folder now come before the folder.
        datasets.reverse();
        for dataset in datasets {
            let usage = match dataset.kind {
                DatasetKind::Folder => self.folder_usage(dataset.id, &all),
                DatasetKind::Volume(_) => self.volume_usage(dataset.id),
                // The figures of volumes and folders do without those of snapshots.
                DatasetKind::Snapshot(_) if !with_snapshots && dataset.id != start => continue,
                DatasetKind::Snapshot(_) => self.snapshot_usage(dataset),
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
        let children = self.catalog().children(folder);
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
            available: Some(self.room_for_volume(folder)),
            used_blocks,
            referenced_blocks: Some(BlockBytes::default()),
            ..DatasetUsage::default()
        })
    }

    fn volume_usage(&self, volume: DatasetId) -> Option<DatasetUsage> {
        let contents = self.contents_of(volume)?;
        let own = self.own(volume, contents, Moment::Now);
        let origin = self.catalog().origin(volume);
        let since = origin.map_or(Epoch(0), |origin| self.epoch_of(origin));
        let snapshots = self.catalog().snapshots(volume);
        let lists: Vec<DatasetId> = snapshots.iter().map(|of| of.id).chain([volume]).collect();
        // Every block that the volume has lost is on one of these lists.
        let sum = |after| {
            let figures = lists.iter().map(|of| self.dead(*of, after, Moment::Now));
            figures.fold(Figure::default(), Figure::and)
        };
        let lost = sum(Epoch(0));
        // A volume that is no clone owns all that it has lost.
        let by_snapshots = match origin {
            None => lost,
            Some(_) => sum(since),
        };
        let origin_has = origin.and_then(|origin| self.contents_of(origin));
        let origin_has = origin_has.map(|of| self.referenced(of, Moment::Now));
        let shared = origin_has.map_or(0, |of| of.sectors);
        let shared = shared.saturating_sub(lost.sectors.saturating_sub(by_snapshots.sectors));
        let by_dataset = bytes(own.referenced.sectors.saturating_sub(shared));
        // These are the blocks that a volume and its snapshots have, and its origin has not.
        let used_blocks = || {
            let (lost, by_snapshots) = (lost.volume_blocks()?, by_snapshots.volume_blocks()?);
            let shared = match origin_has {
                // Blocks of the origin that the volume and its snapshots have lost are not theirs.
                Some(origin) => count_of(origin)?.without(lost.without(by_snapshots)),
                None => BlockCount::default(),
            };
            let used = count_of(own.referenced)?.without(shared).and(by_snapshots);
            Some(BlockBytes::new(used, contents.block_size))
        };
        let by_refreservation = self.kept_for(contents, &own);
        Some(DatasetUsage {
            used: by_dataset + bytes(by_snapshots.sectors) + by_refreservation,
            referenced: bytes(own.referenced.sectors),
            written: bytes(own.written_sectors()),
            by_dataset,
            by_snapshots: bytes(by_snapshots.sectors),
            by_refreservation,
            by_children: 0,
            available: Some(self.available_to(volume, contents)),
            used_blocks: used_blocks(),
            referenced_blocks: referenced_blocks(own.referenced, contents),
        })
    }

    fn snapshot_usage(&self, snapshot: &Dataset) -> Option<DatasetUsage> {
        let contents = self.contents_of(snapshot.id)?;
        let own = self.own(snapshot.id, contents, Moment::Now);
        let next = self.catalog().next_of_volume(snapshot);
        let before = self.catalog().shared_until(snapshot.id);
        Some(DatasetUsage {
            used: bytes(self.dead(next, before, Moment::Now).sectors),
            referenced: bytes(own.referenced.sectors),
            written: bytes(own.written_sectors()),
            referenced_blocks: referenced_blocks(own.referenced, contents),
            ..DatasetUsage::default()
        })
    }

    /// Returns the space that is reserved and not used. If a volume builds on a snapshot, all of
    /// the volume may be rewritten.
    fn kept_for(&self, contents: &Contents, own: &Own) -> u64 {
        match contents.settings.copies {
            1 => self.unused_bytes(contents, own),
            _ => self.unused_places(contents, own) * u64::from(contents.block_size),
        }
    }

    pub(in crate::engine) fn own(
        &self,
        dataset: DatasetId,
        contents: &Contents,
        at: Moment,
    ) -> Own {
        let before = self.catalog().chain(dataset).next();
        let before = before.and_then(|of| self.contents_of(of.id));
        Own {
            referenced: self.referenced(contents, at),
            before: before.map(|of| self.referenced(of, at)),
            lost: self.dead(dataset, Epoch(0), at),
        }
    }

    /// Returns the counts of a dataset's blocks.
    pub(in crate::engine) fn referenced(&self, of: &Contents, at: Moment) -> Referenced {
        match at {
            Moment::Checkpoint => of.referenced,
            Moment::Now => {
                let now = of.map.count(&self.node_cache, counted(of), places(of));
                let then = of.referenced;
                Referenced {
                    sectors: now.sectors,
                    blocks: then.blocks.map(|_| now.blocks),
                    whole: then.whole.map(|_| now.whole),
                }
            }
        }
    }

    /// Counts the blocks of a dead list that were born after an epoch.
    fn dead(&self, dataset: DatasetId, after: Epoch, at: Moment) -> Figure {
        let listed = self.listed(dataset, after);
        match at {
            Moment::Checkpoint => listed,
            Moment::Now => listed.and(self.to_be_listed(dataset, after)),
        }
    }

    /// Counts the dead list as of the last checkpoint. A checkpoint being made has taken that list.
    fn listed(&self, dataset: DatasetId, after: Epoch) -> Figure {
        let listed = self.contents_of(dataset).map(|of| of.dead.after(after));
        let making = self.making().into_iter().flat_map(|making| {
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

    /// Counts the blocks that checkpoints will add to the dead list: the dataset's own layers
    /// replace them, and the snapshot before it holds them.
    fn to_be_listed(&self, dataset: DatasetId, after: Epoch) -> Figure {
        let (Some(of), Some(before)) = (
            self.contents_of(dataset),
            self.catalog().chain(dataset).next(),
        ) else {
            return Figure::default();
        };
        let since = self.epoch_of(before.id);
        let mut beneath = counted(of);
        let mut sum = Count::default();
        let closed = of.map.closed(&self.node_cache);
        let closed = closed.map(|(closed, tally)| (closed.epoch > since, tally));
        let top = of.map.tally(&self.node_cache);
        for (is_own, tally) in closed.chain([(true, &*top)]) {
            if is_own {
                let held = tally.held_until(since).filter(|(born, _)| *born >= after);
                sum = held.fold(sum, |sum, (_, count)| sum.and(count));
                if after == Epoch(0) {
                    sum = sum.and(self.guessed_held(before.id, of, (tally, beneath), sum));
                }
            }
            beneath = tally.above(beneath, places(of));
        }
        sum.into()
    }

    /// Guesses how many of the blocks that a layer replaces unseen the snapshot below the dataset
    /// holds. The guess is the share of blocks that both have. `lost` counts the blocks that the
    /// dataset has lost of the snapshot's beside its list.
    fn guessed_held(
        &self,
        snapshot: DatasetId,
        of: &Contents,
        (tally, beneath): (&Tally, Count),
        lost: Count,
    ) -> Count {
        if tally.is_exact() {
            return Count::default();
        }
        let shared = self.contents_of(snapshot).map_or(0, |of| {
            let snapshot = self.referenced(of, Moment::Now);
            snapshot.sectors
        });
        let shared = shared.saturating_sub(of.dead.sectors() + lost.sectors);
        let rest = beneath.without(tally.replaced()).sectors;
        let guessed = tally.guessed(beneath, places(of));
        guessed.share(shared.min(rest), rest)
    }

    fn epoch_of(&self, snapshot: DatasetId) -> Epoch {
        let of = self.catalog().dataset(snapshot);
        of.and_then(Dataset::as_snapshot)
            .map_or(Epoch(0), |of| of.epoch)
    }
}

/// Returns the count of a dataset's blocks; `None` if they were not counted.
fn count_of(referenced: Referenced) -> Option<BlockCount> {
    let (blocks, sectors) = (referenced.blocks?, referenced.sectors);
    Some(BlockCount { blocks, sectors })
}

fn referenced_blocks(referenced: Referenced, of: &Contents) -> Option<BlockBytes> {
    Some(BlockBytes::new(count_of(referenced)?, of.block_size))
}

/// Returns the count of the blocks of a dataset's tree. If they were not counted, it is the least
/// that there can be.
fn counted(of: &Contents) -> Count {
    let sectors = of.referenced.sectors;
    let longest = u64::from(of.block_size) / SECTOR_SIZE as u64;
    Count {
        blocks: of.referenced.blocks.unwrap_or(sectors / longest.max(1)),
        sectors,
        whole: of.referenced.whole.unwrap_or(0),
    }
}

/// Returns the most blocks that a dataset can have.
fn places(of: &Contents) -> u64 {
    of.size.div_ceil(of.block_size.into())
}

fn bytes(sectors: u64) -> u64 {
    sectors * SECTOR_SIZE as u64
}
