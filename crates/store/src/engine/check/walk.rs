//! Walks everything that a checkpoint and the log after it lead to, and claims sectors for their
//! owners.

use std::sync::Arc;

use super::super::contents::Referenced;
use super::super::manifest::Job;
use super::descent::{Descent, Difference};
use super::log::Records;
use super::report::{FindingKind, Owner};
use super::{Check, CheckStage, Wanted};
use crate::format::{DatasetId, Epoch, Extent, NodeId, Pointer};
use crate::map::walk::{Progress, Visit, Walk};
use crate::map::{Hit, Layer, Missing, Tree};
use crate::snapshot::deadlist::{BlockCount, Deadlist, Figure, Unread};
use crate::vdev::Block;

/// Part of the walk.
#[derive(Debug)]
pub(super) enum Task {
    /// Tree of a dataset: finds the blocks of its own, and the blocks that its dead list must have.
    Tree {
        descent: Descent,
        /// Counts of the blocks of the snapshot before.
        shared: Referenced,
    },
    /// Dead list of a dataset.
    Dead {
        dataset: DatasetId,
        list: Deadlist,
        /// Epochs of the snapshots before, ascending. Each has the sectors of the blocks born after
        /// it, up to the next epoch.
        sectors: Vec<(Epoch, u64)>,
        /// Figures of the list for each of these epochs and all later ones.
        said: Vec<Figure>,
    },
    /// Tree that is being freed.
    Freeing(Walk),
    /// List that is being freed, and whether its blocks are freed too.
    FreeingList(Deadlist, bool),
    /// Records of the log that are to be read.
    Log(Records),
}

impl Check<'_> {
    /// Claims the sectors that are known at once, and notes what is to be walked.
    pub(super) fn begin_walk(&mut self) {
        self.claim_persisted();
        self.claim_log();
        let dropped: Vec<Extent> = self.pool.extents_being_freed().collect();
        for extent in dropped {
            if extent.sectors > 0 {
                self.claim(Owner::Dropped, extent);
            }
        }
        self.claim_layers();
        for (vdev, top) in (0..).zip(self.pool.vdev_tree().top_levels) {
            for extent in top.inner_extents(vdev) {
                self.claim(Owner::InnerLabels { vdev }, extent);
            }
        }
        let datasets: Vec<DatasetId> = self.pool.datasets_in_use().map(|(id, _)| *id).collect();
        for dataset in datasets {
            self.plan_dataset(dataset);
        }
        for job in self.pool.destroyed.jobs() {
            self.tasks.push_back(match job {
                Job::Tree {
                    tree,
                    after,
                    position,
                } => Task::Freeing(Walk::new(tree, *position, Some(*after))),
                Job::Dead(list) => Task::FreeingList(list.clone(), true),
                Job::Chunks(list) => Task::FreeingList(list.clone(), false),
            });
        }
        for dying in self.pool.destroyed.dying() {
            let walk = Walk::new(&dying.map.tree, 0, Some(dying.after));
            self.tasks.push_back(Task::Freeing(walk));
        }
    }

    fn claim_block(&mut self, owner: Owner, pointer: &Pointer) {
        if !pointer.is_hole() && !pointer.is_lost() {
            self.claim_copies(owner, pointer);
            let extent = self.extent_at(pointer.address, pointer.sectors);
            if !self.shared.has_all(extent) {
                self.queue_copies(owner, pointer);
            }
        }
    }

    /// Claims the sectors of a block, of both its copies.
    fn claim_copies(&mut self, owner: Owner, pointer: &Pointer) {
        for extent in self.pool.extents_of(pointer) {
            self.claim(owner, extent);
        }
    }

    /// Notes a block that several owners may need, so that nobody can tell whether it is allocated
    /// twice.
    fn share_block(&mut self, owner: Owner, pointer: &Pointer) {
        let extents = self.pool.extents_of(pointer);
        if self.stage == CheckStage::Hunt || !extents.iter().all(|of| self.shared.holds(*of)) {
            return self.claim_copies(owner, pointer);
        }
        let is_reached = extents.iter().all(|of| self.reached.has_all(*of));
        let new = extents.iter().map(|of| self.shared.set(*of));
        if new.sum::<u32>() > 0 && !is_reached {
            self.queue_copies(owner, pointer);
        }
    }

    fn claim_persisted(&mut self) {
        let persisted = &self.pool.persisted;
        let mut found: Vec<(Owner, Pointer)> = Vec::new();
        let manifest = persisted.manifest.iter();
        found.extend(manifest.map(|pointer| (Owner::Manifest, *pointer)));
        let lists = persisted.deferred.iter();
        found.extend(lists.map(|pointer| (Owner::DroppedList, *pointer)));
        for tables in [&persisted.pages, &persisted.index] {
            for (vdev, table) in (0..).zip(tables) {
                let pages = table.iter();
                found.extend(pages.map(|pointer| (Owner::SpaceMap { vdev }, *pointer)));
            }
        }
        for (owner, pointer) in found {
            self.claim_block(owner, &pointer);
        }
    }

    /// Claims blocks that the log put above the trees. Layers that several datasets share count
    /// once.
    fn claim_layers(&mut self) {
        let maps = self.pool.datasets_in_use().map(|(id, of)| (*id, &of.map));
        let dying = self.pool.destroyed.dying().iter();
        let maps = maps.chain(dying.map(|dying| (dying.map.tree.volume, &dying.map)));
        let mut seen = std::collections::BTreeSet::new();
        let mut found: Vec<(Owner, Pointer)> = Vec::new();
        let mut note = |dataset: DatasetId, layer: &Layer| {
            for (block, pointer) in layer.written(0..Layer::BLOCKS) {
                debug_assert_ne!(layer.get(block), Hit::Absent);
                found.push((Owner::Block { dataset, block }, pointer));
            }
        };
        for (dataset, map) in maps {
            for closed in map.layers.closed() {
                if seen.insert(Arc::as_ptr(closed) as usize) {
                    note(dataset, &closed.layer);
                }
            }
            note(dataset, map.layers.top());
        }
        for (owner, pointer) in found {
            self.claim_block(owner, &pointer);
        }
    }

    fn plan_dataset(&mut self, dataset: DatasetId) {
        let Some(of) = self.pool.contents_of(dataset) else {
            return;
        };
        let mut chain = self.pool.catalog().chain(dataset);
        let before_id = chain.next().map(|before| before.id);
        let before = before_id.and_then(|id| self.pool.contents_of(id));
        let after = self.pool.catalog().shared_until(dataset);
        let old = before.map_or(Tree::new(of.map.tree.volume), |of| of.map.tree);
        let shared = before.map_or(Referenced::NOTHING, |of| of.referenced);
        let descent = Descent::new((dataset, of.map.tree), (before_id, old), after);
        let mut epochs = vec![Epoch(0)];
        epochs.extend(self.pool.catalog().shared_epochs(dataset));
        let said = epochs.iter().map(|epoch| of.dead.after(*epoch));
        let (list, said) = (of.dead.clone(), said.collect());
        let sectors = epochs.into_iter().map(|epoch| (epoch, 0)).collect();
        self.tasks.push_back(Task::Tree { descent, shared });
        self.tasks.push_back(Task::Dead {
            dataset,
            list,
            sectors,
            said,
        });
        self.report.datasets += u64::from(self.stage == CheckStage::Walk);
    }

    /// Does a piece of the first task.
    pub(super) fn walk(&mut self) {
        let Some(task) = self.tasks.pop_front() else {
            return;
        };
        let rest = match task {
            Task::Tree { descent, shared } => self.walk_tree(descent, shared),
            Task::Dead {
                dataset,
                list,
                sectors,
                said,
            } => self.walk_dead(dataset, list, sectors, said),
            Task::Freeing(walk) => self.walk_freeing(walk),
            Task::FreeingList(list, are_blocks_freed) => {
                self.walk_freeing_list(list, are_blocks_freed)
            }
            Task::Log(records) => {
                self.walk_log(records);
                None
            }
        };
        if let Some(rest) = rest {
            self.tasks.push_front(rest);
        }
    }

    fn want_node(&mut self, owner: Owner, missing: Missing) {
        self.read(Wanted::Node(owner, missing), Block::from(&missing.pointer));
    }

    fn walk_tree(&mut self, mut descent: Descent, shared: Referenced) -> Option<Task> {
        let (dataset, after) = (descent.dataset, descent.after);
        let mut found = Vec::new();
        match descent.step(&mut self.pool.node_cache, &self.lost, &mut found) {
            Err(missing) => {
                let owner = node_owner(descent.owner_of(&missing), missing.id);
                self.want_node(owner, missing);
                return Some(Task::Tree { descent, shared });
            }
            Ok(true) => {}
            Ok(false) => {
                self.end_tree(&descent, shared);
                return None;
            }
        }
        for difference in found {
            let (owner, pointer) = match difference {
                Difference::OwnNode(id, pointer) => {
                    self.report.nodes += u64::from(self.stage == CheckStage::Walk);
                    (node_owner(dataset, id), pointer)
                }
                Difference::OwnBlock(block, pointer) => {
                    self.report.blocks += u64::from(self.stage == CheckStage::Walk);
                    (Owner::Block { dataset, block }, pointer)
                }
                Difference::SharedNode(id, pointer) => {
                    self.share_block(node_owner(dataset, id), &pointer);
                    continue;
                }
                Difference::SharedBlock(block, pointer) => {
                    self.share_block(Owner::Block { dataset, block }, &pointer);
                    continue;
                }
                Difference::DeadNode(pointer) => {
                    self.note_dead(dataset, &pointer);
                    continue;
                }
                Difference::DeadBlock(pointer) => {
                    self.note_dead(dataset, &pointer);
                    let (count, whole) = self.dead_counts.entry(pointer.birth).or_default();
                    count.blocks += 1;
                    count.sectors += pointer.stored_sectors();
                    *whole += u64::from(pointer.is_whole());
                    continue;
                }
            };
            if pointer.birth <= after {
                let extent = self.extent_at(pointer.address, pointer.sectors);
                let context = format!(
                    "born in epoch {}, but the snapshot of epoch {} does not have it at this place",
                    pointer.birth.0, after.0
                );
                self.find(FindingKind::WrongBirth, extent, owner, context);
            }
            self.claim_block(owner, &pointer);
        }
        Some(Task::Tree { descent, shared })
    }

    fn end_tree(&mut self, descent: &Descent, shared: Referenced) {
        let said = self.pool.contents_of(descent.dataset);
        let said = said.map_or(Referenced::NOTHING, |of| of.referenced);
        let sectors = (shared.sectors + descent.own_sectors).saturating_sub(descent.dead_sectors);
        let blocks = (shared.blocks)
            .map(|shared| (shared + descent.own_blocks).saturating_sub(descent.dead_blocks));
        let whole = (shared.whole)
            .map(|shared| (shared + descent.own_whole).saturating_sub(descent.dead_whole));
        let figures = [
            ("sectors", Some(said.sectors), Some(sectors)),
            ("blocks", said.blocks, blocks),
            ("blocks that are not packed", said.whole, whole),
        ];
        for (what, said, has) in figures {
            let Some((said, has)) = said.zip(has).filter(|(said, has)| said != has) else {
                continue;
            };
            if !self.is_to_be_told() {
                continue;
            }
            let context = format!(
                "dataset {} records {said} {what} but has {has}",
                descent.dataset.0
            );
            let kind = FindingKind::WrongReferenced;
            self.report.add(kind, None, &[], context);
        }
    }

    /// Notes a block that must be on the dead list; its first sector stands for it.
    fn note_dead(&mut self, dataset: DatasetId, pointer: &Pointer) {
        let first = Extent::at(pointer.address, 1);
        if self.dead.holds(first) && self.dead.set(first) == 0 {
            let context = "the previous snapshot has it twice".to_owned();
            let owner = Owner::DeadList { dataset };
            self.find(FindingKind::WrongDeadList, first, owner, context);
        }
    }

    fn walk_dead(
        &mut self,
        dataset: DatasetId,
        mut list: Deadlist,
        mut sectors: Vec<(Epoch, u64)>,
        said: Vec<Figure>,
    ) -> Option<Task> {
        let owner = Owner::DeadList { dataset };
        match self.take_next(&mut list) {
            Ok(None) => {
                self.end_dead(dataset, &sectors, &said);
                None
            }
            Ok(Some((blocks, chunks))) => {
                for chunk in chunks {
                    self.claim_block(owner, &chunk);
                }
                for pointer in blocks {
                    self.report.dead_blocks += u64::from(self.stage == CheckStage::Walk);
                    let part = sectors.partition_point(|(epoch, _)| *epoch < pointer.birth);
                    if let Some((_, sum)) = part.checked_sub(1).and_then(|at| sectors.get_mut(at)) {
                        *sum += pointer.stored_sectors();
                    }
                    let first = Extent::at(pointer.address, 1);
                    let is_dead = self.dead.holds(first) && self.dead.clear(first) == 1;
                    if !is_dead && !self.is_partial {
                        let context = "on the list, but the previous snapshot does not have it, or the \
                                       dataset still has it";
                        let (kind, context) = (FindingKind::WrongDeadList, context.to_owned());
                        self.find(kind, first, owner, context);
                    }
                }
                Some(Task::Dead {
                    dataset,
                    list,
                    sectors,
                    said,
                })
            }
            Err(Unread::Missing(pointer)) => {
                self.read(Wanted::Chunk(owner, pointer), Block::from(&pointer));
                Some(Task::Dead {
                    dataset,
                    list,
                    sectors,
                    said,
                })
            }
            Err(Unread::Damaged(pointer)) => {
                self.cannot_read(
                    owner,
                    &pointer,
                    "the figures of the chunk are wrong".to_owned(),
                );
                self.dead.take_all();
                self.dead_counts.clear();
                None
            }
        }
    }

    fn end_dead(&mut self, dataset: DatasetId, sectors: &[(Epoch, u64)], said: &[Figure]) {
        let owner = Owner::DeadList { dataset };
        for first in self.dead.take_all() {
            let context = "not on the list, although only the previous snapshot has it".to_owned();
            if !self.is_partial {
                self.find(FindingKind::WrongDeadList, first, owner, context);
            }
        }
        let counts = std::mem::take(&mut self.dead_counts);
        let mut sum = 0;
        for ((epoch, own), said) in sectors.iter().zip(said).rev() {
            sum += own;
            let born_after = counts.range(epoch.next()..).map(|(_, count)| count);
            let (blocks, whole) = born_after
                .fold(Default::default(), |sum: (BlockCount, u64), of| {
                    (sum.0.and(of.0), sum.1 + of.1)
                });
            let of_volumes = said.volume_blocks();
            let figures = [
                ("sectors", Some(said.sectors), sum),
                (
                    "blocks of volumes",
                    of_volumes.map(|of| of.blocks),
                    blocks.blocks,
                ),
                (
                    "sectors of these blocks",
                    of_volumes.map(|of| of.sectors),
                    blocks.sectors,
                ),
                ("blocks that are not packed", said.whole_blocks(), whole),
            ];
            for (what, said, has) in figures {
                let Some(said) = said.filter(|said| *said != has && self.is_to_be_told()) else {
                    continue;
                };
                let context = format!(
                    "it records {said} {what} born after epoch {} but has {has}",
                    epoch.0
                );
                let kind = FindingKind::WrongDeadList;
                self.report.add(kind, None, &[owner], context);
            }
        }
    }

    /// Reports whether figures that differ are a finding, and one that was not reported already.
    fn is_to_be_told(&self) -> bool {
        !self.is_partial && self.stage == CheckStage::Walk
    }

    fn walk_freeing(&mut self, mut walk: Walk) -> Option<Task> {
        let mut found: Vec<Pointer> = Vec::new();
        let mut one = 1;
        let progress = self.pool.walk_on(&mut walk, &mut one, |visit| {
            let (Visit::Block { pointer, .. } | Visit::Node { pointer, .. }) = visit;
            found.push(pointer);
        });
        for pointer in found.into_iter().filter(|found| !found.is_lost()) {
            self.claim_copies(Owner::Freeing, &pointer);
        }
        match progress {
            Ok(Progress::Done) => None,
            Ok(Progress::More) => Some(Task::Freeing(walk)),
            Err(missing) => {
                self.want_node(Owner::Freeing, missing);
                Some(Task::Freeing(walk))
            }
        }
    }

    fn walk_freeing_list(&mut self, mut list: Deadlist, are_blocks_freed: bool) -> Option<Task> {
        match self.take_next(&mut list) {
            Ok(None) => None,
            Ok(Some((blocks, chunks))) => {
                let blocks = blocks.into_iter().filter(|_| are_blocks_freed);
                for pointer in blocks.chain(chunks) {
                    self.claim_copies(Owner::Freeing, &pointer);
                }
                Some(Task::FreeingList(list, are_blocks_freed))
            }
            Err(Unread::Missing(pointer)) => {
                let wanted = Wanted::Chunk(Owner::Freeing, pointer);
                self.read(wanted, Block::from(&pointer));
                Some(Task::FreeingList(list, are_blocks_freed))
            }
            Err(Unread::Damaged(pointer)) => {
                let context = "the figures of the chunk are wrong".to_owned();
                self.cannot_read(Owner::Freeing, &pointer, context);
                None
            }
        }
    }

    /// Takes the next blocks of a list, and the chunks in which they lay.
    #[expect(clippy::type_complexity, reason = "blocks and chunks")]
    fn take_next(
        &mut self,
        list: &mut Deadlist,
    ) -> Result<Option<(Vec<Pointer>, Vec<Pointer>)>, Unread> {
        let mut unreadable = None;
        let chunks = &mut self.chunks;
        let taken = list.take_next(|at| match chunks.remove(&at.address.to_bits()) {
            Some(None) => {
                unreadable = Some(*at);
                None
            }
            found => found.flatten(),
        });
        if let Some(pointer) = unreadable {
            return Err(Unread::Damaged(pointer));
        }
        Ok(taken?.map(|taken| (taken.blocks, taken.chunks)))
    }
}

fn node_owner(dataset: DatasetId, id: NodeId) -> Owner {
    Owner::Node {
        dataset,
        level: id.level,
        index: id.index,
    }
}
