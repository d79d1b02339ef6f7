//! Gathers the batches of a scan: a walk collects pointers until there are enough, or until
//! something has to be read first.
//!
//! An unreadable node or list hides what it leads to, and nothing else.

use pages::Pages;

use super::targets::{Pause, Place, ScanTarget, Target, Walking};
use crate::engine::io::wanted::NodeWaiter;
use crate::engine::state::Pool;
use crate::engine::tags::Tag;
use crate::format::list::Chunk;
use crate::format::{Address, DatasetId, Epoch, Pointer};
use crate::map::Missing;
use crate::map::walk::{Progress, Visit, Walk};
use crate::snapshot::deadlist::{Deadlist, Unread};
use crate::vdev::{ArrayError, Block, Priority};

impl Pool {
    /// Fills the next batch, in the order of addresses.
    pub(super) fn gather(&mut self) -> Result<(), Pause> {
        let checkpoints = self.checkpoints_made();
        let Some(scan) = &mut self.scans.present else {
            return Ok(());
        };
        if !std::mem::take(&mut scan.is_gathering) {
            scan.batch_checkpoints = checkpoints;
            scan.batch_targets.clear();
            // The lists may have changed by now, and so may the tree, so the walk continues in the
            // present one.
            scan.give_lists_back();
            if let Some((target, walking)) = scan.walking.take() {
                scan.targets.push_front(target.at(&walking));
            }
        }
        let gathered = self.gather_some();
        if let Some(scan) = &mut self.scans.present {
            scan.is_gathering = gathered.is_err();
            let epoch = scan.epoch;
            scan.batch
                .retain(|ScanTarget { pointer, .. }| pointer.birth <= epoch && !pointer.is_lost());
            scan.batch
                .sort_unstable_by_key(|found| found.pointer.address);
        }
        gathered
    }

    fn gather_some(&mut self) -> Result<(), Pause> {
        while let Some(scan) = &mut self.scans.present {
            // A list is taken as a whole: the next batch could not continue from a place in it.
            let is_in_list = matches!(scan.walking, Some((_, Walking::Dead(_))));
            if scan.batch.len() >= scan.most && !is_in_list {
                return Ok(());
            }
            let Some((target, walking)) = scan.walking.take() else {
                if let Some((id, list)) = scan.lists.pop_front() {
                    let target = Target::Dead(id);
                    scan.batch_targets.push(target.clone());
                    scan.walking = Some((target, Walking::Dead(list)));
                    continue;
                }
                if matches!(scan.targets.front(), Some(Target::Dead(_))) {
                    // A partial batch is worked off first.
                    match scan.batch.is_empty() {
                        true => return Err(Pause::Checkpoint),
                        false => return Ok(()),
                    }
                }
                let Some(target) = scan.targets.pop_front() else {
                    return Ok(());
                };
                self.begin_target(target);
                continue;
            };
            if let Some(pause) = self.walk_target(target, walking) {
                return Err(pause);
            }
        }
        Ok(())
    }

    fn begin_target(&mut self, target: Target) {
        let walking = match &target {
            Target::Tables => {
                let tables = &self.persisted;
                let pages = tables.pages.iter().chain(&tables.index).flatten();
                let rest = tables.manifest.iter().chain(&tables.deferred);
                let all = pages.chain(rest).filter(|pointer| !pointer.is_hole());
                if let Some(scan) = &mut self.scans.present {
                    scan.batch.extend(all.copied().map(ScanTarget::elsewhere));
                    scan.batch_targets.push(target);
                }
                return;
            }
            Target::Dataset {
                id,
                after,
                position,
            } => self
                .contents_of(*id)
                .map(|of| Walking::Tree(Walk::new(&of.map.tree, *position, Some(*after)))),
            // Lists are walked between checkpoints.
            Target::Dead(_) => None,
        };
        if let (Some(scan), Some(walking)) = (&mut self.scans.present, walking) {
            scan.batch_targets.push(target.clone());
            scan.walking = Some((target, walking));
        }
    }

    /// Visits a part of a target.
    fn walk_target(&mut self, target: Target, walking: Walking) -> Option<Pause> {
        match (&target, walking) {
            (Target::Dataset { id, .. }, Walking::Tree(walk)) => {
                let dataset = *id;
                self.walk_tree(target, dataset, walk)
            }
            (_, Walking::Tree(_)) => None,
            (_, Walking::Dead(list)) => self.walk_list(target, list),
        }
    }

    fn walk_tree(&mut self, target: Target, dataset: DatasetId, mut walk: Walk) -> Option<Pause> {
        let mut found = Vec::new();
        let mut note = |visit| {
            let (pointer, place) = match visit {
                Visit::Block { index, pointer } => (pointer, Place::of_block(dataset, index)),
                Visit::Node { id, pointer } => (pointer, Place::of_node(dataset, id)),
            };
            let place = Some(place);
            found.push(ScanTarget { pointer, place });
        };
        let mut budget = self.limits().budget;
        let progress = self.walk_on(&mut walk, &mut budget, &mut note);
        let (mut pause, mut lost) = (None, None);
        if let Err(missing) = progress {
            if self.is_unreadable(&missing.pointer) {
                // The blocks below this node cannot be found.
                walk.pass_over(note);
                lost = Some(Place::of_node(dataset, missing.id));
            } else {
                pause = Some(Pause::Node(missing));
            }
        }
        if lost.is_some() {
            self.lose_all(lost);
        }
        let scan = self.scans.present.as_mut()?;
        scan.batch.append(&mut found);
        if progress != Ok(Progress::Done) {
            scan.walking = Some((target, Walking::Tree(walk)));
        }
        pause
    }

    fn walk_list(&mut self, target: Target, mut list: Deadlist) -> Option<Pause> {
        let scan = self.scans.present.as_mut()?;
        let taken = list.take_next(|wanted| {
            let (_, chunk) = scan.chunk.take_if(|(of, _)| *of == identity(wanted))?;
            Some(chunk)
        });
        let mut pause = None;
        match taken {
            Ok(None) => return None,
            Ok(Some(taken)) => {
                let scan = self.scans.present.as_mut()?;
                let chunks = taken.chunks.into_iter();
                scan.batch.extend(chunks.map(ScanTarget::elsewhere));
            }
            Err(Unread::Missing(pointer)) if !self.is_unreadable(&pointer) => {
                pause = Some(Pause::Chunk(pointer));
            }
            // The blocks after this one on the list cannot be found. If the chunk's checksum was
            // right but its contents are invalid, no scan can mend that.
            Err(Unread::Missing(_) | Unread::Damaged(_)) => {
                self.lose_all(None);
                return None;
            }
        }
        self.scans.present.as_mut()?.walking = Some((target, Walking::Dead(list)));
        pause
    }

    /// Reports whether the block was found to be unreadable.
    fn is_unreadable(&self, pointer: &Pointer) -> bool {
        let scan = self.scans.present.as_ref();
        scan.is_some_and(|scan| scan.unreadable.contains(&identity(pointer)))
    }

    pub(super) fn wait_for_scan(&mut self, pause: Pause) {
        let Some(scan) = &mut self.scans.present else {
            return;
        };
        scan.waits_for_checkpoint = matches!(pause, Pause::Checkpoint);
        scan.awaited = match &pause {
            Pause::Checkpoint => None,
            Pause::Node(Missing { pointer, .. }) | Pause::Chunk(pointer) => Some(identity(pointer)),
        };
        let number = scan.number;
        match pause {
            Pause::Checkpoint => {}
            Pause::Node(missing) => self.read_node(missing, NodeWaiter::Scan(number)),
            Pause::Chunk(pointer) => {
                let tag = self.tag(Tag::ScanChunk(number));
                let block = Block::from(&pointer);
                self.fetch_block(tag, block, Priority::Background);
            }
        }
    }

    /// Takes a part of a dead list that was read, or the error.
    pub(in crate::engine) fn scan_chunk_read(
        &mut self,
        number: u64,
        result: Result<Pages, ArrayError>,
    ) {
        let chunk = result.ok().and_then(|block| Chunk::decode(&block));
        let awaited = self.scan_has_read(number, chunk.is_some());
        if let (Some(scan), Some(of)) = (&mut self.scans.present, awaited) {
            scan.chunk = chunk.map(|chunk| (of, chunk));
        }
    }

    /// Notes that the block which a scan waited for has come, or cannot be read. Returns its
    /// identity, if the scan still continues.
    pub(in crate::engine) fn scan_has_read(
        &mut self,
        number: u64,
        is_readable: bool,
    ) -> Option<(Address, Epoch)> {
        let scan = self
            .scans
            .present
            .as_mut()
            .filter(|scan| scan.number == number)?;
        let awaited = scan.awaited.take()?;
        if !is_readable {
            scan.unreadable.insert(awaited);
        }
        Some(awaited)
    }

    /// Throws away a batch that took too long, since its places may hold other blocks by now.
    pub(super) fn gather_again(&mut self) {
        let checkpoints = self.checkpoints_made();
        let Some(scan) = &mut self.scans.present else {
            return;
        };
        scan.again = scan.again.max(scan.batch.len());
        scan.batch.clear();
        scan.next = 0;
        scan.status.examined_sectors -= std::mem::take(&mut scan.batch_examined);
        scan.batch_lost.clear();
        scan.batch_short.clear();
        scan.walking = None;
        scan.give_lists_back();
        scan.is_gathering = false;
        scan.most = (scan.most / 2).max(1);
        scan.batch_checkpoints = checkpoints;
        for target in scan.batch_targets.drain(..).rev() {
            scan.targets.push_front(target);
        }
    }
}

/// Identifies a block: two that lie in the same place one after the other are born in different
/// epochs.
pub(super) fn identity(pointer: &Pointer) -> (Address, Epoch) {
    (pointer.address, pointer.birth)
}
