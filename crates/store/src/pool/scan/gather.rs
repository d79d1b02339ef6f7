//! The batches of a scan: walking gathers pointers until there are enough of them, or until something has to be read first.
//! What cannot be read hides what it leads to, and nothing else.

use pages::Pages;

use super::targets::{Found, Pause, Place, Target, Walking};
use crate::format::list::Chunk;
use crate::format::node::NodeId;
use crate::format::{Address, Pointer};
use crate::map::walk::{Progress, Visit, Walk};
use crate::pool::read::NodeWaiter;
use crate::pool::state::{Pool, Tag};
use crate::snapshot::deadlist::Unread;
use crate::vdev::{ArrayError, Block, Priority};

impl Pool {
    /// Fills the next batch, in the order of addresses.
    pub(super) fn gather(&mut self) -> Result<(), Pause> {
        let checkpoints = self.checkpoints;
        let Some(scan) = &mut self.scan else {
            return Ok(());
        };
        if !std::mem::take(&mut scan.is_gathering) {
            scan.batch_checkpoints = checkpoints;
            scan.batch_targets.clear();
            // Lists may be others by now, and so may its tree: it is walked on in that.
            scan.give_lists_back();
            if let Some((target, walking)) = scan.walking.take() {
                scan.targets.push_front(target.at(&walking));
            }
        }
        let gathered = self.gather_some();
        if let Some(scan) = &mut self.scan {
            scan.is_gathering = gathered.is_err();
            let epoch = scan.epoch;
            scan.batch
                .retain(|Found { pointer, .. }| pointer.birth <= epoch && !pointer.is_lost());
            scan.batch
                .sort_unstable_by_key(|found| found.pointer.address);
        }
        gathered
    }

    fn gather_some(&mut self) -> Result<(), Pause> {
        while let Some(scan) = &mut self.scan {
            // A list is taken as a whole: where one is at is nothing that the next batch could go on from.
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
                    // What there is of a batch is worked off first.
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
                if let Some(scan) = &mut self.scan {
                    scan.batch.extend(all.copied().map(Found::elsewhere));
                    scan.batch_targets.push(target);
                }
                return;
            }
            Target::Dataset {
                id,
                after,
                position,
            } => self
                .contents
                .get(id)
                .map(|of| Walking::Tree(Walk::new(&of.map.tree, *position, Some(*after)))),
            // Lists come between checkpoints.
            Target::Dead(_) => None,
        };
        if let (Some(scan), Some(walking)) = (&mut self.scan, walking) {
            scan.batch_targets.push(target.clone());
            scan.walking = Some((target, walking));
        }
    }

    /// Visits some of a target.
    fn walk_target(&mut self, target: Target, mut walking: Walking) -> Option<Pause> {
        let mut found = Vec::new();
        let mut is_damaged = false;
        let (is_over, pause) = match &mut walking {
            Walking::Tree(walk) => {
                let mut budget = self.limits.budget;
                let Target::Dataset { id: dataset, .. } = target else {
                    return None;
                };
                let progress = walk.step(&mut self.nodes, &mut budget, |visit| {
                    let (pointer, place) = match visit {
                        Visit::Block { index, pointer } => {
                            (pointer, Place::of_block(dataset, index))
                        }
                        Visit::Node { id, pointer } => (pointer, Place::of_node(dataset, id)),
                    };
                    let place = Some(place);
                    found.push(Found { pointer, place });
                });
                match progress {
                    Ok(Progress::Done) => (true, None),
                    Ok(Progress::More) => (false, None),
                    Err(missing) => (false, Some(Pause::Node(missing))),
                }
            }
            Walking::Dead(list) => {
                let read = self.scan.as_mut().and_then(|scan| scan.chunk.take());
                let read = |wanted: &Pointer| {
                    let read = read.filter(|(at, _)| *at == wanted.address);
                    read.map(|(_, chunk)| chunk)
                };
                match list.take_next(read) {
                    Ok(None) => (true, None),
                    Ok(Some(taken)) => {
                        found = taken.chunks.into_iter().map(Found::elsewhere).collect();
                        (false, None)
                    }
                    Err(Unread::Missing(pointer)) => (false, Some(Pause::Chunk(pointer))),
                    Err(Unread::Damaged(_)) => {
                        // Its checksum was right and it is nothing that belongs here: no scan can mend that.
                        is_damaged = true;
                        (true, None)
                    }
                }
            }
        };
        if is_damaged {
            self.count_unreachable();
        }
        let scan = self.scan.as_mut()?;
        scan.batch.append(&mut found);
        if !is_over {
            scan.walking = Some((target, walking));
        }
        pause
    }

    pub(super) fn wait_for_scan(&mut self, pause: Pause) {
        let Some(scan) = &mut self.scan else { return };
        scan.waits_for_checkpoint = matches!(pause, Pause::Checkpoint);
        scan.is_waiting = !scan.waits_for_checkpoint;
        let number = scan.number;
        match pause {
            Pause::Checkpoint => {}
            Pause::Node(missing) => self.read_node(missing, NodeWaiter::Scan(number)),
            Pause::Chunk(pointer) => {
                let tag = self.tag(Tag::ScanChunk {
                    scan: number,
                    at: pointer.address,
                });
                let block = Block::from(&pointer);
                let (now, out) = (self.now_us, &mut self.array_output);
                self.array.read(tag, block, Priority::Background, now, out);
            }
        }
    }

    /// A part of a dead list was read, or cannot be.
    pub(in crate::pool) fn scan_chunk_read(
        &mut self,
        number: u64,
        at: Address,
        result: Result<Pages, ArrayError>,
    ) {
        let chunk = result.ok().and_then(|block| Chunk::decode(&block));
        let is_readable = chunk.is_some();
        if let Some(scan) = self.scan.as_mut().filter(|scan| scan.number == number) {
            scan.chunk = chunk.map(|chunk| (at, chunk));
        }
        if self.scan_waited(number) && !is_readable {
            self.give_up_walk();
        }
    }

    /// A node that was waited for is here, or cannot be read: the walk goes on behind what it leads to.
    pub(in crate::pool) fn scan_has_node(&mut self, number: u64, node: NodeId, is_readable: bool) {
        if !self.scan_waited(number) || is_readable {
            return;
        }
        let Some(target) = self.give_up_walk() else {
            return;
        };
        if let Target::Dataset { id, after, .. } = target
            && !self.is_batch_old()
            && let Some(of) = self.contents.get(&id)
        {
            let place = Place::of_node(id, node);
            let rest = Walk::new(&of.map.tree, place.blocks().end, Some(after));
            if let Some(scan) = &mut self.scan {
                scan.walking = Some((target, Walking::Tree(rest)));
            }
            self.tell_unrecoverable(Some(place));
        }
    }

    /// Whether the scan of this number waited for what came.
    fn scan_waited(&mut self, number: u64) -> bool {
        let scan = self.scan.as_mut().filter(|scan| scan.number == number);
        scan.is_some_and(|scan| std::mem::take(&mut scan.is_waiting) && scan.is_active())
    }

    fn give_up_walk(&mut self) -> Option<Target> {
        let given_up = self.scan.as_mut()?.walking.take();
        self.count_unreachable();
        given_up.map(|(target, _)| target)
    }

    /// What a node or a part of a list leads to cannot be found; the rest goes on. Where the batch is old, it may be free
    /// by now, and is looked for again otherwise.
    fn count_unreachable(&mut self) {
        let is_old = self.is_batch_old();
        if let Some(scan) = self.scan.as_mut().filter(|_| !is_old) {
            scan.status.unrecoverable += 1;
        }
    }

    /// The batch took too long: what it names may be something else by now.
    pub(super) fn gather_again(&mut self) {
        let Some(scan) = &mut self.scan else { return };
        scan.batch.clear();
        scan.next = 0;
        scan.status.examined_sectors -= std::mem::take(&mut scan.batch_examined);
        scan.walking = None;
        scan.give_lists_back();
        scan.is_gathering = false;
        scan.most = (scan.most / 2).max(1);
        scan.batch_checkpoints = self.checkpoints;
        for target in scan.batch_targets.drain(..).rev() {
            scan.targets.push_front(target);
        }
    }
}
