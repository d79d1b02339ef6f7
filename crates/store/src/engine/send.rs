//! Answers questions of a stream's sender: the differences between two snapshots, and stored
//! blocks, which need not be compressed anew.
//!
//! Every question stands alone, and may start at any block. So a sender keeps a block number, and
//! continues from there after any interruption.

use pages::Pages;

use crate::engine::io::pending::Pending;
use crate::engine::io::wanted::NodeWaiter;
use crate::engine::request::{
    Answer, Changes, PoolError, PoolErrorKind, RequestId, Stored, WantedChanges,
};
use crate::engine::state::Pool;
use crate::engine::tags::Tag;
use crate::format::{DatasetId, Pointer};
use crate::map::walk::Progress;
use crate::map::{Change, Diff, Tree};
use crate::vdev::{ArrayError, Block, Priority};

/// Number of differences after which an answer is given. The answer may hold a leaf more.
const ENOUGH: usize = 1024;
/// Most pairs of nodes that are compared for one answer, unless no difference was found.
const PAIRS: usize = 8;

impl Pool {
    pub(in crate::engine) fn begin_changes(&mut self, id: RequestId, wanted: WantedChanges) {
        let pending = self.pending.next_number();
        let changes = Pending::Changes { id, wanted };
        self.pending.insert(pending, changes);
        self.tell_changes(pending);
    }

    /// Answers which blocks differ, once all nodes that say so are in memory.
    pub(in crate::engine) fn tell_changes(&mut self, pending: u64) {
        let Some(Pending::Changes { id, wanted }) = self.pending.get(pending) else {
            return;
        };
        let (id, wanted) = (*id, *wanted);
        let (older, newer, blocks) = match self.compared(wanted) {
            Ok(Some(compared)) => compared,
            Ok(None) => {
                if let Some(error) = self.suspension() {
                    self.pending.remove(pending);
                    return self.answer(id, Err(error));
                }
                self.ask_after_checkpoint(pending);
                return;
            }
            Err(error) => {
                self.pending.remove(pending);
                return self.answer(id, Err(error));
            }
        };
        let mut diff = Diff::new(older, newer, wanted.start);
        let mut changes = Vec::new();
        let mut pairs = 0;
        let next = loop {
            let position = diff.position();
            let is_further = position > wanted.start;
            if position >= blocks && is_further {
                break None;
            }
            if is_further && (changes.len() >= ENOUGH || pairs >= PAIRS) {
                break Some(position);
            }
            pairs += 1;
            match self.compare_on(&mut diff, |change| changes.push(change)) {
                Ok(Progress::Done) => break None,
                Ok(Progress::More) => {}
                Err(_) if is_further => break Some(position),
                Err(missing) => return self.read_node(missing, NodeWaiter::Changes(pending)),
            }
        };
        self.pending.remove(pending);
        let changes = changes.into_iter();
        let changes = changes
            .filter_map(|change| within(change, blocks))
            .collect();
        self.answer(id, Ok(Answer::Changes(Changes { changes, next })));
    }

    /// Returns the trees to be compared, and the number of blocks that count; `None` if the trees
    /// do not hold all yet.
    fn compared(&self, wanted: WantedChanges) -> Result<Option<(Tree, Tree, u64)>, PoolError> {
        let find = |dataset: DatasetId| {
            self.contents_of(dataset)
                .filter(|_| self.is_snapshot(dataset))
                .ok_or_else(gone)
        };
        let to = find(wanted.to)?;
        let from = wanted.from.map(find).transpose()?;
        if let Some(id) = wanted.from
            && !self.catalog().chain(wanted.to).any(|older| older.id == id)
        {
            let context = "the snapshot does not build on the snapshot that it is compared with";
            return Err(PoolError::new(PoolErrorKind::Invalid, context));
        }
        let is_settled = to.map.layers.is_empty() && from.is_none_or(|of| of.map.layers.is_empty());
        if !is_settled {
            return Ok(None);
        }
        let older = from.map_or_else(|| Tree::new(to.map.tree.volume), |of| of.map.tree);
        let blocks = to.size / u64::from(to.block_size);
        Ok(Some((older, to.map.tree, blocks)))
    }

    fn is_snapshot(&self, dataset: DatasetId) -> bool {
        let found = self.catalog().dataset(dataset);
        found.is_some_and(|of| of.as_snapshot().is_some())
    }

    /// Resumes the questions that waited for a checkpoint.
    pub(in crate::engine) fn changes_are_settled(&mut self) {
        for pending in self.take_questions() {
            self.tell_changes(pending);
        }
    }

    /// Takes the questions that wait for a checkpoint, since none will be made any more.
    pub(in crate::engine) fn give_up_unsettled(&mut self) -> Vec<RequestId> {
        let waiting = self.take_questions().into_iter();
        let given_up = waiting.filter_map(|pending| self.pending.remove(pending)?.questioner());
        given_up.collect()
    }

    pub(in crate::engine) fn begin_stored(
        &mut self,
        id: RequestId,
        dataset: DatasetId,
        block: u64,
    ) {
        let pending = self.pending.next_number();
        let stored = Pending::Stored {
            id,
            dataset,
            block,
            pointer: Pointer::HOLE,
        };
        self.pending.insert(pending, stored);
        self.find_stored(pending);
    }

    /// Reads a block of a snapshot, once its place is known.
    pub(in crate::engine) fn find_stored(&mut self, pending: u64) {
        let Some(Pending::Stored { dataset, block, .. }) = self.pending.get(pending) else {
            return;
        };
        let (dataset, block) = (*dataset, *block);
        let is_snapshot = self.is_snapshot(dataset);
        let found = match is_snapshot.then(|| self.look_up(dataset, block)).flatten() {
            None => return self.answer_stored(pending, Err(gone())),
            Some(Ok(found)) => found,
            Some(Err(missing)) => return self.read_node(missing, NodeWaiter::Stored(pending)),
        };
        if found.is_hole() {
            let context = format!("block {block} is not stored: it is a hole");
            let error = PoolError::new(PoolErrorKind::Invalid, context);
            return self.answer_stored(pending, Err(error));
        }
        if found.is_lost() {
            let context = format!(
                "block {block} is lost: no correct copy of the maps that lead to it is left"
            );
            let error = PoolError::new(PoolErrorKind::Damaged, context);
            return self.answer_stored(pending, Err(error));
        }
        if let Some(payload) = self.payload_in_flight(&found) {
            return self.answer_stored(pending, Ok(payload));
        }
        if let Some(Pending::Stored { pointer, .. }) = self.pending.get_mut(pending) {
            *pointer = found;
        }
        let tag = self.tag(Tag::Stored(pending));
        let block = Block::from(&found);
        self.fetch_block(tag, block, Priority::Background);
    }

    /// Returns a block that is still being written, not compressed.
    fn payload_in_flight(&self, pointer: &Pointer) -> Option<Stored> {
        let payload = self.in_flight(pointer.address)?.clone();
        let compression = crate::format::Compression::Off;
        Some(Stored {
            compression,
            payload,
        })
    }

    /// Takes a block of a snapshot that was read, or the error.
    pub(in crate::engine) fn stored_read(
        &mut self,
        pending: u64,
        result: Result<Pages, ArrayError>,
    ) {
        let Some(Pending::Stored {
            dataset,
            block,
            pointer,
            ..
        }) = self.pending.get(pending)
        else {
            return;
        };
        let compression = pointer.compression;
        if crate::engine::io::read::is_overwritten(&result) {
            return self.find_stored(pending);
        }
        // A dataset that was destroyed meanwhile may have been overwritten.
        let stored = match self.contents_of(*dataset).is_some() {
            false => Err(gone()),
            true => result
                .map(|payload| Stored {
                    compression,
                    payload,
                })
                .map_err(|error| {
                    PoolError::of_array(error, format!("block {block} cannot be read"))
                }),
        };
        self.answer_stored(pending, stored);
    }

    fn answer_stored(&mut self, pending: u64, stored: Result<Stored, PoolError>) {
        let waiting = self.pending.remove(pending);
        if let (Err(error), Some(Pending::Stored { dataset, block, .. })) = (&stored, &waiting)
            && error.kind == PoolErrorKind::Damaged
        {
            let lost = error.lost.clone().unwrap_or(*block..*block + 1);
            self.tell_lost_blocks(*dataset, Some(lost));
        }
        if let Some(id) = waiting.and_then(|waiting| waiting.questioner()) {
            self.answer(id, stored.map(Answer::Stored));
        }
    }
}

/// Cuts a difference to the part below `blocks`; `None` if there is none.
fn within(change: Change, blocks: u64) -> Option<Change> {
    match change {
        Change::Block { index, .. } => (index < blocks).then_some(change),
        Change::Holes(range) => {
            let range = range.start..range.end.min(blocks);
            (!range.is_empty()).then_some(Change::Holes(range))
        }
    }
}

fn gone() -> PoolError {
    let context = "the snapshot does not exist; it may have been destroyed meanwhile";
    PoolError::new(PoolErrorKind::NotFound, context)
}
